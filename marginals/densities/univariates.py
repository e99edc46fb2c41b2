"""Univariate conditionals of many columns and rows at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from marginals.leaves import LeafEvaluation, Leaves
from marginals.leaves.learned_scale import FARTHEST_PLAIN, log_odds_and_slope
from marginals.numerics import invert_monotone, log_shares, logsumexp, narrow_brackets
from marginals.numerics.inversion import FEW_ELEMENTS, NOISE_OF_SUMS

# Quantiles times terms of the mixture up to which many points are evaluated together: beyond, each
# point costs more than a step of Newton's method saves.
_FEW_TERMS = 1 << 18


class Univariates(ABC):
    """The distributions p(x_j | evidence_b) of n columns j and B rows of evidence b.

    Values have shape (..., B, n), like the batch of a torch distribution.
    """

    columns: tuple[int, ...]
    log_evidence: Tensor
    """The log value of the evidence on the other columns, (B, n)."""
    discrete: tuple[bool, ...]

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        return ((),) * len(self.columns)

    @abstractmethod
    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""

    @abstractmethod
    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""

    def rough_quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return points near the quantiles, (..., B, n), at less cost where there is a way."""
        return self.quantile(log_u, log_1mu)

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie, at less cost if possible."""
        found = self.quantile(log_u, log_1mu)
        return found, found

    @abstractmethod
    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n); `function` maps values (n, ...) of columns elementwise.

        Exact sums for categories, quadrature for continuous leaves; see `NeuralLeaves.expect`.
        """

    @abstractmethod
    def take(self, place: int, rows: Tensor) -> "Univariates":
        """Return the distributions of one column, by its place, given some rows of evidence."""

    @property
    def terms(self) -> int:
        """How many terms are summed at each point; by default one."""
        return 1

    def pruned(self, error: float) -> "Univariates":
        """Return these without terms that together move no CDF by more than `error`."""
        return self

    def logpdf(self, x: Tensor) -> Tensor:
        """Return the log density (the log mass of a category) at `x` (..., B, n)."""
        return self.evaluate(x).log_density

    def logcdf(self, x: Tensor) -> Tensor:
        """Return the log CDF at `x` (..., B, n)."""
        return self.evaluate(x).log_cdf

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision.

        It is faster than `logcdf`, which is precise in the tails.
        """
        return self.logcdf(x).exp()

    def logsf(self, x: Tensor) -> Tensor:
        """Return the log survival function at `x` (..., B, n)."""
        return self.evaluate(x).log_sf

    def ppf(self, u: Tensor) -> Tensor:
        """Return the quantiles at `u` (..., B, n), 0 < u < 1, which may be on any device."""
        u = u.to(self.log_evidence.device)
        if bool(((u <= 0) | (u >= 1) | u.isnan()).any()):
            raise ValueError(
                f"Expected `u` to lie between 0 and 1; got {float(u.min())} to {float(u.max())}. "
                "Every leaf reaches to infinity at 0 and 1."
            )
        x = self.quantile(u.double().log(), torch.log1p(-u.double()))
        x = x.to(torch.promote_types(u.dtype, self.log_evidence.dtype))
        return self._with_gradient(x, u) if torch.is_grad_enabled() else x

    def logit_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log odds of the CDF at `x` (..., B, n), and their derivative."""
        at = self.evaluate(x)
        slope = (at.log_density - at.log_cdf - at.log_sf).exp()
        return at.log_cdf - at.log_sf, slope

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density at `x` (..., B, n), which underflow far out."""
        at = self.evaluate(x)
        return at.log_cdf.exp(), at.log_sf.exp(), at.log_density.exp()

    def _with_gradient(self, x: Tensor, u: Tensor) -> Tensor:
        """Attach the implicit gradient: F(x) = u gives dx = (du - dF) / p(x)."""
        at = self.evaluate(x)
        if not (at.log_cdf.requires_grad or u.requires_grad):
            return x
        change = (u - at.log_cdf.exp()) / at.log_density.detach().exp()
        continuous = ~torch.tensor(self.discrete, device=x.device)
        return x + torch.where(continuous, change - change.detach(), 0.0).to(x.dtype)


@final
class LeafMixtures(Univariates):
    """Mixtures of each column's leaves: p(x_j | e_b) = sum_k w_kjb phi'_kj(x_j).

    Args:
        leaves: the leaves of the table.
        columns: the n columns.
        log_weights: log w up to a constant for each column and row, (n, B, M); their sums are
            the log value of the evidence.
    """

    def __init__(self, leaves: Leaves, columns: Sequence[int], log_weights: Tensor) -> None:
        self.leaves, self.columns = leaves, tuple(columns)
        self.log_weights, total = log_shares(log_weights)
        self.log_evidence = total.T
        self.discrete = tuple(leaves.family_of(c)[0].discrete for c in self.columns)

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        points = self.leaves.atoms
        return tuple(points.get(c, ()) for c in self.columns)

    @property
    def terms(self) -> int:
        """How many terms are summed at each point: the components."""
        return self.log_weights.shape[-1]

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (n, Q, B)
        parts = self.leaves.evaluate(cells.flatten(1), self.columns)

        def mixed(part: Tensor) -> Tensor:
            each = part.unflatten(1, cells.shape[1:])  # (n, Q, B, M)
            return columns_last(logsumexp(self.log_weights[:, None] + each), shape)

        return LeafEvaluation(mixed(parts.log_cdf), mixed(parts.log_sf), mixed(parts.log_density))

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        if x.ndim > 1 and x.shape[-2] == 1:
            # The same points for all rows: each leaf is evaluated once at each.
            points, shape = columns_first(x, (1, len(self.columns)))  # (n, Q, 1)
            leaf = self.leaves.cdf(points.flatten(1), self.columns)  # (n, Q, M)
            mixed = leaf @ self.log_weights.exp().mT.to(leaf)  # (n, Q, B)
            return columns_last(mixed, torch.Size([*shape[:-2], *self.log_evidence.shape]))
        cells, shape = columns_first(x, self.log_evidence.shape)  # (n, Q, B)
        each = self.leaves.cdf(cells.flatten(1), self.columns).unflatten(1, cells.shape[1:])
        return columns_last((self.log_weights.exp()[:, None] * each).sum(-1), shape)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        low, high, shape = self._levels(log_u, log_1mu)
        out = self.leaves.invert(low, high, self.log_weights, self.columns)  # (n, B, Q)
        return columns_last(out.mT, shape)

    def rough_quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return points near the quantiles, (..., B, n)."""
        low, high, shape = self._levels(log_u, log_1mu)
        out = self.leaves.rough_invert(low, high, self.log_weights, self.columns)
        return columns_last(out.mT, shape)

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie."""
        low, high, shape = self._levels(log_u, log_1mu)
        low, high = self.leaves.bracket(low, high, self.log_weights, self.columns)
        return columns_last(low.mT, shape), columns_last(high.mT, shape)

    def _levels(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor, torch.Size]:
        """Return levels as (n, B, Q) in the dtype of the weights, and their shape (..., B, n)."""
        low, shape = columns_first(log_u, self.log_evidence.shape)  # (n, Q, B)
        high, _ = columns_first(log_1mu, self.log_evidence.shape)
        dtype = self.log_weights.dtype
        return low.mT.to(dtype), high.mT.to(dtype), shape

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density at `x` (..., B, n), which underflow far out."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (n, Q, B)
        found = self.leaves.tails(cells, self.log_weights, self.columns)
        below, above, density = (columns_last(part, shape) for part in found)
        return below, above, density

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n): leaf expectations, mixed."""
        each = self.leaves.expect(function, self.columns)  # (n, M)
        weights = self.log_weights.exp()
        # A leaf without weight does not count, even if its expectation is infinite.
        terms = torch.where(weights > 0, weights * each[:, None], 0.0)
        return terms.sum(-1).T

    def take(self, place: int, rows: Tensor) -> "LeafMixtures":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        weights = self.log_weights[[place]][:, rows]
        out = LeafMixtures(self.leaves, (self.columns[place],), weights)
        out.log_evidence = self.log_evidence[rows][:, [place]]
        return out


