"""Copulas by column name: dependence without margins, and margins of the user's own."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from marginals.columns import Column, Continuous, Schema, decode, encode
from marginals.columns.table_coercion import as_frame
from marginals.densities import Density
from marginals.queries.copula import Copula
from marginals.queries.estimate import Estimate
from marginals.queries.margins import glued

if TYPE_CHECKING:
    from marginals.queries.table_density import TableView


class Copulas(ABC):
    """Questions about dependence apart from margins."""

    @abstractmethod
    def _parts(self) -> tuple[Density, Schema]:
        """Return the density on the model's scale and the schema of its columns."""

    @abstractmethod
    def _kind(self) -> str:
        """Return what was fitted, "frame", "array" or "tensor": samples come back as that."""

    def copula(self, columns: Any = None) -> "TableCopula":
        """Return the copula of continuous columns, by default of all; others are marginalised.

        Of a rounded column it is that of the number before rounding. Integers, categories and
        columns with atoms have no unique copula: leave them out, or condition on them first, as in
        `model.condition({"city": "Oslo"}).copula(["x", "y"])`.
        """
        density, schema = self._parts()
        return TableCopula(density, schema, _continuous(schema, columns), self._kind())

    def with_margins(self, margins: Mapping[Any, Any]) -> "TableView":
        """Return a view with the same copula, and other margins glued onto some columns.

        Args:
            margins: by column, a continuous distribution with the methods of a frozen one of scipy:
                `cdf`, `sf`, `ppf`, `isf` and `logpdf`. The column's values are then its values.

        All questions are answered for the new values, of evidence too; the dependence of the
        columns, and so their mutual information, stays as it is. On a view the margin replaced is
        that of the view, given its evidence. A file cannot hold such a distribution: save the model
        and glue it on again.
        """
        from marginals.queries.table_density import TableView

        density, schema = self._parts()
        return TableView(density, glued(density, schema, margins), self._kind())


