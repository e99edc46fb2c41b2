"""Columns with one bound on a line: exact, without mass beyond the bound, and kept in files."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous, Integer
from marginals.columns import Schema
from marginals.columns.axis import quiet
from marginals.columns.bound_scales import Distances, choose_lengths
from marginals.columns.column_axis import standardised
from marginals.columns.inference import infer
from marginals.columns.lattice_axis import LatticeAxis

KINDS: dict[str, tuple[Any, float, float]] = {
    "positive": (Continuous(lower=0), 0.0, 1.0),
    "negative": (Continuous(upper=-3), -3.0, -1.0),
    "with an atom": (Continuous(lower=0, atoms=(0,)), 0.0, 1.0),
    "integer": (Integer(lower=0), 0.0, 1.0),
    "integer below": (Integer(upper=7), 7.0, -1.0),
    "rounded": (Continuous(lower=0, resolution=0.5), 0.0, 1.0),
    "rounded, with an atom": (Continuous(lower=0, resolution=0.5, atoms=(0.0,)), 0.0, 1.0),
}


def on_a_line(name: str, length: float = 40.0) -> tuple[Any, Any]:
    """Return a column on a line, and its values."""
    kind, bound, side = KINDS[name]
    lattice = isinstance(kind, Integer) or kind.resolution is not None
    distances = np.linspace(20, 400, 201)
    values = bound + side * (np.rint(distances) if lattice else distances)
    column = infer(pd.DataFrame({"x": values}), {"x": kind}).columns[0]
    column = replace(column, line=length, soft=0.0, atoms=())
    with quiet():
        return standardised(column, values - column.reference * isinstance(kind, Integer)), values


@pytest.mark.parametrize("name", KINDS)
def test_numbers_come_back_from_everywhere(name: str) -> None:
    kind, bound, side = KINDS[name]
    column, _ = on_a_line(name)
    away = np.concatenate([np.arange(1.0, 60.0), np.rint(np.geomspace(61, 1e9, 200))])
    numbers = bound + side * away - column.reference * isinstance(kind, Integer)
    with quiet():
        model = column.axis.point(numbers)
        back = column.axis.numbers(model)
    assert (np.diff(side * model) > 0).all()
    np.testing.assert_allclose(back, numbers, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["positive", "negative"])
def test_the_slope_is_the_derivative(name: str) -> None:
    _, bound, side = KINDS[name]
    column, _ = on_a_line(name)
    away = np.array([1e-4, 0.1, 1.0, 40.0, 400.0, 1e6])
    numbers, step = bound + side * away, 1e-6 * away
    with quiet():
        axis = column.axis
        rise = (axis.point(numbers + step) - axis.point(numbers - step)) / (2 * step)
        slope = axis.exact(numbers).log_slope
    np.testing.assert_allclose(slope, np.log(rise), atol=1e-4)


def test_far_from_the_bound_the_scale_is_a_line() -> None:
    column, _ = on_a_line("positive")
    with quiet():
        model = column.axis.point(np.array([1000.0, 2000.0, 3000.0]))
        near = column.axis.point(np.array([1e-9, 1e-8, 1e-7]))
    np.testing.assert_allclose(np.diff(model), 1000 / column.scale, rtol=1e-9)
    np.testing.assert_allclose(np.diff(near), 40 * np.log(10) / column.scale, rtol=1e-6)
    assert column.knot is None


@pytest.mark.parametrize("name", ["integer", "integer below", "rounded", "rounded, with an atom"])
def test_cells_tile_the_line(name: str) -> None:
    kind, bound, side = KINDS[name]
    column, values = on_a_line(name)
    axis = column.axis
    assert isinstance(axis, LatticeAxis)
    every = bound + side * np.arange(0.0, 900.0) * axis.step
    every = np.sort(every) - column.reference * isinstance(kind, Integer)
    with quiet():
        lower, upper = axis.rounded(every)
        seen = values - column.reference * isinstance(kind, Integer)
        table = axis.cells(*np.sort(axis.point(np.array([seen.min(), seen.max()]))))
    assert (lower[1:] == upper[:-1]).all()
    assert (lower < upper).all()
    assert np.isinf(lower[0] if side > 0 else upper[-1])
    assert table is not None
    np.testing.assert_allclose(table.widths[30:-30], np.diff(table.ends)[30:-30], rtol=1e-2)


def test_the_line_is_part_of_the_schema() -> None:
    schema = Schema(tuple(replace(on_a_line(n)[0], name=n) for n in KINDS))
    stored = json.loads(json.dumps(schema.to_dict()))
    assert Schema.from_dict(stored) == schema
    stored["columns"][0]["line"] = -1.0
    with pytest.raises(ValueError, match="schema"):
        Schema.from_dict(stored)


# The choice ---------------------------------------------------------------------------------------


def ingredients(rows: int = 400) -> pd.DataFrame:
    """Return parts of a mix, one of them often left out, whose sum is nearly constant."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet([9, 5, 7], rows) * 100
    parts[:, 0] += parts[:, 1] * (without := rng.random(rows) < 0.4)
    parts[without, 1] = 0.0
    names = ["sand", "ash", "water"]
    return pd.DataFrame(parts.round(1), columns=names)


