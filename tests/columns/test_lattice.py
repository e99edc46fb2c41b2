"""The cells of integer and rounded columns tile the line, so that masses sum to one."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marginals.columns import Continuous, Integer, decode, encode, encode_bounds, encode_values
from tests.columns.helpers import INF, cells, same, schema_of

LATTICES = {
    "integer": (Integer(), np.arange(-5, 40)),
    "lower": (Integer(lower=3), np.arange(3, 60)),
    "upper": (Integer(upper=9), np.arange(-40, 10)),
    "both": (Integer(0, 10), np.arange(11)),
    "two values": (Integer(0, 1), np.arange(2)),
    "far bounds": (Integer(0, 2**62), np.arange(2**61, 2**61 + 20)),
    "cents": (Continuous(lower=0, resolution=0.01), np.arange(400) / 100),
    "tenths": (Continuous(0, 1, resolution=0.1), np.arange(11) / 10),
    "free": (Continuous(resolution=0.25), np.arange(-40, 40) / 4),
    "hundreds": (Continuous(-500, 500, resolution=100), np.arange(-500, 600, 100)),
    "odd bounds": (Continuous(0, 1, resolution=0.35), np.array([0.0, 0.35, 0.7])),
    "days": (
        Continuous(pd.Timestamp("2020"), resolution=pd.Timedelta("1D")),
        pd.date_range("2020", periods=40),
    ),
    "hours": (Continuous(resolution=pd.Timedelta("1h")), pd.to_timedelta(range(30), "h")),
}


@pytest.mark.parametrize("name", LATTICES)
def test_cells_tile_the_line(name: str) -> None:
    kind, values = LATTICES[name]
    schema = schema_of(values, kind)
    low, high, _ = cells(schema, values)
    assert (low < high).all()
    same(high[:-1], low[1:])
    assert np.isfinite(low[1:]).all()
    assert (low[0] == -INF) == (kind.lower is not None and name != "far bounds")
    assert (high[-1] == INF) == (kind.upper is not None and name != "far bounds")
    middle, log_jacobian = encode_values(schema, "x", values)
    assert middle.isfinite().all()
    assert ((torch.from_numpy(low) < middle) & (middle < torch.from_numpy(high))).all()
    same(log_jacobian, np.zeros(len(values)))
    # The masses of the values, and of all that lies below and above those shown, sum to one.
    below = encode_bounds(schema, "x", [None, values[-1]], [values[0], None])
    mass = torch.sigmoid(torch.from_numpy(high)) - torch.sigmoid(torch.from_numpy(low))
    outside = torch.where(below[0] < below[1], below[1].sigmoid() - below[0].sigmoid(), 0.0)
    assert float(mass[1:].sum() + outside.sum()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("name", LATTICES)
def test_an_interval_is_the_cells_inside(name: str) -> None:
    kind, values = LATTICES[name]
    schema = schema_of(values, kind)
    low, high, _ = cells(schema, values)
    last = len(values) - 1
    for start, end in {(0, last), (0, 1), (last - 1, last), (last // 2, last)}:
        if start < end:
            got = encode_bounds(schema, "x", values[start], values[end])
            same(torch.cat(got), [low[start + 1], high[end]])
    equal = encode_bounds(schema, "x", values, values)
    same(equal[0], low)
    same(equal[1], high)


def test_intervals_of_integers_are_cells_of_the_lattice() -> None:
    schema = schema_of([1, 2, 3, 4, 5], Integer(1, 5))
    at_low, at_high, _ = cells(schema, [1, 2, 3, 4, 5])
    low, high, _ = cells(schema, [2, 2.5, 1, -INF, 0, 4, 3], [4, 4.9, 1, 2, 9, INF, 3])
    same(low, [at_low[2], at_low[2], -INF, -INF, -INF, at_low[4], at_low[2]])
    same(high, [at_high[3], at_high[3], at_high[0], at_high[1], INF, INF, at_high[2]])


def test_intervals_of_rounded_columns() -> None:
    x = np.arange(11) / 10
    schema = schema_of(x, Continuous(0, 1, resolution=0.1))
    at_low, at_high, _ = cells(schema, x)
    low, high, _ = cells(schema, [0.1 + 0.2, 0.25, -5.0], [0.7, 0.75, 0.1 * 3])
    same(low, [at_low[4], at_low[3], -INF])
    same(high, [at_high[7], at_high[7], at_high[3]])


def test_values_off_the_lattice_are_rounded_to_it() -> None:
    schema = schema_of([0.0, 0.5, 1.0], Continuous(0, 1, resolution=0.5))
    want = cells(schema, [0.5, 0.5, 1.0])
    got = cells(schema, [0.4, 0.1 + 0.4, 0.99])
    same(got[0], want[0])
    same(got[1], want[1])


def test_where_the_lattice_starts() -> None:
    for values, kind, offset in [
        ([0.1, 0.4], Continuous(resolution=0.1), 0.0),
        ([0.15, 0.45], Continuous(lower=0.05, resolution=0.1), 0.05),
        ([0.1, 0.4], Continuous(lower=0.05, resolution=0.1), 0.0),
        ([0.15, 0.45], Continuous(upper=1.05, resolution=0.1), 1.05),
        ([0.17, 0.27], Continuous(resolution=0.1), 0.07),
        ([0.17, 0.2], Continuous(lower=0.1, resolution=0.1), 0.1),
        ([np.nan], Continuous(lower=0.2, upper=0.3, resolution=1.0), 0.2),
    ]:
        assert schema_of(values, kind)["x"].offset == pytest.approx(offset)


@given(
    st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=20, unique=True),
    st.booleans(),
    st.booleans(),
)
def test_cells_of_any_integers(values: list[int], lower: bool, upper: bool) -> None:
    values = sorted(values)
    kind = Integer(values[0] if lower else None, values[-1] if upper else None)
    schema = schema_of(values, kind)
    low, high = encode_bounds(schema, "x", values, values)
    assert (low < high).all()
    assert (high[:-1] <= low[1:]).all()
    assert (low[0] == -INF) == lower
    assert (high[-1] == INF) == upper


def test_a_value_of_a_fine_lattice_is_the_middle_of_its_cell() -> None:
    values = np.arange(0, 5000, 50)
    schema = schema_of(values, Integer())
    out = encode(schema, pd.DataFrame({"x": values}))
    low, high = encode_bounds(schema, "x", values, values)
    assert out.evidence.upper is out.evidence.lower
    np.testing.assert_allclose(out.evidence.lower[:, 0], (low + high) / 2, atol=1e-12)
    np.testing.assert_allclose(out.log_jacobian, (high - low).log())
    same(decode(schema, out.evidence.lower)["x"], values)
    coarse = schema_of(values // 50, Integer())  # 29 steps in a standard deviation
    assert encode(coarse, pd.DataFrame({"x": values // 50})).evidence.intervals
    bounded = schema_of(values, Integer(lower=0))  # the first cell reaches down to -inf
    assert encode(bounded, pd.DataFrame({"x": values})).evidence.intervals


@given(
    st.integers(-1000, 1000),
    st.integers(1, 300),
    st.sampled_from([0.001, 0.05, 0.1, 0.3, 7.0]),
    st.data(),
)
def test_intervals_of_any_lattice(first: int, count: int, step: float, data: Any) -> None:
    values = (first + np.arange(count + 1)) * step
    bounds = data.draw(st.sampled_from([(None, None), (values[0], None), (values[0], values[-1])]))
    schema = schema_of(values, Continuous(*bounds, resolution=step))
    low, high, _ = cells(schema, values)
    same(high[:-1], low[1:])
    i, j = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    if i < j:
        # Ends anywhere between two values count like the lower of them.
        shift = data.draw(st.sampled_from([0.0, 0.3, 0.9])) * step
        got = encode_bounds(schema, "x", values[i] + shift, values[j] + shift)
        same(torch.cat(got), [low[i + 1], high[j]])
