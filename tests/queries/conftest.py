"""One small model of a table with columns of every kind."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous, Integer

ROWS = 200
KINDS: dict[Any, Any] = {
    "share": Continuous(0, 1),
    "wait": Continuous(lower=0, atoms=(0,)),
    "count": Integer(lower=0),
    "price": Continuous(lower=0, resolution=0.1),
    "day": Continuous(),
}


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(100, 20, ROWS)
    return pd.DataFrame(
        {
            "x": x,
            "share": rng.beta(2, 5, ROWS),
            "wait": np.where(rng.random(ROWS) < 0.3, 0, rng.exponential(30.0, ROWS)),
            "count": rng.poisson(np.clip(x / 30, 0, None)),
            "price": np.round(rng.gamma(2, 0.5, ROWS), 1),
            "city": rng.choice(["Bergen", "Oslo", "Vardø"], ROWS),
            "grade": pd.Categorical(rng.choice(list("abc"), ROWS), list("abc"), ordered=True),
            "day": pd.Timestamp("2020") + pd.to_timedelta(rng.integers(0, 400, ROWS), "D"),
        },
        index=pd.RangeIndex(1000, 1000 + ROWS),
    )


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    return make_frame()


@pytest.fixture(scope="session")
def model() -> MDMA:
    return MDMA(columns=KINDS, width=8, max_steps=40, random_state=0).fit(make_frame())
