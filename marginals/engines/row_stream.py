"""Batches of a table that is larger than memory, shuffled: a function of the step alone."""

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from marginals.cells.evidence import Evidence
from marginals.columns import Schema, encode
from marginals.engines.model_columns import model_frame
from marginals.io.arrow_tables import ArrowRows
from marginals.io.row_groups import Piece, piece_batches
from marginals.training.batches import Rows, make_rows


@final
class RowStream:
    """The training rows of each step, read from row groups with a shuffle buffer.

    In each epoch the pieces come in another order. Pieces with about `buffer` rows together are
    read into memory, shuffled and given out in batches; then the next ones. Which rows a step has
    depends on the seed and the step alone, so that a fit resumes where it stopped. Of several
    processes each reads its own pieces.

    Args:
        schema: of the columns.
        pieces: of the table; see `marginals.io.row_groups.pieces`.
        batch: rows of a step.
        buffer: rows in memory at a time.
        read_rows: rows to read and encode at a time.
        seed: seed for the order.
        rank, world: which of how many processes this is.
        skip: says which rows, by their numbers, are held out.
    """

    def __init__(
        self,
        schema: Schema,
        pieces: Sequence[Piece],
        *,
        batch: int,
        buffer: int,
        read_rows: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        skip: Callable[[Any], Any] | None = None,
    ) -> None:
        filled = [piece for piece in pieces if piece.rows]
        # With fewer pieces than processes, some read the same ones in another order.
        self.pieces = filled[rank::world] if len(filled) >= world else filled
        self.schema, self.batch, self.buffer = schema, batch, buffer
        self.read_rows, self.seed, self.rank, self.skip = read_rows, seed, rank, skip
        self._known: tuple[int, int] = (0, 0)  # an epoch and its first step
        self._held: tuple[tuple[int, int], Rows] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}  # a copy reads its own rows

    def __call__(self, step: int) -> Rows:
        """Return the rows of a step."""
        epoch, first = self._known if step >= self._known[1] else (0, 0)
        while True:
            windows = self._windows(epoch)
            starts = [0, *itertools.accumulate(self._steps(window) for window in windows)]
            if step < first + starts[-1]:
                break
            epoch, first = epoch + 1, first + starts[-1]
        self._known = epoch, first
        number = bisect.bisect_right(starts, step - first) - 1
        rows = self._window(epoch, number, windows[number])
        size = min(self.batch, len(rows))
        place = (step - first - starts[number]) * size
        # Held-out rows make a window shorter than its pieces: its last step may begin again.
        return rows.take(torch.arange(place, place + size) % len(rows))

    def _windows(self, epoch: int) -> list[list[Piece]]:
        """Divide the pieces of an epoch into windows that fit the buffer."""
        order = np.random.default_rng([self.seed, epoch, self.rank]).permutation(len(self.pieces))
        windows: list[list[Piece]] = [[]]
        for at in order:
            held = sum(piece.rows for piece in windows[-1])
            if windows[-1] and held + self.pieces[at].rows > self.buffer:
                windows.append([])
            windows[-1].append(self.pieces[at])
        return windows

    def _steps(self, window: Sequence[Piece]) -> int:
        return max(1, sum(piece.rows for piece in window) // self.batch)

    def _window(self, epoch: int, number: int, pieces: Sequence[Piece]) -> Rows:
        """Read the rows of a window and shuffle them."""
        if self._held is None or self._held[0] != (epoch, number):
            self._held = None  # before the next one is read
            parts = [part for piece in pieces for part in self._encoded(piece)]
            rows = make_rows(stacked(parts), None, "data")
            seeds = [self.seed, epoch, number, self.rank]
            order = np.random.default_rng(seeds).permutation(len(rows))
            self._held = (epoch, number), rows.take(torch.from_numpy(order))
        return self._held[1]

    def _encoded(self, piece: Piece) -> list[Evidence]:
        names = [str(name) for name in self.schema.names]
        parts, start = [], piece.start
        for table in piece_batches(piece, self.read_rows, names):
            frame = model_frame(self.schema, ArrowRows(table), start)
            if self.skip is not None:
                frame = frame[~self.skip(frame.index.to_numpy())]
            start += table.num_rows
            evidence = encode(self.schema, frame).evidence.select(range(len(self.schema)))
            parts.append(in_single_precision(evidence))
        return parts


def in_single_precision(evidence: Evidence) -> Evidence:
    """Return evidence in float32, as models are trained: half the memory."""
    lower = evidence.lower.float()
    upper = evidence.upper.float() if evidence.intervals else lower
    return Evidence(evidence.columns, lower, upper, evidence.sets, evidence.intervals)


def stacked(parts: Sequence[Evidence]) -> Evidence:
    """Return the rows of several pieces of evidence about the same columns."""
    intervals = frozenset[int]().union(*(part.intervals for part in parts))
    lower = torch.cat([part.lower for part in parts])
    upper = torch.cat([part.upper for part in parts]) if intervals else lower
    return Evidence(parts[0].columns, lower, upper, {}, intervals)
