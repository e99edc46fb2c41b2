"""Entropy, information and independence by name."""

import numpy as np
import pandas as pd
import pytest

import marginals
from marginals import MDMA


def test_entropy_is_in_the_columns_units(model: MDMA) -> None:
    grid = pd.DataFrame({"x": np.linspace(-400, 600, 20_001)})
    density = model.pdf(grid)
    exact = -np.trapezoid(np.where(density > 0, density * model.logpdf(grid), 0), grid["x"])
    found = model.entropy("x")
    assert abs(found.value - exact) < 5 * found.stderr
    city = [model.prob({"city": name}) for name in ("Bergen", "Oslo", "Vardø")]
    found = model.entropy(["city"])
    assert abs(found.value + sum(p * np.log(p) for p in city)) < 5 * found.stderr


def test_information(model: MDMA, frame: pd.DataFrame) -> None:
    both = model.mutual_information("x", "count")
    assert both.value > 5 * both.stderr
    split = model.mutual_information("x", ["count", "city"])
    assert split.value > both.value - 3 * (both.stderr + split.stderr)
    assert np.isfinite(model.mutual_information("x", "count", given="city", data=frame).value)


def test_the_matrix_has_the_pairs(model: MDMA) -> None:
    matrix = model.mutual_information_matrix(["x", "count", "city"])
    assert list(matrix.columns) == ["x", "count", "city"]
    assert matrix.loc["x", "count"] == pytest.approx(
        model.mutual_information("x", "count").value, abs=1e-6
    )


def test_independence_test(model: MDMA, frame: pd.DataFrame, tmp_path: object) -> None:
    assert model.independence_test("x", "count").pvalue < 0.01
    assert model.independence_test("x", "city", given=["count"], data=frame).n == len(frame)
    model.save(f"{tmp_path}/m")
    with pytest.raises(ValueError, match="`data`"):
        marginals.load(f"{tmp_path}/m").independence_test("x", "count")  # type: ignore[union-attr]


def test_wrong_columns(model: MDMA) -> None:
    with pytest.raises((ValueError, KeyError), match="'y'"):
        model.mutual_information("x", "y")
    with pytest.raises(ValueError, match="`samples`"):
        model.entropy("x", samples=0)


def test_columns_by_number_and_in_any_list() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    rows = np.stack([z, z + 0.3 * rng.normal(size=300), z + 0.3 * rng.normal(size=300)], 1)
    model = MDMA(width=8, max_steps=100, random_state=0).fit(rows)
    told = model.mutual_information(1, 2, given=[0]).value
    for given in (0, np.int64(0), pd.Index([0]), (0,)):
        assert model.mutual_information(1, 2, given=given).value == told
    assert model.mutual_information(1, 2).value > told + 0.1
    assert model.mutual_information_matrix(given=0).shape == (2, 2)
