"""Values of cells under univariate distributions: densities, masses and tails."""

from collections.abc import Sequence

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation
from marginals.numerics import log1mexp


def log_cells(parts: Univariates, cells: Evidence) -> Tensor:
    """Return the log density of exact cells and the log mass of intervals, (B, n).

    Missing cells get an arbitrary value. Univariates given one row serve all rows.
    """
    lower, upper = _ends(parts, cells)
    exact = _evaluate(parts, torch.where(upper.isinf(), 0.0, upper)).log_density
    if not cells.intervals:
        return exact
    return torch.where(cells.lower < cells.upper, _log_mass(parts, lower, upper), exact)


def log_tails(parts: Univariates, cells: Evidence, categories: Sequence[int | None]) -> Tensor:
    """Return the log of the smaller of P(X <= cell) and P(X >= cell), (B, n).

    A category has no order: its log mass is returned instead. Missing cells get an arbitrary value.

    Args:
        parts: univariates of the columns of the cells.
        cells: B rows of evidence.
        categories: the number of categories of each of the density's columns, None if continuous.
    """
    lower, upper = _ends(parts, cells)
    high = _evaluate(parts, upper)
    low = _evaluate(parts, lower) if cells.intervals else high
    coded = [categories[c] is not None for c in cells.columns]
    discrete = torch.tensor(coded, device=lower.device)
    return torch.where(discrete, high.log_density, torch.minimum(high.log_cdf, low.log_sf))


def _ends(parts: Univariates, cells: Evidence) -> tuple[Tensor, Tensor]:
    """Return the lower and upper ends of cells, 0 for those that are missing."""

    def filled(ends: Tensor) -> Tensor:  # `nan_to_num` would close the open ends, too
        return ends.masked_fill(ends.isnan(), 0.0).to(parts.log_evidence)

    lower = filled(cells.lower)
    return lower, filled(cells.upper) if cells.intervals else lower


def _evaluate(parts: Univariates, x: Tensor) -> LeafEvaluation:
    """Evaluate univariates given B rows, or given one row, at B rows of cells, each (B, n)."""
    if len(parts.log_evidence) == len(x):
        return parts.evaluate(x)
    at = parts.evaluate(x[:, None])
    return LeafEvaluation(at.log_cdf[:, 0], at.log_sf[:, 0], at.log_density[:, 0])


def _log_mass(parts: Univariates, lower: Tensor, upper: Tensor) -> Tensor:
    """Return log(F(upper) - F(lower)), from the tail that loses fewer digits."""
    low, high = _evaluate(parts, lower), _evaluate(parts, upper)
    left = high.log_cdf + _log_less(low.log_cdf - high.log_cdf)
    right = low.log_sf + _log_less(high.log_sf - low.log_sf)
    return torch.where(high.log_cdf < low.log_sf, left, right)


def _log_less(ratio: Tensor) -> Tensor:
    """Return log(1 - e^ratio); rounding above 0 counts as 0, NaN from -inf - (-inf) as -inf."""
    return log1mexp(torch.nan_to_num(ratio, nan=-torch.inf).clamp_max(0.0))
