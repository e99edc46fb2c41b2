"""A learned scale per column, and the location-scale distributions that live on it.

The scale g_j is a monotone network with one hidden layer, see `monotone.py`; all components of
column j share it, so it is evaluated once per cell, (n, B), whatever their number.
"""

import math
from collections.abc import Sequence
from typing import Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marginals.leaves.family import location_and_scale, normal_like
from marginals.leaves.monotone import (
    Line,
    Network,
    finite,
    inverse_softplus,
    line_of,
    make_gate,
    make_layer,
    solve,
    value_and_slope,
    values_and_gap,
)
from marginals.numerics import invert_monotone, log_sigmoid_interval, logsumexp, select
from marginals.numerics.inversion import NOISE_OF_SUMS
from marginals.numerics.normal import (
    log_normal_cdf,
    log_normal_density,
    log_normal_interval,
    normal_of_logit,
)
from marginals.runtime.derived import Derived

Base = Literal["normal", "logistic"]

# Sharpness of the weights' softplus. With 1, not the paper's 10, a step changes weights of
# 1 / hidden by a fraction only: all components share the scale, which should move slowly.
_BETA = 1.0
# Log odds up to which quantiles are solved for in plain numbers, safe from underflow in float32.
FARTHEST_PLAIN = 40.0


# The scale ----------------------------------------------------------------------------------------


