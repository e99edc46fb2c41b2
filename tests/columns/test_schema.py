"""A schema finds columns, prints, and survives JSON."""

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.columns import Categorical, Column, Continuous, Integer, Schema, infer


def named(*names: str | int) -> Schema:
    return Schema(tuple(Column(name, Continuous(), "float64", "given") for name in names))


def rich() -> pd.DataFrame:
    """A column of each sort."""
    day = pd.Timestamp("2020-01-02 03:04:05.678")
    return pd.DataFrame(
        {
            "float": [0.1, 2.5, np.nan],
            "int": [1, 2**60, 3],
            "bool": [True, False, True],
            "text": ["a", "b", "a"],
            "mixed": pd.Series([1, "a", 2.5], dtype=object),
            "infinite": pd.Series([1, "a", np.inf], dtype=object),
            "dates": pd.Series([datetime.date(2020, 1, 2), None, None], dtype=object),
            "category": pd.Categorical([3, 1, 3], categories=[3, 1, 2], ordered=True),
            "cut": pd.cut([1.0, 2.0, 3.0], [0, 1.5, 4]),
            "when": pd.Categorical([day, day + pd.Timedelta(1, "D"), None]),
            "zoned": pd.Categorical([day.tz_localize("Europe/Oslo"), None, None]),
            "spans": pd.Categorical([pd.Timedelta(3, "s"), pd.Timedelta(5, "ns"), None]),
            "time": [day, day + pd.Timedelta(1, "D"), day],
            "interval": pd.arrays.IntervalArray.from_tuples([(0.0, 1.0), (2.0, np.inf), (3, 3)]),
            7: [1, 2, 3],
        }
    )


def test_columns_by_name_or_position() -> None:
    schema = named("age", "income", "city")
    assert schema.names == ("age", "income", "city")
    assert len(schema) == 3
    assert schema.index("income") == 1
    assert schema.index(2) == schema.index(np.int64(2)) == 2
    assert schema["city"] is schema.columns[2]
    assert [column.name for column in schema] == ["age", "income", "city"]
    assert schema.positions() == (0, 1, 2)
    assert schema.positions("city") == (2,)
    assert schema.positions(["city", 0]) == (2, 0)
    with pytest.raises(ValueError, match="each column once"):
        schema.positions(["age", 0])
    assert named(10, 20).index(20) == 1  # where names are whole numbers, these are no positions


@pytest.mark.parametrize(
    ("schema", "column", "match"),
    [
        (named("age", "income"), "incone", "got 'incone'. Did you mean 'income'?"),
        (named("age", "income"), "zzz", "Known: 'age', 'income'."),
        *((named("age", "income"), bad, f"got {bad}") for bad in (3, -1, True, 1.0, None)),
        (named(10, 20), 0, "got 0. Known: 10, 20"),
        (named(*(f"c{i}" for i in range(20))), "hello", "and 8 more"),
    ],
)
def test_unknown_columns(schema: Schema, column: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        schema.index(column)
    with pytest.raises(TypeError, match="a column's name; got list"):
        schema.index([column])  # type: ignore[arg-type]


def test_categories_and_atoms() -> None:
    frame = pd.DataFrame({"c": ["a", "b"], "z": [0.0, 1.0], "n": [1, 2]})
    schema = infer(frame, {"z": Continuous(lower=0, atoms=(0,))})
    assert schema.categories == {0: 2}
    assert schema.atoms("z") == (-1e6,)
    assert schema.atoms(2) == ()


def test_json() -> None:
    given = {
        "float": Continuous(lower=0, upper=10, atoms=(0, 2.5)),
        "int": Integer(lower=0),
        "time": Continuous(lower=pd.Timestamp("2019"), resolution=pd.Timedelta(1, "ms")),
    }
    schema = infer(rich(), given)
    back = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert back == schema
    assert str(back["zoned"].kind.categories[0].tz) == "Europe/Oslo"
    types = [[type(v) for v in c.kind.categories] for c in back if hasattr(c.kind, "categories")]
    assert types == [
        [type(v) for v in c.kind.categories] for c in schema if hasattr(c.kind, "categories")
    ]


def test_text() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3], "price": [0.5, 1.5, 2.5], "city": ["a", "b", "a"]})
    schema = infer(frame, {"price": Continuous(lower=0), "age": Integer(lower=0, upper=120)})
    lines = str(schema).splitlines()
    assert lines[0].split() == ["column", "kind", "dtype", "values", "why"]
    assert lines[1].split() == ["age", "integer", "int64", "0", "to", "120", "given"]
    assert "0 to inf" in lines[2]
    assert "a, b" in lines[3]
    starts = {
        line.index(word) for line, word in zip(lines[1:], ["integer", "cont", "cat"], strict=True)
    }
    assert starts == {lines[0].index("kind")}
    assert "with 2 distinct strings" in lines[3]


def test_text_shows_order_steps_atoms_and_notes() -> None:
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(list("SMLS"), categories=["S", "M", "L"], ordered=True),
            "price": [0.1, 0.2, 0.3, 0.4],
            "rain": [0.0, 0.0, 1.5, 2.5],
            "many": list("abcd"),
            "gone": [np.nan] * 4,
            "five": pd.Categorical(list("abca"), categories=list("abcde")),
        }
    )
    given = {"price": Continuous(resolution=0.1), "rain": Continuous(lower=0, atoms=(0,))}
    text = str(infer(frame, given))
    for part in ["S < M < L", "steps of 0.1", "0 to inf, atoms at 0", "all values are missing"]:
        assert part in text
    assert "a, b, c, d, ... (5)" in text


def test_html_is_escaped() -> None:
    text = infer(pd.DataFrame({"<b>": [1]}))._repr_html_()
    assert text.startswith("<table")
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert Categorical().categories is None


@pytest.mark.parametrize(
    "stored",
    [
        *({}, {"columns": 3}, {"columns": [{}]}, None),
        {"columns": [{"name": "a", "notes": [], "atoms": [], "kind": {"is": "other"}}]},
        {"columns": [{"name": "a", "notes": [], "atoms": [], "kind": {"is": "integer", "x": 1}}]},
    ],
)
def test_what_is_no_schema(stored: object) -> None:
    with pytest.raises(ValueError, match="Expected a schema as `to_dict` writes it"):
        Schema.from_dict(stored)  # type: ignore[arg-type]
