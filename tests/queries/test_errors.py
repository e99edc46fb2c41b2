"""Each wrong question names what is wrong and what to do."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA

WRONG: dict[str, tuple[Any, str]] = {
    "unknown column": (lambda m: m.pdf({"y": 1.0}), "'y'"),
    "unknown column in given": (lambda m: m.prob({"x": (0, 1)}, given={"z": 1}), "'z'"),
    "unknown column in a frame": (lambda m: m.logpdf(pd.DataFrame({"y": [1.0]})), "'y'"),
    "wrong dtype": (lambda m: m.pdf({"x": "tall"}), "'x'"),
    "wrong dtype in a frame": (lambda m: m.logpdf(pd.DataFrame({"x": ["tall"]})), "'x'"),
    "unseen category": (lambda m: m.pdf({"city": "Rome"}), "Rome"),
    "unseen category in given": (lambda m: m.mean("x", given={"city": "Rome"}), "Rome"),
    "reversed interval": (lambda m: m.prob({"x": (5, 3)}), "'x'"),
    "a column in both": (lambda m: m.pdf({"x": 1.0}, given={"x": 2.0}), "'x' in both"),
    "quantile of what is given": (lambda m: m.ppf(0.5, "x", given={"x": 2.0}), "'x' in both"),
    "mean of what is given": (lambda m: m.mean("x", given={"x": 2.0}), "'x' in both"),
    "zero mass": (lambda m: m.mean("x", given={"share": (2, 3)}), "positive probability"),
    "zero mass to sample": (lambda m: m.sample(3, given={"share": 5}), "positive probability"),
    "a point": (lambda m: m.prob({"x": 5.0}), "Expected an interval"),
    "an interval for a density": (lambda m: m.pdf({"x": (1, 2)}), "`prob`"),
    "no event": (lambda m: m.prob(pd.DataFrame({"x": [1.0]})), "dict"),
    "rows that do not pair": (
        lambda m: m.pdf(pd.DataFrame({"x": [1.0, 2.0]}), given=pd.DataFrame({"count": [1, 2, 3]})),
        "3 and 2",
    ),
    "mean of categories": (lambda m: m.mean("city"), "'city'"),
    "quantile of categories": (lambda m: m.ppf(0.5, "city"), "'city'"),
    "cdf of categories": (lambda m: m.cdf({"city": "Oslo"}), "'city'"),
    "level": (lambda m: m.interval("x", 1.5), "`level`"),
    "levels": (lambda m: m.ppf(1.5, "x"), "between 0 and 1"),
    "number of samples": (lambda m: m.sample(-1), "`n`"),
    "number of samples, float": (lambda m: m.sample(2.5), "`n`"),
    "method": (lambda m: m.impute(pd.DataFrame({"x": [1.0]}), "best"), "`method`"),
    "draws": (lambda m: m.impute(pd.DataFrame({"x": [1.0]}), "mean", 3), "`draws`"),
    "everything is given": (
        lambda m: m.marginal(["x"]).condition({"x": 1.0}),
        "leave a column open",
    ),
    "array width": (lambda m: m.logpdf(np.zeros((3, 2))), "8 columns"),
    "fraction of a count": (lambda m: m.pdf({"count": 2.5}), "'count'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_questions(model: MDMA, name: str) -> None:
    ask, words = WRONG[name]
    with pytest.raises((ValueError, TypeError, KeyError)) as error:
        ask(model)
    assert words in str(error.value)


def test_questions_before_the_fit() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        MDMA().prob({"x": (0, 1)})
