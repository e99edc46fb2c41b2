"""The open tail of a column with one bound: exact, smooth at the knot, and kept in files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from marginals import Continuous, Integer
from marginals.columns import Schema
from marginals.columns.axis import quiet
from marginals.columns.inference import infer

# Where each kind has its bound, and in which direction it is open.
KINDS = {
    "positive": (Continuous(lower=0), 0.0, 1.0),
    "negative": (Continuous(upper=-3), -3.0, -1.0),
    "with an atom": (Continuous(lower=0, atoms=(0,)), 0.0, 1.0),
    "integer": (Integer(lower=0), 0.0, 1.0),
    "integer below": (Integer(upper=7), 7.0, -1.0),
    "rounded": (Continuous(lower=0, resolution=0.5), 0.0, 1.0),
}


def inferred(kind, bound, side):
    distances = np.exp(np.linspace(1, 6, 201))
    lattice = isinstance(kind, Integer) or kind.resolution is not None
    values = bound + side * (np.rint(distances) if lattice else distances)
    column = infer(pd.DataFrame({"x": values}), {"x": kind}).columns[0]
    return column, values


@pytest.mark.parametrize("name", KINDS)
def test_numbers_come_back_from_far_beyond_the_data(name):
    kind, bound, side = KINDS[name]
    column, _ = inferred(*KINDS[name])
    numbers = bound + side * np.rint(np.geomspace(60, 1e12, 200))
    numbers -= column.reference if isinstance(kind, Integer) else 0
    with quiet():
        model = column.axis.point(numbers)
        back = column.axis.numbers(model)
    assert (np.diff(side * model) > 0).all()
    np.testing.assert_allclose(back, numbers, rtol=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_values_of_the_data_stay_on_the_logarithm(name):
    column, values = inferred(*KINDS[name])
    bare = replace(column, knot=None)
    numbers = values - (column.reference if isinstance(column.kind, Integer) else 0)
    with quiet():
        assert (column.axis.point(numbers) == bare.axis.point(numbers)).all()
        far = np.array([numbers.mean() + KINDS[name][2] * 1e6])
        assert abs(column.axis.point(far)) > 2 * abs(bare.axis.point(far))


@pytest.mark.parametrize("name", ["positive", "negative"])
def test_the_slope_is_the_derivative_and_has_no_jump(name):
    column, values = inferred(*KINDS[name])
    _, bound, side = KINDS[name]
    edge = np.abs(values - bound).max()
    numbers = bound + side * edge * np.array([0.5, 1 - 1e-9, 1 + 1e-9, 2, 50, 1e6])
    step = 1e-6 * np.abs(numbers - bound)
    with quiet():
        axis = column.axis
        rise = (axis.point(numbers + step) - axis.point(numbers - step)) / (2 * step)
        slope = axis.exact(numbers).log_slope
    np.testing.assert_allclose(slope, np.log(rise), atol=1e-5)
    assert abs(slope[2] - slope[1]) < 1e-8


def test_cells_of_a_lattice_tile_the_line_beyond_the_data():
    column, _ = inferred(*KINDS["integer"])
    k = np.arange(0, 5000.0) - column.reference
    with quiet():
        lower, upper = column.axis.rounded(k)
    assert lower[0] == -np.inf
    assert (lower[1:] == upper[:-1]).all()
    assert (lower < upper).all()


@pytest.mark.parametrize(
    "kind", [Continuous(), Continuous(lower=0, upper=1e6), Integer(), Integer(lower=0, upper=999)]
)
def test_only_a_column_with_one_bound_has_a_knot(kind):
    column, _ = inferred(kind, 0.0, 1.0)
    assert column.knot is None


def test_the_knot_is_part_of_the_schema():
    schema = Schema(tuple(replace(inferred(*KINDS[n])[0], name=n) for n in KINDS))
    stored = json.loads(json.dumps(schema.to_dict()))
    assert Schema.from_dict(stored) == schema
    assert all(isinstance(column.knot, float) for column in schema)
    stored["columns"][0]["knot"] = float("nan")
    with pytest.raises(ValueError, match="schema"):
        Schema.from_dict(stored)
