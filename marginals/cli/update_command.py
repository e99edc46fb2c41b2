"""`update`: go on from a fitted model with new rows, after a test for drift."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_estimator
from marginals.cli.output import note, print_json
from marginals.io.safe_files import check_target

if TYPE_CHECKING:
    import pandas as pd

ModelFile = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The new model's file; omit it to test only."
    ),
]
Old = Annotated[
    str | None,
    typer.Option(
        "--old",
        metavar="DATA",
        help="The old table, to test for drift; by default draws from the model.",
    ),
]
Weight = Annotated[
    float, typer.Option("--weight", min=0, help="Weight of a new row, where an old one has 1.")
]
OldRows = Annotated[
    float | None,
    typer.Option(
        "--old-rows", min=0, help="The number of rows that the old ones count as; 0 forgets them."
    ),
]
Seconds = Annotated[
    float | None, typer.Option("--max-seconds", min=0, help="The most seconds of training.")
]
Steps = Annotated[
    int | None, typer.Option("--max-steps", min=0, help="The most steps of training.")
]
Rows = Annotated[
    int, typer.Option("--rows", min=1, help="The most rows to read; a larger table is sampled.")
]
_COMPARED = 20_000  # rows of each table


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals update model.mdma new.parquet -o model.mdma",
        "marginals update model.mdma new.parquet -o model.mdma --weight 5 --max-seconds 60",
        "marginals update model.mdma new.parquet --old old.parquet",
    )(update)


def update(
    model: options.Model,
    data: options.Data,
    output: ModelFile = None,
    old: Old = None,
    weight: Weight = 1.0,
    old_rows: OldRows = None,
    max_seconds: Seconds = None,
    max_steps: Steps = None,
    rows: Rows = 1_000_000,
    seed: options.Seed = 0,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Test new rows for drift, and continue training a model with them.

    Print the columns and pairs that differ between the old table and the new one, and the log
    density of held-out rows before and after.
    """
    if output is not None:
        check_target(output, "--output")
    from marginals.synthesis import drift

    fitted = load_estimator(model)
    new = _rows(fitted, data, rows, seed, format)
    compared = new if len(new) <= _COMPARED else new.sample(_COMPARED, random_state=seed)
    found = drift(_old(fitted, old, len(compared), seed, format)[list(new.columns)], compared)
    content: dict[str, Any] = {
        "drift": {
            "pvalue": found.pvalue,
            "drifted": [list(w) if isinstance(w, tuple) else w for w in found.drifted],
        }
    }
    if output is not None:
        limits = {"max_seconds": max_seconds, "max_steps": max_steps}
        done = fitted.update(new, weight=weight, old_rows=old_rows, random_state=seed, **limits)
        fitted.save(output)
        content |= {
            "output": output,
            "rows": done.rows,
            "log_density_before": done.before,
            "log_density_after": done.after,
            "steps": done.result.steps,
        }
    if json:
        print_json(content)
        return
    note(str(found))
    if output is not None:
        note(f"{done} Wrote {output}.")


def _rows(model: Any, path: str, rows: int, seed: int, format: str | None) -> "pd.DataFrame":
    """Read the model's columns of a table, at most so many rows."""
    from marginals.engines.model_columns import renamed, text_dtypes
    from marginals.io.row_sampling import sample

    own = [str(name) for name in model.schema_.names]
    found = sample(path, rows, seed, format, dtypes=text_dtypes(model.schema_), ignored=own).frame
    shared = [name for name in found.columns if name in own]
    if not shared:
        raise ValueError(
            f"Expected {path!r} to have columns of the model, {own[:20]}; got none. Check the "
            "table's header."
        )
    return renamed(found[shared], model.schema_)


def _old(model: Any, path: str | None, rows: int, seed: int, format: str | None) -> Any:
    from marginals.columns.table_coercion import as_frame

    if path is not None:
        return _rows(model, path, _COMPARED, seed, format)
    return as_frame(model.sample(max(2, rows), random_state=seed), model.schema_.names)
