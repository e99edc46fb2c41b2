"""What the session answers equals the model's own answers."""

import base64
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.cells.cell import Interval
from marginals.explorer.evidence_json import ImpossibleError, RequestError
from marginals.explorer.monitor_axis import MonitorAxis, to_page
from marginals.explorer.session import Session
from marginals.queries.ranges import normal_ranges


def value(v: Any) -> dict[str, Any]:
    return {"is": "value", "value": v}


def between(low: Any, high: Any) -> dict[str, Any]:
    return {"is": "range", "low": low, "high": high}


DAY = 86_400_000.0
MARCH = pd.Timestamp("2024-03-01").value / 1e6
# Evidence of the page, and as Python writes it.
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"size": value(0.5)}, {"size": 0.5}),
    ({"size": between(0.2, 1.4)}, {"size": (0.2, 1.4)}),
    ({"weight": between(None, 1.0)}, {"weight": (None, 1.0)}),
    ({"count": value("2")}, {"count": 2}),
    ({"count": between(1, 3)}, {"count": Interval(1, 3, True, True)}),
    ({"count": {"is": "set", "values": ["0", "4"]}}, {"count": {0, 4}}),
    ({"kind": value("large")}, {"kind": "large"}),
    ({"kind": {"is": "set", "values": ["small", "large"]}}, {"kind": {"small", "large"}}),
    ({"rain": value(0.0)}, {"rain": 0.0}),
    ({"rain": between(0, 2)}, {"rain": Interval(0, 2, True, True)}),
    ({"price": value(21.3)}, {"price": 21.3}),
    ({"price": between(16, 24.5)}, {"price": Interval(16, 24.5, True, True)}),
    (
        {"price": between(16, 24.5), "count": between(0, 6), "size": between(-1, None)},
        {
            "price": Interval(16, 24.5, True, True),
            "count": Interval(0, 6, True, True),
            "size": Interval(-1, None, True),
        },
    ),
    ({"sold": between(MARCH, None)}, {"sold": Interval(pd.Timestamp("2024-03-01"), None, True)}),
    (
        {"size": between(0, 2), "kind": value("middle"), "price": value(20.0)},
        {"size": (0, 2), "kind": "middle", "price": 20.0},
    ),
]


@pytest.mark.parametrize(("page", "given"), CASES, ids=map(str, range(len(CASES))))
def test_monitors_are_the_models_answers(
    session: Session, model: MDMA, page: dict[str, Any], given: dict[str, Any]
) -> None:
    found = session.answer("exact", {"evidence": page})
    assert set(found["columns"]) == {a.id for a in session.axes if a.id not in page}
    for axis in session.axes:
        name = axis.column.name
        if axis.id in page:
            continue
        shown = found["columns"][axis.id]
        assert sum(shown["m"]) + sum(shown["a"]) + sum(shown["b"]) == pytest.approx(1, abs=1e-4)
        if axis.ordered:
            levels = model.ppf([0.05, 0.5, 0.95], name, given=given or None)
            spread = float(np.ptp(axis.places))
            np.testing.assert_allclose(
                shown["q"], to_page(axis.column, levels), rtol=1e-5, atol=1e-5 * spread
            )
        if axis.kind == "bars":
            exact = [model.prob({name: v}, given=given or None) for v in axis.values]
            np.testing.assert_allclose(shown["m"], exact, atol=2e-5)
    if not page:
        return
    evidence = found["evidence"]
    if evidence["density"]:
        exact_cells = {n: v for n, v in given.items() if not isinstance(v, tuple | Interval | set)}
        rest = {n: v for n, v in given.items() if n not in exact_cells}
        log = model.logpdf(exact_cells) if not rest else None
        if log is not None:
            assert evidence["log"] == pytest.approx(log, abs=1e-5)
    else:
        assert evidence["log"] == pytest.approx(model.logprob(given), abs=1e-5)


@pytest.mark.parametrize(("page", "given"), CASES, ids=map(str, range(len(CASES))))
def test_a_drag_shows_nearly_the_same(
    session: Session, page: dict[str, Any], given: dict[str, Any]
) -> None:
    rough, fine = (session.answer(ask, {"evidence": page}) for ask in ("monitors", "exact"))
    assert rough["evidence"]["log"] == pytest.approx(fine["evidence"]["log"], abs=1e-3)
    for axis in session.axes:
        if axis.id in page:
            continue
        one, other = (found["columns"][axis.id] for found in (rough, fine))
        spread = float(np.ptp(axis.places)) or 1.0
        np.testing.assert_allclose(one["q"], other["q"], atol=2e-3 * spread)
        for part in ("m", "a", "b"):
            np.testing.assert_allclose(one[part], other[part], atol=2e-4)


