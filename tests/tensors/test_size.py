"""Many columns and far rows: float32 stays finite, accurate and trainable."""

import pytest
import torch
from torch.testing import assert_close

from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import Leaves, NeuralLeaves
from marginals.structure import Tree, balanced, random
from marginals.tensors import CPTensor, HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues
from tests.laws.registry import chain, generic_neural, shake

MODELS = {
    "ht": lambda: HierarchicalTensor(balanced(43), 16),
    "ht random, pool 3": lambda: HierarchicalTensor(random(43, pool=3, seed=2), 16),
    "ht softplus": lambda: HierarchicalTensor(balanced(43), 16, parametrisation="softplus"),
    "mera": lambda: HierarchicalTensor(balanced(43), 16, mera=True),
    "cp": lambda: CPTensor(43, 16),
}


def assert_trainable(module: torch.nn.Module) -> None:
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize(
    "tree", [balanced(1000), random(1000, pool=3, seed=1)], ids=["balanced", "random, pool 3"]
)
def test_a_thousand_columns(tree: Tree) -> None:
    tensor = HierarchicalTensor(tree, 16)
    shake(tensor, 0.5)
    model = TensorDensity(Leaves([NeuralLeaves(1000, 16)], [range(1000)]), tensor).float()
    x = torch.randn(3, 1000, dtype=torch.float32)
    known = dict(enumerate(x[0, 500:600].tolist(), 500))
    assert model.logpdf(x[:, 10:11], [10], given=known).isfinite().all()
    rows = model.sample(5)
    assert rows.shape == (5, 1000)
    assert rows.isfinite().all()
    x[0, ::7] = torch.nan
    value = model.logpdf(x)
    assert value.dtype == torch.float32
    assert value.isfinite().all()
    (-value.mean()).backward()
    assert_trainable(model)
    # Each row is a log density of a thousand cells: float32 keeps six digits of it.
    with torch.no_grad():
        wide = model.double().logpdf(x.double())
    assert_close(value.double(), wide, rtol=1e-5, atol=0)


def test_a_chain_of_a_hundred_columns() -> None:
    """As many levels as columns: nothing recurses, nothing underflows."""
    tensor = HierarchicalTensor(chain(100), 8)
    shake(tensor)
    values = (-90 * torch.rand(100, 3, 8)).requires_grad_()
    at = LeafValues(tensor.order(range(100)), values)
    value = tensor.log_value(at)
    (gradient,) = torch.autograd.grad(value.sum(), values)
    assert value.max() < -1000
    assert_close(gradient.sum(-1), torch.ones(100, 3), rtol=0, atol=1e-10)
    assert_close(tensor.log_posterior(at).exp(), gradient, rtol=1e-8, atol=1e-14)


def outlying(name: str, depth: int) -> tuple[TensorDensity, torch.Tensor]:
    """Return a model of 43 columns and rows 0, 1 and 50 standard deviations out on all of them."""
    tensor = MODELS[name]()
    shake(tensor, 0.1)
    leaves = generic_neural(43, 16, depth, 3)
    with torch.no_grad():
        leaves.start(leaves.location[:, None] + leaves.scale[:, None] * torch.randn(43, 16))
    model = TensorDensity(Leaves([leaves], [range(43)]), tensor)
    sign = torch.randn(4, 43).sign()
    far = torch.tensor([0.0, 1.0, 50.0, 50.0])[:, None] * sign
    far[3, 1:] = 0.1  # one outlying column only
    return model, leaves.location + leaves.scale * far


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_a_row_fifty_deviations_out_in_float32(name: str, depth: int) -> None:
    """Densities, gradients, boxes, conditionals and samples agree with float64."""
    model, x = outlying(name, depth)
    known = {c: x[2, c].item() for c in range(20)}
    lower, upper, columns = x[:, 20:] - 0.1, x[:, 20:] + 0.1, range(20, 43)
    with torch.no_grad():
        wide, boxes = model.logpdf(x), model.logprob(lower, upper, columns)
        conditional = model.logpdf(x[:2, 20:], columns, given=known)
    assert conditional.isfinite().all()
    model = model.float()
    single = x.float().requires_grad_()
    value = model.logpdf(single)
    assert value.isfinite().all()
    assert value[2] < -2000
    assert_close(value.detach().double(), wide, rtol=1e-3, atol=0)
    value[2:].sum().backward()
    assert single.grad.isfinite().all()
    assert (single.grad[2] != 0).all()
    assert single.grad[3, 0] != 0
    assert_trainable(model)
    with torch.no_grad():
        found = model.logprob(lower.float(), upper.float(), columns)
        assert_close(found.double(), boxes, rtol=1e-3, atol=0)
        again = model.logpdf(x[:2, 20:].float(), columns, given=known)
        assert_close(again.double(), conditional, rtol=1e-2, atol=0)
        rows = model.sample(10, given=known)
    assert rows.isfinite().all()
    assert_close(rows[:, :20].double(), x[2, :20].expand(10, 20), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["ht", "ht random, pool 3", "mera"])
def test_a_row_that_only_a_component_without_weight_explains(name: str) -> None:
    """Large weights meet small values and underflow: each such entry is summed exactly."""
    model, x = outlying(name, 1)
    leaves = model.leaves.family_of(0)[0]
    rows = leaves.location[:, None] + leaves.scale[:, None] * torch.randn(43, 16)
    rows[:, 0] = leaves.location + 50 * leaves.scale
    leaves.start(rows)
    with torch.no_grad():
        model.tensor.raw[..., 0] -= 150.0
        x = torch.cat([x, rows[:, :1].T])
        wide = model.logpdf(x)
    model = model.float()
    value = model.logpdf(x.float())
    assert_close(value.detach().double(), wide, rtol=1e-3, atol=0)
    value[-1].backward()
    assert_trainable(model)
