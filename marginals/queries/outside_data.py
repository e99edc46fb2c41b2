"""Whether evidence lies far outside of the data, where a model only extrapolates."""

import math
import sys
import warnings

import torch

from marginals.cells import Evidence
from marginals.columns import Schema
from marginals.columns.schema import Name
from marginals.densities import Density
from marginals.densities.univariate_cells import log_tails

# Spreads of a column, on the model's scale, within which no tail is computed.
_NEAR = 10.0
# The probability of values as far out, below which evidence is outside of the data.
_TAIL = 1e-9


class OutsideDataWarning(UserWarning):
    """Warn that evidence lies far outside the data, so that the answer is an extrapolation."""


def warn_outside(
    density: Density, schema: Schema, evidence: Evidence, alternatives: bool = False
) -> None:
    """Warn of columns with evidence far outside of the data; see `outside_columns`."""
    names = [repr(name) for name in outside_columns(density, schema, evidence, alternatives)]
    if names:
        warnings.warn(
            f"The evidence on {', '.join(names)} lies far outside of the data: the model gives "
            f"values as far out a probability below {_TAIL:g}. The answer is an extrapolation; "
            "check the values and their units.",
            OutsideDataWarning,
            stacklevel=_caller(),
        )


def outside_columns(
    density: Density, schema: Schema, evidence: Evidence, alternatives: bool = False
) -> list[Name]:
    """Return the columns with evidence far outside of the data in some row.

    That is a value or interval more than 10 standard deviations from the column's mean (on the
    model's scale, where bounded columns have no end) whose tail, the probability of values as
    far out or farther, is below 1e-9 under the model's margin.

    Args:
        density: the density, without the evidence.
        schema: the schema of its columns.
        evidence: rows of evidence.
        alternatives: whether the rows are parts of one union, which is outside if all of them are.
    """
    numbers = [c for c in evidence.columns if schema.columns[c].listed is None]
    cells = evidence.select(numbers)
    far = (cells.lower > _NEAR) | (cells.upper < -_NEAR)  # (B, n)
    far = far.all(0, keepdim=True) if alternatives else far
    if not bool(far.any()):
        return []
    columns = [c for c, found in zip(numbers, far.any(0).tolist(), strict=True) if found]
    cells = density.checked(cells.select(columns).rows(slice(None) if alternatives else far.any(1)))
    with torch.no_grad():
        margins = density.univariates(None, columns)
        if len(margins.log_evidence) != 1:  # a view given many rows
            return []
        outside = log_tails(margins, cells, density.categories).cpu() < math.log(_TAIL)
    outside &= ~cells.missing().cpu()
    found = outside.all(0) if alternatives else outside.any(0)
    return [schema.names[c] for c, o in zip(columns, found.tolist(), strict=True) if o]


def _caller() -> int:
    """Return the stack level of the code that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__", "")).startswith("marginals."):
        level, frame = level + 1, frame.f_back
    return level
