"""Contraction of a hierarchical tensor in a training step on a CPU: hand-written backward pass.

It stores only the linear terms and sums of each level, where autograd would keep every step between
them. The reference is the autograd form in `tensors/hierarchical.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.numerics import log_normalised
from marginals.numerics.logspace import Parametrisation, log_softplus
from marginals.runtime.kernels.compiled import call
from marginals.runtime.kernels.tree_levels import Level

_BETA = 20.0  # of the softplus of the paper's weights
_LEAST = 1e-30  # sum of a node's weights before normalisation


def log_value(
    leaves: Tensor,
    raw: Tensor,
    root: Tensor,
    levels: Sequence[Level],
    parametrisation: Parametrisation,
    *,
    compiled: bool = False,
) -> Tensor | None:
    """Contract log values (n, B, M) of leaves up the tree, (B,); None if some sum underflows."""
    run = _Run(levels, parametrisation, compiled)
    out = _LogValue.apply(leaves, raw, root, run)
    return None if run.lost else out


@dataclass
class _Run:
    """One forward pass, and what it leaves for the backward pass."""

    levels: Sequence[Level]
    parametrisation: Parametrisation
    compiled: bool
    lost: bool = False
    terms: list[Tensor] = field(default_factory=list)
    sums: list[Tensor] = field(default_factory=list)

    def up(self, pool: Tensor, weights: Tensor) -> Tensor:
        """Contract all levels and return the pool of the root's children."""
        info = torch.finfo(pool.dtype)
        # Above this, all terms that underflowed together are below one rounding error.
        least = pool.shape[-1] * info.tiny / info.eps
        for level in self.levels:
            total = level.gather(pool).sum(1)  # (n, B, M)
            peak = total.amax(-1, keepdim=True)
            peak = torch.where(peak.isfinite(), peak, 0.0)
            terms = total.sub_(peak).exp_()
            sums = terms @ weights[level.nodes].mT
            if not bool(sums.amin() >= least):
                self.lost = True
                return pool
            self.terms.append(terms)
            self.sums.append(sums)
            mixed = sums.log().add_(peak)
            pool = mixed if level.keep is None else torch.cat([mixed, pool[level.keep]])
        return pool

    def down(self, by_pool: Tensor, weights: Tensor, by_weight: Tensor) -> Tensor:
        """Send the gradient of the root's children down to the leaves and the weights."""
        for level in reversed(self.levels):
            terms, sums = self.terms.pop(), self.sums.pop()
            share = by_pool[: level.count] / sums
            by_term = share @ weights[level.nodes]
            by_weight[level.nodes] = share.mT @ terms
            by_total = by_term.mul_(terms)[:, None]
            children = by_total.expand(-1, level.children.shape[1], -1, -1)
            by_pool = level.scatter(children, by_pool[level.count :])
        return by_pool


class _LogValue(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaves: Tensor, raw: Tensor, root: Tensor, run: _Run) -> Tensor:
        weights, total_weight = call(_WEIGHTS[run.parametrisation], raw, compiled=run.compiled)
        log_root = log_normalised(root, run.parametrisation)
        if not bool((total_weight > _LEAST).all()):  # the weights have underflowed
            run.lost = True
            return leaves.new_zeros(leaves.shape[1])
        pool = run.up(leaves, weights)
        total = pool.sum(0).add_(log_root)
        out = total.logsumexp(-1)
        ctx.run, ctx.size = run, len(pool)
        ctx.save_for_backward(raw, root, weights, total_weight, log_root, total, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        raw, root, weights, total_weight, log_root, total, out = ctx.saved_tensors
        run: _Run = ctx.run
        if len(run.terms) != len(run.levels):
            raise RuntimeError("Expected one backward pass through this contraction; got two.")
        # A row without any mass has no gradient.
        share = torch.where(out.isfinite(), grads[0], 0.0)[:, None]
        by_total = torch.exp(total - torch.where(out.isfinite(), out, 0.0)[:, None]).mul_(share)
        by_weight = torch.zeros_like(raw)
        by_pool = by_total.expand(ctx.size, -1, -1)
        by_leaf = run.down(by_pool, weights, by_weight)
        by_log_root = by_total.sum(0)
        by_root = by_log_root - log_root.exp() * by_log_root.sum()
        parts = (by_weight, weights, raw, total_weight)
        by_raw = call(_BACK[run.parametrisation], *parts, compiled=run.compiled)
        if run.parametrisation == "softplus":
            by_root = by_root * _slope_of_softplus(root)
        return by_leaf, by_raw if len(raw) else None, by_root, None


def _slope_of_softplus(raw: Tensor) -> Tensor:
    """Return the derivative of the log of the softplus with beta 20."""
    logs = F.logsigmoid(_BETA * raw)
    return torch.exp(logs - log_softplus(raw, _BETA))


# Weights --------------------------------------------------------------------------------------


def _softmax(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights and a placeholder for their sum."""
    return raw.softmax(-1), raw.new_ones(1)


def _softmax_back(by_weight: Tensor, weights: Tensor, raw: Tensor, total: Tensor) -> Tensor:
    share = by_weight * weights
    return share - weights * share.sum(-1, keepdim=True)


def _softplus(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return softplus weights over their sum, and the sum."""
    soft = F.softplus(_BETA * raw, threshold=30.0)
    total = soft.sum(-1, keepdim=True)
    return soft / total, total


def _softplus_back(by_weight: Tensor, weights: Tensor, raw: Tensor, total: Tensor) -> Tensor:
    dot = (by_weight * weights).sum(-1, keepdim=True)
    return (by_weight - dot) * (_BETA * torch.sigmoid(_BETA * raw) / total)


_WEIGHTS: dict[Parametrisation, Callable[..., Any]] = {"softmax": _softmax, "softplus": _softplus}
_BACK: dict[Parametrisation, Callable[..., Any]] = {
    "softmax": _softmax_back,
    "softplus": _softplus_back,
}
