"""Copulas and chosen margins by name: closed forms of Clayton data, and laws on any table."""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from scipy import stats

from marginals import MDMA
from marginals.queries import Copula, TableView

Floats = npt.NDArray[np.float64]

THETA = 2.0
# Models are fitted in float32.
CLOSE = {"rtol": 1e-4, "atol": 1e-6}
MARGINS = {"x": stats.t(3, loc=1), "y": stats.gamma(2, scale=5)}


def clayton(u: Floats) -> Floats:
    return (u ** (-THETA)).sum(-1) - 1


@pytest.fixture(scope="module")
def fitted() -> MDMA:
    """Clayton data under margins of their own, one cell in nine missing."""
    rng = np.random.default_rng(0)
    shared = rng.gamma(1 / THETA, 1, 2000)
    u = (1 + rng.exponential(size=(2000, 2)) / shared[:, None]) ** (-1 / THETA)
    city = np.where(u.sum(1) + 0.3 * rng.normal(size=2000) > 1, "Oslo", "Bergen")
    table = {"x": 10 + 3 * stats.norm.ppf(u[:, 0]), "y": stats.logistic.ppf(u[:, 1]), "city": city}
    frame = pd.DataFrame(table)
    frame.loc[::9, "y"] = np.nan
    return MDMA(width=24, max_steps=400, random_state=0).fit(frame)


@pytest.fixture(scope="module")
def copula(fitted: MDMA) -> Copula:
    return fitted.copula()


@pytest.fixture(scope="module")
def view(fitted: MDMA) -> TableView:
    return fitted.with_margins(MARGINS)


@pytest.fixture(scope="module")
def grid() -> pd.DataFrame:
    side = np.linspace(0.05, 0.95, 10)
    return pd.DataFrame(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2), columns=["x", "y"])


# Copulas by name ------------------------------------------------------------------------------


def test_clayton(copula: Copula, grid: pd.DataFrame) -> None:
    """Tolerances are those of 2000 rows, about twice the errors seen."""
    u = grid.to_numpy()
    s = clayton(u)
    np.testing.assert_allclose(copula.cdf(grid), s ** (-1 / THETA), atol=0.015)
    h = s ** (-1 / THETA - 1) * u[:, 1] ** (-THETA - 1)
    np.testing.assert_allclose(copula.h(grid, of="x", given="y"), h, atol=0.12)
    density = (1 + THETA) * u.prod(1) ** (-THETA - 1) * s ** (-1 / THETA - 2)
    assert np.abs(copula.logpdf(grid) - np.log(density)).mean() < 0.25
    assert copula.kendall_tau("x", "y").value == pytest.approx(THETA / (THETA + 2), abs=0.03)
    assert copula.spearman_rho("x", "y").value == pytest.approx(0.6828, abs=0.03)
    q = np.array([0.05, 0.1])
    exact = clayton(np.stack([q, q], -1)) ** (-1 / THETA) / q
    np.testing.assert_allclose(copula.lower_tail("x", "y", q), exact, atol=0.06)
    above = (1 - 2 * 0.95 + clayton(np.array([0.95, 0.95])) ** (-1 / THETA)) / 0.05
    assert copula.upper_tail("x", "y", 0.05) == pytest.approx(above, abs=0.12)
    (line,) = copula.pairs(q=0.05).itertuples()
    assert (line.a, line.b) == ("x", "y")
    assert line.lower_tail == copula.lower_tail("x", "y", 0.05)
    assert 0 < line.kendall_stderr < 1e-3


