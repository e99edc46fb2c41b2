"""Components are split so that codes depend on each other, and nothing else changes."""

import torch

from marginals import build
from marginals.cells.evidence import Evidence
from marginals.densities.coupled import CoupledDensity
from marginals.densities.split_components import codes_of, split_components

CATEGORIES = {2: 2, 3: 3}


def rows(count: int = 400) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    first = torch.randint(2, (count,), generator=generator)
    noise = torch.rand(count, generator=generator)
    second = torch.where(noise < 0.9, first, 2)
    return torch.cat([numbers, torch.stack([first, second], 1)], 1).double()


def fitted(x: torch.Tensor, width: int = 1) -> CoupledDensity:
    model = build(
        x, tensor="copula", width=width, rank=1, categories=CATEGORIES, init="em",
        dtype=torch.float64,
    )  # fmt: skip
    assert isinstance(model, CoupledDensity)
    return model


@torch.no_grad()
def test_copies_hold_what_codes_say_about_each_other() -> None:
    x = rows()
    model = fitted(x)
    assert codes_of(model) == [2, 3]
    found = split_components(model, Evidence.exact(x), 4)
    assert found.leaves.width == 4

    def conditional(density: CoupledDensity) -> float:
        asked = Evidence.exact(torch.tensor([[1.0]]).double(), [3])
        given = Evidence.exact(torch.tensor([[0.0]]).double(), [2])
        return float(density.log_conditional(asked, given).exp())

    truth = float((x[x[:, 2] == 0, 3] == 1).double().mean())
    assert truth == 0
    assert conditional(model) > 0.3
    assert conditional(found) < 0.1
    assert found.log_value(Evidence.exact(x)).mean() > model.log_value(Evidence.exact(x)).mean()


@torch.no_grad()
def test_numbers_stay_as_they_were() -> None:
    x = rows()
    model = fitted(x, 2)
    found = split_components(fitted(x, 2), Evidence.exact(x), 3)
    numbers = Evidence.exact(x[:, :2], [0, 1])
    torch.testing.assert_close(found.log_value(numbers), model.log_value(numbers))


@torch.no_grad()
def test_gaps_and_sets_count_as_missing() -> None:
    x = rows()
    x[::3, 2] = torch.nan
    x[1::5, 0] = torch.nan
    found = split_components(fitted(x), Evidence.exact(x), 2)
    assert bool(found.log_value(Evidence.exact(x)).isfinite().all())
    codes = Evidence.exact(
        torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0)).double(), [2, 3]
    )
    torch.testing.assert_close(float(found.log_value(codes).exp().sum()), 1.0)
