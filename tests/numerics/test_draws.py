import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from marginals.numerics import draw, draw_many, draw_rows
from tests.laws.statistics import P_VALUE

COUNT = 40_000
WEIGHTS = {
    "even": torch.zeros(5),
    "uneven": torch.tensor([-3.0, 0.0, -5.0, -1.0]),
    "far from normalised": torch.tensor([1000.0, 1001.0, 999.0]),
    "holes": torch.tensor([-torch.inf, 0.0, -torch.inf, -1.0, -torch.inf]),
    "one": torch.tensor([-7.0]),
}


def assert_drawn_from(index: Tensor, log_weights: Tensor) -> None:
    mass = log_weights.double().softmax(-1)
    observed = torch.bincount(index, minlength=len(mass)).double()
    assert len(observed) == len(mass)
    assert observed[mass == 0].sum() == 0
    kept = mass > 0
    expected = len(index) * mass[kept]
    assert expected.min() > 5
    if len(expected) > 1:
        assert chisquare(observed[kept].numpy(), expected.numpy()).pvalue > P_VALUE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", WEIGHTS)
def test_draws_have_their_weights(name: str, dtype: torch.dtype) -> None:
    weights = WEIGHTS[name].to(dtype)
    assert_drawn_from(draw(weights.expand(COUNT, -1)), weights)
    both = torch.stack([weights, weights.flip(0)])
    index = draw_many(both, COUNT)
    assert index.shape == (2, COUNT)
    table = both.repeat(500, 1)
    for row in range(2):
        assert_drawn_from(index[row], both[row])
        assert_drawn_from(draw_rows(table, torch.full((COUNT,), 998 + row)), both[row])


def test_draw_rows_of_any_shape() -> None:
    weights = torch.full((6, 3), -torch.inf)
    weights[torch.arange(6), torch.arange(6) % 3] = 0.0
    rows = torch.randint(6, (2, 5, 7))
    assert torch.equal(draw_rows(weights, rows), rows % 3)


def test_draws_at_the_ends_of_the_unit_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """u = 0 and the largest u below 1 still draw an index that has weight."""
    weights = torch.tensor([-torch.inf, 0.0, 1.0, -torch.inf])
    for u, expected in [(0.0, 1), (1 - 2**-53, 2)]:
        level = torch.tensor(u, dtype=torch.float64)
        monkeypatch.setattr(
            "marginals.numerics.draws._uniform", lambda shape, *_, v=level: v.repeat(shape)
        )
        assert draw(weights).item() == expected
        assert draw_many(weights[None], 3).tolist() == [[expected] * 3]
        # After a thousand other rows the shift has used up ten bits.
        table = weights.expand(1000, -1)
        assert draw_rows(table, torch.tensor([0, 999])).tolist() == [expected] * 2


@pytest.mark.parametrize("function", [draw, draw_many, draw_rows])
def test_draws_come_from_the_generator(function: object) -> None:
    weights = torch.randn(20, 50)
    extra = {draw: (), draw_many: (30,), draw_rows: (torch.arange(20).repeat(5),)}[function]
    before = torch.get_rng_state()
    one, two, three = (
        function(weights, *extra, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert torch.equal(before, torch.get_rng_state())
