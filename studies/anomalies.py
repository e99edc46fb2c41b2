"""Anomalies in the sets of ADBench: detectors and their peers, and shares of missing cells."""

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split

from studies.data.density import Rows
from studies.harness.available import check_choice
from studies.harness.drawing import COLOURS, legend, open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import best_bold, pick, present, ranges, spread, table, values
from studies.models import detectors
from studies.models.detectors import PEERS, Score
from studies.models.ours import sizes_of

Labels = npt.NDArray[np.int64]
# The sets on which our method was chosen: every third by name, and those of an earlier method. The
# others were looked at when it was fixed.
THIRD = (
    *("annthyroid", "cover", "ionosphere", "lymphography", "pageblocks"),
    *("satimage-2", "smtp", "vertebral", "wdbc", "yeast"),
)
DEVELOPMENT = (*THIRD, "cardio", "satellite", "thyroid", "vowels")
FILES = {
    **{"annthyroid": "2_annthyroid", "campaign": "5_campaign", "cardio": "6_cardio"},
    **{"cover": "10_cover", "fault": "12_fault", "hepatitis": "15_Hepatitis"},
    **{"ionosphere": "18_Ionosphere", "landsat": "19_landsat", "letter": "20_letter"},
    **{"lymphography": "21_Lymphography", "mammography": "23_mammography"},
    **{"optdigits": "26_optdigits", "pageblocks": "27_PageBlocks", "pendigits": "28_pendigits"},
    **{"satellite": "30_satellite", "satimage-2": "31_satimage-2", "shuttle": "32_shuttle"},
    **{"skin": "33_skin", "smtp": "34_smtp", "spambase": "35_SpamBase"},
    **{"thyroid": "38_thyroid", "vertebral": "39_vertebral", "vowels": "40_vowels"},
    **{"wbc": "42_WBC", "wdbc": "43_WDBC", "wine": "45_wine", "wpbc": "46_WPBC"},
    **{"yeast": "47_yeast"},
}
# Training rows with their anomalies, or without: the anomalies among them are scored then.
PROTOCOLS = ("unsupervised", "semi-supervised")
SIMULATED = "simulated"
MOST_ROWS = 10_000  # as in ADBench
LEAST_ANOMALIES = 30  # of a set with more rows: by its share, smtp would keep three
TEST_SHARE = 0.3
METRICS = {"auroc": "AUROC", "ap": "average precision"}


@final
@dataclass(frozen=True)
class Split:
    """Training rows, their labels unused, and test rows with labels: 1 is an anomaly."""

    train: Rows
    test: Rows
    labels: Labels


def load(context: Context, name: str, seed: int) -> tuple[Rows, Labels]:
    """Load a set: rows (N, D) and labels (N,)."""
    check_choice("`sets`", name, (*FILES, SIMULATED))
    if name == SIMULATED:
        return simulated(seed)
    with np.load(context.file("adbench", f"{FILES[name]}.npz"), allow_pickle=False) as parts:
        return parts["X"].astype(np.float64), parts["y"].astype(np.int64)


def simulated(seed: int, count: int = 300) -> tuple[Rows, Labels]:
    """Return a cloud of rows and some far from it, for tests without data sets."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(count) % 10 == 0).astype(np.int64)
    return generator.normal(size=(count, 3)) * np.where(labels, 4.0, 1.0)[:, None], labels


def cut(
    rows: Rows, labels: Labels, seed: int, missing: float, protocol: str = PROTOCOLS[0]
) -> Split:
    """Take at most 10,000 rows, split them 70/30 by label, and blank a share of all cells.

    Cells go missing at random, in training and test rows; the split is the same without gaps. In
    the semi-supervised protocol the anomalies among the training rows become test rows.
    """
    check_choice("`protocols`", protocol, PROTOCOLS)
    index = np.arange(len(rows)) if len(rows) <= MOST_ROWS else _sampled(labels, seed)
    options = {"test_size": TEST_SHARE, "stratify": labels[index], "random_state": seed}
    train, test = train_test_split(index, **options)
    if protocol == "semi-supervised":
        odd = labels[train] == 1
        train, test = train[~odd], np.concatenate([test, train[odd]])
    blank = np.random.default_rng(seed).random(rows.shape) < missing
    holed = np.where(blank, np.nan, rows)
    return Split(holed[train], holed[test], labels[test])


def _sampled(labels: Labels, seed: int) -> Any:
    """Choose rows by label, at least 30 anomalies if there are as many."""
    random = np.random.default_rng(seed)
    normal, odd = (random.permutation(np.flatnonzero(labels == label)) for label in (0, 1))
    count = min(len(odd), max(LEAST_ANOMALIES, round(MOST_ROWS * labels.mean())))
    return np.concatenate([odd[:count], normal[: MOST_ROWS - count]])


def scored(split: Split, fit: Callable[[Rows], Score]) -> Record:
    """Fit a detector to the training rows and score the test rows."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterative imputation that has not converged
        score = fit(split.train)
        fitted = time.perf_counter()
        found = detectors.finite(score(split.test))
    return {
        "auroc": float(roc_auc_score(split.labels, found)),
        "ap": float(average_precision_score(split.labels, found)),
        "train_rows": len(split.train),
        "test_rows": len(split.test),
        "columns": split.train.shape[1],
        "test_anomalies": int(split.labels.sum()),
        "fit_s": round(fitted - started, 3),
        "score_s": round(time.perf_counter() - fitted, 3),
    }


