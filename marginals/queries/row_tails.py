"""How often a row is as extreme as a given one, with the same cells missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from marginals.cells.evidence import Evidence
from marginals.columns import Schema, encode
from marginals.densities.density import Density, in_batches
from marginals.densities.mixture import Mixture
from marginals.densities.univariate_cells import log_tails
from marginals.queries.imputation import Imputation
from marginals.queries.named_rows import random_of, seed_of
from marginals.queries.neighbours import Neighbours
from marginals.queries.positions import seeded
from marginals.queries.shrinkage import LinearPrior, fit_prior

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# The most common patterns of gaps are compared with the whole reference, the others with at least
# `_FEW` of its rows each, and more if there are few patterns: about `_BUDGET` rows in all.
_COMMON, _FEW, _BUDGET = 8, 16, 10_000
# With so few columns, every pattern is compared with the whole reference.
_FEW_COLUMNS = 6
# Patterns that teach how the views depend on gaps: from the table, and random ones.
_OF_TABLE, _AT_RANDOM = 500, 250
# Reference rows for the tails of the other patterns, from patterns with about as many known cells.
_POOLED = 500
# The exponential tail is fitted to so many of the most extreme rows, at most a tenth of them.
_EXTREME = 20
_LEAST_EXCESS = 0.01  # in spreads
# Views are rounded to the digits of a float32 sum of nats, so that equal rows have equal views.
_DIGITS, _LEAST_SPREAD = 4, 1e-3
# In spreads: rows of discrete columns tie with those of the reference.
_TIE = 1e-6
# The weights of the views; the joint ones share theirs. Rows that are odd only together must not be
# outvoted by the tails of cells alone.
_WEIGHTS = {"joint": 3.0, "tails": 1.0, "near": 3.0}
# Among rows without outliers: the most to look for neighbours among, and the neighbour that counts.
_MOST_CLEAN, _CLEAN_NEIGHBOUR = 10_000, 3
# Cells compared at a time, which bounds memory.
_CELLS_AT_ONCE = 1 << 22


def row_tails(
    density: Density,
    schema: Schema,
    table: pd.DataFrame,
    samples: int = 2000,
    random_state: Any = 0,
    *,
    clean: bool = False,
) -> "RowTails":
    """Compare rows with those of a table.

    Args:
        density: the density on the model's scale.
        schema: the schema of its columns.
        table: rows with all columns of the schema; their gaps are filled by draws.
        samples: the most rows to compare with.
        random_state: seed for the choice of rows and for the draws.
        clean: whether the table holds no outliers. Then a near row shows more, so that a nearer
            neighbour counts, among more rows, and the tails of cells are not needed.
    """
    random = random_of(random_state)
    most = max(samples, _MOST_CLEAN) if clean else samples
    rows = table.iloc[random.permutation(len(table))[:most]]
    generator = seeded(density, seed_of(random))
    (filled,) = Imputation(density, schema, rows).drawn(1, generator)
    observed = table.notna().to_numpy(dtype=bool)
    every = encode(schema, filled).evidence
    if not clean:
        return RowTails(density, every, observed)
    reference = every.rows(torch.arange(min(samples, len(every)), device=every.lower.device))
    return RowTails(
        density, reference, observed, ("joint", "near"), among=every, neighbour=_CLEAN_NEIGHBOUR
    )


@final
@dataclass(frozen=True)
class _Rare:
    """A model of all patterns: how their views spread, and how extreme rows are."""

    centre: LinearPrior
    log_scale: LinearPrior
    standard: Floats  # (P, K, views), in spreads
    known: Whole  # (P,)


@final
class RowTails:
    """Tail probabilities of rows among reference rows with the same cells missing.

    A row has several views: minus the log density of its cells together under each member of the
    density; minus the logs of the tails of each cell alone; and the distance to the fifth nearest
    row of the reference, see `Neighbours`. In each view, the share of the reference with the same
    gaps that is at least as extreme is a p-value. The weighted mean of their logs, as in Fisher's
    combination, says how extreme a row is: a row that is odd in several views counts more than one
    that is odd in a single view. The tail probability is the share of the reference that is at
    least as extreme in this mean.

    The most common patterns of gaps, and all patterns of up to six columns, are compared with the
    whole reference. Each other pattern has 16 rows (40 if the table has few patterns), whose median
    and interquartile range in each view are shrunk towards a linear model over all patterns; views
    in these units are pooled over patterns with as many observed cells. So a row's answer depends
    on that row alone, and its cost is bounded.

    Args:
        density: gives the log values of rows. Each member of a mixture has a view of its own, so
            that no single member makes a row likely; the view of tails is the weighted mean over
            members.
        reference: complete rows, drawn from the density or from the data.
        patterns: which cells are observed in the rows of a table, (rows, columns), to find its most
            common patterns. None for complete rows only.
        views: the views that count, of "joint", "tails" and "near". The joint views together have
            the weight 3, shared out by the weights of members, "tails" 1 and "near" 3.
        seed: seed for the choice of rows for each pattern.
        among: complete rows to look for neighbours among; None for the reference.
        neighbour: which of the nearest rows counts.
    """

    def __init__(
        self,
        density: Density,
        reference: Evidence,
        patterns: Flags | None = None,
        views: tuple[str, ...] = ("joint", "tails", "near"),
        seed: int = 0,
        *,
        among: Evidence | None = None,
        neighbour: int = 5,
    ) -> None:
        self.density, self.reference, self.views = density, density.checked(reference), views
        near = self.reference if among is None else density.checked(among)
        self._near = Neighbours(self._numbers(near), density.categories, neighbour)
        self._random = np.random.default_rng(seed)
        self._members = _members(density)
        self._weights = self._weights_of_views()
        self._cells = self._of_cells(self.reference)  # (S, n)
        columns = len(self.reference.columns)
        self._keys = self._random.integers(1, 1 << 30, size=columns)
        given = np.ones((1, columns), dtype=bool) if patterns is None else patterns
        self._learn(given[given.any(1)])

    def __call__(self, rows: Evidence) -> Floats:
        """Return the log tail probability of each row, (B,); 0 for a row without observed cells.

        Beyond the most extreme reference rows it follows an exponential tail.
        """
        rows = self.density.checked(rows)
        seen = self._seen(rows)  # (B, views)
        known = ~rows.missing().cpu().numpy()
        out = np.zeros(len(rows))
        left = known.any(1)
        for pattern, drawn, surprise in self._common:
            held = left & (known == pattern).all(1)
            out[held] = log_tail(_surprise(seen[held], drawn, self._weights), surprise)
            left &= ~held
        if left.any():
            out[left] = self._rarely(seen[left], known[left])
        return out

    # Patterns -----------------------------------------------------------------------------------

    def _learn(self, patterns: Flags) -> None:
        """Compare common patterns with the whole reference, and fit a model of the others."""
        kinds, counts = np.unique(patterns, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        few = patterns.shape[1] <= _FEW_COLUMNS
        common = _all_patterns(patterns.shape[1]) if few else kinds[order[:_COMMON]]
        self._common = [self._exactly(pattern) for pattern in common]
        if few:
            return
        rest = kinds[order[_COMMON:]]
        self._few = max(_FEW, _BUDGET // max(len(rest), _AT_RANDOM))
        rest = rest[self._random.permutation(len(rest))[:_OF_TABLE]]
        share = self._random.random((_AT_RANDOM, 1))
        chance = self._random.random((_AT_RANDOM, patterns.shape[1])) < share
        chosen = np.unique(np.concatenate([rest, chance[chance.any(1)]]), axis=0)
        self._rare = _learned(self._drawn(chosen), chosen)

    def _exactly(self, pattern: Flags) -> tuple[Flags, Floats, Floats]:
        """Return a pattern, the views of the reference under it, and how extreme its rows are."""
        every = np.arange(len(self.reference))[None]
        (drawn,) = self._masked(pattern[None], every)  # (S, views)
        return pattern, drawn, _surprise(drawn, drawn, self._weights)

    def _rarely(self, seen: Floats, known: Flags) -> Floats:
        """Compare rows with a few reference rows for each pattern and the model of all patterns."""
        patterns, place = np.unique(known, axis=0, return_inverse=True)
        place = place.reshape(-1)
        centre, scale, _ = _shrunk(self._drawn(patterns), patterns, self._rare)
        at = (seen - centre[place]) / scale[place]
        count = known.sum(1)
        out = np.zeros(len(seen))
        for one in np.unique(count):
            near = _nearest(self._rare.standard, np.abs(self._rare.known - one))  # (n, views)
            found = _surprise(at[count == one], near, self._weights)
            out[count == one] = log_tail(found, _surprise(near, near, self._weights))
        return out

    def _drawn(self, patterns: Flags) -> Floats:
        """Return the views of a few reference rows under each pattern, (P, K, views)."""
        most = len(self.reference)
        few = np.arange(max(1, min(self._few, most) // 2 * 2))  # even, see `_other_medians`
        start = (patterns @ self._keys) % most  # a pattern's rows are its own
        size = max(1, _CELLS_AT_ONCE // (len(few) * patterns.shape[1]))
        parts = [
            self._masked(patterns[some], (start[some, None] + few) % most)
            for some in _slices(len(patterns), size)
        ]
        return np.concatenate(parts)

    # Views --------------------------------------------------------------------------------------

    def _masked(self, patterns: Flags, index: Whole) -> Floats:
        """Return the views of some reference rows under each pattern, (P, K, views)."""
        flat = index.reshape(-1)
        known = np.repeat(patterns, index.shape[1], axis=0)  # (P * K, n)
        chosen = self.reference.rows(torch.from_numpy(flat).to(self.reference.lower.device))
        gone = torch.from_numpy(~known).to(chosen.lower.device)
        lower = chosen.lower.masked_fill(gone, torch.nan)
        upper = chosen.upper.masked_fill(gone, torch.nan) if chosen.intervals else lower
        part = Evidence(chosen.columns, lower, upper, {}, chosen.intervals)
        sums = np.where(known, self._cells[flat], 0.0).sum(1)
        return self._together(part, sums).reshape(*index.shape, -1)

    def _seen(self, rows: Evidence) -> Floats:
        """Return the views of rows, (B, views)."""
        missing = rows.missing().cpu().numpy()
        return self._together(rows, np.where(missing, 0.0, self._of_cells(rows)).sum(1))

    def _together(self, rows: Evidence, sums: Floats) -> Floats:
        """Return the views that count, from rows and the sums over their cells."""
        with torch.no_grad():
            parts = [-member.log_value(rows).double() for member, _ in self._members]
        joint = torch.stack(parts, -1).cpu().numpy()  # (B, members)
        every = {"joint": joint, "tails": sums[:, None]}
        if "near" in self.views:
            every["near"] = self._near(self._numbers(rows))[:, None]
        return np.concatenate([every[view] for view in self.views], -1).round(_DIGITS)

    def _numbers(self, rows: Evidence) -> Floats:
        """Return a number for each cell, NaN where missing, (B, n)."""
        found: Floats = rows.midpoints(self.density.atoms).double().cpu().numpy()
        return found

    def _weights_of_views(self) -> Floats:
        """Return the weight of each view, (views,); members share that of the joint views."""
        joint = [_WEIGHTS["joint"] * share for _, share in self._members]
        weights = np.concatenate(
            [joint if view == "joint" else [_WEIGHTS[view]] for view in self.views]
        )
        return np.asarray(weights / weights.sum())

    def _of_cells(self, rows: Evidence) -> Floats:
        """Return minus the log tail of each cell alone, (B, n)."""
        nothing = Evidence.nothing(1, like=rows.lower)
        total = np.zeros(rows.lower.shape)
        with torch.no_grad():
            for member, share in self._members:
                tails = partial(
                    log_tails,
                    member.univariates(nothing, rows.columns),
                    categories=member.categories,
                )
                found = in_batches(tails, rows, member.rows_at_once())
                total -= share * found.double().cpu().numpy()
        return total


def log_tail(at: Floats, drawn: Floats, heavy: bool = False) -> Floats:
    """Return log P(a draw >= at), linear between draws, then the exponential tail of their excess.

    A heavy tail is that of Pareto, whose log falls ever more slowly.

    >>> log_tail(np.array([0.0, 2.0, 3.0]), np.array([1.0, 2.0])).round(2).tolist()
    [0.0, -0.69, -1.69]
    """
    points, counts = np.unique(drawn[np.isfinite(drawn)], return_counts=True)
    if not len(points):
        return np.where(np.isfinite(at), 0.0, -np.inf)
    above = counts[::-1].cumsum()[::-1]
    shares = np.log(above / above[0])
    few = min(_EXTREME, max(1, above[0] // 10))
    edge = min(int(np.searchsorted(-above, -few)), len(points) - 1)
    excess = float(np.average(points[edge:] - points[edge], weights=counts[edge:]))
    # A single draw, or ties, say nothing of the excess: guess one spread.
    past = np.maximum(at - points[edge], 0.0) / (excess if excess > _LEAST_EXCESS else 1.0)
    beyond = shares[edge] - (np.log1p(past) if heavy else past)
    return np.where(at > points[edge] + _TIE, beyond, np.interp(at - _TIE, points, shares))


def _surprise(seen: Floats, drawn: Floats, weights: Floats) -> Floats:
    """Return how extreme rows (B, views) are among drawn ones (S, views), (B,)."""
    if len(weights) == 1:
        return seen[:, 0]
    # Heavy tails: no view alone decides, however far out a row is in it.
    columns = zip(seen.T, drawn.T, strict=True)
    return -np.stack([log_tail(*each, heavy=True) for each in columns], -1) @ weights


def _members(density: Density) -> list[tuple[Density, float]]:
    """Return the members of a mixture and their weights, or a density alone."""
    if not isinstance(density, Mixture):
        return [(density, 1.0)]
    shares = density.log_weights().double().exp().tolist()
    return list(zip(density.densities, shares, strict=True))


# Spreads ----------------------------------------------------------------------------------------


def _spread(drawn: Floats) -> tuple[Floats, Floats]:
    """Return median and range of the middle half of the rows of each pattern, (P, views).

    Both are robust: reference rows may be outliers themselves.
    """
    low, centre, high = np.quantile(drawn, [0.25, 0.5, 0.75], axis=1)
    # With discrete columns, more than half of the rows may be equal.
    even = np.abs(drawn - centre[:, None]).mean(1)
    scale = np.where(high - low > _LEAST_SPREAD, high - low, even)
    return centre, np.maximum(scale, _LEAST_SPREAD)


def _noise(drawn: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return centres and log scales of patterns, and the variances of both.

    The variances are those of the median and the log range of K normal rows.
    """
    centre, scale = _spread(drawn)
    count = drawn.shape[1]
    return centre, np.log(scale), 0.863 * scale**2 / count, np.full(scale.shape, 1.36 / count)


