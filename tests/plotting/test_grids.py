"""Levels, grids and scales, against independent answers."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from marginals.estimators.mdma import MDMA
from marginals.plotting.axis_scale import scale_of
from marginals.plotting.canvas import shown, wrapped
from marginals.plotting.grid import Grid, grid_of, joint, masses, subject
from marginals.plotting.marginal_plots import likely_set
from marginals.plotting.missingness_plot import patterns, percent
from marginals.plotting.pair_plots import correlation, density_levels
from marginals.plotting.training_plot import window
from tests.plotting.conftest import LONG

EVERY = ["x", "wage", "children", "visits", "city", "ok", "size", "when", "wait", "zero", LONG]


def normal_density(rho: float) -> tuple[np.ndarray, np.ndarray]:
    side = np.linspace(-7, 7, 401)
    x, y = np.meshgrid(side, side)
    form = (x**2 - 2 * rho * x * y + y**2) / (1 - rho**2)
    return side, np.exp(-form / 2) / (2 * np.pi * np.sqrt(1 - rho**2))


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.7])
def test_levels_and_correlation_of_a_normal(rho: float) -> None:
    side, density = normal_density(rho)
    shares = [0.1, 0.5, 0.9]
    # The region of mass p is an ellipse on whose edge the density is 1 - p of its peak's.
    levels = density_levels(density, shares)
    np.testing.assert_allclose(levels, density.max() * (1 - np.array(shares)), rtol=0.01)
    np.testing.assert_allclose(density_levels(density * 1e300, shares) / 1e300, levels)
    assert correlation(3 + 2 * side, 5 * side, density) == pytest.approx(rho, abs=1e-6)


def test_levels_and_correlation_of_constants() -> None:
    assert density_levels(np.ones((3, 3)), [0.1, 0.9]).tolist() == [1, 1]
    assert np.isnan(correlation(np.zeros(1), np.arange(3.0), np.ones((3, 1))))


@pytest.mark.parametrize("shares", [[], [0.0], [1.0], [0.5, 90.0]])
def test_levels_are_shares(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="Expected `levels`"):
        density_levels(np.ones((2, 2)), shares)


def test_likely_set() -> None:
    mass = np.array([0.2, 0.5, 0.3])
    assert likely_set(mass, 0.5).tolist() == [False, True, False]
    assert likely_set(mass, 0.51).tolist() == [False, True, True]
    assert likely_set(mass, 0.99).all()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("with_data", [False, True])
def test_grids_hold_the_mass(model: MDMA, frame: pd.DataFrame, name: str, with_data: bool) -> None:
    source = subject(model, None, frame if with_data else None)
    grid = grid_of(source, name, 400)
    mass = masses(source, grid)
    total = mass.sum() * (1 if grid.bars else grid.spacing)
    atom = model.prob({"zero": 0}) if name == "zero" else 0.0
    assert total + atom == pytest.approx(0.995, abs=0.02)
    assert len(grid) == len(grid.numbers) == len(grid.values) == len(mass)


def test_grids_of_whole_numbers(model: MDMA) -> None:
    source = subject(model, None, None)
    grid = grid_of(source, "children", 100)
    assert grid.bars
    for value, mass in zip(grid.values, masses(source, grid), strict=True):
        assert mass == pytest.approx(model.prob({"children": value}), rel=1e-5)
    many = grid_of(source, "visits", 40)
    assert not many.bars
    assert not many.strips
    assert len(many) < 90
    assert all(float(value).is_integer() for value in many.values)


def test_pairs_sum_to_marginals(model: MDMA) -> None:
    source = subject(model, None, None)
    city, size = (grid_of(source, name, 10) for name in ("city", "size"))
    mass = joint(source, city, size)
    assert mass.shape == (len(size), len(city))
    np.testing.assert_allclose(mass.sum(0), masses(source, city), rtol=1e-5)
    np.testing.assert_allclose(mass.sum(1), masses(source, size), rtol=1e-5)


@pytest.mark.parametrize("name", ["x", "when", "wait"])
def test_scales_come_back(model: MDMA, name: str) -> None:
    ends = model.ppf([0.1, 0.9], name)
    scale = scale_of(model.schema_[name], ends[1] - ends[0])
    numbers = scale.numbers(ends)
    np.testing.assert_allclose(scale.numbers(scale.values(numbers)), numbers, rtol=1e-12)


def test_times_and_durations(model: MDMA) -> None:
    when = scale_of(model.schema_["when"])
    # Midnight in Oslo is 23:00 UTC on the day before, and matplotlib's days are UTC's.
    assert when.numbers([pd.Timestamp("1970-01-02", tz="Europe/Oslo")]) == [23 / 24]
    noon = pd.Timestamp("2020-05-01 12:00", tz="Europe/Oslo")
    assert when.texts([noon, noon + pd.Timedelta(days=1)]) == ["2020-05-01", "2020-05-02"]
    later = noon + pd.Timedelta(hours=1)
    assert when.texts([noon, later]) == ["2020-05-01 12:00", "2020-05-01 13:00"]
    wait = scale_of(model.schema_["wait"], pd.Timedelta(hours=5))
    assert wait.label == "wait (hours)"
    assert wait.numbers([pd.Timedelta(minutes=90), None])[0] == 1.5


def test_unknown_categories_have_no_place(model: MDMA) -> None:
    scale = scale_of(model.schema_["city"])
    grid = Grid(scale, np.arange(2.0), ["Oslo", "Rome"], left_out=1)
    places = grid.places(["Rome", "Bergen", "Paris", None, "Oslo"])
    np.testing.assert_array_equal(places, [1, np.nan, np.nan, np.nan, 0])


def test_names_are_literal_and_short() -> None:
    assert shown("$a$") == r"\$a\$"
    assert len(shown("x" * 100, 20)) == 20
    assert wrapped("one two", 4) == "one\ntwo"
    assert wrapped("x" * 30, 9).count("\n") == 0


def test_patterns_percents_and_windows() -> None:
    rows, shares = patterns(np.array([[1, 0], [0, 0], [0, 0]], dtype=bool))
    assert rows.tolist() == [[False, False], [True, False]]
    assert shares.sum() == pytest.approx(1)
    assert percent(1.0) == "100 %"
    low, high = window([1.0], [1.0])
    assert low < 1 < high


def test_marginals_does_not_import_matplotlib() -> None:
    code = (
        "import sys, marginals, marginals.plotting\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = None\n"
        "try:\n    marginals.plotting.missingness([[1.0]])\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "marginals[plot]"' in done.stdout
