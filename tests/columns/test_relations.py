"""Columns that carry no information of their own are named."""

import numpy as np

from marginals.columns.relations import find_relations

RNG = np.random.default_rng(0)
A, B, C = RNG.normal(size=(3, 400))
ZONE = RNG.integers(0, 12, 400)


def test_linear_relations() -> None:
    table = {
        "a": A,
        "b": B,
        "c": C,
        "same": A,
        "triple": 3 * A,
        "f": 32 + 1.8 * B,
        "sum": A + B + C,
    }
    found = "\n".join(find_relations(table, {}))
    for text in (
        "'same' equals 'a' in every row: leave one of them out",
        "'triple' = 3 'a' in every row",
        "'f' = 1.8 'b' + 32 in every row",
        "'sum' = 'a' + 'b' + 'c' in every row: leave it out, and compute it afterwards",
    ):
        assert text in found
    assert len(found.splitlines()) == 4


def test_sums_of_amounts_with_gaps() -> None:
    fare, tip = np.round(20 * np.exp(A), 2), np.round(np.exp(B), 2)
    total = np.round(fare + tip, 2)
    fare[:20] = np.nan
    (text,) = find_relations({"fare": fare, "tip": tip, "total": total}, {})
    assert text.startswith("'total' = 'fare' + 'tip'")


def test_near_relations_are_none() -> None:
    assert find_relations({"a": A, "b": B, "sum": A + B + 1e-4 * C}, {}) == []
    assert find_relations({"a": A, "almost": A + 1e-5 * B}, {}) == []
    assert find_relations({"a": A[:20], "same": A[:20]}, {}) == []  # too few rows


def test_constants_identifiers_and_renamed_categories() -> None:
    table = {"zone": ZONE, "borough": ZONE // 4, "name": 11 - ZONE}
    found = find_relations({"k": np.full(400, 2.0)}, table, ["id"])
    assert [text.split(":")[0] for text in found] == [
        "'id' has a value of its own in most rows",
        "'k' is constant",
        "'name' follows from 'zone', and the reverse",
    ]
    assert find_relations({}, {"zone": ZONE, "other": RNG.integers(0, 3, 400)}) == []
