"""What can be done with each row of a table: one job for each, whichever engine runs it.

A job is plain data, which engines send to their workers. `job.on(model)` prepares whatever all rows
share and returns the function that works on rows as a file stores them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

import numpy as np
import pandas as pd
import torch

from marginals.columns import Categorical, Column, Integer, Schema, decode
from marginals.columns.table_coercion import as_frame
from marginals.engines.row_queries import query_probability, read_query
from marginals.io.stored_rows import Edit, StoredRows
from marginals.queries.imputation import Imputation, check_level
from marginals.queries.table_density import TableView

Rows: TypeAlias = StoredRows | pd.DataFrame
# Stored rows, the model's columns of them, and a seed.
Work = Callable[[StoredRows, pd.DataFrame, int], Iterator[Rows]]

ANOMALY_DRAWS = 2000  # of the model, which rows are compared with


class Job(Protocol):
    """The interface of a job, as engines use it."""

    @property
    def copied(self) -> Sequence[str] | None:
        """The columns to read in addition to the model's; None for all."""
        ...

    @property
    def copies(self) -> int:
        """The number of output rows per input row."""
        ...

    def on(self, model: TableView) -> Work:
        """Return the job as a function on rows.

        Args:
            model: the fitted model.
        """
        ...


class AddsColumns(ABC):
    """A job that adds columns to those of `keep`, a row for each row."""

    keep: Sequence[str]
    copies = 1

    @property
    def copied(self) -> Sequence[str]:
        """The columns to read besides those of the model."""
        return self.keep

    @abstractmethod
    def added(self, model: TableView) -> Callable[[pd.DataFrame], dict[str, Any]]:
        """Return a function of the model's columns of some rows to the columns that are added."""

    def on(self, model: TableView) -> Work:
        """Return the job as a function on rows."""
        added = self.added(model)

        def work(rows: StoredRows, frame: pd.DataFrame, seed: int) -> Iterator[Rows]:
            yield _with(rows, self.keep, added(frame))

        return work


@final
@dataclass(frozen=True)
class Score(AddsColumns):
    """Add the log density of each row, `MDMA.score_samples`, in a column log_density.

    Args:
        keep: columns to copy.
    """

    keep: Sequence[str] = ()

    def added(self, model: TableView) -> Callable[[pd.DataFrame], dict[str, Any]]:
        """Return a function of rows to the columns that are added."""
        return lambda frame: {"log_density": _floats(model.logpdf(frame))}


@final
@dataclass(frozen=True)
class Anomalies(AddsColumns):
    """Add an anomaly score for each row, and the cell that stands out most.

    The new columns are anomaly_score, `MDMAOutlierDetector.score_samples` compared with draws of
    the model; and anomaly_cell and anomaly_tail, the column and tail from `blame`.

    Args:
        keep: columns to copy.
        cells: whether to find the cells, which takes several times as long.
    """

    keep: Sequence[str] = ()
    cells: bool = True

    def added(self, model: TableView) -> Callable[[pd.DataFrame], dict[str, Any]]:
        """Return a function of rows to the columns that are added."""
        detector = anomaly_detector(model)

        def columns(frame: pd.DataFrame) -> dict[str, Any]:
            added: dict[str, Any] = {"anomaly_score": _floats(detector.score_samples(frame))}
            if self.cells:
                found = detector.blame(frame)
                cells = [None if pd.isna(name) else str(name) for name in found["column"]]
                added["anomaly_cell"] = pd.Series(cells, dtype="str")
                added["anomaly_tail"] = _floats(found["tail"])
            return added

        return columns


def anomaly_detector(model: TableView) -> Any:
    """Return a detector that compares rows with draws of a fitted model."""
    from marginals.estimators.outlier_detector import MDMAOutlierDetector  # loads scikit-learn

    detector = MDMAOutlierDetector(model, samples=ANOMALY_DRAWS)
    return detector.fit(as_frame(model.sample(ANOMALY_DRAWS, random_state=0), model.schema_.names))


