"""The query language: `P(income > 50000 | age = 40)`, read by hand and answered by a model."""

from marginals.language.answer import Answer, answer
from marginals.language.conditions import to_evidence
from marginals.language.errors import QueryError
from marginals.language.parser import parse, parse_conditions
from marginals.language.printer import format
from marginals.language.query_tree import Column, Condition, Exact, Interval, OneOf, Query

__all__ = [
    "Answer",
    "Column",
    "Condition",
    "Exact",
    "Interval",
    "OneOf",
    "Query",
    "QueryError",
    "answer",
    "format",
    "parse",
    "parse_conditions",
    "to_evidence",
]
