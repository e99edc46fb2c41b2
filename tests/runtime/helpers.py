"""Random leaves and tensors, their float64 twins, and the comparison of gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.leaves import NeuralLeaves
from marginals.runtime.backend import Backend
from marginals.structure import Tree, balanced, random
from marginals.tensors import HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues
from tests.leaves.cells import cells, exact

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FUSED = Backend("fused")
TREES = {
    "one": Tree((0,)),
    "two": balanced(2),
    "six": balanced(6),
    "random": random(7, seed=3),
    "chain": Tree((0, (1, (2, (3, 4))))),
    "pools": Tree(((0, 1, 2), 3, (4, 5))),
}


def leaves_of(columns: int, width: int, depth: int, hidden: int) -> NeuralLeaves:
    torch.manual_seed(0)
    leaves = NeuralLeaves(columns, width, depth, hidden)
    with torch.no_grad():
        for parameter in leaves.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        leaves.location.copy_(torch.randn(columns))
        leaves.scale.copy_(torch.rand(columns) + 0.5)
    return leaves.to(DEVICE)


def tensor_of(tree: Tree, width: int, parametrisation: Any = "softmax") -> HierarchicalTensor:
    torch.manual_seed(0)
    tensor = HierarchicalTensor(tree, width, parametrisation=parametrisation)
    with torch.no_grad():
        for parameter in tensor.parameters():
            parameter.add_(torch.randn_like(parameter))
    return tensor.to(DEVICE)


def twin(module: Any) -> Any:
    """Return the same leaves or tensor in float64."""
    config = module.config()
    if "tree" in config:
        config["tree"] = Tree.from_json(config["tree"])
    copy = type(module)(**config).to(DEVICE, next(module.parameters()).dtype)
    copy.load_state_dict(module.state_dict())
    return copy.double()


def cells_of(kind: str, columns: int, rows: int) -> Evidence:
    """Return exact cells, exact cells with gaps, or both with intervals of all lengths."""
    torch.manual_seed(1)
    upper = 2 * torch.randn(columns, rows, dtype=torch.float64)
    lower = upper.clone()
    here = torch.arange(rows).expand(columns, -1)
    if kind == "all":
        lower = torch.where(here % 3 == 0, upper - 10.0 ** (-(here % 5)), lower)
        lower = torch.where(here % 7 == 1, -torch.inf, lower)
        upper = torch.where(here % 7 == 4, torch.inf, upper)
    if kind in ("gaps", "all"):
        gone = (here + torch.arange(columns)[:, None]) % 3 == 1
        lower, upper = (torch.where(gone, torch.nan, side) for side in (lower, upper))
    lower, upper = lower.to(DEVICE), upper.to(DEVICE)
    return cells(lower, upper) if kind == "all" else exact(upper)


def values_of(tensor: HierarchicalTensor, rows: int, columns: Any = None) -> LeafValues:
    order = tensor.order(range(tensor.size[0]) if columns is None else columns)
    logs = 5 * torch.randn(len(order), rows, tensor.size[1], dtype=torch.float64)
    return LeafValues(order, logs.to(DEVICE, tensor.root.dtype).requires_grad_())


def doubled(values: LeafValues) -> LeafValues:
    return LeafValues(values.columns, values.log_values.detach().double().requires_grad_())


def gradients(out: Tensor, *sources: Any) -> list[Tensor | None]:
    """Return the gradients of tensors and of modules' parameters, for random output weights."""
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out)
    wanted = [p for s in sources for p in ([s] if isinstance(s, Tensor) else s.parameters())]
    return list(torch.autograd.grad(out, wanted, weight, allow_unused=True))


def assert_same_gradients(
    found: Sequence[Tensor | None], expected: Sequence[Tensor | None], error: float
) -> None:
    """Compare each gradient by its norm.

    A gradient may be a difference of terms as large as the largest gradient of all; a row of a
    single weight, which is always one, has gradient zero that way. Rounding leaves `error` times
    those terms, so that is the absolute tolerance.
    """
    largest = max(float(g.norm()) for g in expected if g is not None)
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None or not one.any()
        else:
            assert one is not None
            tolerance = error * (largest + 10 * float(other.norm()))
            assert float((one - other).norm()) <= tolerance
