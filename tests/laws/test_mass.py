"""The total mass is one, by quadrature."""

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.quadrature import integral, nodes
from tests.laws.registry import build, coded, names, rows_of


@pytest.mark.parametrize("name", names(at_most=3))
def test_total_mass_is_one(name: str) -> None:
    model = build(name)
    mass = integral(model, range(model.columns))
    assert_close(mass, torch.tensor(1.0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", names("marginal", at_least=4))
def test_total_mass_of_a_marginal_is_one(name: str) -> None:
    model = build(name)
    columns = [model.columns - 1, 0]
    assert_close(integral(model, columns), torch.tensor(1.0), rtol=0, atol=1e-5)
    view = model.marginal(columns)
    assert_close(integral(view, [0, 1]), torch.tensor(1.0), rtol=0, atol=1e-5)


def known_of_first(model: Density) -> dict[str, dict[int, object]]:
    """Three kinds of evidence on column 0."""
    low, high = rows_of(model, 2)[:, 0].sort().values.tolist()
    if 0 in coded(model):
        count = model.categories[0]
        return {"exact": {0: int(low)}, "interval": {0: (0.0, None)}, "set": {0: {0, count - 1}}}
    return {"exact": {0: low}, "interval": {0: (low, high)}, "half-line": {0: (high, None)}}


@pytest.mark.parametrize("name", names("marginal", at_least=2))
def test_mass_of_a_conditional_is_one(name: str) -> None:
    """Over two columns given a value, and over one given the rest, where a box costs more."""
    model = build(name)
    columns = list(range(1, model.columns))[:2]
    for kind, known in known_of_first(model).items():
        asked = columns if kind == "exact" else columns[:1]
        mass = integral(model, asked, Evidence.of(known), points=120)
        assert_close(mass, torch.tensor(1.0), rtol=0, atol=1e-5, msg=lambda m, k=kind: f"{k}: {m}")


@pytest.mark.parametrize("name", names("marginal", at_least=2))
def test_integrating_a_column_out_gives_the_marginal(name: str) -> None:
    model = build(name)
    rows = rows_of(model, 5)
    for column in range(model.columns):
        rest = [c for c in range(model.columns) if c != column]
        at, weight = nodes(model, column, 200)
        x = rows[:, None].repeat(1, len(at), 1)
        x[..., column] = at
        expected = model.pdf(rows[:, rest], rest)
        assert_close(model.pdf(x) @ weight, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", names("cdf", "marginal", at_least=2, at_most=3))
def test_integrating_the_density_up_to_a_point_gives_the_cdf(name: str) -> None:
    """A joint CDF by quadrature over one column, with the others as interval cells."""
    model = build(name)
    rows = rows_of(model, 4)
    for column in range(model.columns):
        at, weight = nodes(model, column, 200)
        upper = rows[:, None].repeat(1, len(at), 1)
        lower = torch.full_like(upper, -torch.inf)
        upper[..., column] = lower[..., column] = at
        cells = Evidence.interval(lower.flatten(0, 1), upper.flatten(0, 1))
        total = model.log_value(cells).exp().reshape(4, -1) @ weight
        rest = [c for c in range(model.columns) if c != column]
        assert_close(total, model.cdf(rows[:, rest], rest), rtol=1e-6, atol=0)