@final
class UnivariateMixture(Univariates):
    """A mixture of univariates with a weight per member and row, for mixtures of models.

    Args:
        members: univariates of the same columns and rows.
        log_weights: of the members together with the evidence, (members, B, n).
        discrete: for each column, whether it is categorical.
    """

    def __init__(
        self, members: Sequence[Univariates], log_weights: Tensor, discrete: Sequence[bool]
    ) -> None:
        self.members, self.columns = tuple(members), members[0].columns
        self.discrete = tuple(discrete)
        shares, self.log_evidence = log_shares(log_weights.movedim(0, -1))
        self.log_weights = shares.movedim(-1, 0)

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        every = zip(*(member.atoms for member in self.members), strict=True)
        return tuple(tuple(sorted(set().union(*points))) for points in every)

    @property
    def terms(self) -> int:
        """How many terms are summed at each point: those of all members."""
        return sum(member.terms for member in self.members)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        parts = [member.evaluate(x) for member in self.members]
        shape = self.log_weights.shape[1:]

        def mixed(values: list[Tensor]) -> Tensor:
            stacked = torch.stack(values)  # (members, ..., B, n)
            weights = self.log_weights.reshape(len(parts), *[1] * (stacked.ndim - 3), *shape)
            return logsumexp(stacked + weights, dim=0)

        return LeafEvaluation(
            mixed([p.log_cdf for p in parts]),
            mixed([p.log_sf for p in parts]),
            mixed([p.log_density for p in parts]),
        )

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        shares = self.log_weights.exp()  # (members, B, n)
        return sum(
            (share * m.cdf(x) for share, m in zip(shares, self.members, strict=True)),
            start=x.new_zeros(()),
        )

    @torch.no_grad()
    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n), between those of the members."""
        kept = self.pruned(negligible(log_u, log_1mu, self.log_weights.dtype))

        def extremes() -> Tensor:
            each = torch.stack([m.quantile(log_u, log_1mu) for m in kept.members])
            return torch.stack([each.amin(0), each.amax(0)])

        return mixture_quantile(kept, log_u, log_1mu, extremes)

    def pruned(self, error: float) -> "UnivariateMixture":
        """Return these without terms that together move no CDF by more than `error`."""
        if error <= 0 or not self.log_weights.numel():
            return self
        # Half of the error for members, half for terms within them.
        most = self.log_weights.exp().double().flatten(1).amax(1)
        light = most.sort().values.cumsum(0)
        least = most.sort().values[int((light <= error / 2).sum())]
        # Members without a share, as of evidence that none finds possible, stay.
        at = (~(most < least)).nonzero()[:, 0].tolist()
        members = [self.members[i].pruned(error / 2) for i in at]
        out = UnivariateMixture(members, self.log_weights[at], self.discrete)
        out.log_evidence = self.log_evidence
        return out

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie: the extreme ones of members."""
        low, high = zip(*(m.bracket(log_u, log_1mu) for m in self.members), strict=True)
        return torch.stack(low).amin(0), torch.stack(high).amax(0)

    def rough_quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return points near the quantiles, (..., B, n): those of the heaviest member."""
        heaviest = self.log_weights.argmax(0)  # (B, n)
        if heaviest.numel() == 1:
            return self.members[int(heaviest)].rough_quantile(log_u, log_1mu)
        points = torch.stack([m.rough_quantile(log_u, log_1mu) for m in self.members])
        return points.gather(0, heaviest.expand(1, *points.shape[1:]))[0]

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density at `x` (..., B, n), which underflow far out."""
        shares = self.log_weights.exp()  # (members, B, n)
        parts = [member.tails(x) for member in self.members]
        below, above, density = (
            sum((s * part[i] for s, part in zip(shares, parts, strict=True)), x.new_zeros(()))
            for i in range(3)
        )
        return below, above, density

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n): members' expectations, mixed."""
        each = torch.stack([member.expect(function) for member in self.members])
        weights = self.log_weights.exp()
        return torch.where(weights > 0, weights * each, 0.0).sum(0)

    def take(self, place: int, rows: Tensor) -> "UnivariateMixture":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        weights = self.log_weights[:, rows][:, :, [place]]
        members = [member.take(place, rows) for member in self.members]
        out = UnivariateMixture(members, weights, [self.discrete[place]])
        out.log_evidence = self.log_evidence[rows][:, [place]]
        return out


