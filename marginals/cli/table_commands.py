"""`score`, `sample` and `impute`: tables out, in batches, so that files may be of any size."""

from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from marginals.cli import models, options
from marginals.cli.command import command
from marginals.cli.models import as_frame, evidence, format_for, load_model, table
from marginals.cli.output import print_json, records, wrote
from marginals.cli.progress_bar import bar
from marginals.columns import Integer
from marginals.io import tables


class Fill(str, Enum):  # noqa: UP042 (typer shows the values of this kind)
    """What stands in for a missing cell."""

    mean = "mean"
    median = "median"
    mode = "mode"
    draw = "draw"


Count = Annotated[int, typer.Argument(metavar="ROWS", min=0, help="How many rows to draw.")]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="A column to copy to the output; may repeat."),
]
Method = Annotated[
    Fill,
    typer.Option("--method", help="What stands in for a missing cell, given the rest of its row."),
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
    )(impute)


def score(
    model: options.Model,
    data: options.Data,
    output: options.Output = "-",
    keep: Keep = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Write the log density of each row, in a column log_density; missing cells are fine."""
    fitted = load_model(model)
    kept: list[Any] = list(keep or [])
    sink = _Sink(output, format, json)
    with sink, bar("score", tables.count(data, format_for(data, format))) as advance:
        for frame in table(fitted, data, format, everything=bool(kept)):
            _check_kept(frame, kept)
            scores = fitted.score_samples(_known(fitted, frame) if kept else frame)
            sink.append(frame[kept].assign(log_density=np.asarray(scores)))
            advance(len(frame))
    sink.finish()


def sample(
    model: options.Model,
    rows: Count,
    given: options.Given = "",
    output: options.Output = "-",
    seed: options.Seed = 0,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Draw rows from the model, perhaps given what is known of them."""
    fitted = load_model(model)
    known = evidence(fitted, given)
    sink = _Sink(output, format, json)
    with sink, bar("sample", rows) as advance:
        for batch, start in enumerate(range(0, max(rows, 1), models.ROWS)):
            count = min(models.ROWS, rows - start)
            drawn = fitted.sample(count, given=known, random_state=_seed(seed, batch))
            sink.append(as_frame(fitted, drawn))
            advance(count)
    sink.finish()


def impute(
    model: options.Model,
    data: options.Data,
    output: options.Output = "-",
    method: Method = Fill.mean,
    draws: Draws = 1,
    seed: options.Seed = 0,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Fill missing cells with what the rest of the row tells of them; other columns are kept."""
    if draws > 1 and method is not Fill.draw:
        raise typer.BadParameter("Several draws need --method draw.")
    fitted = load_model(model)
    sink = _Sink(output, format, json)
    with sink, bar("impute", tables.count(data, format_for(data, format))) as advance:
        for number, frame in enumerate(table(fitted, data, format, everything=True)):
            for part in _filled(fitted, frame, method.value, draws, _seed(seed, number)):
                sink.append(part)
            advance(len(frame))
    sink.finish()


def _filled(
    model: Any, frame: pd.DataFrame, method: str, draws: int, seed: int
) -> Iterator[pd.DataFrame]:
    """Complete a table, once or several times; the copies tell their row and draw."""
    known = _known(model, frame)
    full = model.impute(known, method=method, draws=draws, random_state=seed)
    for draw, one in enumerate(full if isinstance(full, list) else [full]):
        filled = frame.copy()
        for name in known.columns:
            whole = isinstance(model.schema_[name].kind, Integer)
            # Means of integers are none: the type should not depend on which batch has gaps.
            filled[name] = one[name].astype(float) if whole and method == "mean" else one[name]
        if draws > 1:
            filled.insert(0, "draw", draw)
            filled.insert(0, "row", frame.index)
        yield filled


def _known(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that the model knows."""
    return frame[[name for name in model.schema_.names if name in frame.columns]]


def _check_kept(frame: pd.DataFrame, kept: list[Any]) -> None:
    absent = [name for name in kept if name not in frame.columns]
    if absent:
        raise tables.FrameError(
            f"Expected the columns {absent} of --keep in the table; it has {list(frame.columns)}."
        )


def _seed(seed: int, batch: int) -> int:
    """Return the seed of a batch: the first has the one that was asked for."""
    return seed if batch == 0 else int(np.random.SeedSequence([seed, batch]).generate_state(1)[0])


class _Sink:
    """Where rows go: to a file or pipe, or into one JSON object."""

    def __init__(self, path: str, format: str | None, json: bool) -> None:
        self.path = path
        self.json = json
        self.inside = json and path == "-"
        self.writer = tables.Writer(path, format_for(path, format))
        self.parts: list[dict[str, Any]] = []
        self.rows = 0

    def __enter__(self) -> "_Sink":
        if not self.inside:
            self.writer.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if not self.inside:
            self.writer.__exit__(*error)

    def append(self, frame: pd.DataFrame) -> None:
        """Take rows."""
        self.rows += len(frame)
        if self.inside:
            self.parts += records(frame)
        else:
            self.writer.append(frame)

    def finish(self) -> None:
        """Tell what was done."""
        if self.json:
            content = {"rows": self.parts} if self.inside else {"output": self.path}
            print_json({"count": self.rows, **content})
        else:
            wrote(self.rows, self.path)
