"""`score`, `sample` and `impute`: tables out, in batches, so that files may be of any size."""

import contextlib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import models, options
from marginals.cli.command import command
from marginals.cli.models import evidence, load_model, table, written_dtypes
from marginals.cli.output import bar, note, print_json, records

if TYPE_CHECKING:
    import pandas as pd

    from marginals.io.stored_rows import Edit, StoredRows


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
    typer.Option("--method", help="What to put in a missing cell, given the rest of its row."),
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
    import numpy as np

    from marginals.io.stored_rows import Edit

    fitted = load_model(model)
    kept = list(keep or [])
    with (
        _rows_out(fitted, output, format, json) as append,
        _bar_for("score", data, format) as advance,
    ):
        for rows, frame in table(fitted, data, format, kept):
            absent = [name for name in kept if name not in rows.names]
            if absent:
                raise ValueError(
                    f"Expected the columns {absent} of --keep in the table; it has "
                    f"{list(rows.names)}."
                )
            scores = np.asarray(fitted.score_samples(frame), dtype=float).tolist()
            append(rows.edited(Edit(keep=kept, after={"log_density": scores})))
            advance(len(rows))


def sample(
    model: options.Model,
    rows: Count,
    given: options.Given = "",
    output: options.Output = "-",
    seed: options.Seed = 0,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Draw rows from the model, given evidence or none."""
    from marginals.columns.table_coercion import as_frame

    fitted = load_model(model)
    condition = evidence(fitted, given)
    with _rows_out(fitted, output, format, json) as append, bar("sample", rows) as advance:
        for batch, start in enumerate(range(0, max(rows, 1), models.ROWS)):
            count = min(models.ROWS, rows - start)
            drawn = fitted.sample(count, given=condition, random_state=_seed(seed, batch))
            append(as_frame(drawn, fitted.schema_.names))
            advance(count)


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
    """Fill missing cells from the rest of their row; all other cells are copied as they are.

    Integer columns get integers: means are rounded.
    """
    if draws > 1 and method is not Fill.draw:
        raise typer.BadParameter("Several draws need --method draw.")
    fitted = load_model(model)
    with (
        _rows_out(fitted, output, format, json) as append,
        _bar_for("impute", data, format) as advance,
    ):
        for number, (rows, frame) in enumerate(table(fitted, data, format, keep=None)):
            for edit in _fills(fitted, frame, method.value, draws, _seed(seed, number)):
                append(rows.edited(edit))
            advance(len(rows))


def _fills(
    model: Any, frame: "pd.DataFrame", method: str, draws: int, seed: int
) -> Iterator["Edit"]:
    """Fill the missing cells, once or several times; copies have the columns row and draw."""
    import numpy as np

    from marginals.columns import Integer
    from marginals.io.stored_rows import Edit

    full = model.impute(frame, method=method, draws=draws, random_state=seed)
    for draw, one in enumerate(full if isinstance(full, list) else [full]):
        fills: dict[str, dict[int, Any]] = {}
        for name in frame.columns:
            gaps = np.flatnonzero(frame[name].isna() & one[name].notna())
            values = one[name].iloc[gaps].tolist()
            if isinstance(model.schema_[name].kind, Integer):
                values = list(map(round, values))  # the column keeps its type
            fills[str(name)] = dict(zip(gaps.tolist(), values, strict=True))
        before = {"row": frame.index.tolist(), "draw": [draw] * len(frame)} if draws > 1 else {}
        yield Edit(fills=fills, before=before)


def _seed(seed: int, batch: int) -> int:
    """Return the seed for a batch: the first has the given one."""
    import numpy as np

    return seed if batch == 0 else int(np.random.SeedSequence([seed, batch]).generate_state(1)[0])


def _bar_for(what: str, data: str, format: str | None) -> Any:
    from marginals.io import tables

    return bar(what, tables.count(data, format))


@contextlib.contextmanager
def _rows_out(
    model: Any, path: str, format: str | None, json: bool
) -> Iterator[Callable[["pd.DataFrame | StoredRows"], None]]:
    """Yield a function that writes rows to a file or pipe, or collects them in one JSON object."""
    import pandas as pd

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
    if json:
        print_json({"count": rows, **({"rows": parts} if inside else {"output": path})})
    elif path != "-":
        note(f"Wrote {rows} row{'' if rows == 1 else 's'} to {path}.")
