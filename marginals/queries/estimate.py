"""A mean and its standard error."""

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import final

from torch import Tensor


@final
@dataclass(frozen=True)
class Estimate:
    """A mean over rows, with its standard error.

    The error only covers the finite number of rows: a model that fits badly gives a wrong value
    with a small error.

    Args:
        value: the mean.
        stderr: its standard error; infinite for a single row.
        unit: the unit of both; empty for a plain number.
        pvalue: the probability of a value as large without dependence; None if not requested.

    >>> found = Estimate(0.51083, 0.00214)
    >>> print(found)
    0.5108 ± 0.0021 nats
    >>> low, high = found.interval(0.95)
    >>> round(low, 4), round(high, 4)
    (0.5066, 0.515)
    """

    value: float
    stderr: float
    unit: str = field(default="nats", repr=False)
    pvalue: float | None = field(default=None, repr=False)

    @staticmethod
    def mean_of(values: Tensor) -> "Estimate":
        """Average values (B,), B >= 1.

        Args:
            values: one value per row.
        """
        values = values.double()
        if len(values) == 1:
            return Estimate(float(values), math.inf)
        return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the central interval that covers the mean with probability `level`.

        Args:
            level: the coverage probability.
        """
        if not 0 < level < 1:
            raise ValueError(
                f"Expected `level` to lie between 0 and 1; got {level}. Give 0.95 for 95 %."
            )
        half = NormalDist().inv_cdf((1 + level) / 2) * self.stderr
        return self.value - half, self.value + half

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if not (0 < self.stderr < math.inf and math.isfinite(self.value)):
            return f"{self.value:.4g} ± {self.stderr:.2g}{unit}"
        # Two digits of the error, and the value to the same place.
        digits = max(0, 1 - math.floor(math.log10(self.stderr)))
        return f"{self.value:.{digits}f} ± {self.stderr:.{digits}f}{unit}"
