"""A target: which columns tell most about it given the evidence, and what moved it."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from marginals.explorer.evidence_json import Given
from marginals.explorer.monitor_axis import Floats, MonitorAxis
from marginals.explorer.monitors import Monitor

Whole = npt.NDArray[np.int64]

# Groups of equal probability of a column with many values, for its information about the target.
_GROUPS = 12
# Orders in which pieces of evidence are added, if there are more than this many.
_ORDERS = 24


def information(target: Floats, other: Floats) -> tuple[float, float]:
    """Return the mutual information of two columns in nats, and its standard error.

    Columns with many values are cut into groups of equal probability, which loses a little. The
    bias of the frequencies is taken off (Miller and Madow).

    Args:
        target, other: draws (N,) of both, codes for categories.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=20_000)
    >>> value, error = information(x, x + rng.normal(size=20_000))
    >>> bool(abs(value - 0.5 * np.log(2)) < 0.04)
    True
    """
    a, b = _groups(target), _groups(other)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)
    count = table.sum()
    joint = table / count
    rows, columns = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(joint > 0, np.log(joint) - np.log(rows) - np.log(columns), 0.0)
    value = float((joint * ratio).sum())
    used = [int((part > 0).sum()) for part in (joint, rows, columns)]
    bias = (used[0] - used[1] - used[2] + 1) / (2 * count)
    spread = float((joint * ratio**2).sum()) - value**2
    return max(0.0, value - bias), math.sqrt(max(spread, 0.0) / count)


def _groups(values: Floats) -> Whole:
    """Return groups of values: each its own if they are few, else of equal probability."""
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) <= 2 * _GROUPS:
        return codes.astype(np.int64)
    ends = np.unique(np.quantile(values, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
    return np.searchsorted(ends, values, side="left").astype(np.int64)


def entropy(target: Floats) -> float:
    """Return the entropy of the groups of a column, in nats: the most that can be told about it."""
    shares = np.bincount(_groups(target)) / len(target)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def contributions(
    given: Given, value: Callable[[Given], float]
) -> tuple[list[tuple[int, float]], float, float]:
    """Return what each piece of evidence adds to a value, and the value without and with all.

    The contributions are Shapley values: means over the orders in which the pieces are added, of
    all orders of up to four pieces, of 24 random ones of more. They add up to the whole change.

    Args:
        given: the evidence.
        value: of the target given some of it, such as its median.
    """
    pieces = given.positions
    seen: dict[frozenset[int], float] = {}

    def at(chosen: frozenset[int]) -> float:
        if chosen not in seen:
            seen[chosen] = value(given.only(sorted(chosen)))
        return seen[chosen]

    if len(pieces) <= 4:
        orders: list[Sequence[int]] = list(itertools.permutations(pieces))
    else:
        rng = np.random.default_rng(0)
        half = [list(rng.permutation(pieces)) for _ in range(_ORDERS // 2)]
        orders = [*half, *(list(reversed(order)) for order in half)]
    total = dict.fromkeys(pieces, 0.0)
    for order in orders:
        chosen: frozenset[int] = frozenset()
        for piece in order:
            more = chosen | {int(piece)}
            total[int(piece)] += at(more) - at(chosen)
            chosen = more
    shares = [(piece, total[piece] / len(orders)) for piece in pieces]
    return shares, at(frozenset()), at(frozenset(pieces))


def summary_of(axis: MonitorAxis, bar: int | None) -> Callable[[Monitor], float]:
    """Return the number by which a target's shift is measured: its median, or a bar's mass."""
    if axis.ordered and axis.kind == "curve":
        return lambda monitor: float(monitor.quantiles[1])
    if axis.ordered and axis.family != "category":
        return lambda monitor: _mean(axis, monitor)
    return lambda monitor: float(monitor.masses[bar or 0])


def _mean(axis: MonitorAxis, monitor: Monitor) -> float:
    """Return the mean of the bars, which moves when the median of few values does not."""
    total = float(monitor.masses.sum())
    return float((axis.places * monitor.masses).sum() / total) if total > 0 else math.nan


def ranking(
    axes: Sequence[MonitorAxis], draws: Floats, target: int, given: Given
) -> dict[str, Any]:
    """Return the columns without evidence by their information about the target, most first.

    Args:
        axes: of all columns.
        draws: rows (N, D) given the evidence, on the model's scale.
        target: the position of the target.
        given: the evidence.
    """
    own = draws[:, target]
    found: list[dict[str, Any]] = []
    for i, axis in enumerate(axes):
        if i == target or i in given.positions:
            continue
        value, error = information(own, draws[:, i])
        found.append({"id": axis.id, "nats": round(value, 5), "error": round(error, 5)})
    found.sort(key=lambda line: line["nats"], reverse=True)
    return {"ranking": found, "entropy": round(entropy(own), 5), "draws": len(draws)}
