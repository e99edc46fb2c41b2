"""Settings and data are checked before anything is trained."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from marginals import Evidence, FitConfig, fit
from tests.training.helpers import losses, rows, same, small, weights

NAN = float("nan")
BAD = {
    "at least 1": [("batch_size", 0), ("patience", 0)],
    "at least 1 or None": [("evaluate_every", 0)],
    "at least 0": [
        *[("weight_decay", -0.1), ("max_steps", -1), ("max_cuts", -1), ("min_gain", -1e-3)],
        *[("min_gain", NAN), ("noise", -0.1), ("checkpoint_seconds", -1.0)],
    ],
    "at least 0 or None": [("max_seconds", -1.0), ("max_seconds", NAN)],
    "positive": [("learning_rate", 0.0), ("learning_rate", NAN)],
    "positive or None": [("clip_norm", 0.0)],
    "in [0, 1)": [
        *[("validation_fraction", 1.0), ("validation_fraction", -0.1)],
        *[("averaging", 1.0), ("averaging", -0.1)],
    ],
    "between 0 and 1": [("factor", 1.0), ("factor", 0.0)],
    "True, False or None": [("compile", "yes")],
    "one of ['full', 'tf32', 'bf16x3']": [("products", "fp8")],
    "an integer": [("batch_size", 2.5), ("seed", None), ("max_steps", "many")],
    "a number": [("learning_rate", "fast"), ("noise", None), ("clip_norm", [1.0])],
}


@pytest.mark.parametrize("expected", BAD)
def test_bad_settings_are_named(expected: str) -> None:
    error = TypeError if expected in ("an integer", "a number") else ValueError
    for name, bad in BAD[expected]:
        with pytest.raises(error, match=r"^Expected") as caught:
            FitConfig(**{name: bad})
        assert str(caught.value) == f"Expected `{name}` to be {expected}; got {bad!r}."


def test_bad_and_unknown_settings_are_rejected_by_fit() -> None:
    x = rows(10)
    with pytest.raises(ValueError, match=r"Expected `patience` to be at least 1; got 0\."):
        fit(small(x), x, patience=0)
    with pytest.raises(TypeError, match=r"got 'lr'\. Known: .*'learning_rate'"):
        fit(small(x), x, lr=0.1)


def test_numbers_of_numpy_become_pythons() -> None:
    config = FitConfig(seed=np.int64(3), batch_size=np.int32(10), learning_rate=np.float32(0.5))
    assert json.dumps(config.numbers()) == json.dumps(
        FitConfig(seed=3, batch_size=10, learning_rate=0.5).numbers()
    )


@pytest.mark.parametrize("seed", [-7, 1 << 70, np.int64(2)])
def test_any_integer_is_a_seed(seed: int) -> None:
    x = rows(20)
    results = [fit(small(x), x, max_steps=2, noise=0.1, seed=seed) for _ in range(2)]
    assert losses(results[0]) == losses(results[1])


def test_single_settings_take_precedence_over_the_config() -> None:
    x = rows(30)
    config = FitConfig(max_steps=4, evaluate_every=1, learning_rate=0.05)
    result = fit(small(x), x, config=config, max_steps=2)
    assert [record.step for record in result.history] == [0, 1, 2]
    assert result.history[0].learning_rate == 0.05
    assert config.max_steps == 4


@pytest.mark.parametrize(
    ("data", "held", "error", "message"),
    [
        (rows(0), None, ValueError, "Expected `data` to have at least one row; got none"),
        (rows(10), rows(0), ValueError, "Expected `validation` to have at least one row"),
        (rows(10, 3), None, ValueError, "Expected columns between 0 and 1; got 2"),
        (rows(10).tolist(), None, TypeError, "got list"),
    ],
)
def test_unfit_data_are_rejected(data: Any, held: Any, error: Any, message: str) -> None:
    model = small(rows(10))
    before = weights(model)
    with pytest.raises(error, match=message):
        fit(model, data, validation=held)
    assert same(weights(model), before)


@pytest.mark.parametrize("count", [1, 2])
def test_a_row_or_two_can_be_fitted(count: int) -> None:
    x = rows(count)
    model = small(x)
    result = fit(model, x, max_steps=10, evaluate_every=5)
    assert result.best_loss <= result.history[0].validation_loss
    assert bool(model.log_value(x).isfinite().all())


def test_empty_rows_and_columns_can_be_fitted() -> None:
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
