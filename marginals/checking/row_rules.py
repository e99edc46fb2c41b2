"""Rules that every row of a table obeys, and how often drawn rows break them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.checking.significance import TOLERANCE
from marginals.columns.dtypes import float_type, name_of
from marginals.columns.row_orders import find_orders
from marginals.columns.value_grid import infer_step
from marginals.synthesis.comparable_cells import Cells, Floats

Flags = npt.NDArray[np.bool_]

_FEW = 12  # distinct numbers that are listed as a set
_REPEATS = 5  # rows per value from which numbers are a set, or categories determine others
_FIRST = 500  # rows that most candidates fail on
_IMPLIED = 0.01  # rows of independent columns that must break a rule about two of them
_SECOND = 1e9  # nanoseconds
_ON_GRID = 1e-3  # of a step: rounding of floats
_HEADER = ("rule", "kind", "first", "second", "broken", "chance", "off")


@final
@dataclass(frozen=True)
class Rule:
    """A property of one or two columns.

    Args:
        text: the rule in words.
        kind: "values", "grid", "sign", "bounds", "order" or "nested".
        columns: positions of its columns.
        broken: which rows break it, from the cells of these columns; NaN breaks nothing.
        chance: share of new rows from the table's own distribution that break it.
    """

    text: str
    kind: str
    columns: tuple[int, ...]
    broken: Callable[..., Flags]
    chance: float = 0.0


def broken_rules(
    columns: Sequence[Cells], frame: pd.DataFrame, random: np.random.Generator
) -> pd.DataFrame:
    """Find the rules that every row of a table obeys, and the share of drawn rows that break each.

    Rules are the sign, bounds, grid and set of few values of a column, the order of two columns
    (a <= b), and categories that determine others. A rule is `off` if more than 2 % of the draws
    break it, beyond what new rows of the table would.

    Args:
        columns: cells of the table and of the draws.
        frame: the table, for values in the text of rules.
        random: pairs rows at random, to leave out rules about two columns that follow from each
            column alone.
    """
    found = [rule for i in range(len(columns)) for rule in _of_column(columns[i], frame, i)]
    found += _orders(columns, frame) + _nestings(columns, random)
    lines = []
    for rule in found:
        names = [columns[i].name for i in rule.columns]
        share = float(rule.broken(*(columns[i].parts[1] for i in rule.columns)).mean())
        second = str(names[1]) if len(names) > 1 else None
        off = share - rule.chance > TOLERANCE
        lines.append((rule.text, rule.kind, names[0], second, share, rule.chance, off))
    frame = pd.DataFrame(lines, columns=list(_HEADER)).astype({"off": bool})
    return frame.sort_values("broken", ascending=False, kind="stable", ignore_index=True)


# One column -------------------------------------------------------------------------------------


def _of_column(column: Cells, frame: pd.DataFrame, place: int) -> list[Rule]:
    values = column.parts[0][~np.isnan(column.parts[0])]
    distinct, counts = np.unique(values, return_counts=True)
    if len(values) < _REPEATS:
        return []
    if not column.number or (len(distinct) <= _FEW and counts.min() >= _REPEATS):
        # Good and Turing: the next row has a value of its own as often as rows seen had one.
        chance = float((counts == 1).sum() / len(values))
        return [_values(column, distinct, frame, place, chance)]
    name, low, high = column.name, distinct[0], distinct[-1]
    ends = frame[name].min(), frame[name].max()
    # The next row is beyond the largest of n with probability 1 / (n + 1).
    bounds = Rule(
        f"{_shown(ends[0])} <= {name} <= {_shown(ends[1])}",
        "bounds",
        (place,),
        lambda x: (x < low) | (x > high),
        2 / (len(values) + 1),
    )
    rules = [bounds]
    kind = _kind(frame[name])
    if kind != "M" and low >= 0:
        rules.append(Rule(f"{name} >= 0", "sign", (place,), lambda x: x < 0))
    unit = 1.0 if kind == "number" else _SECOND  # nanoseconds of an epoch are rounded as floats
    eps = float(np.finfo(float_type(name_of(frame[name].dtype))).eps)
    grid = infer_step(distinct / unit, eps=eps)
    if grid is not None and not grid.off:
        step = grid.step
        shown = f"{step:g}" if kind == "number" else str(pd.Timedelta(step, "s"))
        off = partial(_leaves_grid, start=grid.offset, step=step, unit=unit)
        rules.append(Rule(f"{name} in steps of {shown}", "grid", (place,), off))
    return rules


def _values(
    column: Cells, distinct: Floats, frame: pd.DataFrame, place: int, chance: float
) -> Rule:
    if column.number:
        listed = sorted(frame[column.name].dropna().unique())
        text = f"{column.name} in {{{', '.join(map(_shown, listed))}}}"
    else:
        text = f"{column.name} has one of its {len(distinct)} values"
    return Rule(text, "values", (place,), lambda x: ~np.isnan(x) & ~np.isin(x, distinct), chance)


def _leaves_grid(values: Floats, start: float, step: float, unit: float) -> Flags:
    return np.nan_to_num(_off_grid(values / unit - start, step)) > _ON_GRID


def _off_grid(values: Floats, step: float) -> Floats:
    """Return the distance to the nearest multiple of a step, in steps."""
    scaled = values / step
    return np.abs(scaled - scaled.round())


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


# Two columns ------------------------------------------------------------------------------------


def _orders(columns: Sequence[Cells], frame: pd.DataFrame) -> list[Rule]:
    """Find a <= b for columns of one kind: numbers, times or durations."""
    places = [i for i, column in enumerate(columns) if column.number]
    kinds = [_kind(frame[columns[i].name]) for i in places]
    pairs = find_orders([columns[i].parts[0] for i in places], kinds)
    found = []
    for low, high in pairs:
        i, j = places[low], places[high]
        text = f"{columns[i].name} <= {columns[j].name}"
        found.append(Rule(text, "order", (i, j), np.greater))
    return found


def _kind(series: pd.Series) -> str:
    return "number" if pd.api.types.is_numeric_dtype(series.dtype) else series.dtype.kind


def _nestings(columns: Sequence[Cells], random: np.random.Generator) -> list[Rule]:
    """Find columns of repeated values of which one determines the other."""
    coded = {i: _coded(column.parts[0]) for i, column in enumerate(columns)}
    usable = [i for i, (codes, size) in coded.items() if 1 < size <= len(codes) / _REPEATS]
    found = []
    for i in usable:
        for j in usable:
            (a, size), (b, _) = coded[i], coded[j]
            if i == j or size < coded[j][1] or not _determines(a[:_FIRST], b[:_FIRST]):
                continue
            first, second = columns[i].parts[0], columns[j].parts[0]
            if _determines(a, b):
                broken = _breaks_nesting(first, second)
                if broken(first, random.permutation(second)).mean() >= _IMPLIED:
                    text = f"{columns[i].name} determines {columns[j].name}"
                    found.append(Rule(text, "nested", (i, j), broken))
    return found


def _coded(values: Floats) -> tuple[npt.NDArray[np.int64], int]:
    codes, distinct = pd.factorize(values)  # -1 where missing
    return codes, len(distinct)


def _determines(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> bool:
    seen = (a >= 0) & (b >= 0)
    if not seen.any():
        return False
    pairs = a[seen] * (b.max() + 1) + b[seen]
    return len(np.unique(pairs)) == len(np.unique(a[seen]))


def _breaks_nesting(a: Floats, b: Floats) -> Callable[[Floats, Floats], Flags]:
    seen = ~(np.isnan(a) | np.isnan(b))
    answer = pd.Series(b[seen], index=a[seen])
    answer = answer[~answer.index.duplicated()]

    def broken(first: Floats, second: Floats) -> Flags:
        wanted = answer.reindex(first).to_numpy()  # NaN for values that the table lacks
        return ~(np.isnan(wanted) | np.isnan(second)) & (wanted != second)

    return broken
