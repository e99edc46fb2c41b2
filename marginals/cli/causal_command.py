"""`causal`: which columns cause which."""

import os
from typing import Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model, named, read_table, without
from marginals.cli.output import note, print_json, print_table
from marginals.cli.plot_commands import plotting_module
from marginals.io.safe_files import check_target

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A table, or a model file that `fit` wrote.")
]
Rows = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="With a model: the table to test on."),
]
Alpha = Annotated[float, typer.Option("--alpha", help="Significance level of the tests.")]
Most = Annotated[
    int | None,
    typer.Option(
        "--max-cond-vars", min=0, help="The most columns to condition on; by default all."
    ),
]
Tier = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="COLUMNS",
        help="Columns between commas that no later tier causes; may repeat, earliest first.",
    ),
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
    ignore: options.Ignore = None,
    output: Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Find which columns cause which, by the PC algorithm with independence tests.

    An edge printed as -- could point either way: the data do not determine its direction.
    """
    for target in output or []:
        _check_target(target)
    from marginals.causal import causal_graph

    subject, names, rows = _sources(source, data, format, ignore or [])
    tiers = {"tiers": [named(names, text.split(","), "--tier") for text in tier]} if tier else None
    found = causal_graph(
        subject, data=rows, alpha=alpha, max_cond_vars=max_cond_vars, background_knowledge=tiers
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
    """Return a model or a table, the names of its columns, and the rows to test a model on."""
    if os.path.splitext(source)[1].lower() == ".mdma":
        if data is None:
            raise typer.BadParameter(
                "A model file does not hold the rows of its fit. Give a table with --data FILE.",
                param_hint="--data",
            )
        model = load_model(source)
        return model, list(model.schema_.names), read_table(data, format, model.schema_)
    if data is not None:
        raise typer.BadParameter(
            f"A table is tested on its own rows; got {source!r} and {data!r}. Leave one out, or "
            "give a model file first.",
            param_hint="--data",
        )
    table = without(read_table(source, format), ignore)
    return table, list(table), None


def _check_target(path: str) -> None:
    """Refuse a file that cannot be written before anything is fitted."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _GRAPHS + _PICTURES:
        raise ValueError(
            f"Expected `--output` to end in one of {[*_PICTURES, *_GRAPHS]}; got {path!r}."
        )
    check_target(path, "`--output`")
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
