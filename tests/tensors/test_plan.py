import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
        values = 3 * torch.randn(size, 2, 3)
    every, columns = tensor.order(range(size)), {c % size for c in chosen}
    kept = [i for i, c in enumerate(every) if c in columns]
    zeros = torch.zeros_like(values)
    zeros[kept] = values[kept]
    some, full = LeafValues(tuple(every[i] for i in kept), values[kept]), LeafValues(every, zeros)
    assert_close(tensor.log_value(some), tensor.log_value(full), rtol=0, atol=1e-13)
    assert_close(tensor.log_outside(some), tensor.log_outside(full)[kept], rtol=0, atol=1e-13)


@pytest.mark.parametrize("mera", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_plans_contract_the_ancestors_of_their_columns_once(name: str, mera: bool) -> None:
    tree = TREES[name]
    for column in range(tree.columns):
        plan = make_plan(tree, (column,), CPU, keep_slots=mera)
        ancestors = sum(column in node.columns for node in tree.nodes[:-1])
        assert sum(level.count for level in plan.levels) == ancestors
    whole = make_plan(tree, tree.order, CPU, keep_slots=mera)
    rows = torch.arange(len(tree.nodes) - 1)
    assert torch.cat([rows[level.nodes] for level in whole.levels]).sort().values.equal(rows)
    assert len(whole.levels) == tree.depth - 1


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
    tensor = HierarchicalTensor(balanced(9), 2)
    for bits in range(1, 400):
        tensor._plan(tensor.order([c for c in range(9) if bits >> c & 1]), CPU)
    assert len(tensor._plans) <= 256
    assert tensor._plan((0,), CPU) is tensor._plan((0,), CPU)
