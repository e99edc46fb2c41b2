"""Run a job over a table on a Ray cluster: pieces in, Parquet parts out.

Ray Data schedules the pieces over a pool of actors, each of which loads the model once, and runs a
piece again if its actor dies. A piece writes its own part, whole or not at all and always under the
same name, so a piece that runs twice leaves one part. Pieces and batches are those of the local
engine, and so are the numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import torch

from marginals.engines import model_columns
from marginals.engines.arrow_function import ArrowFunction
from marginals.engines.ray_cluster import join_cluster
from marginals.engines.row_jobs import Rows, draw_counts, drawn_batch
from marginals.io.addresses import (
    is_folder,
    joined,
    make_folder,
    table_files,
    writing_address,
)
from marginals.io.arrow_tables import ArrowRows, ArrowSink
from marginals.io.row_groups import Piece, piece_batches, pieces
from marginals.io.safe_files import FileError, Path
from marginals.queries.table_files import load_view


def run(
    function: ArrowFunction,
    path: Path,
    output: str,
    *,
    workers: int | None = None,
    address: str | None = None,
) -> int:
    """Run a job over a Parquet or Arrow table, or a folder of them; return the rows written.

    Args:
        function: the job of a model, given by its file.
        path: the table: a file, a folder or an address that all workers can read.
        output: a folder, made if it does not exist, that all workers can write to.
        workers: the number of actors; None for one on each CPU, or on each GPU if there are some.
        address: of the cluster; None starts one on this machine, or joins that of RAY_ADDRESS.
    """
    found = pieces(path, function.most_rows)
    names = [field.name for field in _schema(found[0])]
    work = _TablePieces(function, found, output, tuple(function.columns(names)))
    return _run(work, len(found), output, workers, address)


def sample(
    model: str,
    count: int,
    given: Any,
    output: str,
    *,
    seed: int = 0,
    workers: int | None = None,
    address: str | None = None,
) -> int:
    """Draw rows given one piece of evidence, or none; return the rows written.

    Args:
        model: the model's file.
        count: how many rows to draw.
        given: the evidence.
        output, workers, address: as in `run`.
        seed: seed for the draws.
    """
    counts = draw_counts(count, model_columns.ROWS)
    work = _Draws(model, given, counts, output, seed)
    return _run(work, len(counts), output, workers, address)


def _run(work: Any, count: int, output: str, workers: int | None, address: str | None) -> int:
    """Run so many pieces of work; Ray restarts actors that die, and runs their pieces again."""
    ray, cpus, gpus = join_cluster(address)
    _prepare(output)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    most = max(1, min(workers or gpus or cpus, count))
    done = ray.data.range(count, override_num_blocks=count).map_batches(
        _Worker,
        fn_constructor_args=(work,),
        batch_size=1,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
        num_gpus=1 if gpus else 0,
    )
    counted = {int(row["id"]): int(row["rows"]) for row in done.iter_rows()}
    return sum(counted.values())


def _schema(piece: Piece) -> Any:
    first = next(piece_batches(piece, 1))
    return first.schema


def _prepare(output: str) -> None:
    """Make the folder of the parts; refuse one that holds a table already."""
    if is_folder(output):
        try:
            held = table_files(output)
        except IsADirectoryError:
            return
        raise FileError(
            f"Expected the folder {output!r} to hold no table; it has {held[0].address!r}. Choose "
            "another folder, or remove its parts."
        )
    make_folder(output)


@final
class _Worker:
    """An actor: it keeps the work, with the model in it, for all of its pieces."""

    def __init__(self, work: Any) -> None:
        self.work = work
        if torch.cuda.is_available():  # Ray shows an actor only the GPU that it holds
            work.device = "cuda"

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        numbers = batch["id"].tolist()
        return {"id": numbers, "rows": [self.work(number) for number in numbers]}


@final
@dataclass
class _TablePieces:
    """What a worker does with a piece of a table."""

    function: ArrowFunction
    pieces: list[Piece]
    output: str
    columns: tuple[str, ...]
    device: str = "cpu"

    def __call__(self, number: int) -> int:
        piece, self.function.device = self.pieces[number], self.device
        return _write_part(self.output, number, self._rows(piece))

    def _rows(self, piece: Piece) -> Iterator[Rows]:
        start = piece.start
        batches = piece_batches(piece, self.function.most_rows, self.columns)
        for place, table in enumerate(batches):
            yield from self.function.rows(ArrowRows(table), piece.batch + place, start)
            start += table.num_rows


@final
@dataclass
class _Draws:
    """What a worker does with a batch of draws."""

    model: str
    given: Any
    counts: list[int]
    output: str
    seed: int
    device: str = "cpu"
    view: Any = None

    def __call__(self, number: int) -> int:
        self.view = self.view or load_view(self.model, self.device)
        drawn = drawn_batch(self.view, self.counts[number], self.given, self.seed, number)
        return _write_part(self.output, number, [drawn])


def _write_part(output: str, number: int, parts: Iterable[Rows]) -> int:
    """Write a part of the output, whole or not at all; return its rows."""
    written = 0
    with writing_address(joined(output, f"part-{number:06d}.parquet")) as file:
        sink = ArrowSink(file, "parquet", stream=False)
        for part in parts:
            sink.append(part)
            written += len(part)
        sink.close()
    return written
