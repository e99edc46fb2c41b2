"""A density given that one of several disjoint boxes holds: evidence with gaps."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density, refuse_impossible
from marginals.densities.univariates import Univariates, mixture_quantile
from marginals.leaves import LeafEvaluation
from marginals.numerics import draw_many, log_shares, logsumexp
from marginals.runtime.backend import QUERY, Backend


@final
class GivenUnion(Density):
    """A density given a union of boxes: the mixture of its conditionals given each box.

    All boxes are contracted together. Queries are about the columns without boxes.

    Args:
        base: the density.
        boxes: K rows of evidence, disjoint boxes.
        log_scale: added to the log values of the boxes, (K,): where these are densities, the
            Jacobian that brings them to one scale.

    >>> from marginals.densities.build import build
    >>> model = build(torch.randn(50, 2), width=4)
    >>> both = GivenUnion(model, Evidence.exact(torch.tensor([[-1.0], [1.0]]), [0]))
    >>> both.cdf(torch.tensor([[0.5]]), [1]).shape
    torch.Size([1])
    """

    base: Density
    boxes: Evidence

    def __init__(self, base: Density, boxes: Any, log_scale: Tensor | None = None) -> None:
        super().__init__()
        self.base, self.boxes = base, base.checked(boxes)
        with torch.no_grad():
            log_boxes = base.log_value(self.boxes).double()
        if log_scale is not None:
            log_boxes = log_boxes + log_scale.to(log_boxes)
        self.log_weights, total = log_shares(log_boxes)  # (K,)
        self.log_scale = torch.zeros_like(log_boxes) if log_scale is None else log_scale
        self.log_scale = self.log_scale.to(log_boxes) - total
        refuse_impossible(total[None])

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return self.base.columns

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        return self.base.categories

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return self.base.atoms

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        if not evidence.columns:
            return evidence.lower.new_zeros(len(evidence))
        self._check_free(evidence.columns)
        count = len(self.boxes)
        place = torch.arange(count, device=evidence.lower.device).repeat(len(evidence))
        values, _ = self.base.contract_given(evidence.repeat(count), self.boxes, place)
        return self._mixed(values, self.log_weights)

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log values of requested rows given their evidence, and of the evidence."""
        self._check_free(requested.columns)
        count, device = len(self.boxes), given.lower.device
        every = torch.arange(count, device=device)
        rows = torch.arange(len(requested), device=device) if place is None else place
        at = (rows[:, None] * count + every).flatten()
        values, joint = self.base.contract_given(requested.repeat(count), self._joint(given), at)
        weights, log_given = self._shares(joint)
        return self._mixed(values, weights[rows]), log_given

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | the evidence on the other columns) for columns j without a box."""
        known = self.checked(given)
        free = [c for c in range(self.columns) if c not in self.boxes.columns]
        asked = free if columns is None else columns
        self._check_free(asked)
        discrete = [self.categories[c] is not None for c in asked]
        inner = self.base.univariates(self._joint(known), asked)
        return UnionUnivariates(inner, self.log_scale, discrete)

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        count, joint = len(self.boxes), self._joint(given)
        with torch.no_grad():
            log_joint = self.base.log_value(joint).double().reshape(-1, count) + self.log_scale
            box = draw_many(log_joint, draws, generator)  # (B, S)
            row = torch.arange(len(given), device=box.device)[:, None] * count + box
            drawn = self.base.sample_rows(joint.rows(row.flatten()), 1, generator)
        return drawn.reshape(len(given), draws, self.columns)

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time, given such evidence."""
        joint = self.boxes if given is None else self._joint(given.rows(slice(0, 1)))
        return self.base.row_cost(joint) * len(self.boxes)

    def extra_repr(self) -> str:
        """Show the boxes."""
        return f"boxes={self.boxes!r}"

    def _check_free(self, columns: Sequence[int]) -> None:
        given = sorted(set(columns) & set(self.boxes.columns))
        if given:
            raise ValueError(
                f"Expected columns that are not given; got {given}, which are. Leave these out."
            )

    def _joint(self, given: Evidence) -> Evidence:
        """Return every row of evidence with every box, (B K)."""
        count = len(self.boxes)
        place = torch.arange(count, device=self.boxes.lower.device).repeat(len(given))
        boxes = self.boxes.rows(place)
        return given.repeat(count).join(boxes) if given.columns else boxes

    def _shares(self, joint: Tensor) -> tuple[Tensor, Tensor]:
        """Return log weights of the boxes (B, K) given evidence, and the evidence's value (B,)."""
        return log_shares(joint.double().reshape(-1, len(self.boxes)) + self.log_scale)

    def _mixed(self, values: Tensor, log_weights: Tensor) -> Tensor:
        """Mix the log values (B K) given each box."""
        each = values.reshape(-1, len(self.boxes))
        # A box that the evidence rules out has no conditional, and no weight.
        return logsumexp(torch.where(log_weights > -torch.inf, each, 0.0) + log_weights)


