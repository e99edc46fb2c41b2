"""Distributions chosen by the user in place of fitted margins."""

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from marginals.columns import Column, Continuous, Schema
from marginals.columns.dtypes import family
from marginals.columns.glued_axis import Margin
from marginals.densities import Density
from marginals.queries.named_rows import NamedModel

if TYPE_CHECKING:
    from marginals.queries.table_density import TableView

_METHODS = ("cdf", "sf", "ppf", "isf", "logpdf")


class Margins(NamedModel):
    """Other margins for the same dependence, by column names."""

    def with_margins(self, margins: Mapping[Any, Any]) -> "TableView":
        """Return a view with the same copula and other margins for some columns.

        All queries use the new values, including those in evidence. The dependence between columns,
        and so their mutual information, does not change. On a view, the replaced margin is the
        view's own, given its evidence. The result cannot be saved: save the model and call
        `with_margins` again after loading it.

        Args:
            margins: by column, a continuous distribution with the methods of a frozen scipy
                distribution: `cdf`, `sf`, `ppf`, `isf` and `logpdf`.
        """
        from marginals.queries.table_density import TableView

        density, schema = self._parts()
        return TableView(density, glued(density, schema, margins), self._kind())


@torch.no_grad()
def glued(density: Density, schema: Schema, margins: Mapping[Any, Any]) -> Schema:
    """Return the schema with distributions in place of the margins of some columns."""
    if not isinstance(margins, Mapping):
        raise TypeError(
            "Expected `margins` as a dict of columns and distributions, such as {'x': "
            f"scipy.stats.t(4)}}; got {type(margins).__name__}."
        )
    positions = schema.positions(margins)
    for position, distribution in zip(positions, margins.values(), strict=True):
        _check_column(schema.columns[position])
        _check_distribution(schema.names[position], distribution)
    if getattr(density, "rows", 1) > 1:
        raise ValueError(
            f"Expected a view given at most one row of evidence; got {density.rows}, each with its "
            "own margin. Condition on one row at a time, or set the margins before."
        )
    # In float64, so that intervals keep their widths, and on the CPU for numpy.
    exact = copy.deepcopy(density).double().cpu()
    columns = list(schema.columns)
    for position, distribution in zip(positions, margins.values(), strict=True):
        fitted = exact.univariates(None, [position])
        # `rows_at_once` counts rows of all columns.
        margin = Margin(distribution, fitted, exact.rows_at_once() * exact.columns)
        columns[position] = _column(columns[position], margin)
    return Schema(tuple(columns))


def _column(column: Column, margin: Margin) -> Column:
    lower, upper = (None if math.isinf(bound) else bound for bound in margin.bounds)
    reason = f"margin glued on: {_described(margin.distribution)}"
    return Column(column.name, Continuous(lower, upper), "float64", reason, margin=margin)


def _check_column(column: Column) -> None:
    plain = isinstance(column.kind, Continuous) and not column.kind.atoms
    if not plain or family(column.dtype) != "number":
        kind = type(column.kind).__name__.lower()
        raise ValueError(
            "Expected margins of continuous columns of numbers without atoms; got one for column "
            f"{column.name!r} ({kind}, {column.dtype}). Leave it out."
        )


def _check_distribution(name: Any, distribution: Any) -> None:
    """Refuse objects without the methods, and scipy distributions without parameters."""
    missing = [method for method in _METHODS if not callable(getattr(distribution, method, None))]
    if missing:
        raise TypeError(
            f"Expected the margin of column {name!r} to be a frozen continuous distribution with "
            f"{', '.join(_METHODS)}, such as scipy.stats.t(4); got {type(distribution).__name__} "
            f"without {missing[0]}."
        )
    try:
        middle = np.asarray(distribution.ppf([0.25, 0.75]), dtype=np.float64)
    except TypeError as error:
        raise TypeError(
            f"Expected the margin of column {name!r} to have its parameters; got "
            f"{type(distribution).__name__} without ({error}). Freeze it: scipy.stats.t(df=4)."
        ) from None
    if middle.shape != (2,) or not np.all(np.isfinite(middle)) or not middle[0] < middle[1]:
        raise ValueError(
            f"Expected the margin of column {name!r} to have finite quantiles that rise; got "
            f"{middle.tolist()} at 0.25 and 0.75. Check its parameters."
        )


def _described(distribution: Any) -> str:
    """Describe a distribution, by its scipy name if it has one."""
    family_of = getattr(distribution, "dist", None)
    if family_of is None:
        return type(distribution).__name__
    plain = [_short(value) for value in distribution.args]
    named = [f"{key}={_short(value)}" for key, value in distribution.kwds.items()]
    return f"{family_of.name}({', '.join(plain + named)})"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else "..."
