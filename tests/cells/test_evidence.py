"""Evidence keeps its cells and its facts through every way of taking it apart and joining it."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marginals.cells.evidence import Evidence, as_evidence

INF, NAN = torch.inf, torch.nan


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows)


def same(one: Tensor, two: Tensor) -> bool:
    """Compare shape, dtype and values, with NaN equal to itself."""
    alike = one.dtype == two.dtype and one.shape == two.shape
    return alike and bool(((one == two) | (one.isnan() & two.isnan())).all())


def three_kinds() -> Evidence:
    """Two rows of columns 4, 1 and 7: exact, then mixed, then a set that differs by row."""
    lower = matrix([0.5, NAN, NAN], [1.5, -INF, NAN])
    upper = matrix([0.5, NAN, NAN], [1.5, 3.0, NAN])
    sets = {7: torch.tensor([[True, False, True], [False, True, False]])}
    return Evidence.interval(lower, upper, [4, 1, 7]).with_sets(sets)


def cell_of(evidence: Evidence, row: int, column: int) -> Any:
    """Describe one cell: its bounds, None if it is missing, or its set."""
    if column in evidence.sets:
        mask = evidence.sets[column]
        return tuple(mask[row if len(mask) > 1 else 0].tolist())
    if column not in evidence.columns:
        return None
    position = evidence.columns.index(column)
    bounds = (evidence.lower[row, position].item(), evidence.upper[row, position].item())
    return None if np.isnan(bounds[0]) else bounds


def check_facts(evidence: Evidence) -> None:
    """The facts hold for every cell."""
    missing = evidence.lower.isnan()
    assert same(missing, evidence.upper.isnan())
    differ = (evidence.lower != evidence.upper) & ~missing
    for position, column in enumerate(evidence.columns):
        assert column in evidence.intervals or not differ[:, position].any()
    assert evidence.intervals <= set(evidence.columns)
    assert evidence.has_intervals == bool(evidence.intervals)
    for column in evidence.exact_columns:
        position = evidence.columns.index(column)
        assert column not in evidence.sets
        assert (evidence.lower[:, position] == evidence.upper[:, position]).all()
    if evidence.complete:
        assert not evidence.sets
        assert (evidence.lower == evidence.upper).all()
    if evidence.patterns:
        assert not evidence.sets
        for row in ~missing:
            seen = tuple(c for c, s in zip(evidence.columns, row, strict=True) if s)
            assert set(seen) in [set(pattern) for pattern in evidence.patterns]


@st.composite
def evidences(draw: st.DrawFn, columns: tuple[int, ...] = (0, 3, 5, 8)) -> Evidence:
    """Rows with any mixture of exact, interval, missing and impossible cells and sets."""
    kinds = draw(st.sampled_from(["x", "xm", "im", "xi", "ximp"]))
    names = draw(st.permutations(columns))[: draw(st.integers(1, len(columns)))]
    rows = draw(st.integers(1, 4))
    lower, upper = torch.zeros(rows, len(names)), torch.zeros(rows, len(names))
    empty = torch.zeros(rows, len(names), dtype=torch.bool)
    for place in np.ndindex(rows, len(names)):
        x, kind = draw(st.integers(-2, 2)), draw(st.sampled_from(kinds))
        pair = {"x": (x, x), "i": (x, draw(st.sampled_from([x + 1, INF]))), "m": (NAN, NAN)}
        lower[place], upper[place] = pair.get(kind, (x, x))
        empty[place] = kind == "p"
    out = Evidence.interval(lower, upper, names).with_impossible(empty)
    if draw(st.booleans()):
        out = out.with_sets({names[0]: torch.rand(draw(st.sampled_from([1, rows])), 3) < 0.5})
    return out.with_facts(draw(st.integers(0, 4)))


# Building -------------------------------------------------------------------------------------


def test_exact() -> None:
    x = matrix([1.0, NAN], [3.0, 4.0])
    known = Evidence.exact(x)
    assert known.lower is known.upper is x
    assert (known.columns, known.intervals, known.sets, len(known)) == ((0, 1), frozenset(), {}, 2)
    assert Evidence.exact(torch.zeros(2, 2), np.array([3, 1])).columns == (3, 1)
    assert Evidence.exact(torch.zeros(2, 0), []).columns == ()
    assert len(Evidence.exact(torch.zeros(0, 3))) == 0
    assert Evidence.exact(torch.ones(2, 2, dtype=torch.float32)).lower.dtype == torch.float32
    for dtype in (torch.int64, torch.uint8, torch.bool):
        assert same(Evidence.exact(torch.ones(2, 2, dtype=dtype)).lower, torch.ones(2, 2))


def test_interval() -> None:
    lower = matrix([-INF, 1.0, 2.0], [0.0, NAN, 2.0])
    upper = matrix([4.0, 1.0, NAN], [INF, 3.0, 2.0])
    known = Evidence.interval(lower, upper, [3, 0, 1])
    assert known.columns == (3, 0, 1)
    # Column 3 alone holds intervals; NaN on either side is missing.
    assert known.intervals == {3}
    assert same(known.lower, matrix([-INF, 1.0, NAN], [0.0, NAN, 2.0]))
    assert same(known.upper, matrix([4.0, 1.0, NAN], [INF, NAN, 2.0]))
    assert not Evidence.interval(matrix([1.0, NAN]), matrix([1.0, 5.0])).has_intervals
    wide = Evidence.interval(matrix([0.0, -INF]), matrix([1.0, 1.0], [2.0, 2.0]))
    assert same(wide.lower, matrix([0.0, -INF], [0.0, -INF]))


def test_of_a_dict() -> None:
    known = Evidence.of({2: 1.5, 0: (None, 3.0), 5: {0, 2}, 1: (-1, None), 3: NAN, 4: (2, 2)})
    assert known.columns == (2, 0, 5, 1, 3, 4)
    assert known.intervals == {0, 1}
    assert same(known.lower, matrix([1.5, -INF, NAN, -1.0, NAN, 2.0]))
    assert same(known.upper, matrix([1.5, 3.0, NAN, INF, NAN, 2.0]))
    assert {c: mask.tolist() for c, mask in known.sets.items()} == {5: [[True, False, True]]}
    assert repr(Evidence.of({})) == repr(Evidence.nothing()) == "Evidence(1 row: nothing given)"
    assert Evidence.of({0: 1}, torch.float32).lower.dtype == torch.float32
    numbers = Evidence.of({np.int64(1): np.float32(2.0), 0: torch.tensor(3.0), 2: {np.int64(1)}})
    assert numbers.columns == (1, 0, 2)
    assert same(numbers.lower, matrix([2.0, 3.0, NAN]))


def test_nothing_and_as_evidence() -> None:
    assert Evidence.nothing(3).lower.shape == (3, 0)
    like = torch.zeros(1, dtype=torch.float32)
    assert Evidence.nothing(like=like).lower.dtype == torch.float32
    known = three_kinds()
    assert as_evidence(known) is known
    assert as_evidence({1: 2.0}).columns == (1,)
    assert as_evidence(torch.zeros(2, 3)).columns == (0, 1, 2)


def test_impossible_cells() -> None:
    marks = torch.tensor([[False, False, False], [True, False, False]])
    known = three_kinds().with_impossible(marks)
    assert cell_of(known, 1, 4) == (INF, -INF)
    assert cell_of(known, 0, 4) == (0.5, 0.5)
    assert known.intervals == {4, 1}
    assert known.midpoints()[1, 0].isnan()
    rest, impossible = known.without_impossible()
    assert impossible.tolist() == [False, True]
    assert cell_of(rest, 1, 4) is None
    assert three_kinds().with_impossible(marks & False).without_impossible()[1] is None


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Evidence.exact([[1.0]]), TypeError, "`x` to be a torch.Tensor; got list"),
        (lambda: Evidence.exact(torch.zeros(3)), ValueError, r"two dims.*got shape \(3,\)"),
        (lambda: Evidence.exact(torch.zeros(1, 1) * 1j), TypeError, "real numbers; got torch.c"),
        (lambda: Evidence.exact(matrix([0.0, INF])), ValueError, "finite.*column 1, row 0.*interv"),
        (lambda: Evidence.exact(matrix([0.0], [-INF]), [7]), ValueError, "column 7, row 1"),
        (lambda: Evidence.exact(torch.zeros(1, 2), [1, 1]), ValueError, r"each column once.*1, 1"),
        (lambda: Evidence.exact(torch.zeros(1, 2), [1]), ValueError, "2 names of columns; got 1"),
        (lambda: Evidence.exact(torch.zeros(1, 1), [0.7]), TypeError, "whole numbers; got .0.7"),
        (lambda: Evidence.exact(torch.zeros(1, 1), ["a"]), TypeError, "whole numbers; got .'a'"),
        (
            lambda: Evidence.interval(matrix([0.0, 2.0]), matrix([1.0, 1.0]), [4, 3]),
            ValueError,
            "lower <= upper.*column 3, row 0. Swap",
        ),
        (lambda: Evidence.interval(matrix([INF]), matrix([INF])), ValueError, "point at infinity"),
        (lambda: Evidence.interval(matrix([INF]), matrix([-INF])), ValueError, "Swap the bounds"),
        (lambda: Evidence.interval(matrix([0.0]), 1.0), TypeError, "`upper` to be a torch.Tensor"),
        (lambda: Evidence.of({0: (2.0, 1.0)}), ValueError, "Swap the bounds"),
        (lambda: Evidence.of({0: INF}), ValueError, "point at infinity"),
        (lambda: Evidence.of({3: "low"}), TypeError, "number, a pair.*column 3; got 'low'"),
        (lambda: Evidence.of({3: (1.0, 2.0, 3.0)}), TypeError, "number, a pair.*column 3"),
        (lambda: Evidence.of({3: [1.0, 2.0]}), TypeError, "number, a pair.*column 3"),
        (lambda: Evidence.of({"age": 1.0}), TypeError, "whole numbers; got .'age'"),
        (lambda: Evidence.of({1: set()}), ValueError, "set for column 1 to hold codes"),
        (lambda: Evidence.of({1: {-1}}), ValueError, "codes 0, 1, ...; got {-1}"),
        (lambda: Evidence.of({1: {0.5}}), ValueError, "codes 0, 1"),
        (lambda: Evidence.of({1: {"a", 1}}), ValueError, "codes 0, 1"),
        (lambda: as_evidence([1.0]), TypeError, "`Evidence`, a dict.*or a tensor; got list"),
        (lambda: three_kinds().join(Evidence.of({7: {0}, 1: 1.0})), ValueError, r"\[1, 7\] in bo"),
        (
            lambda: three_kinds().join(Evidence.exact(torch.zeros(3, 1))),
            ValueError,
            "one row or as many rows as requested; got 2 and 3",
        ),
    ],
)
def test_errors(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Evidence.exact(torch.zeros(3, 1), [4]), "3 rows: column 4 exact"),
        (Evidence.exact(torch.zeros(0, 1)), "0 rows: column 0 empty"),
        (Evidence.exact(torch.tensor([[0.0], [NAN]])), "2 rows: column 0 missing/exact"),
        (Evidence.nothing(2), "2 rows: nothing given"),
        (Evidence.of({1: {0}, 0: (0, 1)}), "1 row: column 1 set, column 0 interval"),
        (three_kinds(), "2 rows: column 4 exact, column 1 missing/interval, column 7 set"),
    ],
)
def test_repr(known: Evidence, text: str) -> None:
    assert repr(known) == f"Evidence({text})"
    assert repr(Evidence.exact(torch.zeros(1, 11))).endswith("column 7 exact, and 3 more)")


# Taking apart and joining ---------------------------------------------------------------------


@given(evidences(), st.data())
def test_rows_and_columns_keep_their_cells(known: Evidence, data: st.DataObject) -> None:
    check_facts(known)
    index = data.draw(st.lists(st.integers(0, len(known) - 1), max_size=5))
    columns = data.draw(st.lists(st.sampled_from([0, 3, 5, 8, 9]), unique=True))
    some = known.rows(torch.tensor(index, dtype=torch.long)).select(columns)
    assert some.columns == tuple(columns)
    check_facts(some)
    for place, row in enumerate(index):
        for column in columns:
            assert cell_of(some, place, column) == cell_of(known, row, column)
    lower, upper = some.by_column()
    assert same(lower, some.lower.T)
    assert same(upper, some.upper.T)
    mask = torch.zeros(len(known), dtype=torch.bool).index_fill(0, torch.tensor([0]), True)
    for first in (known.rows(mask), known.rows(slice(0, 1))):
        check_facts(first)
        assert [cell_of(first, 0, c) for c in known.columns] == [
            cell_of(known, 0, c) for c in known.columns
        ]
    repeated = known.repeat(2)
    check_facts(repeated)
    for row in range(len(repeated)):
        for column in known.columns:
            assert cell_of(repeated, row, column) == cell_of(known, row // 2, column)
    column = known.columns[0]
    assert known.without(column).columns == known.columns[1:]
    moved = known.renamed({c: c + 10 for c in known.columns}).to("cpu", torch.float64)
    check_facts(moved)
    assert cell_of(moved, 0, column + 10) == cell_of(known, 0, column)


@given(evidences(), evidences(columns=(1, 2)))
def test_joins_keep_both(one: Evidence, two: Evidence) -> None:
    two = two if len(two) == len(one) else two.rows(slice(0, 1))
    for both in (one.join(two), two.join(one)):
        check_facts(both)
        assert len(both) == len(one)
        for row in range(len(one)):
            for column in one.columns:
                assert cell_of(both, row, column) == cell_of(one, row, column)
            for column in two.columns:
                expected = cell_of(two, row if len(two) > 1 else 0, column)
                assert cell_of(both, row, column) == expected


@given(evidences())
def test_observed_leaves_out_columns_that_no_row_observes(known: Evidence) -> None:
    found = known.observed()
    check_facts(found)
    for column in known.columns:
        cells = [cell_of(known, row, column) for row in range(len(known))]
        assert (column in found.columns) == any(cell is not None for cell in cells)
    plain = not (found.sets or found.has_intervals or found.lower.isnan().any())
    assert found.complete == (plain and bool(found.columns))


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_one_row_stands_for_any_number(rows: int) -> None:
    one, many = Evidence.of({3: 1.0, 5: {1}}), Evidence.exact(torch.rand(rows, 2))
    for both in (one.join(many), many.join(one)):
        chosen = both.select([3, 1])
        assert torch.equal(chosen.lower[:, 0], torch.ones(rows))
        assert torch.equal(chosen.lower[:, 1], many.lower[:, 1])
    assert one.expand(4).rows(torch.tensor([0, 3])).sets[5].tolist() == [[False, True]]
    single = Evidence.exact(torch.zeros(1, 1, dtype=torch.float32))
    assert single.join(Evidence.of({1: 0.1})).lower[0, 1].item() == 0.1


@pytest.mark.parametrize(("rows", "sizes"), [(5, [2, 2, 1]), (4, [2, 2]), (1, [1]), (0, [0])])
def test_batches(rows: int, sizes: list[int]) -> None:
    x = torch.rand(rows, 2)
    parts = list(Evidence.exact(x).batches(2))
    assert [len(part) for part in parts] == sizes
    assert torch.equal(torch.cat([part.lower for part in parts]), x)


# Facts ----------------------------------------------------------------------------------------


def test_facts_are_found_and_kept() -> None:
    x = matrix([1.0, 2.0, NAN], [3.0, NAN, NAN], [4.0, 5.0, NAN])
    known = Evidence.exact(x, [7, 2, 0]).with_facts(2)
    assert set(known.patterns) == {(7, 2), (7,)}
    assert known.rows(slice(0, 1)).patterns == known.patterns
    assert set(known.select([2, 0]).patterns) == {(2,), ()}
    assert Evidence.exact(x).with_facts(1).patterns == ()
    full = Evidence.exact(x[:, :1]).with_facts()
    assert full.complete
    assert full.join(Evidence.of({1: 2.0}).with_facts()).complete
    assert not full.select([0, 1]).complete
    wide = Evidence(("a",), x[:, :1], x[:, :1].clone(), {}, frozenset({"a"}))  # type: ignore[arg-type]
    assert not wide.with_facts().has_intervals


def test_midpoints_and_missing() -> None:
    lower = matrix([1.0, 1.0, -INF, 2.0, -INF, NAN, 1e308])
    upper = matrix([1.0, 3.0, 5.0, INF, INF, NAN, 1.5e308])
    expected = matrix([1.0, 2.0, 5.0, 2.0, NAN, NAN, 1.25e308])
    assert same(Evidence.interval(lower, upper).midpoints(), expected)
    assert three_kinds().missing().tolist() == [[False, True, False], [False, False, False]]
    line = Evidence.of({0: (None, None), 1: (None, 1.0), 2: 0.0, 3: NAN})
    assert line.missing().tolist() == [[True, False, False, True]]
    # A set is not missing even with all codes up to its largest: there may be more categories.
    for codes in ({0}, {0, 1}, {1}):
        assert Evidence.of({0: codes}).missing().tolist() == [[False]]


def test_hidden_cells_are_missing_and_facts_about_them_gone() -> None:
    x = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]])
    mask = torch.tensor([[True, False, True]])
    known = Evidence.exact(x[:, :2]).with_facts(4)
    hidden = torch.tensor([[False, True], [False, False]])
    found = known.hide(hidden)
    assert torch.equal(found.missing(), hidden)
    assert found.exact_columns == {0}
    sets = Evidence.exact(x).with_sets({2: mask})
    assert sets.hide(torch.tensor([[False, False, True]] * 2)).sets[2].all()
