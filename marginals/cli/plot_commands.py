"""`plot` and `demo`."""

import importlib
from typing import Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model, read_table
from marginals.cli.output import note, print_json
from marginals.io.safe_files import check_target
from marginals.runtime.extras import optional

Pairs = Annotated[
    str, typer.Option("--pairs", metavar="COLUMNS", help="Columns between commas; by default all.")
]
Shown = Annotated[
    str | None, typer.Option("--data", metavar="FILE", help="A table to draw with the model.")
]
Picture = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="PNG, PDF or SVG.")]


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(
        app,
        "marginals plot model.mdma -o pairs.png",
        "marginals plot model.mdma --pairs age,income --data data.csv -o pairs.pdf",
    )(plot)
    command(app, "marginals demo")(demo)


def plot(
    model: options.Model,
    output: Picture,
    pairs: Pairs = "",
    data: Shown = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Draw the marginals of columns and the densities of each pair."""
    check_target(output, "`--output`")
    plotting = plotting_module()
    from marginals.language.conditions import name_in
    from marginals.language.query_tree import Column

    fitted = load_model(model)
    columns = [name_in(fitted.schema_, Column(name.strip())) for name in pairs.split(",") if name]
    rows = {} if data is None else {"data": read_table(data, format, fitted.schema_)}
    axes: Any = plotting.pairs(fitted, columns or None, **rows)
    axes.flat[0].figure.savefig(output, dpi=150)
    if json:
        print_json({"output": output, "columns": columns or list(fitted.schema_.names)})
    else:
        note(f"Drew {output}.")


def demo() -> None:
    """Fit a table with gaps, query it, draw a picture: a tour in a minute."""
    from marginals.cli.demo import main

    main()


def plotting_module() -> Any:
    """Return `marginals.plotting`, drawing to files without a window."""
    optional("matplotlib", "marginals[plot]").use("Agg")
    return importlib.import_module("marginals.plotting")
