"""Values and tails of cells, against the density's own answers."""

import pytest
import torch

from marginals.cells import Evidence
from marginals.densities import Density, build
from marginals.densities.univariate_cells import log_cells, log_tails


@pytest.fixture(scope="module")
def density() -> Density:
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(100, 3, generator=generator, dtype=torch.float64)
    data[:, 2] = (data[:, 0] > 0).double()
    return build(data, tensor="cp", width=4, categories={2: 2}, seed=0).double()


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.tensor([[0.5, -1.0, 1.0], [-2.0, torch.nan, 0.0], [0.1, 3.0, torch.nan]])


@torch.no_grad()
def test_exact_cells_alone(density: Density, rows: torch.Tensor) -> None:
    cells = Evidence.exact(rows)
    alone = density.univariates(Evidence.nothing(1, like=rows))
    values, tails = log_cells(alone, cells), log_tails(alone, cells, density.categories)
    for column in range(3):
        x = rows[:, [column]]
        known = ~x[:, 0].isnan()
        expected = density.logpdf(x, [column])
        torch.testing.assert_close(values[known, column], expected[known])
        if column < 2:
            ends = density.logcdf(x, [column]), density.logsf(x, [column])
            expected = torch.minimum(*ends)
        torch.testing.assert_close(tails[known, column], expected[known])


@torch.no_grad()
def test_cells_given_the_rest_of_their_row(density: Density, rows: torch.Tensor) -> None:
    complete = rows[:1]
    cells = density.checked(Evidence.exact(complete))
    values = log_cells(density.univariates(cells, cells.columns), cells)
    for column in range(3):
        rest = [c for c in range(3) if c != column]
        given = Evidence.exact(complete[:, rest], rest)
        expected = density.logpdf(complete[:, [column]], [column], given)
        torch.testing.assert_close(values[:, column], expected)


@torch.no_grad()
def test_intervals_have_mass_and_tails_that_include_them(density: Density) -> None:
    lower, upper = torch.tensor([[-0.5, 0.2]]), torch.tensor([[0.5, 0.2]])
    cells = Evidence.interval(lower, upper, [0, 1])
    alone = density.univariates(Evidence.nothing(1, like=lower), [0, 1])
    mass = density.logprob(lower[:, :1], upper[:, :1], [0])
    torch.testing.assert_close(log_cells(alone, cells)[:, 0], mass)
    below, above = density.logcdf(upper[:, :1], [0]), density.logsf(lower[:, :1], [0])
    torch.testing.assert_close(
        log_tails(alone, cells, density.categories)[:, 0], torch.minimum(below, above)
    )
