"""Laws of any table: there and back, order, and intervals that agree with values."""

import json
from typing import Any

import numpy as np
import pandas as pd
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from marginals.columns import (
    Continuous,
    Schema,
    decode,
    decode_column,
    encode,
    encode_bounds,
    encode_cells,
    encode_values,
    infer,
)
from tests.columns.helpers import cells, same, schema_of, there_and_back
from tests.examples import examples

floats = st.floats(-1e300, 1e300, allow_nan=False)
sizes = st.sampled_from([1e-300, 1e-8, 1.0, 1e8, 1e290])
texts = st.text(max_size=5)
times = st.integers(-(10**17), 10**17)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30),
    sizes | st.just(1e297),
    st.lists(floats, max_size=3),
)
def test_floats_there_and_back(values: list[float], size: float, others: list[float]) -> None:
    x = np.array([*(np.array(values) * size), *others])
    np.testing.assert_allclose(there_and_back(x), x, rtol=1e-12, atol=1e-13 * np.abs(x).max())


@given(
    st.lists(st.floats(1e-9, 1 - 1e-9), min_size=1, max_size=30),
    st.floats(-1e3, 1e3),
    sizes,
    st.data(),
)
def test_bounded_floats_there_and_back(
    values: list[float], start: float, size: float, data: Any
) -> None:
    lower, upper = start * size, (start + 1) * size
    x = lower + np.array(values) * (upper - lower)
    assume(((x > lower) & (x < upper)).all())
    bounds = data.draw(st.sampled_from([(lower, None), (None, upper), (lower, upper)]))
    back = there_and_back(x, Continuous(*bounds))
    np.testing.assert_allclose(back, x, rtol=1e-12, atol=1e-13 * size)
    assert (back > lower).all() or bounds[0] is None
    assert (back < upper).all() or bounds[1] is None


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 2**40))
def test_integers_there_and_back(values: list[int], spread: int) -> None:
    near = [values[0] + (value % spread) for value in values]
    near = [min(value, 2**63 - 1) for value in near]
    assert there_and_back(np.array(near, "int64")).tolist() == near
    rough = there_and_back(np.array(values, "int64")).astype(float)
    reach = float(max(values) - min(values))
    np.testing.assert_allclose(rough, np.array(values, float), rtol=1e-12, atol=1e-12 * reach)


@given(st.lists(st.one_of(texts, st.integers(), st.floats(allow_nan=False), st.none()), min_size=1))
def test_objects_there_and_back(values: list[Any]) -> None:
    assume(any(isinstance(value, str) for value in values))
    back = there_and_back(pd.Series(values, dtype=object))
    assert [None if pd.isna(value) else value for value in back] == values


