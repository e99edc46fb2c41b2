"""The diagonal hierarchical Tucker tensor over a tree of columns, and its MERA-style variant."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marginals.numerics import (
    draw,
    draw_many,
    draw_rows,
    log_matmul,
    log_matmul_kept,
    log_normalised,
    log_shares,
    logsumexp,
    sum_of_others,
)
from marginals.numerics.logspace import Parametrisation, raw_weights
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.derived import Derived
from marginals.runtime.kernels import tree_contraction, tree_contraction_cpu
from marginals.runtime.kernels.tree_levels import Level
from marginals.structure import Tree
from marginals.tensors.component_tensor import ComponentTensor, LeafValues
from marginals.tensors.plan import Plan, make_partial_plan, make_plan

# Plans kept for subsets of columns; a plan is a few small index tensors.
_MOST_PLANS = 256


@final
class HierarchicalTensor(ComponentTensor):
    r"""Weights built bottom up: a group of columns mixes the products of its children.

    .. math:: \varphi^{\text{group}}_i = \sum_k \lambda_{ik} \prod_{\text{children } c} \varphi^c_k

    and at the root one distribution over k. With `mera=True` each product has a second term in
    which every child but the first uses component k + 1, as in the paper's appendix.

    Args:
        tree: the groups of columns.
        width: the number of components M of every node.
        mera: use the MERA-style variant.
        parametrisation: how weights are normalised, "softmax" or the paper's "softplus".

    >>> tensor = HierarchicalTensor(Tree(((0, 1), 2)), width=4)
    >>> tensor.log_value(LeafValues((0, 1, 2), torch.zeros(3, 5, 4))).shape
    torch.Size([5])
    """

    kind = "hierarchical"

    def __init__(
        self,
        tree: Tree,
        width: int,
        mera: bool = False,
        parametrisation: Parametrisation = "softmax",
    ) -> None:
        super().__init__()
        self.tree, self.mera, self.parametrisation = tree, mera, parametrisation
        self.root = nn.Parameter(torch.zeros(width))
        self.raw = nn.Parameter(torch.zeros(len(tree.nodes) - 1, width, width))  # (N, M, M)
        # The logit of the first term's share chi_1, MERA only.
        self.share = nn.Parameter(torch.zeros_like(self.raw)) if mera else None
        self._shifts = (0, 1) if mera else (0,)
        self._rank = {column: i for i, column in enumerate(tree.order)}
        self._made, self._made_root = Derived(), Derived()
        self._plans: dict[tuple[tuple[int, ...], torch.device], Plan] = {}
        self.start()

    @property
    def size(self) -> tuple[int, int]:
        """The number of columns D and of components M."""
        return self.tree.columns, len(self.root)

    def config(self) -> dict[str, Any]:
        """Return the JSON configuration that rebuilds the tensor."""
        return {
            "tree": self.tree.to_json(),
            "width": len(self.root),
            "mera": self.mera,
            "parametrisation": self.parametrisation,
        }

    def extra_repr(self) -> str:
        """Show the tree and the sizes."""
        return f"{self.tree!r}, width={len(self.root)}, mera={self.mera}"

    def order(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the columns from left to right in the tree."""
        return tuple(sorted(columns, key=self._rank.__getitem__))

    # Contraction ------------------------------------------------------------------------------

    def log_value(self, values: LeafValues, backend: Backend = QUERY) -> Tensor:
        """Contract the leaf values up the tree, (B,)."""
        value = self._by_kernel(values, backend)
        if value is not None:
            return value
        pool = self._up_kept(values) if self._made.frozen else self._up(values, backend)[0]
        return logsumexp(self._log_root() + pool.sum(0))

    def condense(self, values: LeafValues, requested: Sequence[int]) -> LeafValues:
        """Contract the nodes without a requested column below; the result's columns are nodes.

        A node's name is the number of columns plus its place in the tree, as in `Tree`.
        """
        plan = make_partial_plan(
            self.tree, values.columns, requested, values.log_values.device, self.mera
        )
        pool, _ = self._contract(values.log_values, plan.levels)
        if len(plan.groups) == len(pool):
            return LeafValues(plan.nodes, pool)
        merged = [pool[list(group)].sum(0) for group in plan.groups]
        return LeafValues(tuple(plan.nodes[group[0]] for group in plan.groups), torch.stack(merged))

    def log_ratio(
        self,
        given: LeafValues,
        requested: Tensor,
        place: Tensor | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Contract both together, relative to `given` alone, (B,).

        A node's ratio in component k is P(requested below | given below, k), a mean over its
        terms with weights that the evidence below gives them.
        """
        pool, ratio = given.log_values, requested
        for level in self._plan(given.columns, pool.device).levels:
            weights = self._weights_of(level, backend).to(pool.dtype)
            terms = self._terms(level.gather(pool))  # (n, U, T M)
            peak = terms.detach().amax(-1, keepdim=True)
            terms = terms - torch.where(peak.isfinite(), peak, 0.0)  # only their ratios count
            alone = log_matmul(terms, weights)  # (n, U, M)
            each, total = (terms, alone) if place is None else (terms[:, place], alone[:, place])
            both = log_matmul(each + self._terms(level.gather(ratio)), weights)  # (n, B, M)
            # A component that rules the evidence out has no weight above: any ratio will do.
            share = torch.where(total > -torch.inf, both - total, 0.0)
            keep = level.keep
            pool = alone if keep is None else torch.cat([alone, pool[keep]])
            ratio = share if keep is None else torch.cat([share, ratio[keep]])
        top, _ = log_shares(self._log_root() + pool.sum(0))  # (U, M)
        return logsumexp(ratio.sum(0) + (top if place is None else top[place]))

    def log_outside(self, values: LeafValues) -> Tensor:
        """Return the log weight of each column's components given the others, (n, B, M)."""
        pool, trace = self._up(values)
        outside = self._log_root() + sum_of_others(pool, 0)
        for step in reversed(trace):
            count = step.level.count
            mixed = log_matmul(outside[:count], step.weights.transpose(1, 2))
            to_children = self._outside_of_children(mixed, step.grid)
            outside = step.level.scatter(to_children, outside[count:])
        return outside

    def sample(
        self, values: LeafValues, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw the root's component, then each level in parallel, (n, B, S)."""
        pool, trace = self._up(values)
        top = draw_many(self._log_root() + pool.sum(0), draws, generator)  # (B, S)
        index = top.expand(len(pool), -1, -1)
        for step in reversed(trace):
            count = step.level.count
            chosen = _draw_below(step.weights, step.terms, index[:count], generator)
            children = self._children_of(chosen, step.level.children.shape[1])
            index = step.level.scatter(children, index[count:])
        return index

    def draw_cost(self) -> int:
        """Return the number of floats that one draw for one row holds at once."""
        return max(1, len(self.raw)) * len(self.root) * len(self._shifts)

    def _by_kernel(self, values: LeafValues, backend: Backend) -> Tensor | None:
        """Contract with a kernel; None if none applies or some sum underflows."""
        leaves = values.log_values
        if self.mera or not leaves.numel():
            return None
        plan = self._plan(values.columns, leaves.device)
        if backend.fuses(leaves) and len(self.root) <= tree_contraction.MOST_WIDTH:
            parts = (self.raw, self.root, plan.wiring, self.parametrisation == "softplus")
            if backend.host_free:
                precision = backend.precision or "full"
                return tree_contraction.log_value(leaves, *parts, precision)
            if not torch.is_grad_enabled():
                return tree_contraction.exact_log_value(leaves, *parts)
        if backend.precision is None or backend.host_free:
            return None
        parts_on_cpu = (self.raw, self.root, plan.levels, self.parametrisation)
        return tree_contraction_cpu.log_value(leaves, *parts_on_cpu, compiled=backend.compiled)

    def _up(self, values: LeafValues, backend: Backend = QUERY) -> tuple[Tensor, list["_Step"]]:
        """Contract all but the root; also return the steps taken."""
        pool = values.log_values
        return self._contract(pool, self._plan(values.columns, pool.device).levels, backend)

    def _contract(
        self, pool: Tensor, levels: Sequence[Level], backend: Backend = QUERY
    ) -> tuple[Tensor, list["_Step"]]:
        trace = []
        for level in levels:
            weights = self._weights_of(level, backend).to(pool.dtype)
            grid = level.gather(pool)  # (n, p, B, M)
            terms = self._terms(grid)  # (n, B, T M)
            mixed = log_matmul(terms, weights, host_free=backend.host_free)
            pool = mixed if level.keep is None else torch.cat([mixed, pool[level.keep]])
            trace.append(_Step(level, weights, grid, terms))
        return pool, trace

    def _up_kept(self, values: LeafValues) -> Tensor:
        """Contract all but the root with weights that never change: none is computed or copied."""
        pool = values.log_values
        log_weights, weights = self._made.get("all", (), self._both_weights)
        for level in self._plan(values.columns, pool.device).levels:
            terms = self._terms(level.gather(pool))
            mixed = log_matmul_kept(terms, log_weights, weights, level.numbers)
            pool = mixed if level.keep is None else torch.cat([mixed, pool[level.keep]])
        return pool

    def _both_weights(self) -> tuple[Tensor, Tensor]:
        log_weights = self._log_weights()
        return log_weights, log_weights.exp()

    def _terms(self, grid: Tensor) -> Tensor:
        """Multiply the children (n, p, B, M) in each of T terms, (n, B, T M)."""
        return torch.cat([self._shifted(grid, t).sum(1) for t in self._shifts], dim=-1)

    def _outside_of_children(self, mixed: Tensor, grid: Tensor) -> Tensor:
        """Pass the messages (n, B, T M) from nodes to their children, (n, p, B, M)."""
        parts = []
        for message, t in zip(mixed.chunk(len(self._shifts), -1), self._shifts, strict=True):
            to_child = message[:, None] + sum_of_others(self._shifted(grid, t), 1)
            parts.append(self._shifted(to_child, -t))
        return parts[0] if len(parts) == 1 else torch.logaddexp(*parts)

    def _shifted(self, grid: Tensor, by: int) -> Tensor:
        """Let every child but the first use component k + `by`."""
        if by == 0:
            return grid
        return torch.cat([grid[:, :1], grid[:, 1:].roll(-by, dims=-1)], dim=1)

    def _children_of(self, chosen: Tensor, most: int) -> Tensor:
        """Map the term and component drawn at a node (n, B, S) to the components of p children."""
        width = len(self.root)
        k, term = chosen % width, chosen // width
        other = (k + term) % width
        return torch.stack([k, *[other] * (most - 1)], dim=1)

    # Weights ----------------------------------------------------------------------------------

    def _weights_of(self, level: Level, backend: Backend) -> Tensor:
        """Return the log weights of a level's nodes, kept as far as possible."""
        raw = (self.raw,) if self.share is None else (self.raw, self.share)
        make = partial(self._log_weights, level.nodes)
        return self._made.get(level, raw, lambda: backend.keep(level, make))

    def _log_weights(self, nodes: Tensor | slice = slice(None)) -> Tensor:
        """Return the log weights of nodes below the root, all by default, (n, M, T M)."""
        weights = log_normalised(self.raw[nodes], self.parametrisation)
        if self.share is None:
            return weights
        share = self.share[nodes]
        return torch.cat([weights + F.logsigmoid(share), weights + F.logsigmoid(-share)], dim=-1)

    def _log_root(self) -> Tensor:
        return self._made_root.get(
            "root", (self.root,), lambda: log_normalised(self.root, self.parametrisation)
        )

    @torch.no_grad()
    def start(self, weights: Tensor | None = None) -> None:
        """Give each node's own index most of its weights, and split the rest evenly.

        Components that were fitted together, and come with weights, start closer to their mixture.
        """
        diagonal = 0.9 if weights is None else 0.99
        width = len(self.root)
        eye = torch.eye(width, dtype=self.raw.dtype, device=self.raw.device)
        off = (1 - diagonal) / max(width - 1, 1)
        mass = eye * (diagonal - off) + off
        self.raw.copy_(raw_weights(mass, self.parametrisation))
        even = torch.full_like(self.root, 1 / width)
        self.root.copy_(raw_weights(even if weights is None else weights, self.parametrisation))
        if self.share is not None:
            self.share.fill_(3.0)

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Set the raw weights to M times the identity, and the root's to N(0, 0.3 / M)."""
        width = len(self.root)
        self.raw.copy_(width * torch.eye(width, dtype=self.raw.dtype, device=self.raw.device))
        noise = torch.randn(width, generator=generator, device=self.root.device)
        self.root.copy_(noise * (0.3 / width) ** 0.5)
        if self.share is not None:
            self.share.fill_(5.0)

    def _plan(self, columns: tuple[int, ...], device: torch.device) -> Plan:
        key = (columns, device)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            with torch.inference_mode(False):  # it serves training too
                plan = self._plans[key] = make_plan(self.tree, columns, device, self.mera)
        return plan


@dataclass(frozen=True)
class _Step:
    """One level of a contraction: its weights, the children of each node, and their products."""

    level: Level
    weights: Tensor  # (n, M, T M)
    grid: Tensor  # (n, p, B, M)
    terms: Tensor  # (n, B, T M)


def _draw_below(
    weights: Tensor, terms: Tensor, index: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Draw the term below nodes whose component is `index` (n, B, S)."""
    count, width, size = weights.shape
    node = torch.arange(count, device=index.device)[:, None, None]
    # One table of all distributions, unless there are fewer draws than components.
    if terms.shape[1] == 1 and index.shape[2] >= width:
        table = (weights + terms).reshape(count * width, size)
        return draw_rows(table, node * width + index, generator)
    return draw(weights[node, index] + terms[:, :, None], generator)