def test_parts_of_a_sum_are_on_a_line_and_sizes_on_a_logarithm() -> None:
    assert all(column.line > 0 for column in infer(ingredients()))
    rng = np.random.default_rng(0)
    size = rng.lognormal(3, 0.6, 400)
    frame = pd.DataFrame({"side": size, "area": size**2 * rng.lognormal(0, 0.05, 400)}).round(2)
    schema = infer(frame)
    assert [column.kind.lower for column in schema] == [0, 0]  # type: ignore[union-attr]
    assert not any(column.line for column in schema)


def test_what_leaves_no_choice() -> None:
    frame = ingredients()
    assert not any(c.line for c in infer(frame, guess=False))
    assert not any(c.line for c in infer(frame[["sand"]]))  # without others to depend on
    assert not any(c.line for c in infer(frame.iloc[:15]))  # few rows
    many = pd.concat([frame] * 13, ignore_index=True)  # normal scores
    assert not any(c.line for c in infer(many))
    # A column whose first value is observed would have a range there.
    counts = pd.DataFrame({"n": np.arange(300) % 7, "m": np.arange(300) % 11 + 50.0})
    assert not infer(counts, {"n": Integer(lower=0)})["n"].line


def test_missing_and_constant_cells_do_not_break_the_choice() -> None:
    frame = ingredients()
    frame["x"], frame["y"] = np.nan, 3.0
    frame.iloc[::3, 0] = np.nan
    schema = infer(frame.assign(y=3.0), {"x": Continuous(lower=0), "y": Continuous(lower=0)})
    assert all(schema[name].line > 0 for name in ("sand", "ash", "water"))
    assert choose_lengths([Distances(np.full(50, np.nan)), np.full(50, np.nan)]) == [0.0, 0.0]


@pytest.mark.parametrize("size", [1e-310, 1e-300, 1e150, 1e300, 1e307])
def test_numbers_of_any_size_have_a_scale(size: float) -> None:
    values = np.random.default_rng(0).exponential(1, 200) + 0.01
    frame = pd.DataFrame({"a": values * size, "b": values[::-1], "c": values[::-1] * size})
    schema = infer(frame, {c: Continuous(lower=0) for c in frame})
    assert all(np.isfinite(column.line) and column.line >= 0 for column in schema)


def test_sums_are_kept_and_no_draw_is_beyond_a_bound() -> None:
    frame = ingredients()
    model = MDMA(random_state=0, max_seconds=3, n_jobs=1, progress=False).fit(frame)
    draws = model.sample(1000, random_state=0)
    assert (draws >= 0).all(axis=None)
    assert model.prob({"ash": (None, 0)}) == pytest.approx((frame["ash"] == 0).mean(), abs=0.05)
    given = frame[["sand", "ash"]].iloc[:50]
    error = model.mean("water", given=given) - (100 - given.sum(axis=1))
    assert np.abs(error).median() < 1.5  # of a deviation of 10
