"""Cells that repeat are evaluated once, with the same values and gradients."""

import pytest
import torch

from marginals.cells import Evidence
from marginals.leaves import Leaves, NeuralLeaves, SharedLeaves
from marginals.leaves.family import LeafFamily
from marginals.leaves.repeats import find_repeats

ROWS, COLUMNS, WIDTH = 60, 4, 3


def lattice(step: float = 0.5) -> Evidence:
    """Two columns of a lattice between two exact ones, with gaps and open ends."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(COLUMNS, ROWS, generator=generator, dtype=torch.float64)
    lower, upper = x.clone(), x.clone()
    for column in (1, 2):
        lower[column] = (x[column] / step).floor() * step
        upper[column] = lower[column] + step
    lower[1, lower[1] < -1] = -torch.inf
    upper[2, upper[2] > 1] = torch.inf
    missing = torch.rand(COLUMNS, ROWS, generator=generator) < 0.3
    lower, upper = (side.masked_fill(missing, torch.nan) for side in (lower, upper))
    return Evidence.interval(lower.T, upper.T)


@pytest.mark.parametrize("family", [SharedLeaves, NeuralLeaves])
def test_values_and_gradients_are_those_of_each_cell(family: type[LeafFamily]) -> None:
    torch.manual_seed(0)
    one = family(COLUMNS, WIDTH).double()  # type: ignore[call-arg]
    leaves, cells = Leaves([one], [range(COLUMNS)]), lattice()
    found = leaves.log_values(cells)
    expected = one.log_values(cells)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape, dtype=found.dtype)
    parameters = list(one.parameters())
    slopes = torch.autograd.grad((weights * found).sum(), parameters)
    torch.testing.assert_close(slopes, torch.autograd.grad((weights * expected).sum(), parameters))


def test_distinct_cells_are_found() -> None:
    cells = lattice().select([1, 2])
    found = find_repeats(cells)
    assert found is not None
    assert len(found.cells) < ROWS / 2
    for whole, distinct in zip(cells.by_column(), found.cells.by_column(), strict=True):
        back = distinct.gather(1, found.index)
        torch.testing.assert_close(back, whole, equal_nan=True, rtol=0, atol=0)


def test_cells_that_differ_are_left_alone() -> None:
    assert find_repeats(lattice(step=1e-6).select([1, 2])) is None
