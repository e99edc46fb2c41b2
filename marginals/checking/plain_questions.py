"""Plain questions about a table, made by a fixed rule: shares of values and ranges, some given."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pandas.api import types

from marginals.cells.cell import Exact, Interval, OneOf
from marginals.checking.significance import ERRORS, TOLERANCE
from marginals.columns import Categorical, Column
from marginals.columns.encoding import NoProbabilityError
from marginals.columns.plain_values import plain
from marginals.language.printer import format
from marginals.language.query_tree import Condition, Query
from marginals.queries import OutsideDataWarning, TableView, requests

Flags = npt.NDArray[np.bool_]
Cell = Exact | Interval | OneOf

_COMMON = 0.005  # share from which a number is a value to ask for
_FEWEST = 30  # rows behind the table's answer
_TRIES = 5  # per question, since some repeat others or have too few rows
_DIGITS = 2  # ends of ranges are rounded to a hundredth of the column's spread
_HEADER = ("question", "column", "given", "model", "table", "error", "rows", "off")


@final
@dataclass(frozen=True)
class Question:
    """The share of a table's rows with a cell, among those with another cell.

    Args:
        column, cell: what the question is about.
        given, known: the column and cell that the rows have, or None.
    """

    column: Any
    cell: Cell
    given: Any = None
    known: Cell | None = None

    @property
    def text(self) -> str:
        """Return the question in the query language."""
        given = () if self.known is None else (_condition(self.given, self.known),)
        return format(Query("P", (_condition(self.column, self.cell),), given))


def plain_questions(frame: pd.DataFrame, count: int, random: np.random.Generator) -> list[Question]:
    """Make about `count` questions on a table.

    Columns take turns at random. Questions are, in turn, the share of a value (drawn by frequency),
    of a range (between two quantiles), and both again among rows with a value or a range of another
    column. Categories have sets for ranges. At least 30 rows of the table are behind each answer.
    """
    columns = {name: _Values(frame[name]) for name in frame.columns}
    found: dict[str, Question] = {}
    for question in _candidates(columns, count * _TRIES, random):
        if len(found) == count:
            break
        if _rows(frame, question).sum() >= _FEWEST:
            found.setdefault(question.text, question)
    return list(found.values())


def _candidates(
    columns: dict[Any, "_Values"], count: int, random: np.random.Generator
) -> Iterator[Question]:
    names = [name for name, values in columns.items() if values.usable]
    if not names:
        return
    rounds = -(-count // len(names))
    order = [place for _ in range(rounds) for place in random.permutation(len(names))]
    for turn, name in enumerate(names[place] for place in order):
        cell = columns[name].cell(turn % 2 == 1, random)
        others = [other for other in names if other != name]
        if turn % 4 < 2 or not others:
            yield Question(name, cell)
        else:
            other = others[random.integers(len(others))]
            yield Question(name, cell, other, columns[other].cell(random.random() < 0.5, random))


@final
class _Values:
    """The values of a column that questions can be about."""

    def __init__(self, series: pd.Series) -> None:
        observed = series.dropna()
        self.shares = observed.value_counts(normalize=True)
        self.shares = self.shares[self.shares > 0]  # of a category dtype, some may not occur
        self.usable = len(observed) >= _FEWEST and len(self.shares) > 1
        dtype = series.dtype
        times = types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype)
        self.ordered = times or (types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype))
        self.sorted = observed.sort_values().reset_index(drop=True) if self.ordered else observed
        common = self.shares[self.shares >= _COMMON] if self.ordered else self.shares
        self.common = common if len(common) else None

    def cell(self, ranged: bool, random: np.random.Generator) -> Cell:
        """Return a range or a value; a range if no value is common."""
        return self._range(random) if ranged or self.common is None else self._value(random)

    def _value(self, random: np.random.Generator) -> Cell:
        assert self.common is not None
        share = self.common.to_numpy(dtype=float)
        place = int(random.choice(len(share), p=share / share.sum()))
        return Exact(_tidy(self.common.index[place]))

    def _range(self, random: np.random.Generator) -> Cell:
        """Return the range between two quantiles, perhaps open on one side; else a set."""
        if not self.ordered:
            size = min(len(self.shares) - 1, 2 + int(random.integers(2)))
            share = self.shares.to_numpy(dtype=float)
            places = random.choice(len(share), size, replace=False, p=share / share.sum())
            values = tuple(_tidy(self.shares.index[i]) for i in sorted(places))
            return OneOf(values) if size > 1 else Exact(values[0])
        width, side = 0.2 + 0.6 * random.random(), random.integers(3)
        start = random.random() * (1 - width)
        low, high = self._at(start), self._at(start + width)
        if side == 0 or low == high:
            return Interval(None, high, high_closed=True)
        return Interval(low, None) if side == 1 else Interval(low, high, high_closed=True)

    def _at(self, level: float) -> Any:
        """Return a quantile as a plain value, rounded to what the column's spread shows."""
        value = self.sorted.iloc[int(level * (len(self.sorted) - 1))]
        spread = self.sorted.iloc[-1] - self.sorted.iloc[0]
        if isinstance(value, pd.Timestamp | pd.Timedelta):
            units = ("D", "h", "min", "s")
            unit = next((u for u in units if spread > 10 * pd.Timedelta(1, u)), "us")
            # A time zone may skip the rounded hour.
            zoned = {"nonexistent": "shift_forward", "ambiguous": False}
            return value.floor(unit, **(zoned if isinstance(value, pd.Timestamp) else {}))
        digits = _DIGITS - int(np.floor(np.log10(float(spread))))
        if types.is_integer(value):
            return round(int(value), min(0, digits))
        return _tidy(round(float(value), digits))


