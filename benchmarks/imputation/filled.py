"""What a method makes of a table with gaps."""

from dataclasses import dataclass, field
from typing import Any, final

import pandas as pd


class MissingPackageError(Exception):
    """A peer is not installed."""


@final
@dataclass(frozen=True)
class Filled:
    """A table filled by one method.

    Args:
        point: one value for each gap; of numbers, an estimate of the mean.
        draws: tables whose filled cells are drawn; none if the method has no distribution.
        lower, upper: ends of the interval of each gap in a column of numbers, if there are any.
        fit_s: seconds until the method could fill, for those that can be told apart.
        settings: what the method was told or found.
    """

    point: pd.DataFrame
    draws: list[pd.DataFrame] = field(default_factory=list)
    lower: pd.DataFrame | None = None
    upper: pd.DataFrame | None = None
    fit_s: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
