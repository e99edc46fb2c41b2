"""The cells of a table as evidence, without those that a model cannot take."""

import numpy as np
import pandas as pd

from marginals.cells import Evidence
from marginals.columns import Categorical, Column, Schema, encode
from marginals.columns.plain_values import plain
from marginals.densities import Density


def known_cells(density: Density, schema: Schema, frame: pd.DataFrame) -> Evidence:
    """Encode a table; a category that was not fitted or a value out of bounds becomes missing."""
    known = {name: _known(schema[name], frame[name]) for name in frame.columns}
    return density.checked(encode(schema, pd.DataFrame(known), strict="none").evidence)


def _known(column: Column, series: pd.Series) -> pd.Series:
    """Blank the categories that a column does not have."""
    if not isinstance(column.kind, Categorical):
        return series
    codes, distinct = pd.factorize(series)
    seen = [plain(value, f"column {column.name!r}") in column.codes for value in distinct]
    keep = np.array([*seen, True])[codes]  # -1 is missing
    return series if keep.all() else series.where(keep)
