"""`check`: how far to trust a model on a table."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model
from marginals.cli.output import note, print_json
from marginals.cli.plot_commands import plotting_module
from marginals.io.safe_files import check_target

if TYPE_CHECKING:
    from marginals.io.row_sampling import Sample

Report = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the whole report as JSON."),
]
Picture = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw the report: PNG, PDF or SVG.")
]
Rows = Annotated[
    int, typer.Option("--rows", min=2, help="The most rows to check; a larger table is sampled.")
]
Questions = Annotated[
    int, typer.Option("--questions", min=0, help="Approximate number of plain questions.")
]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals check model.mdma data.csv",
        "marginals check model.mdma held_out.parquet -o report.json --plot report.png",
    )(check)


def check(
    model: options.Model,
    data: options.Data,
    output: Report = None,
    plot: Picture = None,
    rows: Rows = 10_000,
    questions: Questions = 100,
    seed: options.Seed = 0,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Report how far to trust a model on a table: margins, pairs, calibration, questions, rules.

    A difference is off if it exceeds 3.5 standard errors plus 0.02. Held-out rows give the fairest
    report.
    """
    from marginals.checking import check as checked
    from marginals.engines.model_columns import renamed

    for target, name in ((output, "--output"), (plot, "--plot")):
        if target is not None:
            check_target(target, name)
    if plot is not None:
        plotting_module()
    fitted = load_model(model)
    found = _sampled(fitted, data, rows, seed, format)
    report = checked(
        fitted,
        renamed(found.frame, fitted.schema_),
        rows=rows,
        questions=questions,
        random_state=seed,
    )
    content = {**report.to_dict(), "rows_in_file": found.rows}
    if output is not None:
        Path(output).write_text(
            json_text.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n",
            encoding="utf-8",
        )
        note(f"Wrote {output}.")
    if plot is not None:
        report.plot().savefig(plot, dpi=150)
        note(f"Drew {plot}.")
    if json:
        print_json(content)
    else:
        typer.echo(str(report))
        if found.rows > len(found.frame):
            note(f"{len(found.frame)} of the file's {found.rows} rows were checked.")


def _sampled(model: Any, path: str, rows: int, seed: int, format: str | None) -> "Sample":
    """Read at most so many rows, with the types that the model's columns have."""
    from marginals.engines.model_columns import text_dtypes
    from marginals.io.row_sampling import sample

    names = [str(name) for name in model.schema_.names]
    return sample(path, rows, seed, format, dtypes=text_dtypes(model.schema_), ignored=names)
