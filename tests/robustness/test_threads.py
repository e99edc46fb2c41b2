"""Threads that query one model at the same time get the answers of one thread."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA
from marginals.densities import density, tensor_density
from tests.queries.conftest import KINDS, make_frame

THREADS = 4


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(columns=KINDS, width=6, max_steps=5, random_state=0).fit(make_frame())


def ask(model: MDMA, turn: int) -> list[Any]:
    frame = make_frame()
    gaps = frame.mask(np.random.default_rng(turn).random(frame.shape) < 0.3)
    return [
        model.score_samples(frame),
        model.score_samples(gaps),
        model.sample(200, random_state=turn),
        model.sample(50, given={"city": "Oslo"}, random_state=turn),
        model.impute(gaps.iloc[:60], method="draw", random_state=turn),
        model.impute(gaps.iloc[:20], method="median"),
        model.prob({"x": (90, 110)}, given={"grade": "b"}),
        model.ppf([0.1, 0.9], "wait", given={"count": 3}),
        model.mean("price"),
        model.cdf(frame[["x", "share"]]),
    ]


def same(one: Any, other: Any, rtol: float = 0.0) -> None:
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=not rtol, rtol=rtol)
    else:
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def test_threads_get_the_answers_of_one(model: MDMA) -> None:
    turns = range(THREADS)
    alone = [ask(model, turn) for turn in turns]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda turn: ask(model, turn), turns))
    for one, other in zip(alone, together, strict=True):
        for answer, again in zip(one, other, strict=True):
            same(answer, again)


def test_batches_in_threads_get_the_answers_of_one(
    model: MDMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of threads changes how rows are cut into batches, but no answer and no draw."""
    for module in (density, tensor_density):
        monkeypatch.setattr(module, "_CPU_FLOATS", 64 * model.module_.row_cost())
    found = []
    for threads in (3, 1):
        torch.set_num_threads(threads)
        found.append(
            [
                *ask(model, 0),
                model.mean("x", given=make_frame()[["city"]]),
                model.ppf([0.2, 0.7], "x", given=make_frame()[["city", "price"]]),
                model.prob({"x": (90, 110)}, given=make_frame()[["grade"]]),
                model.surprise(make_frame().iloc[:150]),
            ]
        )
        assert torch.get_num_threads() == threads
    for answer, again in zip(*found, strict=True):
        same(answer, again, rtol=1e-5)


def test_threads_fit_models_of_their_own() -> None:
    frame = make_frame()

    def scores(seed: int) -> Any:
        model = MDMA(columns=KINDS, width=3, max_steps=3, random_state=seed).fit(frame)
        return model.score_samples(frame)

    alone = [scores(seed) for seed in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(scores, range(THREADS)))
    np.testing.assert_array_equal(alone, together)