def _learned(drawn: Floats, patterns: Flags) -> _Rare:
    """Fit how views depend on gaps to the rows (P, K, views) of some patterns."""
    centre, log_scale, noise, log_noise = _noise(drawn)
    features = _features(patterns)
    priors = fit_prior(centre, noise, features), fit_prior(log_scale, log_noise, features)
    known = patterns.sum(1)
    learned = _Rare(*priors, np.zeros((0, 0, 0)), known)
    middle, scale, own = _shrunk(drawn, patterns, learned)
    # A reference row counts in the median of its pattern, a new row does not: leave it out.
    moved = own[:, None] * (_other_medians(drawn) - centre[:, None])
    return _Rare(*priors, (drawn - middle[:, None] - moved) / scale[:, None], known)


def _other_medians(drawn: Floats) -> Floats:
    """Return for each of an even number of rows the median of the others, (P, K, views)."""
    half = drawn.shape[1] // 2
    below, above = np.sort(drawn, axis=1)[:, [max(0, half - 1), half]].swapaxes(0, 1)[..., None, :]
    return np.where(drawn <= below, above, below)


def _shrunk(drawn: Floats, patterns: Flags, learned: _Rare) -> tuple[Floats, Floats, Floats]:
    """Return centre and scale of each pattern, and the weight of its own rows in the centre."""
    centre, log_scale, noise, log_noise = _noise(drawn)
    features = _features(patterns)
    middle, own = learned.centre.shrunk(centre, noise, features)
    return middle, np.exp(learned.log_scale.shrunk(log_scale, log_noise, features)[0]), own


def _features(patterns: Flags) -> Floats:
    """Describe patterns: which cells are observed, and how many."""
    share = patterns.mean(1)
    return np.column_stack([np.ones(len(patterns)), patterns, share**2])


def _nearest(standard: Floats, distance: Whole) -> Floats:
    """Return enough rows (n, views) of the patterns at the smallest distances."""
    order, counts = np.unique(distance, return_counts=True)
    enough = np.searchsorted(counts.cumsum() * standard.shape[1], _POOLED)
    reach = order[min(int(enough), len(order) - 1)]
    return standard[distance <= reach].reshape(-1, standard.shape[2])


def _all_patterns(columns: int) -> Flags:
    """Return every pattern of observed cells but the empty one."""
    numbers = np.arange(1, 1 << columns)
    return (numbers[:, None] >> np.arange(columns)) % 2 == 1


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
