"""Settings and data are checked before anything is trained."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from marginals import Evidence, FitConfig, fit
from tests.training.helpers import losses, rows, same, small, weights

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("batch_size", 0, "at least 1"),
        ("learning_rate", 0.0, "positive"),
        ("learning_rate", NAN, "positive"),
        ("weight_decay", -0.1, "at least 0"),
        ("clip_norm", 0.0, "positive or None"),
        ("max_steps", -1, "at least 0"),
        ("max_seconds", -1.0, "at least 0 or None"),
        ("max_seconds", NAN, "at least 0 or None"),
        ("validation_fraction", 1.0, "in [0, 1)"),
        ("validation_fraction", -0.1, "in [0, 1)"),
        ("evaluate_every", 0, "at least 1 or None"),
        ("patience", 0, "at least 1"),
        ("compile", "yes", "True, False or None"),
        ("products", "fp8", "one of ['full', 'tf32', 'bf16x3']"),
        ("factor", 1.0, "between 0 and 1"),
        ("factor", 0.0, "between 0 and 1"),
        ("max_cuts", -1, "at least 0"),
        ("min_gain", -1e-3, "at least 0"),
        ("min_gain", NAN, "at least 0"),
        ("noise", -0.1, "at least 0"),
        ("averaging", 1.0, "in [0, 1)"),
        ("averaging", -0.1, "in [0, 1)"),
        ("checkpoint_seconds", -1.0, "at least 0"),
    ],
)
def test_bad_settings_are_named(name: str, bad: float, expected: str) -> None:
    with pytest.raises(ValueError, match=r"^Expected") as caught:
        FitConfig(**{name: bad})
    assert str(caught.value) == f"Expected `{name}` to be {expected}; got {bad!r}."


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("batch_size", 2.5, "an integer"),
        ("seed", None, "an integer"),
        ("max_steps", "many", "an integer"),
        ("learning_rate", "fast", "a number"),
        ("noise", None, "a number"),
        ("clip_norm", [1.0], "a number"),
    ],
)
def test_settings_of_another_type_are_named(name: str, bad: Any, expected: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}` to be {expected}"):
        FitConfig(**{name: bad})


def test_numbers_of_numpy_become_pythons() -> None:
    config = FitConfig(seed=np.int64(3), batch_size=np.int32(10), learning_rate=np.float32(0.5))
    assert json.dumps(config.numbers()) == json.dumps(
        FitConfig(seed=3, batch_size=10, learning_rate=0.5).numbers()
    )


@pytest.mark.parametrize("seed", [0, -7, 1 << 70, np.int64(2)])
def test_any_integer_is_a_seed(seed: int) -> None:
    x = rows(20)
    results = [fit(small(x), x, max_steps=2, noise=0.1, seed=seed) for _ in range(2)]
    assert losses(results[0]) == losses(results[1])


def test_bad_settings_are_refused_by_fit() -> None:
    x = rows(10)
    with pytest.raises(ValueError, match=r"Expected `patience` to be at least 1; got 0\."):
        fit(small(x), x, patience=0)


def test_unknown_settings_are_refused_and_the_known_ones_named() -> None:
    x = rows(10)
    with pytest.raises(TypeError, match=r"got 'lr'\. Known: .*'learning_rate'"):
        fit(small(x), x, lr=0.1)


def test_single_settings_take_precedence_over_the_config() -> None:
    x = rows(30)
    config = FitConfig(max_steps=4, evaluate_every=1, learning_rate=0.05)
    result = fit(small(x), x, config=config, max_steps=2)
    assert [record.step for record in result.history] == [0, 1, 2]
    assert result.history[0].learning_rate == 0.05
    assert config.max_steps == 4


def test_empty_data_are_refused() -> None:
    x = rows(10)
    model = small(x)
    before = weights(model)
    with pytest.raises(ValueError, match="Expected `data` to have at least one row; got none"):
        fit(model, x[:0])
    with pytest.raises(ValueError, match="Expected `validation` to have at least one row"):
        fit(model, x, validation=x[:0])
    assert same(weights(model), before)


def test_data_of_other_columns_are_refused() -> None:
    x = rows(10)
    with pytest.raises(ValueError, match="Expected columns between 0 and 1; got 2"):
        fit(small(x), rows(10, 3))
    with pytest.raises(TypeError, match="got list"):
        fit(small(x), x.tolist())


@pytest.mark.parametrize("count", [1, 2])
def test_a_row_or_two_can_be_fitted(count: int) -> None:
    x = rows(count)
    model = small(x)
    result = fit(model, x, max_steps=10, evaluate_every=5)
    assert result.best_loss <= result.history[0].validation_loss
    assert bool(model.log_value(x).isfinite().all())


def test_rows_of_nothing_can_be_fitted() -> None:
    x = rows(20)
    x[::2] = torch.nan
    x[:, 1] = torch.nan
    result = fit(small(x), Evidence.exact(x), max_steps=10)
    assert result.best_loss <= result.history[0].validation_loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_data_may_be_wider_than_the_model(dtype: torch.dtype) -> None:
    x = rows(50).to(dtype)
    model = small(x).to(torch.float32)
    fit(model, x, max_steps=3, noise=0.1, averaging=0.5, sample_weight=torch.ones(50))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
