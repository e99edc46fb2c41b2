"""Normal scores of continuous columns with many rows."""

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.columns.inference import infer
from marginals.columns.normal_scores import NormalScores, fit_normal_scores
from marginals.columns.schema import Column

ROWS = 6000


def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "normal": rng.normal(size=ROWS),
        "skewed": rng.gamma(1.5, size=ROWS) - 1,
        "heavy": rng.standard_t(2, size=ROWS),
        "bimodal": np.where(
            rng.random(ROWS) < 0.3, rng.normal(8, 0.5, ROWS), rng.normal(size=ROWS)
        ),
        "uniform": rng.uniform(-1, 1, ROWS),
    }


@pytest.mark.parametrize("name", list(columns()))
def test_scores_are_nearly_normal_and_the_map_is_smooth(name: str) -> None:
    values = columns()[name]
    scores = fit_normal_scores((values - values.mean()) / values.std())
    assert scores is not None
    x = np.sort((values - values.mean()) / values.std())
    found = scores(x)
    expected = np.array([-1.96, -1.0, 0.0, 1.0, 1.96])
    assert np.quantile(found, [0.025, 0.1587, 0.5, 0.8413, 0.975]) == pytest.approx(
        expected, abs=0.05
    )
    assert (np.diff(found) >= 0).all()
    far = np.array([-1e300, -50.0, *np.linspace(x[0], x[-1], 999), 50.0, 1e300])
    assert scores.inverse(scores(far)) == pytest.approx(far, rel=1e-9, abs=1e-9)
    step = 1e-6
    inside = np.linspace(x[0] - 1, x[-1] + 1, 999)
    slope = (scores(inside + step) - scores(inside - step)) / (2 * step)
    assert np.exp(scores.log_slope(inside)) == pytest.approx(slope, rel=1e-4)


def test_missing_and_infinite_values_stay_as_they_are() -> None:
    scores = fit_normal_scores(columns()["normal"])
    assert scores is not None
    assert np.isnan(scores(np.array([np.nan]))).all()
    assert np.isnan(scores.inverse(np.array([np.nan]))).all()
    assert scores(np.array([-np.inf, np.inf])).tolist() == [-np.inf, np.inf]


def test_few_rows_and_lists_of_values_have_none() -> None:
    assert fit_normal_scores(columns()["normal"][:1000]) is None
    assert fit_normal_scores(np.repeat([0.0, 1.0, 5.0], 3000)) is None
    with pytest.raises(ValueError, match="increasing knots"):
        NormalScores((0.0, 0.0), (0.0, 1.0), (1.0, 1.0))


def test_a_schema_keeps_them_and_cells_agree() -> None:
    table = pd.DataFrame({"x": columns()["skewed"], "few": np.arange(ROWS) % 7})
    column = infer(table)["x"]
    assert column.scores is not None
    assert infer(table)["few"].scores is None
    again = Column.from_dict(column.to_dict())
    assert again == column
    x = table["x"].to_numpy()
    model = column.axis.point(x)
    assert abs(model.mean()) < 0.02
    assert model.std() == pytest.approx(1, abs=0.02)
    assert column.axis.numbers(model) == pytest.approx(x, rel=1e-9)


def test_densities_are_those_of_the_values() -> None:
    table = pd.DataFrame({"x": columns()["bimodal"]})
    model = MDMA(width=6, max_steps=60, random_state=0).fit(table)
    grid = np.linspace(-8, 14, 4001)
    density = np.exp(model.logpdf(pd.DataFrame({"x": grid})))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-4)
    cdf = model.cdf(pd.DataFrame({"x": grid[::100]}))
    summed = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert np.asarray(cdf) == pytest.approx(summed[::100] + float(cdf[0]), abs=1e-4)
    for level in (0.01, 0.5, 0.9):
        assert np.quantile(table["x"], level) == pytest.approx(
            float(np.interp(level, summed, grid)), abs=0.15
        )


def test_fine_lattices_have_them_and_coarse_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "fine": np.round(rng.gamma(2.0, 1.0, ROWS) - 1, 4),
        "bounded": np.round(rng.beta(2, 5, ROWS), 4),
        "coarse": np.round(rng.normal(size=ROWS), 1),
    })  # fmt: skip
    schema = infer(table)
    assert schema["coarse"].scores is None
    for name in ("fine", "bounded"):
        axis = schema[name].axis
        assert schema[name].kind.resolution == 0.0001
        assert schema[name].scores is not None
        values = table[name].to_numpy()
        assert axis.numbers(axis.point(values)) == pytest.approx(values, abs=1e-12)
    model = MDMA(width=6, max_steps=60, random_state=0).fit(table)
    values = np.unique(table["bounded"])[200:203]
    single = [model.prob({"bounded": float(v)}) for v in values]
    low, high = float(values[0]), float(values[-1])
    every = np.round(np.arange(low, high + 5e-5, 1e-4), 4)
    total = sum(float(model.prob({"bounded": float(v)})) for v in every)
    assert total == pytest.approx(float(model.prob({"bounded": (low - 1e-4, high)})), rel=0.01)
    assert all(float(p) > 0 for p in single)
    drawn = model.sample(200, random_state=0)["fine"]
    assert np.allclose(np.round(drawn, 4), drawn, atol=1e-12)
