"""Every plot on every kind of column: its contents, labels and errors."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import Categorical, Continuous, plotting
from marginals.estimators.mdma import MDMA
from marginals.synthesis import synthesis_report
from marginals.training import FitResult
from marginals.training.result import Record
from tests.plotting.conftest import LONG
from tests.plotting.test_grids import EVERY


def drawn(ax: Any) -> Any:
    """Render, because ticks and layout are made only then."""
    ax.figure.canvas.draw()
    return ax


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_xticklabels()]


def curve(ax: Any) -> tuple[np.ndarray, np.ndarray]:
    (line,) = [line for line in ax.get_lines() if line.get_label() == "model"]
    return line.get_data()


# One column -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_marginal(model: MDMA, frame: pd.DataFrame, name: str) -> None:
    from matplotlib.axes import Axes

    ax = drawn(plotting.marginal(model, name, data=frame))
    assert isinstance(ax, Axes)
    # Long names are broken in two, and their dollars are no mathematics.
    assert ax.get_xlabel().split(" (")[0].replace("\n", "").replace("\\", "")[:9] == name[:9]
    assert ax.get_ylabel().startswith(("density", "probability"))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["model", "data"]
    assert ax.get_ylim()[0] == 0


@pytest.mark.parametrize("given", [None, {"city": {"Oslo"}, "children": (1, None)}, {"ok": True}])
def test_marginal_is_the_models_density(model: MDMA, given: Any) -> None:
    ax = plotting.marginal(model, "x", given=given)
    x, y = curve(ax)
    np.testing.assert_allclose(y, model.pdf(pd.DataFrame({"x": x}), given=given), rtol=1e-4)
    if given:
        of_a_view = curve(plotting.marginal(model.condition(given), "x"))
        np.testing.assert_allclose(of_a_view, [x, y], rtol=1e-6)
    if given and "city" in given:
        title = "given city in {Oslo}, children > 1"
        assert ax.get_title(loc="left").replace("\n", " ") == title


def test_marginal_marks_interval_and_median(model: MDMA) -> None:
    ax = plotting.marginal(model, "x", level=0.5)
    (shaded,) = ax.collections
    ends = shaded.get_paths()[0].get_extents().intervalx
    spacing = np.diff(curve(ax)[0])[0]
    np.testing.assert_allclose(ends, model.interval("x", 0.5), atol=spacing)
    median = ax.get_lines()[-1].get_xdata()[0]
    assert median == pytest.approx(model.ppf(0.5, "x"))


def test_marginal_of_categories_has_dark_bars_for_the_likeliest(model: MDMA) -> None:
    ax = drawn(plotting.marginal(model, "city", level=0.01))
    heights = [bar.get_height() for bar in ax.patches]
    assert sum(heights) == pytest.approx(1, abs=1e-5)
    assert texts(ax) == ["Bergen", "Oslo", "Rome"]
    dark = [bar.get_facecolor() for bar in ax.patches]
    likeliest = int(np.argmax(heights))
    assert all((colour == dark[likeliest]) == (i == likeliest) for i, colour in enumerate(dark))


def test_marginal_shows_atoms_on_given_axes(model: MDMA) -> None:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2)
    ax = plotting.marginal(model, "zero", ax=axes[1])
    assert f"P = {model.prob({'zero': 0}):.2f}" in [text.get_text() for text in ax.texts]
    assert ax is axes[1]
    assert not axes[0].lines
    assert len(plt.get_fignums()) == 1


def test_data_without_a_cell(model: MDMA, frame: pd.DataFrame) -> None:
    empty = frame.assign(x=np.nan, city=None)
    assert drawn(plotting.marginal(model, "x", data=empty)).get_legend() is None
    drawn(plotting.pairs(model, ["x", "city"], data=empty)[0, 0])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda m: plotting.marginal(m, "x", level=90), ValueError, "Expected `level`"),
        (lambda m: plotting.marginal(m, "y"), ValueError, "got 'y'"),
        (lambda m: plotting.marginal(m, "x", given={"x": 1}), ValueError, "Expected `given`"),
        (lambda m: plotting.marginal(m, "x", given=[1]), TypeError, "Expected `given`"),
        (lambda m: plotting.marginal(MDMA(), "x"), TypeError, "Call `fit`"),
        (lambda m: plotting.marginal(m, "x", data=np.ones(3)), ValueError, "Expected `data`"),
        (lambda m: plotting.conditionals(m, "x", "x"), ValueError, "each column once"),
        (lambda m: plotting.conditionals(m, "x", "ok", []), ValueError, "Expected `values`"),
        (lambda m: plotting.pairs(m, ["x", "y"]), ValueError, "got 'y'"),
        (lambda m: plotting.pairs(m, []), ValueError, "got 0"),
        (lambda m: plotting.pairs(m, EVERY), ValueError, "1 to 8 columns; got 11"),
        (lambda m: plotting.pairs(m, ["x"], given={"x": 1}), ValueError, "Expected `given`"),
        (lambda m: plotting.pairs(m, ["x", "wage"], levels=[2]), ValueError, "`levels`"),
        (
            lambda m: plotting.marginal(m, "x", data=pd.DataFrame({"y": [1]})),
            ValueError,
            "Expected `data` to have the column 'x'",
        ),
        (lambda m: plotting.copula(m, "x", "city"), ValueError, "'city'"),
        (lambda m: plotting.copula(m, "x", "wage", given={"x": 1.0}), ValueError, "`given`"),
        (lambda m: plotting.tails(m, "x", "wage", least=0.7), ValueError, "`least`"),
        (lambda m: plotting.dependence(matrix(3).iloc[:2]), ValueError, "same names along both"),
        (lambda m: plotting.dependence(MDMA()), TypeError, "got MDMA"),
        (
            lambda m: plotting.dependence(pd.DataFrame([[0, 9], [1, 0]])),
            ValueError,
            r"symmetric; got different values .*\(m \+ m\.T\) / 2",
        ),
        (lambda m: plotting.training([1, 2]), TypeError, "Expected `result` to be a FitResult"),
        (
            lambda m: plotting.training(FitResult((), 0, 0.0, "max_steps", 0.0)),
            ValueError,
            "got none",
        ),
        (lambda m: plotting.missingness(np.ones(3)), ValueError, "Expected `frame`"),
        (lambda m: plotting.missingness(pd.DataFrame({"a": []})), ValueError, "Expected `frame`"),
        (lambda m: plotting.missingness(np.ones((2, 0))), ValueError, "Expected `frame`"),
    ],
)
def test_errors(model: MDMA, call: Any, error: type[Exception], match: str) -> None:
    import matplotlib.pyplot as plt

    with pytest.raises(error, match=match):
        call(model)
    assert not plt.get_fignums(), "An empty figure was left behind."


# A family -------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["x", "children", "city", "size", "when", "wait"])
@pytest.mark.parametrize("name", ["wage", "visits", "ok"])
def test_conditionals(model: MDMA, name: str, by: str) -> None:
    ax = drawn(plotting.conditionals(model, name, by))
    assert ax.get_xlabel() == name
    legend = ax.get_legend()
    assert legend.get_title().get_text().split(" (")[0] == by
    assert 2 <= len(legend.get_texts()) <= 8


def test_conditionals_are_the_models(model: MDMA) -> None:
    ax = plotting.conditionals(model, "wage", "x", [-1.0, 1.0], given={"ok": True})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["-1", "1"]
    for line, value in zip(ax.get_lines(), (-1.0, 1.0), strict=True):
        x, y = line.get_data()
        expected = model.pdf(pd.DataFrame({"wage": x}), given={"x": value, "ok": True})
        np.testing.assert_allclose(y, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("by", "values"),
    [
        ("x", np.linspace(-1, 1, 12)),
        ("when", pd.date_range("2020-02-01", "2020-06-01", 12, tz="Europe/Oslo")),
    ],
)
def test_many_values_have_a_colour_bar(model: MDMA, by: str, values: Any) -> None:
    ax = drawn(plotting.conditionals(model, "wage", by, values))
    assert ax.get_legend() is None
    assert ax.figure.axes[1].get_ylabel() == by
    assert len(ax.get_lines()) == 12


# Pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        ["x", "wage", "when", "zero"],
        ["children", "visits", LONG],
        ["city", "ok", "size"],
        ["x", "children", "city", "wait", "size"],
    ],
)
def test_pairs(model: MDMA, frame: pd.DataFrame, columns: list[str]) -> None:
    axes = plotting.pairs(model, columns, data=frame)
    drawn(axes[0, 0])
    assert isinstance(axes, np.ndarray)
    assert axes.shape == (len(columns), len(columns))
    assert axes[0, 0].figure.get_figwidth() == 7
    for ax, name in zip(axes[-1], columns, strict=True):
        assert ax.get_xlabel().replace("\n", "")[:4] == name[:4]
    assert all(not ax.axison for ax in axes[np.triu_indices(len(columns), 1)])
    (legend,) = axes[0, 0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["model", "data"]


@pytest.mark.parametrize("columns", ["x", ["city"]])
def test_pairs_of_one_column(model: MDMA, columns: Any) -> None:
    axes = plotting.pairs(model, columns)
    assert axes.shape == (1, 1)
    assert axes[0, 0].get_xlabel() == columns[0]


def test_pairs_draws_the_first_eight(model: MDMA) -> None:
    axes = plotting.pairs(model, given={"wage": 1.0})
    assert axes.shape == (8, 8)
    title = axes[0, 0].figure.get_suptitle()
    assert title == "given wage = 1; the first 8 of 10 columns"
    assert "wage" not in [ax.get_xlabel() for ax in axes[-1]]


def test_pairs_honours_given(model: MDMA) -> None:
    given = {"ok": True, "x": (None, 0.5)}
    axes = plotting.pairs(model, ["city", "size"], given=given)
    shown = axes[1, 0].collections[0].get_array()
    cities, sizes = ["Bergen", "Oslo", "Rome"], list("sml")
    for i, size in enumerate(sizes):
        for j, city in enumerate(cities):
            mass = model.prob({"city": city, "size": size}, given=given)
            assert shown[i, j] == pytest.approx(mass, rel=1e-4)


def test_pairs_of_an_array() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    model = MDMA(width=2, max_steps=5, random_state=0, progress=False).fit(rows)
    axes = plotting.pairs(model, data=rows)
    assert [ax.get_xlabel() for ax in axes[-1]] == ["0", "1"]
    assert axes[0, 1].texts[0].get_text().startswith("r = ")


def test_many_categories(frame: pd.DataFrame) -> None:
    codes = np.random.default_rng(0).choice([f"category {i}" for i in range(20)], 120)
    table = pd.DataFrame({"code": codes, "x": frame["wage"]})
    model = MDMA(width=2, max_steps=5, random_state=0, progress=False).fit(table)
    ax = drawn(plotting.marginal(model, "code", data=table))
    assert ax.get_xlabel() == "code\n(8 rarer not shown)"
    assert len(ax.patches) == 12
    drawn(plotting.pairs(model, data=table)[0, 0])


def test_odd_columns() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(size=60).round(1)
    table = pd.DataFrame(
        {
            "narrow": rng.integers(0, 250, 60).astype("uint8"),
            "huge": 2**60 + rng.integers(0, 9, 60),
            "constant": np.ones(60),
            "offset": rng.normal(size=60) * 1e-9 + 5,
            "seconds": pd.date_range("2021-03-01", periods=60, freq="min").astype("datetime64[s]"),
            "intervals": pd.arrays.IntervalArray.from_arrays(low, low + 1),
            "only": ["one"] * 60,
            "nullable": pd.array([0, 1, None] * 20, dtype="Int8"),
        }
    )
    kinds = {"constant": Continuous(), "only": Categorical()}  # or they are warned of
    model = MDMA(columns=kinds, width=2, max_steps=5, random_state=0, progress=False).fit(table)
    names = list(table)
    for half in (names[::2], names[1::2]):
        drawn(plotting.pairs(model, half, data=table)[0, 0])
    for name in names:
        drawn(plotting.marginal(model, name, data=table))
    ax = plotting.marginal(model, "huge")
    assert ax.get_xlabel().startswith("huge\n(from ")
    assert np.ptp(ax.get_xlim()) < 100


# Dependence, training, missing cells ----------------------------------------------------------


def matrix(count: int) -> pd.DataFrame:
    names = [f"column number {i}" for i in range(count)]
    values = np.add.outer(np.arange(count), np.arange(count)) / 10
    return pd.DataFrame(values, names, names)


@pytest.mark.parametrize("count", [1, 2, 6, 30])
def test_dependence(count: int) -> None:
    ax = drawn(plotting.dependence(matrix(count)))
    shown = ax.images[0].get_array()
    assert shown.shape == (count, count)
    assert np.ma.getmaskarray(shown).diagonal().all()
    assert len(ax.get_xticklabels()) == count
    assert len(ax.texts) == (count * (count - 1) if count <= 12 else 0)


def test_dependence_of_a_model() -> None:
    queried = []

    def mutual_information(a: str, b: str) -> Any:
        queried.append((a, b))
        return SimpleNamespace(value=0.25)

    fake = SimpleNamespace(
        schema_=SimpleNamespace(names=("a", "b", "c")), mutual_information=mutual_information
    )
    ax = plotting.dependence(fake)
    assert queried == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {text.get_text() for text in ax.texts} == {"0.25"}


def test_training_of_a_model(model: MDMA) -> None:
    ax = drawn(plotting.training(model))
    assert ax.get_xlabel() == "step"
    kept = next(line for line in ax.get_lines() if line.get_label() == "kept")
    assert kept.get_xdata()[0] == model.result_.best_step
    assert kept.get_ydata()[0] == pytest.approx(-model.result_.best_loss)


def test_training_shows_cuts() -> None:
    rates = [0.1, 0.1, 0.05, 0.05, 0.025]
    history = tuple(Record(10 * i, i, 2 - i, 3 - i, rate, i) for i, rate in enumerate(rates))
    result = FitResult(history, 40, -1.0, "plateau", 1.0)
    ax = drawn(plotting.training(result))
    assert [text.get_text() for text in ax.texts] == ["rate 0.05", "rate 0.025"]
    assert [text.xy[0] for text in ax.texts] == [10, 30]


def test_missingness(frame: pd.DataFrame) -> None:
    ax = drawn(plotting.missingness(frame))
    shown = ax.collections[0].get_array()
    assert shown.shape[1] == frame.shape[1]
    share = frame["when"].isna().mean()
    assert f"{100 * share:.0f} %" in texts(ax)[list(frame).index("when")]
    assert ax.get_ylabel() == "share of rows"


def test_missingness_of_wide_and_full_tables() -> None:
    rng = np.random.default_rng(0)
    wide = np.where(rng.random((80, 40)) < 0.2, np.nan, 1.0)
    ax = drawn(plotting.missingness(wide))
    assert ax.collections[0].get_array().shape == (12, 30)
    assert "10 columns with fewer gaps" in ax.get_title(loc="left")
    full = drawn(plotting.missingness(pd.DataFrame({"a": [1, 2]})))
    assert full.get_title(loc="left") == ""
    assert [text.get_text() for text in full.get_yticklabels()] == ["100 %"]


# Copulas and synthetic rows ---------------------------------------------------------------------


def test_copula(model: MDMA, frame: pd.DataFrame) -> None:
    import matplotlib.pyplot as plt

    ax = drawn(plotting.copula(model, "x", "wage", data=frame))
    assert ax.get_xlabel() == "level of x"
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)
    (points,) = ax.get_lines()
    levels = model.copula(["x", "wage"]).levels(frame).dropna()
    np.testing.assert_allclose(points.get_xydata(), levels[["x", "wage"]])
    _, own = plt.subplots()
    assert plotting.copula(model, "x", "wait", given={"city": "Oslo"}, ax=own) is own
    assert own.get_title(loc="left") == "given city = Oslo"


def test_tails_are_the_models(model: MDMA, frame: pd.DataFrame) -> None:
    ax = drawn(plotting.tails(model, "x", "wage", data=frame, least=0.01))
    found = {line.get_label(): line.get_data() for line in ax.get_lines()}
    q, lower = found["both low"]
    copula = model.copula(["x", "wage"])
    np.testing.assert_allclose(lower, copula.lower_tail("x", "wage", q))
    np.testing.assert_allclose(found["both high"][1], copula.upper_tail("x", "wage", q))
    q, share = found["data, low"]
    assert ((share > 0) & (share <= 1)).all()
    ranks = frame[["x", "wage"]].dropna().rank(pct=True)
    near = (ranks <= q[-1]).all(axis=1).mean() / q[-1]
    assert share[-1] == pytest.approx(near, abs=0.05)


def rows(seed: int, columns: int = 3) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    names = [f"column_{i}" for i in range(columns)]
    frame = pd.DataFrame(random.normal(size=(80, columns)), columns=names)
    return frame.assign(kind=random.choice(["a", "b"], size=80))


def test_the_four_panels_of_a_synthesis_report() -> None:
    figure = plotting.plot_synthesis(synthesis_report(rows(0), rows(1), rows(2)))
    figure.draw_without_rendering()
    columns, pairs, two_sample, copies = figure.axes
    assert len(columns.patches) == 4
    assert len(pairs.collections[0].get_offsets()) == 6
    assert two_sample.get_ylim()[0] < 0.5 < two_sample.get_ylim()[1]
    assert [text.get_text() for text in copies.get_legend().get_texts()] == ["holdout", "synthetic"]


def test_synthesis_reports_with_many_columns_and_without_pairs() -> None:
    many = plotting.plot_synthesis(synthesis_report(rows(0, 30), rows(1, 30)))
    assert len(many.axes[0].patches) == 20
    single = [rows(seed)[["kind"]] for seed in (0, 1)]
    plotting.plot_synthesis(synthesis_report(*single)).draw_without_rendering()
