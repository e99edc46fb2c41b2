"""The default beside a Gaussian mixture, on tables as they are: likelihood and answers.

Both see the numeric columns of complete rows. Columns on a grid are compared by the mass of their
cells: ours learns it, and the mixture learns rows that are spread evenly over their cells and is
then averaged over each cell. All figures are in the unit of a density of standardised columns.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple, final

import numpy as np
import pandas as pd
import torch
from scipy.special import logsumexp, ndtr, softmax
from scipy.stats import multivariate_normal

from marginals import MDMA, Continuous, Discrete
from marginals.columns.inference import infer
from marginals.numerics.scoring_rules import mass_crps
from studies.data.density import Rows, Split
from studies.data.tables import complete_table, numeric
from studies.harness.available import check_choice
from studies.harness.machine import processor_seconds
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import best_bold, table
from studies.models.classical import fit_gmm
from studies.models.ours import own_options

TEST, VALIDATION = 0.25, 0.15
CELL_POINTS = 20  # at which the mixture is averaged over a cell
ANSWERED = 300  # test rows with a hidden cell
LABELS = {"ours": "ours, default", "gmm": "GMM"}


@final
@dataclass(frozen=True)
class Cells:
    """The cells of a table's columns: where each value's cell begins and ends.

    Args:
        kinds: The kind of each column.
        values: The values of each column that has few, sorted; None for other columns.
        steps: The steps of columns on a regular grid; 0 for other columns.
    """

    kinds: dict[str, Any]
    values: tuple[Rows | None, ...]
    steps: Rows

    def ends(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the lower and upper ends of each cell, (N, D) each; equal without a grid."""
        low, high = rows - self.steps / 2, rows + self.steps / 2
        for j, values in enumerate(self.values):
            if values is not None:
                middles = (values[1:] + values[:-1]) / 2
                first, last = 2 * values[0] - middles[0], 2 * values[-1] - middles[-1]
                edges = np.r_[first, middles, last]
                place = np.searchsorted(middles, rows[:, j])
                low[:, j], high[:, j] = edges[place], edges[place + 1]
        return low, high

    def log_widths(self, rows: Rows) -> Rows:
        """Return the log of the product of each row's cell widths, over columns with a grid."""
        low, high = self.ends(rows)
        return np.where(high > low, np.log(np.where(high > low, high - low, 1.0)), 0.0).sum(1)

    def spread(self, rows: Rows, count: int, seed: int) -> Rows:
        """Return random points of each row's cell, (count, N, D)."""
        low, high = self.ends(rows)
        return low + (high - low) * np.random.default_rng(seed).random((count, *rows.shape))


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit a model to a table and score its test rows and its answers."""
    model = check_choice("`models`", job["model"], LABELS)
    frame, cells = context.once(job["table"], lambda: numbers(job["table"], context, settings.rows))
    order = np.random.default_rng(seed).permutation(len(frame))
    cuts = np.cumsum([round(TEST * len(frame)), round(VALIDATION * len(frame))])
    test, val, train = (frame.iloc[part] for part in np.split(order, cuts))
    started = time.process_time()
    fitted = (_ours if model == "ours" else _mixture)(settings, train, val, cells, seed)
    seconds = time.process_time() - started
    units = train.to_numpy().std(0)
    hidden = np.random.default_rng(seed).integers(len(units), size=min(ANSWERED, len(test)))
    asked = test.iloc[: len(hidden)]
    answers = [
        fitted.crps(asked[hidden == j], j) / units[j] * (hidden == j).mean()
        for j in np.unique(hidden)
    ]
    return {
        "likelihood": float(fitted.score(test).mean() + np.log(units).sum()),
        "answers": float(sum(answers)),
        "seconds": round(seconds, 3),
        "rows": len(train),
        "columns": frame.shape[1],
        "grids": int((cells.steps > 0).sum()) + sum(v is not None for v in cells.values),
    }


def numbers(name: str, context: Context, rows: int) -> tuple[pd.DataFrame, Cells]:
    """Return the numeric columns of a table and their cells.

    Columns that repeat an earlier one have no joint density, and those with atoms but no grid have
    none at the atoms: both are left out.
    """
    frame = complete_table(name, context, rows)
    frame = frame[numeric(frame)].astype(np.float64)
    same = np.triu(np.abs(np.corrcoef(frame.to_numpy().T)) > 1 - 1e-9, 1).any(0)
    frame = frame.loc[:, ~same & (frame.std() > 0).to_numpy()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [column.kind for column in infer(frame)]
    smooth = [not isinstance(k, Continuous) or bool(k.resolution) or not k.atoms for k in kinds]
    found = {c: k for c, k, kept in zip(frame.columns, kinds, smooth, strict=True) if kept}
    listed = (np.array(k.values) if isinstance(k, Discrete) else None for k in found.values())
    steps = [_step(kind) for kind in found.values()]
    return frame[list(found)], Cells(found, tuple(listed), np.array(steps))


def _step(kind: Any) -> float:
    if isinstance(kind, Discrete):
        return 0.0
    return float(kind.resolution or 0.0) if isinstance(kind, Continuous) else 1.0


# Models -----------------------------------------------------------------------------------------


class Fitted(NamedTuple):
    """A fitted model.

    Args:
        score: Rows to their log densities, averaged over cells, (N,).
        crps: Rows and the position of a column to the mean CRPS of that column given the others.
    """

    score: Callable[[pd.DataFrame], Rows]
    crps: Callable[[pd.DataFrame, int], float]


def _ours(
    settings: Settings, train: pd.DataFrame, val: pd.DataFrame, cells: Cells, seed: int
) -> Fitted:
    options = {"progress": False, "random_state": seed, **own_options(settings)}
    with warnings.catch_warnings(), processor_seconds():
        warnings.simplefilter("ignore")
        model = MDMA(columns=cells.kinds, **options).fit(train, validation=val)

    def score(frame: pd.DataFrame) -> Rows:
        found = np.asarray(model.score_samples(frame), dtype=np.float64)
        return found - cells.log_widths(frame.to_numpy())

    def crps(frame: pd.DataFrame, column: int) -> float:
        name = frame.columns[column]
        if len(frame) == 1:  # a score needs two rows
            frame = pd.concat([frame, frame])
        found = model.score_conditional(frame, columns=[name], rows=len(frame))
        return float(found.columns.loc[name, "crps"] * (frame[name].std(ddof=0) or 1.0))

    return Fitted(score, crps)


def _mixture(
    settings: Settings, train: pd.DataFrame, val: pd.DataFrame, cells: Cells, seed: int
) -> Fitted:
    seen = train.to_numpy()
    mean, scale = seen.mean(0), seen.std(0)
    parts = [(cells.spread(p.to_numpy(), 1, seed)[0] - mean) / scale for p in (train, val)]
    fitted = fit_gmm(Split("", None, *parts, parts[1]), seed)

    def score(frame: pd.DataFrame) -> Rows:
        points = (cells.spread(frame.to_numpy(), CELL_POINTS, seed) - mean) / scale  # (C, N, D)
        found = fitted.exact(points.reshape(-1, len(scale))).reshape(CELL_POINTS, -1)
        averaged = logsumexp(found, axis=0) - np.log(CELL_POINTS)
        return np.asarray(averaged - np.log(scale).sum())

    def crps(frame: pd.DataFrame, column: int) -> float:
        rows = (frame.to_numpy() - mean) / scale
        weights, means, deviations = conditional_normals(fitted.model, rows, column)
        values = cells.values[column]
        if values is None:
            found = mixture_crps(weights, means, deviations, rows[:, column])
            return float(found.mean() * scale[column])
        # A column of few values has the mixture's mass of each value's cell.
        middles = ((values[1:] + values[:-1]) / 2 - mean[column]) / scale[column]
        inner = ndtr((middles[:, None, None] - means) / deviations)  # (V - 1, N, K)
        masses = np.diff((inner * weights).sum(-1), axis=0, prepend=0.0, append=1.0)
        given = (values, masses, frame.to_numpy()[:, column])
        return float(mass_crps(*(torch.as_tensor(x, dtype=torch.float64) for x in given)).mean())

    return Fitted(score, crps)


def conditional_normals(mixture: Any, rows: Rows, column: int) -> tuple[Rows, Rows, Rows]:
    """Return weights (N, K), means (N, K) and deviations (K,) of a column given the others."""
    rest = [i for i in range(rows.shape[1]) if i != column]
    logs, means, deviations = [], [], []
    for weight, mean, cov in zip(
        mixture.weights_, mixture.means_, mixture.covariances_, strict=True
    ):
        others = cov[np.ix_(rest, rest)]
        slope = np.linalg.solve(others, cov[rest, column])
        normal = multivariate_normal(mean[rest], others)
        logs.append(np.log(weight) + normal.logpdf(rows[:, rest]))
        means.append(mean[column] + (rows[:, rest] - mean[rest]) @ slope)
        deviations.append(np.sqrt(cov[column, column] - cov[rest, column] @ slope))
    weights = softmax(np.reshape(logs, (len(logs), -1)).T, axis=1)
    return weights, np.array(means).T, np.array(deviations)


def mixture_crps(weights: Rows, means: Rows, deviations: Rows, truth: Rows) -> Rows:
    """Return the CRPS (N,) of mixtures of normals, in closed form (Grimit et al. 2006).

    >>> one = np.ones((1, 1))
    >>> mixture_crps(one, 0 * one, np.ones(1), np.zeros(1)).round(4)
    array([0.2337])
    """
    between = np.hypot(deviations[:, None], deviations)  # (K, K)
    pairs = _expected_distance(means[:, :, None] - means[:, None], between)  # (N, K, K)
    first = (weights * _expected_distance(means - truth[:, None], deviations)).sum(1)
    return np.asarray(first - np.einsum("nk,nl,nkl->n", weights, weights, pairs) / 2)


def _expected_distance(mean: Rows, deviation: Rows) -> Rows:
    """Return the mean of |X| for a normal X."""
    z = mean / deviation
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(mean * (2 * ndtr(z) - 1) + 2 * deviation * density)


# Tables -----------------------------------------------------------------------------------------


def _means(records: Records, figure: str) -> dict[str, dict[str, float]]:
    """Return a figure by table and model, over seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for r in records:
        found.setdefault(r["table"], {}).setdefault(LABELS[r["model"]], []).append(r[figure])
    return {name: {m: fmean(v) for m, v in own.items()} for name, own in found.items()}


