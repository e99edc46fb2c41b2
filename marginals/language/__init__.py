"""The query language: parse `P(income > 50000 | age = 40)` and answer it with a model."""

from marginals.language.answer import Answer, answer
from marginals.language.conditions import to_evidence
from marginals.language.errors import QueryError
from marginals.language.parser import parse, parse_conditions
from marginals.language.printer import format
from marginals.language.query_tree import Column, Condition, Query

__all__ = [
    "Answer",
    "Column",
    "Condition",
    "Query",
    "QueryError",
    "answer",
    "format",
    "parse",
    "parse_conditions",
    "to_evidence",
]
