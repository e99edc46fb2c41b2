"""Expected ranges of each cell of a table, given the rest of its row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from marginals.cells import Evidence
from marginals.columns import Categorical, Schema, decode_column, encode
from marginals.columns.table_coercion import as_frame
from marginals.densities import Density, Univariates
from marginals.densities.univariate_cells import log_tails
from marginals.queries.modes import most_likely
from marginals.queries.requests import as_objects
from marginals.runtime.threads import answering

_FIELDS = ["row", "column", "value", "expected", "lower", "upper", "tail"]


def normal_ranges(density: Density, schema: Schema, x: Any, level: float) -> pd.DataFrame:
    """Return the range and tail probability of each observed cell given the rest of its row.

    The result has a line per cell, sorted by row, then column. Each batch takes two passes.
    """
    evidence = density.checked(encode(schema, x).evidence)
    frame = as_frame(x, [schema.names[c] for c in evidence.columns])
    found, start = [], 0
    with torch.no_grad(), answering():
        for part in evidence.batches(density.rows_at_once(evidence)):
            observed = ~part.missing()
            every = density.univariates(part, part.columns)
            for place, position in enumerate(part.columns):
                rows = observed[:, place].nonzero()[:, 0]
                if len(rows):
                    cells = _column(part.rows(rows), place)
                    own, kinds = every.take(place, rows), density.categories
                    lines = _of_column(own, cells, schema, position, level, kinds)
                    at = rows.cpu().numpy() + start
                    values = np.asarray(frame.iloc[:, place], dtype=object)[at]
                    found.append(
                        pd.DataFrame({"row": at, "place": place, "value": values, **lines})
                    )
            start += len(part)
    if not found:
        return pd.DataFrame(columns=_FIELDS)
    table = pd.concat(found).sort_values(["row", "place"], ignore_index=True)
    table["column"] = np.asarray(frame.columns, dtype=object)[table["place"]]
    table["row"] = frame.index[table["row"]]
    return table[_FIELDS]


def _of_column(
    parts: Univariates,
    cells: Evidence,
    schema: Schema,
    position: int,
    level: float,
    categories: Sequence[int | None],
) -> dict[str, Any]:
    """Return the median, range and tail probability for cells of one column."""
    column = schema.columns[position]
    tail = log_tails(parts, cells, categories)[:, 0].double().exp().cpu().numpy()
    if isinstance(column.kind, Categorical) and not column.ordered:
        codes = most_likely(parts, len(column.kind.categories or ()))
        expected = as_objects(decode_column(schema, column.name, codes))
        blank = np.full(len(tail), None, dtype=object)
        return {"expected": expected, "lower": blank, "upper": blank, "tail": tail}
    levels = torch.tensor([0.5, (1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    middle, low, high = parts.ppf(levels[:, None, None])[..., 0]
    ends = {"expected": middle, "lower": low, "upper": high}
    both = tail if column.listed is not None else np.minimum(1.0, 2 * tail)
    shown = {
        name: as_objects(decode_column(schema, column.name, end)) for name, end in ends.items()
    }
    return {**shown, "tail": both}


def _column(part: Evidence, place: int) -> Evidence:
    """Return one column of evidence, without sets."""
    name = part.columns[place]
    inside = part.intervals & {name}
    lower = part.lower[:, [place]]
    return Evidence((name,), lower, part.upper[:, [place]] if inside else lower, {}, inside)
