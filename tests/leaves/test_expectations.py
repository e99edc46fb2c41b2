"""The quadrature of leaf expectations, against a rule five times as fine over a wider range."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells import Truncation
from marginals.leaves import CategoricalLeaves, NeuralLeaves


def fine(leaves: NeuralLeaves, power: int) -> Tensor:
    """E X^power of the leaves of column 0, by inverting each of them at every node."""
    t = torch.arange(-1200, 1201) * 0.05
    nodes = t.repeat(leaves.size[1])[None]
    components = torch.arange(leaves.size[1]).repeat_interleave(len(t))[None]
    free = torch.full(nodes.shape, torch.nan)
    log_u, log_1mu = torch.nn.functional.logsigmoid(nodes), torch.nn.functional.logsigmoid(-nodes)
    x = leaves.invert_chosen(log_u, log_1mu, components, [0], Truncation(free, free))
    terms = x**power * (log_u + log_1mu).exp() * 0.05
    return terms.reshape(leaves.size[1], -1).sum(-1)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("depth", [1, 2])
def test_moments_of_neural_leaves(depth: int, power: int) -> None:
    leaves = NeuralLeaves(1, 6, depth=depth, hidden=3)
    leaves.location.fill_(3.0)
    expected = fine(leaves, power)
    found = leaves.expect(lambda x: x**power, [0])[0]
    assert_close(found, expected, rtol=1e-6, atol=1e-6)
    single = leaves.float().expect(lambda x: x**power, [0])[0]
    assert_close(single.double(), expected, rtol=1e-4, atol=1e-4)


def test_an_expectation_that_does_not_exist_is_infinite() -> None:
    leaves = NeuralLeaves(1, 3)
    assert (leaves.expect(lambda x: (40 * x).exp(), [0]) == torch.inf).all()


def test_expectations_of_categories_are_sums() -> None:
    leaves = CategoricalLeaves([3, 2], width=4)
    codes = torch.arange(3.0)
    masses = leaves.evaluate(codes.expand(2, 3), [0, 1]).log_density.exp()  # (2, 3, 4)
    expected = (masses * codes[None, :, None] ** 2).sum(1)
    assert_close(leaves.expect(lambda x: x**2, [0, 1]), expected)
