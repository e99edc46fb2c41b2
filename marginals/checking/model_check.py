"""The check of a model on a table: which rows are compared, and with what."""

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from marginals.cells import Evidence
from marginals.checking.calibration_check import calibration, levels_of
from marginals.checking.check_report import CheckReport, ranked_columns
from marginals.checking.known_cells import comparable, known_cells
from marginals.checking.margin_check import margin_distances
from marginals.checking.plain_questions import answered, plain_questions
from marginals.checking.row_rules import broken_rules
from marginals.checking.significance import judged
from marginals.densities import Density
from marginals.queries import TableView
from marginals.synthesis.binned_pairs import binned_pair_distances
from marginals.synthesis.comparable_cells import Cells, Floats, aligned
from marginals.synthesis.pair_distances import pair_differences
from marginals.training.progress_bar import ProgressBar

_CALIBRATED = 1000  # rows whose cells are each predicted from the others, in the seconds below
_CALIBRATION_SECONDS, _FIRST_ROWS, _CALIBRATED_AT_ONCE = 20.0, 5, 100
_FEWEST_DRAWS = 2000  # so that a share of 2 % has a small error in a small table, too
_MOST_COLUMNS = 100  # columns whose pairs are compared: 4,950 pairs
_MOST_PAIRS = 200  # worst pairs whose association is measured


def check(
    model: Any,
    x: Any,
    *,
    rows: int = 10_000,
    questions: int = 100,
    progress: bool | None = None,
    random_state: Any = 0,
) -> CheckReport:
    """Report how far to trust a model on a table; see `MDMA.check`.

    Args:
        model: a fitted model, or a marginal or conditional of one.
        x: a table with some of the model's columns; other columns are ignored.
        rows: the most rows to check; a larger table is sampled.
        questions: approximate number of plain questions.
        progress: show a progress bar; None shows it on a terminal only.
        random_state: seed for rows, questions and draws.
    """
    if rows < 2:
        raise ValueError(f"Expected `rows` to be at least 2; got {rows}. Give 10_000.")
    started = time.perf_counter()
    random = np.random.default_rng(check_random_state(random_state).randint(2**31))
    view = TableView(model.module_, model.schema_)  # whose samples are frames
    density, schema = view.module_, view.schema_
    every, notes = comparable(schema, x)
    frame = every
    if len(every) > rows:
        frame = every.iloc[np.sort(random.permutation(len(every))[:rows])]
        notes.append(f"a random sample of {rows} rows was checked; raise `rows` for more.")
    frame = frame.reset_index(drop=True)
    steps = _Steps(progress, 4 + questions)
    with steps.bar:
        steps.start("margins")
        found = {"margins": margin_distances(density, schema, frame)}
        steps.start("calibration")
        some = frame.iloc[random.permutation(len(frame))[:_CALIBRATED]]
        cells = known_cells(density, schema, some)
        levels = _levels(density, cells, random)
        if len(levels) < len(some):
            notes.append(f"calibration was checked on {len(levels)} rows, as time allowed.")
        found["calibration"] = calibration(schema, cells.columns, levels)
        steps.start("questions")
        made = plain_questions(frame, questions, random)
        found["questions"] = answered(view, frame, made, steps.advance)
        steps.start("draws")
        drawn = _drawn(view, frame, max(len(frame), min(_FEWEST_DRAWS, rows)), random)
        columns = aligned(frame, drawn)
        found["pairs"] = _pairs(columns, found["margins"], notes)
        steps.start("rules")
        found["rules"] = broken_rules(columns, frame, random)
    return CheckReport(
        ranked_columns(found),
        **found,
        levels=levels,
        rows=len(every),
        checked=len(frame),
        draws=len(drawn),
        seconds=time.perf_counter() - started,
        notes=tuple(notes),
    )


class _Steps:
    """The progress of a check: its parts, and the questions one by one."""

    def __init__(self, progress: bool | None, total: int) -> None:
        self.bar, self.total = ProgressBar(progress, label="check"), total
        self._done, self._text = 0, ""

    def start(self, text: str) -> None:
        """Name the part that runs."""
        self._text = text
        self.advance()

    def advance(self) -> None:
        """Count one step."""
        self._done += 1
        self.bar.update(min(self._done, self.total), self.total, self._text)


def _levels(density: Density, cells: Evidence, random: np.random.Generator) -> Floats:
    """Return the levels of as many rows as there is time for, (B, n)."""
    end, parts, first, count = time.perf_counter() + _CALIBRATION_SECONDS, [], 0, _FIRST_ROWS
    # Few rows first: a row with open cells in several coupled columns can take a second.
    while first < len(cells):
        parts.append(levels_of(density, cells.rows(slice(first, first + count)), random))
        if time.perf_counter() > end:
            break
        first, count = first + count, min(2 * count, _CALIBRATED_AT_ONCE)
    return np.concatenate(parts)


def _drawn(
    view: TableView, frame: pd.DataFrame, count: int, random: np.random.Generator
) -> pd.DataFrame:
    """Draw rows with the table's columns."""
    whole = len(frame.columns) == len(view.schema_)
    part = view if whole else view.marginal(list(frame.columns))
    drawn: pd.DataFrame = part.sample(count, random_state=int(random.integers(2**31)))
    return drawn[list(frame.columns)]


def _pairs(columns: list[Cells], margins: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Compare table and draws in each pair of columns, from the worst to the best."""
    if len(columns) > _MOST_COLUMNS:
        worst = set(margins["excess"].sort_values(ascending=False).index[:_MOST_COLUMNS])
        columns = [column for column in columns if column.name in worst]
        notes.append(
            f"pairs were compared among the {_MOST_COLUMNS} columns with the worst margins."
        )
    frame = judged(binned_pair_distances(columns))
    frame = frame.sort_values("excess", ascending=False, kind="stable", ignore_index=True)
    worst_pairs = frame[["first", "second"]].head(_MOST_PAIRS).itertuples(index=False)
    measured = pair_differences(columns, [(int(i), int(j)) for i, j in worst_pairs])
    measured = measured.rename(columns={"real": "table", "synthetic": "model"})
    names = {side: [columns[int(i)].name for i in frame[side]] for side in ("first", "second")}
    return frame.assign(**names).join(measured.drop(columns=["first", "second"]))
