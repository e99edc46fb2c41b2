"""Random questions to a fitted model, each with the law that its answer obeys."""

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from marginals import MDMA, load
from marginals.columns import Categorical
from marginals.training.result import FitError

Rng = np.random.Generator

# In float32, in which models are fitted, probabilities of parts add up to this.
CLOSE = 2e-5
OURS = (ValueError, TypeError, KeyError, FitError)


class Refused(Exception):  # noqa: N818 (an outcome, not a mistake)
    """A question was answered by one of our errors."""


def answer(ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Ask; an error must be ours and say what was expected."""
    try:
        return ask(*arguments, **options)
    except OURS as error:
        text = str(error.args[0]) if error.args else ""
        if not text.startswith("Expected"):
            raise AssertionError(f"{type(error).__name__}: {text}") from error
        raise Refused(text) from error


def ask_all(model: MDMA, frame: pd.DataFrame, rng: Rng) -> tuple[int, list[str]]:
    """Ask every kind of question once; return how many were answered and why others were not."""
    refused = []
    questions = list(_questions(model, frame, rng))
    for question in questions:
        try:
            question()
        except Refused as reason:
            refused.append(str(reason))
    return len(questions) - len(refused), refused


def _questions(model: MDMA, frame: pd.DataFrame, rng: Rng) -> Iterator[Callable[[], None]]:
    yield lambda: scores_are_numbers(model, frame)
    yield lambda: samples_look_like_rows(model, frame, rng)
    for method in ("mean", "median", "mode", "draw"):
        yield lambda method=method: imputing_leaves_no_gap(model, frame, method)  # type: ignore[misc]
    for name in frame.columns:
        for given in (None, evidence(frame, name, rng)):
            yield lambda name=name, given=given: parts_add_up(model, frame, name, given, rng)  # type: ignore[misc]
            yield lambda name=name, given=given: the_cdf_rises(model, frame, name, given)  # type: ignore[misc]
            yield lambda name=name, given=given: quantiles_rise(model, name, given)  # type: ignore[misc]
            yield lambda name=name, given=given: moments_are_numbers(model, name, given)  # type: ignore[misc]
    yield lambda: boxes_are_probabilities(model, frame, rng)
    yield lambda: words_say_the_same(model, frame, rng)
    yield lambda: files_bring_it_back(model, frame)


def evidence(frame: pd.DataFrame, name: Any, rng: Rng) -> dict[Any, Any]:
    """Return some cells of a row, other than that of a column."""
    row = int(rng.integers(len(frame)))
    return {
        other: frame[other].iloc[row] for other in frame if other != name and rng.random() < 0.5
    }


def near(model: MDMA, given: Any) -> float:
    """Return how close to 1 parts add up: a log density of -1e5 is known to 0.01 in float32."""
    return CLOSE + (0.0 if not given else 1e-6 * abs(answer(model.logpdf, given)))


def scores_are_numbers(model: MDMA, frame: pd.DataFrame) -> None:
    scores = answer(model.score_samples, frame)
    assert scores.shape == (len(frame),)
    assert not np.isnan(scores).any(), scores
    assert (scores < np.inf).all(), scores
    one = answer(model.score_samples, frame.iloc[[0]])
    np.testing.assert_allclose(one, scores[:1], rtol=1e-4, atol=1e-4)


def samples_look_like_rows(model: MDMA, frame: pd.DataFrame, rng: Rng) -> None:
    rows = answer(model.sample, 5, random_state=0)
    assert list(rows.columns) == list(frame.columns)
    for column in model.schema_:
        assert rows[column.name].notna().all(), column
        if isinstance(column.kind, Categorical):
            assert set(rows[column.name]) <= set(column.kind.categories or ()), column
        elif column.reason not in ("no value seen", "intervals") and not column.notes:
            assert rows[column.name].dtype == frame[column.name].dtype, column
    assert not np.isnan(answer(model.score_samples, rows)).any()


def imputing_leaves_no_gap(model: MDMA, frame: pd.DataFrame, method: str) -> None:
    full = answer(model.impute, frame, method=method, random_state=0)
    assert full.notna().all(axis=None), (method, full[full.isna().any(axis=1)])
    for name in frame:
        known = frame[name].notna().to_numpy()
        assert list(full[name][known]) == list(frame[name][known]), name


def parts_add_up(model: MDMA, frame: pd.DataFrame, name: Any, given: Any, rng: Rng) -> None:
    column = model.schema_[name]
    if isinstance(column.kind, Categorical):
        categories = list(column.kind.categories or ())
        chosen = {c for c in categories if rng.random() < 0.5} or {categories[0]}
        events: list[Any] = [chosen, set(categories) - chosen]
    else:
        cuts = _values(frame, name) or [None]
        cut = cuts[int(rng.integers(len(cuts)))]
        events = [(None, cut), (cut, None)]
    if events == [(None, None)] * 2:
        return
    total, close = 0.0, near(model, given)
    for event in events:
        if event:
            probability = answer(model.prob, {name: event}, given=given)
            assert 0 <= probability <= 1 + close, (event, probability)
            total += probability
    assert math.isclose(total, 1, abs_tol=close), (name, events, total)


def the_cdf_rises(model: MDMA, frame: pd.DataFrame, name: Any, given: Any) -> None:
    column, known = model.schema_[name], frame[name].dropna()
    unordered = isinstance(column.kind, Categorical) and not column.ordered
    if not len(known) or isinstance(known.dtype, pd.IntervalDtype) or unordered:
        return
    values = pd.DataFrame({name: known.sort_values().iloc[:20]})
    heights, close = answer(model.cdf, values, given=given), near(model, given)
    assert ((heights >= 0) & (heights <= 1 + close)).all(), heights
    assert (np.diff(heights) >= -close).all(), heights
    above = answer(model.sf, values, given=given)
    np.testing.assert_allclose(heights + above, 1, atol=close)


def quantiles_rise(model: MDMA, name: Any, given: Any) -> None:
    values = list(answer(model.ppf, [0.01, 0.25, 0.5, 0.75, 0.99], name, given=given))
    assert not any(map(pd.isna, values)), values
    column = model.schema_[name]
    if isinstance(column.kind, Categorical):
        values = [list(column.kind.categories or ()).index(value) for value in values]
    assert all(a <= b for a, b in itertools.pairwise(values)), values


def moments_are_numbers(model: MDMA, name: Any, given: Any) -> None:
    mean = answer(model.mean, name, given=given)
    assert not pd.isna(mean), mean
    spread = answer(model.std, name, given=given)
    assert not pd.isna(spread), spread
    assert spread >= type(spread)(0), spread


def boxes_are_probabilities(model: MDMA, frame: pd.DataFrame, rng: Rng) -> None:
    event = {}
    for name in frame:
        values = _values(frame, name)
        if len(values) and not isinstance(model.schema_[name].kind, Categorical):
            low, high = sorted(values[int(i)] for i in rng.integers(len(values), size=2))
            event[name] = (low, high) if low < high else (None, high)
    joint = answer(model.prob, event)
    assert 0 <= joint <= 1 + CLOSE
    for name in event:
        assert joint <= answer(model.prob, {name: event[name]}) + CLOSE


def words_say_the_same(model: MDMA, frame: pd.DataFrame, rng: Rng) -> None:
    for column in model.schema_:
        values = _values(frame, column.name)
        if not values or column.dtype[0] not in "fiuFIU" or "interval" in column.dtype:
            continue
        cut = values[int(rng.integers(len(values)))]
        cut = cut.item() if hasattr(cut, "item") else cut
        asked = answer(model.query, f"P({column.name} > {cut!r})").value
        meant = answer(model.prob, {column.name: (cut, None)})
        assert math.isclose(asked, meant, abs_tol=1e-12), (column.name, cut)


def files_bring_it_back(model: MDMA, frame: pd.DataFrame) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m.mdma")
        again = load(f"{folder}/m.mdma")
    assert isinstance(again, MDMA)
    assert again.schema_ == model.schema_
    np.testing.assert_array_equal(
        answer(again.score_samples, frame), answer(model.score_samples, frame)
    )
    drawn = (m.sample(3, random_state=1) for m in (again, model))
    pd.testing.assert_frame_equal(*drawn)


def _values(frame: pd.DataFrame, name: Any) -> list[Any]:
    values = frame[name].dropna()
    return [v.left if isinstance(v, pd.Interval) else v for v in values]