def _tidy(value: Any) -> Any:
    """Return a value as plain Python; a whole number without its point."""
    value = plain(value, "a column")
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _condition(name: Any, cell: Cell) -> Condition:
    def text(value: Any) -> Any:
        return value if isinstance(value, bool | int | float | str | None) else str(value)

    if isinstance(cell, Exact):
        return Condition(str(name), Exact(text(cell.value)))
    if isinstance(cell, OneOf):
        return Condition(str(name), OneOf(tuple(map(text, cell.values))))
    closed = cell.low_closed, cell.high_closed
    return Condition(str(name), Interval(text(cell.low), text(cell.high), *closed))


# Answers ----------------------------------------------------------------------------------------


def answered(
    model: TableView,
    frame: pd.DataFrame,
    questions: list[Question],
    advance: Callable[[], None] = lambda: None,
) -> pd.DataFrame:
    """Answer questions by the model and by the table, one line each.

    `error` is the standard error of the table's answer; an answer is `off` if the two differ by
    more than 3.5 standard errors plus 0.02. The model's answer is NaN, and off, if it says that no
    row has the given cell.
    """
    lines = []
    for question in questions:
        rows = _rows(frame, question)
        hits = _holds(frame[question.column], question.cell)[rows]
        count, table = len(hits), float(hits.mean())
        # Agresti and Coull: a share of none or all has an error, too.
        middle = (hits.sum() + 2) / (count + 4)
        error = float(np.sqrt(middle * (1 - middle) / (count + 4)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideDataWarning)  # the rows are the question
            value = _answer(model, question)
        off = not abs(value - table) <= ERRORS * error + TOLERANCE
        given = None if question.given is None else str(question.given)
        lines.append((question.text, question.column, given, value, table, error, count, off))
        advance()
    return pd.DataFrame(lines, columns=list(_HEADER)).astype({"off": bool})


def _answer(model: TableView, question: Question) -> float:
    schema = model.schema_
    event = {question.column: _fitted(schema[question.column], question.cell)}
    given = None
    if question.known is not None:
        given = {question.given: _fitted(schema[question.given], question.known)}
    try:
        return float(model.prob(event, given))
    except ValueError as error:
        if given is not None and not _is_possible(model, given):
            return float("nan")
        if isinstance(error, NoProbabilityError):
            return 0.0  # a single value of a column that the model takes as continuous
        raise


def _fitted(column: Column, cell: Cell) -> Cell:
    """Leave out categories that the model does not have."""
    if not isinstance(column.kind, Categorical) or isinstance(cell, Interval):
        return cell
    values = (cell.value,) if isinstance(cell, Exact) else cell.values
    kept = tuple(value for value in values if value in column.codes)
    return cell if len(kept) == len(values) else OneOf(kept)


def _is_possible(model: TableView, given: dict[Any, Cell]) -> bool:
    try:
        density, known = requests.conditioned(model.module_, model.schema_, given)
        with torch.no_grad():
            density.check_possible(density.checked(known))
    except ValueError:
        return False
    return True


def _rows(frame: pd.DataFrame, question: Question) -> Flags:
    """Return which rows have the question's column and the given cell."""
    seen = frame[question.column].notna().to_numpy()
    return seen if question.known is None else seen & _holds(frame[question.given], question.known)


def _holds(series: pd.Series, cell: Cell) -> Flags:
    """Return which values lie in a cell; missing ones do not."""
    if isinstance(cell, Exact | OneOf):
        values = [cell.value] if isinstance(cell, Exact) else list(cell.values)
        return np.asarray(series.isin(values), dtype=bool)
    inside = series.notna()
    if cell.low is not None:
        inside &= (series >= cell.low) if cell.low_closed else (series > cell.low)
    if cell.high is not None:
        inside &= (series <= cell.high) if cell.high_closed else (series < cell.high)
    return np.asarray(inside.fillna(False), dtype=bool)