@final
class LearnedScale(nn.Module):
    r"""Increasing functions :math:`g_j(x) = \sum_o w_{1o}(h_o + a_o \tanh h_o)` of D columns.

    :math:`h_o = w_{0o}\,t + b_o` with t = (x - location) / unit; weights are positive, |a| < 1.

    Args:
        columns: the number of columns D.
        hidden: the number of units R.

    >>> scale = LearnedScale(columns=2)
    >>> y, log_slope = scale(torch.zeros(2, 5), columns=[0, 1])
    >>> y.shape, log_slope.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    location: Tensor
    unit: Tensor
    kinks: Tensor

    def __init__(self, columns: int, hidden: int = 8) -> None:
        super().__init__()
        shape = (hidden, columns)
        self.inner = nn.Parameter(torch.zeros(shape))
        self.outer = nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.gate = nn.Parameter(torch.zeros(shape))
        self.register_buffer("location", torch.zeros(columns))
        self.register_buffer("unit", torch.ones(columns))
        # Until `scale_to` sees data, those of a normal column.
        kinks = torch.special.ndtri(_levels(hidden))[:, None].expand(shape)
        self.register_buffer("kinks", kinks.to(self.bias.dtype).clone())
        self._networks, self._places = Derived(), Derived()
        self.start(noise=0.0)

    def forward(self, x: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return g(x) and log g'(x), per unit of the column, for `x` (n, ...).

        Infinite values stay infinite. NaN becomes the column's location, so that missing cells,
        which are masked elsewhere, have a clean gradient.
        """
        location, unit, log_unit = self._units(columns)
        flat = x.flatten(1)
        inside = finite((flat - location) / unit).to(self.bias.dtype)
        y, log_slope = value_and_slope(self.network(columns), inside)
        y = torch.where(flat.isinf(), flat.detach().to(y.dtype), y)
        return y.reshape(x.shape), (log_slope - log_unit.to(y.dtype)).reshape(x.shape)

    def ends(
        self,
        lower: Tensor,
        upper: Tensor,
        columns: Sequence[int],
        dtype: torch.dtype | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return g of the bounds (n, B) and their difference, computed without subtraction.

        An open end and its difference are infinite. Bounds that are not in order give arbitrary
        numbers, in order. The result has the dtype of the parameters unless another is given.
        """
        dtype = dtype or self.bias.dtype
        location, unit, _ = self._units(columns)
        real, low_open, high_open = lower < upper, lower.isinf(), upper.isinf()
        start, end, width = (
            finite(t / unit).to(dtype) for t in (lower - location, upper - location, upper - lower)
        )
        closed = real & ~low_open & ~high_open
        low, high, gap = values_and_gap(
            self.network(columns, dtype),
            torch.where(real, start, 0.0),
            torch.where(real, end, 1.0),
            torch.where(closed, width, 1.0),
        )
        low = torch.where(low_open, -torch.inf, low)
        high = torch.where(high_open, torch.inf, high)
        return low, high, torch.where(low_open | high_open, torch.inf, gap)

    @torch.no_grad()
    def solve(self, y: Tensor, columns: Sequence[int]) -> Tensor:
        """Return x (n, ...) with g(x) = y, in float64: float32 is coarse around a large offset.

        The equation is solved in the dtype of `y`.
        """
        flat = y.flatten(1)
        t = solve(self.network(columns), finite(flat), self._line(columns))
        location, unit, _ = self._units(columns)
        x = t.double() * unit + location
        return torch.where(flat.isfinite(), x, flat.double()).reshape(y.shape)

    @torch.no_grad()
    def bracket(self, low: Tensor, high: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return x below g^-1(low) and above g^-1(high) for finite (n, N), in closed form.

        They are float64, like the result of `solve`.
        """
        location, unit, _ = self._units(columns)
        line = self._line(columns)
        return (
            line.bracket(low)[0].double() * unit + location,
            line.bracket(high)[1].double() * unit + location,
        )

    @torch.no_grad()
    def bends(self, columns: Sequence[int]) -> Tensor:
        """Return the values of some columns at which their units bend most, (n, R)."""
        inner, bias = (select(raw, columns, 1) for raw in (self.inner, self.bias))
        location, unit, _ = self._units(columns)
        return (-bias / F.softplus(inner, _BETA)).T * unit + location

    def state(self) -> tuple[Tensor, ...]:
        """Return everything that the scale depends on."""
        return self.inner, self.outer, self.bias, self.gate, self.location, self.unit

    def network(self, columns: Sequence[int], dtype: torch.dtype | None = None) -> Network:
        """Constrain the parameters of some columns, (R, ..., n, 1), in their dtype or another."""
        raw = (self.inner, self.outer, self.bias, self.gate)

        def make(some: Sequence[int]) -> Network:
            found = self._constrained(some)
            return found if dtype is None else found.to(dtype)

        def pick(found: Network, some: Sequence[int]) -> Network:
            return found.select(some, -2)

        return self._networks.of_columns(columns, self.bias.shape[1], raw, make, pick, dtype)

    def _line(self, columns: Sequence[int]) -> Line:
        raw = (self.inner, self.outer, self.bias, self.gate)
        key = ("line", tuple(columns))
        return self._networks.get(key, raw, lambda: line_of(self.network(columns)))

    def _constrained(self, columns: Sequence[int]) -> Network:
        inner, outer, bias, gate = (
            select(raw, columns, 1)[..., None]
            for raw in (self.inner, self.outer, self.bias, self.gate)
        )
        last = make_layer(outer[None], torch.zeros_like(bias[:1]), _BETA)
        return Network((make_layer(inner[:, None], bias, _BETA), last), (make_gate(gate),))

    @torch.no_grad()
    def scale_to(self, data: Tensor) -> None:
        """Take location, unit and kinks of each column from the data (D, N), NaN where missing."""
        location, unit = location_and_scale(data)
        self.location.copy_(location)
        self.unit.copy_(unit)
        levels = _levels(len(self.kinks)).to(data.device)
        self.kinks.copy_(((_order_statistics(data, levels) - location[:, None]) / unit[:, None]).T)
        self.start(noise=0.0)

    @torch.no_grad()
    def start(self, generator: torch.Generator | None = None, noise: float = 0.1) -> None:
        """Start as a line of slope one, its units centred on the kinks.

        Noise on the gates separates units whose kinks coincide, as in a column with ties.
        """
        self.inner.fill_(inverse_softplus(1.0))
        self.outer.fill_(inverse_softplus(1 / len(self.outer)))
        self.bias.copy_(-self.kinks)
        self.gate.zero_()
        if noise:
            self.gate.add_(noise * normal_like(self.gate, generator))

    def _units(self, columns: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return location, unit and the log of the unit of some columns, (n, 1) each."""

        def make() -> tuple[Tensor, Tensor, Tensor]:
            location, unit = (select(x, columns)[:, None] for x in (self.location, self.unit))
            return location, unit, unit.log()

        return self._places.get(tuple(columns), (self.location, self.unit), make)


def _levels(hidden: int) -> Tensor:
    """Return the levels of the quantiles at which the units start: 3 to 97 %."""
    if hidden == 1:
        return torch.tensor([0.5], dtype=torch.float64)
    return torch.linspace(0.03, 0.97, hidden, dtype=torch.float64)


def _order_statistics(data: Tensor, levels: Tensor) -> Tensor:
    """Return the values (D, R) of each row nearest to the levels, 0 for a row of NaN."""
    ordered = data.sort(1).values  # NaN comes last
    last = (~data.isnan()).sum(1, keepdim=True) - 1
    place = (levels * last.clamp_min(0)).round().long()
    return torch.nan_to_num(ordered.gather(1, place))


# Standard distributions ---------------------------------------------------------------------------


def log_density(z: Tensor, base: Base) -> Tensor:
    """Return the log density of the standard normal or logistic distribution."""
    if base == "normal":
        return log_normal_density(z)
    return F.logsigmoid(z) + F.logsigmoid(-z)


def log_cdf(z: Tensor, base: Base) -> Tensor:
    """Return the log CDF; by symmetry that of -z is the log survival function."""
    return log_normal_cdf(z) if base == "normal" else F.logsigmoid(z)


def log_interval(low: Tensor, high: Tensor, gap: Tensor, base: Base) -> Tensor:
    """Return the log probability of (low, high], given also their gap high - low > 0."""
    if base == "normal":
        return log_normal_interval(low, high, gap)
    return log_sigmoid_interval(low, high, gap)


def quantile(logit: Tensor, base: Base) -> Tensor:
    """Return the z at which the log odds of the CDF are `logit`.

    >>> quantile(torch.tensor([0.0, 1e4]), "normal")
    tensor([  0.0000, 141.3798])
    """
    if base == "logistic":
        return logit
    z, _ = normal_of_logit(finite(logit))
    return torch.where(logit.isinf(), logit, z)


@torch.no_grad()
def invert_mixture(
    log_u: Tensor,
    log_1mu: Tensor,
    log_weights: Tensor,
    location: Tensor,
    log_scale: Tensor,
    base: Base,
) -> Tensor:
    """Return quantiles (n, B, Q) of mixtures of normal or logistic distributions.

    Args:
        log_u, log_1mu: log u and log(1 - u), (n, B, Q).
        log_weights: of the components, (n, B, M), each row summing to one.
        location, log_scale: of the components, (n, B, M) or for all rows (n, 1, M).
        base: the standard distribution.

    >>> half = torch.full((1, 1, 1), 0.5).log()
    >>> location = torch.tensor([[[-1.0, 3.0]]])
    >>> invert_mixture(half, half, half.expand(1, 1, 2), location, 0 * location, "normal").round()
    tensor([[[1.]]])
    """
    logit = (log_u - log_1mu).to(location.dtype)
    target = finite(logit)
    weights, centre = log_weights[:, :, None].to(target), location[:, :, None]  # (n, B, 1, M)
    log_spread = log_scale[:, :, None]
    spread = log_spread.exp()

    def plain(y: Tensor) -> tuple[Tensor, Tensor]:
        z = (y[..., None] - centre) / spread
        return log_odds_and_slope(*normal_tails(z, shares, spread))

    def logit_and_slope(y: Tensor) -> tuple[Tensor, Tensor]:
        z = (y[..., None] - centre) / spread  # (n, B, Q, M)
        below, above = log_cdf(z, base), log_cdf(-z, base)
        density = logsumexp(weights + log_density(z, base) - log_spread)
        below, above = logsumexp(weights + below), logsumexp(weights + above)
        return below - above, (density - below - above).exp()

    low, high = bracket_mixture(target, weights, centre, spread, base)
    near = base == "normal" and bool((target.abs() < FARTHEST_PLAIN).all())
    shares = weights.exp()
    y = invert_monotone(plain if near else logit_and_slope, target, low, high, noise=NOISE_OF_SUMS)
    return torch.where(logit.isinf(), logit, y)


def bracket_mixture(
    logit: Tensor, log_weights: Tensor, location: Tensor, scale: Tensor, base: Base
) -> tuple[Tensor, Tensor]:
    """Return ends (...) between which mixtures of components (..., M) reach finite logits (...)."""
    # Between the quantiles of the components with positive weight, and a margin for rounding.
    z = quantile(logit, base)[..., None]
    margin = 1e-3 * (1 + z.abs())
    ruled_out = log_weights == -torch.inf
    low = (location + scale * (z - margin)).masked_fill(ruled_out, torch.inf).amin(-1)
    high = (location + scale * (z + margin)).masked_fill(ruled_out, -torch.inf).amax(-1)
    return low, high


def normal_tails(z: Tensor, shares: Tensor, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return CDF, survival function and density of mixtures of normals at z (..., M), (...,).

    In plain numbers, a seventh of the work of log space. Both tails are precise until they
    underflow, 13 deviations out in float32.
    """
    scaled = z * math.sqrt(0.5)
    below, above = (0.5 * (shares * (sign * scaled).erfc()).sum(-1) for sign in (-1.0, 1.0))
    density = (shares / spread * (-scaled.square()).exp()).sum(-1) / math.sqrt(2 * math.pi)
    return below, above, density


def log_odds_and_slope(below: Tensor, above: Tensor, density: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log odds of a CDF, and their derivative."""
    return below.log() - above.log(), density / (below * above)
