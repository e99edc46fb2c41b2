"""Answers of a model to queries."""

from dataclasses import dataclass
from html import escape
from typing import Any, final

from marginals.cells.cell import Cell
from marginals.columns.encoding import NoProbabilityError
from marginals.columns.kinds import Categorical
from marginals.language.conditions import name_in, to_cells, to_evidence
from marginals.language.errors import QueryError
from marginals.language.parser import parse
from marginals.language.printer import format
from marginals.language.query_tree import Query


@final
@dataclass(frozen=True, repr=False)
class Answer:
    """The answer to a query. It prints itself, and converts to a float or an array.

    Args:
        query: the query.
        value: a number, or a list of numbers for several quantiles. For columns of times or
            categories, quantiles and means are times or categories.
    """

    query: Query
    value: Any

    @property
    def text(self) -> str:
        """The query as text."""
        return self.query.text or format(self.query)

    @property
    def shown(self) -> str:
        """The value as text; numbers have six digits."""
        values = self.value if isinstance(self.value, list) else [self.value]
        return ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in values)

    def __repr__(self) -> str:
        return f"{self.text} = {self.shown}"

    def _repr_html_(self) -> str:
        return f"<code>{escape(self.text)}</code> = <b>{escape(self.shown)}</b>"

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.asarray(self.value, dtype=dtype)


def answer(model: Any, query: str | Query) -> Answer:
    """Answer a query, given as text or parsed.

    Args:
        model: a fitted `MDMA`, or anything with its `schema_`, `prob`, `pdf`, `mean`, `std`, `ppf`
            and `mode`.
        query: such as "P(income > 50000 | age = 40)".
    """
    if isinstance(query, str):
        query = parse(query)
    given = to_evidence(query.given, model.schema_, query.text) or None
    if query.function == "P":
        return Answer(query, _probability(model, query, given))
    _check_disjoint(model, query)
    if query.function == "p":
        values = to_evidence(query.event, model.schema_, query.text)
        return Answer(query, _scalar(model.pdf(values, given=given)))
    column = name_in(model.schema_, query.of[0], query.text)
    if query.function == "mode":
        return Answer(query, _scalar(model.mode(column, given=given)))
    _check_order(model, query, column)
    if query.function == "Q":
        found = [_plain(value) for value in model.ppf(list(query.levels), column, given=given)]
        return Answer(query, found[0] if len(found) == 1 else found)
    method = model.mean if query.function == "E" else model.std
    return Answer(query, _scalar(method(column, given=given)))


def _probability(model: Any, query: Query, given: dict[Any, Cell] | None) -> float:
    event = to_cells(query.event, model.schema_, query.text)
    try:
        return _scalar(model.prob(event, given=given))
    except NoProbabilityError as error:
        names = [name_in(model.schema_, part) for part in query.event]
        condition = query.event[names.index(error.column)]
        raise QueryError(
            f"Expected an event with a probability; {condition.column!r} is continuous, and any "
            "single value of it has probability 0. Ask for an interval, or for the density with a "
            "small p.",
            query.text,
            condition.at,
        ) from error


def _check_disjoint(model: Any, query: Query) -> None:
    of = {name_in(model.schema_, part, query.text) for part in query.of}
    for condition in query.given:
        if name_in(model.schema_, condition, query.text) in of:
            raise QueryError(
                "Expected the requested columns and those given to differ; got "
                f"{condition.column!r} in both. Leave it out of one; only P takes a column twice.",
                query.text,
                condition.at,
            )


def _check_order(model: Any, query: Query, name: Any) -> None:
    column = model.schema_[name]
    if isinstance(column.kind, Categorical) and not (query.function == "Q" and column.ordered):
        what = "quantiles" if query.function == "Q" else "moments"
        raise QueryError(
            f"Expected a column that has {what}; {column.name!r} is categorical. Ask for the "
            "probability of its categories.",
            query.text,
            query.of[0].at,
        )


def _scalar(value: Any) -> Any:
    """Return the only value of an array, or the value itself."""
    if getattr(value, "shape", ()) or isinstance(value, list):
        (value,) = value
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return a number of numpy or torch as a Python number."""
    return value.item() if hasattr(value, "item") else value
