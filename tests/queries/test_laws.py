"""The laws of probability in the user's units, by column name."""

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous

# Models are fitted in float32.
CLOSE = {"abs": 2e-5, "rel": 2e-4}
SOME = {"x": 110.0, "city": "Oslo", "count": 3}


def test_density_integrates_to_one(model: MDMA) -> None:
    grid = pd.DataFrame({"x": np.linspace(-400, 600, 20_001)})
    for given in (None, {"city": "Oslo"}):
        area = np.trapezoid(model.pdf(grid, given=given), grid["x"])
        assert area == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("x", 60, 130), ("share", 0.01, 0.6), ("wait", 1e-3, 50)]
)
def test_densities_are_in_the_units_of_the_user(
    model: MDMA, name: str, low: float, high: float
) -> None:
    grid = np.linspace(low, high, 20_001)
    area = np.trapezoid(model.pdf(pd.DataFrame({name: grid})), grid)
    assert area == pytest.approx(model.prob({name: (low, high)}), **CLOSE)


def test_densities_of_times_are_per_second(model: MDMA) -> None:
    grid = pd.date_range("2020-03-01", "2020-06-01", freq="h")
    area = np.trapezoid(model.pdf(pd.DataFrame({"day": grid}))) * 3600
    assert area == pytest.approx(model.prob({"day": (grid[0], grid[-1])}), **CLOSE)


@pytest.mark.parametrize("given", [None, {"x": 110.0}, {"city": {"Oslo", "Bergen"}}])
def test_masses_sum_to_one(model: MDMA, given: dict[str, object] | None) -> None:
    counts = pd.DataFrame({"count": np.arange(200)})
    masses = model.pdf(counts, given=given)
    assert masses.sum() == pytest.approx(1, **CLOSE)
    assert model.cdf({"count": 7}, given=given) == pytest.approx(masses[:8].sum(), **CLOSE)
    prices = pd.DataFrame({"price": np.round(np.arange(2000) * 0.1, 1)})
    assert model.pdf(prices, given=given).sum() == pytest.approx(1, abs=1e-4)
    grades = [model.prob({"grade": grade}, given=given) for grade in "abc"]
    assert sum(grades) == pytest.approx(1, **CLOSE)


def test_density_is_the_slope_of_the_cdf(model: MDMA) -> None:
    given = {"city": "Oslo", "wait": (0, 10)}
    step = 0.5
    up, down = (model.cdf({"x": 100 + h}, given=given) for h in (step, -step))
    assert (up - down) / (2 * step) == pytest.approx(model.pdf({"x": 100.0}, given=given), rel=1e-2)


def test_bounds_do_not_leak(model: MDMA) -> None:
    assert model.cdf({"share": 0.0}) == 0.0
    assert model.cdf({"share": 1.0}) == pytest.approx(1, **CLOSE)
    for event in (
        {"share": (None, -5)},
        {"share": (1, 3)},
        {"wait": (-3, -1)},
        {"count": (2.2, 2.8)},
    ):
        assert model.prob(event) == 0.0
    drawn = model.sample(2000, random_state=0)
    assert drawn["share"].between(0, 1, inclusive="neither").all()
    assert (drawn["wait"] >= 0).all()
    assert (drawn["count"] >= 0).all()
    assert (drawn["price"] >= 0).all()


def test_atoms_have_their_own_mass(model: MDMA, frame: pd.DataFrame) -> None:
    share = model.prob({"wait": 0})
    assert share == pytest.approx((frame["wait"] == 0).mean(), abs=0.15)
    assert share + model.prob({"wait": (0, None)}) == pytest.approx(1, **CLOSE)
    assert (model.sample(2000, random_state=0)["wait"] == 0).mean() == pytest.approx(
        share, abs=0.05
    )


def test_an_interval_is_a_difference(model: MDMA) -> None:
    box = model.prob({"x": (90, 120), "count": (1, 3)})
    corners = [
        model.cdf({"x": a, "count": b}) * sign
        for a, b, sign in [(120, 3, 1), (90, 3, -1), (120, 1, -1), (90, 1, 1)]
    ]
    assert box == pytest.approx(sum(corners), **CLOSE)


def test_chain_rule(model: MDMA, frame: pd.DataFrame) -> None:
    both = model.logpdf(frame[["x", "city", "count"]])
    parts = model.logpdf(frame[["x"]], given=frame[["city", "count"]]) + model.logpdf(
        frame[["city", "count"]]
    )
    np.testing.assert_allclose(both, parts, atol=1e-4)


