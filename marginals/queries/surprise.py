"""How surprising each cell of a table is, given the rest of its row."""

from typing import Any

import pandas as pd
import torch

from marginals.columns import Schema, encode
from marginals.columns.table_coercion import as_frame
from marginals.densities import Density
from marginals.densities.univariate_cells import log_cells


def surprise(density: Density, schema: Schema, x: Any) -> pd.DataFrame:
    """Return -log p(cell | the row's other cells), NaN where missing: two passes per batch."""
    evidence = density.checked(encode(schema, x).evidence)
    names = [schema.names[c] for c in evidence.columns]
    frame = as_frame(x, names)
    with torch.no_grad():
        parts = [
            log_cells(density.univariates(part, part.columns), part)
            for part in evidence.batches(density.rows_at_once())
        ]
    value = torch.cat(parts).double().cpu()  # (B, n)
    for place, name in enumerate(frame.columns):
        value[:, place] += encode(schema, frame[[name]]).log_jacobian
    value[evidence.missing().cpu()] = torch.nan
    return pd.DataFrame((-value).numpy(), index=frame.index, columns=frame.columns)
