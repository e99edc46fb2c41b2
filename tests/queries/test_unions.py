"""Evidence with gaps: sets of numbers and unions of intervals, in every question."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous
from marginals.cells.cell import Interval, as_cell, contains

# Evidence with gaps and its disjoint parts, on columns of every kind.
UNIONS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "intervals": ({"x": [(60, 80), (110, None)]}, [{"x": (60, 80)}, {"x": (110, None)}]),
    "integers": ({"count": {1, 4}}, [{"count": 1}, {"count": 4}]),
    "overlapping": ({"count": [(0, 2), (1, 3), 6]}, [{"count": (0, 3)}, {"count": 6}]),
    "rounded": ({"price": [0.3, (1, 2)]}, [{"price": 0.3}, {"price": (1, 2)}]),
    "an atom and what is far": ({"wait": [0, (30, 90)]}, [{"wait": 0}, {"wait": (30, 90)}]),
    "times": (
        {"day": [(None, "2020-02-01"), ("2020-10-01", None)]},
        [{"day": (None, "2020-02-01")}, {"day": ("2020-10-01", None)}],
    ),
    "two columns": (
        {"count": {1, 4}, "price": [(0, 0.2), (1, None)], "city": {"Oslo", "Bergen"}},
        [
            {"count": k, "price": p, "city": {"Oslo", "Bergen"}}
            for k in (1, 4)
            for p in ((0, 0.2), (1, None))
        ],
    ),
}


def weights(model: Any, parts: list[dict[str, Any]]) -> Any:
    shares = np.array([model.prob(part) for part in parts])
    return shares / shares.sum()


@pytest.fixture(scope="module")
def coupled(frame: pd.DataFrame) -> MDMA:
    model = MDMA(tensor="copula", width=3, rank=1, max_steps=20, random_state=0)
    return model.fit(frame[["x", "share", "count", "city"]])


@pytest.mark.parametrize("name", UNIONS)
def test_answers_are_mixtures_over_the_parts(model: MDMA, name: str) -> None:
    given, parts = UNIONS[name]
    share = weights(model, parts)
    asked = "share"
    rows = pd.DataFrame({asked: [0.1, 0.3, 0.6]})
    for ask in (
        lambda g: model.prob({asked: (0.2, 0.5)}, given=g),
        lambda g: model.pdf(rows, given=g),
        lambda g: model.cdf(rows, given=g),
        lambda g: model.sf({asked: 0.3}, given=g),
        lambda g: model.mean(asked, given=g),
        lambda g: model.probabilities("grade", given=g).to_numpy(),
    ):
        wanted = sum(w * np.asarray(ask(part)) for w, part in zip(share, parts, strict=True))
        np.testing.assert_allclose(np.asarray(ask(given)), wanted, rtol=2e-4)
    for level in (0.1, 0.5, 0.9):
        at = model.ppf(level, asked, given=given)
        assert model.cdf({asked: at}, given=given) == pytest.approx(level, abs=1e-5)
    view = model.condition(given)
    assert set(view.schema_.names) == set(model.schema_.names) - set(given)
    assert view.mean(asked) == pytest.approx(model.mean(asked, given=given), rel=1e-6)
    more = {"grade": "b"}
    assert view.prob({asked: (0.2, 0.5)}, given=more) == pytest.approx(
        model.prob({asked: (0.2, 0.5)}, given={**given, **more}), rel=1e-4
    )
    assert np.isfinite(model.std(asked, given=given))
    assert model.distribution(given).sample((3,)).shape == (3, len(view.schema_))


def inside(rows: pd.DataFrame, part: dict[str, Any]) -> Any:
    """Say which rows lie in a box."""
    out = np.ones(len(rows), dtype=bool)
    for name, event in part.items():
        cell = as_cell(event)
        if name == "day":
            assert isinstance(cell, Interval)
            cell = Interval(*(end and pd.Timestamp(end) for end in (cell.low, cell.high)))
        out &= np.array([contains(cell, value) for value in rows[name]])
    return out


@pytest.mark.parametrize("name", UNIONS)
def test_draws_lie_in_the_union_as_often_as_they_should(model: MDMA, name: str) -> None:
    given, parts = UNIONS[name]
    rows = model.sample(400, given=given, random_state=0)
    found = np.array([inside(rows, part) for part in parts])
    assert (found.sum(0) == 1).all()
    wanted = weights(model, parts)
    np.testing.assert_allclose(found.mean(1), wanted, atol=4 * np.sqrt(0.25 / len(rows)))


def test_coupled_columns_given_sets(coupled: MDMA) -> None:
    """Values of a continuous column weigh by their densities in the column's own unit."""
    given = {"share": {0.05, 0.5}}
    densities = np.array([coupled.pdf({"share": v}) for v in (0.05, 0.5)])
    share = densities / densities.sum()
    for ask in (
        lambda g: coupled.mean("x", given=g),
        lambda g: coupled.prob({"x": (90, None), "count": (2, None)}, given=g),
        lambda g: coupled.pdf({"x": 95.0}, given=g),
    ):
        wanted = share[0] * ask({"share": 0.05}) + share[1] * ask({"share": 0.5})
        assert ask(given) == pytest.approx(wanted, rel=1e-4)
    at = coupled.ppf([0.2, 0.8], "x", given=given)
    np.testing.assert_allclose(
        coupled.cdf(pd.DataFrame({"x": at}), given=given), [0.2, 0.8], atol=1e-4
    )
    drawn = coupled.sample(300, given=given, random_state=0)["share"].round(6)
    assert set(drawn) == {0.05, 0.5}
    assert (drawn == 0.05).mean() == pytest.approx(share[0], abs=0.12)


