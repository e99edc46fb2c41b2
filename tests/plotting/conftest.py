"""A table with a column of every kind, and one small model of it for all tests."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.columns import Continuous, Integer
from marginals.estimators.mdma import MDMA

matplotlib = pytest.importorskip("matplotlib")

LONG = "a_long_name_of_a_question_that_cost_$5_or_$6"


@pytest.fixture(autouse=True)
def _pictures() -> Iterator[None]:
    """Draw to memory, close all figures, and check that matplotlib's settings are unchanged."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    start = pd.Timestamp("2020-01-01", tz="Europe/Oslo")
    table = pd.DataFrame(
        {
            "x": x,
            "wage": np.exp(x / 2),
            "children": rng.poisson(np.exp(x / 2)),
            "visits": rng.negative_binomial(3, 0.02, 120),
            "city": np.where(x > 0, "Oslo", rng.choice(["Bergen", "Rome"], 120)),
            "ok": rng.random(120) < 0.3,
            "size": pd.Categorical(rng.choice(list("sml"), 120), list("sml"), ordered=True),
            "when": start + pd.to_timedelta(rng.gamma(3, 40, 120), unit="D"),
            "wait": pd.to_timedelta(rng.gamma(2, 30, 120), unit="min"),
            "zero": np.where(rng.random(120) < 0.4, 0, rng.gamma(2, 1, 120)),
            LONG: np.round(rng.gamma(2, 2, 120), 1),
        }
    )
    table.loc[::7, ["x", "city"]] = None
    table.loc[::9, "when"] = pd.NaT
    return table


@pytest.fixture(scope="session")
def model(frame: pd.DataFrame) -> MDMA:
    kinds: dict[Any, Any] = {
        "wage": Continuous(lower=0),
        "children": Integer(lower=0),
        "zero": Continuous(lower=0, atoms=(0,)),
        LONG: Continuous(lower=0, resolution=0.1),
    }
    return MDMA(width=6, max_steps=40, columns=kinds, random_state=0, progress=False).fit(frame)