def facts(records: Records) -> dict[str, str]:
    """Return on how many tables ours is at least as good as the mixture."""
    found = {}
    for figure, sign in (("likelihood", 1), ("answers", -1)):
        both = [own for own in _means(records, figure).values() if len(own) == len(LABELS)]
        ahead = sum(sign * own[LABELS["ours"]] >= sign * own[LABELS["gmm"]] for own in both)
        found[figure] = f"{ahead} of {len(both)}"
    return found


def tables(records: Records, paper: Paper) -> str:
    """Return a table of both figures, and the tables on which ours is behind."""
    likelihood, answers = _means(records, "likelihood"), _means(records, "answers")
    sizes = {r["table"]: [str(r[key]) for key in ("rows", "columns", "grids")] for r in records}
    rows = []
    for name, own in likelihood.items():
        first = best_bold({m: own.get(m) for m in LABELS.values()}, 3, smaller=False)
        second = best_bold({m: answers[name].get(m) for m in LABELS.values()}, 4, smaller=True)
        rows.append([name, *sizes[name], *first.values(), *second.values()])
    heads = [f"{what}, {m}" for what in ("log-likelihood", "CRPS") for m in LABELS.values()]
    return "\n\n".join(
        [
            "Numeric columns of complete rows, as they are. Log-likelihoods are of test rows, in "
            "nats; a column on a grid counts by the mass of its cells, for both models, in the "
            "unit of a density of standardised columns. What the columns are is inferred once, "
            "and both models use it: ours as kinds, the mixture as cells over which its rows are "
            "spread. CRPS is that of a hidden cell of a test row given the row's other cells, in "
            "standard deviations, in closed form. The mixture's components and ridge are chosen on "
            "validation rows. Means over seeds.",
            table(["table", "rows", "columns", "on a grid", *heads], rows),
        ]
    )


STUDIES = (
    Study(
        "default",
        "The default beside a Gaussian mixture",
        measure,
        tables,
        facts=facts,
        grid={"table": "tables", "model": "models"},
        page="scoreboard",
    ),
)