def test_a_value_without_mass_does_not_count_next_to_one_with(model: MDMA) -> None:
    for given in ({"wait": {0, 17.0}}, {"wait": [0, 17.0]}):
        assert model.mean("x", given=given) == model.mean("x", given={"wait": 0})
    union = {"x": [(60, 80), 95.0]}
    assert model.mean("share", given=union) == model.mean("share", given={"x": (60, 80)})
    assert model.prob(union) == model.prob({"x": (60, 80)})


def test_events_and_evidence_that_share_a_column(model: MDMA) -> None:
    event, given = {"x": [(None, 70), (100, 120)]}, {"x": [(60, 80), (110, None)]}
    both = model.prob({"x": [(60, 70), (110, 120)]})
    assert model.prob(event, given=given) == pytest.approx(both / model.prob(given), rel=1e-5)
    text = "P(x <= 70 or 100 < x <= 120 | x in (60, 80] or x > 110)"
    assert model.query(text).value == pytest.approx(model.prob(event, given=given), rel=1e-9)


def test_query_strings_say_the_same(model: MDMA) -> None:
    given = {"x": [(60, 80), (110, None)], "count": {1, 4}}
    bar = "x in (60, 80] or x > 110, count in {1, 4}"
    assert model.query(f"E[share | {bar}]").value == model.mean("share", given=given)
    assert model.query(f"Q[0.5](share | {bar})").value == model.ppf(0.5, "share", given=given)
    assert model.query(f"mode(city | {bar})").value == model.mode("city", given=given)
    assert model.query("P(city = Oslo or city = Bergen)").value == pytest.approx(
        model.prob({"city": {"Oslo", "Bergen"}})
    )
    assert model.query("P(grade < b or grade = c)").value == pytest.approx(
        model.prob({"grade": {"a", "c"}})
    )


@pytest.mark.filterwarnings("ignore::marginals.OutsideDataWarning")
def test_far_out_unions_keep_their_digits(model: MDMA) -> None:
    """The probabilities of a category sum to one given points in either far tail."""
    shares = model.probabilities("city", given={"x": {-1e4, 1e4}})
    assert shares.sum() == pytest.approx(1, abs=1e-6)
    each = [model.prob({"city": c}, given={"x": {-1e4, 1e4}}) for c in shares.index]
    assert sum(each) == pytest.approx(1, abs=1e-6)


def test_too_many_boxes_are_refused() -> None:
    rng = np.random.default_rng(0)
    model = MDMA(width=2, max_steps=2, random_state=0, columns={0: Continuous()})
    model.fit(pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc")).round(6))
    values = [float(v) for v in range(40)]
    with pytest.raises(ValueError, match="at most 1,000 boxes; got 1,600"):
        model.mean("c", given={"a": values, "b": values})
    assert np.isfinite(model.mean("c", given={"a": values}))


def test_quantiles_of_columns_with_atoms_given_a_union(model: MDMA) -> None:
    given = {"count": {1, 4}}
    for level in (0.6, 0.9, 0.99):
        at = model.ppf(level, "wait", given=given)
        below = model.prob({"wait": (None, float(at))}, given=given)
        before = model.prob({"wait": (None, float(at) - 1e-3)}, given=given)
        assert before < level + 1e-5
        assert below > level - 1e-5
