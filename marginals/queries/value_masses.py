"""The values of a column with their probabilities, and points of the model's scale as numbers."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marginals.columns.axis import Axis, quiet
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.table_axis import TableAxis
from marginals.densities import Univariates
from marginals.densities.univariate_cells import log_mass

FloatArray = npt.NDArray[np.float64]

# A lattice with more values than this between its extreme quantiles is not summed.
MOST_VALUES = 1024
# Probability ignored at each end when the values of a lattice are summed.
TAIL = 1e-10


def value_masses(
    parts: Univariates, line: Axis, *, precise: bool = False
) -> tuple[FloatArray, Tensor] | None:
    """Return the values of one column as numbers (V,) in rising order, and log masses (V, B).

    On a lattice they are the values between extreme quantiles; those beyond have a probability
    below 2e-10. None for a column without a list of values, or with more than `MOST_VALUES`.

    Args:
        parts: univariates of one column.
        line: the column's axis.
        precise: whether masses of lattices keep their relative precision however small they are;
            otherwise they are precise to 1e-7 of the whole, in a fraction of the time.
    """
    if isinstance(line, TableAxis):
        codes = torch.arange(len(line.points)).to(parts.log_evidence)
        return line.values, parts.logpdf(codes[:, None, None])[..., 0].double().cpu()
    return _lattice_masses(parts, line, precise) if isinstance(line, LatticeAxis) else None


def _lattice_masses(
    parts: Univariates, line: LatticeAxis, precise: bool
) -> tuple[FloatArray, Tensor] | None:
    tail = torch.tensor([TAIL, 1 - TAIL], dtype=torch.float64)[:, None, None]
    tail = tail.to(parts.log_evidence.device)
    levels = (tail.log(), torch.log1p(-tail))
    # Brackets of the quantiles cost a fraction of their inversion, and hold all that these do.
    low, high = _extent(line, *parts.bracket(*levels))
    if not (high - low) / line.step < MOST_VALUES:
        exact = parts.quantile(*levels)
        low, high = _extent(line, exact, exact)
    if not (high - low) / line.step < MOST_VALUES:
        return None
    count = round((high - low) / line.step) + 1
    values = np.arange(count, dtype=np.float64) * line.step + low
    with quiet():
        cells = line.rounded(values)
    if precise:
        sides = (torch.from_numpy(end)[:, None, None].to(parts.log_evidence) for end in cells)
        return values, log_mass(*map(parts.evaluate, sides))[..., 0].double().cpu()
    # Each cell begins where the one before ends. The same ends serve all rows.
    ends = torch.from_numpy(np.append(cells[0][:1], cells[1]))[:, None, None]
    mass = parts.cdf(ends.to(parts.log_evidence)).diff(dim=0)[..., 0].double().cpu()  # (V, B)
    return values, mass.clamp_min(0.0).log()


def _extent(line: Axis, low: Tensor, high: Tensor) -> tuple[float, float]:
    """Return the least of the low quantiles (2, ...), and the greatest of the high ones."""
    return float(numbers_at(line, low[0]).min()), float(numbers_at(line, high[1]).max())


def numbers_at(line: Axis, x: Tensor) -> Tensor:
    """Return points of the model's scale as numbers of the column, in float64."""
    model = x.detach().cpu().double().numpy()
    with quiet():
        numbers = np.asarray(line.numbers(model.reshape(-1)), dtype=np.float64)
    return torch.from_numpy(numbers).reshape(x.shape)
