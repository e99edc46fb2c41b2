import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from marginals.structure import Tree, balanced, random
from marginals.tensors import HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues
from marginals.tensors.plan import make_plan
from tests.laws.registry import chain, generic_tensor

CPU = torch.device("cpu")
TREES = {
    "balanced": balanced(9),
    "pool 3": balanced(11, pool=3),
    "random": random(10, seed=3),
    "chain": chain(7),
    "uneven": Tree((3, (0, (4, 1), 2), (5, (6, (7, 8)), 9))),
}


def both_plans(
    tensor: HierarchicalTensor, columns: list[int], values: Tensor
) -> tuple[LeafValues, LeafValues, list[int]]:
    """Leaf values of some columns alone, and of all with log value 0 in the rest."""
    every = tensor.order(range(tensor.size[0]))
    kept = [i for i, c in enumerate(every) if c in columns]
    zeros = torch.zeros_like(values)
    zeros[kept] = values[kept]
    some = LeafValues(tuple(every[i] for i in kept), values[kept])
    return some, LeafValues(every, zeros), kept


@given(
    st.sampled_from(list(TREES)),
    st.sets(st.integers(0, 20), min_size=1),
    st.booleans(),
    st.integers(0, 1000),
)
def test_skipping_subtrees_equals_the_full_plan_with_zeros(
    name: str, chosen: set[int], mera: bool, seed: int
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tensor = generic_tensor(HierarchicalTensor(TREES[name], 3, mera=mera))
        size = tensor.size[0]
        columns = sorted({c % size for c in chosen})
        values = 3 * torch.randn(size, 2, 3)
    some, full, kept = both_plans(tensor, columns, values)
    assert_close(tensor.log_value(some), tensor.log_value(full), rtol=0, atol=1e-13)
    assert_close(tensor.log_outside(some), tensor.log_outside(full)[kept], rtol=0, atol=1e-13)


@pytest.mark.parametrize("mera", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_a_plan_of_few_columns_is_short(name: str, mera: bool) -> None:
    """Only the ancestors of the columns at hand are contracted."""
    tree = TREES[name]
    for column in range(tree.columns):
        plan = make_plan(tree, (column,), CPU, keep_slots=mera)
        ancestors = sum(column in node.columns for node in tree.nodes[:-1])
        assert sum(level.count for level in plan.levels) == ancestors


@pytest.mark.parametrize("name", TREES)
def test_a_whole_plan_contracts_every_node_once(name: str) -> None:
    tree = TREES[name]
    plan = make_plan(tree, tree.order, CPU)
    rows = torch.arange(len(tree.nodes) - 1)
    assert torch.cat([rows[level.nodes] for level in plan.levels]).sort().values.equal(rows)
    assert len(plan.levels) == tree.depth - 1


@pytest.mark.parametrize("mera", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_scatter_undoes_gather(name: str, mera: bool) -> None:
    tree = TREES[name]
    for columns in [tree.order, tree.order[::2], tree.order[1:3]]:
        for level in make_plan(tree, columns, CPU, keep_slots=mera).levels:
            pool = torch.randn(level.size, 2, 3)
            kept = pool[:0] if level.keep is None else pool[level.keep]
            assert torch.equal(level.scatter(level.gather(pool), kept), pool)


def test_plans_are_kept_and_dropped() -> None:
    tensor = HierarchicalTensor(balanced(12), 2)
    for bits in range(1, 600):
        columns = tensor.order([c for c in range(12) if bits >> c & 1])
        tensor.log_value(LeafValues(columns, torch.zeros(len(columns), 1, 2)))
    assert len(tensor._plans) <= 256
    first = tensor._plan((0,), CPU)
    assert tensor._plan((0,), CPU) is first
