"""Missing cells filled: exactly the missing ones, from their conditionals, in the table's types."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous, Integer
from marginals.queries.imputation import Imputation


@pytest.fixture(scope="module")
def holes(frame: pd.DataFrame) -> pd.DataFrame:
    out = frame.copy()
    rng = np.random.default_rng(1)
    for column in out.columns:
        out.loc[rng.random(len(out)) < 0.3, column] = None
    return out


def bounds(model: MDMA, table: pd.DataFrame, level: float) -> tuple[Any, Any]:
    return Imputation(model.module_, model.schema_, table).bounds(level)


@pytest.mark.parametrize("method", ["mean", "median", "mode", "draw"])
def test_fills_what_is_missing_and_nothing_else(
    model: MDMA, holes: pd.DataFrame, method: str
) -> None:
    done = model.impute(holes, method, random_state=0)
    assert not done.isna().any().any()
    assert list(done.columns) == list(holes.columns)
    assert done.index.equals(holes.index)
    for column in holes.columns:
        kept = holes[column].notna()
        assert (done.loc[kept, column] == holes.loc[kept, column]).all()
    for column in ("city", "grade", "day", "x"):
        assert done[column].dtype == holes[column].dtype


def test_fills_with_the_conditional(model: MDMA, holes: pd.DataFrame) -> None:
    row = holes.index[holes["x"].isna() & holes["city"].notna()][0]
    one = holes.loc[[row]]
    known = {name: value for name, value in one.iloc[0].items() if pd.notna(value)}
    assert model.impute(one)["x"].iloc[0] == pytest.approx(model.mean("x", given=known), rel=1e-4)
    assert model.impute(one, "median")["x"].iloc[0] == pytest.approx(
        model.ppf(0.5, "x", given=known), rel=1e-4
    )
    lines = model.impute_interval(one, 0.8)
    low, high = model.interval("x", 0.8, given=known)
    line = lines[lines["column"] == "x"].iloc[0]
    assert (line["row"], float(line["lower"])) == (row, pytest.approx(low, rel=1e-4))
    assert float(line["upper"]) == pytest.approx(high, rel=1e-4)


def test_batches_make_no_difference(
    model: MDMA, holes: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, lines = model.impute(holes), model.impute_interval(holes)
    monkeypatch.setattr(type(model.module_), "rows_at_once", lambda self, given=None: 70)
    parted = model.impute(holes)
    numbers, day = parted.select_dtypes("number"), pd.Timedelta("1min")
    pd.testing.assert_frame_equal(numbers, whole[numbers.columns], rtol=1e-4)
    assert ((parted["day"] - whole["day"]).abs() < day).all()
    assert (parted["city"] == whole["city"]).all()
    keys = ["row", "column"]
    found = model.impute_interval(holes)[keys].sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(found, lines[keys].sort_values(keys, ignore_index=True))


def test_some_of_the_columns_of_some_tables(
    model: MDMA, holes: pd.DataFrame, frame: pd.DataFrame
) -> None:
    pd.testing.assert_frame_equal(model.impute(frame), frame)
    for fitted, columns in ((model, ["city", "x"]), (model.marginal(["x", "count"]), ["x"])):
        done = fitted.impute(holes[columns])
        assert list(done.columns) == columns
        assert not done.isna().any().any()
    # pandas holds columns without any value as floats, whatever they were when fitted.
    done = model.impute(frame.head(3).assign(city=np.nan, grade=np.nan, count=np.nan))
    assert set(done["city"]) <= set(frame["city"])
    assert not done.isna().any().any()
    x = 1e-3 * np.random.default_rng(0).normal(size=(40, 2))  # numbers of small spread
    x[::3, 1] = np.nan
    assert np.abs(MDMA(width=2, max_steps=5, random_state=0).fit(x).impute(x)).max() < 0.1


@pytest.mark.parametrize("method", ["mean", "median", "mode", "draw"])
def test_integers_stay_integers(model: MDMA, frame: pd.DataFrame, method: str) -> None:
    gaps = frame.index[::7]
    for dtype, wanted in (("int64", "int64"), ("Int64", "Int64"), ("Int32", "Int32")):
        holes = frame.assign(count=frame["count"].astype(dtype))
        holes.loc[gaps, "count"] = None  # int64 becomes float64
        done = model.impute(holes, method, random_state=0)["count"]
        assert done.dtype == wanted
        assert (done.drop(gaps) == frame["count"].drop(gaps)).all()
    known = frame.loc[gaps[0]].drop("count").to_dict()
    if method == "mean":
        assert done[gaps[0]] == round(model.mean("count", given=known))


def test_absent_columns_are_added_on_request(model: MDMA, frame: pd.DataFrame) -> None:
    some = frame[["x", "city"]].head(3).assign(city=[None, "Oslo", None])
    done = model.impute(some, columns=["count", "city", "grade", "day", "share"])
    assert list(done.columns) == ["x", "city", "count", "grade", "day", "share"]
    assert done.notna().all(axis=None)
    assert (done.dtypes == frame.dtypes[done.columns]).all()
    pd.testing.assert_series_equal(done["x"], some["x"])
    only = model.impute(some.assign(x=np.nan), columns="city")
    assert only["x"].isna().all()
    assert only["city"].notna().all()
    with pytest.raises(ValueError, match="'cty'"):
        model.impute(some, columns=["cty"])


def test_bounds_are_the_intervals_as_tables(model: MDMA, holes: pd.DataFrame) -> None:
    lower, upper = bounds(model, holes, 0.8)
    lines = model.impute_interval(holes, 0.8)
    for side, table in (("lower", lower), ("upper", upper)):
        assert list(table.columns) == list(holes.columns)
        for column, group in lines.groupby("column"):
            assert list(table.loc[group["row"], column]) == list(group[side])
            kept = holes[column].notna()
            assert (table.loc[kept, column] == holes.loc[kept, column]).all()
    assert (lower["x"] <= upper["x"]).all()
    assert lower["city"].isna().equals(holes["city"].isna())  # no order, no interval


def test_intervals_hold_the_share_of_joint_draws(model: MDMA, holes: pd.DataFrame) -> None:
    lower, upper = bounds(model, holes, 0.8)
    tables = model.impute(holes, "draw", draws=50, random_state=0)
    assert len(tables) == 50
    assert not tables[0].equals(tables[1])
    gaps = holes["x"].isna()
    inside = [((t["x"] >= lower["x"]) & (t["x"] <= upper["x"]))[gaps].mean() for t in tables]
    cells = int(gaps.sum()) * len(tables)
    assert np.mean(inside) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / cells))


def test_the_number_of_passes_depends_on_neither_draws_nor_patterns(
    model: MDMA, holes: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(holes.isna().drop_duplicates()) > 50
    calls: list[tuple[str, Any]] = []
    density = type(model.module_)
    for name in ("univariates", "sample_rows"):

        def counted(self: Any, given: Any, *rest: Any, name: str = name, own: Any = None) -> Any:
            calls.append((name, (len(given), rest[0])))
            return own(self, given, *rest)

        own = getattr(density, name)
        monkeypatch.setattr(density, name, lambda *a, own=own, f=counted: f(*a, own=own))
    model.impute(holes, "draw", draws=4, random_state=0)
    assert calls == [("sample_rows", (len(holes), 4))]
    model.impute(holes)
    model.impute_interval(holes)
    assert [name for name, _ in calls[1:]] == ["univariates"] * 2


def test_rows_at_bounds_are_filled_apart_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    counts = {n: np.maximum(0, np.round(3 * size + 4 + rng.normal(size=300))) for n in "ab"}
    table = pd.DataFrame({**counts, "x": size})
    kinds = {"a": Integer(lower=0), "b": Integer(lower=0), "x": Continuous()}
    model = MDMA(
        columns=kinds,
        tensor="copula",
        width=2,
        rank=1,
        max_steps=5,
        progress=False,
    ).fit(table)
    holes = table.iloc[:60].assign(x=np.where(np.arange(60) % 3, np.nan, table["x"][:60]))
    assert {0, 1, 2} <= set((holes[["a", "b"]] == 0).sum(axis=1))
    passes = []
    own = type(model.module_).univariates
    monkeypatch.setattr(
        type(model.module_), "univariates", lambda s, g, c: passes.append(len(g)) or own(s, g, c)
    )
    filled, lines = model.impute(holes), model.impute_interval(holes)
    lower, _ = bounds(model, holes, 0.9)
    assert len(passes) > 3
    assert list(lines["row"]) == list(holes.index[holes["x"].isna()])
    for row in holes.index[holes["x"].isna()]:
        one = holes.loc[[row]]
        assert filled.loc[row, "x"] == pytest.approx(model.impute(one).loc[row, "x"], abs=1e-5)
        low = model.impute_interval(one, 0.9)["lower"].iloc[0]
        assert lower.loc[row, "x"] == pytest.approx(low, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("impute", {"method": "mice"}, "`method` to be"),
        ("impute", {"draws": 2}, "`draws` to be 1"),
        ("impute_interval", {"level": 1.0}, "`level`"),
    ],
)
def test_refusals(model: MDMA, method: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(pd.DataFrame({"x": [None]}), **arguments)


# Surprise ---------------------------------------------------------------------------------------


def test_surprise_is_the_conditional_log_density(model: MDMA, holes: pd.DataFrame) -> None:
    rows = holes.head(20)
    found = model.surprise(rows)
    assert found.isna().equals(rows.isna())
    for name in ("x", "count", "city", "price"):
        seen = rows[rows[name].notna()]
        expected = -model.logpdf(seen[[name]], given=seen.drop(columns=name))
        np.testing.assert_allclose(found.loc[seen.index, name], expected, rtol=1e-3, atol=1e-3)


def test_centred_surprise_compares_columns() -> None:
    """The same columns in other units: the cell that is out is to blame whatever its unit."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    frame = pd.DataFrame({"small": 1e-6 * a, "large": 1e6 * (a + rng.normal(size=300))})
    model = MDMA(width=4, max_steps=100, random_state=0).fit(frame)
    odd = pd.DataFrame({"small": [5e-6], "large": [0.0]})
    assert model.surprise(odd).idxmax(axis=1).tolist() == ["large"]  # a wide column, always likely
    assert model.surprise(odd, centred=True).idxmax(axis=1).tolist() == ["small"]
    assert model.surprise(frame, centred=True).mean().abs().max() < 0.3
    one = model.surprise(frame[["large"]], centred=True) - model.surprise(frame[["large"]])
    assert one["large"].std() == pytest.approx(0, abs=1e-9)
