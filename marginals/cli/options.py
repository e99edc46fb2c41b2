"""Arguments and options that several commands share."""

from typing import Annotated

import typer

_TABLES = "CSV, TSV, Parquet or Arrow by its suffix"

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The file that `fit` wrote.")]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help=f"A table: {_TABLES}; - for standard input.")
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Where the table goes: {_TABLES}; - for standard output.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="csv, tsv, parquet or arrow: of standard input and output (csv without this), and of "
        "files whose suffix does not tell.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Given = Annotated[
    str,
    typer.Option(
        "--given", "-g", metavar="CONDITIONS", help="What is known, as in 'age = 40, city = Oslo'."
    ),
]
GivenColumns = Annotated[
    list[str] | None,
    typer.Option("--given", "-g", metavar="COLUMN", help="A column to condition on; may repeat."),
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")]
