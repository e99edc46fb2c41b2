"""A weight says how often a row counts."""

import pytest
import torch

from marginals import Evidence, fit
from marginals.training.batches import make_rows
from tests.training.helpers import assert_close, losses, mixed_rows, rows, same, small, weights

WHOLE = {"batch_size": 10_000, "validation_fraction": 0.0, "evaluate_every": 1, "max_steps": 12}
BATCHES = {"batch_size": 10, "evaluate_every": 3, "max_steps": 12}


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_an_integer_weight_repeats_a_row(averaging: float) -> None:
    x = rows(40)
    count = torch.randint(1, 5, (40,))
    settings = {**WHOLE, "averaging": averaging}
    weighted = fit(small(x), x, sample_weight=count, **settings)
    assert_close(weighted, fit(small(x), x.repeat_interleave(count, 0), **settings), rel=1e-10)
    plain = fit(small(x), x, **settings)
    assert weighted.best_loss != pytest.approx(plain.best_loss, rel=1e-3)


def test_an_integer_validation_weight_repeats_a_row() -> None:
    x, held = rows(40), rows(20, seed=1)
    count = torch.randint(0, 5, (20,))
    weighted = fit(small(x), x, validation=held, validation_weight=count, **WHOLE)
    repeated = fit(small(x), x, validation=held.repeat_interleave(count, 0), **WHOLE)
    assert_close(weighted, repeated, rel=1e-10)


def test_rows_of_weight_zero_are_ignored() -> None:
    x = mixed_rows(90)
    weight = (torch.arange(90) % 3 > 0).double()
    lower, upper = x.clone(), x.clone()
    # No code lies in (0.2, 0.8]: such a row has probability zero.
    lower[::3, 2], upper[::3, 2] = 0.2, 0.8
    data = Evidence.interval(lower, upper)
    with_them, without = (small(x, categories={2: 3}) for _ in range(2))
    assert bool((with_them.log_value(data)[::3] == -torch.inf).all())
    settings = {**BATCHES, "batch_size": 20, "noise": 0.1}
    result = fit(with_them, data, sample_weight=weight, **settings)
    assert losses(result) == losses(fit(without, x[weight > 0], **settings))
    assert same(weights(with_them), weights(without))


@pytest.mark.parametrize("scale", [0.3, 1e-60, 1e307])
def test_only_proportions_matter(scale: float) -> None:
    x = rows(60)
    weight = torch.rand(60) + 0.1
    plain = fit(small(x), x, sample_weight=weight, **BATCHES)
    assert_close(plain, fit(small(x), x, sample_weight=weight * scale, **BATCHES))


def test_no_weights_are_weights_of_one() -> None:
    x = rows(60)
    ones = fit(small(x), x, sample_weight=torch.ones(60), **BATCHES)
    assert losses(ones) == losses(fit(small(x), x, **BATCHES))


def test_a_fit_follows_the_weights() -> None:
    x = torch.randn(400, 1)
    x[200:] += 8
    weight = torch.where(torch.arange(400) < 200, 9.0, 1.0)
    model = small(x, width=4)
    fit(model, x, sample_weight=weight, batch_size=100, learning_rate=0.05, max_steps=150)
    assert model.cdf(torch.tensor([[4.0]])).item() == pytest.approx(0.9, abs=0.03)


def test_any_numbers_may_be_weights() -> None:
    data = Evidence.exact(rows(3))
    for weight in ([1, 2, 4], torch.tensor([1, 2, 4]), torch.tensor([[0.5], [1.0], [2.0]])):
        assert make_rows(data, weight, "data").weight.tolist() == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(9), "one weight for each of the 10 rows of `data`; got 9"),
        (torch.zeros(10), "not all zero; got 0.0 to 0.0"),
        (torch.arange(10.0) - 1, "nonnegative and not all zero; got -1.0 to 8.0"),
        (torch.full((10,), torch.nan), "finite"),
        (torch.full((10,), torch.inf), "finite"),
    ],
)
def test_other_weights_are_rejected(weight: torch.Tensor, message: str) -> None:
    x = rows(10)
    with pytest.raises(ValueError, match=message):
        fit(small(x), x, sample_weight=weight)


def test_a_validation_weight_without_validation_is_rejected() -> None:
    x = rows(10)
    with pytest.raises(ValueError, match="`validation_weight` only with `validation`"):
        fit(small(x), x, validation_weight=torch.ones(10))
