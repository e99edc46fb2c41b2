"""A tour in a minute: fit a table with gaps, ask it things, draw a picture.

Run by `make demo`. The table is scikit-learn's wine data with a tenth of the cells hidden.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_wine
from sklearn.mixture import GaussianMixture
from torch import Tensor

from marginals.model import Density, Evidence, build
from marginals.training import fit

COLUMNS = ["alcohol", "malic_acid", "color_intensity", "hue", "flavanoids", "proline"]
PICTURE = Path("demo") / "wine.png"


def main() -> None:
    """Fit, ask, draw."""
    console = Console()
    train, test, full_train = load(seed=0)
    hidden = float(train.isnan().double().mean())
    console.print(
        f"[bold]wine[/]: {len(train)} rows x {len(COLUMNS)} columns, {hidden:.0%} of cells hidden"
    )
    started = time.perf_counter()
    model = build(train, width=24, seed=0)
    result = fit(model, train, noise=0.15, learning_rate=0.02, max_steps=1500, seed=0)
    seconds = time.perf_counter() - started
    console.print(f"fitted in {seconds:.1f} s, {result.steps} steps, stopped by {result.stopped}\n")
    with torch.no_grad():
        console.print(answers(model, train, test, full_train))
        draw(model, train)
    console.print(f"\npicture: {PICTURE}")


def load(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return training rows with hidden cells, test rows, and the training rows as they were."""
    bunch: Any = load_wine()
    places = [list(bunch.feature_names).index(name) for name in COLUMNS]
    rng = np.random.default_rng(seed)
    rows = torch.tensor(bunch.data[rng.permutation(len(bunch.data))][:, places])
    full, test = rows[:140], rows[140:]
    train = full.clone()
    train[torch.from_numpy(rng.random(tuple(train.shape)) < 0.1)] = torch.nan
    return train, test, full


def answers(model: Density, train: Tensor, test: Tensor, full_train: Tensor) -> Table:
    """Ask one question of each kind."""
    alcohol, _, color, hue, flavanoids, proline = range(6)
    table = Table("question", "answer")

    def row(question: str, answer: str) -> None:
        table.add_row(question, answer)

    score = float(model.logpdf(test).mean())
    mixture = GaussianMixture(3, random_state=0).fit(full_train.numpy()).score(test.numpy())
    row("held-out log density per row, fitted with gaps", f"{score:.2f}")
    row("a Gaussian mixture's, fitted without gaps", f"{mixture:.2f}")
    ninf, inf = torch.tensor([-torch.inf]), torch.tensor([torch.inf])
    above = model.prob(torch.tensor([1000.0]), inf, [proline], given={alcohol: (13.5, None)})
    row("P(proline > 1000 | alcohol > 13.5)", f"{float(above):.3f}")
    below = model.prob(ninf, torch.tensor([0.8]), [hue], given={flavanoids: 0.7, color: (7, None)})
    row("P(hue <= 0.8 | flavanoids = 0.7, color > 7)", f"{float(below):.3f}")
    levels = torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)
    quantiles = model.ppf(levels, proline, given={alcohol: 14.0}).tolist()
    row("5, 50, 95 % of proline | alcohol = 14", "  ".join(f"{q:.0f}" for q in quantiles))
    drawn = model.sample(2, given={alcohol: 14.0}, generator=torch.Generator().manual_seed(0))
    for values in drawn.tolist():
        row("a row with alcohol = 14", "  ".join(f"{value:.4g}" for value in values))
    gappy = int(train.isnan().sum(1).argmax())
    column = int(train[gappy].isnan().nonzero()[0, 0])
    known = Evidence.exact(train[gappy : gappy + 1]).without(column)
    low, middle, high = model.ppf(levels, column, given=known).tolist()
    truth = float(full_train[gappy, column])
    row(
        f"hidden {COLUMNS[column]} of row {gappy}: 90 % interval, median",
        f"{low:.3g} to {high:.3g}, {middle:.3g} (truth {truth:.3g})",
    )
    row(*surprise(model, test))
    return table


def surprise(model: Density, test: Tensor) -> tuple[str, str]:
    """Find the most surprising test row, and the cell that the others explain least."""
    worst = int(model.logpdf(test).argmin())
    row = test[worst : worst + 1]
    each = model.univariates(Evidence.exact(row)).logpdf(row)[0]
    column = int(each.argmin())
    value = float(row[0, column])
    return "most surprising row", f"row {worst}, for its {COLUMNS[column]} of {value:.4g}"


def draw(model: Density, train: Tensor) -> None:
    """Save a picture: a joint density with data, and a conditional as it moves."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    x, y = COLUMNS.index("flavanoids"), COLUMNS.index("color_intensity")
    span = [
        torch.linspace(
            float(train[:, c].nan_to_num(1.0).min()) * 0.8, top, 120, dtype=torch.float64
        )
        for c, top in ((x, 4.5), (y, 12.0))
    ]
    grid = torch.stack(torch.meshgrid(*span, indexing="xy"), -1)
    density = model.pdf(grid, [x, y])
    left.contourf(*span, density, levels=12, cmap="Blues")
    left.plot(train[:, x], train[:, y], "o", ms=2.5, color="#d1495b", alpha=0.8)
    left.set(xlabel="flavanoids", ylabel="colour intensity", title="joint density and data")
    z = COLUMNS.index("proline")
    line = torch.linspace(200, 1800, 300, dtype=torch.float64)[:, None]
    for value, colour in zip(
        (12.0, 12.75, 13.5, 14.25), ("#9ecae1", "#6baed6", "#3182bd", "#08306b"), strict=True
    ):
        curve = model.pdf(line, [z], given={COLUMNS.index("alcohol"): value})
        right.plot(line[:, 0], curve, color=colour, label=f"{value:g} %")
    right.set(xlabel="proline", ylabel="density", title="proline given alcohol", ylim=(0, None))
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
