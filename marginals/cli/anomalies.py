"""`anomalies`: the most extreme rows of a table."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model, on_ray, table
from marginals.cli.output import bar, print_json, print_table, records
from marginals.cli.table_commands import Keep, run_job

if TYPE_CHECKING:
    import pandas as pd

Top = Annotated[int, typer.Option("--top", min=1, help="How many rows to show.")]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the score, cell and tail of every row to this file instead.",
    ),
]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals anomalies model.mdma data.csv",
        "marginals anomalies model.mdma data.parquet --top 5 --json",
        "marginals anomalies model.mdma data.parquet --keep id -o scores.parquet",
    )(anomalies)


def anomalies(
    model: options.Model,
    data: options.Data,
    top: Top = 20,
    output: Output = None,
    keep: Keep = None,
    handle_unknown: options.HandleUnknown = None,
    engine: options.RunsOn = options.Engine.local,
    workers: options.Workers = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Show the most extreme rows, counted from 0, and which cell stands out in each.

    The score of a row is the log of the share of the model's draws that are as extreme with the
    same cells missing; the tail of a cell is the probability of a value as far out given the rest
    of its row.
    """
    import pandas as pd

    from marginals.engines import Anomalies
    from marginals.engines.row_jobs import anomaly_detector

    fitted = load_model(model, handle_unknown)
    if output is not None:
        job, ray = Anomalies(list(keep or [])), on_ray(model, engine, workers)
        run_job("anomalies", fitted, job, data, output, on_ray=ray, format=format, json=json)
        return
    if engine is not options.Engine.local:
        raise typer.BadParameter("--engine ray writes a folder of Parquet files: name it with -o.")
    detector = anomaly_detector(fitted)
    rows, frame, scores = _lowest(detector, data, top, format)
    cells = detector.blame(frame).reset_index(drop=True)
    found = pd.DataFrame(
        {"row": frame.index, "score": scores, "cell": cells["column"], "tail": cells["tail"]}
    )
    if json:
        print_json({"anomalies": records(found.join(frame.reset_index(drop=True)))})
        return
    shown = {name: _texts(rows, frame, name) for name in frame.columns}
    found = found.join(pd.DataFrame(shown, dtype=object))
    print_table([str(name) for name in found.columns], found.to_numpy(dtype=object).tolist())


def _texts(rows: Any, frame: "pd.DataFrame", name: Any) -> list[Any]:
    """Return the cells of a column: from a text file as they are written there."""
    from marginals.io.text_rows import TextRows

    return rows.texts(str(name)) if isinstance(rows, TextRows) else frame[name].tolist()


def _lowest(
    detector: Any, data: str, top: int, format: str | None
) -> tuple[Any, "pd.DataFrame", Any]:
    """Return the rows with the lowest scores: as stored, the model's columns, and the scores."""
    import numpy as np
    import pandas as pd

    from marginals.io import tables

    kept: tuple[Any, pd.DataFrame, Any] | None = None
    with bar("score", tables.count(data, format)) as advance:
        for rows, frame in table(detector.model_, data, format):
            advance(len(rows))
            scores = detector.score_samples(frame)
            if kept is not None:
                rows, frame = kept[0].joined(rows), pd.concat([kept[1], frame])
                scores = np.append(kept[2], scores)
            order = np.argsort(scores, kind="stable")[:top]
            kept = rows.take(order.tolist()), frame.iloc[order], scores[order]
    assert kept is not None  # a table without rows is one empty batch
    return kept
