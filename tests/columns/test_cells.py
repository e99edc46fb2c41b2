"""Cells of a dict: values, pairs, pandas intervals and sets become evidence."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from marginals.cells.cell import Interval, contains
from marginals.cells.evidence import Evidence
from marginals.columns import (
    Continuous,
    Integer,
    Schema,
    encode,
    encode_bounds,
    encode_cells,
    infer,
)
from marginals.columns.axis import quiet
from marginals.columns.lattice_axis import LatticeAxis
from tests.columns.helpers import INF, NAN, same
from tests.examples import examples

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 45],
        "income": [1.5, 20.0, 100.0],
        "city": ["Oslo", "Bergen", "Oslo"],
        "size": pd.Categorical(list("SML"), categories=["S", "M", "L"], ordered=True),
        "day": pd.date_range("2020-01-01", periods=3, tz="Europe/Oslo"),
        "smokes": [True, False, True],
        "bin": pd.cut([1.0, 2.0, 3.0], [0, 1.5, 4]),
        "rain": [0.0, 0.5, 3.0],
    }
)


@pytest.fixture(scope="module")
def schema() -> Schema:
    given = {"age": Integer(lower=0), "rain": Continuous(lower=0, atoms=(0,))}
    return infer(FRAME, given)


def known(schema: Schema, **cells: Any) -> tuple[Evidence, list[float]]:
    evidence = encode_cells(schema, cells).evidence
    return evidence, [*evidence.lower[0].tolist(), *evidence.upper[0].tolist()]


def test_values_are_those_of_a_frame(schema: Schema) -> None:
    for row in range(3):
        one = FRAME.iloc[[row]]
        cells = {name: one[name].iloc[0] for name in FRAME}
        out, table = encode_cells(schema, cells), encode(schema, one)
        assert out.evidence.columns == table.evidence.columns
        same(out.evidence.lower, table.evidence.lower)
        same(out.evidence.upper, table.evidence.upper)
        same(out.log_jacobian, table.log_jacobian)
        assert not out.empty.item()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("age", [30, 30.0, np.int8(30), np.float32(30), torch.tensor(30), np.array(30)]),
        ("income", [20.0, 20, np.int64(20), torch.tensor(20.0)]),
        ("city", ["Oslo", np.str_("Oslo")]),
        ("smokes", [True, np.True_, 1, 1.0]),
        (
            "day",
            [
                pd.Timestamp("2020-01-02", tz="Europe/Oslo"),
                pd.Timestamp("2020-01-01 23:00", tz="UTC"),
                "2020-01-02",
                "2020-01-02T00:00:00",
                "2020-01-02 00:00+01:00",
                pd.Timestamp("2020-01-02", tz="Europe/Oslo").to_pydatetime(),
                pd.Timestamp("2020-01-02").date(),
            ],
        ),
    ],
)
def test_many_ways_to_say_the_same(schema: Schema, name: str, values: list[Any]) -> None:
    first = known(schema, **{name: values[0]})[1]
    for value in values[1:]:
        assert known(schema, **{name: value})[1] == first


def test_pairs(schema: Schema) -> None:
    for name, low, high in [
        ("income", 1.5, 20.0),
        ("income", None, 20.0),
        ("income", 1.5, None),
        ("age", 20, 30),
        ("age", None, 30.5),
        ("day", "2020-01-01", "2020-01-02"),
        ("day", None, FRAME["day"][1]),
        ("size", "S", "L"),
        ("size", None, "M"),
        ("rain", 0, 0.5),
    ]:
        want = torch.cat(encode_bounds(schema, name, low, high)).tolist()
        evidence, got = known(schema, **{name: (low, high)})
        assert got == want
        assert evidence.intervals == {schema.index(name)}
        assert encode_cells(schema, {name: (low, high)}).log_jacobian.item() == 0


def test_ends_that_mean_the_same(schema: Schema) -> None:
    for name, one, other in [
        ("income", (20, 20), 20),
        ("age", (30, 30), 30),
        ("size", ("M", "M"), "M"),
        ("income", (-INF, 20), (None, 20)),
        ("income", (NAN, 20), (None, 20)),
        ("income", pd.Interval(2, 20), (2, 20)),
        ("income", pd.Interval(2, 20, "both"), (2, 20)),
        ("age", pd.Interval(2, 20), (2, 20)),
        ("age", pd.Interval(2, 20, "left"), (1, 19)),
        ("age", pd.Interval(2, 20, "both"), (1, 20)),
        ("age", pd.Interval(2, 20, "neither"), (2, 19)),
        ("age", {21, 22, 23}, (20, 23)),
        ("age", [30], 30),
        ("rain", pd.Interval(0, 3, "both"), (-1, 3)),
    ]:
        assert known(schema, **{name: one})[1] == known(schema, **{name: other})[1], (name, one)
    # Where intervals are the categories, one is a category.
    assert known(schema, bin=FRAME["bin"][2])[1] == [1, 1]


def test_sets(schema: Schema) -> None:
    for cell in ({"Oslo"}, frozenset(["Oslo"]), ["Oslo"]):
        evidence = encode_cells(schema, {"city": cell}).evidence
        assert evidence.sets[2].tolist() == [[False, True]]
        assert evidence.lower.isnan().all()
    assert known(schema, smokes={True, False})[0].sets[5].tolist() == [[True, True]]
    assert known(schema, size={"S", "L"})[0].sets[3].tolist() == [[True, False, True]]
    mixed = known(schema, city={"Oslo"}, age=(20, 30), income=1.5)[0]
    assert mixed.columns == (2, 0, 1)
    assert mixed.sets.keys() == {2}
    assert mixed.intervals == {0}
    assert not mixed.missing().any()


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT, (None, None), (-INF, INF)])
def test_missing_tells_nothing(schema: Schema, missing: Any) -> None:
    for name in ("age", "income", "day"):
        if isinstance(missing, tuple) and missing[0] is not None and name == "day":
            continue  # a time has no infinity
        evidence = encode_cells(schema, {name: missing}).evidence
        assert evidence.missing().all()
        assert evidence.lower.isnan().all()
    if not isinstance(missing, tuple):
        assert encode_cells(schema, {"city": missing}).evidence.missing().all()


def test_columns_by_position(schema: Schema) -> None:
    assert encode_cells(schema, {1: 20.0, "age": 30}).evidence.columns == (1, 0)
    with pytest.raises(ValueError, match="each column once"):
        encode_cells(schema, {1: 20.0, "income": 30})
    nothing = encode_cells(schema, {}).evidence
    assert (len(nothing), nothing.columns) == (1, ())


def test_empty_events(schema: Schema) -> None:
    for cell in ((30.2, 30.8), (-9, -1)):
        out = encode_cells(schema, {"age": cell})
        assert out.empty.tolist() == [True]
        assert out.evidence.missing().all()
    assert encode_cells(schema, {"rain": (-5, -1)}).empty.item()
    assert not encode_cells(schema, {"rain": (-5, 0)}).empty.item()
    assert encode_cells(schema, {"age": -3}, strict="none").empty.item()
    assert encode_cells(schema, {"size": ("L", None)}).empty.item()


@pytest.mark.parametrize(
    ("cells", "error", "match"),
    [
        ({"agee": 3}, ValueError, "got 'agee'. Did you mean 'age'?"),
        ({"age": "old"}, TypeError, r"'age' \(int64\) to hold numbers; got 'old' \(.*\)\. Convert"),
        ({"age": True}, TypeError, "to hold numbers; got True"),
        ({"age": 1.5}, ValueError, "whole numbers; got 1.5. Round"),
        ({"age": -1}, ValueError, r"lie in \[0, inf\]; got -1\."),
        ({"age": (30, 20)}, ValueError, "ends; got 30 and 20. Swap"),
        ({"age": (1, 2, 3)}, TypeError, r"pair \(low, high\) for column 'age'; got \(1, 2, 3\)"),
        ({"age": [(1, 2), [5]]}, TypeError, "list for column 'age'.*flat list"),
        ({"income": np.array([1.5])}, TypeError, "for column 'income'; got ndarray.*DataFrame"),
        ({"income": {"a": 1}}, TypeError, "for column 'income'; got dict"),
        ({"income": INF}, ValueError, "finite numbers; got inf. For an open end"),
        ({"income": (INF, INF)}, ValueError, "finite numbers; got inf"),
        ({"income": (INF, None)}, ValueError, "finite values"),
        ({"income": ("a", 3)}, TypeError, "numbers; got 'a'"),
        ({"rain": -1}, ValueError, "above its bound 0; got -1. Correct"),
        ({"city": "Rome"}, ValueError, "one of 'Bergen', 'Oslo'; got 'Rome'. Leave"),
        ({"city": {"Rome", "Oslo"}}, ValueError, "got 'Rome'"),
        ({"city": set()}, ValueError, r"set for column 'city' to hold values; got \[\]"),
        ({"city": {"Oslo", None}}, ValueError, "none that is missing"),
        ({"city": ("Bergen", "Oslo")}, TypeError, "no order; got an interval from 'Bergen' to 'Os"),
        ({"city": ("Bergen", None)}, TypeError, "no order; got an interval"),
        ({"size": ("L", "S")}, ValueError, "got L and S. Swap"),
        ({"day": 3}, TypeError, "to hold times; got 3"),
        ({"day": "soon"}, TypeError, "to hold times such as"),
        ({"day": pd.Timestamp("2020")}, TypeError, "no time zone"),
        ({"day": ("2020-01-03", "2020-01-01")}, ValueError, "Swap the ends"),
    ],
)
def test_errors(schema: Schema, cells: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        encode_cells(schema, cells)


# The law: an interval holds a value exactly if the value's cell is inside of the interval's. ------

POINTS = {
    "age": [float(k) for k in range(-3, 8)],
    "price": [k / 100 for k in range(8)],
    "rain": [0.0, 2.5],
}
NUMBERS = pd.DataFrame({"age": [20, 30, 45], "price": [0.01, 9.99, 12.5], "rain": [0, 0, 3.5]})
NUMBERS_SCHEMA = infer(
    NUMBERS,
    {
        "age": Integer(),
        "price": Continuous(lower=0, resolution=0.01),
        "rain": Continuous(lower=0, atoms=(0, 2.5)),
    },
)


@examples(300)
@given(st.data())
def test_intervals_hold_the_values_that_they_should(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(list(POINTS)))
    points = POINTS[column]
    ends = st.none() | st.sampled_from([*points, *(np.array(points) + 0.0025).tolist()])
    interval = data.draw(st.builds(Interval, ends, ends, st.booleans(), st.booleans()))
    assume(interval.low is None or interval.high is None or interval.low <= interval.high)
    whole = encode_cells(NUMBERS_SCHEMA, {column: interval})
    low, high = whole.evidence.lower.item(), whole.evidence.upper.item()
    for point in points:
        cell = encode_cells(NUMBERS_SCHEMA, {column: point}, strict="none").evidence
        lower, upper = cell.lower.item(), cell.upper.item()
        if np.isnan(low):
            within = not whole.empty.item()
        elif low == high:
            within = upper == high
        else:
            within = (low < lower if lower == upper else low <= lower) and upper <= high
        if not np.isnan(lower):  # below the bound of a column
            assert within == contains(interval, point), (interval, point)


@pytest.mark.parametrize(
    "kind",
    [
        Integer(),
        Integer(lower=-3),
        Integer(upper=40),
        Integer(lower=-3, upper=40),
        Continuous(resolution=0.25),
        Continuous(lower=-3, resolution=0.5),
    ],
)
def test_tables_of_lattices(kind: Any) -> None:
    values = np.arange(2, 30)
    frame = pd.DataFrame({"n": values if isinstance(kind, Integer) else values / 2})
    schema = infer(frame, {"n": kind})
    cells = encode(schema, frame).evidence
    axis = schema["n"].axis
    assert isinstance(axis, LatticeAxis)
    table = axis.cells(float(cells.lower.min()), float(cells.upper.max()))
    assert table is not None
    assert len(table.ends) == len(table) + 1
    # Every value is one cell of the table, and the points are the middles of their cells.
    place = np.searchsorted(table.ends, cells.midpoints()[:, 0].numpy()) - 1
    assert_allclose(table.ends[place], cells.lower[:, 0], atol=1e-12)
    assert_allclose(table.ends[place + 1], cells.upper[:, 0], atol=1e-12)
    with quiet():
        inside = slice(table.below, len(table) - table.above)
        known = table.points[inside]
        assert_allclose(axis.point(axis.numbers(known)), known, atol=1e-9)
    # The widths are slopes: those of cells but for their bend.
    assert_allclose(np.diff(table.ends)[4:-4], table.widths[4:-4], rtol=0.02)
    assert (np.diff(table.ends) > 0.7 * table.widths).all()


def test_too_many_cells_have_no_table() -> None:
    frame = pd.DataFrame({"n": np.arange(0, 100_000, 7)})
    schema = infer(frame, {"n": Integer(lower=-5)})
    low, high = encode(schema, frame.iloc[[0, -1]]).evidence.lower[:, 0].tolist()
    axis = schema["n"].axis
    assert isinstance(axis, LatticeAxis)
    assert axis.cells(low, high) is None
    table = axis.cells(high - 0.2, high)
    assert table is not None
    assert 2 * 256 < len(table) < 4096


def test_outliers_at_a_bound_do_not_widen_the_steps_of_all() -> None:
    rng = np.random.default_rng(0)
    sizes = np.round(rng.normal(6, 1, 5000).clip(4), 2)
    plain, outlying = (
        infer(pd.DataFrame({"x": values}), {"x": Continuous(lower=0, resolution=0.01)})["x"]
        for values in (sizes, np.append(sizes, [0.0, 0.0]))
    )
    assert plain.soft == 0
    axis = outlying.axis
    assert isinstance(axis, LatticeAxis)
    with quiet():
        table = axis.cells(*axis.point(np.array([0.0, sizes.max()]) - outlying.reference))
    assert table is not None
    assert 0.8 * table.widths.max() < 0.05  # of the column's deviation
    # Where values near the bound are no outliers, the scale is a logarithm from there on.
    trips = np.round(rng.lognormal(1, 0.7, 5000), 2)
    assert infer(pd.DataFrame({"x": trips}))["x"].soft == 0


@pytest.mark.parametrize("kind", [Integer(lower=0), Integer(upper=60), Integer(lower=0, upper=60)])
def test_soft_bounds_of_lattices(kind: Any) -> None:
    """Steps next to a bound are narrow enough to couple the column, and nothing else changes."""
    counts = np.random.default_rng(0).negative_binomial(2, 0.15, 400).clip(0, 60)
    frame = pd.DataFrame({"n": 60 - counts if kind.lower is None else counts})
    schema = infer(frame, {"n": kind})
    column = schema["n"]
    axis = column.axis
    assert isinstance(axis, LatticeAxis)
    assert column.soft > 0
    values = np.arange(61.0) - column.reference
    with quiet():
        lower, upper = axis.rounded(values)
        assert (lower[1:] == upper[:-1]).all()  # the cells tile the line
        assert (np.diff(upper[:-1]) > 0).all()
        assert_allclose(axis.numbers(axis.point(values)), values)
        table = axis.cells(*axis.point(values[[0, -1]]))
        assert table is not None
        assert (0.8 * table.widths <= 0.5).all()
        assert table.below >= (0 if kind.lower is None else 16)
        assert table.above >= (0 if kind.upper is None else 16)
        # Cells beyond the bounds belong to the first and the last value.
        beyond = table.points[: table.below], table.points[len(table) - table.above :]
        assert (axis.numbers(beyond[0]) == values[0]).all()
        assert (axis.numbers(beyond[1]) == values[-1]).all()
