"""Columns of every dtype can be explored: evidence from their own cells, and answers in JSON."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.explorer.session import Session
from tests.robustness.tables import SOUND, make_frame

KINDS = sorted({*SOUND} - {"any scale", "odd floats"})


@pytest.mark.parametrize("first", range(0, len(KINDS), 4))
def test_every_kind_of_column(first: int) -> None:
    kinds = KINDS[first : first + 4]
    frame = make_frame(kinds, 60, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MDMA(width=3, max_steps=3, random_state=0, progress=False).fit(frame)
    session = Session(model, frame)
    json.dumps(session.answer("table", {}), allow_nan=False)
    for axis in session.axes:
        assert np.all(np.diff(axis.points) >= 0), axis.id
        shown = session.prior[axis.position]
        assert shown.masses.sum() + shown.atoms.sum() == pytest.approx(1, abs=0.05), axis.id
    for number in range(4):
        cells = session.answer("data_row", {"row": number})["cells"]
        # Whole numbers beyond are not floats, nor numbers of JavaScript.
        known = {n: v for n, v in cells.items() if isinstance(v, str) or abs(v or 2**60) < 2**53}
        for name, value in known.items():
            evidence = {name: {"is": "value", "value": value}}
            for ask in ("monitors", "exact", "data", "texts"):
                json.dumps(session.answer(ask, {"evidence": evidence}), allow_nan=False)
        json.dumps(session.answer("row", {"cells": known}), allow_nan=False)


def test_names_that_are_numbers_and_texts() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({0: rng.normal(size=50), 1: list("ab") * 25})
    model = MDMA(width=3, max_steps=3, random_state=0).fit(frame)
    session = Session(model, frame)
    found = session.answer("monitors", {"evidence": {"1": {"is": "value", "value": "a"}}})
    assert list(found["columns"]) == ["0"]
