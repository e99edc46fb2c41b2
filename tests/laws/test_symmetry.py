"""What must not matter: the names of the columns, and a width of one."""

import copy

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import Leaves
from marginals.tensors import ComponentTensor, FullTensor, HierarchicalTensor
from tests.laws.registry import REGISTRY, boxes_of, build, names, rows_of

PLAIN = [
    n for n in names(at_least=2) if not any(kind in n for kind in ("mixture", "view", "nested"))
]


def relabelled(model: TensorDensity, label: list[int]) -> TensorDensity:
    """Call column c `label[c]`, in the leaves and in the tensor."""
    leaves = copy.deepcopy(model.leaves)
    owned = [[label[c] for c in columns] for columns in leaves.owned]
    return TensorDensity(Leaves(list(leaves), owned), relabelled_tensor(model.tensor, label))


def relabelled_tensor(tensor: ComponentTensor, label: list[int]) -> ComponentTensor:
    out = copy.deepcopy(tensor)
    if isinstance(tensor, HierarchicalTensor):
        out = HierarchicalTensor(
            tensor.tree.relabel(label), tensor.size[1], tensor.mera, tensor.parametrisation
        )
        out.load_state_dict(tensor.state_dict())
    if isinstance(tensor, FullTensor):
        back = torch.tensor(label).argsort().tolist()
        out.raw = torch.nn.Parameter(tensor.raw.detach().permute(back).contiguous())
    return out


@pytest.mark.parametrize("name", [n for n in PLAIN if "copula" not in n])
def test_relabelling_columns_changes_nothing(name: str) -> None:
    model = build(name)
    assert isinstance(model, TensorDensity)
    label = [*range(1, model.columns), 0] if model.columns > 2 else [1, 0]
    other = relabelled(model, label)
    assert [other.categories[label[c]] for c in range(model.columns)] == list(model.categories)
    x, boxes = rows_of(model, 10), boxes_of(model, 10)
    moved = torch.empty_like(x)
    moved[:, label] = x
    assert_close(other.logpdf(moved), model.logpdf(x), rtol=0, atol=1e-13)
    # An interval in every column, and in the first alone.
    one = Evidence.interval(torch.cat([x[:, :1] - 1, x[:, 1:]], 1), x)
    for evidence in (boxes, one):
        value = other.log_value(evidence.renamed(label))
        assert_close(value, model.log_value(evidence), rtol=0, atol=1e-13)
    known = {label[0]: x[0, 0].item()}
    asked = [label[1]]
    expected = model.logpdf(x[:, [1]], [1], {0: x[0, 0].item()})
    assert_close(other.logpdf(x[:, [1]], asked, known), expected, rtol=0, atol=1e-12)
    level = torch.tensor([0.1, 0.8])
    assert_close(other.ppf(level, asked[0]), model.ppf(level, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in REGISTRY if n.startswith("width 1")])
def test_width_one_is_the_product_of_its_marginals(name: str) -> None:
    model = build(name)
    x, boxes = rows_of(model, 10), boxes_of(model, 10)
    product = sum(model.logpdf(x[:, [c]], [c]) for c in range(model.columns))
    assert_close(model.logpdf(x), product, rtol=0, atol=1e-13)
    cdf = sum(model.logcdf(x[:, [c]], [c]) for c in range(model.columns))
    assert_close(model.logcdf(x), cdf, rtol=0, atol=1e-13)
    value = sum(model.log_value(part_of(boxes, c)) for c in range(model.columns))
    assert_close(model.log_value(boxes), value, rtol=0, atol=1e-13)
    given = {0: x[0, 0].item()}
    assert_close(
        model.logpdf(x[:, 1:], range(1, model.columns), given),
        model.logpdf(x[:, 1:], range(1, model.columns)),
        rtol=0,
        atol=1e-13,
    )


def part_of(evidence: Evidence, column: int) -> Evidence:
    lower, upper = evidence.lower[:, [column]], evidence.upper[:, [column]]
    return Evidence.interval(lower, upper, [column])


def test_the_other_models_are_not_products() -> None:
    """Guards the registry: in a model without dependence most laws would be empty."""
    for name in PLAIN:
        if not name.startswith("width 1") and REGISTRY[name].answers >= {"marginal"}:
            model = build(name)
            x = rows_of(model, 50)
            product = sum(model.logpdf(x[:, [c]], [c]) for c in range(model.columns))
            assert (model.logpdf(x) - product).abs().max() > 0.01, name


@pytest.mark.parametrize("name", list(REGISTRY))
def test_building_is_reproducible(name: str) -> None:
    one, two = build(name).state_dict(), build(name).state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)