@final
class UnionUnivariates(Univariates):
    """Mixtures over K boxes of univariates given each box.

    Args:
        inner: the univariates given B K rows, the boxes of a row of evidence one after another.
        log_scale: added to the log values of the boxes, (K,).
        discrete: for each column, whether it is categorical.
    """

    def __init__(self, inner: Univariates, log_scale: Tensor, discrete: Sequence[bool]) -> None:
        self.inner, self.log_scale = inner, log_scale
        self.columns, self.discrete = inner.columns, tuple(discrete)
        own = inner.log_evidence
        joint = own.double().unflatten(0, (-1, len(log_scale)))  # (B, K, n)
        weights, total = log_shares(joint.mT + log_scale)  # (B, n, K), (B, n)
        self.log_weights, self.log_evidence = weights.mT.to(own), total.to(own)

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        return self.inner.atoms

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        found = self.inner.evaluate(self._repeated(x))
        return LeafEvaluation(
            self._mixed(found.log_cdf), self._mixed(found.log_sf), self._mixed(found.log_density)
        )

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        found = self._by_box(self.inner.cdf(self._repeated(x)))
        return (self.log_weights.exp() * found).sum(-2)

    @torch.no_grad()
    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n), between those given each box."""
        levels = self._repeated(log_u), self._repeated(log_1mu)

        def extremes() -> Tensor:
            each = self._by_box(self.inner.quantile(*levels))
            return torch.stack([each.amin(-2), each.amax(-2)])

        return mixture_quantile(self, log_u, log_1mu, extremes)

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie: the extreme ones of boxes."""
        low, high = self.inner.bracket(self._repeated(log_u), self._repeated(log_1mu))
        return self._by_box(low).amin(-2), self._by_box(high).amax(-2)

    def rough_quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return points near the quantiles, (..., B, n): those given the likeliest box."""
        found = self.inner.rough_quantile(self._repeated(log_u), self._repeated(log_1mu))
        points = self._by_box(found)
        likeliest = self.log_weights.argmax(-2, keepdim=True)  # (B, 1, n)
        return points.gather(-2, likeliest.expand(*points.shape[:-2], 1, -1)).squeeze(-2)

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density at `x` (..., B, n), which underflow far out."""
        shares = self.log_weights.exp()
        found = self.inner.tails(self._repeated(x))
        below, above, density = ((shares * self._by_box(part)).sum(-2) for part in found)
        return below, above, density

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n): expectations given each box, mixed."""
        each, weights = self._by_box(self.inner.expect(function)), self.log_weights.exp()
        return torch.where(weights > 0, weights * each, 0.0).sum(-2)

    def take(self, place: int, rows: Tensor) -> "UnionUnivariates":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        if rows.dtype == torch.bool:
            rows = rows.nonzero()[:, 0]
        count = len(self.log_scale)
        every = (rows[:, None] * count + torch.arange(count, device=rows.device)).flatten()
        return UnionUnivariates(
            self.inner.take(place, every), self.log_scale, [self.discrete[place]]
        )

    def _repeated(self, x: Tensor) -> Tensor:
        """Return values (..., B, n) for each box, (..., B K, n)."""
        shape = torch.broadcast_shapes(x.shape, self.log_evidence.shape)
        return x.expand(shape).repeat_interleave(len(self.log_scale), -2)

    def _by_box(self, x: Tensor) -> Tensor:
        return x.unflatten(-2, (-1, len(self.log_scale)))  # (..., B, K, n)

    def _mixed(self, x: Tensor) -> Tensor:
        """Mix log values (..., B K, n)."""
        return logsumexp(self._by_box(x) + self.log_weights, dim=-2)
