"""`explore`: a page on which evidence on one column moves every other."""

from typing import Annotated

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model
from marginals.cli.output import note
from marginals.runtime.extras import optional

# Rows of the data that are held in memory; a larger table is sampled.
_MOST_ROWS = 100_000

Data = Annotated[
    str | None, typer.Option("--data", metavar="FILE", help="A table to show next to the model.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free port.")]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="The address to listen on. Anyone who can reach it and knows the token sees the model "
        "and the data.",
    ),
]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals explore model.mdma",
        "marginals explore model.mdma --data data.parquet --no-browser --port 8765",
    )(explore)


def explore(
    model: options.Model,
    data: Data = None,
    port: Port = 0,
    host: Host = "127.0.0.1",
    browser: Browser = True,
    seed: options.Seed = 0,
    format: options.Format = None,
) -> None:
    """Explore a model by hand: set or brush a column, and every marginal follows.

    Serve the page locally, at an address with a random token, until Ctrl-C.
    """
    for module in ("starlette", "uvicorn"):
        optional(module, "marginals[explore]")
    from marginals.engines.model_columns import renamed, text_dtypes
    from marginals.explorer.server import serve
    from marginals.explorer.session import Session
    from marginals.io.row_sampling import sample

    fitted = load_model(model)
    rows = None
    if data is not None:
        names = [str(name) for name in fitted.schema_.names]
        found = sample(
            data, _MOST_ROWS, seed, format, dtypes=text_dtypes(fitted.schema_), ignored=names
        )
        rows = renamed(found.frame, fitted.schema_)
        if found.rows > len(rows):
            note(f"{len(rows)} of the file's {found.rows} rows are shown.")
    session = Session(fitted, rows, model)
    serve(session, host, port, browser, lambda address: note(f"Explore at {address}\nCtrl-C ends."))
