"""Arguments and options of several commands."""

from enum import Enum
from typing import Annotated

import typer


class Unknown(str, Enum):  # noqa: UP042 (typer shows the values of this kind)
    """What to do with a category that was not seen in training."""

    error = "error"
    missing = "missing"


class Engine(str, Enum):  # noqa: UP042
    """What runs a job."""

    local = "local"
    ray = "ray"


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
        help="csv, tsv, parquet or arrow: the format of standard input and output (csv by default) "
        "and of files without a known suffix.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Given = Annotated[
    str,
    typer.Option(
        "--given", "-g", metavar="CONDITIONS", help="Evidence, such as 'age = 40, city = Oslo'."
    ),
]
GivenColumns = Annotated[
    list[str] | None,
    typer.Option("--given", "-g", metavar="COLUMN", help="A column to condition on; may repeat."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COLUMN", help="A column to ignore; may repeat."),
]
HandleUnknown = Annotated[
    Unknown | None,
    typer.Option(
        "--handle-unknown",
        help="What to do with a category not seen in training: stop with an error, or treat "
        "the cell as missing. The default is the model's setting.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")]
RunsOn = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="local, or ray: a Ray cluster (RAY_ADDRESS, or else a local one). With ray, "
        "DATA is a Parquet or Arrow table or a folder of them, and the output a folder of Parquet.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes of Ray; by default one for each core or GPU."),
]
