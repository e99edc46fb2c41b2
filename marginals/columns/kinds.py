"""Kinds of columns: continuous, integer, discrete or categorical, with bounds, steps and atoms."""

import datetime
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.columns.plain_values import plain

__all__ = ["KINDS", "Categorical", "Continuous", "Discrete", "Integer", "Kind"]

_TIMES = (datetime.datetime, np.datetime64)
_SPANS = (datetime.timedelta, np.timedelta64)


class _Kind:
    """Prints only the options that were given."""

    def __repr__(self) -> str:
        given = [f for f in fields(self) if getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        inside = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in given)
        return f"{type(self).__name__}({inside})"


@final
@dataclass(frozen=True, repr=False)
class Continuous(_Kind):
    """A column of real numbers, times or durations.

    Args:
        lower, upper: bounds. Values lie strictly between them, unless the bound is an atom or
            `resolution` is given.
        resolution: the step that values are rounded to; each value has the mass of its cell.
        atoms: values with positive probability, such as 0 in a zero-inflated column. With
            `resolution` this adds to the mass of the value's cell.

    In a column of times, bounds and atoms are timestamps and `resolution` is a timedelta.

    >>> Continuous(lower=0, resolution=0.01)
    Continuous(lower=0, resolution=0.01)
    """

    lower: Any = None
    upper: Any = None
    resolution: Any = None
    atoms: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "resolution"):
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        object.__setattr__(self, "atoms", _atoms(self.atoms))
        _check_order(self.lower, self.upper)
        _check_resolution(self.resolution)
        _check_atoms(self)


@final
@dataclass(frozen=True, repr=False)
class Integer(_Kind):
    """A column of whole numbers, each with its own mass.

    Args:
        lower, upper: the smallest and the largest value that the column can take.
        atoms: values more frequent than their neighbours suggest, such as 40 hours a week.

    >>> Integer(lower=0, atoms=(40,))
    Integer(lower=0, atoms=(40,))
    """

    lower: int | None = None
    upper: int | None = None
    atoms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        whole = tuple(_whole("atoms", atom) for atom in _atoms(self.atoms))
        object.__setattr__(self, "atoms", whole)
        _check_order(self.lower, self.upper)
        _check_atoms(self)


@final
@dataclass(frozen=True, repr=False)
class Discrete(_Kind):
    """A column with few distinct numbers, times or durations, each with its own probability.

    Every component has a table of probabilities. Means, quantiles and ranges use the values.

    Args:
        values: the values that the column can take; by default those in the table.

    >>> Discrete([36, 60])
    Discrete(values=(36, 60))
    """

    values: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.values is not None:
            object.__setattr__(self, "values", _distinct_values(self.values))

    @property
    def lower(self) -> Any:
        """The smallest value, or None if no values are given."""
        return self.values[0] if self.values else None

    @property
    def upper(self) -> Any:
        """The largest value, or None if no values are given."""
        return self.values[-1] if self.values else None


@final
@dataclass(frozen=True, repr=False)
class Categorical(_Kind):
    """A column of categories.

    Args:
        categories: the values that the column can take; by default those in the table.
        ordered: whether their order is meaningful, which gives them quantiles and a CDF. An ordered
            categorical dtype of pandas implies it.

    >>> Categorical(["low", "high"])
    Categorical(categories=('low', 'high'))
    """

    categories: Sequence[Any] | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        if self.categories is not None:
            object.__setattr__(self, "categories", _categories(self.categories))
        if not isinstance(self.ordered, bool):
            raise TypeError(f"Expected `ordered` to be True or False; got {self.ordered!r}.")


Kind = Continuous | Integer | Discrete | Categorical
KINDS: dict[str, Any] = {
    "continuous": Continuous,
    "integer": Integer,
    "discrete": Discrete,
    "categorical": Categorical,
}


# Checks ---------------------------------------------------------------------------------------


def _checked(name: str, value: Any) -> Any:
    """Return a finite Python number, a `pd.Timestamp` or a `pd.Timedelta`."""
    if value is None:
        return None
    if isinstance(value, _TIMES):
        value = pd.Timestamp(value)
    elif isinstance(value, _SPANS):
        value = pd.Timedelta(value)
    elif isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"Expected `{name}` to be a number, a timestamp or a timedelta; got {value!r}. "
            "Convert it, for a time with pd.Timestamp."
        )
    elif isinstance(value, np.generic):
        value = value.item()
    if value is pd.NaT or (isinstance(value, numbers.Real) and not _finite(value)):
        raise ValueError(
            f"Expected `{name}` to be finite; got {value!r}. Leave it out where there is none."
        )
    return value


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a Python integer beyond floats
        return False