def test_a_drag_asks_for_the_columns_in_sight(session: Session) -> None:
    cell = {"kind": value("small")}
    asked = {"evidence": cell, "columns": ["weight", "kind"]}
    assert list(session.answer("monitors", asked)["columns"]) == ["weight"]
    with pytest.raises(RequestError):
        session.answer("monitors", {"evidence": cell, "columns": "weight"})


SWEPT = {
    "size": [value(0.31), between(-0.7, 0.9)],
    "price": [between(17.0, 21.5)],
    "rain": [value(0.0), value(5.0), between(0.0, 2.5)],
    "count": [value(2), between(1, 3)],
    "kind": [value("small"), {"is": "soft", "weights": [0.5, 0.2, 0.3]}],
    "sold": [value(MARCH + 29 * DAY), between(MARCH + 5 * DAY, MARCH + 40 * DAY)],
}


@pytest.mark.parametrize("others", [{}, {"weight": value(0.5)}, {"weight": between(0.2, 1.4)}])
@pytest.mark.parametrize("column", SWEPT)
def test_a_sweep_holds_the_answers_of_a_drag(
    session: Session, column: str, others: dict[str, Any]
) -> None:
    """Evidence on the dragged column is a mean over the rows of one reply, as the page takes it."""
    swept = session.answer("sweep", {"column": column, "evidence": others})
    axis = next(axis for axis in session.axes if axis.id == column)
    for cell in SWEPT[column]:
        weights, log = page_weights(axis, swept, cell)
        fine = session.answer("exact", {"evidence": {**others, column: cell}})
        assert log == pytest.approx(fine["evidence"]["log"], abs=0.02)
        assert set(swept["columns"]) == set(fine["columns"])
        for own in session.axes:
            if own.id not in fine["columns"]:
                continue
            table = np.frombuffer(base64.b64decode(swept["columns"][own.id]), "<f4")
            shown, exact = weights @ table.reshape(len(weights), -1), fine["columns"][own.id]
            masses = np.concatenate([exact["m"], exact["a"], exact["b"]])
            assert np.abs(np.cumsum(shown - masses)).max() < 0.01


def page_weights(
    axis: MonitorAxis, swept: dict[str, Any], cell: dict[str, Any]
) -> tuple[np.ndarray, float]:
    """Return the weights of a sweep's rows and the evidence's log value, as `sweep.js` does."""
    ends, masses = np.array(swept["ends"]), np.exp(np.array(swept["log"], dtype=float))
    if cell["is"] == "soft":
        return np.array(cell["weights"]), float(np.log(masses.sum()))
    if axis.kind == "bars":
        own = axis.places if axis.family == "number" else np.array(axis.labels)
        low, high = cell.get("low", cell.get("value")), cell.get("high", cell.get("value"))
        inside = (own >= low) & (own <= high)
    elif cell["is"] == "value" and cell["value"] in axis.atoms:
        inside = np.append(np.zeros(len(ends) - 1), axis.atoms == cell["value"])
    elif cell["is"] == "value":
        middle = (ends[1:] + ends[:-1]) / 2
        at = np.interp(cell["value"], middle, np.arange(len(middle)))
        near = np.maximum(0.0, 1 - np.abs(np.arange(len(masses)) - at))
        return near, float(near @ np.array(swept["at"], dtype=float))
    else:
        half = (axis.step or 0.0) / 2
        low, high = cell["low"] - half, cell["high"] + half
        part = np.clip(np.minimum(high, ends[1:]) - np.maximum(low, ends[:-1]), 0, None)
        atoms = (axis.atoms >= low) & (axis.atoms <= high)
        inside = np.append(part / np.diff(ends), atoms)
    weights = inside * masses
    return weights / weights.sum(), float(np.log(weights.sum()))


def test_a_sweep_needs_hard_evidence_on_the_others(session: Session) -> None:
    soft = {"kind": {"is": "soft", "weights": [0.5, 0.2, 0.3]}}
    with pytest.raises(RequestError, match="soft"):
        session.answer("sweep", {"column": "size", "evidence": soft})
    assert session.answer("sweep", {"column": "kind", "evidence": soft})["columns"]
    assert session.answer("sweep", {"column": "size", "columns": ["size"]}) == {"columns": {}}


