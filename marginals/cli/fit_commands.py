"""`fit` and `info`: make a model from a table, and describe it."""

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import absolute, load_estimator, named, without
from marginals.cli.output import note, print_json, print_table
from marginals.io.safe_files import check_target

if TYPE_CHECKING:
    import pandas as pd

    from marginals.io.row_sampling import Sample

ModelFile = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The model's file.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "-c",
        metavar="COLUMN=KIND",
        help="The kind of a column, instead of the inferred one; may repeat.",
    ),
]
Validation = Annotated[
    str | None,
    typer.Option(
        "--validation", metavar="FILE", help="A validation table, instead of held-out rows."
    ),
]
Seconds = Annotated[
    float | None, typer.Option("--max-seconds", min=0, help="The most seconds of training.")
]
Rows = Annotated[
    int,
    typer.Option(
        "--rows",
        min=1,
        help="The most rows in memory. Larger Parquet and Arrow tables are streamed; larger text "
        "files are sampled.",
    ),
]
Effort = Annotated[
    str,
    typer.Option("--effort", help="quick, fast, balanced or best: how long to search for models."),
]
Width = Annotated[int | None, typer.Option("--width", min=1, help="Number of components.")]

Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Train on all rows of a Parquet or Arrow table or folder, row group by row group, so "
        "that memory does not grow with the table; or fit a random sample. By default all rows are "
        "streamed if they are more than --rows, and by torchrun or Ray.",
    ),
]
Buffer = Annotated[
    int | None,
    typer.Option(
        "--buffer",
        min=1,
        help="Rows of the shuffle buffer while streaming; by default 262,144, or --rows if fewer.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Resume the streamed fit of a single model from this file, and keep it current.",
    ),
]
RunsOn = Annotated[
    options.Engine,
    typer.Option(
        "--engine",
        help="ray: stream, and fit the models of the mixture on the workers of a Ray cluster "
        "(RAY_ADDRESS, else one on this machine), which can all read DATA.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Another setting of marginals.MDMA; may repeat."
    ),
]


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(
        app,
        "marginals fit data.csv -o model.mdma",
        "marginals fit data.csv -o model.mdma --ignore id --effort balanced",
        "marginals fit data.csv -o model.mdma -c age=integer -c 'city=categorical' "
        "-c 'price=continuous(lower=0, resolution=0.01)'",
        "marginals fit train.parquet -o model.mdma --validation valid.parquet --width 64",
        "marginals fit folder/ -o model.mdma",
        "marginals fit s3://bucket/folder -o model.mdma --engine ray --effort best",
        "marginals fit large.parquet -o model.mdma --rows 200000 --no-stream --seed 1",
        "marginals fit data.csv -o model.mdma --set tensor=cp --set learning_rate=0.005",
        "marginals fit folder/ -o model.mdma --stream --set tensor=ht --checkpoint fit.part",
        "torchrun --nproc-per-node 2 -m marginals fit folder/ -o model.mdma --set tensor=ht",
    )(fit)
    command(app, "marginals info model.mdma", "marginals info model.mdma --json")(info)


