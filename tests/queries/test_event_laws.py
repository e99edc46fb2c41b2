"""Events of one column: single values, open and closed ends, sets and evidence must agree."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from marginals import MDMA, Continuous, Discrete, Integer
from marginals.cells.cell import Exact, Interval, OneOf
from tests.examples import examples
from tests.robustness.questions import Refused, answer

ROWS = 200
# Values on, next to and off the lattice or the atoms of each column, and beyond its bounds.
VALUES: dict[str, list[Any]] = {
    "count": [2, 2.0, 1.9999999, 2.0000001, 2.5, -1, 0, 1e300, np.float32(3)],
    "days": [0, 3, 6, 6.5, 7, -1, 2.9999999],
    "wage": [41_000, 41_000.5, 40_999.9999999],
    "price": [0.3, float(np.float32(0.3)), 0.3 + 2e-10, 0.34, 0.0, -1.0, 0.1 + 0.2],
    "share": [0.3, 0.0, 1.0, 2.0, -1.0],
    "wait": [0.0, 0, 2.5, 1.0, -1.0, math.nextafter(0, 1), 60.0, 61.0, math.nextafter(2.5, 0)],
    "x": [100.0, 1e300, -5.5],
    "date": ["2020-03-01", "2020-03-01T12:00", "2019-01-01"],
    "time": ["2020-03-01", "2020-03-01T12:00", "1900-01-01"],
    "span": ["2 hours", "90 min"],
    "grade": ["a", "b", "c"],
    "cylinders": [4, 6, 8],
    "hours": [40, 39, 40.0000001, 40.5, 0, 99, 100],
    "term": [36, 60, 48, 59.9999999, 60.0000001, 0, 1e300],
    "paid": [0, 1, 500, 500.5, -1],
}
COLUMNS = st.sampled_from([(name, value) for name, values in VALUES.items() for value in values])


@pytest.fixture(scope="module", params=["ht", "copula"])
def model(request: pytest.FixtureRequest) -> MDMA:
    """A model of trees, and one that couples columns, among them lattices of several kinds."""
    rng = np.random.default_rng(0)
    wait = rng.choice([0, 1, 2], ROWS, p=[0.3, 0.2, 0.5])
    day = pd.to_timedelta(rng.integers(0, 400, ROWS), "D")
    frame = pd.DataFrame(
        {
            "count": rng.poisson(3, ROWS),
            "days": rng.integers(0, 7, ROWS),
            "wage": rng.normal(40_000, 9_000, ROWS).round().astype(int),
            "price": np.round(rng.gamma(2, 0.5, ROWS), 1),
            "share": rng.beta(2, 5, ROWS),
            "wait": np.choose(wait, [0.0, 2.5, rng.exponential(9.0, ROWS).clip(0.1, 59)]),
            "x": rng.normal(100, 20, ROWS),
            "date": pd.Timestamp("2020") + day,
            "time": pd.Timestamp("2020") + day + pd.to_timedelta(rng.random(ROWS), "h"),
            "span": pd.to_timedelta(rng.integers(1, 90, ROWS) * 5, "min"),
            "grade": pd.Categorical(rng.choice(list("abc"), ROWS), list("abc"), ordered=True),
            "cylinders": pd.Categorical(rng.choice([4, 6, 8], ROWS)),
            "hours": np.where(wait > 0, 40, rng.integers(0, 100, ROWS)),
            "term": rng.choice([36, 60], ROWS),
            "paid": np.where(wait > 1, 0, rng.integers(1, 9000, ROWS)),
        }
    )
    kinds: dict[Any, Any] = {
        "days": Integer(0, 6),
        "wage": Integer(),
        "price": Continuous(lower=0, resolution=0.1),
        "share": Continuous(0, 1),
        "wait": Continuous(0, 60, atoms=(0, 2.5, 60)),
        "date": Continuous(resolution=pd.Timedelta(days=1)),
        "span": Continuous(resolution=pd.Timedelta(minutes=5)),
        "hours": Integer(0, 99, atoms=(40,)),
        "term": Discrete(),
        "paid": Integer(0, atoms=(0,)),
    }
    tensor = request.param
    return MDMA(columns=kinds, tensor=tensor, width=8, max_steps=20, random_state=0).fit(frame)


def text_of(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) and " " in value else str(value)


def test_the_columns_are_of_every_kind(model: MDMA) -> None:
    assert list(model.schema_.names) == list(VALUES)
    axes = {type(column.axis).__name__ for column in model.schema_}
    assert axes == {"LatticeAxis", "SmoothAxis", "CodeAxis", "TableAxis"}
    cells = model.schema_["wage"].axis.exact(np.zeros(1))
    assert cells.lower == cells.upper  # a fine lattice


@examples(120)
@given(COLUMNS)
def test_a_value_is_what_closed_ends_add(model: MDMA, at: tuple[str, Any]) -> None:
    column, value = at
    cells = {
        "<": Interval(None, value),
        "<=": Interval(None, value, high_closed=True),
        "=": Exact(value),
        ">": Interval(value),
        ">=": Interval(value, low_closed=True),
    }
    p: dict[str, float] = {}
    for sign, cell in cells.items():
        written = f"P({column} {sign} {text_of(value)})"
        try:
            p[sign] = answer(model.prob, {column: cell})
        except Refused:
            # Single values of a continuous column have no probability, to both alike.
            assert sign == "=", written
            with pytest.raises(Refused):
                answer(model.query, written)
            p[sign] = 0.0
            continue
        assert answer(model.query, written).value == pytest.approx(p[sign], abs=1e-12)
    close = {"abs": 2e-6}  # in float32, in which models are fitted
    assert p["="] + p[">"] == pytest.approx(p[">="], **close)
    assert p["<"] + p["="] == pytest.approx(p["<="], **close)
    assert p["<"] + p[">="] == pytest.approx(1, **close)
    assert p["<="] + p[">"] == pytest.approx(1, **close)


NUMBERS = {
    name: [float(value) for value in VALUES[name]]
    for name in ("count", "days", "wage", "price", "wait")
}
SIDES = ("left", "right")


@examples(100)
@given(st.data())
def test_intervals_of_any_ends(model: MDMA, data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(list(NUMBERS)))
    low, high = sorted(data.draw(st.tuples(*[st.sampled_from(NUMBERS[column])] * 2)))
    assume(round(low, 6) < round(high, 6))  # nearer ones are the same value
    for closed in ("left", "right", "both", "neither"):
        found = model.prob({column: pd.Interval(low, high, closed)})
        below = Interval(None, low, high_closed=closed in ("right", "neither"))
        up_to = Interval(None, high, high_closed=closed in ("right", "both"))
        parts = [model.prob({column: cell}) for cell in (up_to, below)]
        assert found == pytest.approx(parts[0] - parts[1], abs=2e-6)
        signs = ["<=" if closed in (side, "both") else "<" for side in SIDES]
        written = f"P({low} {signs[0]} {column} {signs[1]} {high})"
        assert model.query(written).value == pytest.approx(found, abs=1e-12)
    assert model.prob({column: (low, high)}) == model.prob({column: pd.Interval(low, high)})


@examples(60)
@given(st.data())
def test_a_set_is_the_sum_of_its_values(model: MDMA, data: st.DataObject) -> None:
    columns = {**NUMBERS, "wait": [0.0, 2.5, 60.0, 61.0], "cylinders": [4, 6, 8]}
    column = data.draw(st.sampled_from(list(columns)))
    values = data.draw(st.sets(st.sampled_from(columns[column]), min_size=1, max_size=4))
    distinct = {round(float(value), 6): value for value in values}.values()
    known = {"grade": "b"} if data.draw(st.booleans()) else None
    single = sum(model.prob({column: Exact(value)}, given=known) for value in distinct)
    for event in (set(values), list(values), OneOf(tuple(values))):
        assert model.prob({column: event}, given=known) == pytest.approx(single, abs=1e-6)
    bar = "| grade = b" if known else ""
    written = f"P({column} in {{{', '.join(map(str, values))}}} {bar})"
    assert model.query(written).value == pytest.approx(single, abs=1e-6)


def test_sets_of_several_columns_are_sums_over_boxes(model: MDMA) -> None:
    event = {"count": {1, 4}, "days": {0, 1, 5}, "cylinders": {4, 8}}
    boxes = [(c, d) for c in (1, 4) for d in (0, 1, 5)]
    parts = [model.prob({"count": c, "days": d, "cylinders": {4, 8}}) for c, d in boxes]
    assert model.prob(event) == pytest.approx(sum(parts), rel=1e-5)
    rows = pd.DataFrame({"grade": ["a", "b", None]})
    found = model.prob({"count": {1, 4}}, given=rows)
    each = [model.prob({"count": c}, given=rows) for c in (1, 4)]
    np.testing.assert_allclose(found, each[0] + each[1], rtol=1e-5)


# A column on both sides -------------------------------------------------------------------------

EVENTS: dict[str, list[Any]] = {
    "count": [2, (1, 5), (3, None), {1, 4}, (None, None), 2.5],
    "wage": [41_000, (30_000, 45_000), (40_000, None)],
    "wait": [0, 2.5, (0, None), (1, 20), {0, 2.5}, pd.Interval(0, 2.5, "left")],
    "x": [(90, 110), (100, None), (None, 80)],
    "time": [("2020-02-01", None), (None, "2020-06-01")],
    "cylinders": [4, {4, 6}, (4, None)],
}


@examples(80)
@given(st.data())
def test_a_column_on_both_sides(model: MDMA, data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(list(EVENTS)))
    event, known = (data.draw(st.sampled_from(EVENTS[column])) for _ in range(2))
    rest = data.draw(st.sampled_from([{}, {"grade": "b"}, {"share": (0.1, None)}]))
    try:
        found = answer(model.prob, {column: event}, given={column: known, **rest})
    except Refused as refused:
        text = str(refused)
        assert (column, known) == ("count", 2.5), (event, text)
        return
    assert 0 <= found <= 1 + 1e-6
    # P(A | B) P(B) + P(not B and A) = P(A)
    if isinstance(known, tuple) and known != (None, None):
        low, high = known
        both = found * model.prob({column: known}, given=rest)
        outside = [c for c in ((None, low), Interval(high)) if c not in ((None, None), Interval())]
        rest_of = [
            model.prob({column: event}, given={column: part, **rest})
            * model.prob({column: part}, given=rest)
            for part in outside
        ]
        assert both + sum(rest_of) == pytest.approx(
            model.prob({column: event}, given=rest), abs=3e-6
        )


@pytest.mark.filterwarnings("ignore::marginals.OutsideDataWarning")
def test_far_tails_are_ratios_in_log_space(model: MDMA) -> None:
    for low in (100, 300, 1000, 3000):
        given = {"x": (low, None)}
        inside = model.logprob({"x": (low + 1, None)}) - model.logprob({"x": (low, None)})
        assert math.isfinite(inside)
        assert model.prob({"x": (low + 1, None)}, given=given) == pytest.approx(
            math.exp(inside), rel=1e-3
        )
        written = f"P(x > {low + 1} | x > {low})"
        assert model.query(written).value == pytest.approx(math.exp(inside), rel=1e-3)
        assert model.prob({"x": (None, low)}, given=given) == 0


def test_what_is_given_is_certain(model: MDMA) -> None:
    for column, value in (("x", 0.5), ("wage", 41_000), ("count", 3), ("wait", 0), ("grade", "b")):
        assert model.prob({column: value}, given={column: value}) == pytest.approx(1)
        assert model.prob({column: Interval(value)}, given={column: value}) == 0
        closed = Interval(value, low_closed=True)
        assert model.prob({column: closed}, given={column: value}) == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"count": OneOf(())}, "positive probability"),
        ({"count": (2.2, 2.8)}, "positive probability"),
        ({"share": (2, 3)}, "positive probability"),
    ],
)
def test_evidence_that_cannot_be(model: MDMA, given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model.prob({"days": 3}, given=given)


def test_a_run_of_values_is_evidence(model: MDMA) -> None:
    assert model.mean("x", given={"count": {2, 3, 4}}) == model.mean("x", given={"count": (1, 4)})
    assert model.mean("x", given={"count": {2}}) == model.mean("x", given={"count": 2})
