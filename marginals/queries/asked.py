"""Questions and evidence as they come: dicts, frames, arrays and tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import Categorical, Continuous, Encoded, Schema, encode, encode_known
from marginals.columns.encoding import encode_bounds
from marginals.columns.table_coercion import as_series, matched


@final
@dataclass(frozen=True)
class Asked:
    """Encoded cells, and how answers about them are given back.

    Args:
        cells: B rows of evidence on the model's scale.
        single: whether a dict was asked about, which has one answer and not a column of them.
        wrap: turns answers (B, ...) into what the user expects: a number, an array or a tensor.
    """

    cells: Encoded
    single: bool
    wrap: Callable[[Tensor], Any]

    @property
    def evidence(self) -> Evidence:
        """The cells as evidence."""
        return self.cells.evidence


def values(schema: Schema, x: Any) -> Asked:
    """Encode exact values, of which a density is asked."""
    if not isinstance(x, Mapping):
        return Asked(encode(schema, x), False, _wrap_of(x))
    for name, value in x.items():
        if isinstance(value, tuple | set | frozenset | list | range):
            raise ValueError(
                f"Expected an exact value of column {name!r} for a density; got {value!r}. Ask for "
                "`prob` of intervals and sets."
            )
    return Asked(encode_known(schema, x), True, _number)


def evidence(schema: Schema, given: Any) -> Asked:
    """Encode what is known; None is nothing."""
    if given is None:
        nothing = Evidence.nothing(like=torch.empty(0, dtype=torch.float64))
        cells = Encoded(nothing, torch.zeros(1), torch.zeros(1, dtype=torch.bool))
        return Asked(cells, True, _number)
    if isinstance(given, Mapping):
        asked = Asked(encode_known(schema, given, strict=False), True, _number)
    else:
        asked = Asked(encode(schema, given, strict=False), False, _wrap_of(given))
    if bool(asked.cells.empty.any()):
        row = int(asked.cells.empty.nonzero()[0])
        raise ValueError(
            f"Expected `given` to have positive probability; got {_shown(given, row)}, which "
            "cannot happen. Condition on an event that can."
        )
    return asked


def event(schema: Schema, of: Mapping[Any, Any]) -> Encoded:
    """Encode an event: a dict of intervals, sets and values that have a mass."""
    if not isinstance(of, Mapping):
        raise TypeError(
            "Expected an event as a dict of columns, such as {'age': (30, 40)}; got "
            f"{type(of).__name__}. For rows of values ask for `pdf` or `cdf`."
        )
    cells = encode_known(schema, of, strict=False, fine=False)
    for place, position in enumerate(cells.evidence.columns):
        column = schema.columns[position]
        low = float(cells.evidence.lower[0, place])
        point = low == float(cells.evidence.upper[0, place])
        if point and isinstance(column.kind, Continuous) and low not in column.atoms:
            raise ValueError(
                f"Expected an interval for continuous column {column.name!r}; got a single value, "
                "whose probability is 0. Give a pair (low, high), or ask for `pdf`."
            )
    return cells


def box(schema: Schema, x: Any, below: bool) -> tuple[Evidence, Tensor, Callable[[Tensor], Any]]:
    """Encode the rows' boxes X <= x, or X > x: evidence, which are empty (B,), and the wrap."""
    single = isinstance(x, Mapping)
    if single:
        frame = pd.DataFrame({name: as_series(value) for name, value in x.items()})
        frame, positions = matched(schema, frame.rename(columns=_names(schema, frame)))
    else:
        frame, positions = matched(schema, x)
    bounds = []
    for place, position in enumerate(positions):
        column = schema.columns[position]
        if isinstance(column.kind, Categorical) and not column.ordered:
            raise TypeError(
                f"Expected columns with an order for a CDF; got categorical column {column.name!r}."
                " Leave it out, or ask for `prob` of a set of its categories."
            )
        ends, open_ends = frame.iloc[:, place], [None] * len(frame)
        pair = (open_ends, ends) if below else (ends, open_ends)
        bounds.append(encode_bounds(schema, column.name, *pair))
    lower, upper = (torch.stack(side, 1) for side in zip(*bounds, strict=True))  # (B, n)
    empty = lower == torch.inf
    lower = torch.where(empty, -torch.inf, lower)
    wrap = _number if single else _wrap_of(x)
    return Evidence.interval(lower, upper, positions), empty.any(1), wrap


def check_apart(schema: Schema, of: Evidence, given: Evidence) -> None:
    """Refuse a column that is both asked about and known."""
    both = [c for c in of.columns if c in given.columns]
    if both:
        raise ValueError(
            "Expected the columns asked about and `given` to differ; got column "
            f"{schema.names[both[0]]!r} in both. Leave it out of one."
        )


def check_rows(of: int, given: int) -> None:
    """Refuse rows that cannot be paired."""
    if of != given and 1 not in (of, given):
        raise ValueError(
            f"Expected as many rows of `given` as are asked about, or one; got {given} and {of}. "
            "Give evidence for the same rows."
        )


def like(x: Any, frame: pd.DataFrame) -> Any:
    """Return a completed table as what was given: frame, array or tensor."""
    if isinstance(x, pd.DataFrame):
        return frame
    array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(x, Tensor):
        return torch.tensor(array).to(x.dtype if x.is_floating_point() else torch.float64)
    keeps = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    return array.astype(x.dtype) if keeps else array


def _names(schema: Schema, frame: pd.DataFrame) -> dict[Any, Any]:
    return {name: schema.names[schema.index(name)] for name in frame.columns}


def _shown(given: Any, row: int) -> str:
    return repr(dict(given)) if isinstance(given, Mapping) else f"row {row}"


def _number(value: Tensor) -> Any:
    """Answer a dict with a number; paired with rows of evidence, with an array."""
    return value[0].item() if len(value) == 1 else value.numpy()


def _wrap_of(x: Any) -> Callable[[Tensor], Any]:
    """Answer tensors with tensors and everything else with numpy arrays."""
    return (lambda value: value) if isinstance(x, Tensor) else (lambda value: value.numpy())


def as_objects(values: Any) -> Any:
    """Return values as an array of objects, so that those of any kind stand in one column."""
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out
