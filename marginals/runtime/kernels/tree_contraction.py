"""The contraction of a hierarchical tensor by fused kernels, with a backward pass of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.runtime.kernels.leaf_values import is_recomputed
from marginals.runtime.kernels.products import Precision, product

MOST_WIDTH = 1 << 13  # components of a row that one program holds in registers
_FEW_WEIGHTS = 1 << 21  # whose gradient may be held beside the weights: two nodes of width 1000


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

    def pieces(self, most: int) -> Iterator[tuple[slice, Tensor | slice]]:
        """Cut into pieces of at most so many nodes: where they are, and their rows of weights."""
        size = max(1, most)
        for start in range(0, len(self.children), size):
            stop = min(start + size, len(self.children))
            if isinstance(self.nodes, slice):
                nodes: Tensor | slice = slice(self.nodes.start + start, self.nodes.start + stop)
            else:
                nodes = self.nodes[start:stop]
            yield slice(self.first + start, self.first + stop), nodes


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
    from marginals.runtime.kernels import tree_contraction_triton as tree_triton

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
    from marginals.runtime.kernels import tree_contraction_triton as tree_triton

    return tree_triton.normalise(raw[stage.nodes].contiguous(), softplus)[0]


def _forward(
    leaves: Tensor, weights: Sequence[Tensor], wiring: Wiring, precision: Precision
) -> _Run:
    from marginals.runtime.kernels import tree_contraction_triton as tree_triton

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
        from marginals.runtime.kernels import tree_contraction_triton as tree_triton

        # Our own leaves go through their networks again and need no values on the way down.
        ctx.overwrites = leaves.is_contiguous() and is_recomputed(leaves)
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
        from marginals.runtime.kernels import tree_contraction_triton as tree_triton

        leaves, raw, root, log_root, out = ctx.saved_tensors
        if ctx.run is None:
            raise RuntimeError("Expected one backward pass through a fused contraction; got two.")
        run, weights, wiring, precision = ctx.run, ctx.weights, ctx.wiring, ctx.precision
        ctx.run = ctx.weights = None  # the way down takes its place
        # Where nothing else needs the leaves' values, their gradient takes their place.
        by_leaf = leaves if ctx.overwrites else torch.empty_like(leaves)
        # So does that of the weights; nodes that were not asked for have none.
        by_raw = weights if wiring.nodes == len(raw) else torch.zeros_like(raw)
        by_root = tree_triton.root_back(
            *(grads[0].contiguous(), out, leaves, run.nodes, run.peaks),
            *(wiring.root, log_root, by_leaf),
        )
        most = max(_FEW_WEIGHTS, raw.numel() // 8) // raw.shape[-1] ** 2
        for stage in reversed(wiring.stages):
            for at, nodes in stage.pieces(most):
                share, terms, weight = run.nodes[at], run.terms[at], weights[nodes]
                by_term = product(share, weight, precision)
                by_weight = product(share.mT, terms, precision)
                target = by_raw[nodes]  # a view, where the nodes are a slice
                parts = (ctx.sums[nodes], raw[nodes], ctx.softplus, target)
                tree_triton.normalise_back(by_weight, weight, *parts)
                if not isinstance(nodes, slice):
                    by_raw[nodes] = target
                children = stage.children[at.start - stage.first : at.stop - stage.first]
                tree_triton.level_back(by_term, terms, run.nodes, children, by_leaf)
        by_log_root = torch.mv(by_root.T, torch.ones_like(out))  # faster than a sum over rows
        tree_triton.log_normalise_back(by_log_root, log_root, root, ctx.softplus)
        return by_leaf, by_raw, by_log_root, None, None, None
