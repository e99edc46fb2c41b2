"""The contraction of a hierarchical tensor by fused kernels, with a backward pass of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.kernels.products import Precision, product

MOST_WIDTH = 1 << 13  # components of a row that one program holds in registers


@dataclass(frozen=True)
class Stage:
    """Nodes that are contracted together.

    Args:
        nodes: rows of the weights, one per node.
        children: slots (m, p), -1 for none: the leaves come first, then the nodes as they are done.
        first: the number of nodes done before.
    """

    nodes: Tensor | slice
    children: Tensor
    first: int

    @property
    def last(self) -> int:
        """The number of nodes done after."""
        return self.first + len(self.children)


@dataclass(frozen=True)
class Wiring:
    """All stages below the root, and the slots of the root's children, (1, p)."""

    stages: tuple[Stage, ...]
    root: Tensor

    @property
    def nodes(self) -> int:
        """The number of nodes below the root."""
        return self.stages[-1].last if self.stages else 0


def log_value(
    leaves: Tensor,
    raw: Tensor,
    root: Tensor,
    wiring: Wiring,
    softplus: bool,
    precision: Precision,
) -> Tensor:
    """Contract log values (n, B, M) of leaves up the tree, (B,).

    Sums that underflow beside the largest of their row count as the most they can be, without a
    gradient: right for a training step; a query uses `exact_log_value`.

    Args:
        leaves: the leaves' log values.
        raw: free parameters of the nodes' weights, (N, M, M).
        root: those of the root's weights, (M,).
        wiring: which slots each node joins.
        softplus: whether weights are the paper's softplus over its sum, else a softmax.
        precision: of the products.
    """
    return _LogValue.apply(leaves, raw, root, wiring, softplus, precision)


@torch.no_grad()
def exact_log_value(
    leaves: Tensor, raw: Tensor, root: Tensor, wiring: Wiring, softplus: bool
) -> Tensor | None:
    """Contract without a gradient, in full precision; None if some sum has underflowed."""
    from marginals.kernels import tree_triton

    leaves = leaves.contiguous()
    run = _forward(leaves, [_weights(raw, s, softplus) for s in wiring.stages], wiring, "full")
    if wiring.stages and bool((run.nodes < tree_triton.least_sum(leaves.shape[2])).any()):
        return None
    log_root = tree_triton.log_normalise(root, softplus)
    return tree_triton.close_root(leaves, run.nodes, run.peaks, wiring.root, log_root)


@dataclass
class _Run:
    """What the way up leaves for the way down, by node: numbers, peaks and terms."""

    nodes: Tensor  # (N, B, M)
    peaks: Tensor  # (N, B)
    terms: Tensor  # (N, B, M)


def _weights(raw: Tensor, stage: Stage, softplus: bool) -> Tensor:
    from marginals.kernels import tree_triton

    return tree_triton.normalise(raw[stage.nodes].contiguous(), softplus)[0]


def _forward(
    leaves: Tensor, weights: Sequence[Tensor], wiring: Wiring, precision: Precision
) -> _Run:
    from marginals.kernels import tree_triton

    _, rows, width = leaves.shape
    nodes = leaves.new_empty(wiring.nodes, rows, width)
    terms = torch.empty_like(nodes)
    peaks = leaves.new_empty(wiring.nodes, rows)
    for stage, weight in zip(wiring.stages, weights, strict=True):
        part = slice(stage.first, stage.last)
        tree_triton.open_level(leaves, nodes, peaks, stage.children, terms[part], stage.first)
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
        from marginals.kernels import tree_triton

        leaves = leaves.contiguous()
        weights, sums = tree_triton.normalise(raw, softplus)
        run = _forward(leaves, [weights[s.nodes] for s in wiring.stages], wiring, precision)
        log_root = tree_triton.log_normalise(root, softplus)
        out = tree_triton.close_root(leaves, run.nodes, run.peaks, wiring.root, log_root)
        ctx.save_for_backward(leaves, raw, root, log_root, out)
        ctx.run, ctx.weights, ctx.sums = run, weights, sums
        ctx.wiring, ctx.softplus, ctx.precision = wiring, softplus, precision
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from marginals.kernels import tree_triton

        leaves, raw, root, log_root, out = ctx.saved_tensors
        if ctx.run is None:
            raise RuntimeError("Expected one backward pass through a fused contraction; got two.")
        run, weights, wiring, precision = ctx.run, ctx.weights, ctx.wiring, ctx.precision
        ctx.run = ctx.weights = None  # the way down takes its place
        by_leaf = torch.empty_like(leaves)
        every = wiring.nodes == len(raw)
        by_weight = torch.empty_like(raw) if every else torch.zeros_like(raw)
        by_root = tree_triton.root_back(
            *(grads[0].contiguous(), out, leaves, run.nodes, run.peaks),
            *(wiring.root, log_root, by_leaf),
        )
        for stage in reversed(wiring.stages):
            part = slice(stage.first, stage.last)
            share, terms = run.nodes[part], run.terms[part]
            by_term = product(share, weights[stage.nodes], precision)
            if isinstance(stage.nodes, slice):
                product(share.mT, terms, precision, out=by_weight[stage.nodes])
            else:
                by_weight[stage.nodes] = product(share.mT, terms, precision)
            tree_triton.level_back(by_term, terms, run.nodes, stage.children, by_leaf)
        tree_triton.normalise_back(by_weight, weights, ctx.sums, raw, ctx.softplus)
        by_log_root = torch.mv(by_root.T, torch.ones_like(out))  # faster than a sum over rows
        tree_triton.log_normalise_back(by_log_root, log_root, root, ctx.softplus)
        return by_leaf, by_weight, by_log_root, None, None, None
