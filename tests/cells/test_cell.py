"""The algebra of single cells: an intersection holds what both cells hold."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marginals.cells.cell import (
    MISSING,
    NOTHING,
    AnyOf,
    Cell,
    Exact,
    Interval,
    OneOf,
    as_cell,
    contains,
    intersect,
    is_empty,
    union,
)

numbers = st.integers(0, 4) | st.sampled_from([0.5, 1.5, 2.5])
ends = st.none() | numbers
parts = st.builds(Exact, numbers) | st.builds(Interval, ends, ends, st.booleans(), st.booleans())
cells: st.SearchStrategy[Cell] = st.one_of(
    parts,
    st.builds(OneOf, st.lists(numbers, max_size=4).map(tuple)),
    st.builds(AnyOf, st.lists(parts, max_size=3).map(tuple)),
)
EVERY = [k / 4 for k in range(-2, 20)]


@given(cells, cells)
def test_an_intersection_holds_what_both_hold(first: Cell, second: Cell) -> None:
    both = intersect(first, second)
    for value in EVERY:
        assert contains(both, value) == (contains(first, value) and contains(second, value))
    assert is_empty(both) == (not any(contains(both, value) for value in EVERY))
    for value in EVERY:
        assert contains(intersect(second, first), value) == contains(both, value)


@given(st.lists(cells, max_size=4))
def test_a_union_holds_what_any_holds_in_disjoint_parts(several: list[Cell]) -> None:
    whole = union(several)
    for value in EVERY:
        assert contains(whole, value) == any(contains(cell, value) for cell in several)
    if isinstance(whole, AnyOf):
        for value in EVERY:
            assert sum(contains(part, value) for part in whole.parts) <= 1
        assert len(whole.parts) > 1


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (3, Exact(3)),
        ("a", Exact("a")),
        (torch.tensor(3), Exact(3)),
        (np.array(3.5), Exact(3.5)),
        ((1, 2), Interval(1, 2, high_closed=True)),
        ((1, None), Interval(1)),
        ((None, np.inf), MISSING),
        ((float("nan"), 2), Interval(None, 2, high_closed=True)),
        ((2, 2), Exact(2)),
        (pd.Interval(1, 2, "left"), Interval(1, 2, low_closed=True)),
        (pd.Interval(1, 2, "both"), Interval(1, 2, True, True)),
        ({3}, OneOf((3,))),
        (["a", "b"], OneOf(("a", "b"))),
        (frozenset([3]), OneOf((3,))),
        ([(1, 2), 5], AnyOf((Interval(1, 2, high_closed=True), Exact(5)))),
        ([pd.Interval(1, 2, "left"), (4, None)], AnyOf((Interval(1, 2, True), Interval(4)))),
        (NOTHING, NOTHING),
        *((missing, MISSING) for missing in (None, float("nan"), pd.NA, pd.NaT)),
    ],
)
def test_what_users_write(value: Any, cell: Cell) -> None:
    assert as_cell(value) == cell


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ((1, 2, 3), TypeError, "pair"),
        (set(), ValueError, "hold values"),
        ([None], ValueError, "none that is missing"),
        ([(1, 2), [3]], TypeError, "flat list"),
        (np.array([1.0]), TypeError, "got ndarray"),
        ({"a": 1}, TypeError, "got dict"),
    ],
)
def test_what_is_no_cell(value: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        as_cell(value, "column 'x'")
