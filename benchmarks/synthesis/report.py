"""Tables and a picture of what was measured."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.pages import report
from benchmarks.records import Record, joined
from benchmarks.synthesis.models import LABELS
from benchmarks.synthesis.tables import FILES

KEY = ("table", "model", "seed")
HEADS = {
    "column_distance": "columns, mean distance",
    "pair_difference": "pairs, mean difference",
    "auc": "told apart, AUC",
    "close": "close to fitted rows",
    "duplicates": "equal to a fitted row",
}


def means(records: Sequence[Record], figure: str) -> dict[tuple[str, str], float]:
    """Return a figure of the summary by table and model, the mean over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        found.setdefault((record["table"], record["model"]), []).append(record["summary"][figure])
    return {place: fmean(values) for place, values in found.items()}


def tables(records: Sequence[Record]) -> str:
    """Return a table for each figure, as Markdown."""
    names = [name for name in FILES if any(r["table"] == name for r in records)]
    models = [model for model in LABELS if any(r["model"] == model for r in records)]
    lines: list[str] = []
    for figure, title in HEADS.items():
        found = means(records, figure)
        lines += [f"### {title[0].upper()}{title[1:]}", ""]
        lines += ["| table | " + " | ".join(LABELS[m] for m in models) + " |"]
        lines += ["|---" * (len(models) + 1) + "|"]
        for name in names:
            cells = [f"{found[name, m]:.3f}" if (name, m) in found else "" for m in models]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join([*lines, _origin(records)])


def _origin(records: Sequence[Record]) -> str:
    found = {f"{r['date'][:10]}, commit {r['commit']}, {r['threads']} thread(s)" for r in records}
    return "Measured: " + "; ".join(sorted(found)) + "."


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw the first three figures as bars, by table and model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = dict(zip(LABELS, ("#0072B2", "#D55E00", "#E69F00", "#6E6E6E"), strict=True))
    names = [name for name in FILES if any(r["table"] == name for r in records)]
    models = [model for model in LABELS if any(r["model"] == model for r in records)]
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    for ax, (key, title) in zip(axes, list(HEADS.items())[:3], strict=True):
        found = means(records, key)
        for i, model in enumerate(models):
            x = [n + 0.8 * (i - (len(models) - 1) / 2) / len(models) for n in range(len(names))]
            y = [found.get((name, model), float("nan")) for name in names]
            ax.bar(x, y, 0.8 / len(models), color=colours[model], label=LABELS[model])
        ax.set_xticks(range(len(names)), names, fontsize=7, rotation=30, ha="right")
        ax.set_title(title, fontsize=8, loc="left")
        ax.tick_params(labelsize=7)
        ax.spines[["top", "right"]].set_visible(False)
    axes[2].set_ylim(0.4, 1.0)
    axes[2].axhline(0.5, color="black", lw=0.6)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(models), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(words: Sequence[str]) -> None:
    """Print the tables, or write them into a page; draw the picture."""
    report("benchmarks.synthesis", words, partial(joined, names=KEY), tables, draw)
