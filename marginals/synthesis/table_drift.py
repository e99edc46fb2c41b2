"""Drift: whether two tables have the same distribution, and which columns and pairs differ."""

import itertools
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from scipy import stats

from marginals.synthesis.comparable_cells import Cells, Floats, Ints, aligned, checked_tables

_MOST_GROUPS = 6  # of the values of a column, for pairs
_ROWS_PER_CELL = 10  # of a pair's table, on average in the smaller sample
_ROUNDS = 200  # of proportional fitting; the counts settle long before


@final
@dataclass(frozen=True)
class Drift:
    """Hold tests of whether two tables have the same distribution.

    Args:
        columns: one line per column: the distance between its values (Kolmogorov's, or total
            variation for categories), the change in its share of missing cells, the p-value, and
            whether it drifted.
        pairs: one line per pair of columns: the p-value of a change in their dependence, beyond
            changes in either column alone, and whether the pair drifted.
        level: the probability of any false alarm if nothing changed.
    """

    columns: pd.DataFrame
    pairs: pd.DataFrame
    level: float

    @property
    def pvalue(self) -> float:
        """The probability of a change as clear as the clearest one if nothing changed."""
        every = pd.concat([self.columns["pvalue"], self.pairs["pvalue"]]).dropna()
        return min(1.0, float(every.min()) * len(every)) if len(every) else 1.0

    @property
    def drifted(self) -> list[Any]:
        """The columns and pairs of columns that drifted, the clearest first."""
        columns = self.columns[self.columns["drifted"]].rename(columns={"column": "what"})
        pairs = self.pairs[self.pairs["drifted"]]
        pairs = pairs.assign(what=list(zip(pairs["first"], pairs["second"], strict=True)))
        both = pd.concat([columns[["what", "pvalue"]], pairs[["what", "pvalue"]]])
        return both.sort_values("pvalue", kind="stable")["what"].tolist()

    def __str__(self) -> str:
        if not self.drifted:
            return f"No drift (p = {self.pvalue:.2g})."
        names = (" with ".join(map(str, w)) if isinstance(w, tuple) else w for w in self.drifted)
        return f"Drift (p = {self.pvalue:.2g}): {', '.join(map(str, names))}."


def drift(old: Any, new: Any, *, level: float = 0.01) -> Drift:
    """Test whether two tables have the same distribution, column by column and pair by pair.

    Numbers are compared by Kolmogorov-Smirnov tests, categories and missing cells by chi-square
    tests. Pairs are compared by a likelihood-ratio test for a change in their odds ratios on
    grouped values, which a change in single columns does not trigger. Holm's method limits the
    probability of any false alarm to `level`.

    Args:
        old: a table.
        new: another table with the same columns.
        level: the probability of any false alarm.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 500))
    >>> print(drift(pd.DataFrame({"x": x, "y": y}), pd.DataFrame({"x": y, "y": y + 1})).drifted)
    [('x', 'y'), 'y']
    """
    if not 0 < level < 1:
        raise ValueError(f"Expected `level` to lie between 0 and 1; got {level}.")
    first, second = checked_tables(old=old, new=new)
    cells = aligned(first, second)
    columns = pd.DataFrame([_column(each) for each in cells])
    groups = [_groups(each) for each in cells]
    pairs = pd.DataFrame(
        [
            {"first": a.name, "second": b.name, "pvalue": _pair(groups[i], groups[j])}
            for (i, a), (j, b) in itertools.combinations(enumerate(cells), 2)
        ],
        columns=["first", "second", "pvalue"],
    )
    found = _holm(np.concatenate([columns["pvalue"], pairs["pvalue"].astype(float)]), level)
    columns["drifted"], pairs["drifted"] = found[: len(columns)], found[len(columns) :]
    return Drift(columns, pairs, level)