@final
class TableCopula:
    """The copula of continuous columns of a table, asked by their names.

    Levels `u` are a dict, which has one answer, a DataFrame with some of the columns, or an array
    or tensor with all of them; NaN and columns left out are marginalised. It answers in float64,
    whatever the model was fitted in.

    Args:
        density: on the model's scale; a copy is made.
        schema: of its columns.
        positions: of the columns to speak of.
        kind: what samples come back as, "frame", "array" or "tensor".
    """

    def __init__(
        self, density: Density, schema: Schema, positions: Sequence[int], kind: str = "frame"
    ) -> None:
        self.module_ = Copula(copy.deepcopy(density).double(), positions)
        self.schema_ = Schema(tuple(schema.columns[i] for i in positions))
        self._fitted_kind = kind

    def __repr__(self) -> str:
        return f"TableCopula({', '.join(map(str, self.schema_.names))})"

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return self.schema_.names

    # C, c and h -------------------------------------------------------------------------------

    def cdf(self, u: Any) -> Any:
        """Return C(u) = P(every U_j <= u_j)."""
        return self._answer(self.module_.cdf, u)

    def logcdf(self, u: Any) -> Any:
        """Return log C(u)."""
        return self._answer(self.module_.logcdf, u)

    def sf(self, u: Any) -> Any:
        """Return P(every U_j > u_j)."""
        return self._answer(self.module_.sf, u)

    def pdf(self, u: Any) -> Any:
        """Return the density c(u); 0 on the faces of the cube."""
        return self._answer(self.module_.pdf, u)

    def logpdf(self, u: Any) -> Any:
        """Return the log density; -inf on the faces of the cube."""
        return self._answer(self.module_.logpdf, u)

    def h(self, u: Any, of: Any, given: Any) -> Any:
        """Return the h-function P(U_of <= u_of | U_given = u_given).

        Args:
            u: levels of these columns; others are not read.
            of: one column or several, whose joint CDF is asked for.
            given: one column or several, held at their levels strictly between 0 and 1.
        """
        asked, known = self.schema_.positions(of), self.schema_.positions(given)
        levels, wrap = self._levels(u)
        for i in (*asked, *known):
            if bool(levels[:, i].isnan().all()) and len(levels):
                raise ValueError(
                    f"Expected `u` to hold levels of column {self.names[i]!r}; got none. Add it, "
                    "or leave it out of `of` and `given`."
                )
        return wrap(self.module_.h(levels, asked, known).cpu())

    # Levels and values ------------------------------------------------------------------------

    def sample(
        self, n: int = 1, given: Mapping[Any, Any] | None = None, random_state: Any = None
    ) -> Any:
        """Draw points of the unit cube.

        Args:
            n: their number.
            given: by column, a level or an interval of levels (low, high), None for an end.
            random_state: of the draws.
        """
        known = {self.schema_.index(name): cell for name, cell in (given or {}).items()}
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        device = next(self.module_.density.parameters()).device
        generator = torch.Generator(device).manual_seed(seed)
        return self._table(self.module_.sample(n, known, generator))

    def levels(self, x: Any) -> pd.DataFrame:
        """Return the levels u_j = F_j(x_j) of the cells of a table, NaN where missing.

        Of a rounded or censored cell it is the middle of its levels. Columns that the copula does
        not speak of are left out.
        """
        frame = as_frame(x, list(self.names))
        kept = [name for name in frame.columns if name in self.names]
        if not kept:
            raise ValueError(
                f"Expected `x` to have some of the columns {list(self.names)}; got "
                f"{list(frame.columns)[:8]}. Add one."
            )
        cells = encode(self.schema_, frame[kept]).evidence
        low, high = (self.module_.levels(end, cells.columns) for end in (cells.lower, cells.upper))
        return pd.DataFrame(((low + high) / 2).cpu().numpy(), index=frame.index, columns=kept)

    def values(self, u: Any) -> pd.DataFrame:
        """Return the values x_j = F_j^{-1}(u_j) of levels, in the columns' units."""
        levels, _ = self._levels(u)
        return decode(self.schema_, self.module_.quantiles(levels).cpu())

    # Pairs ------------------------------------------------------------------------------------

    def kendall_tau(self, a: Any, b: Any, points: int = 1024, random_state: int = 0) -> Estimate:
        """Return Kendall's tau of two columns, with its standard error.

        See `marginals.queries.rank_correlations` for the arguments.
        """
        return self.module_.kendall_tau(*self._pair(a, b), points, random_state)

    def spearman_rho(self, a: Any, b: Any, points: int = 1024, random_state: int = 0) -> Estimate:
        """Return Spearman's rho of two columns, with its standard error.

        See `marginals.queries.rank_correlations` for the arguments.
        """
        return self.module_.spearman_rho(*self._pair(a, b), points, random_state)

    def lower_tail(self, a: Any, b: Any, q: Any = 0.01) -> Any:
        """Return P(U_b <= q | U_a <= q) at a threshold, or at an array of them.

        It is exact for the model at each q, and worth as much as the data say there: some hundred
        rows should lie below q. Its limit as q falls to 0 is 0 for every model of this library,
        which has finitely many components; that says nothing of the data's own limit.
        """
        return _plain(self.module_.lower_tail(*self._pair(a, b), _thresholds(q)))

    def upper_tail(self, a: Any, b: Any, q: Any = 0.01) -> Any:
        """Return P(U_b > 1 - q | U_a > 1 - q); see `lower_tail`."""
        return _plain(self.module_.upper_tail(*self._pair(a, b), _thresholds(q)))

    def pairs(self, q: float = 0.05, points: int = 1024) -> pd.DataFrame:
        """Return a line for each pair of columns: rank correlations, their errors, and tails.

        Args:
            q: the threshold of the tails.
            points: of the quadrature of the rank correlations.
        """
        lines = []
        for a, b in combinations(self.names, 2):
            both = self.module_.rank_correlations(*self._pair(a, b), points)
            tau, rho = both.kendall_tau, both.spearman_rho
            found = (tau.value, tau.stderr, rho.value, rho.stderr)
            lines.append((a, b, *found, self.lower_tail(a, b, q), self.upper_tail(a, b, q)))
        names = ["kendall_tau", "kendall_stderr", "spearman_rho", "spearman_stderr"]
        head = ["a", "b", *names, "lower_tail", "upper_tail"]
        return pd.DataFrame(lines, columns=pd.Index(head))

    # Parts ------------------------------------------------------------------------------------

    def _answer(self, ask: Callable[[Tensor], Tensor], u: Any) -> Any:
        levels, wrap = self._levels(u)
        return wrap(ask(levels).cpu())

    def _levels(self, u: Any) -> tuple[Tensor, Callable[[Tensor], Any]]:
        """Return levels (B, n) of all columns, NaN where not told, and how to answer."""
        if isinstance(u, Mapping):
            frame = pd.DataFrame({name: [level] for name, level in u.items()})
        else:
            frame = as_frame(u, list(self.names))
        positions = self.schema_.positions(frame.columns.tolist())
        levels = torch.full((len(frame), len(self.names)), torch.nan, dtype=torch.float64)
        array = np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
        levels[:, list(positions)] = torch.tensor(array)
        if isinstance(u, Mapping):
            return levels, lambda answer: answer.item()
        return levels, (lambda answer: answer) if isinstance(u, Tensor) else Tensor.numpy

    def _pair(self, a: Any, b: Any) -> tuple[int, int]:
        return self.schema_.index(a), self.schema_.index(b)

    def _table(self, u: Tensor) -> Any:
        u = u.cpu()
        if self._fitted_kind == "frame":
            return pd.DataFrame(u.numpy(), columns=pd.Index(self.names))
        return u if self._fitted_kind == "tensor" else u.numpy()


def _continuous(schema: Schema, columns: Any) -> tuple[int, ...]:
    """Return the positions of columns that have a copula, and refuse others that were named."""
    if columns is None:
        chosen = tuple(i for i, column in enumerate(schema) if _has_copula(column))
    else:
        chosen = schema.positions(columns)
    for i in chosen:
        column = schema.columns[i]
        if not _has_copula(column):
            kind = type(column.kind).__name__.lower()
            what = "one with atoms" if isinstance(column.kind, Continuous) else f"{kind} column"
            raise ValueError(
                f"Expected continuous columns without atoms, whose copula is unique; got {what} "
                f"{column.name!r}. Leave it out, or condition on it first."
            )
    if len(chosen) < 2:
        raise ValueError(
            "Expected a copula of two or more continuous columns; got "
            f"{[schema.names[i] for i in chosen]}. Add one."
        )
    return chosen


def _has_copula(column: Column) -> bool:
    return isinstance(column.kind, Continuous) and not column.kind.atoms


def _thresholds(q: Any) -> Tensor:
    return torch.tensor(np.asarray(q, dtype=np.float64))


def _plain(value: Tensor) -> Any:
    return value.item() if value.ndim == 0 else value.cpu().numpy()
