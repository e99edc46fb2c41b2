"""The normal distribution in log space, to full relative precision in both tails.

density   log_normal_density        intervals   log_normal_cdf, normal_cdf, log_normal_interval
inverses  normal_quantile, normal_of_logit
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.numerics.logspace import log1mexp

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
# Ends up to which differences of log densities keep their digits in float32.
_NEAR = 20.0
# Terms of the series for narrow intervals, by whether in float64 and whether they are very narrow.
_TERMS = {(False, True): 6, (False, False): 15, (True, True): 11, (True, False): 25}
# Below this log probability the quantile starts from its asymptote: exp(-104) is 0 in float32.
_FAR = -30.0
# From here on erfcx is a series of few terms; up to here its factors are ordinary float64 numbers.
_FAR_ERFCX, _ERFCX_TERMS = 20.0, 8
_MOST = 1e150  # so that its square is a number
# From either start the error is below 1e-3 and each step squares it.
_NEWTON_STEPS = 3


def log_normal_density(z: Tensor) -> Tensor:
    """Compute the log density of the standard normal.

    >>> log_normal_density(torch.tensor([0.0, 10.0]))
    tensor([ -0.9189, -50.9189])
    """
    return -0.5 * z * z - _HALF_LOG_2PI


def log_normal_cdf(z: Tensor) -> Tensor:
    r"""Compute :math:`\log \Phi(z)`; at `z = -inf` it is `-inf` with a zero gradient.

    >>> log_normal_cdf(torch.tensor([0.0, -1e4, -torch.inf], dtype=torch.float64))
    tensor([-6.9315e-01, -5.0000e+07,        -inf], dtype=torch.float64)
    """
    return _LogCdf.apply(z)


class _LogCdf(torch.autograd.Function):
    """The log CDF with the hazard as its gradient: torch's own is 4% off at -1000 in float32."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return _log_cdf(z)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        inside = torch.where(z.isinf(), 0.0, z)
        return torch.where(z.isinf(), 0.0, _log_hazard_anywhere(inside).exp()) * grad


def normal_cdf(z: Tensor) -> Tensor:
    r"""Compute :math:`\Phi(z)` to absolute, not relative, precision.

    It takes half the time of `torch.special.ndtr`.

    >>> normal_cdf(torch.tensor([0.0, -torch.inf]))
    tensor([0.5000, 0.0000])
    """
    return torch.erf(z * _SQRT_HALF).add_(1.0).mul_(0.5)


def log_normal_interval(low: Tensor, high: Tensor, gap: Tensor | None = None) -> Tensor:
    r"""Compute :math:`\log(\Phi(b) - \Phi(a))` from `a`, `b` and their gap `b - a`.

    The interval is mirrored to the lower tail. If it is wide,
    :math:`\Phi(b)\,(1 - \Phi(a) / \Phi(b))` is accurate. If it is narrow, the result is the density
    at its middle `m` times the gap times the mean of :math:`\cosh(m t)\,e^{-t^2/2}` over half of
    it, a series as accurate as the gap. An empty interval gives `-inf` with a zero
    gradient.

    Args:
        low, high: the ends, which may be infinite.
        gap: `high - low`, if the caller knows it more accurately than by subtraction.

    >>> a, b = torch.tensor([-torch.inf, 5.0, 30.0]), torch.tensor([0.0, 5.0, 31.0])
    >>> log_normal_interval(a, b, torch.tensor([torch.inf, 1e-12, 1.0]))
    tensor([  -0.6931,  -41.0500, -454.3213])
    """
    gap = high - low if gap is None else gap
    low, high, gap = torch.broadcast_tensors(low, high, gap)
    return _LogInterval.apply(low, high, gap)


class _LogInterval(torch.autograd.Function):
    """The log probability of an interval, with its gradient in closed form.

    A derivative at an end is the density there over the probability. Of a narrow interval both
    nearly cancel, so the gradient is taken by its middle and its gap.
    """

    @staticmethod
    def forward(ctx: Any, low: Tensor, high: Tensor, gap: Tensor) -> Tensor:
        value = _log_interval(low, high, gap)
        ctx.save_for_backward(low, high, gap, value)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, high, gap, value = ctx.saved_tensors
        narrow = _is_narrow(low, high, gap)
        wide = (gap > 0) & ~narrow & (value > -torch.inf)  # an empty interval has no gradient
        by_low, by_high = _slopes(low, high, gap, wide)
        width, middle = torch.where(narrow, gap, 0.0), torch.where(narrow, 0.5 * (low + high), 0.0)
        bend = 0.5 * middle * width
        # Far out, the log density and the value are too large for their difference.
        near = not gap.is_cuda and bool((middle.abs() <= _NEAR).all())
        rest = value - log_normal_density(middle) if near else _log_mean(middle, width)
        share = torch.where(narrow, torch.exp(-0.125 * width.square() - rest), 0.0)
        by_middle = -torch.sinh(bend) * share  # half for each end
        by_gap = torch.cosh(bend) * share
        return (by_middle + by_low) * grad, (by_middle + by_high) * grad, by_gap * grad


