"""Tests of conditional independence: ours, and those that people use today."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, final

import networkx as nx
import numpy as np
import pandas as pd
import torch
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from marginals import cross_fit
from marginals.queries import IndependenceResult
from studies.harness.available import installed

PValue = Callable[[str, str, list[str]], float]


# For PC -----------------------------------------------------------------------------------------


@final
class OutOfTimeError(Exception):
    """The seconds allowed to a search are over."""


@final
class PairTests:
    """A function of names to p-values as what `causal_graph` takes.

    Args:
        names: of the columns.
        pvalue: x, y and the columns conditioned on to a p-value.
        count: of rows.
        seconds: after which a test raises `OutOfTimeError`.
    """

    def __init__(
        self, names: Sequence[str], pvalue: PValue, count: int = 0, seconds: float = np.inf
    ) -> None:
        self.names = list(names)
        self._pvalue, self._count = pvalue, count
        self._end = time.perf_counter() + seconds

    def independence_test(self, x: Any, y: Any, given: Any = None) -> IndependenceResult:
        """Test two columns, perhaps given others."""
        if time.perf_counter() > self._end:
            raise OutOfTimeError
        found = self._pvalue(x, y, list(given or ()))
        return IndependenceResult(np.nan, found, 1, self._count, torch.zeros(1, 1), "random")


def gaussian(rows: pd.DataFrame) -> PairTests:
    """Return Fisher's z test of the partial correlation."""
    correlations = rows.corr()

    def pvalue(x: str, y: str, given: list[str]) -> float:
        inverse = np.linalg.pinv(correlations.loc[[x, y, *given], [x, y, *given]].to_numpy())
        r = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        return _fisher(r, len(rows), len(given))

    return PairTests(list(rows), pvalue, len(rows))


def kernel(rows: pd.DataFrame, seconds: float) -> PairTests:
    """Return the kernel test of causal-learn."""
    standard = (rows - rows.mean()) / rows.std()
    test = installed("causallearn.utils.cit").CIT(standard.to_numpy(), "kci")
    place = {name: i for i, name in enumerate(rows)}

    def pvalue(x: str, y: str, given: list[str]) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its roots of small negative eigenvalues
            return float(test(place[x], place[y], [place[z] for z in given]))

    return PairTests(list(rows), pvalue, len(rows), seconds)


def oracle(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> PairTests | None:
    """Return tests that read the answer off a DAG; None of a graph with cycles."""
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(edges)
    if not nx.is_directed_acyclic_graph(graph):
        return None
    return PairTests(names, lambda x, y, z: float(nx.is_d_separator(graph, {x}, {y}, set(z))))


# Of one x and one y given z ---------------------------------------------------------------------

PValues = dict[str, float]


def ours(rows: pd.DataFrame, seed: int) -> PValues:
    """Test by `cross_fit`, over all shapes and by one, two and three functions a side."""
    names = {None: "marginals", **{q: f"marginals, q={q}" for q in (1, 2, 3)}}
    found = cross_fit(rows, random_state=seed).independence_test("x", "y", "z", q=list(names))
    return {name: each.pvalue for name, each in zip(names.values(), found, strict=True)}


def fisher_z(rows: pd.DataFrame, seed: int) -> PValues:
    """Test the partial correlation, categories as indicators."""
    z = np.column_stack([np.ones(len(rows)), _numbers(rows)])
    x, y = (rows[c] - z @ np.linalg.lstsq(z, rows[c], rcond=None)[0] for c in "xy")
    r = float(np.corrcoef(x, y)[0, 1])
    return {"Fisher z": _fisher(r, len(rows), z.shape[1] - 1)}


def gcm(rows: pd.DataFrame, seed: int) -> PValues:
    """Test by the generalised covariance measure, residuals by boosting on held-out folds."""
    z = _numbers(rows)
    folds = KFold(5, shuffle=True, random_state=seed)
    model = HistGradientBoostingRegressor(max_iter=50, max_depth=3, early_stopping=False)
    x, y = (rows[c] - cross_val_predict(model, z, rows[c], cv=folds) for c in "xy")
    product = (x * y).to_numpy()
    score = np.sqrt(len(rows)) * product.mean() / product.std()
    return {"GCM": float(2 * norm.sf(abs(score)))}


def kci(rows: pd.DataFrame, seed: int) -> PValues:
    """Test by the kernels of causal-learn, with its own settings."""
    data = np.column_stack([rows["x"], rows["y"], _numbers(rows)])
    test = installed("causallearn.utils.cit").CIT(data, "kci")
    return {"KCI": float(test(0, 1, list(range(2, data.shape[1]))))}


METHODS: dict[str, Callable[[pd.DataFrame, int], PValues]] = {
    "marginals": ours,
    "fisher": fisher_z,
    "gcm": gcm,
    "kci": kci,
}


def _fisher(r: float, rows: int, given: int) -> float:
    """Return the p-value of a partial correlation by Fisher's z."""
    score = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)) * np.sqrt(rows - given - 3)
    return float(2 * norm.sf(abs(score)))


def _numbers(rows: pd.DataFrame) -> np.ndarray:
    if rows["z"].dtype.kind == "f":
        return rows[["z"]].to_numpy()
    return pd.get_dummies(rows["z"], drop_first=True).to_numpy(float)
