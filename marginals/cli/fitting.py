"""`fit` and `info`: a model from a table, and what a model is."""

import os
import time
from typing import Annotated, Any

import pandas as pd
import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import format_for, load_model
from marginals.cli.output import note, print_json, print_table
from marginals.cli.specs import parse_setting, parse_spec
from marginals.columns import Categorical
from marginals.columns.plain_values import did_you_mean, in_order
from marginals.io import tables
from marginals.io.container import check_target

ModelFile = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The model's file.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "-c",
        metavar="COLUMN=KIND",
        help="What a column is, if it should not be guessed; may repeat.",
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="A column to leave out.")
]
Validation = Annotated[
    str | None,
    typer.Option("--validation", metavar="FILE", help="A table to stop by, else held-out rows."),
]
Seconds = Annotated[float | None, typer.Option("--max-seconds", min=0, help="The longest fit.")]
Rows = Annotated[
    int,
    typer.Option("--rows", min=1, help="The most rows to learn from: of more, a random sample."),
]
Effort = Annotated[
    str,
    typer.Option("--effort", help="quick, fast, balanced or best: how long to look for models."),
]
Width = Annotated[int | None, typer.Option("--width", min=1, help="Components of the model.")]

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
        "marginals fit large.parquet -o model.mdma --rows 200000 --seed 1",
        "marginals fit data.csv -o model.mdma --set tensor=cp --set learning_rate=0.005",
    )(fit)
    command(app, "marginals info model.mdma", "marginals info model.mdma --json")(info)


