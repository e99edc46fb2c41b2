"""Which columns repeat others: constants, identifiers, duplicates and exact functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["SchemaWarning", "find_relations"]

Floats = npt.NDArray[np.float64]

_ROWS = 50  # fewer rows show relations by chance
_SAMPLE = 2_000  # rows that find a relation; all rows then check it
_EXACT = 1e-9  # residual, relative to the largest term of a sum, of an exact relation
_SINGULAR = 1e-7  # of standardised columns: a smaller singular value is a linear relation
_MOST_COLUMNS = 300
_MOST_TERMS = 8  # a sum of more columns is not shown
_REPEATS = 5  # rows for each value of a column that renames another
_REMEDY = "leave it out, and compute it afterwards"


class SchemaWarning(UserWarning):
    """Warn about columns that need attention before a model is fitted to them."""


def find_relations(
    columns: Mapping[Any, Floats], discrete: Mapping[Any, Any], identifiers: Sequence[Any] = ()
) -> list[str]:
    """Describe the columns that carry no information of their own.

    Args:
        columns: the numeric columns, NaN where missing.
        discrete: codes of columns with few distinct values, -1 where missing.
        identifiers: columns that have a value of its own in most rows.

    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> find_relations({"a": x[:, 0], "b": x[:, 1], "sum": x.sum(1)}, {})
    ["'sum' = 'a' + 'b' in every row: leave it out, and compute it afterwards"]
    """
    rows = max((len(x) for x in (*columns.values(), *discrete.values())), default=0)
    if rows < _ROWS:
        return []
    found = [
        f"{name!r} has a value of its own in most rows: leave it out if it is an identifier"
        for name in identifiers
    ]
    every = {**columns, **discrete}
    constant = {name for name, x in every.items() if _is_constant(x)}
    found += [f"{name!r} is constant: leave it out" for name in every if name in constant]
    columns = {n: x for n, x in columns.items() if n not in constant and n not in identifiers}
    linear, explained = _linear(columns)
    codes = {n: x for n, x in discrete.items() if n not in constant and n not in explained}
    return found + linear + _renamed(codes)


def _is_constant(values: Any) -> bool:
    known = values[values >= 0] if values.dtype.kind == "i" else values[~np.isnan(values)]
    return bool(len(known) and (known == known[0]).all())


# Linear relations -------------------------------------------------------------------------------


def _linear(columns: Mapping[Any, Floats]) -> tuple[list[str], set[Any]]:
    """Find columns that are linear functions of others: pairs first, then sums."""
    names = list(columns)
    if not 2 <= len(names) <= _MOST_COLUMNS:
        return [], set()
    texts, explained = _pairs(names, columns)
    rest = [name for name in names if name not in explained]
    more, summed = _sums(rest, columns)
    return texts + more, explained | summed


def _pairs(names: list[Any], columns: Mapping[Any, Floats]) -> tuple[list[str], set[Any]]:
    table = pd.DataFrame({i: columns[name] for i, name in enumerate(names)})
    if len(table) > _SAMPLE:
        table = table.sample(_SAMPLE, random_state=0)
    close = np.abs(table.corr(min_periods=_ROWS // 2).to_numpy()) > 1 - 1e-6
    texts, explained = [], set()
    for first, second in zip(*np.nonzero(np.triu(close, 1)), strict=True):
        source, target = names[first], names[second]
        if source in explained or target in explained:
            continue
        text = _affine(source, columns[source], target, columns[target])
        if text is not None:
            texts.append(text)
            explained.add(target)
    return texts, explained


def _affine(source: Any, x: Floats, target: Any, y: Floats) -> str | None:
    """Describe y = a + b x if it holds exactly in every row where both are observed."""
    known = ~(np.isnan(x) | np.isnan(y))
    if (np.isnan(x) != np.isnan(y)).mean() > 0.01 or known.sum() < _ROWS:
        return None
    low, high = x[known].argmin(), x[known].argmax()
    (x0, x1), (y0, y1) = x[known][[low, high]], y[known][[low, high]]
    slope = _tidy((y1 - y0) / (x1 - x0))
    start = _tidy(y0 - slope * x0)
    if not _holds(y[known], [start * np.ones(int(known.sum())), slope * x[known]]):
        return None
    if slope == 1 and start == 0:
        return f"{target!r} equals {source!r} in every row: leave one of them out"
    text = _sum_text([(slope, source)], start)
    return f"{target!r} = {text} in every row: {_REMEDY}"


def _sums(names: list[Any], columns: Mapping[Any, Floats]) -> tuple[list[str], set[Any]]:
    """Find sums by the null space of the standardised columns, from a QR with pivoting."""
    texts: list[str] = []
    explained: set[Any] = set()
    for _ in range(len(names)):
        rest = [name for name in names if name not in explained]
        relation = _null_relation([columns[name] for name in rest])
        if relation is None:
            break
        target, weights, start = relation
        terms = [(w, rest[i]) for i, w in enumerate(weights) if w and i != target]
        explained.add(rest[target])
        if len(terms) <= _MOST_TERMS:
            texts.append(f"{rest[target]!r} = {_sum_text(terms, start)} in every row: {_REMEDY}")
    return texts, explained


def _null_relation(columns: list[Floats]) -> tuple[int, Floats, float] | None:
    """Return a column, the weights of the others and the constant of an exact relation."""
    if len(columns) < 3:
        return None
    every = np.stack(columns, 1)
    every = every[~np.isnan(every).any(1)]
    if len(every) < max(_ROWS, 3 * len(columns)):
        return None
    sample = every[np.random.default_rng(0).integers(0, len(every), _SAMPLE)]
    middle, spread = sample.mean(0), sample.std(0)
    if not (spread > 0).all():
        return None
    from scipy import linalg  # only a fit needs it, and it is slow to import

    r, pivots = linalg.qr((sample - middle) / spread, mode="r", pivoting=True, check_finite=False)
    size = np.abs(np.diag(r[: len(columns)]))
    rank = int((size > _SINGULAR * size[0]).sum())
    if rank == len(columns):
        return None
    weights = np.zeros(len(columns))
    weights[pivots[:rank]] = -linalg.solve_triangular(r[:rank, :rank], r[:rank, rank])
    weights[pivots[rank]] = 1.0
    weights[np.abs(weights) < 1e-6] = 0.0
    used = np.flatnonzero(weights)
    plain = weights / spread
    # A sum of others is a better description than a difference; then the last column.
    signs = [int((plain[used] * plain[i] < 0).sum()) for i in used]
    target = int(max(zip(signs, used.tolist(), strict=True))[1])
    plain = np.array([_tidy(w) for w in plain / -plain[target]])
    plain[target] = 0.0
    start = _tidy(float(middle[target] - plain @ middle))
    parts = [plain[i] * every[:, i] for i in np.flatnonzero(plain)]
    if not _holds(every[:, target], [np.full(len(every), start), *parts]):
        return None
    return target, plain, start


def _holds(y: Floats, parts: list[Floats]) -> bool:
    size = np.max([np.abs(y).max(), *(np.abs(part).max() for part in parts)])
    return bool(np.abs(y - np.sum(parts, axis=0)).max() <= _EXACT * size)


def _tidy(number: float) -> float:
    """Round to a short number if only rounding errors part it from one."""
    short = float(f"{number:.7g}")
    if abs(short) < 1e-9:
        return 0.0
    return short if abs(short - number) <= 1e-8 * max(1.0, abs(number)) else float(number)


def _sum_text(terms: list[tuple[float, Any]], start: float) -> str:
    text = ""
    for weight, name in terms:
        sign = " - " if weight < 0 else " + "
        size = "" if abs(weight) == 1 else f"{abs(weight):g} "
        text += f"{sign}{size}{name!r}"
    if start:
        text += f" {'-' if start < 0 else '+'} {abs(start):g}"
    return text.removeprefix(" + ").removeprefix(" ")


# Categories -------------------------------------------------------------------------------------


def _renamed(discrete: Mapping[Any, Any]) -> list[str]:
    """Find columns that are another one under other names, as a grade is of its number.

    A column that groups the values of another, as counties group towns, is worth modelling.
    """
    names = list(discrete)
    if not 2 <= len(names) <= _MOST_COLUMNS:
        return []
    rows = len(next(iter(discrete.values())))
    part = np.random.default_rng(0).integers(0, rows, _SAMPLE) if rows > _SAMPLE else slice(None)
    sample = {name: x[part] for name, x in discrete.items()}
    texts: list[str] = []
    explained: set[Any] = set()
    for i, source in enumerate(names):
        for target in names[i + 1 :]:
            if {source, target} & explained or not _maps(sample[source], sample[target]):
                continue
            there = _maps(discrete[source], discrete[target])
            if there and _maps(discrete[target], discrete[source]):
                texts.append(f"{target!r} follows from {source!r}, and the reverse: {_REMEDY}")
                explained.add(target)
    return texts


def _maps(source: Any, target: Any) -> bool:
    """Say whether each value of the source goes with one value of the target."""
    known = (source >= 0) & (target >= 0)
    if known.mean() < 0.5:
        return False
    source, target = source[known], target[known]
    pairs = np.unique(source * (int(target.max()) + 1) + target)
    values = np.unique(source)
    targets = len(np.unique(target))
    useful = targets > 1 and (len(values) > 2 or targets == 2)
    return bool(useful and len(pairs) == len(values) and len(source) >= _REPEATS * len(values))
