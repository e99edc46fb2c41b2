"""Draw the pictures of docs/how.md from a small fitted model.

    python docs/tools/draw_model.py

The rows are two spirals in `x` and `y`, with two columns that follow them. Fitting takes about a
minute on one core; the seed fixes the pictures.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import marginals
from marginals import Density, Tree

IMAGES = Path(__file__).parents[1] / "images"
NAMES = ["x", "y", "u", "v"]
MODEL, DATA, GIVEN = "#2c5aa0", "#d95f02", "#7570b3"


def main() -> None:
    """Fit the model and write the pictures."""
    for name, figure in figures(rows=6000, width=120, steps=2500).items():
        figure.savefig(IMAGES / f"how-{name}.png", dpi=150, metadata={"Software": None})


def figures(rows: int, width: int, steps: int) -> dict[str, Figure]:
    """Fit a model of some width to spirals and return the pictures by name."""
    torch.manual_seed(0)
    table = spirals(rows)
    tree = Tree(((0, 1), (2, 3)))
    model = marginals.build(table, width=width, tensor="ht", leaves="normal", tree=tree)
    marginals.fit(model, table, max_steps=steps, noise=0.02)
    return {
        "leaves": leaves(model, table),
        "tree": contraction(),
        "queries": queries(model, table),
    }


def spirals(count: int) -> torch.Tensor:
    """Return rows of two spirals, of the angle's sine and of a noisy radius."""
    random = np.random.default_rng(0)
    turn = np.sqrt(random.random(count)) * 3 * np.pi
    sign = random.choice([-1, 1], count)
    x = sign * turn * np.cos(turn) / 5 + 0.08 * random.normal(size=count)
    y = sign * turn * np.sin(turn) / 5 + 0.08 * random.normal(size=count)
    u = np.sin(turn) + 0.2 * random.normal(size=count)
    v = turn / 3 + 0.4 * random.normal(size=count)
    return torch.tensor(np.column_stack([x, y, u, v]), dtype=torch.float32)


def leaves(model: Density, rows: torch.Tensor) -> Figure:
    """Draw the leaves of one column: CDFs, densities, and their mixture."""
    grid = torch.linspace(-2.6, 2.6, 400)
    with torch.no_grad():
        found = model.leaves.evaluate(grid[None], [0])
        mixture = model.pdf(grid[:, None], columns=[0]).numpy()
        total = model.cdf(grid[:, None], columns=[0]).numpy()
    shown = found.log_cdf[0, 200].argsort()[::6]  # every sixth, from right to left
    cdfs, slopes = (part[0][:, shown].exp().numpy() for part in (found.log_cdf, found.log_density))
    values, grid = rows[:, 0].numpy(), grid.numpy()
    figure = Figure(figsize=(8, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(grid, cdfs, color=MODEL, lw=0.7, alpha=0.4)
    left.plot(grid, total, color="black", lw=1.8, label="marginal CDF F(x)")
    left.set(title="Leaves φ of one column", xlabel="x")
    right.hist(values, bins=60, density=True, color=DATA, alpha=0.25, label="rows")
    right.plot(grid, slopes / 20, color=MODEL, lw=0.7, alpha=0.4)
    right.plot(grid, mixture, color="black", lw=1.8, label="marginal density p(x)")
    right.set(title="Their slopes φ′, scaled down", xlabel="x")
    for axes in (left, right):
        axes.set_ylim(top=1.25 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
        plain(axes)
    return figure


def contraction() -> Figure:
    """Draw the tree of four columns, with the cell that each leaf receives."""
    figure = Figure(figsize=(8, 3.1), layout="constrained")
    axes = figure.subplots()
    spots = {"root": (3, 2), "a": (1, 1), "b": (5, 1)}
    spots |= {name: (2 * i, 0) for i, name in enumerate(NAMES)}
    for top, bottom in [("root", "a"), ("root", "b"), *("ax", "ay", "bu", "bv")]:
        axes.plot(*zip(spots[top], spots[bottom], strict=True), color="0.6", lw=1.5, zorder=1)
    texts = {
        "root": "Σₖ λ²ₖ · left · right",
        "a": "Σₖ λ¹ᵢₖ φₖ(x) φₖ(y)",
        "b": "Σₖ λ¹ᵢₖ φₖ(u) φₖ(v)",
    }
    for name, text in texts.items():
        box = {"boxstyle": "round,pad=0.45", "fc": "#e8eef8", "ec": MODEL}
        axes.text(*spots[name], text, ha="center", va="center", bbox=box, fontsize=10)
    cells = {
        "x": ("exact 0.4", "φ′ₖ(0.4)", MODEL),
        "y": ("interval (0, 1]", "φₖ(1) − φₖ(0)", GIVEN),
        "u": ("missing", "1", "0.45"),
        "v": ("at most 2", "φₖ(2)", GIVEN),
    }
    for name, (cell, value, colour) in cells.items():
        box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": colour}
        axes.text(*spots[name], value, ha="center", va="center", bbox=box, fontsize=10)
        where = (spots[name][0], spots[name][1] - 0.42)
        axes.text(*where, f"{name}: {cell}", ha="center", va="center", fontsize=9, color=colour)
    axes.text(3, 2.5, "p(x = 0.4, 0 < y ≤ 1, v ≤ 2)", ha="center", fontsize=10, weight="bold")
    axes.set(xlim=(-0.9, 6.9), ylim=(-0.6, 2.7))
    axes.axis("off")
    return figure


def queries(model: Density, rows: torch.Tensor) -> Figure:
    """Draw a joint density, a conditional and an interval probability of one model."""
    grid = torch.linspace(-2.4, 2.4, 160)
    pairs = torch.cartesian_prod(grid, grid)
    with torch.no_grad():
        joint = model.pdf(pairs, columns=[0, 1]).reshape(160, 160).T.numpy()
        late = model.pdf(pairs, columns=[0, 1], given={3: (2.2, None)}).reshape(160, 160).T.numpy()
        across = model.pdf(grid[:, None], columns=[1], given={0: 0.4}).numpy()
    some, grid = rows[:300].numpy(), grid.numpy()
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    options = {"origin": "lower", "extent": (-2.4, 2.4, -2.4, 2.4), "cmap": "Blues"}
    first.imshow(joint**0.5, **options)
    first.plot(some[:, 0], some[:, 1], ".", color=DATA, ms=1.5)
    first.axvline(0.4, color=GIVEN, lw=1.2, ls="--")
    first.set(title="p(x, y): u, v marginalised", xlabel="x", ylabel="y")
    second.fill_between(grid, across, color=GIVEN, alpha=0.25)
    second.plot(grid, across, color=GIVEN, lw=1.5)
    second.set(title="p(y | x = 0.4)", xlabel="y")
    plain(second)
    third.imshow(late**0.5, **options)
    third.set(title="p(x, y | v > 2.2)", xlabel="x", ylabel="y")
    return figure


def plain(axes: Axes) -> None:
    """Leave out the upper and right side of a frame."""
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
