"""How surprising each cell of a table is, given the rest of its row."""

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from marginals.model import Density, Evidence, Univariates
from marginals.numerics import log1mexp
from marginals.table import Schema, encode
from marginals.table.frames import as_frame


def surprise(density: Density, schema: Schema, x: Any) -> pd.DataFrame:
    """Return -log p(cell | the row's other cells), NaN where missing: two passes per batch."""
    evidence = density.checked(encode(schema, x).evidence)
    names = [schema.names[c] for c in evidence.columns]
    frame = as_frame(x, names)
    with torch.no_grad():
        parts = [_log_values(density, part) for part in evidence.batches(density.rows_at_once())]
    value = torch.cat(parts).double().cpu()  # (B, n)
    for place, name in enumerate(frame.columns):
        value[:, place] += encode(schema, frame[[name]]).log_jacobian
    value[evidence.missing().cpu()] = torch.nan
    return pd.DataFrame((-value).numpy(), index=frame.index, columns=frame.columns)


def _log_values(density: Density, part: Evidence) -> Tensor:
    """Return the log value of each cell given the others of its row, (B, n)."""
    parts = density.univariates(part, part.columns)
    upper = part.upper.nan_to_num()
    exact = parts.logpdf(torch.where(upper.isinf(), 0.0, upper).to(parts.log_evidence))
    if not part.intervals:
        return exact
    lower = part.lower.nan_to_num()
    return torch.where(part.lower < part.upper, _log_mass(parts, lower, upper), exact)


def _log_mass(parts: Univariates, lower: Tensor, upper: Tensor) -> Tensor:
    """Return log(F(upper) - F(lower)), from the tail in which less is lost."""
    low, high = (parts.evaluate(end.to(parts.log_evidence)) for end in (lower, upper))
    left = high.log_cdf + _log_less(low.log_cdf - high.log_cdf)
    right = low.log_sf + _log_less(high.log_sf - low.log_sf)
    return torch.where(high.log_cdf < low.log_sf, left, right)


def _log_less(ratio: Tensor) -> Tensor:
    """Return log(1 - e^ratio), with rounding above 0 and NaN of -inf - (-inf) taken for none."""
    return log1mexp(torch.nan_to_num(ratio, nan=-torch.inf).clamp_max(0.0))
