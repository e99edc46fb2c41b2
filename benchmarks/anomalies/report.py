"""Tables and ranks of what was measured."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

from benchmarks.anomalies.models import IMPUTATIONS, MODELS, OURS
from benchmarks.anomalies.sets import DEVELOPMENT, FILES
from benchmarks.pages import report
from benchmarks.records import Record, joined

KEY = ("set", "model", "seed", "missing", "imputation")
LABELS = {
    **{OURS: "marginals", "iforest": "IForest", "ecod": "ECOD", "copod": "COPOD"},
    **{"knn": "KNN", "gmm": "GMM"},
}
METRICS = {"auroc": "AUROC", "ap": "average precision"}


def table(records: Sequence[Record], metric: str, missing: float, fill: str | None) -> pd.DataFrame:
    """Return means over seeds, sets by models; peers with gaps filled in one way."""
    found = {}
    for name in FILES:
        for model in MODELS:
            wanted = None if model == OURS else fill
            values = [
                r[metric]
                for r in records
                if (r["set"], r["model"], r["missing"]) == (name, model, missing)
                and r["imputation"] == wanted
                and "error" not in r
            ]
            if values:
                found[name, model] = fmean(values)
    if not found:
        return pd.DataFrame(dtype=float)
    frame = pd.Series(found).unstack()
    return frame.reindex(
        index=[n for n in FILES if n in frame.index],
        columns=[m for m in MODELS if m in frame.columns],
    )


def ranks(frame: pd.DataFrame, sets: Sequence[str] | None = None) -> pd.Series:
    """Return the mean rank of each model over sets, 1 the best; ties share their ranks."""
    rows = frame if sets is None else frame.loc[[n for n in frame.index if n in sets]]
    return rows.rank(axis=1, ascending=False).mean()


def settings(records: Sequence[Record]) -> list[tuple[str, float, str | None]]:
    """Return the settings that were measured: a title, the share of gaps, how peers fill them."""
    found = [("No cell missing", 0.0, None)] if any(r["missing"] == 0 for r in records) else []
    for share in sorted({r["missing"] for r in records if r["missing"]}):
        for fill in IMPUTATIONS:
            title = f"{100 * share:.0f} % of the cells missing, peers after {fill} imputation"
            found.append((title, share, fill))
    return found


def tables(records: Sequence[Record]) -> str:
    """Return everything as Markdown."""
    lines = ["### Mean ranks", "", *_rank_lines(records)]
    for title, missing, fill in settings(records):
        for metric, label in METRICS.items():
            frame = table(records, metric, missing, fill)
            if not frame.empty:
                lines += ["", f"### {title}: {label}", "", *_lines(frame)]
    errors = [f"- {r['set']} {r['model']}: {r['error']}" for r in records if "error" in r]
    lines += ["", "Failed:", "", *errors] if errors else []
    return "\n".join([*lines, "", _seconds(records), _origin(records)])


def _rank_lines(records: Sequence[Record]) -> list[str]:
    """Return the mean ranks in every setting, over all sets and over those not developed on."""
    models = [m for m in MODELS if any(r["model"] == m for r in records)]
    head = "| setting | metric | sets | " + " | ".join(LABELS[m] for m in models) + " |"
    lines = [head, "|---" * (len(models) + 3) + "|"]
    others = [name for name in FILES if name not in DEVELOPMENT]
    for title, missing, fill in settings(records):
        for metric, label in METRICS.items():
            frame = table(records, metric, missing, fill)
            for told, sets in (("all", None), ("development", DEVELOPMENT), ("others", others)):
                mean = ranks(frame, sets).reindex(models)
                if mean.notna().any():
                    cells = _bold(mean, "{:.2f}", least=True)
                    count = len(frame if sets is None else frame.loc[frame.index.isin(sets)])
                    line = [title.lower(), label, f"{told} ({count})", *cells]
                    lines.append("| " + " | ".join(line) + " |")
    return lines


def _lines(frame: pd.DataFrame) -> list[str]:
    head = "| set | " + " | ".join(LABELS[m] for m in frame.columns) + " |"
    lines = [head, "|---" * (len(frame.columns) + 1) + "|"]
    for name, row in frame.iterrows():
        star = "*" if name in DEVELOPMENT else ""
        lines.append(f"| {name}{star} | " + " | ".join(_bold(row, "{:.3f}")) + " |")
    lines.append("| mean | " + " | ".join(_bold(frame.mean(), "{:.3f}")) + " |")
    lines.append("| mean rank | " + " | ".join(_bold(ranks(frame), "{:.2f}", least=True)) + " |")
    return lines


def _bold(row: pd.Series, form: str, least: bool = False) -> list[str]:
    """Write figures, the best in bold; ties in what is written are all the best."""
    texts = ["" if np.isnan(value) else form.format(value) for value in row]
    best = form.format(row.min() if least else row.max())
    return [f"**{text}**" if text == best else text for text in texts]


def _seconds(records: Sequence[Record]) -> str:
    """Say how long fits and scores of ours took."""
    ours = [r for r in records if r["model"] == OURS and "error" not in r]
    if not ours:
        return ""
    fits, scores = ([r[name] for r in ours] for name in ("fit_s", "score_s"))
    return (
        f"Our detector took {np.median(fits):.1f} s to fit (median; at most {max(fits):.1f} s) and "
        f"{np.median(scores):.1f} s to score the test rows (at most {max(scores):.1f} s), on a "
        "machine that other work shared."
    )


def _origin(records: Sequence[Record]) -> str:
    found = {
        f"{r['date'][:10]}, commit {r['commit']}, {r['threads']} thread(s), PyOD "
        f"{r['versions'].get('pyod', 'absent')}"
        for r in records
    }
    return "Measured: " + "; ".join(sorted(found)) + "."


def main(words: Sequence[str]) -> None:
    """Print the tables, or write them into a page; draw the picture."""
    report("benchmarks.anomalies", words, partial(joined, names=KEY), tables, _draw)


def _draw(records: Sequence[Record], path: Path) -> None:
    from benchmarks.anomalies.picture import draw  # needs matplotlib, the tables do not

    draw(records, path)
