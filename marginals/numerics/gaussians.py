r"""Gaussian log densities of rows that observe different columns.

With C the Cholesky factor of the observed part of the covariance R, the quadratic form is
:math:`|C^{-1} s|^2`. The gradient has a closed form: :math:`-\alpha` for the scores, with
:math:`\alpha = R_{EE}^{-1} s_E`, and :math:`(\alpha \alpha^\top - R_{EE}^{-1}) / 2` for the
covariance. The backward pass is two products; it does not go through the factorisations.

Shapes: scores (B, K, J), covariance (K, J, J), patterns (P, J) true where observed, index (B,).
"""

import math
from typing import Any

import torch
from torch import Tensor


def log_density_of_patterns(
    scores: Tensor,
    covariance: Tensor,
    patterns: Tensor,
    index: Tensor,
    *,
    host_free: bool = False,
) -> Tensor:
    r"""Compute :math:`\log N(s_E; 0, R_{EE})` of the observed columns E of each row, (B, K).

    Args:
        scores: scores of all columns, 0 where not observed.
        covariance: covariance of each component, float64.
        patterns: the distinct sets of observed columns.
        index: the pattern of each row.
        host_free: skip checks that need the host; if there are as many patterns as rows, row b
            must have pattern b.

    >>> s, R = torch.tensor([[[0.3, 0.0]]]), torch.eye(2, dtype=torch.float64)[None]
    >>> log_density_of_patterns(s, R, torch.tensor([[True, False]]), torch.tensor([0]))
    tensor([[-0.9639]])
    """
    return _LogDensity.apply(scores, covariance, patterns, index, host_free)


def whitening(covariance: Tensor, host_free: bool = False) -> tuple[Tensor, Tensor]:
    """Return the Cholesky factors C of covariances (..., J, J) and their inverses."""
    cholesky, _ = torch.linalg.cholesky_ex(covariance, check_errors=not host_free)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    return cholesky, torch.linalg.solve_triangular(cholesky, eye.expand_as(cholesky), upper=False)


class _LogDensity(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        covariance: Tensor,
        patterns: Tensor,
        index: Tensor,
        host_free: bool,
    ) -> Tensor:
        inverse, log_scale = _white_patterns(covariance, patterns, host_free)
        white, own = _white(scores, inverse, index, host_free)
        weighted = (own.mT @ white[..., None]).squeeze(-1)  # alpha, (B, K, J)
        ctx.save_for_backward(scores, covariance, patterns, index, weighted, inverse)
        ctx.host_free = host_free
        return _value(white, log_scale, index).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, covariance, patterns, index, weighted, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: let autograd differentiate
            own, log_scale = _white_patterns(covariance, patterns, ctx.host_free)
            white, _ = _white(scores, own, index, ctx.host_free)
            value = _value(white, log_scale, index).to(scores.dtype)
            wanted = [part for part in (scores, covariance) if part.requires_grad]
            found = iter(torch.autograd.grad(value, wanted, grads[0], create_graph=True))
            both = [next(found) if p.requires_grad else None for p in (scores, covariance)]
            return *both, None, None, None
        grad = grads[0].double()  # (B, K)
        by_scores = by_covariance = None
        if ctx.needs_input_grad[0]:
            by_scores = (-grad[..., None] * weighted).to(scores.dtype)
        if ctx.needs_input_grad[1]:
            per_pattern = grad.new_zeros(inverse.shape[:2]).index_add_(0, index, grad)  # (P, K)
            columns = weighted.transpose(0, 1)  # (K, B, J)
            outer = (columns * grad.T[..., None]).mT @ columns
            # The sum over patterns of g C^-T C^-1, as one product of (J, P J) by (P J, J).
            rows = inverse.transpose(0, 1)  # (K, P, J, J)
            scaled = (rows * per_pattern.T[..., None, None]).flatten(1, 2)
            by_covariance = 0.5 * (outer - scaled.mT @ rows.flatten(1, 2))
        return by_scores, by_covariance, None, None, None


def _white(
    scores: Tensor, inverse: Tensor, index: Tensor, host_free: bool
) -> tuple[Tensor, Tensor]:
    """Return C^-1 s of each row, (B, K, J), and the C^-1 of its pattern, (B, K, J, J)."""
    own = inverse if host_free and len(index) == len(inverse) else inverse[index]
    return (own @ scores.double()[..., None]).squeeze(-1), own


def _value(white: Tensor, log_scale: Tensor, index: Tensor) -> Tensor:
    return -0.5 * white.square().sum(-1) - log_scale[index]


def _white_patterns(covariance: Tensor, patterns: Tensor, host_free: bool) -> tuple[Tensor, Tensor]:
    """Return C^-1 of each pattern, 0 where not observed, and half of log |2 pi R_EE|."""
    seen = patterns.to(covariance.dtype)
    both = (seen[:, :, None] * seen[:, None, :])[:, None]  # (P, 1, J, J)
    # A column that is not observed becomes independent of all others.
    part = covariance * both + (1 - seen).diag_embed()[:, None]
    cholesky, inverse = whitening(part, host_free)
    log_scale = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # (P, K)
    constant = 0.5 * math.log(2 * math.pi) * seen.sum(1)
    return inverse * seen[:, None, :, None], log_scale + constant[:, None]
