"""What a query is made of: frozen data, compared by meaning and not by where it was written."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, final, get_args

Value = bool | int | float | str
"""A value of the language. A date is a string until the column that it belongs to is known."""

Function = Literal["P", "p", "E", "SD", "Q"]


@final
@dataclass(frozen=True)
class Column:
    """A column that is asked for.

    Args:
        column: its name.
        at: where it was written.
    """

    column: str
    at: int | None = field(default=None, compare=False, repr=False)


@final
@dataclass(frozen=True)
class Exact:
    """A column has this value."""

    column: str
    value: Value
    at: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_finite(self.value)


@final
@dataclass(frozen=True)
class Interval:
    """A column lies between two ends, None for an open side.

    >>> Interval("age", 20, 30, low_closed=True)
    Interval(column='age', low=20, high=30, low_closed=True, high_closed=False)
    """

    column: str
    low: Value | None = None
    high: Value | None = None
    low_closed: bool = False
    high_closed: bool = False
    at: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for end, closed in ((self.low, self.low_closed), (self.high, self.high_closed)):
            _check_finite(end)
            if end is None and closed:
                raise ValueError("Expected a side without an end to be open; got it closed.")


@final
@dataclass(frozen=True)
class OneOf:
    """A column has one of these values."""

    column: str
    values: tuple[Value, ...]
    at: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("Expected a set to hold at least one value; got none.")
        for value in self.values:
            _check_finite(value)


Condition = Exact | Interval | OneOf


@final
@dataclass(frozen=True)
class Query:
    """A question: a function of some columns, given others.

    Args:
        function: "P" probability, "p" density, "E" mean, "SD" standard deviation, "Q" quantiles.
        of: conditions for P, exact values for p, one `Column` for E, SD and Q.
        given: conditions.
        levels: of the quantiles.
        text: what was written.

    >>> Query("E", (Column("income"),), (Exact("age", 40),)).columns
    ('income', 'age')
    """

    function: Function
    of: tuple[Condition | Column, ...]
    given: tuple[Condition, ...] = ()
    levels: tuple[float, ...] = ()
    text: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.function not in get_args(Function):
            raise ValueError(
                f"Expected `function` to be one of {get_args(Function)}; got {self.function!r}."
            )
        wanted: Any = {"P": Condition, "p": Exact}.get(self.function, Column)
        single = self.function in ("E", "SD", "Q")
        if not self.of or (single and len(self.of) > 1):
            raise ValueError(
                f"Expected {'one column' if single else 'a condition'} in `of`; got {self.of}."
            )
        if not all(isinstance(part, wanted) for part in self.of):
            raise TypeError(f"Expected `of` of {self.function} to hold {wanted}; got {self.of}.")
        if bool(self.levels) != (self.function == "Q"):
            raise ValueError(f"Expected levels for Q and only for Q; got {self.levels}.")
        if not all(0 <= level <= 1 for level in self.levels):
            raise ValueError(f"Expected levels between 0 and 1; got {self.levels}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it speaks of, each once."""
        return tuple(dict.fromkeys(part.column for part in (*self.of, *self.given)))

    @property
    def event(self) -> tuple[Condition, ...]:
        """The conditions among `of`."""
        return tuple(part for part in self.of if not isinstance(part, Column))


def values_of(condition: Condition) -> Iterator[Value]:
    """Iterate over the values that a condition names."""
    if isinstance(condition, Exact):
        yield condition.value
    elif isinstance(condition, OneOf):
        yield from condition.values
    else:
        yield from (end for end in (condition.low, condition.high) if end is not None)


def _check_finite(value: Value | None) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"Expected a finite value; got {value}. Leave a side open with None.")
