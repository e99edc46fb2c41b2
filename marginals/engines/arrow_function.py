"""A fitted model as a function of Arrow record batches, for any engine that has them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import pandas as pd

from marginals.engines import model_columns
from marginals.engines.row_jobs import Job, Rows, Work, batch_seed
from marginals.io.arrow_tables import ArrowRows, arrow_table, pyarrow
from marginals.io.safe_files import Path
from marginals.io.stored_rows import StoredRows
from marginals.queries.table_density import TableDensity, TableView
from marginals.queries.table_files import load_view


@final
class ArrowFunction:
    """Apply a job of a fitted model to Arrow record batches.

    An engine sends this object to its workers. Each worker loads the model once, when its first
    rows arrive. Results equal those of the `MDMA` methods on the same rows, to the last bit. Memory
    is bounded: large batches are processed in parts.

    Args:
        model: a fitted model, or its file: a path, or an address that pyarrow can open.
        job: a job such as `Score()`; see `marginals.engines.row_jobs`.
        handle_unknown: how to treat categories not seen in training: "error" or "missing"; None
            keeps the model's setting.
        device: the device for a model that is loaded from a file.
        seed: seed for draws; each batch derives its own from its number.
        most_rows: the most rows to read, process and write at a time; None for the default.

    >>> import pyarrow as pa
    >>> from marginals import MDMA
    >>> from marginals.engines import ArrowFunction, Score
    >>> frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0] * 10})
    >>> model = MDMA(width=2, max_steps=5, random_state=0).fit(frame)
    >>> batch = pa.RecordBatch.from_pandas(frame.head(3))
    >>> found = ArrowFunction(model, Score(keep=["x"]))(batch)
    >>> found.schema.names, found.num_rows
    (['x', 'log_density'], 3)
    """

    def __init__(
        self,
        model: Path | TableDensity,
        job: Job,
        *,
        handle_unknown: str | None = None,
        device: str = "cpu",
        seed: int = 0,
        most_rows: int | None = None,
    ) -> None:
        self.model: Any = os.fspath(model) if isinstance(model, os.PathLike) else model
        self.job, self.handle_unknown = job, handle_unknown
        self.device, self.seed = device, seed
        self.most_rows = model_columns.ROWS if most_rows is None else most_rows
        self._loaded: tuple[TableView, Work] | None = None

    def __call__(self, batch: Any, number: int = 0, start: int = 0) -> Any:
        """Return the result for some rows: a table for a table, else a record batch.

        Args:
            batch: a `pyarrow.RecordBatch` or `pyarrow.Table`.
            number: which batch of the whole table this is: it decides the seed for draws.
            start: the number of the first row in the whole table.
        """
        pa = pyarrow()
        whole = isinstance(batch, pa.Table)
        table = batch if whole else pa.Table.from_batches([batch])
        parts = [_arrow(part) for part in self.rows(ArrowRows(table), number, start)]
        found = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
        if whole:
            return found
        found = found.unify_dictionaries()
        (one,) = found.to_batches() or [pa.RecordBatch.from_pylist([], schema=found.schema)]
        return one

    def rows(
        self,
        rows: StoredRows,
        number: int = 0,
        start: int = 0,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Iterator[Rows]:
        """Yield the results for stored rows, in parts; the file may have any format.

        Args:
            rows: rows as the file stores them.
            number, start: as in a call.
            reading: a context for reading cells, which may add explanations to errors.
        """
        view, work = self._prepared()
        most = max(1, self.most_rows // self.job.copies)
        for part, first in enumerate(range(0, max(1, len(rows)), most)):
            some = rows if len(rows) <= most else rows.take(range(len(rows))[first : first + most])
            with reading():
                frame = model_columns.model_frame(view.schema_, some, start + first)
            yield from work(some, frame, batch_seed(batch_seed(self.seed, number), part))

    @property
    def view(self) -> TableView:
        """The loaded model."""
        return self._prepared()[0]

    def columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of a table that the job needs.

        Args:
            names: the columns of the table.
        """
        own = {str(name) for name in self.view.schema_.names}
        kept = names if self.job.copied is None else self.job.copied
        return [name for name in names if name in own or name in kept]

    def _prepared(self) -> tuple[TableView, Work]:
        """Load and prepare the model, once."""
        if self._loaded is None:
            view = self._view()
            self._loaded = view, self.job.on(view)
        return self._loaded

    def _view(self) -> TableView:
        model = load_view(self.model, self.device) if isinstance(self.model, str) else self.model
        if not isinstance(model, TableDensity):
            raise ValueError(
                f"Expected {self.model!r} to hold a model of a table; got a bare "
                f"{type(model).__name__}. Fit it with `marginals fit`, or save a `marginals.MDMA`."
            )
        view = TableView(*model._parts(), model._kind(), model._row_count())
        return view if self.handle_unknown is None else view.reading(self.handle_unknown)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}  # a worker loads and prepares its own


def _arrow(part: Rows) -> Any:
    """Return a result as an Arrow table."""
    if isinstance(part, ArrowRows):
        return part.table
    assert isinstance(part, pd.DataFrame)
    return arrow_table(part).replace_schema_metadata()
