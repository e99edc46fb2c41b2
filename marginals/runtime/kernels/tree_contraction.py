"""Contraction of a hierarchical tensor by fused kernels, with its own backward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.runtime.kernels.leaf_values import is_recomputed
from marginals.runtime.kernels.products import Precision, product
from marginals.runtime.kernels.tree_levels import Stage, Wiring

MOST_WIDTH = 1 << 13  # components of a row that one program can hold in registers
# Weights whose gradient may be held next to them: two nodes of width 1000.
_FEW_WEIGHTS = 1 << 21


def log_value(
    leaves: Tensor,
    raw: Tensor,
    root: Tensor,
    wiring: Wiring,
    softplus: bool,
    precision: Precision,
) -> Tensor:
    """Contract the leaves' log values up the tree in a training step, (B,).

    A sum that underflows relative to the largest of its row is replaced by an upper bound, without
    a gradient. Queries use `exact_log_value` instead.

    Args:
        leaves: the leaves' log values, (n, B, M).
        raw: free parameters of the nodes' weights, (N, M, M).
        root: free parameters of the root's weights, (M,).
        wiring: the slots that each node joins.
        softplus: normalise by the paper's softplus over its sum instead of a softmax.
        precision: precision of the products.
    """
    return _LogValue.apply(leaves, raw, root, wiring, softplus, precision)


@torch.no_grad()
def exact_log_value(
    leaves: Tensor, raw: Tensor, root: Tensor, wiring: Wiring, softplus: bool
) -> Tensor | None:
    """Contract in full precision without a gradient; return None if some sum underflows."""
    from marginals.runtime.kernels import tree_contraction_triton as kernels

    leaves = leaves.contiguous()
    run = _forward(leaves, [_weights(raw, s, softplus) for s in wiring.stages], wiring, "full")
    if wiring.stages and bool((run.nodes < kernels.least_sum(leaves.shape[2])).any()):
        return None
    log_root = kernels.log_normalise(root, softplus)
    return kernels.close_root(leaves, run.nodes, run.peaks, wiring.root, log_root)


@dataclass
class _Run:
    """What the forward pass leaves for the backward pass, by node."""

    nodes: Tensor  # (N, B, M), linear
    peaks: Tensor  # (N, B), logarithms taken out of them
    terms: Tensor  # (N, B, M), products of children


def _weights(raw: Tensor, stage: Stage, softplus: bool) -> Tensor:
    from marginals.runtime.kernels import tree_contraction_triton as kernels

    return kernels.normalise(raw[stage.nodes].contiguous(), softplus)[0]


def _forward(
    leaves: Tensor, weights: Sequence[Tensor], wiring: Wiring, precision: Precision
) -> _Run:
    from marginals.runtime.kernels import tree_contraction_triton as kernels

    _, rows, width = leaves.shape
    nodes = leaves.new_empty(wiring.nodes, rows, width)
    terms = torch.empty_like(nodes)
    peaks = leaves.new_empty(wiring.nodes, rows)
    for stage, weight in zip(wiring.stages, weights, strict=True):
        part = slice(stage.first, stage.last)
        kernels.open_level(leaves, nodes, peaks, stage.children, terms[part], stage.first)
        product(terms[part], weight.mT, precision, out=nodes[part])
    return _Run(nodes, peaks, terms)


class _LogValue(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        leaves: Tensor,
        raw: Tensor,
        root: Tensor,
        wiring: Wiring,
        softplus: bool,
        precision: Precision,
    ) -> Tensor:
        from marginals.runtime.kernels import tree_contraction_triton as kernels

        # Fused leaves recompute their networks: their values may be overwritten by gradients.
        ctx.overwrites = leaves.is_contiguous() and is_recomputed(leaves)
        leaves = leaves.contiguous()
        weights, sums = kernels.normalise(raw, softplus)
        run = _forward(leaves, [weights[s.nodes] for s in wiring.stages], wiring, precision)
        log_root = kernels.log_normalise(root, softplus)
        out = kernels.close_root(leaves, run.nodes, run.peaks, wiring.root, log_root)
        ctx.save_for_backward(leaves, raw, root, log_root, out)
        ctx.run, ctx.weights, ctx.sums = run, weights, sums
        ctx.wiring, ctx.softplus, ctx.precision = wiring, softplus, precision
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from marginals.runtime.kernels import tree_contraction_triton as kernels

        leaves, raw, root, log_root, out = ctx.saved_tensors
        if ctx.run is None:
            raise RuntimeError("Expected one backward pass through a fused contraction; got two.")
        run, weights, wiring, precision = ctx.run, ctx.weights, ctx.wiring, ctx.precision
        ctx.run = ctx.weights = None  # overwritten below
        # The leaves' gradient overwrites their values where nothing else reads them.
        by_leaf = leaves if ctx.overwrites else torch.empty_like(leaves)
        # So does the weights' gradient, unless nodes that were not contracted need zeros.
        by_raw = weights if wiring.nodes == len(raw) else torch.zeros_like(raw)
        by_root = kernels.root_back(
            *(grads[0].contiguous(), out, leaves, run.nodes, run.peaks),
            *(wiring.root, log_root, by_leaf),
        )
        most = max(_FEW_WEIGHTS, raw.numel() // 8) // raw.shape[-1] ** 2
        for stage in reversed(wiring.stages):
            for at, nodes in stage.pieces(most):
                share, terms, weight = run.nodes[at], run.terms[at], weights[nodes]
                by_term = product(share, weight, precision)
                by_weight = product(share.mT, terms, precision)
                target = by_raw[nodes]  # a view if the nodes are a slice
                parts = (ctx.sums[nodes], raw[nodes], ctx.softplus, target)
                kernels.normalise_back(by_weight, weight, *parts)
                if not isinstance(nodes, slice):
                    by_raw[nodes] = target
                children = stage.children[at.start - stage.first : at.stop - stage.first]
                kernels.level_back(by_term, terms, run.nodes, children, by_leaf)
        by_log_root = torch.mv(by_root.T, torch.ones_like(out))  # faster than a sum over rows
        kernels.log_normalise_back(by_log_root, log_root, root, ctx.softplus)
        return by_leaf, by_raw, by_log_root, None, None, None