def _whole(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_):
        return int(value)
    value = _checked(name, value)
    if not isinstance(value, float) or not value.is_integer():
        raise ValueError(
            f"Expected `{name}` of an integer column to be a whole number; got {value!r}. Round it."
        )
    return int(value)


def _check_order(lower: Any, upper: Any) -> None:
    if lower is None or upper is None:
        return
    try:
        ordered = lower < upper
    except TypeError:
        raise TypeError(
            f"Expected `lower` and `upper` to be of one kind; got {lower!r} and {upper!r}. Give "
            "both as numbers, or both as times of one time zone."
        ) from None
    if not ordered:
        raise ValueError(
            f"Expected `lower` to be less than `upper`; got {lower!r} and {upper!r}. Swap them, or "
            "leave one out."
        )
    if isinstance(lower, float | int) and not _finite(float(upper) - float(lower)):
        raise ValueError(
            f"Expected `upper - lower` to be a finite float; got {lower!r} and {upper!r}. Leave "
            "out a bound that no value comes near."
        )


def _check_resolution(resolution: Any) -> None:
    if isinstance(resolution, pd.Timestamp):
        raise TypeError(
            f"Expected `resolution` to be a number or a timedelta; got {resolution!r}. Use "
            "pd.Timedelta."
        )
    zero = pd.Timedelta(0) if isinstance(resolution, pd.Timedelta) else 0
    if resolution is not None and not resolution > zero:
        raise ValueError(
            f"Expected `resolution` to be positive; got {resolution!r}. Leave it out for values "
            "that are not rounded."
        )


def _atoms(atoms: Any) -> tuple[Any, ...]:
    if not isinstance(atoms, Iterable) or isinstance(atoms, str):
        raise TypeError(
            f"Expected `atoms` to be a tuple of values; got {atoms!r}. For one atom write "
            f"atoms=({atoms!r},)."
        )
    values = [_checked("atoms", atom) for atom in atoms]
    if None in values:
        raise ValueError(f"Expected `atoms` to be values; got {values}. Leave out the None.")
    try:
        return tuple(sorted(values))
    except TypeError:
        raise TypeError(
            f"Expected `atoms` to be of one kind; got {values}. Give numbers or times, not both."
        ) from None


def _distinct_values(values: Any) -> tuple[Any, ...]:
    """Return the values of a discrete column in rising order."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise TypeError(
            f"Expected `values` to be a list of numbers or times; got {values!r}. Put it in a list."
        )
    listed = [_checked("values", value) for value in values]
    if not listed or None in listed:
        raise ValueError(f"Expected `values` to hold values; got {listed}. Leave it out instead.")
    try:
        rising = tuple(sorted(listed))
    except TypeError:
        raise TypeError(
            f"Expected `values` to be of one kind; got {listed}. Give numbers or times, not both."
        ) from None
    if len(set(rising)) != len(rising):
        raise ValueError(f"Expected `values` to be distinct; got {rising}. Give each value once.")
    return rising


def _check_atoms(kind: Continuous | Integer) -> None:
    atoms = kind.atoms
    try:
        sorted([bound for bound in (kind.lower, kind.upper) if bound is not None] + list(atoms))
    except TypeError:
        raise TypeError(
            f"Expected `atoms` and bounds to be of one kind; got {atoms}, {kind.lower!r} and "
            f"{kind.upper!r}. Give numbers or times, not both."
        ) from None
    if len(set(atoms)) != len(atoms):
        raise ValueError(f"Expected `atoms` to be distinct; got {atoms}. Give each value once.")
    for atom in atoms:
        low = kind.lower is not None and atom < kind.lower
        if low or (kind.upper is not None and atom > kind.upper):
            raise ValueError(
                f"Expected `atoms` to lie in [{kind.lower}, {kind.upper}]; got {atom!r}. Widen the "
                "bounds, or leave it out."
            )


def _categories(categories: Any) -> tuple[Any, ...]:
    if not isinstance(categories, Iterable) or isinstance(categories, str | bytes):
        raise TypeError(
            f"Expected `categories` to be a list of values; got {categories!r}. Put it in a list."
        )
    values = [plain(value, "`categories`") for value in categories]
    if not values:
        raise ValueError("Expected `categories` to hold a value; got none. Leave it out instead.")
    if any(value is None for value in values):
        raise ValueError(
            f"Expected `categories` to be values; got a missing one in {values}. Leave it out: a "
            "missing cell is no category."
        )
    if len(set(values)) != len(values):
        seen: set[Any] = set()
        twice = next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
        raise ValueError(
            f"Expected `categories` to be distinct; got {twice!r} twice. Give each value once."
        )
    return tuple(values)
