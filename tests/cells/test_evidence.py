"""Evidence says what it was built from, through every way of taking it apart and joining it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence, as_evidence

INF, NAN = torch.inf, torch.nan


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows)


def same(one: Tensor, two: Tensor) -> bool:
    """Compare shape, dtype and values, with NaN equal to itself."""
    return one.dtype == two.dtype and one.shape == two.shape and _same_values(one, two)


def _same_values(one: Tensor, two: Tensor) -> bool:
    return bool(((one == two) | (one.isnan() & two.isnan())).all())


def three_kinds() -> Evidence:
    """Two rows of columns 4, 1 and 7: exact, then mixed, then a set that differs by row."""
    lower = matrix([0.5, NAN, NAN], [1.5, -INF, NAN])
    upper = matrix([0.5, NAN, NAN], [1.5, 3.0, NAN])
    plain = Evidence.interval(lower, upper, [4, 1, 7])
    sets = {7: torch.tensor([[True, False, True], [False, True, False]])}
    return Evidence(plain.columns, plain.lower, plain.upper, sets, plain.intervals)


# Building -------------------------------------------------------------------------------------


def test_exact() -> None:
    x = matrix([1.0, NAN], [3.0, 4.0])
    known = Evidence.exact(x)
    assert known.columns == (0, 1)
    assert known.lower is x
    assert known.upper is x
    assert known.intervals == frozenset()
    assert known.sets == {}
    assert len(known) == 2


def test_exact_of_chosen_columns() -> None:
    assert Evidence.exact(torch.zeros(2, 3), [5, 0, 2]).columns == (5, 0, 2)
    assert Evidence.exact(torch.zeros(2, 2), np.array([3, 1])).columns == (3, 1)
    assert Evidence.exact(torch.zeros(2, 0), []).columns == ()
    assert len(Evidence.exact(torch.zeros(0, 3))) == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_whole_numbers_become_floats(dtype: torch.dtype) -> None:
    known = Evidence.exact(torch.ones(2, 2, dtype=dtype))
    assert same(known.lower, torch.ones(2, 2))


def test_float32_stays() -> None:
    assert Evidence.exact(torch.ones(2, 2, dtype=torch.float32)).lower.dtype == torch.float32


def test_interval() -> None:
    known = Evidence.interval(
        matrix([-INF, 1.0, 2.0], [0.0, NAN, 2.0]),
        matrix([4.0, 1.0, NAN], [INF, 3.0, 2.0]),
        [3, 0, 1],
    )
    assert known.columns == (3, 0, 1)
    # Column 3 alone holds intervals; NaN on either side is missing.
    assert known.intervals == {3}
    assert same(known.lower, matrix([-INF, 1.0, NAN], [0.0, NAN, 2.0]))
    assert same(known.upper, matrix([4.0, 1.0, NAN], [INF, NAN, 2.0]))


def test_interval_without_width_is_exact() -> None:
    known = Evidence.interval(matrix([1.0, NAN]), matrix([1.0, 5.0]))
    assert known.intervals == frozenset()
    assert known.upper is known.lower
    assert same(known.lower, matrix([1.0, NAN]))


def test_bounds_broadcast() -> None:
    known = Evidence.interval(matrix([0.0, -INF]), matrix([1.0, 1.0], [2.0, 2.0], [3.0, 3.0]))
    assert len(known) == 3
    assert same(known.lower, matrix([0.0, -INF], [0.0, -INF], [0.0, -INF]))


def test_of_a_dict() -> None:
    known = Evidence.of({2: 1.5, 0: (None, 3.0), 5: {0, 2}, 1: (-1, None), 3: NAN, 4: (2, 2)})
    assert known.columns == (2, 0, 5, 1, 3, 4)
    assert known.intervals == {0, 1}
    assert same(known.lower, matrix([1.5, -INF, NAN, -1.0, NAN, 2.0]))
    assert same(known.upper, matrix([1.5, 3.0, NAN, INF, NAN, 2.0]))
    assert known.sets.keys() == {5}
    assert known.sets[5].tolist() == [[True, False, True]]


def test_of_an_empty_dict_knows_nothing() -> None:
    assert repr(Evidence.of({})) == repr(Evidence.nothing()) == "Evidence(1 row: nothing known)"


def test_of_is_float64_unless_told() -> None:
    assert Evidence.of({0: 1}).lower.dtype == torch.float64
    assert Evidence.of({0: 1}, torch.float32).lower.dtype == torch.float32


def test_of_takes_the_numbers_of_numpy_and_torch() -> None:
    known = Evidence.of({np.int64(1): np.float32(2.0), 0: torch.tensor(3.0), 2: {np.int64(1)}})
    assert known.columns == (1, 0, 2)
    assert same(known.lower, matrix([2.0, 3.0, NAN]))
    assert known.sets[2].tolist() == [[False, True]]


def test_nothing() -> None:
    assert Evidence.nothing(3).lower.shape == (3, 0)
    like = torch.zeros(1, dtype=torch.float32)
    assert Evidence.nothing(like=like).lower.dtype == torch.float32


def test_as_evidence() -> None:
    known = three_kinds()
    assert as_evidence(known) is known
    assert as_evidence({1: 2.0}).columns == (1,)
    assert as_evidence(torch.zeros(2, 3)).columns == (0, 1, 2)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Evidence.exact([[1.0]]), TypeError, "`x` to be a torch.Tensor; got list"),
        (lambda: Evidence.exact(torch.zeros(3)), ValueError, r"two dims.*got shape \(3,\)"),
        (lambda: Evidence.exact(torch.zeros(1, 2, 3)), ValueError, "two dims"),
        (
            lambda: Evidence.exact(torch.zeros(1, 1) * 1j),
            TypeError,
            "real numbers; got torch.compl",
        ),
        (lambda: Evidence.exact(matrix([0.0, INF])), ValueError, "finite.*column 1, row 0.*interv"),
        (lambda: Evidence.exact(matrix([0.0], [-INF]), [7]), ValueError, "column 7, row 1"),
        (lambda: Evidence.exact(torch.zeros(1, 2), [1, 1]), ValueError, r"each column once.*1, 1"),
        (lambda: Evidence.exact(torch.zeros(1, 2), [1]), ValueError, "the 2 given by name; got 1"),
        (lambda: Evidence.exact(torch.zeros(1, 1), [0.7]), TypeError, "whole numbers; got .0.7"),
        (lambda: Evidence.exact(torch.zeros(1, 1), ["a"]), TypeError, "whole numbers; got .'a'"),
        (
            lambda: Evidence.interval(matrix([0.0, 2.0]), matrix([1.0, 1.0]), [4, 3]),
            ValueError,
            "lower <= upper.*column 3, row 0. Swap",
        ),
        (lambda: Evidence.interval(matrix([INF]), matrix([INF])), ValueError, "point at infinity"),
        (lambda: Evidence.interval(matrix([-INF]), matrix([-INF])), ValueError, "infinity"),
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
        (lambda: as_evidence(3.0), TypeError, "got float"),
    ],
)
def test_errors_of_building(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


# Showing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Evidence.exact(torch.zeros(3, 1), [4]), "3 rows: column 4 exact"),
        (Evidence.exact(torch.zeros(0, 1)), "0 rows: column 0 empty"),
        (Evidence.exact(torch.tensor([[0.0], [NAN]])), "2 rows: column 0 missing/exact"),
        (Evidence.nothing(2), "2 rows: nothing known"),
        (Evidence.of({1: {0}, 0: (0, 1)}), "1 row: column 1 set, column 0 interval"),
        (three_kinds(), "2 rows: column 4 exact, column 1 missing/interval, column 7 set"),
    ],
)
def test_repr(known: Evidence, text: str) -> None:
    assert repr(known) == f"Evidence({text})"


def test_repr_of_many_columns_is_short() -> None:
    text = repr(Evidence.exact(torch.zeros(1, 11)))
    assert text.endswith("column 7 exact, and 3 more)")


# Joining --------------------------------------------------------------------------------------


def test_join() -> None:
    other = Evidence.exact(matrix([8.0], [9.0]), [0])
    both = other.join(three_kinds())
    assert both.columns == (0, 4, 1, 7)
    assert both.intervals == {1}
    assert same(both.lower, matrix([8.0, 0.5, NAN, NAN], [9.0, 1.5, -INF, NAN]))
    assert same(both.upper, matrix([8.0, 0.5, NAN, NAN], [9.0, 1.5, 3.0, NAN]))
    assert torch.equal(both.sets[7], three_kinds().sets[7])


def test_join_of_exact_evidence_promises_no_interval() -> None:
    both = Evidence.exact(matrix([1.0])).join(Evidence.exact(matrix([2.0]), [1]))
    assert both.upper is both.lower


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_one_row_stands_for_any_number(rows: int, swap: bool) -> None:
    one = Evidence.of({3: 1.0, 5: {1}})
    many = Evidence.exact(torch.rand(rows, 2))
    both = one.join(many) if swap else many.join(one)
    assert len(both) == rows
    cells = both.cells([3, 1])
    assert torch.equal(cells.lower[0], torch.ones(rows))
    assert torch.equal(cells.lower[1], many.lower[:, 1])


def test_join_takes_the_wider_dtype() -> None:
    one = Evidence.exact(torch.zeros(1, 1, dtype=torch.float32))
    assert one.join(Evidence.of({1: 0.1})).lower[0, 1].item() == 0.1


@pytest.mark.parametrize(("one", "two"), [(2, 3), (0, 2), (3, 0)])
def test_join_of_unlike_rows_is_refused(one: int, two: int) -> None:
    with pytest.raises(ValueError, match=f"one row or with as many rows.*{one} and {two}"):
        Evidence.exact(torch.zeros(one, 1)).join(Evidence.exact(torch.zeros(two, 1), [1]))


def test_join_of_overlapping_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"to be disjoint; got \[1, 7\] in both"):
        three_kinds().join(Evidence.of({7: {0}, 2: 1.0, 1: 1.0}))


# Taking apart ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index", [slice(1, 2), torch.tensor([1]), torch.tensor([False, True])], ids=["1:2", "1", "mask"]
)
def test_rows(index: Any) -> None:
    part = three_kinds().rows(index)
    assert same(part.lower, matrix([1.5, -INF, NAN]))
    assert same(part.upper, matrix([1.5, 3.0, NAN]))
    assert part.sets[7].tolist() == [[False, True, False]]
    assert part.columns == (4, 1, 7)
    assert part.intervals == {1}


def test_rows_repeat() -> None:
    part = three_kinds().rows(torch.tensor([1, 1, 0]))
    assert part.lower[:, 0].tolist() == [1.5, 1.5, 0.5]
    assert part.sets[7].int().argmax(1).tolist() == [1, 1, 0]


def test_rows_of_a_shared_set() -> None:
    known = Evidence.of({0: {1}, 1: 2.0}).expand(4).rows(torch.tensor([0, 3]))
    assert len(known) == 2
    assert known.sets[0].tolist() == [[False, True]]
    assert known.upper is known.lower


@pytest.mark.parametrize(
    ("rows", "sizes"), [(5, [2, 2, 1]), (4, [2, 2]), (1, [1]), (0, [0])], ids=str
)
def test_batches(rows: int, sizes: list[int]) -> None:
    x = torch.rand(rows, 2)
    parts = list(Evidence.exact(x).batches(2))
    assert [len(part) for part in parts] == sizes
    assert torch.equal(torch.cat([part.lower for part in parts]), x)


def test_without() -> None:
    known = three_kinds()
    rest = known.without(4)
    assert rest.columns == (1, 7)
    assert same(rest.lower, known.lower[:, 1:])
    assert same(rest.upper, known.upper[:, 1:])
    assert rest.intervals == {1}
    no_interval = known.without(1)
    assert no_interval.columns == (4, 7)
    assert no_interval.intervals == frozenset()
    assert no_interval.upper is no_interval.lower
    assert known.without(7).sets == {}
    assert known.without(3).columns == known.columns


def test_renamed() -> None:
    known = three_kinds().renamed([10, 11, 12, 13, 14, 15, 16, 17])
    assert known.columns == (14, 11, 17)
    assert known.intervals == {11}
    assert known.sets.keys() == {17}
    assert same(known.lower, three_kinds().lower)


def test_to() -> None:
    known = three_kinds().to("cpu", torch.float32)
    assert known.lower.dtype == known.upper.dtype == torch.float32
    exact = Evidence.exact(torch.zeros(1, 1)).to("cpu", torch.float32)
    assert exact.upper is exact.lower


def test_cells_come_in_the_order_asked() -> None:
    cells = three_kinds().cells([7, 0, 1, 4])
    assert same(cells.lower, matrix([NAN, NAN], [NAN, NAN], [NAN, -INF], [0.5, 1.5]))
    assert same(cells.upper, matrix([NAN, NAN], [NAN, NAN], [NAN, 3.0], [0.5, 1.5]))
    assert cells.intervals == (2,)
    ((position, mask),) = cells.sets
    assert position == 0
    assert torch.equal(mask, three_kinds().sets[7])


def test_cells_of_its_own_columns() -> None:
    known = three_kinds()
    cells = known.cells([4, 1, 7])
    assert same(cells.lower, known.lower.T)
    assert cells.intervals == (1,)
    assert [position for position, _ in cells.sets] == [2]


def test_cells_leave_out_what_is_not_asked() -> None:
    cells = three_kinds().cells([4])
    assert same(cells.lower, matrix([0.5, 1.5]))
    assert cells.intervals == ()
    assert cells.sets == ()


def test_cells_of_nothing_are_missing() -> None:
    cells = Evidence.nothing(2).cells([0, 3])
    assert cells.lower.shape == (2, 2)
    assert cells.lower.isnan().all()
    assert cells.upper is cells.lower


def test_exact_cells_promise_no_interval() -> None:
    cells = Evidence.exact(torch.rand(3, 2)).cells([1, 2, 0])
    assert cells.upper is cells.lower


# Facts ----------------------------------------------------------------------------------------


def test_midpoints() -> None:
    lower = matrix([1.0, 1.0, -INF, 2.0, -INF, NAN, 1e308])
    upper = matrix([1.0, 3.0, 5.0, INF, INF, NAN, 1.5e308])
    expected = matrix([1.0, 2.0, 5.0, 2.0, NAN, NAN, 1.25e308])
    assert same(Evidence.interval(lower, upper).midpoints(), expected)


def test_missing() -> None:
    assert three_kinds().missing().tolist() == [[False, True, False], [False, False, False]]
    line = Evidence.of({0: (None, None), 1: (None, 1.0), 2: 0.0, 3: NAN})
    assert line.missing().tolist() == [[True, False, False, True]]


@pytest.mark.parametrize("codes", [{0}, {0, 1}, {1}])
def test_a_set_is_not_missing(codes: set[int]) -> None:
    """Also if it holds all codes up to its largest: there may be more categories."""
    assert Evidence.of({0: codes}).missing().tolist() == [[False]]
