import math

import pytest
import torch
from torch.testing import assert_close

from marginals.structure import Tree, balanced
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues

KINDS = ["softmax", "softplus"]
MAKERS = {
    "ht": lambda kind: HierarchicalTensor(Tree(((0, 2), 1)), 4, parametrisation=kind),
    "mera": lambda kind: HierarchicalTensor(Tree(((0, 2), 1)), 4, mera=True, parametrisation=kind),
    "cp": lambda kind: CPTensor(3, 4, kind),
    "full": lambda kind: FullTensor(3, 4, kind),
}


@pytest.fixture(params=[(name, kind) for name in MAKERS for kind in KINDS], ids=" ".join)
def tensor(request: pytest.FixtureRequest) -> ComponentTensor:
    name, kind = request.param
    return MAKERS[name](kind)


def joint_of_two(tensor: ComponentTensor, one: int, two: int) -> torch.Tensor:
    """Return the joint weights (M, M) of two columns, by indicator leaves."""
    width = tensor.size[1]
    columns = tensor.order([one, two])
    values = torch.full((2, width * width, width), -torch.inf)
    rows = torch.arange(width * width)
    values[columns.index(one), rows, rows // width] = 0.0
    values[columns.index(two), rows, rows % width] = 0.0
    return tensor.log_value(LeafValues(columns, values)).exp().reshape(width, width)


def test_weights_sum_to_one_and_start_near_the_diagonal(tensor: ComponentTensor) -> None:
    for start in (tensor.start_as_paper, tensor.start):
        start()
        for one, two in [(0, 1), (0, 2), (2, 1)]:
            joint = joint_of_two(tensor, one, two)
            assert (joint >= 0).all()
            assert_close(joint.sum(), torch.tensor(1.0))
            if start == tensor.start:
                assert joint.diagonal().sum() > 0.8
                assert_close(joint.sum(0), torch.full((4,), 0.25), rtol=0, atol=0.02)


def test_paper_start_comes_from_the_generator(tensor: ComponentTensor) -> None:
    states = []
    for seed in (1, 1, 2):
        tensor.start_as_paper(torch.Generator().manual_seed(seed))
        states.append(torch.cat([p.detach().flatten() for p in tensor.parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_config_and_state_rebuild_the_tensor(tensor: ComponentTensor) -> None:
    tensor.start_as_paper()
    config = tensor.config()
    if "tree" in config:
        config["tree"] = Tree.from_json(config["tree"])
    other = type(tensor)(**config)
    other.load_state_dict(tensor.state_dict())
    assert torch.equal(joint_of_two(other, 0, 2), joint_of_two(tensor, 0, 2))


def test_impossible_leaves_have_log_value_minus_infinity(tensor: ComponentTensor) -> None:
    values = torch.zeros(3, 2, 4)
    values[1, 0] = -torch.inf
    values.requires_grad_()
    value = tensor.log_value(LeafValues(tensor.order(range(3)), values))
    assert value[0] == -torch.inf
    assert_close(value[1], torch.tensor(0.0), rtol=0, atol=1e-14)
    value[1].backward()
    assert values.grad.isfinite().all()


def test_full_tensor_refuses_too_many_weights() -> None:
    with pytest.raises(ValueError, match="tensor='ht'"):
        FullTensor(20, 10)


def test_paper_weights_of_the_hierarchy() -> None:
    """Softplus with beta 20 of M times the identity, over its sum."""
    tensor = HierarchicalTensor(balanced(4), 3, parametrisation="softplus")
    tensor.start_as_paper()
    off = math.log(2) / 20
    weights = tensor._log_weights().detach().exp()
    expected = torch.where(torch.eye(3) == 1, 3.0, off) / (3 + 2 * off)
    assert_close(weights, expected.expand_as(weights), rtol=1e-8, atol=0)
