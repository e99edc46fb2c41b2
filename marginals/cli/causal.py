"""`causal`: the graph of what causes what."""

import os
from typing import Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import format_for, load_model, renamed
from marginals.cli.output import note, print_json, print_table
from marginals.cli.pictures import plotting_module
from marginals.columns.plain_values import did_you_mean
from marginals.io import tables
from marginals.io.container import check_target

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A table, or the file of a model that `fit` wrote.")
]
Rows = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="With a model: the table to test at."),
]
Alpha = Annotated[float, typer.Option("--alpha", help="The level of the tests.")]
Most = Annotated[
    int | None,
    typer.Option("--max-cond-vars", min=0, help="The most columns to condition on; else all."),
]
Tier = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="COLUMNS",
        help="Columns between commas that no later tier causes; may repeat, earliest first.",
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="A column to leave out.")
]
Out = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        "--out",
        "-o",
        metavar="FILE",
        help="A picture (PNG, PDF, SVG), or the graph as .graphml, .json or .dot; may repeat.",
    ),
]
_GRAPHS, _PICTURES = (".graphml", ".json", ".dot"), (".png", ".pdf", ".svg")


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals causal data.csv -o graph.png",
        "marginals causal model.mdma --data data.csv --alpha 0.001 -o graph.png -o graph.graphml",
        "marginals causal data.csv --max-cond-vars 3 --tier age,sex --tier income --json",
    )(causal)


def causal(
    source: Source,
    data: Rows = None,
    alpha: Alpha = 0.01,
    max_cond_vars: Most = None,
    tier: Tier = None,
    ignore: Ignore = None,
    output: Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Find which columns cause which, by the PC algorithm with tests of independence.

    Edges that point both ways could be either; of those the rows do not tell.
    """
    for target in output or []:
        _check_target(target)
    from marginals.causal import causal_graph

    subject, names, rows = _sources(source, data, format, ignore or [])
    known = {"tiers": [_tier(names, text) for text in tier]} if tier else None
    found = causal_graph(
        subject, data=rows, alpha=alpha, max_cond_vars=max_cond_vars, background_knowledge=known
    )
    for target in output or []:
        _write(found, target)
    if json:
        print_json(_content(found))
    else:
        arrows = [(a, "->", b) for a, b in found.directed]
        lines = [(a, "--", b) for a, b in found.undirected]
        print_table(["from", "edge", "to"], arrows + lines)
        note(f"{len(found.tests)} tests at level {alpha:g} took {found.seconds:.1f} s.")


def _sources(
    source: str, data: str | None, format: str | None, ignore: list[str]
) -> tuple[Any, list[Any], Any]:
    """Return a model or a table, the names of its columns, and the rows to test a model at."""
    if os.path.splitext(source)[1].lower() == ".mdma":
        if data is None:
            raise typer.BadParameter(
                "A model does not hold the rows that it was fitted to. Give them with --data FILE.",
                param_hint="--data",
            )
        model = load_model(source)
        rows = renamed(tables.read(data, format_for(data, format)), model.schema_)
        return model, list(model.schema_.names), rows
    if data is not None:
        raise typer.BadParameter(
            f"A table is tested at its own rows; got {source!r} and {data!r}. Leave one out, or "
            "give the file of a model first.",
            param_hint="--data",
        )
    table = tables.read(source, format_for(source, format))
    absent = [name for name in ignore if name not in table]
    if absent:
        raise ValueError(
            f"Expected `--ignore` to name columns of {source!r}, {list(table)[:20]}; got {absent}."
        )
    table = table.drop(columns=ignore)
    return table, list(table), None


def _tier(names: list[Any], text: str) -> list[Any]:
    """Read the columns of a tier; in files and commands every name is text."""
    known = {str(name): name for name in names}
    asked = [part.strip() for part in text.split(",")]
    for part in asked:
        if part not in known:
            hint = did_you_mean(part, list(known))
            raise ValueError(f"Expected `--tier` to name columns; got {part!r}. {hint}")
    return [known[part] for part in asked]


def _check_target(path: str) -> None:
    """Refuse a file that could not be written, before anything is fitted."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _GRAPHS + _PICTURES:
        raise ValueError(
            f"Expected `--output` to end in one of {[*_PICTURES, *_GRAPHS]}; got {path!r}."
        )
    check_target(os.path.abspath(path), "`--output`")
    if suffix in _PICTURES:
        plotting_module()


def _write(found: Any, path: str) -> None:
    if os.path.splitext(path)[1].lower() in _GRAPHS:
        found.save(path)
    else:
        found.plot().figure.savefig(path, dpi=150)
    note(f"Wrote {path}.")


def _content(found: Any) -> dict[str, Any]:
    return {
        "columns": list(found.names),
        "directed": found.directed,
        "undirected": found.undirected,
        "alpha": found.alpha,
        "tests": found.tests.to_dict("records"),
        "seconds": found.seconds,
    }
