"""Fit a table that is larger than memory, in one process or in several."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.cells.evidence import Evidence
from marginals.columns import Categorical, Schema, encode, infer
from marginals.columns.plain_values import in_order
from marginals.engines import model_columns
from marginals.engines.row_stream import RowStream, in_single_precision
from marginals.estimators.mdma import MDMA
from marginals.io.arrow_tables import pyarrow, to_pandas
from marginals.io.row_groups import piece_batches, pieces, table_schema
from marginals.io.row_sampling import Sample, sample
from marginals.io.safe_files import Path
from marginals.queries.named_rows import places, seed_of
from marginals.runtime.devices import device_of
from marginals.training import ranks

_SAMPLE = 100_000  # rows that show the kinds of columns, and that the model starts from
_HELD = 20_000  # rows to judge by
_BUFFER = 1_000_000  # rows in memory at a time


def fit_stream(
    model: MDMA,
    path: Path,
    *,
    buffer: int = _BUFFER,
    sampled: int = _SAMPLE,
    checkpoint: Path | None = None,
    ignore: Collection[str] = (),
) -> MDMA:
    """Fit one model to all rows of a Parquet or Arrow table, or of a folder of them.

    Kinds of columns and the start come from a random sample, together with the categories and the
    extremes of all rows. Training then reads row groups
    in a random order through a shuffle buffer: memory does not grow with the table. If torchrun
    started several processes, each reads its own row groups, and their gradients are averaged.

    Args:
        model: an unfitted model with the options of a single one, such as `MDMA(tensor="ht")`;
            without any, a tree is fitted.
        path: the table: a file, a folder or an address.
        buffer: the rows in memory at a time, in each process.
        sampled: the rows of the sample.
        checkpoint: a file from which a fit resumes if it exists, and which it keeps up to date.
        ignore: columns to leave out.

    Returns:
        The fitted model, in every process.
    """
    seed = seed_of(model.random_state)
    found = _sampled(model, path, sampled, seed, ignore)
    names = list(found.frame.columns)
    every = max(10, found.rows // _HELD)
    held = Held(every, seed % every)
    extremes, judges = _pass(path, names, held)
    frame = pd.concat([found.frame, extremes], ignore_index=True)
    schema = infer(frame, model.columns, guess=model.guess, unknown=model.handle_unknown)
    reading = schema.reading(model.handle_unknown)
    stream = RowStream(
        reading,
        pieces(path, model_columns.ROWS),
        batch=max(1, (model.batch_size or 500) // ranks.world()),
        buffer=buffer,
        read_rows=model_columns.ROWS,
        seed=seed,
        rank=ranks.rank(),
        world=ranks.world(),
        skip=held,
    )
    learned = model._fit_one(
        _evidence(reading, frame),
        _evidence(reading, judges if len(judges) else frame),
        None,
        schema.build_options,
        device_of(model.device),
        seed,
        rows=found.rows,
        focus=places(schema, model.focus),
        stream=stream,
        checkpoint=checkpoint,
    )
    model._keep_fit(learned, schema, found.rows, "frame")
    return model


@final
@dataclass(frozen=True)
class Held:
    """Which rows are held out: one of every so many, by their numbers.

    >>> Held(10, 3)(np.arange(8)).tolist()
    [False, False, False, True, False, False, False, False]
    """

    every: int
    offset: int

    def __call__(self, numbers: Any) -> Any:
        """Say which of some rows are held out."""
        return numbers % self.every == self.offset


def _evidence(schema: Schema, frame: pd.DataFrame) -> Evidence:
    return in_single_precision(encode(schema, frame).evidence.select(range(len(schema))))


def _sampled(model: MDMA, path: Path, rows: int, seed: int, ignore: Collection[str]) -> Sample:
    """Draw a sample, and set the categories of the whole table in the model's columns."""
    declared: Mapping[Any, Any] = model.columns or {}
    names = [name for name in table_schema(path).names if name not in ignore]
    found = sample(path, rows, seed, columns=names, ignored=list(map(str, declared)))
    kinds = {
        name: Categorical(in_order(values)) for name, values in found.categories.items() if values
    }
    model.set_params(columns={**kinds, **declared} or None)
    return found


def _pass(path: Path, names: list[str], held: Held) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read all rows: return those with the extremes of each column of numbers, and those held."""
    pa = pyarrow()
    kept: dict[tuple[str, str], tuple[Any, Any]] = {}
    judges: list[Any] = []
    for piece in pieces(path, model_columns.ROWS):
        start = piece.start
        for table in piece_batches(piece, model_columns.ROWS, names):
            _keep_extremes(table, kept)
            judges.append(table.filter(held(np.arange(start, start + table.num_rows))))
            start += table.num_rows
    extremes = [row for _, row in kept.values()]
    empty = pd.DataFrame(columns=names)
    return (
        to_pandas(pa.concat_tables(extremes)) if extremes else empty,
        to_pandas(pa.concat_tables(judges)) if judges else empty,
    )


def _keep_extremes(table: Any, kept: dict[tuple[str, str], tuple[Any, Any]]) -> None:
    """Keep the rows with the smallest and the largest value of each column of numbers so far."""
    types, compute = pyarrow("types"), pyarrow("compute")
    for field in table.schema:
        if not (types.is_integer(field.type) or types.is_floating(field.type)):
            continue
        column = table.column(field.name)
        for side, value in compute.min_max(column).as_py().items():
            old = kept.get((field.name, side))
            if value is not None and (old is None or _beyond(side, value, old[0])):
                at = compute.index(column, value).as_py()
                kept[field.name, side] = value, table.take([at])  # a slice would hold the table


def _beyond(side: str, value: Any, old: Any) -> bool:
    return bool(value < old if side == "min" else value > old)
