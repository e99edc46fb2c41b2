"""Tables of time series with their past beside them."""

from typing import Any

import pandas as pd


def lagged(frame: pd.DataFrame, max_lag: int) -> pd.DataFrame:
    """Return each row of a series with the rows before it: columns "x", "x[t-1]", "x[t-2]", ...

    Args:
        frame: the series, in the order of time.
        max_lag: how far to look back.

    >>> lagged(pd.DataFrame({"x": [1, 2, 3]}), 1).to_numpy().tolist()
    [[2, 1], [3, 2]]
    """
    if max_lag < 0 or max_lag >= len(frame):
        raise ValueError(
            f"Expected `max_lag` to be at least 0 and less than the {len(frame)} rows; got "
            f"{max_lag}."
        )
    last = len(frame)
    parts = [
        frame.iloc[max_lag - lag : last - lag]
        .reset_index(drop=True)
        .rename(columns={name: lagged_name(name, lag) for name in frame.columns})
        for lag in range(max_lag + 1)
    ]
    return pd.concat(parts, axis=1)


def lagged_name(name: Any, lag: int) -> str:
    """Return what a column is called so many steps back.

    >>> lagged_name("x", 0), lagged_name("x", 2)
    ('x', 'x[t-2]')
    """
    return f"{name}[t-{lag}]" if lag else str(name)
