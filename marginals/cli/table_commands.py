"""`score`, `sample` and `impute`: tables out, in batches, so that files may be of any size."""

import contextlib
import os
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import models, options
from marginals.cli.command import command
from marginals.cli.models import evidence, load_model
from marginals.cli.output import bar, note, print_json, records

if TYPE_CHECKING:
    import pandas as pd

    from marginals.engines import Job
    from marginals.io.stored_rows import StoredRows


class Fill(str, Enum):  # noqa: UP042 (typer shows the values of this kind)
    """What stands in for a missing cell."""

    mean = "mean"
    median = "median"
    mode = "mode"
    draw = "draw"
    interval = "interval"


Count = Annotated[int, typer.Argument(metavar="ROWS", min=0, help="Number of rows to draw.")]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="A column to copy to the output; may repeat."),
]
Method = Annotated[
    Fill,
    typer.Option(
        "--method",
        help="How to fill a missing cell, given the rest of its row. With `interval`, cells do "
        "not change, and columns such as age_lower and age_upper are added.",
    ),
]
Level = Annotated[
    float, typer.Option("--level", help="The probability of intervals, with --method interval.")
]
Rows = Annotated[
    str | None,
    typer.Option(
        "--for-each",
        metavar="DATA",
        help="A table: draw ROWS rows given each of its rows, instead of --given.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="COLUMN",
        help="A column to fill, added if the table lacks it; may repeat. By default all columns "
        "of the table.",
    ),
]
Draws = Annotated[
    int, typer.Option("--draws", min=1, help="Completed copies of each row, with --method draw.")
]


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(
        app,
        "marginals score model.mdma data.parquet -o scores.parquet",
        "marginals score model.mdma data.csv --keep id -o scores.csv",
        "cat data.csv | marginals score model.mdma - > scores.csv",
    )(score)
    command(
        app,
        "marginals sample model.mdma 1000 -o rows.csv",
        "marginals sample model.mdma 1000 --given 'age = 40, city in {Oslo, Bergen}' --seed 1",
    )(sample)
    command(
        app,
        "marginals impute model.mdma data.csv -o full.csv",
        "marginals impute model.mdma data.csv --method draw --draws 5 --seed 1 -o full.parquet",
        "marginals impute model.mdma data.csv --column income --handle-unknown missing",
    )(impute)


