"""The same question as Python, as a query and as a command line; and evidence that is typed."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from marginals.cells.cell import AnyOf, Cell, Exact, Interval, OneOf
from marginals.columns import Schema
from marginals.explorer.data_rows import page_value
from marginals.explorer.evidence_json import Given, RequestError, is_density
from marginals.explorer.monitor_axis import MonitorAxis, from_page, to_page
from marginals.language import parse_conditions, to_evidence
from marginals.language.errors import QueryError
from marginals.language.printer import format, format_conditions, format_name
from marginals.language.query_tree import Column, Condition, Query

_LEVELS = (0.05, 0.5, 0.95)


def texts(
    schema: Schema, axes: Sequence[MonitorAxis], given: Given, target: int | None, path: str
) -> dict[str, str]:
    """Return the question of a page as Python, as a query and as a command line.

    With a target it is the target's quantiles, or its most likely value; without, the probability
    of the evidence, or its density.

    Args:
        schema: of the model.
        axes: of its columns.
        given: the evidence.
        target: the position of the target.
        path: of the model's file.
    """
    hard = {schema.names[i]: cell for i, cell in given.hard.items()}
    text = _query(schema, axes, given, target)
    command = f"marginals query {shlex.quote(path)} {shlex.quote(text)}" if text else ""
    python = _python(schema, axes, hard, given, target, path)
    if given.soft:
        names = ", ".join(axes[i].id for i in given.soft)
        note = f"# without the soft evidence on {names}, which queries cannot express\n"
        text, command = note + text, note + command
    return {"python": python, "query": text, "command": command}


def _query(schema: Schema, axes: Sequence[MonitorAxis], given: Given, target: int | None) -> str:
    conditions = tuple(
        Condition(str(schema.names[i]), _plain(cell)) for i, cell in given.hard.items()
    )
    if target is not None:
        column = Column(str(schema.names[target]))
        rest = tuple(c for c in conditions if c.column != column.column)
        if axes[target].ordered:
            return format(Query("Q", (column,), rest, _LEVELS))
        return format(Query("mode", (column,), rest))
    if not conditions:
        return ""
    if not is_density(schema, given):
        return format(Query("P", conditions))
    exact = tuple(c for c in conditions if isinstance(c.cell, Exact))
    return format(Query("p", exact, tuple(c for c in conditions if c not in exact)))


def _plain(cell: Cell) -> Cell:
    """Return a cell with values that the query language writes: numbers, booleans and text."""

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if hasattr(value, "isoformat") and not isinstance(value, pd.Timedelta):
            return value.isoformat().removesuffix("T00:00:00")
        return str(value)

    if isinstance(cell, Exact):
        return Exact(plain(cell.value))
    if isinstance(cell, OneOf):
        return OneOf(tuple(plain(value) for value in cell.values))
    if isinstance(cell, AnyOf):
        return AnyOf(tuple(_plain(part) for part in cell.parts))  # type: ignore[misc]
    return Interval(plain(cell.low), plain(cell.high), cell.low_closed, cell.high_closed)


# Python -----------------------------------------------------------------------------------------


def _python(
    schema: Schema,
    axes: Sequence[MonitorAxis],
    hard: Mapping[Any, Cell],
    given: Given,
    target: int | None,
    path: str,
) -> str:
    cells = ", ".join(
        f"{name!r}: {_literal(axes[schema.index(name)], cell)}" for name, cell in hard.items()
    )
    lines = ["import marginals", "import pandas as pd"] if "pd." in cells else ["import marginals"]
    lines += ["", f"model = marginals.load({path!r})", f"given = {{{cells}}}"]
    for i, weights in given.soft.items():
        shares = {value: round(w, 6) for value, w in zip(axes[i].values, weights, strict=True)}
        lines += [f"shares = {shares!r}  # Jeffrey's rule on {schema.names[i]!r}"]
        lines += [f"views = [(w, model.condition({{**given, {schema.names[i]!r}: v}}))"]
        lines += ["         for v, w in shares.items() if w > 0]"]
    if target is None and given.soft:
        lines += ["# the answer to any question is the mean of the views' answers, weighted by w"]
    elif target is None:
        method = "pdf" if is_density(schema, given) else "prob"
        if method == "pdf":
            lines += _densities(hard)
        else:
            lines += ["model.prob(given)" if hard else "model.sample(5)"]
    else:
        name = repr(schema.names[target])
        rest = (
            "given"
            if target not in given.hard
            else f"{{c: v for c, v in given.items() if c != {name}}}"
        )
        if axes[target].ordered:
            lines += [f"model.ppf([0.05, 0.5, 0.95], {name}, given={rest})"]
        else:
            lines += [f"model.probabilities({name}, given={rest})"]
    return "\n".join(lines)


def _densities(hard: Mapping[Any, Cell]) -> list[str]:
    exact = [name for name, cell in hard.items() if isinstance(cell, Exact)]
    lines = [f"at = {{name: given[name] for name in {exact!r}}}"]
    if len(exact) == len(hard):
        return [*lines, "model.pdf(at)"]
    rest = "{name: cell for name, cell in given.items() if name not in at}"
    return [*lines, f"model.pdf(at, given={rest})"]


def _literal(axis: MonitorAxis, cell: Cell) -> str:
    """Return a cell as it is written in a dict of evidence."""
    if isinstance(cell, Exact):
        return _value(cell.value)
    if isinstance(cell, OneOf):
        return f"{{{', '.join(map(_value, cell.values))}}}"
    assert isinstance(cell, Interval)
    low, high = (None if end is None else _value(end) for end in (cell.low, cell.high))
    smooth = axis.step is None and axis.column.listed is None and not axis.column.atoms
    if smooth or low is None:
        return f"({low}, {high})"
    if high is not None:
        return f'pd.Interval({low}, {high}, closed="both")'
    if axis.step is None:
        return f'pd.Interval({low}, float("inf"), closed="left")'
    below = float(f"{float(to_page(axis.column, [cell.low])[0]) - axis.step:.12g}")
    return f"({_value(from_page(axis.column, below))}, None)"


def _value(value: Any) -> str:
    return f"pd.{value!r}" if isinstance(value, pd.Timestamp | pd.Timedelta) else repr(value)


# Typed evidence ---------------------------------------------------------------------------------


def typed(schema: Schema, axis: MonitorAxis, text: str) -> dict[str, Any] | None:
    """Read typed evidence: a value, "13..14", "> 13", "A, B", "A: 70 %" or "unknown".

    Returns:
        A cell of the page; None for unknown.
    """
    text = text.strip()
    if text.lower() in ("", "unknown", "?", "na", "missing"):
        return None
    if axis.kind == "bars" and text in axis.labels:
        return {"is": "value", "value": text}
    soft = _soft(axis, text)
    if soft is not None:
        return soft
    try:
        conditions = parse_conditions(_condition(axis, text))
        cells = to_evidence(conditions, schema, text)
    except QueryError as error:
        raise RequestError(str(error).splitlines()[0]) from error
    if list(cells) != [axis.column.name]:
        raise RequestError(f"Expected a value or a range of {axis.id!r}; got {text[:60]!r}.")
    return cell_json(axis, cells[axis.column.name])


def _soft(axis: MonitorAxis, text: str) -> dict[str, Any] | None:
    """Read soft evidence, "A: 50 %, B: 0.3"; categories that are not named share the rest."""
    parts = [part.rpartition(":") for part in text.split(",")]
    if axis.column.listed is None or not all(mark for _, mark, _ in parts):
        return None
    weights: dict[str, float] = {}
    for label, _, number in parts:
        share = number.strip().removesuffix("%").strip()
        try:
            weights[label.strip()] = float(share) / (100 if "%" in number else 1)
        except ValueError:
            return None
    if not set(weights) <= set(axis.labels):
        return None
    rest = [label for label in axis.labels if label not in weights]
    left = max(0.0, 1 - sum(weights.values())) / len(rest) if rest else 0.0
    return {"is": "soft", "weights": [weights.get(label, left) for label in axis.labels]}


def _condition(axis: MonitorAxis, text: str) -> str:
    name = format_name(str(axis.column.name))
    for sign in (">=", "<=", ">", "<", "=", "in "):
        if text.startswith(sign):
            return f"{name} {text}"
    for middle in ("..", " to ", "–"):
        if middle in text and axis.family != "category":
            low, high = (part.strip() for part in text.split(middle, 1))
            parts = [f"{name} >= {low}" if low else "", f"{name} <= {high}" if high else ""]
            return ", ".join(part for part in parts if part)
    if "," in text and (axis.kind == "bars" or axis.column.listed is not None):
        return f"{name} in {{{text.strip('{}')}}}"
    if axis.family in ("time", "span") or (
        axis.family == "category" and not text.startswith(("'", '"'))
    ):
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"{name} = '{escaped}'"
    return f"{name} = {text}"


def cell_json(axis: MonitorAxis, cell: Cell) -> dict[str, Any]:
    """Return a cell as the page writes it; ends of ranges count as included."""
    if isinstance(cell, Exact):
        return {"is": "value", "value": page_value(axis, cell.value)}
    if isinstance(cell, OneOf):
        return {"is": "set", "values": [page_value(axis, value) for value in cell.values]}
    if isinstance(cell, AnyOf):
        raise RequestError("Expected one range; got several. Select bars for a set with gaps.")
    step = axis.step or 0.0
    low, high = (
        None if end is None else float(to_page(axis.column, [end])[0])
        for end in (cell.low, cell.high)
    )
    low = low if low is None or cell.low_closed else low + step
    high = high if high is None or cell.high_closed else high - step
    return {"is": "range", "low": low, "high": high}


def conditions_text(schema: Schema, given: Given) -> str:
    """Return hard evidence as conditions, for the names of saved files and pictures."""
    return format_conditions(
        tuple(Condition(str(schema.names[i]), _plain(cell)) for i, cell in given.hard.items())
    )