def _column(cells: Cells) -> dict[str, Any]:
    """Compare the values of a column, and its share of missing cells."""
    known = [part[~np.isnan(part)] for part in cells.parts]
    gaps = [float(np.isnan(part).mean()) for part in cells.parts]
    sizes = np.array([[len(k), len(p) - len(k)] for k, p in zip(known, cells.parts, strict=True)])
    pvalues, distance = [_chi_square(sizes)], 0.0
    if min(map(len, known)) > 0:
        if cells.number:
            test = stats.ks_2samp(*known, method="asymp")
            distance = float(test.statistic)
            pvalues.append(float(test.pvalue))
        else:
            codes = [k.astype(np.int64) for k in known]
            counts = np.stack([np.bincount(c, minlength=cells.categories) for c in codes])
            shares = counts / counts.sum(1, keepdims=True)
            distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
            pvalues.append(_chi_square(counts))
    pvalue = min(1.0, len(pvalues) * min(pvalues))
    return {
        "column": cells.name,
        "distance": distance,
        "missing": gaps[1] - gaps[0],
        "pvalue": pvalue,
    }


def _chi_square(counts: Any) -> float:
    """Test whether two rows of counts have the same shares; rare columns are joined."""
    total = counts.sum(0)
    rare = total < 10
    if rare.any():
        counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    counts = counts[:, counts.sum(0) > 0]
    if counts.shape[1] < 2 or (counts.sum(1) == 0).any():
        return 1.0
    return float(stats.chi2_contingency(counts, correction=False).pvalue)


def _groups(cells: Cells) -> tuple[Ints, Ints]:
    """Return the group of each value in both tables: quantiles, or frequent categories; -1."""
    both = np.concatenate(cells.parts)
    known = both[~np.isnan(both)]
    rows = min(int((~np.isnan(part)).sum()) for part in cells.parts)
    most = int(np.clip(np.sqrt(rows / _ROWS_PER_CELL), 2, _MOST_GROUPS))
    if not len(known):
        codes = np.full(len(both), -1)
    elif cells.number:
        edges = np.unique(np.quantile(known, np.linspace(0, 1, most + 1)[1:-1]))
        codes = np.where(np.isnan(both), -1, np.searchsorted(edges, both))
    else:
        frequent = np.argsort(-np.bincount(known.astype(int)), kind="stable")[: most - 1]
        place = {float(code): at for at, code in enumerate(frequent)}
        codes = np.array([-1 if np.isnan(v) else place.get(v, most - 1) for v in both.tolist()])
    first, second = np.split(codes.astype(np.int64), [len(cells.parts[0])])
    return first, second


def _pair(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> float:
    """Test whether the odds ratios of two grouped columns are the same in both tables."""
    tables = []
    for one, two in zip(a, b, strict=True):
        known = (one >= 0) & (two >= 0)
        table = np.zeros((1 + max(map(_top, a)), 1 + max(map(_top, b))))
        np.add.at(table, (one[known], two[known]), 1.0)
        tables.append(table)
    counts: Floats = np.stack(tables, -1)  # (A, B, 2)
    counts = counts[counts.sum((1, 2)) > 0][:, counts.sum((0, 2)) > 0]
    if min(counts.shape[:2], default=0) < 2 or (counts.sum((0, 1)) == 0).any():
        return 1.0
    fitted = _without_interaction(counts)
    positive = counts > 0
    statistic = 2 * float((counts[positive] * np.log(counts[positive] / fitted[positive])).sum())
    return float(stats.chi2.sf(max(0.0, statistic), (counts.shape[0] - 1) * (counts.shape[1] - 1)))


def _top(codes: Ints) -> int:
    return int(codes.max(initial=0))


def _without_interaction(counts: Floats) -> Floats:
    """Return the closest counts whose odds ratios are the same in both tables, by fitting."""
    fitted = np.full_like(counts, counts.sum() / counts.size)
    for _ in range(_ROUNDS):
        before = fitted
        for axis in range(3):
            now = fitted.sum(axis, keepdims=True)
            share = np.divide(counts.sum(axis, keepdims=True), now, where=now > 0, out=now * 0)
            fitted = fitted * share
        if np.abs(fitted - before).max() < 1e-6:
            break
    return fitted


def _holm(pvalues: Floats, level: float) -> Any:
    """Say which hypotheses Holm's method rejects.

    >>> _holm(np.array([0.001, 0.04, 0.02]), 0.05).tolist()
    [True, True, True]
    """
    order = np.argsort(pvalues, kind="stable")
    limits = level / np.arange(len(pvalues), 0, -1)
    passed = np.logical_and.accumulate(pvalues[order] <= limits)
    found = np.zeros(len(pvalues), dtype=bool)
    found[order[passed]] = True
    return found
