"""Drift finds the columns and pairs that changed, and no others."""

import numpy as np
import pandas as pd
import pytest

from marginals.synthesis import drift


def table(rows: int, seed: int, tie: float = 0.5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    frame = pd.DataFrame(
        {
            "x": x,
            "y": tie * x + np.sqrt(1 - tie**2) * z,
            "n": rng.poisson(3, rows),
            "city": rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2]),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, rows), "D"),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "n"] = np.nan
    return frame


def test_false_alarms_are_as_rare_as_stated() -> None:
    """At level 0.2, at most 15 of 40 pairs of equal tables: chance exceeds that once in 1000."""
    alarms = [
        bool(drift(table(300, i), table(250, 1000 + i), level=0.2).drifted) for i in range(40)
    ]
    assert sum(alarms) <= 15


def test_changes_are_found_where_they_are() -> None:
    old, new = table(800, 0), table(700, 1)
    assert drift(old, new).drifted == []
    assert str(drift(old, new)).startswith("No drift")
    moved = new.assign(x=new["x"] + 0.5)
    assert drift(old, moved).drifted == ["x"]
    mixed = new.assign(city=np.random.default_rng(2).choice(["a", "b", "d"], 700))
    assert drift(old, mixed).drifted == ["city"]
    tied = table(700, 3, tie=-0.5)
    assert drift(old, tied).drifted == [("x", "y")]
    assert "x with y" in str(drift(old, tied))
    gone = new.assign(day=new["day"].where(new.index % 2 == 0))
    found = drift(old, gone)
    assert found.drifted == ["day"]
    assert found.columns.set_index("column").loc["day", "missing"] == pytest.approx(0.5)


def test_odd_tables() -> None:
    constant = pd.DataFrame({"a": [1.0] * 50, "b": [None] * 50, "c": ["u"] * 50})
    found = drift(constant, constant)
    assert found.drifted == []
    assert found.pvalue == 1.0
    assert drift(constant[["a"]], constant[["a"]]).pairs.empty
    with pytest.raises(ValueError, match="Select the same columns"):
        drift(constant, constant[["a"]])
    with pytest.raises(ValueError, match="level"):
        drift(constant, constant, level=2)
