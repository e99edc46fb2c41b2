"""Sums and products of numbers held as logarithms, without floors."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Parametrisation = Literal["softmax", "softplus"]

# Entries that `log_matmul` recomputes at once; bounds its memory.
_REPAIR_ELEMENTS = 1 << 22


def log1mexp(x: Tensor) -> Tensor:
    r"""Compute :math:`\log(1 - e^x)` for `x <= 0` to full relative precision.

    Two forms meet at `-log 2`, as in Mächler (2012). `log1mexp(0)` is `-inf`.

    >>> log1mexp(torch.tensor([-1e-10, -50.0], dtype=torch.float64))
    tensor([-2.3026e+01, -1.9287e-22], dtype=torch.float64)
    """
    near = x > -math.log(2.0)
    if not torch.is_grad_enabled():
        return torch.where(near, (-x.expm1()).log(), (-x.exp()).log1p())
    # Each branch sees harmless numbers where the other is chosen: no gradient becomes 0 * inf.
    small = torch.where(near, x, -1.0)
    large = torch.where(near, -1.0, x)
    return torch.where(near, torch.log(-torch.expm1(small)), torch.log1p(-torch.exp(large)))


def log_softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    r"""Compute :math:`\log(\log(1 + e^{\beta x}) / \beta)`, finite for every finite `x`.

    >>> log_softplus(torch.tensor(-1000.0), beta=10.0)
    tensor(-10002.3027)
    """
    scaled = beta * x
    # Below -20, log1p(e^s) = e^s to 1e-9 relative (the next term is e^{2s}/2).
    far = scaled < -20.0
    near = torch.log(F.softplus(torch.where(far, 0.0, scaled)))
    return torch.where(far, scaled, near) - math.log(beta)


def logsumexp(x: Tensor, dim: int = -1) -> Tensor:
    """Return the log of the sum of exponentials; all `-inf` gives `-inf` with a zero gradient.

    >>> logsumexp(torch.full((2,), -torch.inf))
    tensor(-inf)
    """
    if not torch.is_grad_enabled():
        return x.logsumexp(dim)
    peak = _finite_peak(x, dim)
    total = torch.exp(x - peak).sum(dim)
    empty = total == 0
    log_total = torch.where(empty, 1.0, total).log() + peak.squeeze(dim)
    return torch.where(empty, -torch.inf, log_total)


def log_shares(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return log weights that sum to one on the last dim, and the logarithm of their sums.

    The peak is subtracted before the sum is taken, so the shares sum to one even where `x` is so
    far below zero that its sum has no digits left. Without any weight the shares are even.

    >>> log_shares(torch.tensor([-1e6, -1e6]))
    (tensor([-0.6931, -0.6931]), tensor(-999999.3125))
    """
    even = -math.log(x.shape[-1])
    if not torch.is_grad_enabled():
        total = x.logsumexp(-1)
        return x.log_softmax(-1).masked_fill((total == -torch.inf)[..., None], even), total
    peak = _finite_peak(x, -1)
    centred = x - peak
    total = logsumexp(centred)
    empty = (total == -torch.inf)[..., None]
    return torch.where(empty, even, centred - total[..., None]), total + peak.squeeze(-1)