@final
@dataclass(frozen=True)
class Impute:
    """Fill missing cells, as `MDMA.impute`; all other cells are copied unchanged.

    Integer columns get integers. With several draws, the columns row and draw come first.

    Args:
        method: "mean", "median", "mode" or "draw".
        draws: the number of completed copies of each row, for the method "draw".
        columns: the columns to fill, added if absent; by default the table's columns.
    """

    method: str = "mean"
    draws: int = 1
    columns: Sequence[Any] = ()
    copied = None

    @property
    def copies(self) -> int:
        """The number of output rows per input row."""
        return self.draws

    def on(self, model: TableView) -> Work:
        """Return the job as a function on rows."""
        schema, columns = model.schema_, list(self.columns) or None

        def work(rows: StoredRows, frame: pd.DataFrame, seed: int) -> Iterator[Rows]:
            full = model.impute(
                frame, method=self.method, draws=self.draws, random_state=seed, columns=columns
            )
            for draw, one in enumerate(full if isinstance(full, list) else [full]):
                before = {"row": frame.index.to_series(), "draw": np.full(len(frame), draw)}
                yield rows.edited(
                    Edit(
                        fills=_fills(schema, frame, one),
                        before=before if self.draws > 1 else {},
                        after={
                            str(name): _typed(schema, name, one[name])
                            for name in one.columns
                            if name not in frame.columns
                        },
                    )
                )

        return work


@final
@dataclass(frozen=True)
class ImputeInterval:
    """Add the central interval of each cell, in columns such as age_lower and age_upper.

    An observed cell is its own interval. The ends equal those of `MDMA.impute_interval`. Unordered
    categories have no interval.

    Args:
        level: the probability that a missing cell lies between its ends.
    """

    level: float = 0.9
    copied, copies = None, 1

    def on(self, model: TableView) -> Work:
        """Return the job as a function on rows."""
        check_level(self.level)
        schema = model.schema_

        def work(rows: StoredRows, frame: pd.DataFrame, seed: int) -> Iterator[Rows]:
            table = Imputation(model.module_, schema, frame)
            sides = dict(zip(("lower", "upper"), table.bounds(self.level), strict=True))
            added = {
                f"{name}_{side}": ends[name].astype(frame[name].dtype)
                for name in frame.columns
                if _has_order(schema[name])
                for side, ends in sides.items()
            }
            yield rows.edited(Edit(after=added))

        return work


@final
@dataclass(frozen=True)
class SampleGiven:
    """Draw rows given each row, as `MDMA.sample`: columns row, draw and all of the model's.

    Args:
        draws: the number of draws for each row.
    """

    draws: int = 1
    copied = ()

    @property
    def copies(self) -> int:
        """The number of output rows per input row."""
        return self.draws

    def on(self, model: TableView) -> Work:
        """Return the job as a function on rows."""

        def work(rows: StoredRows, frame: pd.DataFrame, seed: int) -> Iterator[Rows]:
            drawn = model.sample(self.draws, given=frame, random_state=seed)
            table = as_frame(drawn, model.schema_.names).rename(columns=str).reset_index(drop=True)
            table.insert(0, "row", np.repeat(frame.index.to_numpy(), self.draws))
            table.insert(1, "draw", np.tile(np.arange(self.draws), len(frame)))
            yield table

        return work


@final
@dataclass(frozen=True)
class Probability(AddsColumns):
    """Add the probability of an event given each row, as `MDMA.prob`, in a column probability.

    The evidence is the query's, plus the row's cells in all columns that the query does not name.
    In a table with columns age, city and income, `P(income > 50000 | city = Oslo)` is the
    probability given Oslo and the row's age.

    Args:
        query: a query such as "P(income > 50000)", or "income > 50000".
        given: the table's columns to use as evidence; by default all that the query does not name.
        keep: columns to copy.
    """

    query: str
    given: Sequence[str] | None = None
    keep: Sequence[str] = ()

    def added(self, model: TableView) -> Callable[[pd.DataFrame], dict[str, Any]]:
        """Return a function of rows to the columns that are added."""
        query = read_query(model, self.query)

        def columns(frame: pd.DataFrame) -> dict[str, Any]:
            chosen = [n for n in frame.columns if self.given is None or str(n) in self.given]
            return {"probability": query_probability(model, query, frame[chosen])}

        return columns