def _slopes(low: Tensor, high: Tensor, gap: Tensor, wide: Tensor) -> tuple[Tensor, Tensor]:
    """Return the derivatives by both ends of wide intervals, 0 elsewhere.

    They are hazards over 1 - Phi(a) / Phi(b).
    """
    mirrored = low + high > 0
    a, b = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    a, b = torch.where(wide, a, -torch.inf), torch.where(wide & b.isfinite(), b, 0.0)
    log_ratio, at_a, at_b = _log_ratio(a, b, torch.where(wide, gap, 1.0))
    rest = torch.where(wide, 1 / -torch.expm1(log_ratio), 0.0)
    by_a, by_b = -torch.exp(at_a + log_ratio) * rest, at_b.exp() * rest
    whole = low.isinf() & high.isinf()  # the whole line does not depend on its ends
    by_b = torch.where(whole, 0.0, by_b)
    return torch.where(mirrored, -by_b, by_a), torch.where(mirrored, -by_a, by_b)


def _log_hazard_anywhere(z: Tensor) -> Tensor:
    """Return the log of density over CDF, also at positive z."""
    below = _log_hazard(z.clamp_max(0.0))
    return torch.where(z > 0, log_normal_density(z) - _log_cdf(z.clamp_min(0.0)), below)


def _is_narrow(low: Tensor, high: Tensor, gap: Tensor) -> Tensor:
    """Return where an interval is narrow enough for a rule with few nodes."""
    return (gap > 0) & (gap <= 1.0) & (gap * (low + high).abs() <= 8.0)


def _log_interval(low: Tensor, high: Tensor, gap: Tensor) -> Tensor:
    mirrored = low + high > 0
    # Now the upper end is nearer to zero.
    low, high = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    middle = 0.5 * (low + high)
    full = gap > 0  # false for NaN too: the gap of two equal infinities
    narrow = _is_narrow(low, high, gap)
    if gap.is_cuda:  # a recorded step must not ask where which form is needed
        value = torch.where(full, _wide(low, high, gap), -torch.inf)
        return torch.where(
            narrow, _narrow(*(torch.where(narrow, t, 0.0) for t in (middle, gap))), value
        )
    value = torch.full(gap.shape, -torch.inf, dtype=gap.dtype, device=gap.device)
    # Each form runs only where it is needed.
    for where, form, numbers in (
        (narrow, _narrow, (middle, gap)),
        (full & ~narrow, _wide, (low, high, gap)),
    ):
        at = where.flatten().nonzero()[:, 0]
        if len(at) == value.numel():
            return form(*numbers)
        if len(at):
            found = form(*(part.reshape(-1).index_select(0, at) for part in numbers))
            value.view(-1).index_copy_(0, at, found)
    return value


def _wide(low: Tensor, high: Tensor, gap: Tensor) -> Tensor:
    """Return log(Phi(b) (1 - Phi(a) / Phi(b))) of ends a < b with a + b <= 0."""
    log_ratio, _, _ = _log_ratio(low, high, gap)
    return log_normal_cdf(high) + log1mexp(log_ratio)


