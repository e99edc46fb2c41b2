"""Gaussian-copula components: columns coupled inside each component by low-rank correlations."""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from marginals.cells import Cells
from marginals.cells.evidence import Evidence
from marginals.densities.coupled_intervals import Tied, divided, log_intervals, sample_intervals
from marginals.densities.interleaved import Interleaved
from marginals.densities.joint_univariates import JointUnivariates
from marginals.densities.leaf_density import LeafDensity
from marginals.densities.scaled_mixtures import ScaledMixtures
from marginals.densities.tensor_density import sample_in_batches
from marginals.densities.univariates import LeafMixtures, Univariates
from marginals.leaves import Leaves, SharedLeaves
from marginals.leaves.shared import standardise
from marginals.numerics import (
    draw_many,
    factors,
    index_of,
    log_normal_density,
    logsumexp,
    select,
    sum_of_others,
    table_of,
)
from marginals.numerics.regression import conditional_of_rows
from marginals.runtime.backend import QUERY, Backend
from marginals.tensors.couplings import Couplings

# Beyond, a matrix of columns by columns for each component costs more than the factors do.
_DENSE_COLUMNS = 64
# Up to so many patterns of gaps, all rows are evaluated for each of them.
_FEW_PATTERNS = 4


class _Values(NamedTuple):
    """Log values of evidence under each component."""

    loose: Tensor  # (n, B, K), of each column that is not coupled
    tied: Tensor  # (B, K), of all coupled columns together

    def total(self) -> Tensor:
        """Return the log value of everything, (B, K)."""
        return self.loose.sum(0) + self.tied


