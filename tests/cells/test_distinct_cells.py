"""Cells that repeat are evaluated once, with the same values and gradients."""

from collections.abc import Callable

import pytest
import torch

from marginals.cells import Evidence
from marginals.cells.distinct_cells import find_distinct
from marginals.leaves import Leaves, NeuralLeaves, SharedLeaves
from marginals.leaves.family import LeafFamily

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
    (found,) = find_distinct(cells, most=ROWS // 2)
    assert len(found.table) < ROWS / 2
    for whole, distinct in zip(cells.by_column(), found.table.by_column(), strict=True):
        back = distinct.gather(1, found.index)
        torch.testing.assert_close(back, whole, equal_nan=True, rtol=0, atol=0)


def test_cells_that_differ_are_left_alone() -> None:
    assert find_distinct(lattice(step=1e-6).select([1, 2]), most=ROWS // 2) == ()


def test_few_and_many_distinct_cells_have_their_own_tables() -> None:
    x = torch.stack([torch.arange(200.0) % 3, torch.arange(200.0) % 100], 1)
    small, large = find_distinct(Evidence.exact(x), most=150)
    assert (small.columns, len(small.table)) == ((0,), 3)
    assert (large.columns, len(large.table)) == ((1,), 100)


def some_evidence() -> Evidence:
    """Cells of a lattice, of which a few more are intervals between exact ones."""
    cells = lattice()
    lower, upper = cells.lower.clone(), cells.upper.clone()
    upper[:9, 0] += 0.25
    return Evidence.interval(lower, upper).with_distinct(ROWS // 2, still=(1, 2))


def test_exact_cells_are_left_out_of_columns_that_may_move() -> None:
    cells = some_evidence()
    (partial,) = (found for found in cells.distinct_cells if found.partial)
    assert partial.columns == (0,)
    exact = cells.lower[:, 0] == cells.upper[:, 0]
    assert ((partial.index[0] < 0) == exact).all()


@pytest.mark.parametrize("family", [SharedLeaves, NeuralLeaves])
def test_facts_never_change_values(family: type[LeafFamily]) -> None:
    torch.manual_seed(0)
    leaves = Leaves([family(COLUMNS, WIDTH).double()], [range(COLUMNS)])  # type: ignore[call-arg]
    cells = some_evidence()
    plain = Evidence.interval(cells.lower, cells.upper)
    changes: list[Callable[[Evidence], Evidence]] = [
        lambda e: e,
        lambda e: e.rows(torch.tensor([3, 3, 0, 41])),
        lambda e: e.rows(slice(5, 20)),
        lambda e: e.select([2, 0]),
        lambda e: e.repeat(2),
        lambda e: e.to("cpu", torch.float64),
    ]
    for change in changes:
        found, expected = leaves.log_values(change(cells)), leaves.log_values(change(plain))
        torch.testing.assert_close(found, expected)