def log_normalised(raw: Tensor, parametrisation: Parametrisation = "softmax") -> Tensor:
    """Map free parameters to log weights whose exponentials sum to one on the last dim.

    "softplus" is the paper's parametrisation: a softplus with beta 20 over its sum.

    >>> log_normalised(torch.zeros(4)).exp()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    if parametrisation == "softmax":
        return raw.log_softmax(-1)
    return log_softplus(raw, beta=20.0).log_softmax(-1)


def raw_weights(mass: Tensor, parametrisation: Parametrisation = "softmax") -> Tensor:
    """Return free parameters whose weights are proportional to `mass`; see `log_normalised`.

    >>> mass = torch.tensor([0.1, 0.9])
    >>> log_normalised(raw_weights(mass, "softplus"), "softplus").exp()
    tensor([0.1000, 0.9000])
    """
    return mass.log() if parametrisation == "softmax" else torch.expm1(20 * mass).log() / 20


def log_matmul(values: Tensor, log_weights: Tensor, *, host_free: bool = False) -> Tensor:
    r"""Multiply matrices held as logarithms, :math:`y_{nbm} = \log\sum_k e^{w_{nmk} + v_{nbk}}`.

    The product is taken in linear space, relative to the maximum of each row of `values`. Entries
    whose large weights all meet small values underflow there; they are recomputed exactly, so
    nothing is floored and the cost stays that of one matrix product.

    Args:
        values: logarithms, (N, B, K).
        log_weights: logarithms, (N, M, K).
        host_free: do not look for entries that underflow. They become an upper bound without a
            gradient: good enough for a recorded training step, never used for scores or queries.

    Returns:
        Logarithms, (N, B, M).

    >>> v = torch.tensor([[[0.0, -500.0]]]); w = torch.tensor([[[-900.0, 0.0]]])
    >>> log_matmul(v, w)
    tensor([[[-500.]]])
    """
    peak = _finite_peak(values, -1)  # (N, B, 1)
    # In place where autograd allows: fresh memory costs as much as the arithmetic.
    linear = (values - peak).exp_() @ torch.exp(log_weights).transpose(1, 2)  # (N, B, M)
    return _log_of(linear, peak, values, lambda: log_weights, host_free)


def log_matmul_kept(
    values: Tensor, log_weights: Tensor, weights: Tensor, nodes: Sequence[int]
) -> Tensor:
    """Multiply by some of many matrices whose exponentials are kept; see `log_matmul`.

    No matrix is copied, which would take longer than a product with few rows.

    Args:
        values: logarithms, (N, B, K).
        log_weights: logarithms of all matrices, (L, M, K).
        weights: their exponentials.
        nodes: which N of the L matrices.
    """
    peak = _finite_peak(values, -1)
    shares = (values - peak).exp_()
    parts = [share @ weights[node].T for share, node in zip(shares, nodes, strict=True)]
    return _log_of(torch.stack(parts), peak, values, lambda: log_weights[list(nodes)])


def _log_of(
    linear: Tensor,
    peak: Tensor,
    values: Tensor,
    log_weights: Callable[[], Tensor],
    host_free: bool = False,
) -> Tensor:
    """Return the logarithms of products relative to `peak`; recompute those that underflowed."""
    info = torch.finfo(linear.dtype)
    # Above this, all terms that underflowed together are below one rounding error.
    least = values.shape[-1] * info.tiny / info.eps
    if host_free:
        return torch.where(linear < least, least, linear).log() + peak
    if linear.numel() and bool(linear.detach().amin() >= least):
        return linear.log().add_(peak)
    lost = linear < least
    if not bool(lost.any()):  # there is a NaN
        return linear.log() + peak
    rough = torch.where(lost, 1.0, linear).log() + peak
    return rough.index_put(torch.where(lost), _exact_entries(values, log_weights(), lost))


def _exact_entries(values: Tensor, log_weights: Tensor, lost: Tensor) -> Tensor:
    node, row, out = torch.where(lost)
    size = max(1, _REPAIR_ELEMENTS // values.shape[-1])
    parts = [
        logsumexp(values[n, b] + log_weights[n, m])
        for n, b, m in zip(node.split(size), row.split(size), out.split(size), strict=True)
    ]
    return torch.cat(parts)


def _finite_peak(x: Tensor, dim: int) -> Tensor:
    peak = x.detach().amax(dim, keepdim=True)
    return peak.nan_to_num(0.0, 0.0, 0.0)


def sum_of_others(x: Tensor, dim: int) -> Tensor:
    """Sum all other entries along `dim`, without subtraction, which `-inf` would spoil.

    >>> sum_of_others(torch.tensor([1.0, 2.0, -torch.inf]), 0)
    tensor([-inf, -inf, 3.])
    """
    size = x.shape[dim]
    if size == 2:  # a swap of two blocks
        return torch.cat([x.narrow(dim, 1, 1), x.narrow(dim, 0, 1)], dim)
    zero = torch.zeros_like(x.narrow(dim, 0, 1))
    before = torch.cat([zero, x.narrow(dim, 0, size - 1).cumsum(dim)], dim)
    after = torch.cat([zero, x.flip(dim).narrow(dim, 0, size - 1).cumsum(dim)], dim)
    return before + after.flip(dim)


def logit_of_interval(
    log_cdf_low: Tensor, log_sf_high: Tensor, log_mass: Tensor, log_u: Tensor, log_1mu: Tensor
) -> Tensor:
    r"""Compute the logit of :math:`F(a) + u\,(F(b) - F(a))` without leaving log space.

    Args:
        log_cdf_low: log F(a).
        log_sf_high: log (1 - F(b)).
        log_mass: log (F(b) - F(a)).
        log_u: log u.
        log_1mu: log (1 - u).

    >>> z = torch.tensor(0.0); ninf = torch.tensor(-torch.inf)
    >>> logit_of_interval(ninf, ninf, z, torch.tensor(0.25).log(), torch.tensor(0.75).log())
    tensor(-1.0986)
    """
    log_cdf = torch.logaddexp(log_cdf_low, log_u + log_mass)
    log_sf = torch.logaddexp(log_sf_high, log_1mu + log_mass)
    return log_cdf - log_sf