def fit(
    data: options.Data,
    output: ModelFile,
    columns: Columns = None,
    ignore: options.Ignore = None,
    validation: Validation = None,
    effort: Effort = "fast",
    seed: options.Seed = 0,
    max_seconds: Seconds = None,
    rows: Rows = 1_000_000,
    width: Width = None,
    handle_unknown: options.HandleUnknown = None,
    stream: Stream = None,
    buffer: Buffer = None,
    checkpoint: Checkpoint = None,
    engine: RunsOn = options.Engine.local,
    workers: options.Workers = None,
    settings: Settings = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Learn the joint distribution of a table and write it to a file.

    A Parquet or Arrow table with more than --rows rows is streamed. From a larger text file, a
    random sample is fitted, with every category of the whole file. Memory holds only the sample or
    the buffer.
    """
    check_target(output, "--output")  # before the fit, not after it
    from marginals.cli.specs import parse_spec

    kinds = dict(parse_spec(text) for text in columns or [])
    model = _estimator(settings or [], effort=effort, width=width, max_seconds=max_seconds)
    if handle_unknown is not None:
        model.set_params(handle_unknown=handle_unknown.value)
    on_ray = engine is options.Engine.ray
    if _streams(data, rows) if stream is None and not on_ray else stream or on_ray:
        if validation is not None:
            raise typer.BadParameter("--validation needs --no-stream: streams hold out rows.")
        model.set_params(columns=kinds or None, random_state=seed)
        own: dict[str, Any] = {"checkpoint": checkpoint, "ignore": ignore or []}
        own |= {"buffer": buffer, "rows": rows}
        if on_ray:
            from marginals.engines.member_pools import RayPool

            own["pool"], data = RayPool(workers), absolute(data)
        facts = _streamed(model, data, output, **own)
        if facts and json:
            print_json(facts)
        elif facts:
            _report(model, facts, ())
        return
    found = _sampled(data, rows, seed, format, kinds, ignore or [])
    frame = without(found.frame, ignore or [])
    kinds = _with_categories(found, kinds, ignore or [])
    model.set_params(columns=kinds or None, random_state=seed)
    held = None if validation is None else _like(frame, validation, rows, seed, format)
    started = time.perf_counter()
    model.fit(frame, validation=held)
    model.save(output)
    facts = {
        "output": output,
        "rows": len(frame),
        "rows_in_file": found.rows,
        "columns": len(frame.columns),
        "seconds": round(time.perf_counter() - started, 2),
        **_training(model),
    }
    if held is not None:
        facts["validation_log_density"] = model.score(held)
    if json:
        print_json(facts)
    else:
        _report(model, facts, found.crowded)


def _streams(data: str, rows: int) -> bool:
    """Say whether a table is streamed: torchrun started this, or it has more than `rows` rows."""
    from marginals.engines import model_columns
    from marginals.io.addresses import TABLE_SUFFIXES
    from marginals.io.row_groups import is_in_pieces, pieces

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return True
    if not is_in_pieces(data) and os.path.splitext(data)[1].lower() not in TABLE_SUFFIXES:
        return False
    return sum(piece.rows for piece in pieces(data, model_columns.ROWS)) > rows


def _streamed(
    model: Any, data: str, output: str, rows: int, buffer: int | None, **options: Any
) -> dict[str, Any]:
    """Fit all rows of a table, perhaps with other processes; return what there is to report."""
    from marginals.engines.streamed_fit import BUFFER, SAMPLE, fit_stream
    from marginals.training import ranks

    options |= {"buffer": buffer or min(BUFFER, rows), "sampled": min(SAMPLE, rows)}

    ranks.join()
    started = time.perf_counter()
    fit_stream(model, data, **options)
    first, processes = ranks.rank() == 0, ranks.world()
    if first:
        model.save(output)
    ranks.leave()
    facts = {
        "output": output,
        "rows": model.rows_,
        "rows_in_file": model.rows_,
        "columns": len(model.schema_),
        "processes": processes,
        "seconds": round(time.perf_counter() - started, 2),
        **_training(model),
    }
    return facts if first else {}


def info(model: options.Model, json: options.Json = False) -> None:
    """Show the columns, size and training of a model."""
    fitted = load_estimator(model)
    columns = [
        {
            "column": column.name,
            "kind": type(column.kind).__name__.lower(),
            "dtype": column.dtype,
            "values": _values(column),
            "why": column.reason,
            "notes": "; ".join(column.notes),
        }
        for column in fitted.schema_
    ]
    facts = {
        "model": type(fitted).__name__,
        "family": _family(fitted),
        "parameters": sum(p.numel() for p in fitted.module_.parameters()),
        **_training(fitted),
    }
    if json:
        print_json({**facts, "schema": columns})
        return
    print_table(["fact", "value"], list(facts.items()))
    print_table(list(columns[0]), [list(column.values()) for column in columns])


def _training(model: Any) -> dict[str, Any]:
    result = model.result_
    return {
        "steps": result.steps,
        "stopped": result.stopped,
        "best_step": result.best_step,
        "validation_loss": result.best_loss,
    }


def _estimator(settings: list[str], **own: Any) -> Any:
    """Return an estimator with the options of the command and other settings."""
    from marginals.cli.specs import parse_setting
    from marginals.estimators.mdma import MDMA

    model = MDMA(**own)
    others = set(model.get_params()) - {*own, "columns", "random_state"}
    for name, value in map(parse_setting, settings):
        named(sorted(others), [name], "--set", "a setting of `marginals.MDMA`")
        model.set_params(**{name: value})
    return model


def _family(model: Any) -> str:
    """Name the model: a mixture by how many of each family it holds."""
    kept = [member["tensor"] for member in model.members_ if member["weight"] > 0]
    counts = ", ".join(f"{kept.count(name)} {name}" for name in dict.fromkeys(kept))
    return f"{type(model.module_).__name__} ({counts or model.tensor or 'ht'})"


def _sampled(
    path: str, rows: int, seed: int, format: str | None, kinds: dict[str, Any], ignore: list[str]
) -> "Sample":
    """Read a table or, of a large one, a sample and the categories of the whole."""
    from marginals.columns import Categorical
    from marginals.io.row_sampling import sample

    def is_text(kind: Any) -> bool:  # the code 007 is not the number 7
        return isinstance(kind, Categorical) and all(
            isinstance(value, str) for value in kind.categories or ()
        )

    listed = [name for name, kind in kinds.items() if kind == Categorical()]
    return sample(
        path,
        rows,
        seed,
        format,
        dtypes={name: str for name, kind in kinds.items() if is_text(kind)},
        listed=listed,
        ignored=[*ignore, *(name for name in kinds if name not in listed)],
    )


def _with_categories(found: "Sample", kinds: dict[str, Any], ignore: list[str]) -> dict[str, Any]:
    """Return kinds that include the categories of rows outside the sample."""
    from pandas.api.types import infer_dtype

    from marginals.columns import Categorical
    from marginals.columns.plain_values import in_order

    def is_categorical(name: str) -> bool:  # else the values are not categories after all
        observed = found.frame[name].dropna()
        return name in kinds or infer_dtype(observed) in ("string", "date", "empty")

    listed = {name: v for name, v in found.categories.items() if v and name not in ignore}
    return kinds | {n: Categorical(in_order(v)) for n, v in listed.items() if is_categorical(n)}


def _like(
    frame: "pd.DataFrame", path: str, rows: int, seed: int, format: str | None
) -> "pd.DataFrame":
    """Read another table with the columns and, from text, the types of this one."""
    from marginals.io.row_sampling import sample
    from marginals.io.text_tables import is_text

    times = {c: t for c, t in frame.dtypes.items() if t.kind in "mM"}
    text = {c: str for c in frame.columns if is_text(frame[c])}
    names = [str(name) for name in frame.columns]
    return sample(path, rows, seed, format, names, {**text, **times}, ignored=names).frame


def _report(model: Any, facts: dict[str, Any], crowded: tuple[str, ...]) -> None:
    some = facts["rows"] < facts["rows_in_file"]
    of = f", a random sample of {facts['rows_in_file']}," if some else ""
    note(
        f"Fitted {facts['rows']} rows{of} of {facts['columns']} columns in {facts['seconds']} s "
        f"({facts['steps']} steps, stopped by {facts['stopped']}); wrote {facts['output']}."
    )
    for name in crowded:
        note(
            f"Note on {name}: it has too many distinct values to list, so the model has only those "
            "in the sample. Leave the column out if it is an identifier."
        )
    if "validation_log_density" in facts:
        note(f"Log density of the validation rows: {facts['validation_log_density']:.4f} nats.")
    for column in model.schema_:
        for remark in column.notes:
            note(f"Note on {column.name}: {remark}.")


def _values(column: Any) -> str:
    """Describe the values of a column in a line."""
    from marginals.columns import Categorical

    kind = column.kind
    if not isinstance(kind, Categorical):
        return repr(kind).partition("(")[2].removesuffix(")")
    shown = [str(value) for value in (kind.categories or ())[:5]]
    more = ["..."] if len(kind.categories or ()) > 5 else []
    listed = (" < " if column.ordered else ", ").join(shown + more)
    return f"{len(kind.categories or ())}: {listed}"
