"""The program `marginals`.

Command modules import only what their help needs; each command imports the rest when it runs.
"""

import importlib.metadata
import sys
import warnings
from typing import Annotated

import typer

from marginals.cli import (
    anomalies,
    asking,
    causal_command,
    check_command,
    dependence_commands,
    explore_command,
    fit_commands,
    plot_commands,
    sql_command,
    table_commands,
    update_command,
)
from marginals.cli.command import INTERRUPTED

app = typer.Typer(
    name="marginals",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("marginals"))
        raise typer.Exit


@app.callback(
    epilog="[bold]Start here[/bold]\n\n"
    "  marginals fit data.csv -o model.mdma\n\n"
    "  marginals info model.mdma\n\n"
    "  marginals query model.mdma 'P(income > 50000 | age = 40)'\n\n"
    "  marginals COMMAND --help    shows examples of each command"
)
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learn the joint distribution of a table, then ask it anything.

    Tables are CSV, TSV, Parquet or Arrow files. Exit codes: 0 done, 1 failed, 2 wrong usage.
    """


for part in (
    *(fit_commands, update_command, check_command, asking, table_commands, anomalies),
    *(dependence_commands, causal_command, sql_command, plot_commands, explore_command),
):
    part.add(app)


def main() -> None:
    """Run the program; the console entry."""
    warnings.formatwarning = _one_line
    try:
        app()
    except KeyboardInterrupt:  # outside any command
        sys.exit(INTERRUPTED)


def _one_line(message: Warning | str, *_: object, **__: object) -> str:
    return f"Warning: {message}\n"