def _log_ratio(low: Tensor, high: Tensor, gap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log(Phi(a) / Phi(b)) of ends a < b with a + b <= 0, and both log hazards.

    It is taken from the gap: far out, the difference of two log probabilities has no digits left.
    """
    open_ = low.isinf()
    low, gap = torch.where(open_, -1.0, low), torch.where(open_, 1.0, gap)
    at_low, at_high = _log_hazard(low), _log_hazard_anywhere(high)
    # Near zero the gap does not matter, and the ends alone decide.
    log_density = torch.where(low > -_NEAR, 0.5 * (high - low), 0.5 * gap) * (low + high)
    log_ratio = log_density - (at_low - at_high)
    return torch.where(open_, -torch.inf, log_ratio), at_low, at_high


def _narrow(middle: Tensor, gap: Tensor) -> Tensor:
    """Return the density at the middle times gap and mean."""
    return log_normal_density(middle) + _log_mean(middle, gap)


def _log_mean(middle: Tensor, gap: Tensor) -> Tensor:
    """Return the log of the gap times the mean of cosh(m t) exp(-t^2 / 2) over half of it, h.

    The mean is the sum of He_n(m) h^n / (n + 1)! over even n, with Hermite polynomials He_n. Terms
    fall like (m h)^n / (n + 1)!, and m h is at most 2: there are enough for one rounding error.
    """
    half = 0.5 * gap
    bend, square = middle * half, half * half
    near = not gap.is_cuda and bool((bend.abs() <= 0.25).all() & (half <= 0.25).all())
    last, this, share, factorial = torch.ones_like(gap), bend, torch.zeros_like(gap), 2.0
    for n in range(1, _TERMS[gap.dtype == torch.float64, near]):
        last, this = this, (bend * this).addcmul_(square, last, value=-n)  # He_(n+1)(m) h^(n+1)
        factorial *= n + 2
        if n % 2:
            share.add_(this, alpha=1 / factorial)
    return gap.log() + share.log1p_()


def normal_quantile(log_u: Tensor, log_1mu: Tensor) -> Tensor:
    r"""Compute :math:`\Phi^{-1}(u)` from the logarithms of `u` and `1 - u`.

    Uses Newton's method on the log CDF of the nearer tail, which alone carries the gradient.

    >>> normal_quantile(torch.tensor([-1e4, -0.0]), torch.tensor([-0.0, -1e4]))
    tensor([-141.3798,  141.3798])
    """
    upper = log_1mu < log_u
    # Rounding may put both above log(1/2); solve for the smaller tail.
    log_tail = torch.where(upper, log_1mu, log_u)
    open_end = log_tail == -torch.inf
    z = _lower_quantile(torch.where(open_end, -1.0, log_tail))
    z = torch.where(open_end, -torch.inf, z)
    return torch.where(upper, -z, z)


def normal_of_logit(t: Tensor) -> tuple[Tensor, Tensor]:
    r"""Compute :math:`z = \Phi^{-1}(\sigma(t))` and :math:`\log dz/dt`.

    The derivative is the sigmoid of `|t|` over the hazard at `z`, without cancellation.

    >>> normal_of_logit(torch.tensor([0.0, 1e4]))
    (tensor([  0.0000, 141.3798]), tensor([-0.4674, -4.9515]))
    """
    # Not abs(), whose gradient at 0 is 0; a one-sided gradient is needed.
    size = torch.where(t > 0, t, -t)
    z = _lower_quantile(F.logsigmoid(-size))
    log_slope = F.logsigmoid(size) - _log_hazard(z)
    return torch.where(t > 0, -z, z), log_slope


def _lower_quantile(log_u: Tensor) -> Tensor:
    """Solve for the quantile of a finite log probability of about 1/2 or less."""
    target = log_u.detach()
    if target.is_cpu and not torch.is_grad_enabled() and bool((target >= _FAR).all()):
        return torch.special.ndtri(target.double().exp()).to(target.dtype)
    z = _start(target)
    for _ in range(_NEWTON_STEPS):
        z = z - (_log_cdf(z) - target) * torch.exp(-_log_hazard(z))
    # A Newton step of length zero carries the gradient of the inverse function.
    return z + (log_u - target) * torch.exp(-_log_hazard(z))


def _start(log_u: Tensor) -> Tensor:
    far = log_u < _FAR
    near = torch.special.ndtri(torch.where(far, -1.0, log_u).exp())
    # Phi(z) ~ phi(z) / |z|, solved for z^2 with one substitution.
    square = -2 * torch.where(far, log_u, _FAR) - 2 * _HALF_LOG_2PI
    return torch.where(far, -(square - square.log()).sqrt(), near)


def _log_hazard(z: Tensor) -> Tensor:
    """Compute the log of density over CDF, for z up to about 0."""
    x = -z * _SQRT_HALF
    log_erfcx = log_erfcx_of_parts(x) if z.is_cuda else torch.special.erfcx(x).log()
    return 0.5 * math.log(2 / math.pi) - log_erfcx


def _log_cdf(z: Tensor) -> Tensor:
    return log_cdf_of_parts(z) if z.is_cuda else torch.special.log_ndtr(z)


# torch compiles erfcx and log_ndtr for a GPU at their first use, which takes ten seconds. These do
# without.


def log_cdf_of_parts(z: Tensor) -> Tensor:
    """Return log Phi(z) by functions that a GPU has at hand.

    >>> log_cdf_of_parts(torch.tensor([0.0, -1e4, -torch.inf], dtype=torch.float64))
    tensor([-6.9315e-01, -5.0000e+07,        -inf], dtype=torch.float64)
    """
    x = z.double() * _SQRT_HALF
    below = log_erfcx_of_parts(-x.clamp(-_MOST, 0.0)) - x * x - math.log(2.0)
    return torch.where(x < 0, below, torch.log1p(-0.5 * torch.erfc(x))).to(z.dtype)


def log_erfcx_of_parts(x: Tensor) -> Tensor:
    """Return log(exp(x^2) erfc(x)) of x from about 0 on, by functions that a GPU has at hand.

    >>> x = torch.tensor([0.0, 1.0, 30.0], dtype=torch.float64)
    >>> bool(torch.allclose(log_erfcx_of_parts(x), torch.special.erfcx(x).log(), rtol=1e-12))
    True
    """
    wide = x.double()
    near, far = wide.clamp_max(_FAR_ERFCX), wide.clamp_min(_FAR_ERFCX)
    term, total = torch.ones_like(far), torch.zeros_like(far)
    for n in range(1, _ERFCX_TERMS):  # the asymptotic series, by (2 n - 1)!! / (-2 x^2)^n
        term = term * ((1 - 2 * n) / 2) / (far * far)
        total = total + term
    beyond = torch.log1p(total) - far.log() - 0.5 * math.log(math.pi)
    inside = near * near + torch.erfc(near).log()
    return torch.where(wide < _FAR_ERFCX, inside, beyond).to(x.dtype)
