"""A tour in a minute, run by `marginals demo`: fit a table with gaps, query it, draw a picture.

The table is scikit-learn's wine data: seven measurements, two of them integers, and the cultivar.
15 % of the training cells are hidden.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sklearn.datasets import load_wine
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from marginals.cli.output import rich_table
from marginals.cli.plot_commands import plotting_module
from marginals.columns.lattice_axis import LatticeAxis
from marginals.estimators.mdma import MDMA
from marginals.estimators.outlier_detector import MDMAOutlierDetector

MEASURED = [
    *("alcohol", "malic_acid", "magnesium", "flavanoids", "color_intensity", "hue", "proline"),
]
CLASS = "cultivar"
HIDDEN = 0.15  # share of the training cells
PICTURE, MODEL, ROWS = "wine.png", "wine.mdma", "wine.csv"


@final
@dataclass(frozen=True)
class Wine:
    """The table, split.

    Args:
        train: Rows to fit, with hidden cells.
        truth: The same rows without hidden cells.
        test: Held-out rows, complete.
    """

    train: pd.DataFrame
    truth: pd.DataFrame
    test: pd.DataFrame


def main(folder: str | Path = "demo", max_steps: int | None = None) -> None:
    """Fit, query and draw.

    Args:
        folder: Where to save the picture; created if necessary.
        max_steps: Steps of the fit; None for the estimator's default.
    """
    console = Console(highlight=False)
    data = load(seed=0)
    rows, cells = len(data.train), data.train.isna().to_numpy()
    _head(console, "The table")
    console.print(f"{rows} wines to fit, {cells.mean():.0%} of their cells hidden.")
    model = MDMA(max_steps=max_steps, random_state=0).fit(data.train)
    console.print(escape(str(model.schema_)))
    result = model.result_
    console.print(f"Fitted in {result.seconds:.1f} s ({result.steps} steps).")
    _head(console, "Log density of held-out rows")
    console.print(scores(model, data))
    console.print(
        f"Nats per row for the measurements of {len(data.test)} complete rows, mean and standard "
        "error; higher is better. The other two accept neither gaps nor categories: they are "
        "fitted to measurements with medians in the gaps, their components, ridge and bandwidth "
        "chosen by cross-validation."
    )
    _head(console, "Queries")
    for line in answers(model):
        console.print(escape(line))
    _head(console, "Wines drawn given cultivar B and alcohol above 13")
    console.print(draws(model))
    _head(console, "A row with gaps, imputed")
    console.print(filled(model, data))
    _head(console, "The most surprising row held out, and why")
    console.print(surprise(model, data.train, data.test))
    console.print(
        "Tail: the probability of a value as far out, given the row's other values; the smallest "
        "is to blame. Surprise: -log p(value | the other values), less the column's expected one."
    )
    _head(console, "Picture")
    console.print(escape(draw(model, data.train, Path(folder))), soft_wrap=True)
    _head(console, "Explore it by hand")
    for line in explore(model, data.train, Path(folder)):
        console.print(escape(line), soft_wrap=True)


def load(seed: int) -> Wine:
    """Return three quarters of the wines to fit, with hidden cells, and a quarter to test on."""
    bunch: Any = load_wine(as_frame=True)
    frame = bunch.data[MEASURED].astype({"magnesium": "Int64", "proline": "Int64"})
    frame[CLASS] = pd.Categorical.from_codes(bunch.target, categories=["A", "B", "C"])
    rng = np.random.default_rng(seed)
    frame = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    truth, test = frame[: 3 * len(frame) // 4], frame[3 * len(frame) // 4 :]
    return Wine(truth.mask(rng.random(truth.shape) < HIDDEN), truth, test)


# Sections of the tour -------------------------------------------------------------------------


def scores(model: MDMA, data: Wine) -> Table:
    """Compare with two densities of scikit-learn, on the measurements, which all can score.

    The mass of a value on a grid is the density averaged over a step, times the step: it is divided
    out, so that the units agree.
    """
    numbers = data.train[MEASURED].astype(float)
    filled_in = numbers.fillna(numbers.median())
    test = data.test[MEASURED].astype(float)
    # The ridge matters as much as the number of components on so few rows.
    grid = {"n_components": list(range(1, 7)), "reg_covar": [1e-3, 1e-2, 0.03, 0.1, 0.3]}
    mixtures = GridSearchCV(GaussianMixture(n_init=3, random_state=0), grid)
    kernels = GridSearchCV(KernelDensity(), {"bandwidth": np.geomspace(0.1, 1.5, 20)})
    axes = [model.schema_[name].axis for name in MEASURED]
    steps = [axis.step for axis in axes if isinstance(axis, LatticeAxis)]
    ours = np.asarray(model.marginal(MEASURED).logpdf(data.test[MEASURED])) - np.log(steps).sum()
    rows = [("MDMA", f"{ours.mean():.2f}", "", "the table with gaps")]
    for name, search in (("Gaussian mixture", mixtures), ("KDE", kernels)):
        theirs = _standardised(search, filled_in, test)
        rows.append((name, f"{theirs.mean():.2f}", _ahead(ours - theirs), "medians in the gaps"))
    return _table(["model", "log density", "MDMA ahead by", "fitted to"], rows)


def answers(model: MDMA) -> Iterable[str]:
    """Answer a query of each kind."""
    queries = (
        "P(proline > 1000 | alcohol > 13.5)",
        "P(cultivar = C | hue < 0.8, color_intensity = 7)",
        "Q[0.05, 0.5, 0.95](proline | alcohol = 14, cultivar in {A, B})",
        "E[color_intensity | flavanoids = 0.7]",
    )
    for query in queries:
        answer = model.query(query).value
        values = answer if isinstance(answer, list) else [answer]
        yield f"{query} = {', '.join(map(_short, values))}"


def draws(model: MDMA) -> Table:
    """Draw rows given evidence."""
    frame = model.sample(4, given={CLASS: "B", "alcohol": (13, None)}, random_state=0)
    names = {"malic_acid": "malic", "color_intensity": "color", "flavanoids": "flavan."}
    header = [names.get(name, name) for name in frame.columns]
    return _table(header, ([_short(cell) for cell in row] for row in frame.to_numpy()))


def filled(model: MDMA, data: Wine) -> Table:
    """Impute the row with the most gaps."""
    place = int(data.train.isna().sum(axis=1).to_numpy().argmax())
    row, truth = data.train.iloc[[place]], data.truth.iloc[place]
    observed = row.iloc[0].dropna().to_dict()
    median = model.impute(row, method="median").iloc[0]
    ends = model.impute_interval(row, 0.9).set_index("column")
    rows = []
    for name in row.columns[row.iloc[0].isna()]:
        if name == CLASS:
            sure = model.prob({CLASS: median[name]}, given=observed)
            span = f"with probability {sure:.2f}"
        else:
            span = f"{_short(ends.at[name, 'lower'])} to {_short(ends.at[name, 'upper'])}"
        rows.append((name, _short(median[name]), span, _short(truth[name])))
    return _table(["hidden cell", "imputed", "90 % interval", "truth"], rows)


def surprise(model: MDMA, train: pd.DataFrame, test: pd.DataFrame) -> Table:
    """Explain the most extreme row by the cells that are farthest out given the others."""
    detector = MDMAOutlierDetector(model).fit(train)
    row = test.iloc[[int(np.argmin(detector.score_samples(test)))]]
    above = detector.explain(row).iloc[0]
    rows = []
    for _, line in detector.normal_ranges(row, level=0.9).nsmallest(4, "tail").iterrows():
        name, low, high = line["column"], line["lower"], line["upper"]
        usual = line["expected"] if low is None else f"{_short(low)} to {_short(high)}"
        tail = f"{line['tail']:.2g}"
        rows.append((name, _short(line["value"]), usual, tail, f"{above[name]:+.1f}"))
    return _table([f"row {row.index[0]}", "value", "expected (90 %)", "tail", "surprise"], rows)


def draw(model: MDMA, train: pd.DataFrame, folder: Path) -> str:
    """Save a picture of some columns, and return a line about it."""
    try:
        plotting = plotting_module()
    except ImportError as error:
        return str(error)
    import matplotlib.pyplot as plt

    axes = plotting.pairs(model, ["alcohol", "flavanoids", "color_intensity", CLASS], data=train)
    folder.mkdir(parents=True, exist_ok=True)
    figure = axes[0, 0].figure
    figure.savefig(folder / PICTURE, dpi=150)
    plt.close(figure)
    return f"Drew {folder / PICTURE}."


def explore(model: MDMA, train: pd.DataFrame, folder: Path) -> Iterable[str]:
    """Save the model and its table, and say how to open them in the explorer."""
    folder.mkdir(parents=True, exist_ok=True)
    saved, rows = folder / MODEL, folder / ROWS
    model.save(saved)
    train.to_csv(rows, index=False)
    yield "Set or brush a column, and every other moves:"
    yield f"marginals explore {saved} --data {rows}"


# Parts ----------------------------------------------------------------------------------------


def _head(console: Console, title: str) -> None:
    console.print(f"\n[bold]{escape(title)}[/]")


def _table(header: list[str], rows: Iterable[Iterable[str]]) -> Table:
    return rich_table(header, rows, box=None, pad_edge=False, header_style="dim")


def _standardised(search: Any, train: pd.DataFrame, test: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Fit on standardised columns, and return log densities in the columns' own units."""
    middle, spread = train.mean(), train.std()
    search.fit(((train - middle) / spread).to_numpy())
    scores = search.best_estimator_.score_samples(((test - middle) / spread).to_numpy())
    return np.asarray(scores - np.log(spread).sum())


def _ahead(gain: npt.NDArray[np.float64]) -> str:
    """Return a mean over rows with its standard error."""
    return f"{gain.mean():.2f} ± {gain.std(ddof=1) / len(gain) ** 0.5:.2f}"


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
