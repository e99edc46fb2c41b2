"""Random queries."""

from hypothesis import strategies as st

from marginals.cells.cell import AnyOf, Cell, Exact, Interval, OneOf
from marginals.language import Column, Condition, Query
from marginals.language.query_tree import Value

names = st.one_of(
    st.sampled_from(
        ["age", "home town", "in", "true", "inf", "0", "2024-01-31", "x-y", "", "größe"]
    ),
    st.text(max_size=6),
)
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.one_of(
    st.sampled_from(
        ["Oslo", "New York", "2024-01-31", "true", "inf", "in", "12", "007", "it's", "\\"]
    ),
    st.text(max_size=6),
)
values: st.SearchStrategy[Value] = st.one_of(numbers, texts, st.booleans())


_closed = st.booleans()
_ends = [st.none() | kind for kind in (numbers, texts)]
intervals = st.one_of(*(st.builds(Interval, end, end, _closed, _closed) for end in _ends))


def _distinct(chosen: list[Value]) -> OneOf:
    return OneOf(tuple({(isinstance(value, bool), value): value for value in chosen}.values()))


sets = st.lists(values, min_size=1, max_size=4).map(_distinct)
exacts = st.builds(Exact, values)
unions = st.lists(exacts | intervals, min_size=2, max_size=3).map(lambda ps: AnyOf(tuple(ps)))
cells: st.SearchStrategy[Cell] = st.one_of(exacts, intervals, sets, unions)
conditions = st.builds(Condition, names, cells)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    function = draw(st.sampled_from(["P", "p", "E", "SD", "Q", "mode"]))
    given = tuple(draw(st.lists(conditions, max_size=3)))
    if function == "P":
        return Query("P", tuple(draw(st.lists(conditions, min_size=1, max_size=3))), given)
    if function == "p":
        exact = st.builds(Condition, names, exacts)
        return Query("p", tuple(draw(st.lists(exact, min_size=1, max_size=3))), given)
    level = st.floats(0, 1, exclude_min=True, exclude_max=True)
    levels = draw(st.lists(level, min_size=1, max_size=3)) if function == "Q" else []
    return Query(function, (Column(draw(names)),), given, tuple(levels))


# Text that is nearly a query: pieces of the language in any order.
SIGNS = [*"()[]{},|<>=-.∈\\", "<=", ">=", "==", "!=", "in"]
WORDS = [
    "P",
    "p",
    "E",
    "SD",
    "Q",
    "mode",
    "or",
    "age",
    "`a b`",
    '"c"',
    "'d",
    "'e'",
    "2024-01-31",
    "true",
]
NUMBERS = ["1", "-2.5e3", "0.5", "1e999", "inf", "-inf"]
ODD = [" ", "\n", "9" * 5000, "\ud800", "\x00", "\u0301"]
pieces = st.sampled_from([*SIGNS, *WORDS, *NUMBERS, *ODD])
nearly = st.lists(pieces, max_size=12).map(lambda parts: " ".join(parts))
spoiled = st.builds(
    lambda text, at, piece: text[: at % (len(text) + 1)] + piece + text[at % (len(text) + 1) + 1 :],
    st.sampled_from(
        [
            "P(income > 50000, 20 <= age < 30 | city in {Oslo, Bergen})",
            "Q[0.05, 0.5, 0.95](income | age = 40, day > 2024-01-31)",
            "p(x = 1.5, `y z` = 'a\\'b' | u in (0, 1])",
        ]
    ),
    st.integers(0, 100),
    pieces,
)
