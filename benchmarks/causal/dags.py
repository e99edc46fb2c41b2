"""Random DAGs and rows drawn from them, with the paper's sigmoidal mechanism."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Adjacency = npt.NDArray[np.bool_]


def random_dag(columns: int, parents: float, rng: np.random.Generator) -> Adjacency:
    """Draw a DAG in which every pair in a random order has an edge with equal chance.

    Args:
        columns: the number of columns D.
        parents: the mean number of parents.
        rng: source of the draws.

    Returns:
        (D, D), true at [i, j] for the edge i -> j.
    """
    chance = min(1.0, 2 * parents / (columns - 1))
    upper = np.triu(rng.random((columns, columns)) < chance, 1)
    order = rng.permutation(columns)
    return upper[np.ix_(order, order)]


def sigmoidal(dag: Adjacency, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw rows: Y = sum_i w_i sigmoid(X_i + w_0) + noise, each column brought to variance one.

    Args:
        dag: the graph, (D, D).
        rows: the number of rows.
        rng: source of the draws.
    """
    columns = len(dag)
    x = np.zeros((rows, columns))
    for j in _topological(dag):
        above = np.flatnonzero(dag[:, j])
        weights = rng.choice([-1, 1], len(above)) * rng.uniform(2, 5, len(above))
        shift = rng.normal()
        signal = (1 / (1 + np.exp(-(x[:, above] + shift)))) @ weights
        x[:, j] = _standard(signal + rng.normal(0, 0.5 if len(above) else 1.0, rows))
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])


def _topological(dag: Adjacency) -> list[int]:
    left, order = set(range(len(dag))), []
    while left:
        free = [j for j in sorted(left) if not dag[sorted(left), j].any()]
        order += free
        left -= set(free)
    return order


def _standard(x: Any) -> Any:
    return (x - x.mean()) / x.std()