def negligible(log_u: Tensor, log_1mu: Tensor, dtype: torch.dtype) -> float:
    """Return an error of a CDF that is below rounding at all levels, on both of their sides.

    Args:
        log_u, log_1mu: log u and log(1 - u).
        dtype: The dtype of the CDF.

    >>> half = torch.tensor(0.5).log()
    >>> negligible(half, half, torch.float64) < 1e-16
    True
    """
    if not log_u.numel():
        return 0.0
    least = torch.minimum(log_u.detach(), log_1mu.detach()).min().double().exp()
    return 0.5 * torch.finfo(dtype).eps * float(least)


def mixture_quantile(
    mixture: Univariates, log_u: Tensor, log_1mu: Tensor, extremes: Callable[[], Tensor]
) -> Tensor:
    """Return quantiles of a mixture, (..., B, n).

    Args:
        mixture: the mixture.
        log_u, log_1mu: log u and log(1 - u), (..., B, n).
        extremes: returns the smallest and largest quantiles of the parts, (2, ..., B, n), used for
            many quantiles. For a few, points of a wide bracket are evaluated together instead.
    """
    shape = torch.broadcast_shapes(log_u.shape, mixture.log_evidence.shape)
    few = shape.numel() <= FEW_ELEMENTS and shape.numel() * mixture.terms <= _FEW_TERMS
    low, high = mixture.bracket(log_u, log_1mu) if few else extremes()
    # A column with atoms has no codes, though it counts as discrete.
    flags = [d and not own for d, own in zip(mixture.discrete, mixture.atoms, strict=True)]
    coded = torch.tensor(flags, device=low.device)
    codes = low
    if any(flags):
        codes = _smallest_codes(mixture, log_u, torch.where(coded, low, high), high)
        # A bracket of one point settles the categorical columns at once.
        low = torch.where(coded, high, low)
    target = (log_u - log_1mu).to(low.dtype).expand(shape)
    near = bool((target.abs() < FARTHEST_PLAIN).all())

    def plain(x: Tensor) -> tuple[Tensor, Tensor]:
        return log_odds_and_slope(*mixture.tails(x))

    function = plain if near else mixture.logit_and_slope
    low, high = _at_atoms(mixture, function, target, low, high)
    start = None
    if few:  # they take as long as one
        low, high, start = narrow_brackets(function, target, low, high)
    smooth = invert_monotone(function, target, low, high, NOISE_OF_SUMS, start)
    return torch.where(coded, codes, smooth) if any(flags) else smooth


