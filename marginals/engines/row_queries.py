"""Probabilities of query strings given rows: one string for all rows, or one for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
import torch

from marginals.cells.cell import Cell
from marginals.columns import encode
from marginals.columns.cell_rows import encode_rows, has_gaps
from marginals.columns.encoding import read_cells
from marginals.language import parse, to_evidence
from marginals.language.conditions import to_cells
from marginals.queries.table_density import TableView

Event = Mapping[Any, Cell]


@final
@dataclass(frozen=True)
class RowQuery:
    """The probability of an event given evidence; rows add their other cells to it.

    Args:
        event: the event by column name.
        given: the evidence by column name.
    """

    event: Event
    given: Event

    @property
    def names(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The columns of the event and of the evidence."""
        return tuple(self.event), tuple(self.given)


def read_query(model: TableView, text: str) -> RowQuery:
    """Read a query string: "P(age > 40 | city = Oslo)", or the same without "P(" and ")"."""
    query = parse(text if _has_function(text) else f"P({text})")
    if query.function != "P":
        raise ValueError(
            f"Expected the probability of an event, such as P(age > 40); got {text!r}."
        )
    event = to_cells(query.event, model.schema_, query.text)
    given = to_evidence(query.given, model.schema_, query.text)
    both = [name for name in event if name in given]
    if both:
        raise ValueError(
            f"Expected event and evidence to name different columns; got {both[0]!r} in both of "
            f"{text!r}. Leave it out of one."
        )
    return RowQuery(event, given)


def _has_function(text: str) -> bool:
    return text.strip().startswith(("P(", "p(", "E[", "SD[", "Q[", "mode("))


def query_probability(model: TableView, query: RowQuery, frame: pd.DataFrame) -> Any:
    """Return the probability of one query given each row, (B,); columns it names are ignored."""
    table = model.condition(dict(query.given)) if query.given else model
    rest = frame.drop(columns=[n for n in (*query.event, *query.given) if n in frame.columns])
    if rest.shape[1] == 0:
        return np.full(len(frame), float(table.prob(dict(query.event))))
    return np.asarray(table.prob(dict(query.event), given=rest), dtype=np.float64)


def query_probabilities(model: TableView, texts: Sequence[str], frame: pd.DataFrame) -> Any:
    """Return the probability of each row's own query given the row, (B,).

    Queries about the same columns are answered together, whatever their values.

    Args:
        model: the model.
        texts: a query string for each row.
        frame: the rows, perhaps without columns.
    """
    queries = {text: read_query(model, text) for text in dict.fromkeys(texts)}
    groups: dict[Any, list[int]] = {}
    for row, text in enumerate(texts):
        query = queries[text]
        together = _is_plain(model, query)
        groups.setdefault(query.names if together else text, []).append(row)
    found = np.empty(len(texts))
    for rows in groups.values():
        own = [queries[texts[row]] for row in rows]
        part = frame.iloc[rows]
        if len({texts[row] for row in rows}) == 1:
            found[rows] = query_probability(model, own[0], part)
        else:
            found[rows] = _together(model, own, part)
    return found


def _is_plain(model: TableView, query: RowQuery) -> bool:
    """Say whether a query is one box given one box."""
    schema = model.schema_
    sides = read_cells(schema, query.event), read_cells(schema, query.given)
    return not any(has_gaps(schema, side) for side in sides)


def _together(model: TableView, queries: Sequence[RowQuery], frame: pd.DataFrame) -> Any:
    """Return the probabilities of queries about the same columns, each given its row, (B,)."""
    schema, density = model.schema_, model.module_
    event, given = queries[0].names
    asked = encode_rows(schema, [read_cells(schema, query.event) for query in queries])
    known = encode_rows(schema, [read_cells(schema, q.given) for q in queries], masses=False)
    rest = frame.drop(columns=[name for name in (*event, *given) if name in frame.columns])
    evidence = known.evidence
    if rest.shape[1]:
        own = encode(schema, rest, strict="none")
        evidence = evidence.join(own.evidence) if given else own.evidence
    if bool(known.empty.any()):
        raise ValueError(
            "Expected the evidence of each query to have positive probability; that of row "
            f"{int(known.empty.nonzero()[0])} cannot happen."
        )
    with torch.no_grad():
        value = density.log_conditional(asked.evidence, evidence if evidence.columns else None)
    value = torch.where(asked.empty, -torch.inf, value.double().cpu())
    return value.exp().clamp_max(1.0).numpy()
