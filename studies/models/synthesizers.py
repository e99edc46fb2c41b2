"""Plain baselines that draw rows like those of a table."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata

from studies.data.density import Rows


def draw_independent(real: pd.DataFrame, rows: int, seed: int) -> pd.DataFrame:
    """Draw the observed cells of each column with replacement, one column at a time."""
    random = np.random.default_rng(seed)
    return pd.DataFrame({name: _drawn(real[name], random.random(rows)) for name in real.columns})


def draw_copula(real: pd.DataFrame, rows: int, seed: int) -> pd.DataFrame:
    """Draw normal scores with the correlations of the table's, and turn them into its cells.

    Categories are ordered by how common they are, and ties are broken at random.
    """
    random = np.random.default_rng(seed)
    scores = pd.DataFrame({name: _scores(real[name], random) for name in real.columns})
    values, vectors = np.linalg.eigh(scores.corr().fillna(0.0).to_numpy())
    root = vectors * np.sqrt(values.clip(0.0))
    drawn = random.normal(size=(rows, len(values))) @ root.T
    levels = norm.cdf(drawn / np.maximum(np.linalg.norm(root, axis=1), 1e-12))
    return pd.DataFrame(
        {name: _drawn(real[name], levels[:, i]) for i, name in enumerate(real.columns)}
    )


DRAWERS: dict[str, Callable[[pd.DataFrame, int, int], pd.DataFrame]] = {
    "copula": draw_copula,
    "independent": draw_independent,
}


def _ordered(column: pd.Series) -> pd.Series:
    """Sort the observed cells: numbers by value, categories by how common they are."""
    known = column.dropna()
    if pd.api.types.is_numeric_dtype(known.dtype):
        return known.sort_values(kind="stable")
    place = {value: i for i, value in enumerate(known.value_counts().index)}
    return known.loc[known.map(place).astype(int).sort_values(kind="stable").index]


def _drawn(column: pd.Series, levels: Rows) -> Any:
    """Return the cells of a column at levels between 0 and 1."""
    ordered = _ordered(column)
    index = np.minimum((levels * len(ordered)).astype(int), len(ordered) - 1)
    return ordered.iloc[index].to_numpy()


def _scores(column: pd.Series, random: np.random.Generator) -> pd.Series:
    """Return the normal scores of a column, NaN where missing."""
    ordered = _ordered(column)
    codes = pd.Series(pd.factorize(ordered)[0], index=ordered.index).reindex(column.index)
    known = codes.notna().to_numpy()
    out = np.full(len(column), np.nan)
    broken = codes[known].to_numpy() + 0.5 * random.random(int(known.sum()))
    out[known] = norm.ppf((rankdata(broken) - 0.5) / max(1, known.sum()))
    return pd.Series(out, index=column.index)
