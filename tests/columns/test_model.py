"""With a model underneath: masses sum to one and densities integrate to one in the user's units."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals.columns import (
    Continuous,
    Integer,
    Schema,
    decode,
    encode,
    encode_bounds,
    encode_cells,
    infer,
)
from marginals.densities import TensorDensity, build

ROWS = 200


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wait = rng.exponential(30.0, ROWS)
    return pd.DataFrame(
        {
            "x": rng.normal(100, 20, ROWS),
            "share": rng.beta(2, 5, ROWS),
            "wait": np.where(rng.random(ROWS) < 0.3, 0, wait),
            "count": rng.poisson(3, ROWS),
            "price": np.round(rng.gamma(2, 0.5, ROWS), 1),
            "city": rng.choice(["a", "b", "c"], ROWS),
            "day": pd.Timestamp("2020") + pd.to_timedelta(rng.integers(0, 400, ROWS), "D"),
        }
    )


KINDS: dict[Any, Any] = {
    "share": Continuous(0, 1),
    "wait": Continuous(lower=0, atoms=(0,)),
    "count": Integer(lower=0),
    "price": Continuous(lower=0, resolution=0.1),
}


@pytest.fixture(scope="module")
def fitted() -> tuple[Schema, TensorDensity]:
    schema = infer(frame(), KINDS)
    model = build(
        encode(schema, frame()).evidence,
        width=8,
        categories=schema.categories,
        atoms={i: c.atoms for i, c in enumerate(schema) if c.atoms},
        dtype=torch.float64,
    )
    return schema, model


@torch.no_grad()
def log_values(fitted: Any, values: pd.DataFrame) -> np.ndarray[Any, Any]:
    schema, model = fitted
    out = encode(schema, values)
    return (model.log_value(out.evidence) + out.log_jacobian).numpy()


@torch.no_grad()
def mass(fitted: Any, name: str, low: Any, high: Any) -> float:
    schema, model = fitted
    ends = encode_bounds(schema, name, low, high)
    column = [schema.index(name)]
    return float(model.prob(ends[0][:, None], ends[1][:, None], column).item())


def test_densities_are_in_the_units_of_the_user(fitted: Any) -> None:
    for name, low, high in [("x", 60.0, 130.0), ("share", 0.01, 0.6), ("wait", 1e-3, 50.0)]:
        grid = np.linspace(low, high, 20_001)
        density = np.exp(log_values(fitted, pd.DataFrame({name: grid})))
        area = np.sum((density[1:] + density[:-1]) / 2 * np.diff(grid))
        assert area == pytest.approx(mass(fitted, name, low, high), rel=1e-5)


def test_densities_of_times_are_per_second(fitted: Any) -> None:
    grid = pd.date_range("2020-03-01", "2020-06-01", freq="h")
    density = np.exp(log_values(fitted, pd.DataFrame({"day": grid})))
    area = np.sum((density[1:] + density[:-1]) / 2) * 3600
    assert area == pytest.approx(mass(fitted, "day", grid[0], grid[-1]), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "values"), [("count", np.arange(5000)), ("price", np.arange(9000) / 10)]
)
def test_masses_sum_to_one(fitted: Any, name: str, values: Any) -> None:
    masses = np.exp(log_values(fitted, pd.DataFrame({name: values})))
    rest = mass(fitted, name, values[-1], None)
    assert masses.sum() + rest == pytest.approx(1, abs=1e-12)
    assert mass(fitted, name, None, values[7]) == pytest.approx(masses[:8].sum(), abs=1e-12)


def test_masses_of_categories_sum_to_one(fitted: Any) -> None:
    masses = np.exp(log_values(fitted, pd.DataFrame({"city": ["a", "b", "c"]})))
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    schema, model = fitted
    both = model.log_value(encode_cells(schema, {"city": {"a", "c"}}).evidence)
    assert both.exp().item() == pytest.approx(masses[0] + masses[2], abs=1e-12)


def test_atoms_have_mass(fitted: Any) -> None:
    atom = np.exp(log_values(fitted, pd.DataFrame({"wait": [0.0]})))[0]
    assert 0.1 < atom < 0.9
    assert mass(fitted, "wait", None, 0) == pytest.approx(atom, abs=1e-12)
    assert mass(fitted, "wait", 0, None) == pytest.approx(1 - atom, abs=1e-12)
    assert mass(fitted, "wait", -5, 3) - mass(fitted, "wait", 0, 3) == pytest.approx(
        atom, abs=1e-12
    )


def test_events_that_cannot_be_have_no_mass(fitted: Any) -> None:
    assert mass(fitted, "count", 2.2, 2.8) == 0
    assert mass(fitted, "share", 1, 3) == 0
    assert mass(fitted, "wait", -3, -2) == 0


def test_missing_cells_are_marginalised(fitted: Any) -> None:
    rows = frame().head(20)
    gone = rows.copy()
    gone[["x", "city", "wait"]] = np.nan
    rest = rows[["share", "count", "price", "day"]]
    np.testing.assert_allclose(log_values(fitted, gone), log_values(fitted, rest), rtol=1e-12)


def test_samples_obey_the_kinds(fitted: Any) -> None:
    schema, model = fitted
    with torch.no_grad():
        draws = model.sample(3000, generator=torch.Generator().manual_seed(0))
    sample = decode(schema, draws.reshape(-1, len(schema)))
    assert sample.dtypes.tolist() == frame().dtypes.tolist()
    assert sample["share"].between(0, 1, inclusive="neither").all()
    assert (sample["wait"] >= 0).all()
    assert 0.1 < (sample["wait"] == 0).mean() < 0.9
    assert (sample["count"] >= 0).all()
    np.testing.assert_allclose(sample["price"] * 10, np.round(sample["price"] * 10), atol=1e-9)
    assert np.isfinite(log_values(fitted, sample)).all()


def test_draws_within_evidence_obey_it(fitted: Any) -> None:
    schema, model = fitted
    known = {"count": (2, 5), "price": (0.25, 1.0), "wait": (0, 20), "city": {"a", "b"}}
    evidence = encode_cells(schema, known).evidence
    with torch.no_grad():
        rows = model.sample_rows(evidence, 1000, torch.Generator().manual_seed(0))[0]
    sample = decode(schema, rows)
    assert set(sample["count"]) == {3, 4, 5}
    assert sample["price"].min() >= 0.3
    assert sample["price"].max() <= 1.0
    assert ((sample["wait"] > 0) & (sample["wait"] <= 20)).all()
    assert set(sample["city"]) <= {"a", "b"}
