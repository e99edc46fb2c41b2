"""Random DAGs and rows drawn from them, and Sachs.

The paper draws its graphs with the Causal Discovery Toolbox. `draw` follows the toolbox: column j
has up to five parents among those before it, every number of them equally likely; columns without
parents are mixtures of four normals; noise is normal of random spread around 0.8 or -0.8; every
column is brought to mean 0 and variance 1. `random_dag` and `sigmoidal` follow the paper's text.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

from studies.harness.study import Context

Floats = np.ndarray[Any, np.dtype[np.float64]]
Adjacency = np.ndarray[Any, np.dtype[np.bool_]]
Edges = list[tuple[str, str]]
MOST_PARENTS = 5
NOISE = 0.4
MECHANISMS = ("sigmoidal", "polynomial")


class Problem(NamedTuple):
    """Rows, and the graphs that they are said to come from: the first is the one of the paper."""

    rows: pd.DataFrame
    truths: dict[str, Edges]


def draw(mechanism: str, columns: int, count: int, seed: int) -> Problem:
    """Draw a DAG and rows of it."""
    rng = np.random.default_rng([seed, MECHANISMS.index(mechanism)])
    names = [f"x{j + 1}" for j in range(columns)]
    x = np.zeros((count, columns))
    edges: Edges = []
    for j in range(columns):
        size = rng.integers(0, min(MOST_PARENTS, j) + 1)
        parents = sorted(rng.choice(j, size, replace=False)) if size else []
        edges += [(names[i], names[j]) for i in parents]
        noise = NOISE * (rng.random() * rng.normal(size=count) + rng.choice([-2, 2]))
        if not parents:
            made = _root(count, rng)
        elif mechanism == "sigmoidal":
            made = _sigmoidal(x[:, parents], noise, rng)
        else:
            made = _polynomial(x[:, parents], noise, rng)
        x[:, j] = (made - made.mean()) / made.std()
    return Problem(pd.DataFrame(x, columns=names), {"the DAG": edges})


def _root(count: int, rng: np.random.Generator) -> Floats:
    """Return draws of four normals whose spreads are those of a mixture fitted to normal draws.

    The toolbox means to draw the spreads, but sets an attribute that scikit-learn does not read.
    """
    weights, means = rng.random(4), 2 * rng.normal(size=4)
    mixture = GaussianMixture(4, covariance_type="spherical", random_state=rng.integers(2**31))
    spreads = np.sqrt(mixture.fit(rng.normal(size=(300, 1))).covariances_)
    part = rng.choice(4, count, p=weights / weights.sum())
    drawn: Floats = means[part] + spreads[part] * rng.normal(size=count)
    return drawn


def _sigmoidal(parents: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
    """Return the sum over parents of a t / (1 + |t|), t = b (x + c), plus noise."""
    height, slope = 1 + rng.exponential(0.25), rng.choice([-1, 1]) * rng.uniform(0.5, 2)
    t = slope * (parents + rng.uniform(-2, 2))
    # The toolbox adds the noise once for each parent and once more.
    made: Floats = (height * t / (1 + np.abs(t))).sum(1) + (1 + parents.shape[1]) * noise
    return made


def _polynomial(parents: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
    """Return the sum over parents of squares cut to [-1, 1], plus or, by a coin, times noise."""
    a, b, c = rng.random((3, parents.shape[1]))
    total: Floats = np.clip(a + b * parents + c * parents**2, -1, 1).sum(1)
    return total * noise if rng.random() < 0.5 else total + noise


def sachs(context: Context) -> Problem:
    """Read protein signalling: the toolbox's target of 18 edges, and the consensus of 20."""
    rows = pd.read_csv(context.file("sachs", "cyto_full_data.csv"))
    target = pd.read_csv(context.file("sachs", "cyto_full_target.csv"))
    consensus = context.file("sachs", "sachs.2005.ground.truth.graph.txt")
    lines = consensus.read_text().splitlines()
    # The consensus names the same columns, in the same order, by other words.
    own = dict(zip(lines[1].split(";"), rows.columns, strict=True))
    pairs = [line.split(". ")[1].split(" --> ") for line in lines if " --> " in line]
    return Problem(
        rows,
        {
            "the toolbox's target": list(target.itertuples(index=False, name=None)),
            "the consensus graph": [(own[a.strip()], own[b.strip()]) for a, b in pairs],
        },
    )


def random_dag(columns: int, parents: float, rng: np.random.Generator) -> Adjacency:
    """Draw a DAG in which every pair in a random order has an edge with equal chance.

    Args:
        columns: The number of columns D.
        parents: The mean number of parents.
        rng: Source of the draws.

    Returns:
        (D, D), true at [i, j] for the edge i -> j.
    """
    chance = min(1.0, 2 * parents / (columns - 1))
    upper = np.triu(rng.random((columns, columns)) < chance, 1)
    order = rng.permutation(columns)
    return upper[np.ix_(order, order)]


def sigmoidal(dag: Adjacency, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw rows: Y = sum_i w_i sigmoid(X_i + w_0) + noise, each column brought to variance one."""
    columns = len(dag)
    x = np.zeros((rows, columns))
    for j in _topological(dag):
        above = np.flatnonzero(dag[:, j])
        weights = rng.choice([-1, 1], len(above)) * rng.uniform(2, 5, len(above))
        shift = rng.normal()
        signal = (1 / (1 + np.exp(-(x[:, above] + shift)))) @ weights
        made = signal + rng.normal(0, 0.5 if len(above) else 1.0, rows)
        x[:, j] = (made - made.mean()) / made.std()
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])


def _topological(dag: Adjacency) -> list[int]:
    left, order = set(range(len(dag))), []
    while left:
        free = [j for j in sorted(left) if not dag[sorted(left), j].any()]
        order += free
        left -= set(free)
    return order