@given(st.lists(times, min_size=1), st.sampled_from(["s", "ms", "us", "ns"]), st.booleans())
def test_times_there_and_back(values: list[int], unit: str, zoned: bool) -> None:
    # What float64 can tell apart: 2**51 steps of the unit.
    steps = np.array(values) % 2**50
    series = pd.Series(pd.Timestamp("2001").as_unit(unit) + pd.to_timedelta(steps // 10**6, "s"))
    series = series.dt.as_unit(unit)
    if unit == "ns":
        series = series + pd.to_timedelta(steps % 1000, "ms").as_unit("ns")
    series = (
        series.dt.tz_localize("America/New_York", nonexistent="shift_forward", ambiguous=True)
        if zoned
        else series
    )
    back = there_and_back(series)
    pd.testing.assert_series_equal(back, series.rename("x"))


@given(st.lists(st.floats(0, 10), min_size=3, max_size=30), st.data())
def test_order_is_kept(values: list[float], data: Any) -> None:
    atoms = tuple(data.draw(st.sets(st.sampled_from(values), max_size=3)))
    bounds = data.draw(st.sampled_from([(None, None), (-1, None), (None, 11), (-1, 11), (0, 10)]))
    if bounds == (0, 10):
        atoms = (*{*atoms, 0.0, 10.0},)
    schema = schema_of(values, Continuous(*bounds, atoms=atoms))
    x = np.sort(np.unique(values))
    model = encode_values(schema, "x", x)[0]
    assert (model.diff() >= -1e-14 * model.abs().max()).all()  # values next to an atom give way
    # An atom is told from every other value.
    is_atom = torch.isin(model, torch.tensor(schema.atoms("x"), dtype=torch.float64))
    same(is_atom, np.isin(x, atoms))


@given(st.lists(st.floats(0, 10), min_size=3, max_size=30), st.data())
def test_intervals_agree_with_values(values: list[float], data: Any) -> None:
    atoms = tuple(data.draw(st.sets(st.sampled_from(values), max_size=3)))
    kind = data.draw(
        st.sampled_from(
            [
                Continuous(atoms=atoms),
                Continuous(-1, 11, atoms=atoms),
                Continuous(0, 10, atoms=(*{*atoms, 0.0, 10.0},)),
                Continuous(0, 10, resolution=0.5),
            ]
        )
    )
    rounded = np.round(np.array(values) * 2) / 2 if kind.resolution else np.array(values)
    schema = schema_of(rounded, kind)
    a, b = sorted(data.draw(st.tuples(st.floats(-2, 12), st.floats(-2, 12))))
    assume(a < b and (not kind.resolution or b - a > 1e-3))
    low, high = (end.item() for end in encode_bounds(schema, "x", a, b))
    model = encode_values(schema, "x", values)[0].numpy()
    inside = (low < model) & (model <= high)
    # Numbers nearer than rounding may fall on either side.
    sure = (np.abs(rounded - a) > 1e-5) & (np.abs(rounded - b) > 1e-5)
    sure |= np.isin(rounded, atoms) & (rounded != a) & (rounded != b) & (kind.resolution is None)
    # A value halfway between two multiples may go to either.
    tied = (kind.resolution is not None) & (np.abs(np.array(values) * 2 % 1 - 0.5) < 1e-6)
    sure &= ~tied
    same(inside[sure], ((a < rounded) & (rounded <= b))[sure])
    exact_ends = np.isin(rounded, (a, b)) & (b - a > 1e-9) & ~tied
    same(inside[exact_ends], ((a < rounded) & (rounded <= b))[exact_ends])


columns = st.sampled_from(["float", "int", "bool", "text", "category", "time", "nullable", "gaps"])


def column(kind: str, rows: int, rng: np.random.Generator) -> Any:
    gaps = rng.random(rows) < 0.3
    if kind == "float":
        return pd.Series(rng.normal(size=rows) * 10.0 ** rng.integers(-9, 9)).mask(gaps)
    if kind == "int":
        return pd.Series(rng.integers(-(10 ** rng.integers(1, 18)), 10**6, rows))
    if kind == "bool":
        return pd.Series(rng.random(rows) < 0.5)
    if kind == "text":
        return pd.Series(rng.choice(["a", "b", "c"], rows)).mask(gaps)
    if kind == "category":
        return pd.Series(pd.Categorical.from_codes(rng.integers(-1, 3, rows), ["u", "v", "w"]))
    if kind == "time":
        zone = rng.choice(["UTC", "Europe/Oslo"])
        return pd.Series(
            pd.to_datetime(rng.integers(0, 10**9, rows), unit="s", utc=True)
        ).dt.tz_convert(zone)
    if kind == "nullable":
        return pd.Series(pd.array(rng.integers(0, 99, rows), dtype="Int32")).mask(gaps)
    return pd.Series(rng.integers(0, 99, rows)).mask(gaps)


@examples(60)
@given(st.lists(columns, min_size=1, max_size=6), st.integers(1, 30), st.integers(0, 2**32))
def test_whole_tables(kinds: list[str], rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"c{i}": column(kind, rows, rng) for i, kind in enumerate(kinds)})
    schema = infer(frame)
    schema = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    out = encode(schema, frame)
    assert out.log_jacobian.isfinite().all()
    assert not out.empty.any()
    same(out.evidence.missing(), frame.isna())
    # Single columns, rows and cells say the same as the table.
    order = list(rng.permutation(frame.columns))
    part = encode(schema, frame[order].iloc[::-1]).evidence
    positions = [schema.index(name) for name in order]
    same(part.lower, out.evidence.lower[:, positions].flip(0))
    row = int(rng.integers(rows))
    cell = {name: frame[name].iloc[row] for name in frame}
    known = encode_cells(schema, cell)
    same(known.evidence.lower, out.evidence.lower[[row]])
    same(known.evidence.upper, out.evidence.upper[[row]])
    # There and back.
    model = torch.stack([encode_values(schema, name, frame[name])[0] for name in frame], 1)
    back = decode(schema, model)
    for name in frame:
        same(back[name].isna(), frame[name].isna())
        if not frame[name].isna().all():
            assert back[name].dtype == frame[name].dtype
            keep = frame[name].notna()
            pd.testing.assert_series_equal(back[name][keep], frame[name][keep], rtol=1e-12)


@given(st.lists(st.sampled_from("abcde"), min_size=1), st.data())
def test_ordered_pairs_are_sets(values: list[str], data: Any) -> None:
    dtype = pd.CategoricalDtype(list("abcde"), ordered=True)
    schema = schema_of(pd.Series(values, dtype=dtype))
    i, j = sorted(data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4))))
    low, high = (end.item() for end in encode_bounds(schema, "x", "abcde"[i], "abcde"[j]))
    codes = np.arange(5)
    meant = codes == i if i == j else (codes > i) & (codes <= j)
    same(codes == low if low == high else (codes > low) & (codes <= high), meant)


def test_ten_thousand_categories() -> None:
    names = [f"name {i:05d}" for i in range(10_000)]
    schema = schema_of([*names, None])
    assert schema.categories == {0: 10_000}
    same(cells(schema, names[::-1])[0], np.arange(10_000)[::-1])
    assert decode_column(schema, "x", torch.tensor([9_999.0]))[0] == names[-1]
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    mask = encode_cells(schema, {"x": set(names[:3])}).evidence.sets[0]
    assert mask.shape == (1, 10_000)
    assert mask.sum() == 3
