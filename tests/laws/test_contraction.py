"""Every tensor against a slow reference: the sum over all M^D combinations, in linear space."""

import math
from itertools import product

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch.testing import assert_close

from marginals.numerics import log_normalised
from marginals.structure import Tree, balanced, flat, random
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues
from tests.laws.registry import chain, generic_tensor
from tests.laws.statistics import P_VALUE

TREES = {
    "balanced 2": balanced(2),
    "balanced 3": balanced(3),
    "balanced 5": balanced(5),
    "pool 3": balanced(5, pool=3),
    "random": random(5, seed=4),
    "chain": chain(4),
    "flat": flat(3),
    "uneven": Tree((3, (0, (4, 1), 2))),
    "one": balanced(1),
}
# Both parametrisations, of which a tree knows nothing, for a few trees.
BOTH = ("balanced 3", "uneven")
TENSORS = {
    **{
        f"{'mera' if mera else 'ht'} {name} {kind}": lambda t=tree, m=mera, k=kind: (
            HierarchicalTensor(t, 3, mera=m, parametrisation=k)
        )
        for name, tree in TREES.items()
        for mera in (False, True)
        for kind in ("softmax", "softplus")[: 1 + (name in BOTH)]
    },
    **{f"cp {d}": lambda d=d: CPTensor(d, 4) for d in (1, 2, 4)},
    **{f"full {d}": lambda d=d: FullTensor(d, 3) for d in (1, 2, 4)},
    "cp 3 softplus": lambda: CPTensor(3, 4, "softplus"),
    "full 3 softplus": lambda: FullTensor(3, 3, "softplus"),
    "ht width 1": lambda: HierarchicalTensor(balanced(3), 1),
    "mera width 1": lambda: HierarchicalTensor(balanced(3), 1, mera=True),
    "mera width 2": lambda: HierarchicalTensor(balanced(5), 2, mera=True),
    "cp width 1": lambda: CPTensor(3, 1),
    "full width 1": lambda: FullTensor(3, 1),
}

Combination = tuple[int, ...]


def make(name: str) -> ComponentTensor:
    return generic_tensor(TENSORS[name]())


# The reference ---------------------------------------------------------------------------------


def weight(tensor: ComponentTensor, combination: Combination) -> float:
    """Return one entry of the full tensor, written out from the definitions."""
    if isinstance(tensor, HierarchicalTensor):
        return root_weight(tensor, combination)
    weights = log_normalised(tensor.raw.detach().flatten(), tensor.parametrisation)
    width = tensor.size[1]
    if isinstance(tensor, CPTensor):
        same = len(set(combination)) == 1
        return math.exp(weights[combination[0]]) if same else 0.0
    place = 0
    for index in combination:
        place = place * width + index
    return math.exp(weights[place])


def root_weight(tensor: HierarchicalTensor, combination: Combination) -> float:
    root = log_normalised(tensor.root.detach(), tensor.parametrisation).tolist()
    total = 0.0
    for k, log_weight in enumerate(root):
        term = math.exp(log_weight)
        for child in tensor.tree.nodes[-1].children:
            term *= child_weight(tensor, child, k, combination)
        total += term
    return total


def child_weight(tensor: HierarchicalTensor, child: int, i: int, combination: Combination) -> float:
    """Return the weight of a combination under component i of a column or a group."""
    columns, width = tensor.size
    if child < columns:
        return 1.0 if combination[child] == i else 0.0
    node = child - columns
    row = log_normalised(tensor.raw[node, i].detach(), tensor.parametrisation).tolist()
    total = 0.0
    for k, log_weight in enumerate(row):
        plain = shifted = 1.0
        for place, below in enumerate(tensor.tree.nodes[node].children):
            other = k if place == 0 else (k + 1) % width
            plain *= child_weight(tensor, below, k, combination)
            shifted *= child_weight(tensor, below, other, combination)
        share = 1.0
        if tensor.share is not None:
            share = 1 / (1 + math.exp(-tensor.share[node, i, k].item()))
        total += math.exp(log_weight) * (share * plain + (1 - share) * shifted)
    return total


Weights = dict[Combination, float]


def every_weight(tensor: ComponentTensor) -> Weights:
    size, width = tensor.size
    out = {c: weight(tensor, c) for c in product(range(width), repeat=size)}
    assert abs(sum(out.values()) - 1) < 1e-12
    return out


def reference(weights: Weights, values: Tensor, columns: tuple[int, ...]) -> Tensor:
    """Contract log values (n, B, M) of some columns; the others are summed out."""
    out = []
    for row in values.exp().unbind(1):
        leaf = row.tolist()
        total = 0.0
        for combination, mass in weights.items():
            for place, column in enumerate(columns):
                mass *= leaf[place][combination[column]]
            total += mass
        out.append(math.log(total))
    return torch.tensor(out)