def test_answers_have_the_type_of_the_levels(copula: Copula) -> None:
    frame = pd.DataFrame({"y": [0.2, 0.9], "x": [0.5, 0.4]}, index=[7, 8])
    array = frame[["x", "y"]].to_numpy()
    rows = copula.cdf(frame)
    assert isinstance(rows, np.ndarray)
    np.testing.assert_array_equal(rows, copula.cdf(array))
    assert isinstance(copula.cdf(torch.tensor(array.copy())), torch.Tensor)
    single = copula.cdf({"x": 0.5, "y": 0.2})
    assert isinstance(single, float)
    assert single == pytest.approx(rows[0])
    assert copula.cdf({"y": 0.3}) == pytest.approx(0.3, abs=1e-9)
    assert copula.cdf({"x": 0.5, "y": None}) == pytest.approx(0.5, abs=1e-9)
    assert copula.pdf({"x": 0.5}) == pytest.approx(1)
    assert copula.sf({"x": 0.0, "y": 0.25}) == pytest.approx(0.75, abs=1e-9)
    assert copula.logcdf({"x": 0.5, "y": 0.0}) == -np.inf
    assert repr(copula) == "Copula(x, y)"
    none = pd.DataFrame({"x": [], "y": []}, dtype=float)
    for answer in (copula.cdf(none), copula.pdf(none), copula.h(none, of="x", given="y")):
        assert answer.shape == (0,)
    assert copula.sample(0).shape == copula.levels(none).shape == (0, 2)


def test_levels_and_values(fitted: MDMA, copula: Copula) -> None:
    rows = pd.DataFrame({"city": ["Oslo", "Oslo"], "y": [0.5, np.nan], "x": [9.0, 11.0]}, [5, 6])
    levels = copula.levels(rows)
    assert list(levels.columns) == ["y", "x"]
    assert list(levels.index) == [5, 6]
    np.testing.assert_allclose(levels["x"], fitted.cdf(rows[["x"]]), **CLOSE)
    assert np.isnan(levels.loc[6, "y"])
    np.testing.assert_allclose(copula.values(levels)["x"], rows["x"], rtol=1e-9)
    with pytest.raises(ValueError, match="some of the columns"):
        copula.levels(rows[["city"]])


def test_draws_of_levels(copula: Copula) -> None:
    u = copula.sample(4000, random_state=0)
    assert list(u.columns) == ["x", "y"]
    for name in u:
        assert stats.kstest(u[name], "uniform").pvalue > 1e-3
    low = copula.sample(4000, given={"x": (None, 0.05)}, random_state=0)
    assert (low["x"] <= 0.05).all()
    assert (low["y"] <= 0.05).mean() == pytest.approx(copula.lower_tail("x", "y", 0.05), abs=0.04)
    pd.testing.assert_frame_equal(u, copula.sample(4000, random_state=0))
    rows = np.random.default_rng(0).normal(size=(60, 2))
    arrays = MDMA(width=3, max_steps=5, random_state=0).fit(rows).copula()
    drawn = arrays.sample(5, random_state=0)
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == (5, 2)
    assert arrays.h(drawn, of=0, given=1).shape == (5,)


def test_a_mixed_table(model: MDMA, frame: pd.DataFrame) -> None:
    copula = model.copula()
    assert copula.names == ("x", "share", "price", "day")  # rounded numbers and times are among it
    assert len(copula.pairs(points=64)) == 6
    levels = copula.levels(frame)
    assert levels.shape == (len(frame), 4)
    assert levels.to_numpy().min() > 0
    assert copula.values(levels)["day"].dtype.kind == "M"
    for name in ("city", "grade", "count", "wait"):
        with pytest.raises(ValueError, match=f"got column '{name}'.* Leave it out"):
            model.copula(["x", name])
    with pytest.raises(ValueError, match=r"two or more continuous columns; got \['x'\]"):
        model.copula("x")
    conditional = model.condition({"city": "Oslo", "count": (1, None)}).copula(["x", "share"])
    assert conditional.cdf({"x": 0.3}) == pytest.approx(0.3, abs=1e-9)


# Margins --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "y"])
def test_the_margin_is_the_distribution(view: TableView, name: str) -> None:
    margin = MARGINS[name]
    levels = np.array([1e-9, 1e-4, 0.1, 0.5, 0.8, 1 - 1e-4, 1 - 1e-9])
    y = pd.DataFrame({name: margin.ppf(levels)})
    np.testing.assert_allclose(view.logpdf(y), margin.logpdf(y[name]), atol=1e-4)
    np.testing.assert_allclose(view.cdf(y), levels, **CLOSE)
    np.testing.assert_allclose(view.sf(y), margin.sf(y[name]), rtol=1e-4)
    np.testing.assert_allclose(view.ppf(levels, name), y[name], rtol=1e-3)
    assert view.mean(name) == pytest.approx(margin.mean(), rel=1e-3)
    assert view.std(name) == pytest.approx(margin.std(), rel=1e-2)
    assert view.interval(name, 0.8) == pytest.approx(margin.interval(0.8), rel=1e-4)
    assert view.prob({name: (margin.ppf(0.2), margin.ppf(0.7))}) == pytest.approx(0.5, abs=1e-5)
    assert view.entropy(name).value == pytest.approx(margin.entropy(), abs=0.1)


