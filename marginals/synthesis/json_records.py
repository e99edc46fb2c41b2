"""Lines of a report as JSON types."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd


def plain_record(line: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a line as JSON types; NaN and infinities become None.

    >>> plain_record({"column": "age", "distance": np.float64("nan"), "off": np.True_})
    {'column': 'age', 'distance': None, 'off': True}
    """

    def plain(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float):
            return value if np.isfinite(value) else None
        return value if isinstance(value, str | int) else str(value)

    return {str(name): plain(value) for name, value in line.items()}


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the lines of a frame, without its index."""
    return [plain_record(line) for line in frame.to_dict("records")]