@final
@dataclass(frozen=True)
class Predict(AddsColumns):
    """Add the prediction of one column given the others, in a column such as price_predicted.

    Numbers are predicted by their mean (`MDMARegressor.predict`), categories by the most likely
    one (`MDMAClassifier.predict`).

    Args:
        target: the column to predict; its own cells, if the table has any, are ignored.
        keep: columns to copy.
    """

    target: str
    keep: Sequence[str] = ()

    def added(self, model: TableView) -> Callable[[pd.DataFrame], dict[str, Any]]:
        """Return a function of rows to the columns that are added."""
        from marginals.estimators.predictors import (  # loads scikit-learn
            MDMAClassifier,
            MDMARegressor,
        )

        column = model.schema_[self.target]
        kind = MDMAClassifier if isinstance(column.kind, Categorical) else MDMARegressor
        predictor = kind(model, target=column.name).fit(None)

        return lambda frame: {f"{self.target}_predicted": pd.Series(predictor.predict(frame))}


# Draws without a table --------------------------------------------------------------------------


def draw_counts(rows: int, most: int) -> list[int]:
    """Return how many rows to draw in each batch; no rows are one empty batch.

    >>> draw_counts(50, 20), draw_counts(0, 20)
    ([20, 20, 10], [0])
    """
    return [min(most, rows - start) for start in range(0, max(rows, 1), most)]


def drawn_batch(model: TableView, count: int, given: Any, seed: int, batch: int) -> pd.DataFrame:
    """Draw the rows of one batch; `given` is one piece of evidence, or None."""
    drawn = model.sample(count, given=given, random_state=batch_seed(seed, batch))
    table: pd.DataFrame = as_frame(drawn, model.schema_.names)
    return table


# Parts ------------------------------------------------------------------------------------------


def batch_seed(seed: int, batch: int) -> int:
    """Return the seed for a batch: the first has the given one."""
    return seed if batch == 0 else int(np.random.SeedSequence([seed, batch]).generate_state(1)[0])


def _floats(values: Any) -> Any:
    return np.asarray(values, dtype=np.float64)


def _with(rows: StoredRows, keep: Sequence[str], added: dict[str, Any]) -> Rows:
    """Return the columns of `keep` and those that were added."""
    absent = [name for name in keep if name not in rows.names]
    if absent:
        raise ValueError(
            f"Expected the columns {absent} of `keep` (--keep) in the table; it has "
            f"{list(rows.names)}."
        )
    return rows.edited(Edit(keep=keep, after=added))


def _fills(schema: Schema, frame: pd.DataFrame, full: pd.DataFrame) -> dict[str, dict[int, Any]]:
    """Return the cells that are missing in one table and not in the other, by column and row."""
    fills: dict[str, dict[int, Any]] = {}
    for name in frame.columns:
        gaps = np.flatnonzero(frame[name].isna() & full[name].notna())
        values = full[name].iloc[gaps].tolist()
        if isinstance(schema[name].kind, Integer):
            values = list(map(round, values))  # the column keeps its type
        fills[str(name)] = dict(zip(gaps.tolist(), values, strict=True))
    return fills


def _typed(schema: Schema, name: Any, cells: pd.Series) -> pd.Series:
    """Return the cells of a new column; without any, an empty column of the type fitted."""
    return cells if len(cells) else decode(Schema((schema[name],)), torch.empty(0, 1)).iloc[:, 0]


def _has_order(column: Column) -> bool:
    return not isinstance(column.kind, Categorical) or column.ordered
