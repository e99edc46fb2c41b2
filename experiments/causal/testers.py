"""Tests of conditional independence for PC, besides ours."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, final

import networkx as nx
import numpy as np
import pandas as pd
import torch
from scipy.stats import norm

from marginals.queries import IndependenceResult

PValue = Callable[[str, str, list[str]], float]


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
        score = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)) * np.sqrt(len(rows) - len(given) - 3)
        return float(2 * norm.sf(abs(score)))

    return PairTests(list(rows), pvalue, len(rows))


def kernel(rows: pd.DataFrame, seconds: float) -> PairTests:
    """Return the kernel test of causal-learn."""
    from causallearn.utils.cit import CIT

    standard = (rows - rows.mean()) / rows.std()
    test = CIT(standard.to_numpy(), "kci")
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
