"""`query`: answer queries of the query language."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model
from marginals.cli.output import print_json, print_table, text

if TYPE_CHECKING:
    from marginals.language import Answer

Queries = Annotated[
    list[str], typer.Argument(metavar="QUERY...", help="Queries, each in quotes for the shell.")
]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals query model.mdma 'P(income > 50000, 20 <= age < 30 | city in {Oslo, Bergen})'",
        "marginals query model.mdma 'E[income | age = 40]' 'SD[income | age = 40]'",
        "marginals query model.mdma 'Q[0.05, 0.5, 0.95](income | age = 40)' --json",
        "marginals query model.mdma 'p(income = 40000, age = 40)'",
        "marginals query model.mdma 'P(`home town` = \"New York\" | day >= 2024-01-31)'",
    )(query)


def query(model: options.Model, queries: Queries, json: options.Json = False) -> None:
    """Answer queries: P(...) probability, p(...) density, E[...] mean, SD[...], Q[...](...).

    Separate conditions by commas, and evidence by a bar: P(income > 50000 | age = 40). Unless
    printed to a terminal, each answer is one line with its numbers alone.
    """
    from marginals.language import answer, parse

    parsed = [parse(query) for query in queries]  # before loading, so that mistakes show at once
    fitted = load_model(model)
    answers = [answer(fitted, query) for query in parsed]
    if json:
        print_json({"answers": [{"query": a.text, "value": a.value} for a in answers]})
    elif sys.stdout.isatty():
        print_table(["query", "answer"], [[a.text, a.value] for a in answers])
    else:
        for found in answers:
            typer.echo("\t".join(map(text, _values(found))))


def _values(found: "Answer") -> list[object]:
    return found.value if isinstance(found.value, list) else [found.value]
