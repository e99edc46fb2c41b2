"""A distribution over the columns of a table, queried by their names."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals import language
from marginals.cells import Evidence
from marginals.columns import Categorical, Column, Encoded, Schema, decode, decode_column
from marginals.columns.dtypes import family, unit
from marginals.densities import Density, View
from marginals.queries import requests
from marginals.queries.copula import Copulas
from marginals.queries.correlations import Correlations
from marginals.queries.imputation import Imputations, mean_values
from marginals.queries.independence import Independence
from marginals.queries.information import Entropy, Information
from marginals.queries.margins import Margins
from marginals.queries.modes import Modes
from marginals.queries.moments import check_finite, moments
from marginals.queries.named_rows import seed_of
from marginals.queries.ordered_draws import in_order
from marginals.queries.positions import seeded
from marginals.queries.probabilities import Probabilities
from marginals.queries.selectivity import Selectivity
from marginals.queries.surprise import Surprises


class TableDensity(
    Information,
    Independence,
    Entropy,
    Copulas,
    Margins,
    Imputations,
    Surprises,
    Modes,
    Probabilities,
    Selectivity,
    Correlations,
):
    """A distribution over the columns of a table, queried by their names.

    Evidence (`given`) and events are dicts. A scalar is an exact value. A pair (low, high) is the
    interval low < x <= high, with None for an open end; a pandas Interval keeps its own open and
    closed ends. A set means one of its values, and a list may mix values and intervals. Evidence
    may also be a DataFrame or array with one row of exact values per answer, NaN where missing.
    Columns may also be given by position.
    """

    # Densities and probabilities --------------------------------------------------------------

    def logpdf(self, x: Any, given: Any = None) -> Any:
        """Return the log density at `x`, per unit of the columns; log mass for discrete columns.

        Missing cells of `x` are marginalised. A dict gives a float, rows give one number each.

        Args:
            x: a dict, DataFrame or array of values; absent columns are marginalised.
            given: evidence; None for none.
        """
        of = requests.values(self._parts()[1], x)
        value = self._conditional(of.evidence, given) + of.log_jacobian
        value = torch.where(of.empty, -torch.inf, value)
        return requests.answer(value, given, x)

    def pdf(self, x: Any, given: Any = None) -> Any:
        """Return the density at `x`; see `logpdf`.

        Args:
            x: as in `logpdf`.
            given: evidence; None for none.
        """
        return _exp(self.logpdf(x, given))

    def logcdf(self, x: Any, given: Any = None) -> Any:
        """Return the log of P(every column <= its value in x).

        Args:
            x: a dict, DataFrame or array of upper ends; absent columns are marginalised.
            given: evidence; None for none.
        """
        return self._log_box(x, given, below=True)

    def cdf(self, x: Any, given: Any = None) -> Any:
        """Return P(every column <= its value in x).

        Args:
            x: as in `logcdf`.
            given: evidence; None for none.
        """
        return _exp(self.logcdf(x, given))

    def logsf(self, x: Any, given: Any = None) -> Any:
        """Return the log of P(every column > its value in x).

        Args:
            x: a dict, DataFrame or array of lower ends; absent columns are marginalised.
            given: evidence; None for none.
        """
        return self._log_box(x, given, below=False)

    def sf(self, x: Any, given: Any = None) -> Any:
        """Return P(every column > its value in x).

        Args:
            x: as in `logsf`.
            given: evidence; None for none.
        """
        return _exp(self.logsf(x, given))

    def logprob(self, event: Mapping[Any, Any], given: Any = None) -> Any:
        """Return the log probability of an event; see `prob`.

        Args:
            event: a dict of cells by column.
            given: evidence; None for none.
        """
        density, boxes, known, joint = requests.event(*self._parts(), event, given)
        of, empty, count = boxes.evidence, boxes.empty, len(boxes.empty)
        with torch.inference_mode():
            if joint:
                value = _log_values(density, boxes)
                base = _log_values(density, known).logsumexp(0)
                if not base > -torch.inf:
                    density.check_possible(density.checked(known.evidence))  # raises
                value = value - base
            elif len(known.evidence) > 1 < count:  # every box with every row
                rows = known.evidence
                pairs = torch.arange(count * len(rows))
                of, empty = of.rows(pairs % count), empty.repeat(len(rows))
                value = density.log_conditional(of, rows.rows(pairs // count))
            else:
                rows = known.evidence
                value = density.log_conditional(of, rows if rows.columns else None)
        value = torch.where(empty, -torch.inf, value.double().cpu())
        # Rounding may take a probability past one.
        return requests.answer(value.reshape(-1, count).logsumexp(1).clamp_max(0.0), given)

    def prob(self, event: Mapping[Any, Any], given: Any = None) -> Any:
        """Return the probability of an event, a dict of intervals, sets and discrete values.

        A column may be in both the event and a dict of evidence, as in P(age > 80 | age > 60).

        Args:
            event: a dict of cells by column: intervals, sets, unions, and values in columns whose
                single values have mass.
            given: evidence; None for none.
        """
        return _exp(self.logprob(event, given))

    def query(self, text: str) -> Any:
        """Answer a query string such as "P(income > 50000 | age = 40)".

        The answer prints itself; `.value` is the number, or the list of quantiles.

        Args:
            text: the query; the site's query table lists all forms.
        """
        self._parts()  # an unfitted model says so first
        return language.answer(self, text)

    # Quantiles and moments --------------------------------------------------------------------

    def ppf(self, q: Any, column: Any, given: Any = None) -> Any:
        """Return a column's quantiles at levels `q`: a value, an array, or a row per evidence row.

        Args:
            q: a level or a list of levels between 0 and 1.
            column: a column with an order.
            given: evidence; None for none.
        """
        density, schema = self._parts()
        position = schema.index(column)
        described = schema.columns[position]
        if isinstance(described.kind, Categorical) and not described.ordered:
            raise TypeError(
                f"Expected a column with an order for quantiles; got categorical column {column!r}."
                " Ask for `prob` of its categories."
            )
        levels = torch.as_tensor(np.asarray(q, dtype=np.float64))
        density, known = requests.conditioned(density, schema, given, [position])
        with torch.inference_mode():
            out = density.ppf(levels, position, known)
        shape = levels.shape if requests.is_single(given) else (len(known), *levels.shape)
        values = decode_column(schema, described.name, out.reshape(-1))
        if not shape:
            return values[0]
        return values if len(shape) == 1 else np.asarray(values).reshape(tuple(shape))

    def interval(self, column: Any, level: float = 0.9, given: Any = None) -> Any:
        """Return the central interval with probability `level`: a pair of values or arrays.

        Args:
            column: a column with an order.
            level: the probability of the interval.
            given: evidence; None for none.
        """
        if not 0 < level < 1:
            raise ValueError(f"Expected `level` to lie between 0 and 1; got {level}.")
        ends = self.ppf([(1 - level) / 2, (1 + level) / 2], column, given)
        return (ends[0], ends[1]) if np.ndim(ends) == 1 else (ends[:, 0], ends[:, 1])

    def mean(self, column: Any, given: Any = None) -> Any:
        """Return the mean of a column: sums for integers, quadrature for continuous columns.

        The quadrature's relative error is about 1e-4 in float32, the dtype of fitted models.

        Args:
            column: a column of numbers or times.
            given: evidence; None for none.
        """
        described, numbers, _ = self._moments(column, given)
        values = mean_values(described, numbers)
        return _item(values) if requests.is_single(given) else values

    def std(self, column: Any, given: Any = None) -> Any:
        """Return the standard deviation of a column; see `mean`.

        Args:
            column: a column of numbers or times.
            given: evidence; None for none.
        """
        described, _, numbers = self._moments(column, given)
        check_finite(described, "standard deviation", numbers)
        values: Any = numbers.numpy()
        if family(described.dtype) != "number":
            values = pd.to_timedelta(values * described.grain, unit=unit(described.dtype))
        return _item(values) if requests.is_single(given) else values

    # Samples, views ---------------------------------------------------------------------------

    def sample(self, n: int = 1, given: Any = None, random_state: Any = None) -> Any:
        """Draw n rows or, for rows of evidence, n rows each in the same order.

        Columns with exact evidence keep its value. If one column never exceeds another in the
        fitted table, rows that break this order are drawn again: see `schema_.orders`.

        Args:
            n: the number of rows, per row of evidence if `given` has rows.
            given: evidence; None for none.
            random_state: a seed or a numpy RandomState; None for new draws each time.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"Expected `n` to be a whole number, 0 or more; got {n!r}.")
        density, schema = self._parts()
        density, known = requests.conditioned(density, schema, given)
        generator = seeded(density, seed_of(random_state))

        def again(places: Tensor) -> Tensor:
            if len(known) == 1:
                return density.sample(len(places), known, generator).reshape(-1, len(schema))
            return density.sample(1, known.rows(places // int(n)), generator)

        with torch.inference_mode():
            rows = density.sample(int(n), known, generator).reshape(-1, len(schema))
            rows = in_order(schema, rows, again)
        frame = requests.with_given(decode(schema, rows), schema, given)
        if isinstance(given, pd.DataFrame):
            frame.index = given.index.repeat(n)
        if self._kind() == "frame":
            return frame
        array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        return torch.tensor(array) if self._kind() == "tensor" else array

    def marginal(self, columns: Any) -> "TableView":
        """Return the distribution of some columns.

        Args:
            columns: one column or several, in the order of the result.
        """
        density, schema = self._parts()
        names = [columns] if isinstance(columns, str | int) else list(columns)
        positions = schema.positions(names)
        part = Schema(tuple(schema.columns[i] for i in positions))
        return TableView(density.marginal(positions), part, self._kind(), self._row_count())

    def condition(self, given: Any) -> "TableView":
        """Return the distribution of the other columns given evidence.

        Args:
            given: evidence on some of the columns.
        """
        density, schema = self._parts()
        fixed = requests.given_columns(schema, given)
        rest = [i for i in range(len(schema)) if i not in fixed]
        if not rest:
            raise ValueError("Expected `given` to leave a column open; got all. Leave one out.")
        part = Schema(tuple(schema.columns[i] for i in rest))
        density, known = requests.conditioned(density, schema, given)
        density.check_possible(density.checked(known))
        return TableView(View(density, rest, known), part, self._kind())

    def distribution(self, given: Any = None) -> Any:
        """Return a `torch.distributions.Distribution` on the model's scale.

        Args:
            given: evidence; None for none.
        """
        density = self._parts()[0] if given is None else self.condition(given).module_
        return density.distribution()

    # Parts ------------------------------------------------------------------------------------

    def _conditional(self, of: Evidence, given: Any) -> Tensor:
        density, known = requests.conditioned(*self._parts(), given, of.columns)
        if given is not None:
            requests.check_rows(len(of), len(known))
        with torch.inference_mode():
            return density.log_conditional(of, known).double().cpu()

    def _log_box(self, x: Any, given: Any, below: bool) -> Any:
        cells, empty = requests.box(self._parts()[1], x, below)
        value = torch.where(empty, -torch.inf, self._conditional(cells, given).clamp_max(0.0))
        return requests.answer(value, given, x)

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
        density, known = requests.conditioned(density, schema, given, [position])
        known = density.checked(known)
        with torch.inference_mode():
            parts = density.map_univariates(
                lambda part: moments(part, described), known, [position]
            )
        mean, std = (torch.cat(side) for side in zip(*parts, strict=True))
        return described, mean, std


@final
class TableView(TableDensity):
    """A marginal or conditional of a fitted table, with the same queries.

    Args:
        density: the density of the view's columns.
        schema: the schema of these columns.
        kind: what `sample` returns: "frame", "array" or "tensor".
        rows: the number of fitted rows, which scales `count`; None if the view has evidence.
    """

    def __init__(
        self, density: Density, schema: Schema, kind: str = "frame", rows: int | None = None
    ) -> None:
        self.module_, self.schema_, self._fitted_kind = density, schema, kind
        self.rows_ = rows

    def __repr__(self) -> str:
        return f"TableView({', '.join(map(str, self.schema_.names))})"

    def reading(self, unknown: str) -> "TableView":
        """Return a view that treats categories not seen in training in another way.

        Args:
            unknown: "error" or "missing".
        """
        schema = self.schema_.reading(unknown)
        return TableView(self.module_, schema, self._fitted_kind, self.rows_)

    def score_samples(self, x: Any) -> Any:
        """Return the log density of each row; missing cells are marginalised.

        Args:
            x: a DataFrame or array of rows.
        """
        return self.logpdf(x)

    def _parts(self) -> tuple[Density, Schema]:
        return self.module_, self.schema_

    def _kind(self) -> str:
        return self._fitted_kind

    def _row_count(self) -> int | None:
        return self.rows_


def _exp(log: Any) -> Any:
    if isinstance(log, Tensor):
        return log.exp()
    return float(np.exp(log)) if isinstance(log, float) else np.exp(log)


def _item(values: Any) -> Any:
    value = values[0]
    return value.item() if isinstance(value, np.floating) else value


def _log_values(density: Density, boxes: Encoded) -> Tensor:
    """Return the log values of boxes, (B,), in the columns' units."""
    return density.log_value(boxes.evidence).double().cpu() + boxes.log_jacobian