# Beside other detectors -------------------------------------------------------------------------

OURS = "marginals"
BOARD = {OURS: "marginals", **PEERS}


def board_jobs(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Return each set, protocol, share of gaps, way to fill them for peers, and detector."""
    for name, protocol, missing in itertools.product(
        settings.sets, settings.protocols, settings.missing
    ):
        about = {"set": name, "protocol": protocol, "missing": missing}
        for fill in settings.fills if missing else (None,):
            for model in settings.models:
                if model != OURS:
                    yield {**about, "model": model, "imputation": fill}
        if OURS in settings.models:
            yield {**about, "model": OURS, "imputation": None}


def measure_board(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return AUROC and average precision of a detector."""
    model = check_choice("`models`", job["model"], BOARD)
    split = cut(*load(context, job["set"], seed), seed, job["missing"], job["protocol"])
    if model == OURS:
        clean = job["protocol"] == "semi-supervised"
        return scored(split, lambda train: detectors.fit_ours(train, seed, clean))
    fill = job["imputation"]
    return scored(split, lambda train: detectors.fit_peer(model, train, seed, fill))


@final
@dataclass(frozen=True)
class Way:
    """What was measured: a protocol, the share of gaps, and how peers fill them."""

    protocol: str
    missing: float
    fill: str | None

    @property
    def title(self) -> str:
        """The way in words."""
        if not self.missing:
            return f"{self.protocol.capitalize()}, no cell missing"
        gaps = f"{100 * self.missing:.0f} % of the cells missing"
        return f"{self.protocol.capitalize()}, {gaps}, peers after {self.fill} imputation"

    @property
    def label(self) -> str:
        """The way in a few words, for a picture."""
        gaps = f"{100 * self.missing:.0f} % missing,\n{self.fill}" if self.missing else "complete"
        return f"{self.protocol.split('-')[0][:5]},\n{gaps}"

    def has(self, record: Record) -> bool:
        """Say whether a record was measured in this way."""
        fill = None if record["model"] == OURS else self.fill
        given = record["protocol"], record["missing"], record["imputation"]
        return given == (self.protocol, self.missing, fill)


def ways(records: Records) -> list[Way]:
    """Return what was measured, in order."""
    peers = [r for r in records if r["model"] != OURS] or records
    found = {(r["protocol"], r["missing"], r["imputation"]) for r in peers}
    ordered = sorted(found, key=lambda each: (PROTOCOLS.index(each[0]), each[1], str(each[2])))
    return [Way(*each) for each in ordered]


def means(records: Records, metric: str, way: Way) -> pd.DataFrame:
    """Return means over seeds, sets by models."""
    found: dict[tuple[str, str], list[float]] = {}
    for r in records:
        if way.has(r):
            found.setdefault((r["set"], r["model"]), []).append(r[metric])
    if not found:
        return pd.DataFrame(dtype=float)
    frame = pd.Series({place: fmean(each) for place, each in found.items()}).unstack()
    sets = present((*FILES, SIMULATED), frame.index)
    return frame.reindex(index=sets, columns=present(BOARD, frame.columns))


def ranks(frame: pd.DataFrame, sets: Sequence[str] | None = None) -> pd.Series:
    """Return the mean rank of each model over sets, 1 the best; ties share their ranks."""
    rows = frame if sets is None else frame.loc[[n for n in frame.index if n in sets]]
    return rows.rank(axis=1, ascending=False).mean()


def board_tables(records: Records, paper: Paper) -> str:
    """Return mean ranks, and the figures of each set."""
    parts = ["### Mean ranks", _rank_table(records)]
    for way in ways(records):
        for metric, label in METRICS.items():
            parts += [f"### {way.title}: {label}", _set_table(means(records, metric, way))]
    ours = pick(records, model=OURS)
    if ours:
        fits, scores = ([r[name] for r in ours] for name in ("fit_s", "score_s"))
        parts.append(
            f"Our detector took {np.median(fits):.1f} s to fit (median; at most {max(fits):.1f} s) "
            f"and {np.median(scores):.1f} s to score the test rows (at most {max(scores):.1f} s), "
            "on a machine shared with other work."
        )
    return "\n\n".join(parts)


def _rank_table(records: Records) -> str:
    """Return the mean ranks over all sets, over those developed on and over the others."""
    models = present(BOARD, (r["model"] for r in records))
    others = [name for name in FILES if name not in DEVELOPMENT]
    rows = []
    for way in ways(records):
        for metric, label in METRICS.items():
            frame = means(records, metric, way)
            for told, sets in (("all", None), ("development", DEVELOPMENT), ("others", others)):
                mean = ranks(frame, sets).reindex(models)
                if mean.notna().any():
                    count = len(frame if sets is None else frame.loc[frame.index.isin(sets)])
                    line = [way.title.lower(), label, f"{told} ({count})"]
                    rows.append([*line, *_bold(mean, 2, smaller=True)])
    return table(["setting", "metric", "sets", *(BOARD[m] for m in models)], rows)


def _set_table(frame: pd.DataFrame) -> str:
    rows = [
        [f"{name}{'*' if name in DEVELOPMENT else ''}", *_bold(row, 3)]
        for name, row in frame.iterrows()
    ]
    rows.append(["mean", *_bold(frame.mean(), 3)])
    rows.append(["mean rank", *_bold(ranks(frame), 2, smaller=True)])
    return table(["set", *(BOARD[m] for m in frame.columns)], rows)


def _bold(row: pd.Series, digits: int, *, smaller: bool = False) -> list[str]:
    """Write figures, the best in bold; ties in what is written are all the best."""
    return list(best_bold(row.round(digits).to_dict(), digits, smaller=smaller).values())


MARKS = {
    **{OURS: ("o", "#0072B2"), "iforest": ("s", "#D55E00"), "ecod": ("^", "#009E73")},
    **{"copod": ("v", "#CC79A7"), "knn": ("D", "#E69F00"), "gmm": ("X", "#6E6E6E")},
    **{"gmm4": ("P", "#000000"), "lof": ("<", "#56B4E9")},
}


def board_figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw mean ranks by setting, and the figures of each set, a row for each metric."""
    figure, axes = panels(11, 6.4, 2, 2, gridspec_kw={"width_ratios": [1, 2.2]})
    measured = ways(records)
    for (left, right), (metric, label) in zip(axes, METRICS.items(), strict=True):
        found = [ranks(means(records, metric, way)) for way in measured]
        for model in BOARD:
            _line(left, [mean.get(model, float("nan")) for mean in found], model)
        left.set_xticks(range(len(measured)), [way.label for way in measured])
        left.invert_yaxis()
        left.set_title(f"mean rank by {label} (1 is best)", loc="left")
        frame = means(records, metric, measured[0])
        for model in frame.columns:
            _line(right, frame[model].tolist(), model, lines=False)
        right.set_xticks(range(len(frame)), frame.index, rotation=45, ha="right")
        right.grid(axis="x", lw=0.4, color="#DDDDDD")
        right.set_title(f"{label}, {measured[0].title.lower()}", loc="left")
        for panel in (left, right):
            panel.tick_params(labelsize=7, width=0.6, length=2.5)
            open_frame(panel)
    legend(figure, axes[0, 0])
    return {"": figure}


def _line(axes: Any, heights: Sequence[float], model: str, lines: bool = True) -> None:
    mark, colour = MARKS[model]
    options = {"marker": mark, "color": colour, "label": BOARD[model], "ms": 6}
    options |= {"lw": 1.0 if lines else 0.0, "zorder": 3 if model == OURS else 2}
    axes.plot(range(len(heights)), heights, alpha=1.0 if model == OURS else 0.75, **options)


# By the share of missing cells ------------------------------------------------------------------

LABELS = {
    "ours": "MDMAOutlierDetector()",
    "paper": "paper's model, −log density",
    "forest": "IsolationForest on means",
}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return AUROC and average precision of a detector."""
    rows, labels = load(context, job["set"], seed)
    chosen = np.random.default_rng(seed).permutation(len(rows))[: settings.most_rows]
    split = cut(rows[chosen], labels[chosen], seed, job["share"])
    how = {"seed": seed, "device": context.device, **sizes_of(settings)}
    fits: dict[str, Callable[[Rows], Score]] = {
        "ours": partial(detectors.fit_ours, seed=seed),
        "paper": partial(detectors.fit_paper, **how),
        "forest": partial(detectors.fit_forest, seed=seed),
    }
    return scored(split, fits[check_choice("`models`", job["model"], fits)])


def whole(records: Records) -> list[Record]:
    """Return the records of sets and seeds that have all shares and detectors: means need them."""
    parts = {(r["share"], r["model"]) for r in records}
    found: dict[tuple[str, int], set[tuple[float, str]]] = {}
    for r in records:
        found.setdefault((r["set"], r["seed"]), set()).add((r["share"], r["model"]))
    return [r for r in records if found[r["set"], r["seed"]] == parts]


def tables(records: Records, paper: Paper) -> str:
    """Return means over sets, and the AUROC of each set."""
    records = whole(records)
    shares = sorted({record["share"] for record in records})
    models = present(LABELS, (r["model"] for r in records))
    others = [record for record in records if record["set"] not in DEVELOPMENT]
    lines = [
        [
            label,
            LABELS[m],
            *(f"{fmean(values(some, metric, share=s, model=m)):.3f}" for s in shares),
        ]
        for metric, label, some in (
            *((metric, label, records) for metric, label in METRICS.items()),
            *((metric, f"{label}, other sets", others) for metric, label in METRICS.items()),
        )
        for m in models
        if some
    ]
    head = ["", "detector", *(f"{share:g} missing" for share in shares)]
    sets = list(dict.fromkeys(record["set"] for record in records))
    each = [
        [
            f"{name} ({ranges(r['test_anomalies'] for r in records if r['set'] == name)})",
            LABELS[model],
            *(
                spread(values(records, "auroc", set=name, share=share, model=model))
                for share in shares
            ),
        ]
        for name in sets
        for model in models
    ]
    took = {m: fmean(r["fit_s"] + r["score_s"] for r in records if r["model"] == m) for m in models}
    seconds = ", ".join(f"{LABELS[model]} {mean:.1f}" for model, mean in took.items())
    return "\n\n".join(
        [
            f"Means over {len(sets)} sets and all seeds, by the share of cells missing in both "
            "training and test rows. Detectors see no labels. The settings of ours were chosen on "
            f"{', '.join(DEVELOPMENT)}, so the other sets are also shown separately.",
            table(head, lines),
            "AUROC of each set (mean over seeds, ± their standard deviation; in brackets the "
            "number of anomalies among test rows):",
            table(["set", *head[1:]], each),
            f"Mean seconds of fitting and scoring: {seconds}.",
        ]
    )


ACROSS = 4
STYLES = {
    "ours": ("o", COLOURS["ours"]),
    "paper": ("s", COLOURS["paper"]),
    "forest": ("^", "#d55e00"),
}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw AUROC by share: the mean over sets first, then a panel for each set."""
    records = whole(records)
    if not records:
        return {}
    sets = list(dict.fromkeys(record["set"] for record in records))
    down = -(-(len(sets) + 1) // ACROSS)
    figure, grid = panels(7.6, 1.9 * down + 0.4, ACROSS, down, sharex=True, sharey=True)
    axes = grid.ravel()
    _panel(axes[0], records, f"mean of {len(sets)} sets")
    for panel, name in zip(axes[1:], sets, strict=False):
        _panel(panel, pick(records, set=name), name)
    for panel in axes[len(sets) + 1 :]:
        panel.set_visible(False)
    for panel in axes[::ACROSS]:
        panel.set_ylabel("AUROC")
    for panel in axes[max(0, len(sets) + 1 - ACROSS) : len(sets) + 1]:
        panel.set_xlabel("share of cells missing")
        panel.tick_params(labelbottom=True)  # also above panels that are not shown
    legend(figure, axes[0])
    return {"auroc": figure}


def _panel(axes: Any, records: Records, title: str) -> None:
    shares = sorted({record["share"] for record in records})
    for model in present(LABELS, (r["model"] for r in records)):
        found = [values(records, "auroc", share=share, model=model) for share in shares]
        heights = [fmean(each) if each else float("nan") for each in found]
        mark, hue = STYLES[model]
        style = {"color": hue, "marker": mark, "markersize": 3.5, "linewidth": 1}
        axes.plot(shares, heights, label=LABELS[model], **style)
    axes.set(title=title, xticks=shares)
    axes.grid(linewidth=0.3, alpha=0.5)


STUDIES = (
    Study(
        "anomalies",
        "Detectors of anomalies",
        measure_board,
        board_tables,
        board_figures,
        jobs=board_jobs,
        key=("set", "protocol", "model", "missing", "imputation"),
        parts=("sets", "protocols", "missing", "fills", "models"),
        page="anomalies",
    ),
    Study(
        "anomalies-missing",
        "Anomalies with missing values",
        measure,
        tables,
        figures,
        grid={"set": "sets", "share": "shares", "model": "models"},
    ),
)
