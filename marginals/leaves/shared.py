"""Leaves on a shared learned scale: component k is a location and a scale on g_j."""

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.leaves.family import (
    ContinuousLeaves,
    LeafEvaluation,
    check_positive,
    integral,
    normal_like,
)
from marginals.leaves.learned_scale import (
    Base,
    LearnedScale,
    bracket_mixture,
    invert_mixture,
    log_cdf,
    log_density,
    log_interval,
    normal_tails,
    quantile,
)
from marginals.leaves.monotone import inverse_softplus
from marginals.numerics import log_softplus, logit_of_interval, normal_cdf, select
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.derived import Derived

# Nodes of quadrature that are kept from query to query.
_MOST_KEPT = 1 << 15


@final
class SharedLeaves(ContinuousLeaves):
    r"""Univariate CDFs :math:`\varphi_{kj}(x) = \Phi((g_j(x) - m_{kj}) / s_{kj})`.

    One increasing function g_j per column, see `LearnedScale`, serves all its components. This is
    cheaper than a network per component, and better on small data. In the tails, g_j is linear.

    Args:
        columns: the number of columns D.
        width: the number of components M.
        hidden: the number of units of each g_j.
        base: the distribution on the learned scale, "normal" or "logistic".
        min_scale: the smallest s, in units of the learned scale. It keeps components from
            collapsing onto a point, where the likelihood is unbounded.

    >>> leaves = SharedLeaves(columns=2, width=4)
    >>> leaves.evaluate(torch.zeros(2, 5), columns=[0, 1]).log_density.shape
    torch.Size([2, 5, 4])
    """

    kind = "shared"

    def __init__(
        self,
        columns: int,
        width: int,
        hidden: int = 8,
        base: Base = "normal",
        min_scale: float = 0.01,
    ) -> None:
        super().__init__()
        check_positive(columns=columns, width=width, hidden=hidden)
        if base not in ("normal", "logistic"):
            raise ValueError(f"Expected `base` to be 'normal' or 'logistic'; got {base!r}.")
        if not 0 <= min_scale < math.inf:
            raise ValueError(f"Expected `min_scale` to be finite and at least 0; got {min_scale}.")
        self.base, self.min_scale = base, float(min_scale)
        self.learned = LearnedScale(columns, hidden)
        self.centres = nn.Parameter(torch.zeros(columns, width))
        self.spreads = nn.Parameter(torch.zeros(columns, width))
        self._scales, self._kept_nodes = Derived(), Derived()
        self.start_as_paper()

    @property
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""
        return self.centres.shape[0], self.centres.shape[1]

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""
        columns, width = self.size
        hidden = len(self.learned.bias)
        sizes = {"columns": columns, "width": width, "hidden": hidden}
        return {**sizes, "base": self.base, "min_scale": self.min_scale}

    # The scale and the components on it -------------------------------------------------------

    def scale(self, x: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return y = g(x) and log dy/dx for `x` (n, ...), NaN where missing."""
        return self.learned(x, columns)

    def unscale(self, y: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the x (n, ...) with g(x) = y, in float64 and without a gradient."""
        return self.learned.solve(y, columns)

    def locations(self, columns: Sequence[int]) -> Tensor:
        """Return the components' locations m on the learned scale, (n, M)."""
        return select(self.centres, columns)

    def log_scales(self, columns: Sequence[int]) -> Tensor:
        """Return the logarithms of the components' scales s on the learned scale, (n, M)."""
        return self._log_and_scales(columns)[0]

    def _log_and_scales(self, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the scales s, also their logarithms first, (n, M) each."""

        def make(some: Sequence[int]) -> tuple[Tensor, Tensor]:
            free = log_softplus(select(self.spreads, some))
            if self.min_scale:
                free = torch.logaddexp(free, torch.full_like(free, math.log(self.min_scale)))
            return free, free.exp()

        def pick(found: tuple[Tensor, Tensor], some: Sequence[int]) -> tuple[Tensor, Tensor]:
            return select(found[0], some), select(found[1], some)

        return self._scales.of_columns(columns, self.size[0], (self.spreads,), make, pick)

    # Values -----------------------------------------------------------------------------------

    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log density at `x` (n, B)."""
        z, log_slope = self._standard(x, columns)
        below, above = log_cdf(z, self.base), log_cdf(-z, self.base)
        return LeafEvaluation(below, above, log_density(z, self.base) + log_slope)

    def log_density(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log phi'(x) for `x` (n, B), (n, B, M)."""
        z, log_slope = self._standard(x, columns)
        return log_density(z, self.base) + log_slope

    def cdf(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the CDF at `x` (n, B), (n, B, M), to absolute machine precision."""
        z, _ = self._standard(x, columns)
        return normal_cdf(z) if self.base == "normal" else z.sigmoid()

    def log_interval(self, lower: Tensor, upper: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log(phi(upper) - phi(lower)) for bounds (n, B), (n, B, M)."""
        return self.log_interval_about(lower, upper, columns, *self._components(columns))

    def log_interval_about(
        self, lower: Tensor, upper: Tensor, columns: Sequence[int], location: Tensor, spread: Tensor
    ) -> Tensor:
        """Return log probabilities of bounds (n, B) under other components (n, B, M), (n, B, M).

        Location and spread (n, B or 1, M) are those of the components on the learned scale.
        """
        if lower.is_cpu and not torch.is_grad_enabled():
            # A half-line has one end to evaluate.
            for sign, open_, end in (
                (-1, upper == torch.inf, lower),
                (1, lower == -torch.inf, upper),
            ):
                if bool(open_.all()):
                    y, _ = self.scale(end, columns)
                    return log_cdf(sign * standardise(y[..., None], location, spread), self.base)
        low, high, gap = (end[..., None] for end in self.learned.ends(lower, upper, columns))
        return _interval(low, high, gap, location, spread, self.base)[2]

    def _standard(self, x: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return z and log z' at `x` (n, B), each (n, B, M)."""
        y, log_slope = self.scale(x, columns)
        location, (log_spread, spread) = self.locations(columns), self._log_and_scales(columns)
        z = standardise(y[..., None], location[:, None], spread[:, None])
        return z, log_slope[..., None] - log_spread[:, None]

    def _components(self, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the locations and scales, each (n, 1, M)."""
        return self.locations(columns)[:, None], self._log_and_scales(columns)[1][:, None]

    # Quantiles and draws ----------------------------------------------------------------------

    @torch.no_grad()
    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return quantiles (n, B, Q) of mixtures of each column's leaves with weights (n, B, M)."""
        location, log_scale = self.locations(columns)[:, None], self.log_scales(columns)[:, None]
        y = invert_mixture(log_u, log_1mu, log_weights, location, log_scale, self.base)
        return self.unscale(y, columns)

    @torch.no_grad()
    def rough_invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return points (n, B, Q) near the quantiles: means of the components' quantiles."""
        z = quantile((log_u - log_1mu).to(self.centres.dtype), self.base)
        location, spread = (part.mT for part in self._components(columns))  # (n, M, 1)
        share = log_weights.exp().to(z.dtype)
        return self.unscale(share @ location + (share @ spread) * z, columns)

    def bracket_logits(
        self, target: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Bracket, in the columns' units, where mixtures with weights (n, N, M) reach logits."""
        location, spread = self._components(columns)
        logit = target.to(location.dtype)
        ends = bracket_mixture(logit, log_weights, location, spread, self.base)
        return self.learned.bracket(*ends, columns)

    def tails(
        self, x: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density of mixtures (n, B, M) at x, (n, Q, B)."""
        if self.base != "normal":
            return super().tails(x, log_weights, columns)
        y, log_slope = self.scale(x, columns)
        location, spread = (part[:, None] for part in self._components(columns))
        z = standardise(y[..., None], location, spread)
        below, above, density = normal_tails(z, log_weights.exp()[:, None], spread)
        return below, above, density * log_slope.exp()

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor], Tensor], columns: Sequence[int]) -> Tensor:
        r"""Return E f(X) under each leaf, (n, M), by the trapezoidal rule in z.

        :math:`E f(X) = \int f(x(z))\, \phi(z)\, dz`, x(z) = g^{-1}(m + s z). The rule converges
        exponentially for smooth f: the relative error of the first two moments is below 1e-6 in
        float64 and 1e-4 in float32. In float64 it reaches 20 normal scales s, enough for the mean
        of exp(c X) where c X has a standard deviation of 12. If f grows faster than the tail falls,
        the expectation is infinite.
        """
        z = _nodes(self.base, self.centres)[:, None]  # (T, 1)
        x = self._nodes(z, columns)  # (n, T, M)
        terms = function(x) * log_density(z, self.base).exp()
        return integral(terms, z[1] - z[0])

    def _nodes(self, z: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the x of nodes z (T, 1) for each component, (n, T, M)."""

        def make() -> Tensor:
            location, spread = self._components(columns)
            return self.unscale(location + spread * z, columns).to(location.dtype)

        if len(columns) * len(z) * self.size[1] > _MOST_KEPT:
            return make()
        learned = self.learned
        return self._kept_nodes.get(
            tuple(columns), (*learned.state(), self.centres, self.spreads), make
        )

    def quantiles_of_chosen(
        self,
        levels: tuple[Tensor, Tensor],
        components: Tensor,
        columns: Sequence[int],
        dtype: torch.dtype,
        bounds: tuple[Tensor, Tensor] | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Return quantiles of one leaf per cell (n, B), truncated to bounds (n, B) if given."""
        log_u, log_1mu = (level.to(dtype) for level in levels)
        location = self.locations(columns).gather(1, components).to(dtype)
        spread = self._log_and_scales(columns)[1].gather(1, components).to(dtype)
        logit = log_u - log_1mu
        if bounds is not None:
            ends = self.learned.ends(*bounds, columns, dtype)
            low, high, log_mass = _interval(*ends, location, spread, self.base)
            below, above = log_cdf(low, self.base), log_cdf(-high, self.base)
            logit = logit_of_interval(below, above, log_mass, log_u, log_1mu)
        y = location + spread * quantile(logit, self.base)
        return self.unscale(y, columns).to(dtype)

    # Starting points --------------------------------------------------------------------------

    @torch.no_grad()
    def scale_to(self, data: Tensor) -> None:
        """Take location, scale and quantiles of each column (D, N), NaN where missing.

        This restarts the learned scale; the components keep their places on it.
        """
        self.learned.scale_to(data)

    @torch.no_grad()
    def start(
        self, rows: Tensor, generator: torch.Generator | None = None, bandwidth: float = 0.5
    ) -> None:
        """Set component k to a kernel of the given bandwidth on the values `rows` (D, M).

        The bandwidth is the scale s; the learned scale starts in units of the column's scale.
        """
        self.learned.start(generator)
        self.centres.copy_(self.scale(rows, range(self.size[0]))[0])
        self._spread(bandwidth)

    @torch.no_grad()
    def start_weighted(
        self, data: Tensor, shares: Tensor, columns: Sequence[int] | None = None
    ) -> None:
        """Set component k to mean and spread of data (n, N) weighted by shares (N, M).

        One more row, like all rows together, is added to each component.
        """
        columns = range(len(data)) if columns is None else columns
        known = data.isfinite()
        y = torch.where(known, self.scale(data, columns)[0].double(), 0.0)
        total = known.double() @ shares  # (n, M)
        first, second = y @ shares, y.square() @ shares
        rows = total.sum(1, keepdim=True)
        rows = torch.where(rows > 0, rows, 1.0)
        middle, square = (part.sum(1, keepdim=True) / rows for part in (first, second))
        mean = (first + middle) / (total + 1)
        spread = (second + square) / (total + 1) - mean.square()
        self.set_components(mean, spread.clamp_min(1e-4).sqrt(), columns)

    @torch.no_grad()
    def set_components(
        self, location: Tensor, scale: Tensor, columns: Sequence[int] | None = None
    ) -> None:
        """Set locations and scales (n, M) on the learned scale; scales are at least `min_scale`."""
        at = list(range(len(location)) if columns is None else columns)
        free = (scale.double() - self.min_scale).clamp_min(1e-3)
        self.centres[at] = location.to(self.centres)
        # The inverse of softplus.
        self.spreads[at] = (free + torch.log(-torch.expm1(-free))).to(self.spreads)

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Start at random around the centre of each column; the paper has no such leaves."""
        self.learned.start(generator)
        self.centres.copy_(normal_like(self.centres, generator))
        self._spread(1 + self.min_scale)

    def _spread(self, size: float) -> None:
        if not size > self.min_scale:
            raise ValueError(
                f"Expected `bandwidth` to be more than `min_scale`, {self.min_scale}; got {size}."
            )
        self.spreads.fill_(inverse_softplus(size - self.min_scale))

    def row_cost(self) -> int:
        """Return the number of floats that evaluating all columns of one row holds at a time."""
        columns, width = self.size
        return columns * (8 * len(self.learned.bias) + 12 * width)


def standardise(y: Tensor, location: Tensor, spread: Tensor) -> Tensor:
    """Return (y - location) / spread; an infinite y stays so, and has no gradient."""
    if not torch.is_grad_enabled():
        return (y - location) / spread
    inside = torch.where(y.isinf(), 0.0, y)
    return torch.where(y.isinf(), y.detach(), (inside - location) / spread)


def _interval(
    low: Tensor, high: Tensor, gap: Tensor, location: Tensor, spread: Tensor, base: Base
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the standardised ends of an interval on the learned scale, and its log mass."""
    open_ = gap.isinf()
    low, high = (standardise(end, location, spread) for end in (low, high))
    # An open end keeps its infinite gap, without a gradient of the division.
    gap = torch.where(open_, torch.inf, torch.where(open_, 1.0, gap) / spread)
    return low, high, log_interval(low, high, gap, base)


def _nodes(base: Base, like: Tensor) -> Tensor:
    """Return the nodes of the quadrature, out to where the density is negligible.

    They lie close enough for a learned scale that bends sharply within a component.
    """
    if base == "normal":
        reach = 20 if like.dtype == torch.float64 else 12  # densities of 1e-87 and 1e-32
    else:
        reach = 40  # 1e-17, and an exponential tail that moments do not outgrow
    return torch.linspace(-reach, reach, 40 * reach + 1, dtype=like.dtype, device=like.device)
