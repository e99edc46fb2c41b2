"""Cells with two ends, and atoms, which an interval takes in or leaves out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.columns import Continuous, Integer, encode, infer
from tests.columns.helpers import INF, NAN, cells, ordered, same, schema_of, table

# Intervals ------------------------------------------------------------------------------------


def test_censored_cells() -> None:
    schema = schema_of([0.0, 1.0, 2.0])
    one = cells(schema, [1.0])[0][0]
    low, high, _ = cells(
        schema,
        [1.0, 1.0, -INF, NAN, 1.0, -INF, NAN],
        [1.0, INF, 1.0, 1.0, NAN, INF, NAN],
    )
    same(low, [one, one, -INF, -INF, one, NAN, NAN])
    same(high, [one, INF, one, one, INF, NAN, NAN])


def test_upper_ends_of_some_columns() -> None:
    frame = table()
    schema = infer(frame)
    evidence = encode(schema, frame, frame[["x"]] + 1).evidence
    assert evidence.intervals == {0, 1}
    plain = encode(schema, frame).evidence
    same(evidence.lower[:, [0, 2, 3]], plain.lower[:, [0, 2, 3]])
    same(evidence.upper[:, 3], plain.upper[:, 3])
    both = encode(schema, frame.to_numpy(object), frame.to_numpy(object)).evidence
    same(both.lower, plain.lower)


def test_times_with_open_ends() -> None:
    times = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]))
    schema = schema_of(times)
    at = cells(schema, times)[0]
    low, high, _ = cells(
        schema, pd.Series([pd.NaT, times[1], pd.NaT]), pd.Series([times[0], pd.NaT, pd.NaT])
    )
    same(low, [-INF, at[1], NAN])
    same(high, [at[0], INF, NAN])


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_interval_columns(closed: Any) -> None:
    left, right = [0.0, 1.0, -np.inf, NAN, 2.0], [1.0, 3.0, 2.0, NAN, 2.0]
    array = pd.arrays.IntervalArray.from_arrays(left, right, closed)
    schema = schema_of(array)
    assert schema["x"].location == pytest.approx(np.mean([0, 1, 2, 1, 3, 2, 2]))
    low, high, _ = cells(schema, array)
    pair = cells(schema, left, right)
    same(low, pair[0])
    same(high, pair[1])
    assert low[4] == high[4]
    same(cells(schema, [2.0])[0], low[4:])


def test_intervals_of_times() -> None:
    edges = pd.date_range("2020", periods=4, tz="UTC")
    array = pd.arrays.IntervalArray.from_breaks(edges)
    low, high, _ = cells(schema_of(array), array)
    same(high[:-1], low[1:])
    assert (low < high).all()


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_intervals_of_columns_with_mass_have_the_ends_they_say(closed: Any) -> None:
    array = pd.arrays.IntervalArray.from_tuples([(1, 3)], closed)
    inside = [k for k in (1, 2, 3) if pd.Interval(1, 3, closed).__contains__(k)]
    schema = schema_of([1, 2, 3, 4])
    at_low, at_high, _ = cells(schema, inside)
    low, high, _ = cells(schema, array)
    assert (low[0], high[0]) == (at_low[0], at_high[-1])
    atoms = schema_of([1.5, 2.5], Continuous(atoms=(1, 3)))
    points = cells(atoms, [1.0, 3.0])[0]
    low, high, _ = cells(atoms, array)
    holds = [bool(low[0] < point <= high[0]) for point in points]
    assert holds == [closed in ("left", "both"), closed in ("right", "both")]


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


def test_empty_intervals() -> None:
    schema = schema_of([1, 2, 3, 4], Integer(1, 4))
    low, _, empty = cells(schema, [2.1, 4, -3, 1], [2.9, 9, 0, 2])
    same(empty, [True, True, True, False])
    same(np.isnan(low), empty)
    bounded = schema_of([0.5, 0.7], Continuous(0, 1))
    assert cells(bounded, [-2, 1, 0, 1.5], [0, 2, 1, 3])[2].tolist() == [True, True, False, True]


def test_ordered_categories() -> None:
    low, high, empty = cells(ordered(), ["S", "S", None, "L"], ["M", "S", "M", None])
    same(low, [0, 0, -INF, NAN])
    same(high, [1, 0, 1, NAN])
    same(empty, [False, False, False, True])
    with pytest.raises(ValueError, match="got L and S in row 0"):
        cells(ordered(), ["L"], ["S"])


def test_tiny_intervals_keep_width() -> None:
    schema = schema_of([1e15, 2e15])
    low, high, _ = cells(schema, [1e15], [np.nextafter(1e15, 2e15)])
    assert low < high


# Atoms ----------------------------------------------------------------------------------------


def test_atoms_stand_for_themselves() -> None:
    x = [0.0, 1.0, 0.3, 0.5, 0.0]
    schema = schema_of(x, Continuous(0, 1, atoms=(0, 0.5, 1)))
    atoms = schema.atoms("x")
    assert atoms[0] == -1e6
    assert atoms[2] == 1e6
    low, high, _ = cells(schema, x)
    same(low[[0, 1, 3, 4]], [atoms[0], atoms[2], atoms[1], atoms[0]])
    same(low, high)
    out = encode(schema, pd.DataFrame({"x": x}))
    same(out.log_jacobian.numpy() != 0, [False, False, True, False, False])


def test_intervals_with_atoms() -> None:
    schema = schema_of([0.0, 0.3, 0.5, 1.0], Continuous(0, 1, atoms=(0, 0.5, 1)))
    zero, half, _ = schema.atoms("x")
    end = cells(schema, [0.3])[0][0]
    low, high, empty = cells(
        schema,
        [-1, 0, -1, 0.3, 0.3, 0.3, 0.5, 1, -3],
        [0.3, 0.3, 0, 0.5, 1, 0.7, 1, 2, -2],
    )
    # (-1, .] takes in the atom at 0 and (0, .] does not; ends on an atom meet it exactly.
    same(low[:7], [-INF, zero, -INF, end, end, end, half])
    same(high[:4], [end, end, zero, half])
    same(high[[4, 6]], [INF, INF])
    assert half < high[5] < 1e6
    same(empty, [False] * 7 + [True, True])


def test_atoms_at_bounds_are_beyond_all_other_values() -> None:
    # A narrow column: the values next to the bound lie far out on the model's scale.
    x = np.append(1 + 1e-12 * np.arange(10), 0)
    schema = schema_of(x, Continuous(lower=0, upper=2, atoms=(0, 2)))
    near = cells(schema, [5e-324, np.nextafter(2, 0)])[0]
    assert schema.atoms("x")[0] < near[0] < near[1] < schema.atoms("x")[1]


def test_neighbours_of_an_atom_are_no_atoms() -> None:
    schema = schema_of([1e10, 2e10, 1.0], Continuous(atoms=(1.0,)))
    around = np.nextafter([1.0, 1.0], [0.0, 2.0])
    low = cells(schema, around)[0]
    assert low[0] < schema.atoms("x")[0] < low[1]


def test_float32_columns_know_their_bounds_and_atoms() -> None:
    x = np.array([0.1, 0.2, 0.7], "float32")
    schema = schema_of(x, Continuous(lower=0.1, upper=0.7, atoms=(0.1, 0.7)))
    same(cells(schema, x)[0][[0, 2]], [-1e6, 1e6])
    same(cells(schema, [0.1, 0.7])[0], [-1e6, 1e6])
