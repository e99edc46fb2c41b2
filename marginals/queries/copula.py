r"""The copula of a density: how columns depend on each other, whatever their margins.

With U_j = F_j(X_j), C(u) = P(U <= u) is the CDF of the columns at their own quantiles, and its
density c(u) = p(x) / prod_j p_j(x_j) at x_j = F_j^{-1}(u_j). So each query costs one inversion of
the margins and one contraction.

Levels u may be missing (NaN: the column is marginalised), 0 or 1. They are inverted by log u and
log(1 - u), so that the lower tail is exact down to the smallest float, and the upper one as far as
1 - u has digits: 1e-12 below 1 has four. `upper_tail` takes the distance from 1 itself and does not
lose these digits.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.columns import Column, Continuous, Schema, decode, encode
from marginals.columns.table_coercion import as_frame
from marginals.densities.density import Density
from marginals.densities.quantile_table import quantiles
from marginals.queries.estimate import Estimate
from marginals.queries.named_rows import NamedModel, places, seed_of
from marginals.queries.positions import groups, seeded
from marginals.queries.rank_correlation import RankCorrelations, rank_correlations

_HALF = math.log(0.5)  # stands for missing levels and those on the edge while others are inverted


class Copulas(NamedModel):
    """Dependence apart from margins, by column names."""

    def copula(self, columns: Any = None) -> "Copula":
        """Return the copula of continuous columns; the others are marginalised.

        For a rounded column, it describes the number before rounding. Integers, categories and
        columns with atoms have no unique copula: leave them out, or condition on them first, as in
        `model.condition({"city": "Oslo"}).copula(["x", "y"])`.

        Args:
            columns: two or more continuous columns, all by default.
        """
        density, schema = self._parts()
        chosen = None if columns is None else places(schema, columns)
        return Copula(density, chosen, schema, self._kind())


@final
class Copula:
    """The copula of some continuous columns, queried at levels in the unit cube.

    Levels `u` are a dict, which gives one answer; a DataFrame with some of the columns; or an array
    (B, n) or tensor (..., n) with all of them. Absent columns and NaN are marginalised. Answers are
    computed in float64 for any dtype of the model, without gradients.

    Args:
        density: the density, given at most one row of evidence; a copy is made.
        columns: positions of two or more continuous columns without atoms; by default all of them.
        schema: the schema of the density's columns, for names and units; without one the columns
            are called 0, 1, ... in the order of `columns`.
        kind: the type of samples: "frame", "array" or "tensor".

    >>> from marginals.densities.build import build
    >>> copula = Copula(build(torch.randn(50, 3), width=4), [0, 2])
    >>> copula.cdf(torch.tensor([[0.5, 1.0], [0.5, 0.0]]))
    tensor([0.5000, 0.0000])
    """

    def __init__(
        self,
        density: Density,
        columns: Sequence[int] | None = None,
        schema: Schema | None = None,
        kind: str = "tensor",
    ) -> None:
        every = _unnamed(density.columns) if schema is None else schema
        chosen = _continuous(density, every, columns)
        self.density = copy.deepcopy(density).double()
        if chosen != tuple(range(density.columns)):
            self.density = self.density.marginal(chosen)
        part = tuple(every.columns[i] for i in chosen)
        self.schema_ = _unnamed(len(chosen)) if schema is None else Schema(part)
        self._device = next(self.density.parameters(), torch.empty(0)).device
        self._fitted_kind = kind

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return self.schema_.names

    def __repr__(self) -> str:
        return f"Copula({', '.join(map(str, self.names))})"

    # C, c and h -------------------------------------------------------------------------------

    def logcdf(self, u: Any) -> Any:
        """Return log C(u) = log P(every U_j <= u_j).

        Args:
            u: levels in [0, 1]: a dict, a DataFrame with some of the columns, or an array with all
                of them. Absent columns and NaN are marginalised.
        """
        return self._answer(self._log_corner, u)

    def cdf(self, u: Any) -> Any:
        """Return C(u) = P(every U_j <= u_j).

        Args:
            u: levels, as in `logcdf`.
        """
        return self._answer(lambda *levels: self._log_corner(*levels).exp(), u)

    def logsf(self, u: Any) -> Any:
        """Return log P(every U_j > u_j).

        Args:
            u: levels, as in `logcdf`.
        """
        return self._answer(self._log_upper_corner, u)

    def sf(self, u: Any) -> Any:
        """Return P(every U_j > u_j).

        Args:
            u: levels, as in `logcdf`.
        """
        return self._answer(lambda *levels: self._log_upper_corner(*levels).exp(), u)

    def logpdf(self, u: Any) -> Any:
        """Return log c(u), the log density; by convention -inf on the faces of the cube.

        The faces have no volume, and c need not have a limit there.

        Args:
            u: levels, as in `logcdf`.
        """
        return self._answer(self._log_density, u)

    def pdf(self, u: Any) -> Any:
        """Return the density c(u); see `logpdf`.

        Args:
            u: levels, as in `logcdf`.
        """
        return self._answer(lambda *levels: self._log_density(*levels).exp(), u)

    @torch.no_grad()
    def h(self, u: Any, of: Any, given: Any) -> Any:
        """Return the h-function P(U_of <= u_of | U_given = u_given).

        Args:
            u: levels; other columns are ignored.
            of: the column or columns whose joint CDF is returned.
            given: the column or columns to condition on, at levels strictly between 0 and 1.
        """
        sides = {"of": places(self.schema_, of), "given": places(self.schema_, given)}
        asked, fixed = groups(self.density, **sides)
        levels, wrap = self._levels(u)
        for i in (*asked, *fixed):
            if len(levels) and bool(levels[:, i].isnan().all()):
                raise ValueError(
                    f"Expected `u` to hold levels of column {self.names[i]!r}; got none. Add it, "
                    "or leave it out of `of` and `given`."
                )
        at = levels[:, list(fixed)]
        if bool(((at <= 0) | (at >= 1)).any()):
            raise ValueError(
                "Expected `u` to lie strictly between 0 and 1 in the columns `given`; got 0 or 1, "
                "where a conditional need not have a limit. Give a level just inside."
            )
        x = self._invert(at.log(), torch.log1p(-at), fixed)
        ends = levels[:, list(asked)]
        value = self._log_corner(
            ends.log(), torch.log1p(-ends), asked, given=Evidence.exact(x, fixed)
        )
        return wrap(value.exp())

    # Levels and values ------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self, n: int = 1, given: Mapping[Any, Any] | None = None, random_state: Any = None
    ) -> Any:
        """Draw points of the unit cube.

        Args:
            n: the number of draws.
            given: by column, a level or an interval of levels (low, high) to condition on; None
                stands for 0 or 1.
            random_state: seed for the draws.
        """
        ends = {self.schema_.index(name): _ends(name, cell) for name, cell in (given or {}).items()}
        rows = self.density.sample(
            n, self._evidence(ends), seeded(self.density, seed_of(random_state))
        )
        u = self._levels_at(rows, range(len(self.names)))
        for column, (low, high) in ends.items():
            u[:, column].clamp_(low, high)  # rounding on the way there and back
        u = u.cpu()
        if self._fitted_kind == "frame":
            return pd.DataFrame(u.numpy(), columns=pd.Index(self.names))
        return u if self._fitted_kind == "tensor" else u.numpy()

    @torch.no_grad()
    def levels(self, x: Any) -> Any:
        """Return the levels u_j = F_j(x_j) of a table's cells, NaN where missing.

        A rounded or censored cell gets the middle of its levels. Columns outside the copula are
        ignored.

        Args:
            x: a table, or a tensor (..., n) with all columns.

        Returns:
            A DataFrame; for a tensor, a tensor of the same shape.
        """
        table = x.reshape(-1, x.shape[-1]) if isinstance(x, Tensor) else x
        frame = as_frame(table, list(self.names))
        kept = [name for name in frame.columns if name in self.names]
        if not kept:
            raise ValueError(
                f"Expected `x` to have some of the columns {list(self.names)}; got "
                f"{list(frame.columns)[:8]}. Add one."
            )
        cells = encode(self.schema_, frame[kept]).evidence
        low, high = (self._levels_at(end, cells.columns) for end in (cells.lower, cells.upper))
        u = ((low + high) / 2).cpu()
        if isinstance(x, Tensor):
            return u.to(x).reshape(x.shape)
        return pd.DataFrame(u.numpy(), index=frame.index, columns=kept)

    @torch.no_grad()
    def values(self, u: Any) -> Any:
        """Return the values x_j = F_j^{-1}(u_j) at given levels, in the columns' units.

        Args:
            u: levels of all columns, as in `logcdf`.

        Returns:
            A DataFrame; for a tensor, a tensor of the same shape, infinite at levels 0 and 1.
        """
        levels, _ = self._levels(u)
        x = self._invert(levels.log(), torch.log1p(-levels), range(len(self.names))).cpu()
        frame = decode(self.schema_, x)
        if isinstance(u, Tensor):
            array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
            return torch.tensor(array).to(u).reshape(u.shape)
        return frame

    # Pairs ------------------------------------------------------------------------------------

    def rank_correlations(
        self, a: Any, b: Any, points: int = 1024, random_state: int = 0
    ) -> RankCorrelations:
        """Return Kendall's tau and Spearman's rho; see `marginals.queries.rank_correlations`.

        Args:
            a, b: two columns.
            points: points in each of eight Sobol sequences.
            random_state: seed for their scrambling.
        """
        pair = self.schema_.index(a), self.schema_.index(b)
        return rank_correlations(self.density, *pair, points, random_state)

    def kendall_tau(self, a: Any, b: Any, points: int = 1024, random_state: int = 0) -> Estimate:
        """Return Kendall's tau of two columns, with its standard error.

        Args:
            a, b: two columns.
            points: points in each of eight Sobol sequences.
            random_state: seed for their scrambling.
        """
        return self.rank_correlations(a, b, points, random_state).kendall_tau

    def spearman_rho(self, a: Any, b: Any, points: int = 1024, random_state: int = 0) -> Estimate:
        """Return Spearman's rho of two columns, with its standard error.

        Args:
            a, b: two columns.
            points: points in each of eight Sobol sequences.
            random_state: seed for their scrambling.
        """
        return self.rank_correlations(a, b, points, random_state).spearman_rho

    def lower_tail(self, a: Any, b: Any, q: Any = 0.01) -> Any:
        """Return P(U_b <= q | U_a <= q) = C(q, q) / q.

        The answer is exact for the model; it is as good as the data at q, so a few hundred rows
        should lie below q. As q falls to 0, so does the answer, for every model of this library:
        each has finitely many components, all without tail dependence. Do not use the limit as an
        estimate of the data's coefficient of tail dependence.

        Args:
            a, b: the columns.
            q: a threshold between 0 and 1, or an array or tensor of them.
        """
        return self._tail(a, b, q, upper=False)

    def upper_tail(self, a: Any, b: Any, q: Any = 0.01) -> Any:
        """Return P(U_b > 1 - q | U_a > 1 - q); see `lower_tail`.

        Args:
            a, b: the columns.
            q: a distance from 1, between 0 and 1, or an array or tensor of them.
        """
        return self._tail(a, b, q, upper=True)

    def pairs(self, q: float = 0.05, points: int = 1024) -> pd.DataFrame:
        """Return one line per pair of columns: rank correlations, their errors, and tails.

        Args:
            q: the threshold of the tails.
            points: the number of points for the rank correlations.
        """
        lines = []
        for a, b in combinations(self.names, 2):
            both = self.rank_correlations(a, b, points)
            tau, rho = both.kendall_tau, both.spearman_rho
            found = (tau.value, tau.stderr, rho.value, rho.stderr)
            lines.append((a, b, *found, self.lower_tail(a, b, q), self.upper_tail(a, b, q)))
        names = ["kendall_tau", "kendall_stderr", "spearman_rho", "spearman_stderr"]
        head = ["a", "b", *names, "lower_tail", "upper_tail"]
        return pd.DataFrame(lines, columns=pd.Index(head))

    # Parts ------------------------------------------------------------------------------------

    @torch.no_grad()
    def _answer(self, query: Callable[[Tensor, Tensor, Sequence[int]], Tensor], u: Any) -> Any:
        """Answer a query of log u and log(1 - u) for the columns that have levels."""
        levels, wrap = self._levels(u)
        seen = (~levels.isnan()).any(0).nonzero()[:, 0].tolist() or [0]
        part = levels[:, seen]
        return wrap(query(part.log(), torch.log1p(-part), seen))

    def _levels(self, u: Any) -> tuple[Tensor, Callable[[Tensor], Any]]:
        """Return the levels of all columns on the density's device, (B, n), and how to answer."""
        if isinstance(u, Tensor):
            if not u.is_floating_point() or u.ndim == 0 or u.shape[-1] != len(self.names):
                raise ValueError(
                    f"Expected a tensor `u` to hold levels of {len(self.names)} columns in its "
                    f"last dim; got {u.dtype} of shape {tuple(u.shape)}."
                )
            levels = u.reshape(-1, u.shape[-1]).to(self._device, torch.float64)
            wrap: Callable[[Tensor], Any] = lambda out: out.to(u).reshape(u.shape[:-1])  # noqa: E731
        else:
            single = isinstance(u, Mapping)
            table = pd.DataFrame({k: [v] for k, v in u.items()}) if single else u
            frame = as_frame(table, list(self.names))
            levels = torch.full((len(frame), len(self.names)), torch.nan, dtype=torch.float64)
            array = np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
            levels[:, list(self.schema_.positions(frame.columns.tolist()))] = torch.tensor(array)
            levels = levels.to(self._device)
            wrap = (lambda out: out.item()) if single else (lambda out: out.cpu().numpy())
        wrong = (levels < 0) | (levels > 1)
        if bool(wrong.any()):
            raise ValueError(
                f"Expected levels `u` to lie in [0, 1]; got {float(levels[wrong][0])}. Turn values "
                "into levels with `levels`."
            )
        return levels, wrap

    def _levels_at(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the levels of values (B, n) on the model's scale."""
        margins = self.density.univariates(None, columns)
        parts = []
        for rows in x.split(self.density.rows_at_once()):
            at = margins.evaluate(
                torch.where(rows.isfinite(), rows, 0.0).to(margins.log_evidence)[:, None]
            )
            low, high = at.log_cdf[:, 0].double(), at.log_sf[:, 0].double()
            parts.append(torch.where(low < high, low.exp(), -high.expm1()))
        u, x = torch.cat(parts), x.to(parts[0].device)
        u = torch.where(x == -torch.inf, 0.0, torch.where(x == torch.inf, 1.0, u))
        return torch.where(x.isnan(), torch.nan, u)

    def _invert(self, log_u: Tensor, log_1mu: Tensor, columns: Sequence[int]) -> Tensor:
        """Return quantiles (B, n): -inf and inf at the ends, NaN where missing."""
        margins = self.density.univariates(None, columns)
        inside = (log_u > -torch.inf) & (log_1mu > -torch.inf)
        low, high = (torch.where(inside, side, _HALF) for side in (log_u, log_1mu))
        x = quantiles(margins, low, high, self.density.rows_at_once())
        x = torch.where(log_u == -torch.inf, -torch.inf, x)
        x = torch.where(log_1mu == -torch.inf, torch.inf, x)
        return torch.where(log_u.isnan(), torch.nan, x)

    def _log_corner(
        self,
        log_u: Tensor,
        log_1mu: Tensor,
        columns: Sequence[int],
        upper: bool = False,
        given: Evidence | None = None,
    ) -> Tensor:
        """Return the log probability of the corner below, or above, levels (B, n)."""
        x = self._invert(log_u, log_1mu, columns)
        # u = 1 (or 0 for `upper`) is no constraint: the column is marginalised.
        x = torch.where(x == (-torch.inf if upper else torch.inf), torch.nan, x)
        end = torch.full_like(x, torch.inf if upper else -torch.inf)
        bounds = (x, end) if upper else (end, x)
        return self.density.logprob(*bounds, columns, given).to(log_u)

    def _log_upper_corner(self, log_u: Tensor, log_1mu: Tensor, columns: Sequence[int]) -> Tensor:
        return self._log_corner(log_u, log_1mu, columns, upper=True)

    def _log_density(self, log_u: Tensor, log_1mu: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log c at levels (B, n)."""
        x = self._invert(log_u, log_1mu, columns)
        edge = x.isinf()
        x = torch.where(edge, torch.nan, x)
        margins = self.density.univariates(None, columns)
        parts = []
        for rows in x.split(self.density.rows_at_once()):
            each = margins.logpdf(rows.nan_to_num()[:, None])[:, 0]
            parts.append(torch.where(rows.isnan(), 0.0, each).sum(-1))
        value = self.density.logpdf(x, columns).to(log_u) - torch.cat(parts).to(log_u)
        return torch.where(edge.any(-1), -torch.inf, value)

    @torch.no_grad()
    def _tail(self, a: Any, b: Any, q: Any, upper: bool) -> Any:
        pair = self.schema_.index(a), self.schema_.index(b)
        groups(self.density, a=pair[0], b=pair[1])
        level = torch.as_tensor(q, dtype=torch.float64)
        if not bool(((level > 0) & (level < 1)).all()):
            raise ValueError(f"Expected thresholds `q` to lie between 0 and 1; got {q}.")
        near = level.to(self._device).reshape(-1, 1).expand(-1, 2)
        log_u, log_1mu = near.log(), torch.log1p(-near)
        sides = (log_1mu, log_u) if upper else (log_u, log_1mu)
        value = self._log_corner(*sides, pair, upper) - log_u[:, 0]
        out = value.exp().reshape(level.shape).cpu()
        if isinstance(q, Tensor):
            return out
        return out.item() if out.ndim == 0 else out.numpy()

    def _evidence(self, ends: Mapping[int, tuple[float, float]]) -> Evidence:
        """Turn intervals of levels into evidence on values."""
        if not ends:
            return Evidence.nothing(like=torch.empty(0, dtype=torch.float64))
        both = torch.tensor(list(ends.values()), dtype=torch.float64, device=self._device).T
        x = self._invert(both.log(), torch.log1p(-both), tuple(ends))
        return Evidence.interval(x[:1], x[1:], tuple(ends))


def _unnamed(count: int) -> Schema:
    """Return a schema that calls columns by position and leaves values as they are."""
    return Schema(tuple(Column(i, Continuous(), "float64", "unnamed") for i in range(count)))


def _continuous(density: Density, schema: Schema, columns: Sequence[int] | None) -> tuple[int, ...]:
    """Return two or more columns that have a unique copula."""
    if getattr(density, "rows", 1) > 1:
        raise ValueError(
            f"Expected a density given at most one row of evidence; got one given {density.rows}. "
            "Condition on one row at a time."
        )
    kinds, atoms = density.categories, density.atoms
    fit = [
        isinstance(column.kind, Continuous) and kinds[i] is None and i not in atoms
        for i, column in enumerate(schema)
    ]
    every = tuple(i for i, continuous in enumerate(fit) if continuous)
    chosen = every if columns is None else groups(density, columns=columns)[0]
    wrong = [schema.columns[i] for i in chosen if not fit[i]]
    if wrong:
        raise ValueError(
            "Expected continuous columns without atoms, whose copula is unique; got column "
            f"{wrong[0].name!r} ({wrong[0].kind!r}). Leave it out, or condition on it first."
        )
    if len(chosen) < 2:
        raise ValueError(
            "Expected a copula of two or more continuous columns; got "
            f"{[schema.names[i] for i in chosen]}. Add one."
        )
    return chosen


def _ends(column: Any, cell: Any) -> tuple[float, float]:
    """Return the ends of an interval of levels; they are equal for a single level."""
    pair = cell if isinstance(cell, tuple) else (cell, cell)
    if len(pair) != 2:
        raise TypeError(
            f"Expected a level or a pair (low, high) for column {column!r}; got {cell!r}."
        )
    low = 0.0 if pair[0] is None else float(pair[0])
    high = 1.0 if pair[1] is None else float(pair[1])
    inside = 0 < low < 1 if low == high else 0 <= low < high <= 1
    if not inside:
        raise ValueError(
            "Expected a level between 0 and 1, or a pair (low, high) of them with low < high, for "
            f"column {column!r}; got {cell!r}."
        )
    return low, high
