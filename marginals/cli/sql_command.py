"""`sql`: a statement of DuckDB with the functions of a model."""

import os
import re
from typing import Annotated

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model
from marginals.cli.output import note, print_json, print_table, records

Statement = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="A SQL statement, in quotes for the shell.")
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name", help="The prefix of the functions' names; by default the name of the file."
    ),
]
Database = Annotated[
    str | None,
    typer.Option("--database", metavar="FILE", help="A DuckDB database; by default in memory."),
]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals sql wine.mdma \"SELECT *, wine_tail(t) FROM 'wine.parquet' t ORDER BY ALL\"",
        "marginals sql wine.mdma \"SELECT wine_prob('proline > 1000 | alcohol = 13')\"",
        'marginals sql wine.mdma "FROM wine_sample(5, seed := 1)" -o rows.csv',
        "marginals sql wine.mdma \"FROM wine_filled('wine.csv')\" --json",
    )(sql)


def sql(
    model: options.Model,
    statement: Statement,
    name: Name = None,
    ignore: options.Ignore = None,
    database: Database = None,
    output: options.Output = "-",
    handle_unknown: options.HandleUnknown = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Run a SQL statement in DuckDB, with the model's functions.

    The functions are NAME_logpdf, NAME_prob, NAME_ppf, NAME_mean, NAME_tail and NAME_fill of rows,
    and the tables NAME_sample, NAME_sample_given and NAME_filled. Files are tables: FROM
    'data.csv'.
    """
    from marginals.io import tables
    from marginals.sql import register
    from marginals.sql.duckdb_functions import duckdb_module

    duckdb = duckdb_module()
    fitted = load_model(model, handle_unknown)
    stem = os.path.basename(model).partition(".")[0]
    first = name or re.sub(r"^(?=\d)|\W", "_", stem)
    with duckdb.connect(database or ":memory:") as connection:
        register(connection, fitted, first, ignore=ignore or [])
        try:
            found = connection.execute(statement)
            frame = found.df() if found.description else None
        except duckdb.Error as error:
            raise ValueError(str(error)) from error
    if frame is None:
        note("Done.")
    elif output != "-":
        tables.write(frame, output, format)
        note(f"Wrote {len(frame)} row{'' if len(frame) == 1 else 's'} to {output}.")
    elif json:
        print_json({"rows": records(frame)})
    else:
        print_table([str(c) for c in frame.columns], frame.to_numpy(dtype=object).tolist())
