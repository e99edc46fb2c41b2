"""Gaussian-copula components: columns coupled inside each component by low-rank correlations."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled_atoms import AtomMixtures
from marginals.densities.coupled_components import ComponentValues, CoupledComponents
from marginals.densities.coupled_draws import draw_scores, draw_values
from marginals.densities.coupled_intervals import tie
from marginals.densities.coupled_lattices import CoupledLattices, Settled
from marginals.densities.coupled_nodes import FINE, conditionals_given_ranges, node_cost
from marginals.densities.coupled_univariates import Interleaved, ScaledMixtures
from marginals.densities.density import in_batches
from marginals.densities.lattice_univariates import (
    leaf_mixtures_of,
    on_lattices,
    scaled_mixtures_of,
)
from marginals.densities.tensor_density import LeafDensity, sample_in_batches
from marginals.densities.univariates import LeafMixtures, Univariates
from marginals.leaves import Leaves, SharedLeaves
from marginals.numerics import (
    draw_many,
    factors,
    log_normal_density,
    log_shares,
    logsumexp,
    sum_of_others,
)
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.query_batches import map_batches
from marginals.tensors.couplings import Couplings

# With more columns, a matrix of columns by columns per component costs more than the factors.
_DENSE_COLUMNS = 64
# With at most this many patterns of missing cells, each is evaluated by itself, if it has so many
# rows on average or there are few; in steps that the host must not wait for, each for all rows.
_MOST_PATTERNS, _FEW_PATTERNS, _PATTERN_ROWS = 32, 4, 500


@final
class CoupledDensity(LeafDensity):
    r"""A mixture of Gaussian copulas with univariate margins :math:`\varphi_{kj}`.

    In component k the scores :math:`\Phi^{-1}(\varphi_{kj}(x_j))` of the coupled columns are
    jointly normal with a low-rank correlation; all other columns are independent given the
    component. Rank 0 is the CP model.

    Densities, marginals, conditionals, univariate CDFs and quantiles given exact cells, and samples
    are closed form. Boxes of two coupled columns are accurate to 1e-10. Boxes of more columns use
    quasi-Monte Carlo, to a relative error of 2e-3 where 65,536 points reach it. Univariates given
    ranges of coupled columns are mixtures over weighted nodes in them; see `coupled_nodes.py`.

    Args:
        leaves: the univariate families. The first, `SharedLeaves` with a normal base, holds the
            coupled columns.
        couplings: weights and correlations.
        lattices: tables of the coupled columns that are lattices, see `coupled_lattices.py`, and
            atoms of coupled columns. The leaves of their marks come after those of the columns.
    """

    def __init__(
        self, leaves: Leaves, couplings: Couplings, lattices: CoupledLattices | None = None
    ) -> None:
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
        self.lattices = CoupledLattices() if lattices is None else lattices
        if not set(self.lattices.columns) <= set(self.coupled):
            raise ValueError(
                f"Expected `lattices` to name coupled columns, {self.coupled}; got "
                f"{self.lattices.columns}. Leave the others out."
            )
        self.resolution = FINE  # of ranges; `ROUGH` is enough for a picture
        self._gauss = CoupledComponents(family, couplings, self.lattices, self.coupled)
        marks = self.lattices.atoms.categories
        if list(leaves.categories[leaves.columns - len(marks) :]) != marks:
            raise ValueError(
                f"Expected `leaves` to end with marks of {marks} categories; got "
                f"{leaves.categories}."
            )

    @property
    def columns(self) -> int:
        """Number of columns D, without the marks."""
        return self.leaves.columns - len(self.lattices.atoms.points)

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        return self.leaves.categories[: self.columns]

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return {**self.leaves.atoms, **self.lattices.atoms.points}

    @property
    def coupled(self) -> tuple[int, ...]:
        """The columns that are coupled within components."""
        return self.leaves.owned[0]

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        if not self.lattices.hold(evidence):
            return self._contract(evidence, backend)
        parts = self.lattices.batches(evidence, self.rows_at_once())
        return torch.cat([p.summed(self._contract(p.evidence, backend)) for p in parts])

    def settled(self, evidence: Evidence) -> tuple[Evidence, Tensor | None]:
        """Return evidence with points for the cells of lattices, and the log widths (B,)."""
        if not self.lattices.hold(evidence):
            return evidence, None
        found = self.lattices.settle_once(evidence)
        return (evidence, None) if found is None else (found.evidence, found.log_widths())

    def companions(self, column: int) -> tuple[int, ...]:
        """Return the mark of a column with atoms, which `settled` adds."""
        marks = self.lattices.atoms.marks
        return (marks[column],) if column in marks else ()

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
        value, log_given = self.lattices.sum_given(
            asked, known, place, self._contract, self._contract_given, self.rows_at_once()
        )
        if impossible is not None:
            log_given = log_given.masked_fill(impossible, -torch.inf)
        return value, log_given

    def _contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row, (B,), of which lattice cells are points."""
        return logsumexp(self._values(evidence, backend).total() + self.couplings.log_weights())

    def _total_and_ranges(self, known: Evidence) -> Tensor:
        """Return the components' log weights given evidence, and those of its ranges, (B, K, 2)."""
        values = self._values(known)
        return torch.stack([values.total() + self.couplings.log_weights(), values.ranges], -1)

    def _contract_given(
        self, asked: Evidence, known: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return what `contract_given` does, for evidence in which lattice cells are points."""
        size = self.rows_at_once()
        both = in_batches(self._total_and_ranges, known, self.rows_at_once(known))  # (U, K, 2)
        weights, log_given = log_shares(both[..., 0])  # (U, K)
        ranges = both[..., 1]
        if place is None:
            asked = asked.expand(len(known))
            place = torch.arange(len(known), device=weights.device)

        def answer(pair: tuple[Evidence, Tensor]) -> Tensor:
            part, rows = pair
            own = self._log_given(part, known.rows(rows), weights[rows], ranges[rows])
            return logsumexp(own + weights[rows])

        pairs = zip(asked.batches(size), place.split(size), strict=True)
        return torch.cat(map_batches(answer, pairs, place.device)), log_given

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        cells = self.checked(given)
        known, impossible = cells.without_impossible()
        asked = tuple(range(self.columns)) if columns is None else tuple(columns)
        self.check_columns(asked)
        found = self.lattices.settle_few(known)
        plain = not found.is_expanded and not self._has_ranges(found.evidence)
        # The cell of a column itself is no evidence about it.
        again = self.coupled if not plain else tuple(self.lattices.atoms.points)
        alone = [c for c in asked if c in known.columns and c in again]
        parts = self._univariates(found, [c for c in asked if c not in alone])
        for c in alone:
            parts += self._univariates(self.lattices.settle_few(known.without(c)), [c])
        out = parts[0] if len(parts) == 1 else Interleaved(parts, asked)
        if impossible is not None:
            others = [cells.without(c) for c in asked]
            ruled_out = torch.stack([(other.lower > other.upper).any(1) for other in others], 1)
            out.log_evidence = out.log_evidence.masked_fill(ruled_out, -torch.inf)
        return out

    def _univariates(self, given: Settled, asked: Sequence[int]) -> list[Univariates]:
        """Return univariates of columns in parts, given evidence as points."""
        known = given.evidence
        parts: list[Univariates] = []
        loose, tied = self._split(asked)
        values = self._values(known) if self._has_ranges(known) else None
        if loose:
            outside = self._outside(known, loose, values or self._values(known))
            parts.append(leaf_mixtures_of(LeafMixtures(self.leaves, loose, outside), given))
        atoms = self.lattices.atoms
        plain = [c for c in tied if c not in atoms.points]
        # Given ranges, all columns share their nodes.
        shared = self._given_ranges(given, tied, values) if tied and values else None

        def smooth(known: Settled, columns: Sequence[int]) -> list[Univariates]:
            """Return univariates of coupled columns without their atoms."""
            if shared is not None:
                found = shared.some([tied.index(c) for c in columns])
            else:
                found = scaled_mixtures_of(self._scaled(known.evidence, columns), known)
            return on_lattices(found, self.lattices)

        if plain:
            parts += smooth(given, plain)
        for c in tied:
            if c in atoms.points:
                marks = [atoms.marks[c]]
                outside = self._outside(known, marks, values or self._values(known))
                mark = leaf_mixtures_of(LeafMixtures(self.leaves, marks, outside), given)
                (rest,) = smooth(given.joined(marks[0], len(atoms.points[c])), [c])
                parts.append(AtomMixtures(atoms.points[c], mark, rest))
        return parts

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        with torch.no_grad():
            return sample_in_batches(
                self._sample_some, given, draws, self._draw_cost(given), generator
            )

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time."""
        columns, width = self.couplings.size
        rank = self.couplings.rank
        side = columns if factors.has_small_columns(columns, rank) else rank
        cost = self.leaves.row_cost() + width * (8 * columns + 4 * side * side)
        if given is None:
            return cost
        known = self.settled(given)[0]
        smooth = known.select([c for c in known.columns if c not in self.lattices.tabulated])
        held = self._has_ranges(smooth)
        nodes = node_cost(columns, width, self.resolution) if held else 0
        return (cost + nodes) * self.lattices.points_of(given)

    def config(self) -> dict[str, Any]:
        """Return the configuration that rebuilds the model, as JSON."""
        return {
            "leaves": self.leaves.config(),
            "couplings": self.couplings.config(),
            "lattices": self.lattices.config(),
        }

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

    def _values(self, evidence: Evidence, backend: Backend = QUERY) -> ComponentValues:
        loose, tied = self._split(evidence.columns)
        rows, width = len(evidence), self.couplings.size[1]
        like = self.couplings.raw
        if loose:
            apart = self.leaves.log_values(evidence.select(loose), backend)
        else:
            apart = like.new_zeros(0, rows, width)
        nothing = like.new_zeros(rows, width)
        if not tied:
            return ComponentValues(apart, nothing, nothing)
        cells = evidence.select(tied)
        dense = len(tied) <= _DENSE_COLUMNS
        quick = cells.lower.is_cpu and not torch.is_grad_enabled() and not cells.patterns
        if dense and (cells.complete or (quick and self._is_complete(cells))):
            return ComponentValues(
                apart, self._gauss.log_complete(cells, backend.host_free), nothing
            )
        most = _FEW_PATTERNS
        if not backend.host_free:
            most = max(most, min(_MOST_PATTERNS, rows // _PATTERN_ROWS))
        if not cells.intervals and 0 < len(cells.patterns) <= most and dense:
            return ComponentValues(
                apart, self._gauss.log_patterns(cells, backend.host_free), nothing
            )
        scored = self._gauss.tie(cells)
        exact = self._gauss.log_exact(scored, backend.host_free)
        others = self.couplings.log_weights() + apart.sum(0) + exact  # (B, K)
        return ComponentValues(apart, exact, self._gauss.log_ranges(scored, others))

    def _log_given(
        self, asked: Evidence, known: Evidence, weights: Tensor, ranges: Tensor
    ) -> Tensor:
        """Return the log value of requested cells given others within each component, (B, K).

        Args:
            asked: the requested cells.
            known: the evidence.
            weights: log weights of the components given the evidence, (B, K).
            ranges: the log probability of the coupled ranges in the evidence, (B, K).
        """
        loose, tied = self._split(asked.columns)
        held = self._split(known.columns)[1]
        if not (tied and held):
            return self._values(asked).total()
        value, mine = self._values(asked.select(loose)).total(), asked.select(tied)
        theirs, exact = known.select(held), (mine.lower == mine.upper).any(1)
        if len(tied) == 1 and self._is_complete(theirs):
            return value + self._log_of_one(mine, theirs, exact)
        both = self._gauss.tie(mine.join(theirs))
        value = value + self._gauss.log_ranges(both, value + weights) - ranges
        if not bool(exact.any()):
            return value  # densities of the evidence alone, which cancel
        alone = self._gauss.tie(theirs)
        # The two densities may be large and close: their difference is taken in float64.
        joint, base = (
            factors.log_density(
                side.scores.double(), side.loadings.double(), side.unique.double(), side.exact
            )
            for side in (both, alone)
        )
        change = (joint - base).to(value.dtype) + (both.log_slope - alone.log_slope)
        return value + torch.where(exact[:, None], change, 0.0)

    def _log_of_one(self, asked: Evidence, known: Evidence, exact: Tensor) -> Tensor:
        """Return the log value of one coupled column's cells given exact other columns, (B, K).

        Rows are `exact` (B,) or intervals; missing cells have probability one.
        """
        held, own = self._gauss.own(known.columns), self._gauss.own(asked.columns)
        centre, log_width = self._gauss.conditional(known.upper.T, held, own)  # (1, B, K)
        x, open_ = asked.upper.T.masked_fill(~exact, 0.0), asked.lower.T.isnan() | exact  # (1, B)
        y, log_slope = (part[..., None] for part in self._family.scale(x, own))
        point = log_normal_density((y - centre) * (-log_width).exp()) - log_width + log_slope
        low = asked.lower.T.masked_fill(open_, -torch.inf)
        high = asked.upper.T.masked_fill(open_, torch.inf)
        about = self._family.log_interval_about(low, high, own, centre, log_width.exp())
        return torch.where(exact[:, None], point[0], about[0])

    def _outside(self, known: Evidence, asked: Sequence[int], values: ComponentValues) -> Tensor:
        """Return the log weight of each component given the other columns' evidence, (n, B, K)."""
        base = self.couplings.log_weights() + values.tied + values.ranges  # (B, K)
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
        scored = self._gauss.tie(known.select(tied))
        joint = self.couplings.log_weights().expand(len(known), -1)  # (B, K)
        if loose:
            joint = joint + self.leaves.log_values(known.select(loose)).sum(0)
        joint = joint + self._gauss.log_exact(scored)
        index = torch.tensor([tied.index(c) for c in asked], device=joint.device)
        mean, variance = factors.conditional(
            scored.scores, scored.loadings, scored.unique, scored.exact, index
        )  # (n, B, K)
        own = self._gauss.own(asked)
        location, log_scale = (part[:, None] for part in self._gauss.of(own)[:2])
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
            joint = joint + self._gauss.log_complete(cells)
        if loose:
            joint = joint + self.leaves.log_values(known.select(loose)).sum(0)
        own = self._gauss.own(asked)
        centre, log_width = self._gauss.conditional(cells.upper.T, self._gauss.own(held), own)
        return ScaledMixtures(self._family, own, asked, joint[None], centre, log_width)

    def _has_ranges(self, known: Evidence) -> bool:
        """Return whether some coupled cell is a range."""
        index = known.positions(known.intervals.intersection(self.coupled))
        low, high = known.lower[:, index], known.upper[:, index]
        return bool(((low < high) & ~((low == -torch.inf) & (high == torch.inf))).any())

    def _given_ranges(
        self, given: Settled, asked: Sequence[int], values: ComponentValues
    ) -> ScaledMixtures:
        """Return univariates of coupled columns without evidence, at no atom, given ranges."""
        known = given.evidence
        log_weights = values.total() + self.couplings.log_weights()  # (B, K)
        tied = sorted({*known.columns, *asked} & set(self.coupled))
        index = torch.tensor([tied.index(c) for c in asked], device=log_weights.device)
        cells = self._gauss.tie(known.select(tied))
        found = conditionals_given_ranges(cells, log_weights, index, self.resolution)
        own = self._gauss.own(asked)
        location, log_scale = (
            part[:, found.component].to(found.mean)  # (n, B, M)
            for part in self._gauss.of(own)[:2]
        )
        unmarked = self.lattices.atoms.log_unmarked(self.leaves, asked).to(log_weights)  # (n, K)
        out = ScaledMixtures(
            self._family,
            own,
            asked,
            *(
                part.to(log_weights)
                for part in (
                    found.log_weights + unmarked[:, found.component],
                    location + log_scale.exp() * found.mean,
                    log_scale + 0.5 * found.variance.log(),
                )
            ),
        )
        out.log_evidence = logsumexp(log_weights + unmarked[:, None]).T  # (B, n)
        return scaled_mixtures_of(out, given)

    def _sample_some(
        self, given: Evidence, draws: int, generator: torch.Generator | None
    ) -> Tensor:
        """Draw components, then the coupled columns together and the others each, (B, S, D)."""
        found = self.lattices.settle(given)
        joint = self._values(found.evidence).total() + self.couplings.log_weights()
        if not found.is_expanded:
            return self._sample_of(found.evidence, draw_many(joint, draws, generator), generator)
        # Points of a range are drawn together with the component.
        every = found.gathered(joint + found.log_widths().to(joint)[:, None], -torch.inf)
        chosen = draw_many(every.flatten(1), draws, generator)  # (B, S) of (B, P K)
        counts = found.counts()
        rows = (counts.cumsum(0) - counts)[:, None] + chosen // joint.shape[1]
        components = (chosen % joint.shape[1]).reshape(-1, 1)
        drawn = self._sample_of(found.evidence.rows(rows.flatten()), components, generator)
        return drawn.reshape(len(given), draws, self.columns)

    def _sample_of(
        self, given: Evidence, components: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Draw all columns given the components of each draw (B, S), (B, S, D)."""
        draws = components.shape[1]
        rows = given.lower.new_empty(*components.shape, self.leaves.columns)
        loose, tied = self._split(range(self.leaves.columns))
        cells, parts = given.select(self.coupled), self._gauss.of(range(len(self.coupled)))
        scored = tie(self._family, range(len(self.coupled)), parts, cells, rows.dtype)
        drawn = draw_scores(scored, components, rows.dtype, generator)
        rows[..., tied] = draw_values(
            drawn, components, self._family, parts, self.lattices, cells, generator
        ).to(rows.dtype)
        if loose:
            chosen = components.flatten().expand(len(loose), -1)
            cells = given.select(loose).repeat(draws)
            values = self.leaves.sample(chosen, cells, generator)  # (n, B S)
            rows[..., loose] = values.T.reshape(*components.shape, len(loose)).to(rows.dtype)
        return self.lattices.atoms.joined(rows)

    def _draw_cost(self, given: Evidence) -> int:
        columns, width = self.couplings.size
        rank = self.couplings.rank
        cost = width + 20 * columns + rank * (rank + columns) + self.leaves.row_cost()
        return cost * (1 if len(given) == 1 else self.lattices.points_of(given))