def test_the_copula_stays(fitted: MDMA, view: TableView, grid: pd.DataFrame) -> None:
    copula = fitted.copula()
    np.testing.assert_allclose(view.copula().cdf(grid), copula.cdf(grid), rtol=1e-12)
    y = pd.DataFrame({name: margin.ppf(grid[name]) for name, margin in MARGINS.items()})
    np.testing.assert_allclose(view.cdf(y), copula.cdf(grid), **CLOSE)
    alone = sum(margin.logpdf(y[name]) for name, margin in MARGINS.items())
    np.testing.assert_allclose(view.logpdf(y) - alone, copula.logpdf(grid), rtol=1e-3, atol=1e-4)
    before, after = (m.mutual_information("x", "y", samples=2000).value for m in (fitted, view))
    assert after == pytest.approx(before, abs=1e-4)


def test_density_is_the_slope_of_the_cdf_and_has_mass_one(view: TableView) -> None:
    step, given = 0.05, {"x": -2.0, "city": "Oslo"}
    up, down = (view.cdf({"y": 6 + h}, given=given) for h in (step, -step))
    assert (up - down) / (2 * step) == pytest.approx(view.pdf({"y": 6.0}, given=given), rel=1e-2)
    width = 1e-8  # narrow intervals keep their digits
    mass = view.prob({"x": (1.5, 1.5 + width)})
    assert mass == pytest.approx(((1.5 + width) - 1.5) * MARGINS["x"].pdf(1.5), rel=1e-4)
    u = 1 / (1 + np.exp(-np.linspace(-12, 12, 1201)))  # even in the logit, so that tails count
    y = MARGINS["y"].ppf(u)
    for known in (None, {"x": -3.0}):
        density = view.pdf(pd.DataFrame({"y": y}), given=known)
        assert np.trapezoid(density, y) == pytest.approx(1, abs=1e-3)


def test_draws_follow_the_margins_and_the_conditionals(view: TableView) -> None:
    drawn = view.sample(5000, random_state=0)
    for name, margin in MARGINS.items():
        assert stats.kstest(drawn[name], margin.cdf).pvalue > 1e-3
    given = {"x": (None, -1.0), "city": "Oslo"}
    drawn = view.sample(4000, given=given, random_state=0)
    assert (drawn["x"] <= -1).all()
    level = view.cdf(drawn[["y"]], given=given)
    assert stats.kstest(level, "uniform").pvalue > 1e-3
    error = 5 * view.std("y", given=given) / np.sqrt(len(drawn))
    assert drawn["y"].mean() == pytest.approx(view.mean("y", given=given), abs=error)


def test_missing_cells_and_views_of_views(fitted: MDMA, view: TableView) -> None:
    rows = pd.DataFrame({"x": [0.5, np.nan, 2.0], "y": [np.nan, 3.0, np.nan], "city": ["Oslo"] * 3})
    known = [{k: v for k, v in row.items() if v == v} for row in rows.to_dict("records")]
    np.testing.assert_allclose(view.score_samples(rows), list(map(view.logpdf, known)), rtol=1e-5)
    filled = view.impute(rows, method="median")
    assert filled.loc[0, "y"] == pytest.approx(view.ppf(0.5, "y", given=known[0]), rel=1e-5)
    assert view.surprise(rows).isna().sum().sum() == 3
    part = view.condition({"x": -2.0}).marginal(["y"])
    assert part.ppf(0.5, "y") == pytest.approx(view.ppf(0.5, "y", given={"x": -2.0}))
    conditional = fitted.condition({"city": "Oslo"}).with_margins({"y": stats.uniform(0, 4)})
    assert conditional.prob({"y": (1.0, 2.0)}) == pytest.approx(0.25, abs=1e-5)
    again = view.with_margins({"x": stats.norm()})
    assert again.cdf({"x": 1.0}) == pytest.approx(stats.norm.cdf(1), abs=1e-6)
    assert again.cdf({"y": 5.0}) == pytest.approx(MARGINS["y"].cdf(5), abs=1e-6)
    assert "margin glued on: norm()" in str(again.schema_)