def score(
    model: options.Model,
    data: options.Data,
    output: options.Output = "-",
    keep: Keep = None,
    handle_unknown: options.HandleUnknown = None,
    engine: options.RunsOn = options.Engine.local,
    workers: options.Workers = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Write the log density of each row, in a column log_density; missing cells are fine."""
    from marginals.engines import Score

    fitted = load_model(model, handle_unknown)
    job = Score(list(keep or []))
    on_ray = models.on_ray(model, engine, workers)
    run_job("score", fitted, job, data, output, on_ray=on_ray, format=format, json=json)


def sample(
    model: options.Model,
    rows: Count,
    given: options.Given = "",
    for_each: Rows = None,
    output: options.Output = "-",
    seed: options.Seed = 0,
    engine: options.RunsOn = options.Engine.local,
    workers: options.Workers = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Draw rows from the model, given evidence or none."""
    from marginals.engines import SampleGiven, model_columns
    from marginals.engines.row_jobs import draw_counts, drawn_batch

    fitted = load_model(model)
    on_ray = models.on_ray(model, engine, workers)
    if for_each is not None:
        if given:
            raise typer.BadParameter("Give evidence by --given or by --for-each, not by both.")
        each: dict[str, Any] = {"seed": seed, "format": format, "json": json, "on_ray": on_ray}
        run_job("sample", fitted, SampleGiven(rows), for_each, output, **each)
        return
    condition = evidence(fitted, given)
    if on_ray is not None:
        from marginals.engines import ray_engine

        ray: dict[str, Any] = {"seed": seed, "workers": on_ray.workers}
        count = ray_engine.sample(on_ray.model, rows, condition, _folder(output), **ray)
        _say(count, output, json)
        return
    with _rows_out(fitted, output, format, json) as append, bar("sample", rows) as advance:
        for batch, count in enumerate(draw_counts(rows, model_columns.ROWS)):
            append(drawn_batch(fitted, count, condition, seed, batch))
            advance(count)


def impute(
    model: options.Model,
    data: options.Data,
    output: options.Output = "-",
    method: Method = Fill.mean,
    draws: Draws = 1,
    level: Level = 0.9,
    column: Columns = None,
    seed: options.Seed = 0,
    handle_unknown: options.HandleUnknown = None,
    engine: options.RunsOn = options.Engine.local,
    workers: options.Workers = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Fill missing cells from the rest of their row; all other cells are copied unchanged.

    Integer columns get integers: means are rounded. With --handle-unknown missing, categories not
    seen in training count as not observed, and are copied as well.
    """
    if draws > 1 and method is not Fill.draw:
        raise typer.BadParameter("Several draws need --method draw.")
    from marginals.engines import Impute, ImputeInterval

    fitted = load_model(model, handle_unknown)
    own = models.named(fitted.schema_.names, column or [], "--column", "columns of the model")
    job: Job = Impute(method.value, draws, own)
    if method is Fill.interval:
        job = ImputeInterval(level)
    own_options: dict[str, Any] = {"seed": seed, "format": format, "json": json}
    on_ray = models.on_ray(model, engine, workers)
    run_job("impute", fitted, job, data, output, on_ray=on_ray, **own_options)


def run_job(
    what: str,
    model: Any,
    job: "Job",
    data: str,
    output: str,
    *,
    seed: int = 0,
    on_ray: models.OnRay | None = None,
    format: str | None = None,
    json: bool = False,
) -> None:
    """Run a job over a table and write what comes out."""
    from marginals.engines import ArrowFunction, local_engine

    if on_ray is not None:
        from marginals.engines import ray_engine

        unknown = model.schema_.columns[0].unknown
        function = ArrowFunction(on_ray.model, job, handle_unknown=unknown, seed=seed)
        table = models.absolute(data)  # workers run in folders of their own
        rows = ray_engine.run(function, table, _folder(output), workers=on_ray.workers)
        _say(rows, output, json)
        return
    function = ArrowFunction(model, job, seed=seed)
    with (
        _rows_out(model, output, format, json) as append,
        _bar_for(what, data, format) as advance,
    ):
        for count, parts in local_engine.run(function, data, format):
            for part in parts:
                append(part)
            advance(count)


def _folder(output: str) -> str:
    """Return the address of the folder that workers write to."""
    if output == "-" or os.path.isfile(output):
        raise typer.BadParameter("--engine ray writes a folder of Parquet files: name it with -o.")
    return models.absolute(output)


def _say(rows: int, path: str, json: bool) -> None:
    if json:
        print_json({"count": rows, "output": path})
    else:
        note(f"Wrote {rows} row{'' if rows == 1 else 's'} to {path}.")


def _bar_for(what: str, data: str, format: str | None) -> Any:
    from marginals.io import tables

    return bar(what, tables.count(data, format))


@contextlib.contextmanager
def _rows_out(
    model: Any, path: str, format: str | None, json: bool
) -> Iterator[Callable[["pd.DataFrame | StoredRows"], None]]:
    """Yield a function that writes rows to a file or pipe, or collects them in one JSON object."""
    import pandas as pd

    from marginals.engines.model_columns import written_dtypes
    from marginals.io import tables

    rows, parts = 0, []
    inside = json and path == "-"
    types = written_dtypes(model.schema_)

    def append(part: "pd.DataFrame | StoredRows") -> None:
        nonlocal rows
        rows += len(part)
        if inside:
            frame = part if isinstance(part, pd.DataFrame) else part.converted(types)
            parts.extend(records(frame))
        else:
            write(part)

    with contextlib.ExitStack() as stack:
        if not inside:
            write = stack.enter_context(tables.writing(path, format, types))
        yield append
    if inside:
        print_json({"count": rows, "rows": parts})
    elif json or path != "-":
        _say(rows, path, json)
