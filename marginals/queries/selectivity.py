"""How many rows of a table meet conditions: probabilities of many boxes at once."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from marginals.cells.cell import Cell, Interval
from marginals.cells.evidence import Evidence
from marginals.columns import Schema
from marginals.columns.cell_rows import encode_rows, has_gaps, read_rows
from marginals.columns.encoded_cells import Encoded
from marginals.columns.encoding import (
    NoProbabilityError,
    encode,
    encode_boxes,
    has_mass,
)
from marginals.densities import Density, Mixture
from marginals.densities.coupled import CoupledDensity
from marginals.densities.nested_columns import NestedColumns
from marginals.language import parse, parse_conditions
from marginals.language.conditions import to_cells
from marginals.numerics.ghk import TOLERANCE
from marginals.queries.estimate import Estimate
from marginals.queries.named_rows import NamedModel
from marginals.runtime.derived import freeze

Floats = npt.NDArray[np.float64]

# Copies of densities that were asked for counts.
_PRECISE: "WeakKeyDictionary[Density, _Precise]" = WeakKeyDictionary()

# Quasi-Monte Carlo exceeds its tolerance in about one of a thousand cases: 3.3 standard errors.
_STANDARD_ERRORS = 3.3


@final
@dataclass(frozen=True)
class Counts:
    """Expected numbers of rows, one for each query.

    Args:
        value: the numbers, (N,).
        stderr: their standard errors from numerical integration, (N,); 0 in closed form.
    """

    value: Floats
    stderr: Floats

    def __len__(self) -> int:
        return len(self.value)


class Selectivity(NamedModel):
    """Expected numbers of rows, by column names."""

    def count(self, query: Any, rows: float | None = None) -> Any:
        """Return the expected number of rows of the table that meet conditions.

        This is the selectivity that query optimisers need: the probability of a box times the
        number of rows. A list of queries is answered in one pass. Models without copula components,
        such as `MDMA(tensor="ht")`, answer in closed form; their counts are monotone, and counts of
        disjoint boxes add up. `stderr` excludes the error of the fit itself.

        Args:
            query: conditions such as "age > 40, city in {Oslo, Bergen}", or an event as a dict, as
                in `prob`; or a list of these. Or a DataFrame with one query per row, in which
                columns of pandas intervals hold ranges, other columns hold single values, and
                missing cells are unconstrained.
            rows: the number of rows of the table; by default the number fitted.

        Returns:
            An `Estimate` of the number of rows; for several queries, `Counts` with arrays.
        """
        density, schema = self._parts()
        total = self._row_count() if rows is None else rows
        if total is None:
            raise ValueError(
                "Expected `rows`, the number of rows of the table: views do not know it. Give it."
            )
        single = isinstance(query, str | Mapping)
        with torch.no_grad():
            if isinstance(query, pd.DataFrame):
                boxes = encode(schema.reading("error"), query, strict="none", masses=True)
                log_values, error = _box_masses(_precise(density), boxes)
            else:
                events = _events(schema, [query] if single else query)
                log_values, error = log_masses(_precise(density), schema, events)
        value = total * log_values.exp().numpy()
        stderr = value * error.numpy() / _STANDARD_ERRORS
        if single:
            return Estimate(float(value[0]), float(stderr[0]), "rows")
        return Counts(value, stderr)

    def _row_count(self) -> int | None:
        """Return the number of rows that were fitted, if the model knows it."""
        return None


def log_masses(
    density: Density, schema: Schema, events: Sequence[Mapping[int, Cell]]
) -> tuple[Tensor, Tensor]:
    """Return the log probabilities of events, (N,), and bounds on their relative errors, (N,).

    Args:
        density: the density on the model's scale.
        schema: the schema of its columns.
        events: by position, as `read_cells` returns them.
    """
    value, error = torch.zeros(len(events), dtype=torch.float64), torch.zeros(len(events))
    several = [at for at, event in enumerate(events) if has_gaps(schema, event)]
    plain = [at for at, event in enumerate(events) if at not in set(several)]
    if plain:
        rows = encode_rows(schema, [events[at] for at in plain])
        value[plain], error[plain] = _box_masses(density, rows)
    for at in several:
        found, errors = _box_masses(density, encode_boxes(schema, events[at], tuple(events[at])))
        value[at], error[at] = found.logsumexp(0).clamp_max(0.0), errors.max()
    return value, error


def _box_masses(density: Density, boxes: Encoded) -> tuple[Tensor, Tensor]:
    """Return the log probabilities of encoded boxes, (N,), and bounds on their errors, (N,)."""
    found = density.log_value(boxes.evidence).double().cpu()
    value = torch.where(boxes.empty, -torch.inf, found)
    # Rounding may take a probability past one.
    return value.clamp_max(0.0), _relative_error(density, boxes.evidence)


def _precise(density: Density) -> Density:
    """Return a frozen copy in double precision: counts add up to a rounding error of 1e-12."""
    found = _PRECISE.get(density)
    if found is None or not found.is_current(density):
        found = _PRECISE[density] = _Precise(density)
    return found.copy


@final
class _Precise:
    """A copy of a density in double precision, with the parameters that it was made from."""

    def __init__(self, density: Density) -> None:
        self.parameters = [part.detach().clone() for part in density.parameters()]
        self.copy = copy.deepcopy(density).double()
        freeze(self.copy)

    def is_current(self, density: Density) -> bool:
        """Compare bit by bit: no change, by training, loading or hand, leaves a stale count."""
        return all(map(torch.equal, density.parameters(), self.parameters))


def _events(schema: Schema, queries: Sequence[Any]) -> list[dict[int, Cell]]:
    """Return conditions as cells of numbers by position; refuse values with only a density."""
    events = read_rows(schema.reading("error"), [_dict(schema, query) for query in queries])
    for event in events:
        for i, cell in event.items():
            if not isinstance(cell, Interval) and not has_mass(schema.columns[i], cell):
                raise NoProbabilityError(schema.names[i])
    return events


def _dict(schema: Schema, query: Any) -> Mapping[Any, Any]:
    if isinstance(query, str):
        return to_cells(_conditions(query), schema, query)
    if not isinstance(query, Mapping):
        raise TypeError(
            "Expected conditions as text or as a dict of columns, such as {'age': (30, 40)}; got "
            f"{type(query).__name__}."
        )
    return query


def _conditions(text: str) -> Any:
    if not text.lstrip().startswith("P("):
        return parse_conditions(text)
    query = parse(text)
    if query.given:
        raise ValueError(
            f"Expected conditions to count rows of the whole table; got evidence in {text!r}. Put "
            "all conditions before the bar."
        )
    return query.event


def _relative_error(density: Density, boxes: Evidence) -> Tensor:
    """Return bounds on the relative errors of the probabilities of boxes, (B,)."""
    if isinstance(density, Mixture):
        parts = [_relative_error(member, boxes) for member in density.densities]
        return torch.stack(parts).amax(0)
    if isinstance(density, NestedColumns):
        return _relative_error(density.inner, density.folded(boxes)[0])
    if not isinstance(density, CoupledDensity):
        return torch.zeros(len(boxes))
    ranges = (boxes.lower < boxes.upper).sum(1).cpu()  # NaN is no range
    return TOLERANCE * (ranges > 2)  # one is closed form, two are accurate to 1e-10
