"""A distribution over the columns of a table, asked by their names."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from marginals import language
from marginals.cells import Evidence
from marginals.columns import Categorical, Column, Schema, decode, decode_column
from marginals.columns.dtypes import family, unit
from marginals.densities import Density
from marginals.queries import asked
from marginals.queries.dependence import Dependence
from marginals.queries.imputation import Imputation, mean_values
from marginals.queries.moments import moments
from marginals.queries.surprise import surprise
from marginals.queries.table_copula import Copulas


class TableDensity(Dependence, Copulas):
    """A distribution over the columns of a table, asked by their names.

    Evidence (`given`, events) is a dict, where a scalar is an exact value, a pair (low, high) with
    None for an open end the interval low < x <= high, and a set a set of categories; or a DataFrame
    or array with one row of exact values per answer, NaN where nothing is known. Columns may also
    be called by their positions.
    """

    @abstractmethod
    def _kind(self) -> str:
        """Return what was fitted, "frame", "array" or "tensor": samples come back as that."""

    # Densities and probabilities --------------------------------------------------------------

    def logpdf(self, x: Any, given: Any = None) -> Any:
        """Return the log density at `x`, per unit of the columns; log mass for discrete columns.

        Missing cells of `x` are marginalised. A dict gives a float, rows give one number each.
        """
        _, schema = self._parts()
        of = asked.values(schema, x)
        value = self._conditional(of.evidence, given)
        return self._wrap(of.wrap, given)(value + of.cells.log_jacobian)

    def pdf(self, x: Any, given: Any = None) -> Any:
        """Return the density at `x`; see `logpdf`."""
        return _exp(self.logpdf(x, given))

    def logcdf(self, x: Any, given: Any = None) -> Any:
        """Return the log of P(every column <= its value in x)."""
        return self._log_box(x, given, below=True)

    def cdf(self, x: Any, given: Any = None) -> Any:
        """Return P(every column <= its value in x)."""
        return _exp(self.logcdf(x, given))

    def logsf(self, x: Any, given: Any = None) -> Any:
        """Return the log of P(every column > its value in x)."""
        return self._log_box(x, given, below=False)

    def sf(self, x: Any, given: Any = None) -> Any:
        """Return P(every column > its value in x)."""
        return _exp(self.logsf(x, given))

    def logprob(self, event: Mapping[Any, Any], given: Any = None) -> Any:
        """Return the log probability of an event; see `prob`."""
        _, schema = self._parts()
        cells = asked.event(schema, event)
        value = self._conditional(cells.evidence, given)
        value = torch.where(cells.empty, -torch.inf, value)
        return asked.evidence(schema, given).wrap(value)

    def prob(self, event: Mapping[Any, Any], given: Any = None) -> Any:
        """Return the probability of an event, a dict of intervals, sets and discrete values."""
        return _exp(self.logprob(event, given))

    def query(self, text: str) -> Any:
        """Answer a question in words, such as "P(income > 50000 | age = 40)".

        The answer prints itself; `.value` is the number, or the list of quantiles.
        """
        self._parts()  # an unfitted model says so first
        return language.answer(self, text)  # type: ignore[arg-type]

    # Quantiles and moments --------------------------------------------------------------------

    def ppf(self, q: Any, column: Any, given: Any = None) -> Any:
        """Return quantiles of a column at levels `q`: a value, an array, or one row per `given`."""
        density, schema = self._parts()
        position = schema.index(column)
        described = schema.columns[position]
        if isinstance(described.kind, Categorical) and not described.ordered:
            raise TypeError(
                f"Expected a column with an order for quantiles; got categorical column {column!r}."
                " Ask for `prob` of its categories."
            )
        levels = torch.as_tensor(np.asarray(q, dtype=np.float64))
        known = asked.evidence(schema, given)
        self._check_apart([position], known.evidence)
        with torch.no_grad():
            out = density.ppf(levels, position, known.evidence)
        shape = levels.shape if known.single else (len(known.evidence), *levels.shape)
        values = decode_column(schema, described.name, out.reshape(-1))
        if not shape:
            return values[0]
        return values if len(shape) == 1 else np.asarray(values).reshape(tuple(shape))

    def interval(self, column: Any, level: float = 0.9, given: Any = None) -> Any:
        """Return the central interval that holds the share `level`: a pair of values or arrays."""
        if not 0 < level < 1:
            raise ValueError(f"Expected `level` to lie between 0 and 1; got {level}.")
        ends = self.ppf([(1 - level) / 2, (1 + level) / 2], column, given)
        return (ends[0], ends[1]) if np.ndim(ends) == 1 else (ends[:, 0], ends[:, 1])

    def mean(self, column: Any, given: Any = None) -> Any:
        """Return the mean of a column: sums for integers, quadrature for continuous columns.

        The quadrature's relative error is about 1e-4 in float32, in which models are fitted.
        """
        described, numbers, _ = self._moments(column, given)
        values = mean_values(described, numbers)
        return values if not self._single(given) else _item(values)

    def std(self, column: Any, given: Any = None) -> Any:
        """Return the standard deviation of a column; see `mean`."""
        described, _, numbers = self._moments(column, given)
        values: Any = numbers.numpy()
        if family(described.dtype) != "number":
            values = pd.to_timedelta(values * described.grain, unit=unit(described.dtype))
        return values if not self._single(given) else _item(values)

    # Samples, views ---------------------------------------------------------------------------

    def sample(self, n: int = 1, given: Any = None, random_state: Any = None) -> Any:
        """Draw rows: n in all, or n for each row of evidence, in its order."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"Expected `n` to be a whole number, 0 or more; got {n!r}.")
        density, schema = self._parts()
        known = density.checked(asked.evidence(schema, given).evidence)
        with torch.no_grad():
            density.check_possible(known)
            rows = density.sample_rows(known, int(n), _generator(random_state, density))
        frame = decode(schema, rows.reshape(-1, len(schema)))
        if isinstance(given, pd.DataFrame):
            frame.index = given.index.repeat(n)
        if self._kind() == "frame":
            return frame
        array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        return torch.tensor(array) if self._kind() == "tensor" else array

    def marginal(self, columns: Any) -> "TableView":
        """Return the distribution of some columns."""
        density, schema = self._parts()
        names = [columns] if isinstance(columns, str | int) else list(columns)
        positions = schema.positions(names)
        part = Schema(tuple(schema.columns[i] for i in positions))
        return TableView(density.marginal(positions), part, self._kind())

    def condition(self, given: Any) -> "TableView":
        """Return the distribution of the other columns given evidence."""
        density, schema = self._parts()
        known = asked.evidence(schema, given).evidence
        rest = [i for i in range(len(schema)) if i not in known.columns]
        if not rest:
            raise ValueError("Expected `given` to leave a column open; got all. Leave one out.")
        part = Schema(tuple(schema.columns[i] for i in rest))
        return TableView(density.condition(known), part, self._kind())

    def distribution(self, given: Any = None) -> Any:
        """Return a `torch.distributions.Distribution` on the model's scale."""
        density, schema = self._parts()
        known = None if given is None else density.checked(asked.evidence(schema, given).evidence)
        return density.distribution(known)

    def impute(self, x: Any, method: str = "mean", draws: int = 1, random_state: Any = None) -> Any:
        """Fill the missing cells of `x` by conditional "mean", "median", "mode" or a joint "draw".

        With `draws` > 1, a list of completed tables. Categories take their most likely value;
        observed cells stay as they are. "mode" is the most likely of 99 quantiles.
        """
        if method not in ("mean", "median", "mode", "draw"):
            raise ValueError(
                f"Expected `method` to be 'mean', 'median', 'mode' or 'draw'; got {method!r}."
            )
        if draws < 1 or (draws > 1 and method != "draw"):
            raise ValueError(
                f"Expected `draws` to be 1, or more for method 'draw'; got {draws} for {method!r}."
            )
        density, schema = self._parts()
        filled = Imputation(density, schema, x)
        if method == "draw":
            tables = filled.drawn(draws, _generator(random_state, density))
            return tables if draws > 1 else tables[0]
        return filled.summarised(method)  # type: ignore[arg-type]

    def impute_interval(self, x: Any, level: float = 0.9) -> pd.DataFrame:
        """Return the central interval of each missing cell: a line with row, column, ends."""
        if not 0 < level < 1:
            raise ValueError(f"Expected `level` to lie between 0 and 1; got {level}.")
        return Imputation(*self._parts(), x).intervals(level)

    def surprise(self, x: Any) -> pd.DataFrame:
        """Return each cell's -log p(cell | the row's other cells), in nats; NaN where missing."""
        return surprise(*self._parts(), x)

    # Parts ------------------------------------------------------------------------------------

    def _single(self, given: Any) -> bool:
        return given is None or isinstance(given, Mapping)

    def _wrap(self, wrap: Any, given: Any) -> Any:
        """Answer rows of evidence with rows, even if a dict was asked about."""
        return wrap if self._single(given) else asked.evidence(self._parts()[1], given).wrap

    def _check_apart(self, positions: list[int], known: Evidence) -> None:
        _, schema = self._parts()
        blank = torch.empty(1, len(positions)).fill_(torch.nan)
        asked.check_apart(schema, Evidence.exact(blank, positions), known)

    def _conditional(self, of: Evidence, given: Any) -> Tensor:
        density, schema = self._parts()
        with torch.no_grad():
            if given is None:
                return density.log_value(of).double().cpu()
            known = asked.evidence(schema, given).evidence
            asked.check_apart(schema, of, known)
            asked.check_rows(len(of), len(known))
            return density.log_conditional(of, known).double().cpu()

    def _log_box(self, x: Any, given: Any, below: bool) -> Any:
        _, schema = self._parts()
        cells, empty, wrap = asked.box(schema, x, below)
        value = torch.where(empty, -torch.inf, self._conditional(cells, given))
        return self._wrap(wrap, given)(value)

    def _moments(self, column: Any, given: Any) -> tuple[Column, Tensor, Tensor]:
        """Return mean and standard deviation for each row of evidence, in the column's numbers."""
        density, schema = self._parts()
        position = schema.index(column)
        described = schema.columns[position]
        if isinstance(described.kind, Categorical):
            raise TypeError(
                f"Expected a column of numbers or times; got categorical column {column!r}. Ask "
                "for `prob` of its categories."
            )
        known = density.checked(asked.evidence(schema, given).evidence)
        self._check_apart([position], known)
        with torch.no_grad():
            parts = [
                moments(part, described) for part in density.univariate_batches(known, [position])
            ]
        mean, std = (torch.cat(side) for side in zip(*parts, strict=True))
        return described, mean, std


@final
class TableView(TableDensity):
    """A marginal or conditional of a fitted table, with the same questions."""

    def __init__(self, density: Density, schema: Schema, kind: str = "frame") -> None:
        self.module_, self.schema_, self._fitted_kind = density, schema, kind

    def __repr__(self) -> str:
        return f"TableView({', '.join(map(str, self.schema_.names))})"

    def score_samples(self, x: Any) -> Any:
        """Return the log density of each row; missing cells are marginalised."""
        return self.logpdf(x)

    def _parts(self) -> tuple[Density, Schema]:
        return self.module_, self.schema_

    def _kind(self) -> str:
        return self._fitted_kind


def _exp(log: Any) -> Any:
    if isinstance(log, Tensor):
        return log.exp()
    return float(np.exp(log)) if isinstance(log, float) else np.exp(log)


def _item(values: Any) -> Any:
    value = values[0]
    return value.item() if isinstance(value, np.floating) else value


def _generator(random_state: Any, density: Density) -> torch.Generator:
    device = next(density.parameters()).device
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return torch.Generator(device).manual_seed(int(seed))
