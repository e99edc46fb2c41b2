"""Components whose numbers are moved by the codes next to them."""

from typing import Any

import pytest
import torch

from marginals import build
from marginals.cells.evidence import Evidence
from marginals.densities.build import Init
from marginals.densities.coupled import CoupledDensity

COUNT = 900


def groups(seed: int = 0) -> torch.Tensor:
    """Return two numbers and a code; each group has its own mean, and all the same spread."""
    generator = torch.Generator().manual_seed(seed)
    code = torch.randint(3, (COUNT,), generator=generator)
    common = torch.randn(COUNT, generator=generator, dtype=torch.float64)
    first = torch.tensor([0.0, 2.0, 5.0], dtype=torch.float64)[code] + common
    second = -first + 0.3 * torch.randn(COUNT, generator=generator, dtype=torch.float64)
    return torch.stack([first, second, code.double()], 1)


def parts(seed: int = 0) -> torch.Tensor:
    """Return parts that add up to 10 but for a little; the first is 0 in half of the rows."""
    generator = torch.Generator().manual_seed(seed)
    first = 2 + torch.rand(COUNT, generator=generator, dtype=torch.float64)
    first = torch.where(torch.rand(COUNT, generator=generator) < 0.5, 0.0, first)
    second = 4 + torch.randn(COUNT, generator=generator, dtype=torch.float64)
    little = 0.1 * torch.randn(COUNT, generator=generator, dtype=torch.float64)
    return torch.stack([first, second, 10 - first - second + little], 1)


def fitted(x: torch.Tensor, init: Init = "location", **options: Any) -> CoupledDensity:
    model = build(
        x,
        **{"tensor": "copula", "width": 1, "rank": 1, "dtype": torch.float64, **options},
        init=init,
    )
    assert isinstance(model, CoupledDensity)
    return model


def cell(value: float, column: int) -> Evidence:
    return Evidence.exact(torch.tensor([[value]]).double(), [column])


@torch.no_grad()
def test_a_category_moves_the_numbers() -> None:
    x = groups()
    before, found = (fitted(x, init, categories={2: 3}) for init in ("em", "location"))
    assert (before.leaves.width, found.leaves.width) == (1, 3)
    rows = Evidence.exact(x)
    assert found.log_value(rows).mean() > before.log_value(rows).mean() + 0.5
    for code in range(3):
        median = float(found.ppf(0.5, 0, cell(code, 2)))
        assert median == pytest.approx(float(x[x[:, 2] == code, 0].mean()), abs=0.15)
    assert float(found.log_conditional(cell(2.0, 2), cell(7.0, 0)).exp()) > 0.9
    codes = Evidence.exact(torch.arange(3.0)[:, None].double(), [2])
    assert float(found.log_value(codes).exp().sum()) == pytest.approx(1.0)


@torch.no_grad()
def test_an_atom_moves_the_numbers_as_its_value_would() -> None:
    x = parts()
    options = {"atoms": {0: (0.0,)}, "rank": 2}
    before, found = (fitted(x, init, **options) for init in ("em", "location"))

    for first in (0.0, 2.5):
        given = cell(first, 0).join(cell(4.0, 1))
        low, median, high = (float(found.ppf(u, 2, given)) for u in (0.05, 0.5, 0.95))
        assert median == pytest.approx(6 - first, abs=0.1)
        assert high - low < 0.5  # 0.33 in the data
    given = cell(0.0, 0).join(cell(4.0, 1))
    assert abs(float(before.ppf(0.5, 2, given)) - 6) > 1
    assert float(found.logpdf(torch.tensor([[0.0]]).double(), [0]).exp()) == pytest.approx(
        float((x[:, 0] == 0).double().mean()), abs=0.01
    )


@torch.no_grad()
def test_rows_with_gaps_and_patterns_of_one_row() -> None:
    x = groups()
    x[::3, 2] = torch.nan
    x[1::5, 0] = torch.nan
    x[0] = torch.tensor([0.0, 0.0, 3.0])  # a category of one row
    found = fitted(x, categories={2: 5})  # and one of none
    assert bool(found.log_value(Evidence.exact(x)).isfinite().all())
    none = Evidence.exact(torch.tensor([[0.0, 0.0, 4.0]]).double())
    assert bool(found.log_value(none).isfinite().all())
    codes = Evidence.exact(torch.arange(5.0)[:, None].double(), [2])
    assert float(found.log_value(codes).exp().sum()) == pytest.approx(1.0)


@torch.no_grad()
def test_a_table_without_codes_or_with_too_many_stays_as_em_left_it() -> None:
    x = groups()
    for columns, categories in ((x[:, :2], {}), (x.clone(), {2: COUNT})):
        if categories:
            columns[:, 2] = torch.arange(COUNT)
        before, found = (
            fitted(columns, init, categories=categories) for init in ("em", "location")
        )
        assert found.leaves.width == 1
        rows = Evidence.exact(columns)
        torch.testing.assert_close(found.log_value(rows), before.log_value(rows))


@torch.no_grad()
def test_components_of_few_patterns_stay_apart() -> None:
    x = groups()
    x[: COUNT // 2, :2] += 40
    found = fitted(x, categories={2: 3}, width=2)
    assert found.leaves.width == 6
    assert float(found.ppf(0.5, 1, cell(44.0, 0).join(cell(1.0, 2)))) == pytest.approx(36, abs=1)
