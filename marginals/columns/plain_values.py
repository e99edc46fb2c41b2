"""Single values: as plain Python, as JSON, in order, and in error messages."""

import datetime
import difflib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["did_you_mean", "from_json", "in_order", "plain", "shown", "to_json"]

_INFINITE = "float"  # JSON has no infinite numbers


def plain(value: Any, owner: str) -> Any:
    """Return a value as plain Python, None if missing; errors name the `owner`.

    >>> plain(np.int64(3), "`x`")
    3
    """
    if isinstance(value, str | bool | int):
        return str(value) if isinstance(value, np.str_) else value
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.datetime64 | datetime.datetime):
        value = pd.Timestamp(value)
    elif isinstance(value, np.timedelta64 | datetime.timedelta):
        value = pd.Timedelta(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    known = str | bool | int | float | datetime.date | pd.Timedelta | pd.Interval
    if not isinstance(value, known):
        # scikit-learn asks for the words about the argument.
        raise TypeError(
            f"Expected {owner} to hold plain values: each argument must be a string, a number, a "
            f"boolean or a time; got {type(value).__name__}: {value!r:.60}. Convert it to one of "
            "these."
        )
    return value


def shown(value: Any) -> str:
    """Return the repr of a value, even of a time that pandas cannot print."""
    try:
        return repr(value)
    except OverflowError:
        return f"a {type(value).__name__} beyond the calendar"


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """Suggest the nearest of the known names, or list them, for errors.

    >>> did_you_mean("incom", ["income", "age"])
    "Did you mean 'income'?"
    >>> did_you_mean("x", ["income", "age"])
    "Known: 'income', 'age'."
    """
    names = list(dict.fromkeys(known))
    folded = {str(other).casefold(): other for other in reversed(names)}
    near = difflib.get_close_matches(str(name).casefold(), folded, n=3, cutoff=0.65)
    if near and isinstance(name, str):
        return f"Did you mean {' or '.join(repr(folded[other]) for other in near)}?"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"Known: {', '.join(map(repr, names[:12]))}{more}."


def in_order(values: Iterable[Any]) -> list[Any]:
    """Sort values, first by the name of their type.

    >>> in_order(["b", 2, "a", 1])
    [1, 2, 'a', 'b']
    """
    values = list(values)
    try:
        return sorted(values, key=lambda value: (type(value).__name__, value))
    except TypeError:  # times with and without a time zone
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def to_json(value: Any) -> Any:
    """Return a value that JSON can hold; `from_json` restores it."""
    if isinstance(value, float) and math.isinf(value):
        return {_INFINITE: str(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, pd.Timestamp):
        zone = None if value.tz is None else _zone(value)
        return {"time": int(value.asm8.view(np.int64)), "unit": value.unit, "zone": zone}
    if isinstance(value, pd.Timedelta):
        return {"span": int(value.asm8.view(np.int64)), "unit": value.unit}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    assert isinstance(value, pd.Interval)
    ends = [to_json(plain(end, "an interval")) for end in (value.left, value.right)]
    return {"interval": ends, "closed": value.closed}


def from_json(stored: Any) -> Any:
    """Return the value that `to_json` wrote."""
    if not isinstance(stored, dict):
        return stored
    if _INFINITE in stored:
        return float(stored[_INFINITE])
    if "time" in stored:
        time = pd.Timestamp(np.datetime64(stored["time"], stored["unit"]))
        zone = stored["zone"]
        return time if zone is None else time.tz_localize("UTC").tz_convert(zone)
    if "span" in stored:
        return pd.Timedelta(np.timedelta64(stored["span"], stored["unit"]))
    if "date" in stored:
        return datetime.date.fromisoformat(stored["date"])
    left, right = map(from_json, stored["interval"])
    return pd.Interval(left, right, stored["closed"])


def _zone(time: pd.Timestamp) -> str:
    """Return a name that restores the time zone; UTC for a zone without a name."""
    try:
        time.tz_convert(str(time.tz))
    except (KeyError, ValueError):
        return "UTC"
    return str(time.tz)
