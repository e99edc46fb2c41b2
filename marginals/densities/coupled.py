"""Gaussian-copula components: columns coupled inside each component by low-rank correlations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled_intervals import Tied, divided, log_intervals, sample_intervals
from marginals.densities.coupled_univariates import Interleaved, JointUnivariates, ScaledMixtures
from marginals.densities.density import in_batches
from marginals.densities.tensor_density import LeafDensity, sample_in_batches
from marginals.densities.univariates import LeafMixtures, Univariates
from marginals.leaves import Leaves, SharedLeaves
from marginals.leaves.shared import standardise
from marginals.numerics import (
    draw_many,
    factors,
    index_of,
    log_normal_density,
    log_shares,
    logsumexp,
    select,
    sum_of_others,
    table_of,
)
from marginals.numerics.regression import conditional_of_rows
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.query_batches import map_batches
from marginals.tensors.couplings import Couplings

# With more columns, a matrix of columns by columns per component costs more than the factors.
_DENSE_COLUMNS = 64
# With at most this many patterns of missing cells, all rows are evaluated for each of them.
_FEW_PATTERNS = 4


class _Values(NamedTuple):
    """Log values of evidence under each component."""

    loose: Tensor  # (n, B, K), of each column that is not coupled
    tied: Tensor  # (B, K), of all coupled columns together

    def total(self) -> Tensor:
        """Return the log value of everything, (B, K)."""
        return self.loose.sum(0) + self.tied


@final
class CoupledDensity(LeafDensity):
    r"""A mixture of Gaussian copulas with univariate margins :math:`\varphi_{kj}`.

    In component k the scores :math:`\Phi^{-1}(\varphi_{kj}(x_j))` of the coupled columns are
    jointly normal with a low-rank correlation; all other columns are independent given the
    component. Rank 0 is the CP model.

    Densities, marginals, conditionals, univariate CDFs and quantiles given exact cells, and samples
    are closed form. Boxes of two coupled columns are accurate to 1e-10, of more to 1e-4 (absolute,
    for each component), by quasi-Monte Carlo. Every answer about a row with several intervals among
    coupled columns carries that error.

    Args:
        leaves: the univariate families. The columns of the first, `SharedLeaves` with a normal
            base, are coupled.
        couplings: weights and correlations.
    """

    def __init__(self, leaves: Leaves, couplings: Couplings) -> None:
        super().__init__(leaves)
        family = leaves.families[0]
        if not isinstance(family, SharedLeaves) or family.base != "normal":
            raise ValueError(
                "Expected the first family of `leaves` to be `SharedLeaves` with a normal base, "
                f"whose columns are coupled; got {type(family).__name__}."
            )
        if family.size != couplings.size:
            raise ValueError(
                "Expected `couplings` to have the columns and components of the coupled leaves; "
                f"got {couplings.size} and {family.size}."
            )
        self.couplings = couplings

    @property
    def coupled(self) -> tuple[int, ...]:
        """The columns that are coupled within components."""
        return self.leaves.owned[0]

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        return logsumexp(self._values(evidence, backend).total() + self.couplings.log_weights())

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log value of each requested row given its evidence, and that of the evidence.

        The conditional within each component is weighed by the component's share of the evidence.
        """
        asked = requested.observed()
        known, impossible = given.observed().without_impossible()
        if not asked.columns or not known.columns:
            return super().contract_given(requested, given, place)
        size = self.rows_at_once()
        totals = in_batches(lambda part: self._values(part).total(), known, size)
        weights, log_given = log_shares(totals + self.couplings.log_weights())  # (U, K)
        if place is None:
            asked = asked.expand(len(known))
            place = torch.arange(len(known), device=weights.device)
        if impossible is not None:
            log_given = log_given.masked_fill(impossible, -torch.inf)
        ranges = self._log_ranges(known)  # (U, K)

        def answer(pair: tuple[Evidence, Tensor]) -> Tensor:
            part, rows = pair
            own = self._log_given(part, known.rows(rows))
            return logsumexp(own - ranges[rows] + weights[rows])

        pairs = zip(asked.batches(size), place.split(size), strict=True)
        return torch.cat(map_batches(answer, pairs, place.device)), log_given

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        cells = self.checked(given)
        known, impossible = cells.without_impossible()
        asked = tuple(range(self.columns)) if columns is None else tuple(columns)
        self.check_columns(asked)
        loose, tied = self._split(asked)
        parts: list[Univariates] = []
        if loose:
            outside = self._outside(known, loose, self._values(known))
            parts.append(LeafMixtures(self.leaves, loose, outside))
        if tied:
            plain = self._without_intervals(known)
            found = self._scaled(plain, tied)
            ruled = plain is not known
            parts.append(JointUnivariates(self, known, tied, found) if ruled else found)
        out = parts[0] if len(parts) == 1 else Interleaved(parts, asked)
        if impossible is not None:
            others = [cells.without(c) for c in asked]
            ruled_out = torch.stack([(other.lower > other.upper).any(1) for other in others], 1)
            out.log_evidence = out.log_evidence.masked_fill(ruled_out, -torch.inf)
        return out

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        with torch.no_grad():
            return sample_in_batches(self._sample_some, given, draws, self._draw_cost(), generator)

    def row_cost(self) -> int:
        """Return the number of floats that the contraction of one row holds at a time."""
        columns, width = self.couplings.size
        rank = self.couplings.rank
        side = columns if factors.has_small_columns(columns, rank) else rank
        return self.leaves.row_cost() + width * (8 * columns + 4 * side * side)

    def config(self) -> dict[str, Any]:
        """Return the configuration that rebuilds the model, as JSON."""
        return {"leaves": self.leaves.config(), "couplings": self.couplings.config()}

    # Parts ------------------------------------------------------------------------------------

    @property
    def _family(self) -> SharedLeaves:
        family = self.leaves.families[0]
        assert isinstance(family, SharedLeaves)
        return family

    def _split(self, columns: Sequence[int]) -> tuple[list[int], list[int]]:
        """Part columns into loose and coupled ones."""
        loose = [c for c in columns if c not in self.coupled]
        return loose, [c for c in columns if c in self.coupled]

    def _values(self, evidence: Evidence, backend: Backend = QUERY) -> _Values:
        loose, tied = self._split(evidence.columns)
        rows, width = len(evidence), self.couplings.size[1]
        like = self.couplings.raw
        if loose:
            apart = self.leaves.log_values(evidence.select(loose), backend)
        else:
            apart = like.new_zeros(0, rows, width)
        if not tied:
            return _Values(apart, like.new_zeros(rows, width))
        cells = evidence.select(tied)
        dense = len(tied) <= _DENSE_COLUMNS
        if cells.complete and dense:
            return _Values(apart, self._log_complete(cells, backend.host_free))
        if 0 < len(cells.patterns) <= _FEW_PATTERNS and dense:
            return _Values(apart, self._log_patterns(cells, backend.host_free))
        return _Values(apart, self._log_tied(self._tie(cells), backend.host_free))

    def _own(self, columns: Sequence[int]) -> list[int]:
        """Return the positions of coupled columns in their family."""
        return [self.coupled.index(c) for c in columns]

    def _log_complete(self, cells: Evidence, host_free: bool = False) -> Tensor:
        """Return the log value of coupled cells that are all exact, (B, K)."""
        own = self._own(cells.columns)
        y, log_slope = self._family.scale(cells.upper.T, own)
        loadings, unique = self.couplings.loadings()
        value = factors.log_density_of_rows(
            y.T,
            self._family.locations(own).T,
            self._family.log_scales(own).T,
            select(loadings, own, 1),
            select(unique, own, 1),
            host_free=host_free,
        )
        return value + log_slope.sum(0)[:, None]

    def _log_patterns(self, cells: Evidence, host_free: bool) -> Tensor:
        """Return the log value of coupled cells with few patterns of missing ones, (B, K)."""
        seen = ~cells.upper.isnan()  # (B, n)
        value = self.couplings.raw.new_zeros(len(cells), len(self.couplings.raw))
        for known in set(cells.patterns):
            if known:
                bits = index_of([int(c in known) for c in cells.columns], seen.device).bool()
                match = (seen == bits).all(1)
                # Rows with other patterns are computed too, then masked.
                some = cells.select([c for c in cells.columns if c in known])
                part = self._log_complete(some, host_free)
                value = torch.where(match[:, None], part, value)
        return value

    def _tie(self, cells: Evidence) -> Tied:
        """Bring coupled cells onto the scale of their components' scores."""
        own, family = self._own(cells.columns), self._family
        lower, upper = cells.by_column()
        exact = lower == upper  # (n, B)
        y, log_slope = family.scale(torch.where(exact, upper, torch.nan), own)
        location, log_scale = family.locations(own), family.log_scales(own)  # (n, K)
        z = standardise(y[..., None], location[:, None], log_scale.exp()[:, None])  # (n, B, K)
        slope = torch.where(exact, log_slope, 0.0).sum(0)[:, None]
        widths = exact.T.to(log_scale.dtype) @ log_scale
        loadings, unique = self.couplings.loadings()
        low = high = gap = None
        if cells.has_intervals:
            inside = (lower < upper) & ~((lower == -torch.inf) & (upper == torch.inf))
            ends = family.learned.ends(
                torch.where(inside, lower, -torch.inf), torch.where(inside, upper, torch.inf), own
            )
            spread = log_scale.exp()[:, None]
            low, high = (
                standardise(end[..., None], location[:, None], spread).permute(1, 2, 0)
                for end in ends[:2]
            )
            # A finite end may overflow, but (inf, inf] would be no interval at all.
            limits = torch.finfo(low.dtype)
            low, high = low.clamp(max=limits.max), high.clamp(min=limits.min)
            gap = divided(ends[2][..., None], spread).permute(1, 2, 0)
        places = [[cells.columns.index(c) for c in known] for known in cells.patterns]
        return Tied(
            scores=z.permute(1, 2, 0),
            log_slope=slope - widths,
            loadings=select(loadings, own, 1),
            unique=select(unique, own, 1),
            exact=exact[:, :1].T if cells.complete else exact.T,  # one pattern for all rows
            low=low,
            high=high,
            gap=gap,
            patterns=table_of(places, len(own), exact.device) if places else None,
        )

    def _log_tied(self, tied: Tied, host_free: bool = False) -> Tensor:
        """Return the log value of the coupled cells under each component, (B, K)."""
        parts = (tied.scores, tied.loadings, tied.unique, tied.exact, tied.patterns)
        value = factors.log_density(*parts, host_free=host_free) + tied.log_slope
        return value if tied.low is None else value + log_intervals(tied).to(value.dtype)

    def _log_given(self, asked: Evidence, known: Evidence) -> Tensor:
        """Return the log value of requested cells given others within each component, (B, K).

        It includes the probability of the given ranges, see `_log_ranges`.
        """
        loose, tied = self._split(asked.columns)
        held = self._split(known.columns)[1]
        if not (tied and held):
            return self._values(asked).total() + self._log_ranges(known)
        value = self._values(asked.select(loose)).total()
        mine, theirs = asked.select(tied), known.select(held)
        both = self._tie(mine.join(theirs))
        alone = self._tie(theirs)
        if both.low is not None:
            value = value + log_intervals(both).to(value.dtype)
        exact = (mine.lower == mine.upper).any(1)
        if not bool(exact.any()):
            return value  # densities of the evidence alone, which cancel
        # The two densities may be large and close: their difference is taken in float64.
        joint, base = (
            factors.log_density(
                side.scores.double(), side.loadings.double(), side.unique.double(), side.exact
            )
            for side in (both, alone)
        )
        change = (joint - base).to(value.dtype) + (both.log_slope - alone.log_slope)
        return value + torch.where(exact[:, None], change, 0.0)

    def _log_ranges(self, known: Evidence) -> Tensor:
        """Return the log probability of coupled ranges given the exact coupled cells, (B, K)."""
        cells = known.select(self._split(known.columns)[1])
        if not cells.has_intervals:
            return self.couplings.raw.new_zeros(len(known), self.couplings.size[1])
        return log_intervals(self._tie(cells)).to(self.couplings.raw.dtype)

    def _outside(self, known: Evidence, asked: Sequence[int], values: _Values) -> Tensor:
        """Return the log weight of each component given the other columns' evidence, (n, B, K)."""
        base = self.couplings.log_weights() + values.tied  # (B, K)
        loose, _ = self._split(known.columns)
        everything = base + values.loose.sum(0)
        others = base + sum_of_others(values.loose, 0) if loose else values.loose
        return torch.stack([others[loose.index(c)] if c in loose else everything for c in asked])

    def _scaled(self, known: Evidence, asked: Sequence[int]) -> ScaledMixtures:
        """Return univariates of coupled columns, given no intervals in coupled columns."""
        loose, held = self._split(known.columns)
        cells = known.select(held)
        if self._is_complete(cells) and not set(held) & set(asked):
            return self._scaled_of_rows(known, cells, asked)
        tied = sorted({*known.columns, *asked} & set(self.coupled))
        scored = self._tie(known.select(tied))
        joint = self._log_tied(scored) + self.couplings.log_weights()  # (B, K)
        if loose:
            joint = joint + self.leaves.log_values(known.select(loose)).sum(0)
        index = torch.tensor([tied.index(c) for c in asked], device=joint.device)
        mean, variance = factors.conditional(
            scored.scores, scored.loadings, scored.unique, scored.exact, index
        )  # (n, B, K)
        own = self._own(asked)
        location, log_scale = (
            part[:, None] for part in (self._family.locations(own), self._family.log_scales(own))
        )
        z = scored.scores[..., index].permute(2, 0, 1)
        log_width = 0.5 * variance.log()
        # Take an observed cell's own contribution out again; its slope is the same for all.
        said = log_normal_density((z - mean) * (-log_width).exp()) - log_width - log_scale
        _, log_slope = self._family.scale(known.select(asked).upper.T, own)
        seen = scored.exact[:, index].T[..., None]
        weights = joint - torch.where(seen, said + log_slope[..., None], 0.0)
        return ScaledMixtures(
            self._family,
            own,
            asked,
            weights,
            location + log_scale.exp() * mean,
            log_scale + log_width,
        )

    def _is_complete(self, cells: Evidence) -> bool:
        """Return whether all rows observe all of these coupled columns, and they are few."""
        few = len(cells.columns) <= _DENSE_COLUMNS
        return few and (cells.complete or bool((cells.lower == cells.upper).all()))

    def _scaled_of_rows(
        self, known: Evidence, cells: Evidence, asked: Sequence[int]
    ) -> ScaledMixtures:
        """Return univariates of coupled columns, given exact coupled `cells` in all rows."""
        loose, held = self._split(known.columns)
        joint = self.couplings.log_weights().expand(len(known), -1)  # (B, K)
        if held:
            joint = joint + self._log_complete(cells)
        if loose:
            joint = joint + self.leaves.log_values(known.select(loose)).sum(0)
        own = self._own((*held, *asked))
        loadings, unique = self.couplings.loadings()
        y, _ = self._family.scale(cells.upper.T, own[: len(held)])
        centre, log_width = conditional_of_rows(
            y.T,
            self._family.locations(own).T,
            self._family.log_scales(own).T,
            select(loadings, own, 1),
            select(unique, own, 1),
            len(asked),
        )
        return ScaledMixtures(self._family, own[len(held) :], asked, joint[None], centre, log_width)

    def _without_intervals(self, known: Evidence) -> Evidence:
        """Forget the intervals of coupled cells; the same evidence if there are none."""
        held = known.intervals.intersection(self.coupled)
        index = known.positions(held)
        low, high = known.lower[:, index], known.upper[:, index]
        inside = (low < high) & ~((low == -torch.inf) & (high == torch.inf))
        if not bool(inside.any()):
            return known
        lower, upper = known.lower.clone(), known.upper.clone()
        lower[:, index] = torch.where(inside, torch.nan, low)
        upper[:, index] = torch.where(inside, torch.nan, high)
        return replace(known, lower=lower, upper=upper, intervals=known.intervals - held)

    def _sample_some(
        self, given: Evidence, draws: int, generator: torch.Generator | None
    ) -> Tensor:
        """Draw components, then the coupled columns together and the others each, (B, S, D)."""
        joint = self._values(given).total() + self.couplings.log_weights()
        components = draw_many(joint, draws, generator)  # (B, S)
        rows = torch.empty(
            *components.shape, self.columns, dtype=given.lower.dtype, device=joint.device
        )
        loose, tied = self._split(range(self.columns))
        rows[..., tied] = self._sample_tied(given, components, generator).to(rows.dtype)
        if loose:
            chosen = components.flatten().expand(len(loose), -1)
            cells = given.select(loose).repeat(draws)
            drawn = self.leaves.sample(chosen, cells, generator)  # (n, B S)
            rows[..., loose] = drawn.T.reshape(*components.shape, len(loose)).to(rows.dtype)
        return rows

    def _sample_tied(
        self, given: Evidence, components: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Draw the coupled columns of each row and draw, (B, S, J)."""
        cells = given.select(self.coupled)
        every = range(len(self.coupled))
        scored = self._tie(cells)
        if scored.low is None:
            parts = (scored.scores, scored.loadings, scored.unique, scored.exact)
            z = factors.sample(*parts, components, generator)  # (B, S, J)
        else:
            z = sample_intervals(scored, components, generator)
        location, log_scale = self._family.locations(every), self._family.log_scales(every)
        y = location.T[components] + log_scale.exp().T[components] * z
        x = self._family.unscale(y.flatten(0, 1).T, every).to(given.lower.dtype)  # (J, B S)
        lower, upper = cells.repeat(components.shape[1]).by_column()
        least = lower.nextafter(torch.full_like(lower, torch.inf))
        x = torch.where(lower.isnan(), x, x.clamp(least, upper))
        x = torch.where(lower == upper, lower, x)
        return x.T.reshape(*components.shape, len(every))

    def _draw_cost(self) -> int:
        columns, width = self.couplings.size
        rank = self.couplings.rank
        return width + 20 * columns + rank * (rank + columns) + self.leaves.row_cost()