def fit(
    data: options.Data,
    output: ModelFile,
    columns: Columns = None,
    ignore: Ignore = None,
    validation: Validation = None,
    effort: Effort = "fast",
    seed: options.Seed = 0,
    max_seconds: Seconds = None,
    rows: Rows = 1_000_000,
    width: Width = None,
    settings: Settings = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Learn the joint distribution of a table and write it to a file.

    Of a file with more than --rows rows a random sample is learned, with every category of the
    whole file; memory is taken by the sample.
    """
    kinds = dict(parse_spec(text) for text in columns or [])
    check_target(os.path.abspath(output), "--output")  # before the fit, not after it
    model = _estimator(kinds, effort, width, max_seconds, seed, settings or [])
    found = _sampled(data, rows, seed, format, kinds, ignore or [])
    frame = _without(found.frame, ignore or [])
    model.set_params(columns=_with_categories(found, kinds, ignore or []) or None)
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
        **training_of(model),
    }
    if held is not None:
        facts["validation_log_density"] = model.score(held)
    if json:
        print_json(facts)
    else:
        _tell(model, facts, found.crowded)


def info(model: options.Model, json: options.Json = False) -> None:
    """Show what a model is: its columns, size and training."""
    fitted = load_model(model)
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
        **training_of(fitted),
    }
    if json:
        print_json({**facts, "schema": columns})
        return
    print_table(["fact", "value"], list(facts.items()))
    print_table(list(columns[0]), [list(column.values()) for column in columns])


def training_of(model: Any) -> dict[str, Any]:
    """Return the course of the training, as far as the model remembers it."""
    result = getattr(model, "result_", None)
    if result is None:
        return {}
    return {
        "steps": result.steps,
        "stopped": result.stopped,
        "best_step": result.best_step,
        "validation_loss": result.best_loss,
    }


# Parts ----------------------------------------------------------------------------------------


def _estimator(
    kinds: dict[str, Any],
    effort: str,
    width: int | None,
    max_seconds: float | None,
    seed: int,
    settings: list[str],
) -> Any:
    from marginals.estimators.mdma import MDMA

    told: dict[str, Any] = {"columns": kinds or None, "effort": effort, "width": width}
    model = MDMA(**told, max_seconds=max_seconds, random_state=seed)
    known = set(model.get_params()) - {*told, "random_state", "max_seconds"}
    for text in settings:
        name, value = parse_setting(text)
        if name not in known:
            raise ValueError(
                f"Expected a setting of `marginals.MDMA`; got {name!r}. "
                f"{did_you_mean(name, sorted(known))}"
            )
        model.set_params(**{name: value})
    return model


def _family(model: Any) -> str:
    """Name the model: a mixture by how many of each family it holds."""
    kept = [member["tensor"] for member in model.members_ if member["weight"] > 0]
    counts = ", ".join(f"{kept.count(name)} {name}" for name in dict.fromkeys(kept))
    return f"{type(model.module_).__name__} ({counts or model.tensor or 'ht'})"


def _text(kinds: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a text file to read as text: the code 007 is not the number 7."""

    def is_text(kind: Any) -> bool:
        return isinstance(kind, Categorical) and all(
            isinstance(value, str) for value in kind.categories or ()
        )

    return {name: str for name, kind in kinds.items() if is_text(kind)}


def _without(frame: pd.DataFrame, ignore: list[str]) -> pd.DataFrame:
    names = [str(name) for name in frame.columns]
    for name in ignore:
        if name not in names:
            raise ValueError(
                f"Expected --ignore to name a column of the table; got {name!r}. "
                f"{did_you_mean(name, names)}"
            )
    return frame[[name for name in frame.columns if str(name) not in ignore]]


def _sampled(
    path: str, rows: int, seed: int, format: str | None, kinds: dict[str, Any], ignore: list[str]
) -> tables.Sample:
    """Read a table or, of a large one, a sample and the categories of all of it."""
    listed = [name for name, kind in kinds.items() if kind == Categorical()]
    return tables.sample(
        path,
        rows,
        seed,
        format_for(path, format),
        dtypes=_text(kinds),
        listed=listed,
        ignored=[*ignore, *(name for name in kinds if name not in listed)],
    )


def _with_categories(
    found: tables.Sample, kinds: dict[str, Any], ignore: list[str]
) -> dict[str, Any]:
    """Return kinds that know the categories of the rows that are not in the sample."""
    known = {name: v for name, v in found.categories.items() if v and name not in ignore}
    # Of a column that is neither declared nor text in the end, the values are no categories.
    wanted = {n: v for n, v in known.items() if n in kinds or _is_categories(found.frame[n])}
    return {**kinds, **{name: Categorical(in_order(v)) for name, v in wanted.items()}}


def _is_categories(column: Any) -> bool:
    return pd.api.types.infer_dtype(column.dropna()) in ("string", "date", "empty")


def _like(frame: pd.DataFrame, path: str, rows: int, seed: int, format: str | None) -> pd.DataFrame:
    """Read another table with the columns and, from text, the types of this one."""
    kept = {c: t for c, t in frame.dtypes.items() if t.kind in "mM"}
    text = {c: str for c in frame.columns if pd.api.types.infer_dtype(frame[c]) == "string"}
    names = [str(name) for name in frame.columns]
    return tables.sample(
        path, rows, seed, format_for(path, format), names, {**text, **kept}, ignored=names
    ).frame


def _tell(model: Any, facts: dict[str, Any], crowded: tuple[str, ...]) -> None:
    some = facts["rows"] < facts["rows_in_file"]
    of = f", a random sample of {facts['rows_in_file']}," if some else ""
    note(
        f"Fitted {facts['rows']} rows{of} of {facts['columns']} columns in {facts['seconds']} s "
        f"({facts['steps']} steps, stopped by {facts['stopped']}); wrote {facts['output']}."
    )
    for name in crowded:
        note(
            f"Note on {name}: it has more distinct values than can be listed, and only those of "
            "the sample are known: leave it out if it is an identifier."
        )
    if "validation_log_density" in facts:
        note(f"Log density of the validation rows: {facts['validation_log_density']:.4f} nats.")
    for column in model.schema_:
        for remark in column.notes:
            note(f"Note on {column.name}: {remark}.")


def _values(column: Any) -> str:
    """Describe the values of a column in a line."""
    kind = column.kind
    if not isinstance(kind, Categorical):
        return repr(kind).partition("(")[2].removesuffix(")")
    shown = [str(value) for value in (kind.categories or ())[:5]]
    more = ["..."] if len(kind.categories or ()) > 5 else []
    listed = (" < " if column.ordered else ", ").join(shown + more)
    return f"{len(kind.categories or ())}: {listed}"