# The laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TENSORS)
def test_contraction_equals_the_full_sum(name: str) -> None:
    """Of all columns, and of all but one."""
    tensor = make(name)
    size, weights = tensor.size[0], every_weight(tensor)
    for left_out in [None, *range(size)]:
        columns = tensor.order([c for c in range(size) if c != left_out])
        if columns:
            values = 2 * torch.randn(len(columns), 2, tensor.size[1])
            value = tensor.log_value(LeafValues(columns, values))
            expected = reference(weights, values, columns)
            assert_close(value.detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", TENSORS)
def test_leaving_columns_out_equals_a_log_value_of_zero(name: str) -> None:
    """Skipped subtrees against the full plan, for every subset of the columns."""
    tensor = make(name)
    size, width = tensor.size
    every = tensor.order(range(size))
    values = 2 * torch.randn(size, 4, width)
    for bits in range(1, 2**size):
        kept = [i for i in range(size) if bits >> i & 1]
        zeros = torch.zeros_like(values)
        zeros[kept] = values[kept]
        full = LeafValues(every, zeros)
        some = LeafValues(tuple(every[i] for i in kept), values[kept])
        assert_close(tensor.log_value(some), tensor.log_value(full), rtol=0, atol=1e-13)
        outside = tensor.log_outside(full)[kept]
        assert_close(tensor.log_outside(some), outside, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", TENSORS)
def test_log_posterior_is_the_gradient_of_the_log_value(name: str) -> None:
    tensor = make(name)
    size, width = tensor.size
    for columns in [tensor.order(range(size)), tensor.order(range((size + 1) // 2))]:
        values = (2 * torch.randn(len(columns), 5, width)).requires_grad_()
        at = LeafValues(columns, values)
        (gradient,) = torch.autograd.grad(tensor.log_value(at).sum(), values)
        assert_close(tensor.log_posterior(at).exp(), gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", TENSORS)
def test_log_outside_does_not_see_the_column_itself(name: str) -> None:
    tensor = make(name)
    columns = tensor.order(range(tensor.size[0]))
    values = torch.randn(len(columns), 5, tensor.size[1])
    outside = tensor.log_outside(LeafValues(columns, values))
    value = tensor.log_value(LeafValues(columns, values))
    for place in range(len(columns)):
        total = (outside[place] + values[place]).logsumexp(-1)
        assert_close(total, value, rtol=0, atol=1e-13)
        other = values.clone()
        other[place] = torch.randn(5, tensor.size[1])
        again = tensor.log_outside(LeafValues(columns, other))[place]
        assert_close(again, outside[place], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", TENSORS)
def test_tiny_posteriors_keep_their_digits(name: str) -> None:
    """Log values hundreds of nats apart: shifting a whole leaf shifts the value, no more."""
    tensor = make(name)
    columns = tensor.order(range(tensor.size[0]))
    values = torch.randn(len(columns), 4, tensor.size[1])
    shift = 1e4 * torch.randn(len(columns), 4, 1)
    near = LeafValues(columns, values)
    far = LeafValues(columns, values + shift)
    expected = tensor.log_value(near) + shift.sum((0, 2))
    assert_close(tensor.log_value(far), expected, rtol=1e-14, atol=1e-10)
    posterior = tensor.log_posterior(near)
    assert_close(tensor.log_posterior(far), posterior, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", TENSORS)
def test_drawn_components_follow_the_posterior(name: str) -> None:
    """Frequencies of all combinations at once, against the reference's products."""
    tensor = make(name)
    size, width = tensor.size
    columns = tensor.order(range(size))
    values = torch.randn(size, 2, width)
    drawn = tensor.sample(LeafValues(columns, values), 20_000)  # (n, 2, S)
    assert drawn.shape == (size, 2, 20_000)
    every = list(product(range(width), repeat=size))
    prior = torch.tensor(list(every_weight(tensor).values()))
    for row in range(2):
        mass = prior.clone()
        code = torch.zeros(20_000, dtype=torch.long)
        for c in range(size):
            place = columns.index(c)
            mass *= values[place, row].exp()[[e[c] for e in every]]
            code = code * width + drawn[place, row]
        expected = 20_000 * mass / mass.sum()
        observed = torch.bincount(code, minlength=len(every)).double()
        assert observed[expected == 0].sum() == 0
        rare = expected < 8
        pooled = [torch.cat([t[~rare], t[rare].sum()[None]]) for t in (observed, expected)]
        if pooled[1][-1] < 8:
            pooled = [torch.cat([t[:1] + t[-1:], t[1:-1]]) for t in pooled]
        if len(pooled[0]) > 1:
            assert chisquare(*(t.numpy() for t in pooled)).pvalue > P_VALUE
