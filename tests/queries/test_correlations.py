"""Correlations of columns are those of draws, in either order, given evidence or none."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous

ROWS, DRAWS = 500, 60_000


@pytest.fixture(scope="module", params=["ht", "copula"])
def fitted(request: pytest.FixtureRequest) -> MDMA:
    """Columns with two peaks, integers, an atom, times and a category."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=ROWS)
    b = 0.7 * a + 0.5 * rng.normal(size=ROWS)
    frame = pd.DataFrame(
        {
            "a": a,
            "peaks": np.where(rng.random(ROWS) < 0.5, -5, 5) + a,
            "count": rng.poisson(np.exp(0.5 * a + 1)),
            "wait": np.where(rng.random(ROWS) < 0.3, 0, np.exp(0.5 * b)),
            "city": rng.choice(["Oslo", "Bergen"], ROWS),
            "day": pd.Timestamp("2020") + pd.to_timedelta(100 * b, "D"),
        }
    )
    kinds: dict[Any, Any] = {"wait": Continuous(lower=0, atoms=(0,))}
    options = {"tensor": request.param, "width": 6, "max_steps": 80, "random_state": 0}
    return MDMA(columns=kinds, **options).fit(frame)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, {"city": "Oslo"}, {"a": {-1.0, 1.0}}])
def test_correlations_are_those_of_draws(fitted: MDMA, given: Any) -> None:
    found = fitted.corr(given=given)
    names = [n for n in ("a", "peaks", "count", "wait") if given is None or n not in given]
    assert list(found.columns) == list(found.index) == names
    drawn = fitted.sample(DRAWS, given=given, random_state=0)[names].corr()
    assert np.abs(found - drawn).max(axis=None) < 5 / np.sqrt(DRAWS)
    assert (np.diag(found) == 1).all()
    assert (found == found.T).all(axis=None)
    view = fitted if given is None else fitted.condition(given)
    np.testing.assert_allclose(view.corr(), found, atol=1e-5)


def test_chosen_columns_and_refusals(fitted: MDMA) -> None:
    found = fitted.corr(["day", "a"])
    draws = fitted.sample(DRAWS, random_state=0)
    wanted = np.corrcoef(draws["day"].astype("int64"), draws["a"])[0, 1]
    assert found.loc["day", "a"] == pytest.approx(wanted, abs=5 / np.sqrt(DRAWS))
    assert fitted.corr("a").to_numpy().tolist() == [[1.0]]
    with pytest.raises(TypeError, match="categorical column 'city'"):
        fitted.corr(["a", "city"])
    with pytest.raises(ValueError, match="'a' in both"):
        fitted.corr(["a", "peaks"], given={"a": 1.0})
    with pytest.raises(TypeError, match="one row at a time"):
        fitted.corr(given=draws[["a"]])
