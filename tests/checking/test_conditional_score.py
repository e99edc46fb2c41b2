"""The score of answers: which cells are hidden, and what is reported of them."""

import json

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.checking.hidden_cells import hidden_cells


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    z = random.normal(size=200)
    return pd.DataFrame(
        {
            "x": z + 0.1 * random.normal(size=200),
            "n": np.round(3 * z).astype(int),
            "c": np.where(z + 0.3 * random.normal(size=200) > 0, "up", "down"),
        }
    )


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> MDMA:
    return MDMA(width=6, max_steps=60, random_state=0).fit(table)


def test_gaps_are_imitated() -> None:
    random = np.random.default_rng(0)
    gaps = np.array([[False, True, True], [True, False, False], [False, False, False]])
    observed = random.random((500, 3)) < 0.8
    hidden = hidden_cells(observed, gaps, random)
    assert not (hidden & ~observed).any()
    assert (hidden.any(1) == observed.any(1)).all()
    whole = observed.all(1)
    patterns = np.unique(hidden[whole], axis=0)
    assert (patterns == gaps[[0, 1]]).all()
    assert len(patterns) == 2


def test_cells_are_hidden_at_random_without_gaps() -> None:
    hidden = hidden_cells(np.ones((4000, 5), dtype=bool), None, np.random.default_rng(0))
    expected = 0.3 + 0.7**5 / 5  # rows in which nothing was hidden hide one cell
    assert np.allclose(hidden.mean(0), expected, atol=0.03)


def test_a_column_is_scored_as_queries_answer(model: MDMA, table: pd.DataFrame) -> None:
    found = model.score_conditional(table, columns="x")
    given, spread = table[["n", "c"]], table["x"].std(ddof=0)
    log = np.asarray(model.logpdf(table[["x"]], given=given)) + np.log(spread)
    assert np.allclose(found.log_scores, log, atol=1e-4)
    assert np.isclose(found.columns.loc["x", "log_score"], log.mean(), atol=1e-4)
    levels = (np.arange(50) + 0.5) / 50
    away = table["x"].to_numpy()[:, None] - model.ppf(levels, "x", given=given)
    crps = 2 * np.maximum(levels * away, (levels - 1) * away).mean() / spread
    assert np.isclose(found.columns.loc["x", "crps"], crps, rtol=1e-4)
    assert found.patterns == "columns"
    assert found.summary["crps"] == found.columns.loc["x", "crps"]


def test_categories_and_lattices_have_masses(model: MDMA, table: pd.DataFrame) -> None:
    found = model.score_conditional(table, columns="c").columns.loc["c"]
    shares = model.probabilities("c", given=table[["x", "n"]])
    own = np.array([shares.loc[i, value] for i, value in table["c"].items()])
    assert np.isclose(found["log_loss"], -np.log(own).mean(), rtol=1e-4)
    assert np.isclose(found["log_score"], -found["log_loss"], rtol=1e-4)
    assert np.isclose(found["brier"], 2 * ((1 - own) ** 2).mean(), rtol=1e-4)
    assert np.isclose(found["accuracy"], (own > 0.5).mean())
    whole = model.score_conditional(table, columns="n").columns.loc["n"]
    assert whole["log_score"] < 0 < whole["crps"] < 0.5
    assert np.isnan(whole["log_loss"])


def test_own_gaps_then_training_gaps_then_random(model: MDMA, table: pd.DataFrame) -> None:
    holes = table.mask(np.arange(200)[:, None] % 4 == np.arange(3))
    assert model.score_conditional(holes).patterns == "the table's gaps"
    assert model.score_conditional(table).patterns == "random"
    with_gaps = MDMA(width=2, max_steps=5, random_state=0).fit(holes.assign(x=table["x"]))
    found = with_gaps.score_conditional(table)
    assert found.patterns == "the training rows' gaps"
    assert not found.hidden[:, 0].any()


def test_unknown_values_and_columns_are_left_out(model: MDMA, table: pd.DataFrame) -> None:
    odd = table.assign(c=table["c"].where(table.index > 5, "sideways"), more=1)
    found = model.score_conditional(odd, columns=["c"])
    assert found.columns.loc["c", "cells"] == 194
    assert "more" in found.notes[0]
    with pytest.raises(ValueError, match="observed cells"):
        model.score_conditional(table.assign(c=None), columns="c")


def test_report_prints_and_converts(model: MDMA, table: pd.DataFrame) -> None:
    found = model.score_conditional(table, rows=50)
    again = model.score_conditional(table, rows=50)
    pd.testing.assert_frame_equal(found.columns, again.columns)
    assert len(found.hidden) == 50
    assert "cells hidden in 50 of 200 rows (random)" in str(found)
    assert "crps" in found._repr_html_()
    assert json.loads(json.dumps(found.to_dict()))["summary"]["rows"] == 50
