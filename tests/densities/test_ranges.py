"""Univariates of coupled columns given ranges of others, against boxes and quadrature."""

import math

import pytest
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_nodes import FINE, ROUGH, Resolution
from tests.laws.registry import generic_copula

INF = math.inf
LEVELS = torch.tensor([1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999])


def model(seed: int, columns: int = 8, width: int = 6, sharper: float = 1.0) -> CoupledDensity:
    torch.manual_seed(seed)
    density = generic_copula([None] * columns, width, 3, 0).double()
    with torch.no_grad():
        density.couplings.own.mul_(sharper)
    return density


def below(x: Tensor, column: int) -> Evidence:
    return Evidence.interval(torch.full_like(x, -INF)[:, None], x[:, None], [column])


@torch.no_grad()
@pytest.mark.parametrize("sharper", [1.0, 5.0])
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({0: (-1.0, 2.0)}, 1e-5),
        ({0: (1.0, INF)}, 1e-5),
        ({0: (-1.0, 2.0), 3: (0.0, INF)}, 2e-3),
        ({0: (-1.0, 2.0), 1: 0.5, 3: (0.0, INF), 4: (-1.0, 1.0), 5: (-2.0, 0.0)}, 5e-3),
    ],
)
def test_the_cdf_is_a_ratio_of_boxes(given: dict, error: float, sharper: float) -> None:
    for seed in range(4):
        density = model(seed, sharper=sharper)
        parts = density.univariates(given, [2])
        x = parts.ppf(LEVELS[:, None, None].double()).flatten()
        exact = density.log_conditional(below(x, 2), given).exp()
        assert (exact - LEVELS).abs().max() < error
        assert torch.allclose(parts.cdf(x[:, None, None]).flatten(), LEVELS.double(), atol=1e-9)
        assert torch.allclose(parts.log_evidence[0], density.log_value(given))


@torch.no_grad()
@pytest.mark.parametrize(("resolution", "error"), [(FINE, 1e-5), (ROUGH, 2e-3)])
def test_all_of_many_components_count(resolution: Resolution, error: float) -> None:
    """Equally likely components far apart, of which those of small shares are not left out."""
    density = model(0, columns=3, width=200)
    density.leaves.families[0].centres.mul_(3.0)
    density.resolution = resolution
    x = torch.linspace(-8, 8, 65, dtype=torch.float64)
    for given in ({0: (-1.0, 2.0)}, {0: (1.0, INF)}, {0: (-INF, INF), 1: (-2.0, 2.0)}):
        exact = density.log_conditional(below(x, 2), given).exp()
        found = density.univariates(given, [2]).cdf(x[:, None, None]).flatten()
        assert (found - exact).abs().max() < error


@torch.no_grad()
@pytest.mark.parametrize("resolution", [FINE, ROUGH])
def test_an_exact_row_is_exact_among_rows_with_ranges(resolution: Resolution) -> None:
    density = model(2, width=200)
    density.resolution = resolution
    rows = Evidence.interval(
        torch.tensor([[-INF], [0.4]]).double(), torch.tensor([[0.5], [0.4]]).double(), [0]
    )
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)[:, None, None]
    together = density.univariates(rows, [1, 4]).cdf(x)[:, 1]
    alone = density.univariates({0: 0.4}, [1, 4]).cdf(x)[:, 0]
    assert torch.allclose(together, alone, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("seed", [23, 24, 43, 48])
def test_means_of_sharp_conditionals(seed: int) -> None:
    torch.manual_seed(seed)
    density = generic_copula([None, None, None, 2], 2, 1, 0).double()
    given = {0: (-1.0, 2.0), 3: 1}
    for column in (1, 2):
        parts = density.univariates(given, [column])
        ends = parts.ppf(torch.tensor([1e-9, 1 - 1e-9])[:, None, None].double()).flatten()
        x = torch.linspace(float(ends[0]), float(ends[1]), 4001, dtype=torch.float64)
        height = density.log_conditional(Evidence.exact(x[:, None], [column]), given).exp()
        mass = torch.trapezoid(height, x)
        mean = torch.trapezoid(height * x, x) / mass
        assert mass == pytest.approx(1, abs=1e-6)
        found = parts.expect(lambda values, _: values)[0, 0]
        assert found == pytest.approx(float(mean), abs=1e-4 * float(ends[1] - ends[0]))


@torch.no_grad()
def test_a_column_with_a_range_of_its_own() -> None:
    """Its own cell is no evidence about it, and each row depends on itself alone."""
    density = model(1)
    lower = torch.tensor([[0.0, -1.0, 0.3], [-INF, 0.5, 0.1], [1.0, -1.0, torch.nan]])
    upper = torch.tensor([[1.0, 2.0, 0.3], [INF, 0.5, 0.4], [INF, 0.0, torch.nan]])
    rows = Evidence.interval(lower.double(), upper.double(), [0, 1, 2])
    parts = density.univariates(rows, [0, 1, 2, 5])
    at = parts.ppf(torch.full((3, 4), 0.3, dtype=torch.float64))
    for row in range(3):
        for place, column in enumerate((0, 1, 2, 5)):
            others = rows.rows(torch.tensor([row]))
            others = others.without(column) if column < 3 else others
            alone = density.univariates(others, [column])
            assert alone.ppf(torch.tensor([[0.3]]).double()) == pytest.approx(
                float(at[row, place]), abs=1e-6
            )