def test_bins_hold_the_probability_of_intervals(session: Session, model: MDMA) -> None:
    found = session.answer("exact", {"evidence": {"kind": value("small")}})
    axis = next(axis for axis in session.axes if axis.id == "weight")
    for at in (20, 50, 80):
        low, high = axis.places[at : at + 2]
        exact = model.prob({"weight": (low, high)}, given={"kind": "small"})
        assert found["columns"]["weight"]["m"][at] == pytest.approx(exact, abs=1e-6)
    for atom, shown in zip((0.0, 5.0), found["columns"]["rain"]["a"], strict=True):
        exact = model.prob({"rain": atom}, given={"kind": "small"})
        assert shown == pytest.approx(exact, abs=1e-6)


def test_columns_with_evidence_show_what_the_others_say(session: Session) -> None:
    both = {"size": between(0, 1), "kind": value("small")}
    own = session.answer("own", {"evidence": both})["columns"]
    for name in both:
        rest = {n: cell for n, cell in both.items() if n != name}
        alone = session.answer("exact", {"evidence": rest})["columns"][name]
        np.testing.assert_allclose(own[name]["m"], alone["m"], atol=1e-6)


def test_soft_evidence_is_jeffreys_rule(session: Session) -> None:
    axis = next(axis for axis in session.axes if axis.id == "kind")
    weights = [0.5, 0.2, 0.3]
    found = session.answer("exact", {"evidence": {"kind": {"is": "soft", "weights": weights}}})
    parts = [
        session.answer("exact", {"evidence": {"kind": value(label)}})["columns"]["weight"]
        for label in axis.labels
    ]
    mixed = sum(w * np.array(part["m"]) for w, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(found["columns"]["weight"]["m"], mixed, atol=1e-6)


def test_weight_on_what_is_ruled_out_is_refused(session: Session) -> None:
    with pytest.raises(RequestError, match="weights"):
        session.answer("monitors", {"evidence": {"kind": {"is": "soft", "weights": [0, 0, 0]}}})


@pytest.mark.parametrize(
    "cell", [value(-3.0), between(-5, -1)], ids=["a value below the bound", "a range below it"]
)
def test_impossible_evidence_says_so(session: Session, cell: dict[str, Any]) -> None:
    with pytest.raises(ImpossibleError, match="not applied"):
        session.answer("monitors", {"evidence": {"rain": cell}})


def test_boxes_of_coupled_columns_state_their_error(session: Session) -> None:
    box = {name: between(0, 2) for name in ("size", "weight")} | {"price": between(19, 24)}
    # While dragging, the many values of a price count as a range; then they are summed.
    assert session.answer("monitors", {"evidence": box})["evidence"]["error"] == 2e-3
    assert session.answer("exact", {"evidence": box})["evidence"]["error"] == 1e-10
    one = session.answer("exact", {"evidence": {"size": between(0, 1)}})
    assert one["evidence"]["error"] == 0


def test_evidence_far_outside_of_the_data_is_named(session: Session) -> None:
    found = session.answer("monitors", {"evidence": {"size": value(200.0)}})
    assert found["evidence"]["outside"] == ["size"]


def test_frequencies_are_those_of_the_rows_that_agree(session: Session, data: pd.DataFrame) -> None:
    page = {"kind": {"is": "set", "values": ["small", "middle"]}, "count": between(1, 3)}
    found = session.answer("data", {"evidence": page})
    rows = data[data["kind"].isin(["small", "middle"]) & data["count"].between(1, 3)]
    assert found["agree"] == len(rows)
    shown = found["columns"]["count"]
    assert shown["n"] == rows["count"].notna().sum()
    axis = next(axis for axis in session.axes if axis.id == "count")
    exact = [float((rows["count"] == v).mean()) for v in axis.values]
    np.testing.assert_allclose(shown["m"], exact, atol=2e-5)
    rain = found["columns"]["rain"]
    share = (rows["rain"] == 0).sum() / rows["rain"].notna().sum()
    assert rain["a"][0] == pytest.approx(share, abs=1e-6)


def test_exact_values_of_curves_count_rows_around_them(
    session: Session, data: pd.DataFrame
) -> None:
    found = session.answer("data", {"evidence": {"size": value(0.0)}})
    axis = next(axis for axis in session.axes if axis.id == "size")
    width = 0.025 * float(np.ptp(axis.places))
    assert found["agree"] == (data["size"].abs() <= width).sum()
    assert "size within" in found["remarks"][0]


def test_soft_evidence_weighs_the_rows(session: Session) -> None:
    weights = [0.5, 0.2, 0.3]
    found = session.answer("data", {"evidence": {"kind": {"is": "soft", "weights": weights}}})
    np.testing.assert_allclose(found["columns"]["kind"]["m"], weights, atol=1e-6)


def test_target_ranks_columns_and_adds_up(session: Session) -> None:
    page = {"kind": value("large"), "count": between(2, None)}
    found = session.answer("target", {"target": "weight", "evidence": page})
    assert {line["id"] for line in found["ranking"][:2]} <= {"size", "price", "sold"}
    moved = sum(part["by"] for part in found["contributions"])
    assert moved == pytest.approx(found["after"] - found["before"], abs=1e-6)
    assert found["of"] == "median"
    alone = session.answer("exact", {"evidence": page})["columns"]["weight"]["q"][1]
    assert found["after"] == pytest.approx(alone, abs=1e-6)


def test_pairs_hold_the_joint_mass(session: Session, model: MDMA) -> None:
    found = session.answer("pair", {"x": "kind", "y": "count", "evidence": {}})
    axes = {axis.id: axis for axis in session.axes}
    exact = model.prob({"kind": axes["kind"].values[1], "count": 2})
    place = axes["count"].values.index(2)
    assert found["m"][place][1] == pytest.approx(exact, rel=2e-3)
    smooth = session.answer("pair", {"x": "size", "y": "weight", "evidence": {}})
    assert np.sum(smooth["m"]) == pytest.approx(1, abs=0.02)
    assert len(smooth["points"]) > 200


def test_rows_are_filled_in_and_explained(
    session: Session, model: MDMA, data: pd.DataFrame
) -> None:
    number = int(np.flatnonzero(data.isna().sum(axis=1) == 1)[0])
    cells = session.answer("data_row", {"row": number})["cells"]
    lines = {line["id"]: line for line in session.answer("row", {"cells": cells})["cells"]}
    row = data.iloc[[number]]
    (gap,) = row.columns[row.iloc[0].isna()]
    axes = {axis.id: axis for axis in session.axes}
    median = model.impute(row, method="median").iloc[0]
    for name, axis in axes.items():
        if name == gap and axis.family != "category":
            expected = to_page(axis.column, [median[name]])[0]
            shown = lines[name]["expected"]
            assert shown == pytest.approx(expected, rel=1e-4) or str(shown) == str(median[name])
    density, schema = model._parts()
    for line in normal_ranges(density, schema, row, 0.9).to_dict("records"):
        assert lines[line["column"]]["tail"] == pytest.approx(line["tail"], rel=1e-4, abs=1e-7)


def test_a_row_is_read_from_text(session: Session) -> None:
    found = session.answer("paste", {"text": "size,kind,sold\n0.5,large,2024-03-01"})["cells"]
    assert found == {"size": 0.5, "kind": "large", "sold": MARCH}
    found = session.answer("paste", {"text": '{"size": 1, "rain": null, "count": 2}'})["cells"]
    assert found == {"size": 1.0, "rain": None, "count": 2.0}
    with pytest.raises(RequestError, match="header"):
        session.answer("paste", {"text": "1,2,3"})


def test_drawn_rows_agree(session: Session) -> None:
    page = {"kind": value("large"), "size": between(0.5, 1)}
    text = session.answer("sample", {"evidence": page, "count": 50, "seed": 1})["csv"]
    lines = text.strip().split("\n")
    assert len(lines) == 51
    place = lines[0].split(",").index("size")
    assert all(0.5 <= float(line.split(",")[place]) <= 1 for line in lines[1:])
    soft = {"kind": {"is": "soft", "weights": [1, 0, 0]}}
    label = next(axis for axis in session.axes if axis.id == "kind").labels[0]
    text = session.answer("sample", {"evidence": soft, "count": 20, "seed": 1})["csv"]
    assert text.count(label) == 20


@pytest.mark.parametrize(("page", "given"), CASES[1:], ids=map(str, range(len(CASES))))
def test_the_question_can_be_copied(
    session: Session, model: MDMA, page: dict[str, Any], given: dict[str, Any], tmp_path: Any
) -> None:
    target = "weight" if "weight" not in page else "size"
    found = session.answer("texts", {"evidence": page, "target": target})
    expected = [float(x) for x in model.ppf([0.05, 0.5, 0.95], target, given=given)]
    np.testing.assert_allclose(model.query(found["query"]).value, expected, rtol=1e-6)
    model.save(tmp_path / "shop.mdma")
    code = found["python"].replace("shop.mdma", str(tmp_path / "shop.mdma"))
    head, _, last = code.rpartition("\n")
    scope: dict[str, Any] = {}
    exec(head, scope)
    np.testing.assert_allclose(eval(last, scope), expected, rtol=1e-5)
    assert found["command"].startswith("marginals query shop.mdma 'Q[")
    alone = session.answer("texts", {"evidence": page})
    evidence = session.answer("exact", {"evidence": page})["evidence"]
    if not evidence["density"]:
        answer = np.log(float(model.query(alone["query"])))
        assert evidence["log"] == pytest.approx(answer, abs=1e-3)


@pytest.mark.parametrize(
    ("column", "text", "cell"),
    [
        ("size", "0.5", value(0.5)),
        ("size", "-1..1.5", between(-1.0, 1.5)),
        ("size", "> 1", between(1.0, None)),
        ("size", "<= 1", between(None, 1.0)),
        ("count", "2", value("2")),
        ("count", "> 2", between(3.0, None)),
        ("kind", "large", value("large")),
        ("kind", "large, small", {"is": "set", "values": ["large", "small"]}),
        ("sold", "2024-03-01", value(MARCH)),
        ("size", "unknown", None),
    ],
)
def test_evidence_is_typed(session: Session, column: str, text: str, cell: Any) -> None:
    assert session.answer("typed", {"column": column, "text": text})["cell"] == cell


def test_soft_evidence_is_typed(session: Session) -> None:
    axis = next(axis for axis in session.axes if axis.id == "kind")
    cell = session.answer("typed", {"column": "kind", "text": f"{axis.labels[0]}: 70 %"})["cell"]
    np.testing.assert_allclose(cell["weights"], [0.7, 0.15, 0.15])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nothing", {}),
        ("monitors", []),
        ("monitors", {"evidence": []}),
        ("monitors", {"evidence": {"size": 3}}),
        ("monitors", {"evidence": {"nowhere": value(1)}}),
        ("monitors", {"evidence": {"size": value(float("inf"))}}),
        ("monitors", {"evidence": {"size": value("x")}}),
        ("monitors", {"evidence": {"size": between(2, 1)}}),
        ("monitors", {"evidence": {"kind": value("unheard")}}),
        ("monitors", {"evidence": {"kind": between(0, 1)}}),
        ("monitors", {"evidence": {"size": {"is": "soft", "weights": [1]}}}),
        ("monitors", {"evidence": {"sold": value(1e300)}}),
        ("pair", {"x": "size", "y": "size"}),
        ("sample", {"count": 10**9}),
        ("sample", {"count": "5"}),
        ("data_row", {"row": -1}),
        ("typed", {"column": "size", "text": "]["}),
        ("typed", {"column": "size", "text": "1" * 100_000}),
        ("row", {"cells": {"kind": 3}}),
        ("target", {"target": None}),
    ],
)
def test_bad_requests_are_refused(session: Session, name: str, arguments: Any) -> None:
    with pytest.raises(RequestError):
        session.answer(name, arguments)


def test_every_answer_is_json(session: Session) -> None:
    json.dumps(session.answer("table", {}), allow_nan=False)
    json.dumps(session.answer("monitors", {"evidence": {"size": value(1.0)}}), allow_nan=False)


def test_models_that_cannot_be_explored_are_refused(model: MDMA, data: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match="fit"):
        Session(MDMA())
    with pytest.raises(ValueError, match="one row"):
        Session(model.condition(data[["size"]].dropna().head(2)))


def test_without_data_there_are_no_frequencies(model: MDMA) -> None:
    alone = Session(model.marginal(["size", "kind"]))
    assert alone.answer("table", {})["rows"] is None
    with pytest.raises(RequestError, match="--data"):
        alone.answer("data", {"evidence": {}})
