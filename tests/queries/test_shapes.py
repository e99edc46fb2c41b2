"""What comes back: numbers for dicts, one answer per row for tables, in the user's types."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA


def test_dicts_give_numbers(model: MDMA) -> None:
    for answer in (
        model.pdf({"x": 100.0}),
        model.logpdf({"x": 100.0}, given={"city": "Oslo"}),
        model.cdf({"x": 100.0}),
        model.sf({"x": 100.0}),
        model.prob({"x": (90, None)}),
        model.mean("x"),
        model.std("count", given={"x": 100.0}),
    ):
        assert isinstance(answer, float)


def test_rows_give_arrays(model: MDMA, frame: pd.DataFrame) -> None:
    for rows in (frame.iloc[:5], frame.iloc[:1]):
        given = rows[["city"]]
        for answer in (
            model.pdf(rows[["x"]]),
            model.logpdf(rows[["x"]], given=given),
            model.pdf({"x": 100.0}, given=given),
            model.prob({"x": (90, None)}, given=given),
            model.cdf({"x": 90.0}, given=given),
            model.mean("x", given=given),
            model.ppf(0.5, "x", given=given),
        ):
            assert answer.shape == (len(rows),)
        assert model.ppf([0.1, 0.9], "x", given=given).shape == (len(rows), 2)
        low, high = model.interval("x", 0.8, given=given)
        assert (low < high).all()


def test_quantiles_have_the_shape_of_their_levels(model: MDMA) -> None:
    assert np.ndim(model.ppf(0.5, "x")) == 0
    assert model.ppf([0.1, 0.5], "x").shape == (2,)
    assert model.ppf(np.full((2, 3), 0.5), "x").shape == (2, 3)


def test_positions_are_names_too(model: MDMA) -> None:
    assert model.prob({0: (90, None)}, given={"city": "Oslo"}) == model.prob(
        {"x": (90, None)}, given={5: "Oslo"}
    )
    assert model.ppf(0.5, 0) == model.ppf(0.5, "x")
    assert model.cdf({0: 90.0}) == model.cdf({"x": 90.0})


def test_types_of_the_columns(model: MDMA) -> None:
    assert isinstance(model.ppf(0.5, "day"), pd.Timestamp | np.datetime64)
    assert isinstance(model.mean("day"), pd.Timestamp | np.datetime64)
    assert isinstance(model.std("day"), pd.Timedelta)
    assert model.ppf(0.5, "grade") in list("abc")
    assert float(model.ppf(0.5, "count")).is_integer()


def test_samples_look_like_the_table(model: MDMA, frame: pd.DataFrame) -> None:
    drawn = model.sample(7, random_state=0)
    pd.testing.assert_series_equal(drawn.dtypes, frame.dtypes)
    assert len(drawn) == 7
    again = model.sample(7, random_state=0)
    pd.testing.assert_frame_equal(drawn, again)


def test_samples_for_each_row_of_evidence(model: MDMA, frame: pd.DataFrame) -> None:
    known = frame[["city", "x"]].iloc[:3]
    drawn = model.sample(4, given=known, random_state=0)
    assert list(drawn.index) == [i for i in known.index for _ in range(4)]
    np.testing.assert_allclose(drawn["x"], np.repeat(known["x"].to_numpy(), 4))
    assert (drawn["city"].to_numpy() == np.repeat(known["city"].to_numpy(), 4)).all()


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_same_kind_out(kind: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    rows[0, 1] = np.nan
    model = MDMA(width=4, max_steps=5, random_state=0).fit(kind(rows))
    expected = type(kind(rows))
    assert isinstance(model.score_samples(kind(rows)), expected)
    assert isinstance(model.sample(3), expected)
    assert isinstance(model.impute(kind(rows)), expected)
    assert model.sample(3).shape == (3, 3)
    assert not np.isnan(np.asarray(model.impute(kind(rows)))).any()


def test_queries_in_words(model: MDMA) -> None:
    answer = model.query("P(x > 90 | city in {Oslo, Bergen})")
    assert answer.value == pytest.approx(
        model.prob({"x": (90, None)}, given={"city": {"Oslo", "Bergen"}})
    )
    view = model.condition({"city": "Oslo"})
    assert view.query("E[x]").value == model.mean("x", given={"city": "Oslo"})
