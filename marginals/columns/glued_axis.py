"""Columns whose margin was replaced by a distribution of the user's."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marginals.columns.axis import Axis, ExactCells, Flags, Floats, checked
from marginals.columns.schema import Column
from marginals.densities.quantile_table import quantiles
from marginals.densities.univariates import Univariates

__all__ = ["GluedAxis", "Margin"]

# Log levels below: a distribution that cannot tell them apart ends here, long past any data.
_DEEPEST = -1e5
_MOST = float(np.finfo(np.float64).max)


@final
@dataclass(frozen=True, eq=False)
class Margin:
    r"""The increasing map :math:`x = F^{-1}(G(y))` from values y to the model's scale, and back.

    Levels are passed on by their logarithms and by those of their distance from 1, so that both
    tails keep their digits.

    Args:
        distribution: G, with the methods of a frozen continuous distribution of scipy.
        fitted: F, the column's own univariate on the model's scale, one row in float64.
        rows: values to map at a time, which bounds the memory.
    """

    distribution: Any
    fitted: Univariates
    rows: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the values, which may be infinite."""
        return float(self.distribution.ppf(0.0)), float(self.distribution.ppf(1.0))

    def has_moment(self, name: str) -> bool:
        """Say whether the distribution has a finite "mean" or "std", as far as it tells."""
        found = getattr(self.distribution, name, None)
        return found is None or bool(np.isfinite(found()))

    def to_model(self, numbers: Floats) -> Floats:
        """Return values (N,) strictly between the bounds on the model's scale; NaN stays."""
        known = ~np.isnan(numbers)
        low, high = _log_levels(self.distribution, numbers[known])
        x = np.full(len(numbers), np.nan)
        if known.any():
            x[known] = quantiles(self.fitted, low, high, self.rows)[:, 0].numpy()
        return x

    def log_slope(self, numbers: Floats, model: Floats) -> Floats:
        """Return log dx / dy at values (N,) and their places on the model's scale."""
        known = ~np.isnan(numbers)
        slope = np.full(len(numbers), np.nan)
        log_p = self._evaluate(model[known])[2]
        slope[known] = np.asarray(self.distribution.logpdf(numbers[known])) - log_p
        return slope

    def to_numbers(self, model: Floats) -> Floats:
        """Return the values at places (N,) of the model's scale, kept inside of the bounds."""
        known = np.isfinite(model)
        least, most = self.bounds
        numbers = np.where(np.isnan(model), np.nan, np.where(model < 0, least, most))
        low, high, _ = np.exp(self._evaluate(model[known]))
        below = low < high
        found = np.empty(len(below))
        found[below] = self.distribution.ppf(low[below])
        found[~below] = self.distribution.isf(high[~below])
        inside = np.nextafter(max(least, -_MOST), np.inf), np.nextafter(min(most, _MOST), -np.inf)
        numbers[known] = np.clip(found, *inside)
        return numbers

    @torch.no_grad()
    def _evaluate(self, model: Floats) -> Floats:
        """Return log CDF, log survival function and log density of the fitted margin, (3, N)."""
        x = torch.from_numpy(np.ascontiguousarray(model))[:, None, None]
        parts = [self.fitted.evaluate(part) for part in x.split(self.rows)]
        each = [torch.stack([p.log_cdf, p.log_sf, p.log_density]) for p in parts]
        return torch.cat(each, 1)[..., 0, 0].double().numpy()


@final
@dataclass(frozen=True)
class GluedAxis(Axis):
    """Values of a margin, mapped to the same level of the column's own margin.

    Args:
        column: the column, without atoms or resolution.
        margin: the map between the two.
    """

    column: Column
    margin: Margin

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the margin."""
        return self.margin.bounds

    def wrong(self, numbers: Floats) -> Flags:
        """Say which values are on or beyond a bound of the margin."""
        lower, upper = self.bounds
        return (numbers <= lower) | (numbers >= upper)

    def has_mass(self, numbers: Floats) -> Flags:
        """Return False."""
        return np.zeros(len(numbers), dtype=bool)

    def exact(self, numbers: Floats) -> ExactCells:
        """Return the cells of values: points, with the slope of the map."""
        inside = np.where(self.wrong(numbers), np.nan, numbers)
        model = self.margin.to_model(inside)
        slope = self.margin.log_slope(inside, model)
        # Missing cells have no slope; where the margin has no density it is -inf.
        return ExactCells(model, model, np.where(np.isnan(slope), 0.0, slope))

    def point(self, numbers: Floats) -> Floats:
        """Return values on the model's scale; NaN where they cannot occur."""
        return self.margin.to_model(np.where(self.wrong(numbers), np.nan, numbers))

    def between(
        self, low: Floats, high: Floats, low_closed: bool = False, high_closed: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the cells of all values between two ends, none of which has mass."""
        return checked(self._end(low), self._end(high))

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values at points of the model's scale, strictly between the bounds."""
        return self.margin.to_numbers(model)

    def fault(self, number: float) -> tuple[str, str]:
        """Return on which side of a bound values lie."""
        lower, upper = self.bounds
        side = f"above {lower:g}" if number <= lower else f"below {upper:g}"
        return f"to lie {side}, inside of its margin", "Correct the value, or glue another margin."

    def _end(self, numbers: Floats) -> Floats:
        lower, upper = self.bounds
        below, above = numbers <= lower, numbers >= upper
        return np.where(below, -np.inf, np.where(above, np.inf, self.point(numbers)))


def _log_levels(distribution: Any, numbers: Floats) -> tuple[Tensor, Tensor]:
    """Return log G and log(1 - G) at numbers (N,), (N, 1) each."""
    sides = []
    for log, plain in (("logcdf", "cdf"), ("logsf", "sf")):
        if hasattr(distribution, log):
            found = getattr(distribution, log)(numbers)
        else:
            found = np.log(getattr(distribution, plain)(numbers))
        deep = np.maximum(np.asarray(found, dtype=np.float64), _DEEPEST)
        sides.append(torch.from_numpy(deep)[:, None])
    return sides[0], sides[1]
