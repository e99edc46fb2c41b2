"""Ends of intervals, moments and names where numbers are large or names are doubled."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from marginals import MDMA, Continuous, Integer
from marginals.cli import app
from marginals.columns import encode_bounds, infer

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def cell(schema: Any, low: Any, high: Any) -> tuple[float, float]:
    lower, upper = encode_bounds(schema, "a", low, high)
    return float(lower), float(upper)


bounds = st.sampled_from([(None, None), (0, None), (None, 20), (0, 20)])
ends = st.one_of(st.none(), st.integers(-3, 24), st.integers(-12, 96).map(lambda n: n / 4))


@given(bounds, ends, ends)
def test_an_interval_of_integers_is_its_cells(
    bound: tuple[int | None, int | None], low: Any, high: Any
) -> None:
    frame = pd.DataFrame({"a": np.arange(21)})
    schema = infer(frame, {"a": Integer(*bound)})
    inside = [
        n
        for n in range(-60, 80)
        if (low is None or n > low) and (high is None or n <= high)
        if (bound[0] is None or n >= bound[0]) and (bound[1] is None or n <= bound[1])
    ]
    if low is not None and high is not None and low >= high:
        return
    found = cell(schema, low, high)
    if not inside:
        assert found[0] == np.inf  # which no value can be in
        return
    first, last = cell(schema, inside[0], inside[0]), cell(schema, inside[-1], inside[-1])
    assert found[0] == (-np.inf if low is None else first[0])
    assert found[1] == (np.inf if high is None else last[1])


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=6), st.integers(0, 2**64 - 1))
def test_an_interval_starts_where_the_one_before_ended(values: list[int], cut: int) -> None:
    schema = infer(pd.DataFrame({"a": np.array(values, dtype="uint64")}))
    assert cell(schema, None, cut)[1] == cell(schema, cut, None)[0]


@pytest.mark.parametrize("kind", [None, Continuous(lower=0), Continuous(0, 4000)])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_moments_are_those_of_the_quantiles(kind: Any, scale: float) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.gamma(9, 20, 300) * scale, "b": rng.choice(["p", "q"], 300)})
    if kind is not None:
        top = None if kind.upper is None else kind.upper * scale
        kind = Continuous(0, top)
    columns = None if kind is None else {"a": kind}
    model = MDMA(columns=columns, width=4, max_steps=30, random_state=0).fit(frame)
    levels = (np.arange(4000) + 0.5) / 4000
    for given_ in (None, {"b": "q"}):
        values = np.asarray(model.ppf(levels, "a", given=given_)) / scale
        assert model.mean("a", given=given_) / scale == pytest.approx(values.mean(), rel=2e-3)
        assert model.std("a", given=given_) / scale == pytest.approx(values.std(), rel=3e-2)


def test_names_that_are_there_twice(tmp_path: Path) -> None:
    table = pa.table([pa.array(["x", "y"] * 50), pa.array(["u", "v"] * 50)], names=["a", "a"])
    pq.write_table(table, tmp_path / "t.parquet")
    for rows in ("10", "1000"):
        done = CliRunner().invoke(
            app, ["fit", f"{tmp_path}/t.parquet", "-o", f"{tmp_path}/m", "--rows", rows]
        )
        assert done.exit_code == 1
        assert "Expected each column name once; got 'a' more than once" in done.stderr