def _at_atoms(
    mixture: Univariates,
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    target: Tensor,
    low: Tensor,
    high: Tensor,
) -> tuple[Tensor, Tensor]:
    """Shrink brackets to an atom where the CDF jumps past the target there."""
    atoms = mixture.atoms
    most = max(map(len, atoms))
    if not most:
        return low, high
    rows = [(*own, *(torch.nan,) * (most - len(own))) for own in atoms]
    points = torch.tensor(rows, dtype=low.dtype, device=low.device).T  # (A, n)
    points = points.reshape(most, *(1,) * (low.ndim - 1), -1)
    before = points.nextafter(torch.full_like(points, -torch.inf))
    both = torch.cat([before, points]).nan_to_num(0.0)
    value = function(both.expand(-1, *low.shape))[0]
    jumped = (value[:most] < target) & (value[most:] >= target) & ~points.isnan()
    for inside, atom in zip(jumped, points, strict=True):
        low, high = torch.where(inside, atom, low), torch.where(inside, atom, high)
    return low, high


def _smallest_codes(mixture: Univariates, log_u: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Bisect over the integers for the smallest code at which the CDF reaches u."""
    # See `CategoricalLeaves.invert` for the margin.
    goal = log_u.to(low.dtype) - 8 * torch.finfo(low.dtype).eps
    while bool((low < high).any()):
        middle = ((low + high) / 2).floor()
        reached = mixture.evaluate(middle).log_cdf >= goal
        open_ = low < high
        high = torch.where(reached & open_, middle, high)
        low = torch.where(~reached & open_, middle + 1, low)
    return low


def columns_first(x: Tensor, size: Sequence[int]) -> tuple[Tensor, torch.Size]:
    """Expand `x` to (..., B, n) and return it as (n, Q, B), with its shape."""
    shape = torch.broadcast_shapes(x.shape, size)
    return x.expand(shape).reshape(shape[:-2].numel(), *shape[-2:]).movedim(-1, 0), shape


def columns_last(x: Tensor, shape: torch.Size) -> Tensor:
    """Undo `columns_first`."""
    return x.movedim(0, -1).reshape(shape)
