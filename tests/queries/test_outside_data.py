"""Evidence far outside of the data brings a warning; the data themselves never do."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, OutsideDataWarning

FAR: list[Any] = [
    {"x": 1e5},
    {"x": (1e5, None)},
    {"x": {-1e5, 1e5}},
    {"x": [(None, -1e5), (1e5, None)]},
    {"count": 10**6, "city": "Oslo"},
    pd.DataFrame({"x": [100.0, np.nan, 1e5]}),
]
NEAR: list[Any] = [
    None,
    {"city": "Vardø", "grade": "c"},
    {"x": [(90, 100), (1e5, None)]},
    {"x": (None, 1e5)},
    {"wait": 0.0},
    {"x": (-np.inf, np.inf)},
]


@pytest.mark.parametrize("given", FAR)
def test_far_evidence_warns_once_and_names_the_column(model: MDMA, given: Any) -> None:
    name = next(n for n in ("x", "count") if n in given)
    for ask in (
        lambda: model.mean("share", given=given),
        lambda: model.prob({"share": (0.1, 0.5)}, given=given),
        lambda: model.ppf(0.5, "share", given=given),
        lambda: model.sample(2, given=given),
        lambda: model.condition(given),
    ):
        with pytest.warns(OutsideDataWarning, match=f"'{name}' lies far outside") as caught:
            ask()
        assert len(caught) == 1
        assert caught[0].filename == __file__


def test_query_strings_warn_too(model: MDMA) -> None:
    for text in ("E[share | x = 1e5]", "P(x > 1e5 | x > 9e4)"):
        with pytest.warns(OutsideDataWarning, match="'x'"):
            model.query(text)


@pytest.mark.parametrize("given", NEAR)
def test_other_evidence_does_not(model: MDMA, given: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.mean("share", given=given)
        model.prob({"x": (1e5, None)}, given={"city": "Oslo"})


def test_data_are_not_outside_of_themselves(frame: pd.DataFrame) -> None:
    """Even rows that are extreme: the tail is that of the model, not of a normal."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.standard_cauchy(400), "y": rng.normal(size=400)})
    model = MDMA(width=8, max_steps=100, random_state=0).fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.mean("y", given=table[["x"]])