@final
class CopulaDensity(LeafDensity):
    r"""A mixture of Gaussian copulas with univariate margins :math:`\varphi_{kj}`.

    In component k the scores :math:`\Phi^{-1}(\varphi_{kj}(x_j))` of the coupled columns are
    jointly normal with a low-rank correlation; all other columns are independent given the
    component. Rank 0 is the CP model.

    Densities, marginals, conditionals, univariate CDFs and quantiles given exact cells, and samples
    are closed form. Boxes of two coupled columns are accurate to 1e-10, of more to 1e-4 (absolute,
    for each component), by quasi-Monte Carlo. A row with several intervals among coupled columns
    therefore carries that error, whatever is asked of it.

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
        """The columns that are coupled inside of components."""
        return self.leaves.owned[0]

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of evidence, (B,), in one go."""
        return logsumexp(self._values(evidence, backend).total() + self.couplings.log_weights())

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | what is known of the other columns) for columns j, all by default."""
        known = self.checked(Evidence.nothing() if given is None else given)
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
        return parts[0] if len(parts) == 1 else Interleaved(parts, asked)

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of evidence, (B, S, D)."""
        with torch.no_grad():
            return sample_in_batches(self._sample_some, given, draws, self._draw_cost(), generator)

    def row_cost(self) -> int:
        """Return the number of floats that the contraction of one row holds at a time."""
        columns, width = self.couplings.size
        rank = self.couplings.rank
        side = columns if factors.has_small_columns(columns, rank) else rank
        return self.leaves.row_cost() + width * (8 * columns + 4 * side * side)

    def config(self) -> dict[str, Any]:
        """Return what rebuilds the model, as JSON."""
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
        apart = (
            self.leaves.log_values(evidence.cells(loose), loose, backend)
            if loose
            else like.new_zeros(0, rows, width)
        )
        if not tied:
            return _Values(apart, like.new_zeros(rows, width))
        cells = evidence.cells(tied)
        if cells.complete and len(tied) <= _DENSE_COLUMNS:
            return _Values(apart, self._log_complete(cells.upper, tied, backend.host_free))
        if 0 < len(cells.patterns) <= _FEW_PATTERNS and len(tied) <= _DENSE_COLUMNS:
            return _Values(apart, self._log_patterns(cells, tied, backend.host_free))
        return _Values(apart, self._log_tied(self._tie(cells, tied), backend.host_free))

    def _log_complete(self, x: Tensor, columns: Sequence[int], host_free: bool = False) -> Tensor:
        """Return the log value of coupled cells (n, B) that are all exact, (B, K)."""
        own = [self.coupled.index(c) for c in columns]
        y, log_slope = self._family.scale(x, own)
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

    def _log_patterns(self, cells: Cells, columns: Sequence[int], host_free: bool) -> Tensor:
        """Return the log value of coupled cells with few patterns of gaps, (B, K)."""
        seen = ~cells.upper.isnan()  # (n, B)
        value = self.couplings.raw.new_zeros(cells.upper.shape[1], len(self.couplings.raw))
        for known in set(cells.patterns):
            if known:
                bits = index_of([int(i in known) for i in range(len(columns))], seen.device)
                match = (seen == bits.bool()[:, None]).all(0)
                # Rows of other patterns give numbers that are not used.
                own = [columns[i] for i in known]
                part = self._log_complete(select(cells.upper, known), own, host_free)
                value = torch.where(match[:, None], part, value)
        return value

    def _tie(self, cells: Cells, columns: Sequence[int]) -> Tied:
        """Bring coupled cells onto the scale of their components' scores."""
        own = [self.coupled.index(c) for c in columns]
        family = self._family
        exact = cells.lower == cells.upper  # (n, B)
        y, log_slope = family.scale(torch.where(exact, cells.upper, torch.nan), own)
        location, log_scale = family.locations(own), family.log_scales(own)  # (n, K)
        z = standardise(y[..., None], location[:, None], log_scale.exp()[:, None])  # (n, B, K)
        slope = torch.where(exact, log_slope, 0.0).sum(0)[:, None]
        widths = exact.T.to(log_scale.dtype) @ log_scale
        loadings, unique = self.couplings.loadings()
        low = high = gap = None
        if cells.intervals and cells.upper is not cells.lower:
            inside = (cells.lower < cells.upper) & ~(
                (cells.lower == -torch.inf) & (cells.upper == torch.inf)
            )
            ends = family.learned.ends(
                torch.where(inside, cells.lower, -torch.inf),
                torch.where(inside, cells.upper, torch.inf),
                own,
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
        return Tied(
            scores=z.permute(1, 2, 0),
            log_slope=slope - widths,
            loadings=select(loadings, own, 1),
            unique=select(unique, own, 1),
            exact=exact[:, :1].T if cells.complete else exact.T,  # one pattern for all rows
            low=low,
            high=high,
            gap=gap,
            patterns=table_of(cells.patterns, len(own), exact.device) if cells.patterns else None,
        )

    def _log_tied(self, tied: Tied, host_free: bool = False) -> Tensor:
        """Return the log value of the coupled cells under each component, (B, K)."""
        parts = (tied.scores, tied.loadings, tied.unique, tied.exact, tied.patterns)
        value = factors.log_density(*parts, host_free=host_free) + tied.log_slope
        return value if tied.low is None else value + log_intervals(tied).to(value.dtype)

    def _outside(self, known: Evidence, asked: Sequence[int], values: _Values) -> Tensor:
        """Return what the rest says of the component of loose columns, (n, B, K)."""
        base = self.couplings.log_weights() + values.tied  # (B, K)
        loose, _ = self._split(known.columns)
        everything = base + values.loose.sum(0)
        others = base + sum_of_others(values.loose, 0) if loose else values.loose
        return torch.stack([others[loose.index(c)] if c in loose else everything for c in asked])

    def _scaled(self, known: Evidence, asked: Sequence[int]) -> ScaledMixtures:
        """Return univariates of coupled columns given exact cells alone."""
        loose, held = self._split(known.columns)
        if self._knows_the_same(known, held) and not set(held) & set(asked):
            return self._scaled_of_rows(known, held, asked)
        tied = sorted({*known.columns, *asked} & set(self.coupled))
        scored = self._tie(known.cells(tied), tied)
        joint = self._log_tied(scored) + self.couplings.log_weights()  # (B, K)
        if loose:
            joint = joint + self.leaves.log_values(known.cells(loose), loose).sum(0)
        index = torch.tensor([tied.index(c) for c in asked], device=joint.device)
        mean, variance = factors.conditional(
            scored.scores, scored.loadings, scored.unique, scored.exact, index
        )  # (n, B, K)
        own = [self.coupled.index(c) for c in asked]
        location, log_scale = (
            part[:, None] for part in (self._family.locations(own), self._family.log_scales(own))
        )
        z = scored.scores[..., index].permute(2, 0, 1)
        log_width = 0.5 * variance.log()
        # What a known cell said itself is taken out again; its slope is the same for all.
        said = log_normal_density((z - mean) * (-log_width).exp()) - log_width - log_scale
        _, log_slope = self._family.scale(known.cells(asked).upper, own)
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

    def _knows_the_same(self, known: Evidence, held: Sequence[int]) -> bool:
        """Say whether all rows know all of these coupled columns, and they are few."""
        if len(held) > _DENSE_COLUMNS:
            return False
        cells = known.cells(held)
        return known.complete or bool((cells.lower == cells.upper).all())

    def _scaled_of_rows(
        self, known: Evidence, held: Sequence[int], asked: Sequence[int]
    ) -> ScaledMixtures:
        """Return univariates of coupled columns given the same exact columns in all rows."""
        loose, _ = self._split(known.columns)
        x = known.cells(held).upper
        joint = self.couplings.log_weights().expand(len(known), -1)  # (B, K)
        if held:
            joint = joint + self._log_complete(x, held)
        if loose:
            joint = joint + self.leaves.log_values(known.cells(loose), loose).sum(0)
        own = [self.coupled.index(c) for c in (*held, *asked)]
        loadings, unique = self.couplings.loadings()
        y, _ = self._family.scale(x, own[: len(held)])
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
        held = [c for c in known.columns if c in known.intervals and c in self.coupled]
        index = [known.columns.index(c) for c in held]
        low, high = known.lower[:, index], known.upper[:, index]
        inside = (low < high) & ~((low == -torch.inf) & (high == torch.inf))
        if not bool(inside.any()):
            return known
        lower, upper = known.lower.clone(), known.upper.clone()
        lower[:, index] = torch.where(inside, torch.nan, low)
        upper[:, index] = torch.where(inside, torch.nan, high)
        rest = known.intervals - set(held)
        return Evidence(known.columns, lower, upper, known.sets, rest)

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
            cells = given.cells(loose).repeat(draws)
            chosen = components.flatten().expand(len(loose), -1)
            drawn = self.leaves.sample(chosen, loose, cells, generator)  # (n, B S)
            rows[..., loose] = drawn.T.reshape(*components.shape, len(loose)).to(rows.dtype)
        return rows

    def _sample_tied(
        self, given: Evidence, components: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Draw the coupled columns of each row and draw, (B, S, J)."""
        columns, draws = list(self.coupled), components.shape[1]
        cells = given.cells(columns)
        scored = self._tie(cells, columns)
        if scored.low is None:
            parts = (scored.scores, scored.loadings, scored.unique, scored.exact)
            z = factors.sample(*parts, components, generator)  # (B, S, J)
        else:
            z = sample_intervals(scored, components, generator)
        location, spread = (
            part.T[components]
            for part in (
                self._family.locations(range(len(columns))),
                self._family.log_scales(range(len(columns))).exp(),
            )
        )
        y = (location + spread * z).flatten(0, 1).T  # (J, B S)
        x = self._family.unscale(y, range(len(columns))).to(given.lower.dtype)
        wide = cells.repeat(draws)
        least = wide.lower.nextafter(torch.full_like(wide.lower, torch.inf))
        x = torch.where(wide.lower.isnan(), x, x.clamp(least, wide.upper))
        x = torch.where(wide.lower == wide.upper, wide.lower, x)
        return x.T.reshape(*components.shape, len(columns))

    def _draw_cost(self) -> int:
        columns, width = self.couplings.size
        rank = self.couplings.rank
        return width + 20 * columns + rank * (rank + columns) + self.leaves.row_cost()
