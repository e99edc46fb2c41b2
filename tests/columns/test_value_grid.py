"""Steps, atoms and bounds as they show in the values alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginals.columns.natural_bounds import find_bounds
from marginals.columns.point_masses import find_atoms, is_table
from marginals.columns.value_grid import infer_step, infer_whole_step, rational

STEPS = [0.001, 0.01, 0.02, 0.05, 0.1, 0.25, 0.3, 0.5, 1.0, 1.5, 5.0, 7.0, 12.0, 100.0, 2500.0]


def counted(values: Any) -> tuple[Any, Any]:
    return np.unique(np.asarray(values, dtype=np.float64), return_counts=True)


def atoms_of(values: Any, step: float | None) -> list[float]:
    distinct, counts = counted(values)
    return [float(distinct[i]) for i in find_atoms(distinct, counts, step)]


@given(
    st.sampled_from(STEPS),
    st.integers(0, 4),
    st.integers(-500, 500),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_grids_with_offset_and_noise(
    step: float, part: int, first: int, single: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    offset = float(f"{part * step / 5:.9g}")
    k = first + rng.integers(0, 300, 2000)
    values = k * step + offset
    noisy = np.where(rng.random(2000) < 0.004, values + step * rng.uniform(0.1, 0.9, 2000), values)
    found = infer_step(noisy)
    assert found is not None
    assert found.step == step  # to the last digit
    assert found.offset == pytest.approx(offset, abs=1e-12)
    assert found.off == pytest.approx((noisy != values).mean(), abs=1e-12)
    if single:
        held = infer_step(values.astype(np.float32), eps=2.0**-23)
        assert held is not None
        assert held.step == pytest.approx(step, rel=1e-5)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1.0, 1e9]))
def test_continuous_values_have_no_grid(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    values = size * rng.normal(size=300)
    assert infer_step(values) is None
    assert infer_step(values.astype(np.float32), eps=2.0**-23) is None
    assert infer_step(np.where(rng.random(300) < 0.99, 0, values)) is None


def test_grids_without_short_decimals() -> None:
    rng = np.random.default_rng(0)
    k = rng.integers(-50, 50, 2000)
    assert infer_step(k / 3).step == 1 / 3
    standardised = (k - k.mean()) / k.std()
    assert infer_step(standardised).step == pytest.approx(1 / k.std(), rel=1e-12)


def test_a_step_needs_enough_values() -> None:
    assert infer_step([36.0, 60.0] * 50) is None
    assert infer_step([36.0, 48.0, 60.0] * 50).step == 1.0  # 12 may be chance
    assert infer_step(np.arange(36.0, 180.0, 12.0)).step == 12.0
    assert infer_step([]) is None


def test_a_million_rows_are_checked() -> None:
    values = np.round(np.random.default_rng(0).exponential(10, 1_000_000), 2)
    values[::1000] += 0.001
    assert infer_step(values)[:2] == (0.01, 0.0)


def test_whole_numbers_beyond_floats() -> None:
    k = np.random.default_rng(0).integers(0, 1000, 200)
    distinct, counts = np.unique(2**61 + 7 + 900 * k, return_counts=True)
    step, offset, off = infer_whole_step(distinct, counts)
    assert (step, off) == (900, 0.0)
    assert ((distinct - offset) % 900 == 0).all()


def test_rational_numbers() -> None:
    assert rational(0.07).as_integer_ratio() == (7, 100)
    assert rational(np.pi) is None


# Atoms ----------------------------------------------------------------------------------------


@given(
    st.sampled_from(["poisson", "geometric", "normal", "lognormal", "uniform", "exponential"]),
    st.sampled_from([0.5, 3.0, 20.0]),
    st.sampled_from([150, 400, 3000, 30_000]),
    st.integers(0, 2**32 - 1),
)
def test_smooth_columns_have_no_atoms(name: str, size: float, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draw = {
        "poisson": lambda: rng.poisson(size, rows),
        "geometric": lambda: rng.geometric(1 / (1 + size), rows),
        "normal": lambda: np.rint(rng.normal(0, 1 + size, rows)),
        "lognormal": lambda: np.rint(size * 10 * rng.lognormal(0, 1, rows)),
        "uniform": lambda: rng.integers(0, int(10 * size), rows),
        "exponential": lambda: np.rint(rng.exponential(1 + size, rows)),
    }
    assert len(atoms_of(draw[name](), 1.0)) <= 1  # the test may err once at an end


def test_atoms_stand_out() -> None:
    rng = np.random.default_rng(0)
    rows = 5000
    rain = np.where(rng.random(rows) < 0.3, 0, np.round(rng.exponential(10, rows), 2))
    assert atoms_of(rain, 0.01) == [0.0]
    assert atoms_of(np.where(rain == 0, 0, rng.random(rows)), None) == [0.0]
    assert atoms_of(np.minimum(np.rint(rng.normal(50, 20, rows)), 90), 1.0) == [90.0]
    hours = np.where(rng.random(rows) < 0.4, 40, rng.integers(1, 80, rows))
    assert atoms_of(hours, 1.0) == [40.0]
    codes = np.where(rng.random(rows) < 0.01, 99_999, rng.integers(0, 3000, rows))
    assert atoms_of(codes, 1.0) == [99_999.0]
    tens = np.rint(rng.normal(50, 15, rows))
    tens = np.where(rng.random(rows) < 0.5, 10 * np.rint(tens / 10), tens)
    assert {30.0, 40.0, 50.0, 60.0, 70.0} <= set(atoms_of(tens, 1.0)) <= set(range(0, 101, 10))


def test_all_frequent_values_of_a_rough_column_are_atoms() -> None:
    rng = np.random.default_rng(0)
    size = np.exp(rng.normal(0, 0.6, 20_000))
    # Half the stones are cut to just reach the next tenth: counts jump there and fall off slowly.
    carats = np.where(rng.random(len(size)) < 0.5, np.ceil(10 * size) / 10, size)
    carats = np.round(carats + np.abs(rng.normal(0, 0.01, len(size))), 2)
    distinct, counts = counted(carats)
    assert atoms_of(carats, 0.01) == distinct[counts >= 10].tolist()
    assert atoms_of(np.round(size, 2), 0.01) == []  # as frequent, but smooth
    assert len(atoms_of(carats[:4000], 0.01)) <= 40  # few rows: tables of them would be noise


def test_repeated_values_without_a_grid_are_atoms() -> None:
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.02, 20_000), 250)
    values = np.sqrt(codes)  # equal values, at uneven distances
    distinct, counts = counted(values)
    assert atoms_of(values, None) == distinct[counts >= 10].tolist()
    # Next to a value that most rows have, the others are judged by themselves.
    inflated = np.where(rng.random(20_000) < 0.85, 0.0, rng.random(20_000))
    inflated[:15] = 0.5
    assert atoms_of(inflated, None) == [0.0]


def test_few_rows_make_no_atoms() -> None:
    values = np.append(np.arange(400) / 10, [20.0] * 15)
    assert atoms_of(values, 0.1) == []
    assert atoms_of(np.append(values, [20.0] * 30), 0.1) == [20.0]


def test_values_of_small_tables_that_repeat_are_atoms() -> None:
    rng = np.random.default_rng(0)
    for rows, share in ((150, 0.15), (400, 0.06), (800, 0.05)):
        smooth = np.rint(rng.gamma(7, 15, rows))
        values = np.where(np.arange(rows) < share * rows, 150, smooth)
        assert atoms_of(values, 1.0) == [150.0]


@pytest.mark.parametrize("rows", [100, 400, 1000])
@pytest.mark.parametrize("step", [0.01, 0.1, 1.0, None])
def test_false_atoms_are_rare(rows: int, step: float | None) -> None:
    rng = np.random.default_rng(rows)
    found = 0
    for _ in range(60):
        values = np.concatenate([rng.normal(0, 4, rows // 2), rng.gamma(2, 3, rows - rows // 2)])
        values = values if step is None else step * np.rint(values / step)
        found += len(atoms_of(values, step))
    assert found == 0


def test_tables_of_few_values() -> None:
    assert is_table(np.array([300, 200]))
    assert not is_table(np.array([500]))
    assert not is_table(np.array([300, 200, 1]))
    assert not is_table(np.array([8, 9]))
    assert not is_table(np.full(61, 100))
    assert not is_table(np.array([200] * 11 + [3]))  # rare values beside many: others may follow


# Bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "step", "bounds"),
    [
        (np.linspace(0.01, 900, 500), None, (0, None)),
        (np.linspace(-0.01, 900, 500), None, (None, None)),
        (np.linspace(150, 200, 500), None, (None, None)),
        (np.linspace(0.01, 0.99, 500), None, (0, 1)),
        (np.linspace(0.4, 0.6, 500), None, (None, None)),
        (np.linspace(0.5, 100, 500), None, (0, 100)),
        (np.linspace(0.5, 97, 500), None, (0, None)),
        (np.arange(500) % 50 + 17, 1.0, (17, 66)),
        (np.append(np.arange(300) % 60 - 30, [30] * 60), 1.0, (None, 30)),
        (np.linspace(0.01, 1, 50), None, (None, None)),  # too few
        (np.geomspace(0.005, 6000, 40), None, (0, None)),  # few, but far from normal
        (np.append(np.geomspace(0.005, 6000, 40), -1.0), None, (None, None)),
        (np.linspace(2, 9, 60), None, (None, None)),
    ],
)
def test_bounds(values: Any, step: float | None, bounds: tuple[Any, Any]) -> None:
    distinct, counts = counted(values)
    atoms = find_atoms(distinct, counts, step)
    found = find_bounds(distinct, counts, atoms, step)
    assert (found.lower, found.upper) == bounds
