"""Answers of a model to queries."""

from dataclasses import dataclass
from typing import Any, Protocol, final

from marginals.columns.kinds import Categorical
from marginals.language.conditions import has_mass, name_in, to_evidence
from marginals.language.errors import QueryError
from marginals.language.parser import parse
from marginals.language.printer import format
from marginals.language.query_tree import Query

Known = dict[Any, Any]


class Answers(Protocol):
    """What a model must offer; `marginals.MDMA` and its views do."""

    @property
    def schema_(self) -> Any:
        """The columns of the table."""

    def prob(self, event: Any, given: Any = None) -> Any:
        """Return the probability of an event."""

    def pdf(self, X: Any, given: Any = None) -> Any:  # noqa: N803 (scikit-learn's name)
        """Return the density at exact values."""

    def mean(self, column: Any, given: Any = None) -> Any:
        """Return the mean of a column."""

    def std(self, column: Any, given: Any = None) -> Any:
        """Return the standard deviation of a column."""

    def ppf(self, q: Any, column: Any, given: Any = None) -> Any:
        """Return quantiles of a column."""


@final
@dataclass(frozen=True)
class Answer:
    """The answer to a query.

    Args:
        query: what was asked.
        value: a number, or a list of them for several quantiles. Of columns that hold times or
            categories, quantiles and means are what the columns hold.
    """

    query: Query
    value: Any

    @property
    def text(self) -> str:
        """The query as text."""
        return self.query.text or format(self.query)

    def __str__(self) -> str:
        values = self.value if isinstance(self.value, list) else [self.value]
        shown = ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in values)
        return f"{self.text} = {shown}"


def answer(model: Answers, query: str | Query) -> Answer:
    """Answer a query, given as text or parsed.

    Args:
        model: a fitted `MDMA`, or anything with its methods.
        query: such as "P(income > 50000 | age = 40)".
    """
    if isinstance(query, str):
        query = parse(query)
    if query.function == "P":
        return Answer(query, _probability(model, query))
    _check_disjoint(model, query)
    given = to_evidence(query.given, model.schema_, query.text) or None
    if query.function == "p":
        values = to_evidence(query.event, model.schema_, query.text)
        return Answer(query, _scalar(model.pdf(values, given=given)))
    column = name_in(model.schema_, query.of[0], query.text)
    _check_order(model, query, column)
    if query.function == "Q":
        return Answer(query, _quantiles(model, query, column, given))
    ask = model.mean if query.function == "E" else model.std
    return Answer(query, _scalar(ask(column, given=given)))


def _quantiles(model: Answers, query: Query, column: Any, given: Known | None) -> Any:
    values = [_plain(value) for value in model.ppf(list(query.levels), column, given=given)]
    return values[0] if len(values) == 1 else values


def _probability(model: Answers, query: Query) -> float:
    """Return P(event | given); a column may be in both, as in P(age > 80 | age > 60)."""
    schema, text = model.schema_, query.text
    event = to_evidence(query.event, schema, text)
    given = to_evidence(query.given, schema, text)
    shared = [name for name in event if name in given]
    if not shared:
        _check_mass(schema, query, event)
        return _scalar(model.prob(event, given=given or None))
    try:
        both = to_evidence((*query.event, *query.given), schema, text)
    except QueryError:  # each side is possible, but not both together
        return 0.0
    fixed = {name for name in shared if not has_mass(schema, name, given[name])}
    rest = {name: known for name, known in given.items() if name in fixed or name not in shared}
    event = {name: both[name] for name in event if name not in fixed}
    known = {name: given[name] for name in shared if name not in fixed}
    _check_mass(schema, query, event)
    joint = _scalar(model.prob(event, given=rest or None)) if event else 1.0
    return joint / _mass(model, known, rest, query) if known else joint


def _mass(model: Answers, known: Known, rest: Known, query: Query) -> float:
    mass = _scalar(model.prob(known, given=rest or None))
    if mass == 0:
        names = ", ".join(map(str, known))
        raise QueryError(
            f"Expected what is given to be possible; the conditions on {names} have probability 0. "
            "Widen them.",
            query.text,
            query.given[0].at,
        )
    return mass


def _check_mass(schema: Any, query: Query, event: Known) -> None:
    for condition in query.event:
        name = name_in(schema, condition, query.text)
        if name in event and not has_mass(schema, name, event[name]):
            raise QueryError(
                f"Expected an event with a probability; {condition.column!r} is continuous, and "
                "any single value of it has probability 0. Ask for an interval, or for the density "
                "with a small p.",
                query.text,
                condition.at,
            )


def _check_disjoint(model: Answers, query: Query) -> None:
    asked = {name_in(model.schema_, part, query.text) for part in query.of}
    for condition in query.given:
        if name_in(model.schema_, condition, query.text) in asked:
            raise QueryError(
                "Expected the columns asked for and those given to differ; got "
                f"{condition.column!r} in both. Leave it out of one; only P takes a column twice.",
                query.text,
                condition.at,
            )


def _check_order(model: Answers, query: Query, name: Any) -> None:
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
    """Return the one value of an array, or the value itself."""
    if getattr(value, "shape", ()) or isinstance(value, list):
        (value,) = value
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return numbers of numpy and torch as Python's."""
    return value.item() if hasattr(value, "item") else value
