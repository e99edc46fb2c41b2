"""Fit a table that is larger than memory, in one process or in several."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.cells.evidence import Evidence
from marginals.columns import Categorical, Schema, encode, infer
from marginals.columns.plain_values import did_you_mean, in_order
from marginals.engines import model_columns
from marginals.engines.member_pools import RankPool
from marginals.engines.row_stream import RowStream, in_single_precision
from marginals.estimators.mdma import MDMA
from marginals.io.arrow_tables import pyarrow, to_pandas
from marginals.io.row_groups import pieces, table_schema
from marginals.io.row_sampling import sample
from marginals.io.safe_files import Path
from marginals.queries.named_rows import places, seed_of
from marginals.runtime.devices import device_of
from marginals.selection.processes import Pool
from marginals.training import ranks

SAMPLE = 100_000  # rows that show the kinds of columns, and that models start from
_HELD = 20_000  # rows to judge by
BUFFER = 262_144  # rows in memory at a time
_BATCH = 500  # rows of a step of a single model
_MEMBER_BATCH = 1000  # and of the members of a mixture


def fit_stream(
    model: MDMA,
    path: Path,
    *,
    buffer: int = BUFFER,
    sampled: int = SAMPLE,
    checkpoint: Path | None = None,
    ignore: Collection[str] = (),
    pool: Pool | None = None,
) -> MDMA:
    """Fit a model to all rows of a Parquet or Arrow table, or a folder of them, in bounded memory.

    One pass over all rows infers the column kinds from a random sample, and from the categories and
    extremes of the whole table. Training then reads row groups in random order through a shuffle
    buffer.

    By default the members of the effort's mixture are fitted, each to the stream: in local
    processes, in torchrun's, or in a pool's. With options of a single model, only that model is
    fitted; under torchrun all processes train it together, each on its own row groups, and average
    their gradients.

    Args:
        model: an unfitted model.
        path: the table: a file, a folder or an address.
        buffer: the number of rows in memory at a time, in each process.
        sampled: the number of rows in the sample.
        checkpoint: for a single model, a file that the fit resumes from if it exists, and keeps up
            to date.
        ignore: columns to ignore.
        pool: where to fit members, such as `marginals.engines.member_pools.RayPool()`.

    Returns:
        The fitted model, in every process.
    """
    single = model._is_single()
    if checkpoint is not None and not single:
        raise ValueError(
            "Expected `checkpoint` only with options of a single model, such as tensor='ht'; got "
            "it for a mixture, whose members start over. Choose a model, or leave it out."
        )
    seed, every = seed_of(model.random_state), pieces(path, model_columns.ROWS)
    count = sum(piece.rows for piece in every)
    held = Held(max(10, count // _HELD), seed)
    frame, judges = _read_once(model, path, sampled, seed, ignore, held)
    schema = infer(frame, model.columns, guess=model.guess, unknown=model.handle_unknown)
    reading = schema.reading(model.handle_unknown)
    world = ranks.world() if single else 1
    batch = model.batch_size or (_BATCH if single else _MEMBER_BATCH)
    stream = RowStream(
        reading,
        every,
        batch=max(1, batch // world),
        buffer=buffer,
        read_rows=model_columns.ROWS,
        seed=seed,
        rank=ranks.rank() if single else 0,
        world=world,
        skip=held,
    )
    data = _evidence(reading, frame)
    judging = _evidence(reading, judges if len(judges) else frame)
    device, options = device_of(model.device), schema.build_options
    focus = places(schema, model.focus)
    if single:
        learned = model._fit_one(
            *(data, judging, None, options, device, seed),
            rows=count,
            focus=focus,
            stream=stream,
            checkpoint=checkpoint,
        )
    else:
        learned = model._search(
            data,
            judging,
            options=options,
            device=str(device),
            seed=seed,
            focus=focus,
            stream=stream,
            size=count,
            pool=pool or (RankPool() if ranks.is_shared() else None),
        )
    model._keep_fit(learned, schema, count, "frame")
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
        return numbers % self.every == self.offset % self.every


def _evidence(schema: Schema, frame: pd.DataFrame) -> Evidence:
    return in_single_precision(encode(schema, frame).evidence.select(range(len(schema))))


def _read_once(
    model: MDMA, path: Path, rows: int, seed: int, ignore: Collection[str], held: Held
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read all rows once; return a sample that has the extremes, and the rows held out.

    The categories of the whole table go to the model's columns.
    """
    pa = pyarrow()
    kept: dict[tuple[str, str], tuple[Any, Any]] = {}
    judges: list[Any] = []
    start = 0

    def watch(table: Any) -> None:
        nonlocal start
        _keep_extremes(table, kept)
        judges.append(table.filter(held(np.arange(start, start + table.num_rows))))
        start += table.num_rows

    declared: Mapping[Any, Any] = model.columns or {}
    names = _wanted(path, ignore)
    found = sample(path, rows, seed, columns=names, ignored=list(map(str, declared)), watch=watch)
    kinds = {
        name: Categorical(in_order(values)) for name, values in found.categories.items() if values
    }
    model.set_params(columns={**kinds, **declared} or None)
    extremes = [row for _, row in kept.values()]
    frames = [found.frame, *([to_pandas(pa.concat_tables(extremes))] if extremes else [])]
    return pd.concat(frames, ignore_index=True), to_pandas(pa.concat_tables(judges))


def _wanted(path: Path, ignore: Collection[str]) -> list[str]:
    """Return the columns to fit; refuse names in `ignore` that the table lacks."""
    names = list(table_schema(path).names)
    for name in ignore:
        if name not in names:
            raise ValueError(
                f"Expected `ignore` (--ignore) to name columns of the table; got {name!r}. "
                f"{did_you_mean(name, names)}"
            )
    return [name for name in names if name not in ignore]


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
