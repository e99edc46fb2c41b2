"""The parts of a query: frozen data, compared by meaning and not by where they were written."""

from dataclasses import dataclass, field
from typing import Literal, final, get_args

from marginals.cells.cell import Cell, Exact

__all__ = ["Column", "Condition", "Function", "Query", "Value"]

Value = bool | int | float | str
"""A value of the language. A date is a string until the column that it belongs to is known."""

Function = Literal["P", "p", "E", "SD", "Q", "mode"]


@final
@dataclass(frozen=True)
class Column:
    """A requested column.

    Args:
        column: its name.
        at: its place in the text.
    """

    column: str
    at: int | None = field(default=None, compare=False, repr=False)


@final
@dataclass(frozen=True)
class Condition:
    """A condition on one column.

    Args:
        column: its name.
        cell: the values that the column may have.
        at: its place in the text.

    >>> Condition("age", Exact(40))
    Condition(column='age', cell=Exact(value=40))
    """

    column: str
    cell: Cell
    at: int | None = field(default=None, compare=False, repr=False)


@final
@dataclass(frozen=True)
class Query:
    """A function of some columns, given conditions on columns.

    Args:
        function: "P" probability, "p" density, "E" mean, "SD" standard deviation, "Q" quantiles,
            "mode" the most likely value.
        of: conditions for P, conditions with exact values for p, one `Column` for the others.
        given: conditions.
        levels: the levels of the quantiles, strictly between 0 and 1.
        text: the text of the query.

    >>> Query("E", (Column("income"),), (Condition("age", Exact(40)),)).columns
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
        single = self.function not in ("P", "p")
        if not self.of or (single and len(self.of) > 1):
            raise ValueError(
                f"Expected {'one column' if single else 'a condition'} in `of`; got {self.of}."
            )
        wanted = Column if single else Condition
        exact = self.function != "p" or all(isinstance(c.cell, Exact) for c in self.event)
        if not exact or not all(isinstance(part, wanted) for part in self.of):
            raise TypeError(
                f"Expected `of` of {self.function} to hold {wanted.__name__}s"
                f"{' with exact values' if self.function == 'p' else ''}; got {self.of}."
            )
        if bool(self.levels) != (self.function == "Q"):
            raise ValueError(f"Expected levels for Q and only for Q; got {self.levels}.")
        if not all(0 < level < 1 for level in self.levels):
            raise ValueError(f"Expected levels strictly between 0 and 1; got {self.levels}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query names, each once."""
        return tuple(dict.fromkeys(part.column for part in (*self.of, *self.given)))

    @property
    def event(self) -> tuple[Condition, ...]:
        """The conditions among `of`."""
        return tuple(part for part in self.of if not isinstance(part, Column))
