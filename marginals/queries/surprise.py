"""How surprising each cell of a table is, given the rest of its row."""

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import Schema, decode, encode
from marginals.columns.table_coercion import as_frame
from marginals.densities import Density
from marginals.densities.density import in_batches
from marginals.densities.univariate_cells import log_cells
from marginals.queries.named_rows import NamedModel
from marginals.queries.positions import draws_of

_DRAWS = 200  # for the expected surprise of a column: its error is a fourteenth of a cell's spread


class Surprises(NamedModel):
    """The surprise of cells, by column names."""

    def surprise(self, x: Any, *, centred: bool = False) -> pd.DataFrame:
        """Return -log p(cell | the row's other cells) in nats, NaN where missing.

        Columns on different scales have different log densities. To find the unusual cell of a row,
        compare centred values: `model.surprise(rows, centred=True).idxmax(axis=1)`.

        Args:
            x: a table with some of the model's columns.
            centred: subtract each column's expected surprise, its mean over draws of the model.
        """
        return surprise(*self._parts(), x, centred)


def surprise(density: Density, schema: Schema, x: Any, centred: bool = False) -> pd.DataFrame:
    """Return the surprise of each cell of a table, two passes per batch; see `MDMA.surprise`."""
    evidence = density.checked(encode(schema, x).evidence)
    frame = as_frame(x, [schema.names[c] for c in evidence.columns])
    value = _surprise(density, schema, evidence, frame)
    if centred:
        ((_, rows),) = draws_of(density, _DRAWS)
        drawn = decode(schema, rows.lower)[[schema.names[c] for c in evidence.columns]]
        cells = density.checked(encode(schema, drawn).evidence)
        value = value - _surprise(density, schema, cells, drawn).mean(0)
    return pd.DataFrame(value.numpy(), index=frame.index, columns=frame.columns)


def _surprise(density: Density, schema: Schema, evidence: Evidence, frame: pd.DataFrame) -> Tensor:
    """Return the surprise of cells in the columns' units, (B, n)."""
    with torch.no_grad():
        parts = in_batches(
            lambda part: log_cells(density.univariates(part, part.columns), part),
            evidence,
            density.rows_at_once(evidence),
        )
    value = parts.double().cpu()  # (B, n)
    for place, name in enumerate(frame.columns):
        value[:, place] += encode(schema, frame[[name]]).log_jacobian
    value[evidence.missing().cpu()] = torch.nan
    return -value