def test_values_beyond_the_margin(view: TableView) -> None:
    assert view.cdf({"y": -1.0}) == view.prob({"y": (None, 0.0)}) == 0.0
    assert view.prob({"y": (0.0, None)}) == pytest.approx(1)
    with pytest.raises(ValueError, match="'y' to lie above 0, inside of its margin; got -1"):
        view.logpdf({"y": -1.0})
    assert np.isfinite(view.logpdf({"x": 1e30}))


class Standard:
    """A logistic distribution without logarithms of its CDF."""

    cdf = staticmethod(stats.logistic.cdf)
    sf = staticmethod(stats.logistic.sf)
    ppf = staticmethod(stats.logistic.ppf)
    isf = staticmethod(stats.logistic.isf)
    logpdf = staticmethod(stats.logistic.logpdf)


def test_any_object_with_the_methods_and_gaps_in_a_margin() -> None:
    rows = pd.DataFrame({"a": np.random.default_rng(0).normal(size=60)})
    model = MDMA(width=3, max_steps=5, random_state=0).fit(rows)
    view = model.with_margins({"a": Standard()})
    assert view.logpdf({"a": -30.0}) == pytest.approx(stats.logistic.logpdf(-30), abs=1e-3)
    assert "Standard" in str(view.schema_)
    assert np.isfinite(view.logpdf({"a": -800.0}))
    gap = stats.rv_histogram((np.array([1.0, 0.0, 1.0]), np.arange(4.0)), density=False)
    with np.errstate(divide="ignore"):  # scipy's logarithm of 0
        found = model.with_margins({"a": gap}).logpdf(pd.DataFrame({"a": [0.5, 1.5, 2.5]}))
    assert found[1] == -np.inf
    assert found[[0, 2]] == pytest.approx(np.log([0.5, 0.5]), abs=1e-3)


@pytest.mark.parametrize(
    ("margins", "error", "message"),
    [
        *(({name: stats.norm()}, ValueError, f"'{name}'") for name in ("city", "count", "wait")),
        ({"day": stats.norm()}, ValueError, "column 'day'"),
        ({"nothing": stats.norm()}, ValueError, "'nothing'"),
        ({"x": stats.poisson(3)}, TypeError, "without logpdf"),
        ({"x": stats.t}, TypeError, "Freeze it"),
        ({"x": stats.norm(scale=-1)}, ValueError, "quantiles that rise"),
        (stats.norm(), TypeError, "dict"),
    ],
)
def test_refused_margins(model: MDMA, margins: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        model.with_margins(margins)  # type: ignore[arg-type]


def test_a_rounded_column_may_have_a_margin(model: MDMA, frame: pd.DataFrame) -> None:
    view = model.with_margins({"price": stats.lognorm(1)})
    assert view.cdf({"price": 2.0}) == pytest.approx(stats.lognorm(1).cdf(2), abs=1e-5)
    assert view.logpdf(frame[["x", "city"]].head()).shape == (5,)
    with pytest.raises(ValueError, match="after loading"):
        view.schema_.to_dict()


def test_no_rows_and_several_conditions(fitted: MDMA, view: TableView) -> None:
    assert view.logpdf(pd.DataFrame({"x": [], "y": []}, dtype=float)).shape == (0,)
    cities = pd.DataFrame({"city": ["Oslo", "Bergen"]})
    several = fitted.condition(cities)
    with pytest.raises(ValueError, match="one row of evidence; got 2"):
        several.with_margins({"x": stats.norm()})
    with pytest.raises(ValueError, match="one row of evidence"):
        several.copula()
    rows = view.condition(cities).cdf(pd.DataFrame({"x": [1.0] * 2}))
    assert rows[0] == pytest.approx(view.cdf({"x": 1.0}, given={"city": "Oslo"}), abs=1e-5)
