"""Integers of many values: masses that are densities times the step, and columns that couple."""

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.normal(45, 12, 200)
    wage = (30_000 + 900 * age + rng.normal(0, 4000, 200)).round().astype(int)
    return pd.DataFrame({"age": age, "wage": wage})


@pytest.fixture(scope="module", params=["copula", "ht"])
def model(request: pytest.FixtureRequest, frame: pd.DataFrame) -> MDMA:
    options = {"tensor": request.param, "width": 4, "max_steps": 60, "random_state": 0}
    return MDMA(**options).fit(frame)


def test_a_value_has_a_mass(model: MDMA, frame: pd.DataFrame) -> None:
    value = {"wage": int(frame["wage"].iloc[0])}
    given = {"age": 40.0}
    for known in (None, given):
        mass = model.prob(value, given=known)
        assert 0 < mass < 1
        assert model.pdf(value, given=known) == pytest.approx(mass, rel=2e-3)


def test_the_chain_rule(model: MDMA, frame: pd.DataFrame) -> None:
    rows = frame.head(5)
    parts = model.logpdf(rows[["wage"]]) + model.logpdf(rows[["age"]], given=rows[["wage"]])
    np.testing.assert_allclose(model.logpdf(rows), parts, rtol=1e-4)


def test_copula_components_couple_it(frame: pd.DataFrame) -> None:
    options = {"tensor": "copula", "width": 1, "rank": 1, "max_steps": 200, "random_state": 0}
    model = MDMA(**options).fit(frame)
    assert model.module_.coupled == (0, 1)
    holes = frame.astype({"wage": "Int64"})
    holes.loc[::2, "wage"] = pd.NA
    done = model.impute(holes, "median")
    assert done["wage"].dtype == "Int64"
    gaps = holes["wage"].isna()
    error = (done["wage"] - frame["wage"])[gaps].astype(float)
    assert error.std() < 0.6 * frame["wage"].std()  # the rest is noise: 0.35
