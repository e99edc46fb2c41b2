"""Pictures of copulas: what comes back, what it says, and what it refuses."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import plotting
from marginals.estimators.mdma import MDMA


def curves(ax: Any) -> dict[str, Any]:
    return {line.get_label(): line.get_data() for line in ax.get_lines()}


def test_copula_with_data(model: MDMA, frame: pd.DataFrame) -> None:
    ax = plotting.copula(model, "x", "wage", data=frame)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "level of x"
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)
    (points,) = ax.get_lines()
    levels = model.copula(["x", "wage"]).levels(frame).dropna()
    np.testing.assert_allclose(points.get_xydata(), levels[["x", "wage"]])


def test_copula_given_evidence_on_axes(model: MDMA) -> None:
    import matplotlib.pyplot as plt

    _, own = plt.subplots()
    ax = plotting.copula(model, "x", "wait", given={"city": "Oslo"}, ax=own)
    assert ax is own
    assert ax.get_title(loc="left") == "given city = Oslo"


def test_tails_are_the_models(model: MDMA, frame: pd.DataFrame) -> None:
    ax = plotting.tails(model, "x", "wage", data=frame, least=0.01)
    ax.figure.canvas.draw()
    found = curves(ax)
    q, lower = found["both low"]
    copula = model.copula(["x", "wage"])
    np.testing.assert_allclose(lower, copula.lower_tail("x", "wage", q))
    np.testing.assert_allclose(found["both high"][1], copula.upper_tail("x", "wage", q))
    q, share = found["data, low"]
    assert ((share > 0) & (share <= 1)).all()
    ranks = frame[["x", "wage"]].dropna().rank(pct=True)
    near = (ranks <= q[-1]).all(axis=1).mean() / q[-1]
    assert share[-1] == pytest.approx(near, abs=0.05)


def test_refusals(model: MDMA) -> None:
    with pytest.raises(ValueError, match="'city'"):
        plotting.copula(model, "x", "city")
    with pytest.raises(ValueError, match="`given`"):
        plotting.copula(model, "x", "wage", given={"x": 1.0})
    with pytest.raises(ValueError, match="`least`"):
        plotting.tails(model, "x", "wage", least=0.7)