def test_missing_cells_are_marginalised(model: MDMA, frame: pd.DataFrame) -> None:
    holes = frame.assign(x=np.nan, city=None, day=pd.NaT)
    rest = frame.drop(columns=["x", "city", "day"])
    np.testing.assert_allclose(model.score_samples(holes), model.logpdf(rest), atol=1e-5)


def test_survival_is_what_the_cdf_leaves(model: MDMA, frame: pd.DataFrame) -> None:
    rows = frame[["x"]]
    np.testing.assert_allclose(model.cdf(rows) + model.sf(rows), 1, atol=1e-5)


def test_quantiles_invert_the_cdf(model: MDMA) -> None:
    levels = [0.05, 0.5, 0.95]
    for given in (None, {"city": "Oslo"}, {"count": 3, "grade": "b"}):
        x = model.ppf(levels, "x", given=given)
        np.testing.assert_allclose(
            model.cdf(pd.DataFrame({"x": x}), given=given), levels, atol=1e-4
        )


def test_samples_follow_the_conditional_cdf(model: MDMA) -> None:
    given = {"city": "Oslo", "count": (1, 4)}
    drawn = model.sample(4000, given=given, random_state=0)
    assert set(drawn["city"]) == {"Oslo"}
    assert drawn["count"].between(2, 4).all()
    level = model.cdf(drawn[["x"]], given=given)
    assert np.abs(np.sort(level) - np.linspace(0, 1, len(level))).max() < 0.04


def test_samples_obey_evidence(model: MDMA) -> None:
    given = {"count": (2, 5), "price": (0.25, 1.0), "wait": (0, 20), "city": {"Oslo", "Bergen"}}
    drawn = model.sample(500, given=given, random_state=0)
    assert set(drawn["count"]) == {3, 4, 5}
    assert drawn["price"].between(0.3, 1.0).all()
    np.testing.assert_allclose(drawn["price"] * 10, np.round(drawn["price"] * 10), atol=1e-9)
    assert drawn["wait"].between(0, 20, inclusive="right").all()
    assert set(drawn["city"]) <= {"Oslo", "Bergen"}


def test_moments_are_those_of_samples(model: MDMA) -> None:
    given = {"city": "Oslo"}
    drawn = model.sample(20_000, given=given, random_state=0)
    for column in ("x", "share", "count", "price", "wait"):
        mean, std = model.mean(column, given=given), model.std(column, given=given)
        error = 5 * std / np.sqrt(len(drawn))
        assert drawn[column].mean() == pytest.approx(mean, abs=error)
        if np.isfinite(std):  # leaves with a heavy tail may have none
            assert drawn[column].std() == pytest.approx(std, rel=0.1)
    day = model.mean("day", given=given)
    assert abs(drawn["day"].mean() - day) < 5 * model.std("day", given=given) / 100


def test_views_compose(model: MDMA) -> None:
    view = model.condition({"city": "Oslo"}).marginal(["x", "count"])
    assert view.prob({"x": (None, 100)}, given={"count": 3}) == pytest.approx(
        model.prob({"x": (None, 100)}, given={"city": "Oslo", "count": 3}), **CLOSE
    )
    assert list(view.sample(3).columns) == ["x", "count"]
    assert view.mean("x") == pytest.approx(model.mean("x", given={"city": "Oslo"}), rel=1e-4)
    assert "x, count" in repr(view)


def test_the_distribution_is_of_torch(model: MDMA) -> None:
    assert model.distribution(given=SOME).sample((5,)).shape == (5, 5)


def test_moments_of_a_row_depend_on_no_other() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    y = np.exp(4 * z)
    frame = pd.DataFrame({"z": z + 0.05 * rng.normal(size=400), "y": y})
    model = MDMA(columns={"y": Continuous(lower=0)}, width=8, max_steps=150, random_state=0)
    model.fit(frame)
    rows = pd.DataFrame({"z": [-3.0, 0.0, 3.0]})
    for ask in (model.mean, model.std):
        together = np.asarray(ask("y", given=rows))
        alone = np.concatenate([np.asarray(ask("y", given=rows.iloc[[i]])) for i in range(3)])
        np.testing.assert_allclose(together, alone, rtol=1e-5)
