"""What a check found, as frames, text, JSON and a picture."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.synthesis.comparable_cells import Floats
from marginals.synthesis.json_records import plain_record, records

_SHOWN = 8  # lines of each part in the text
_PARTS = ("margins", "pairs", "calibration", "questions", "rules")


@final
@dataclass(frozen=True)
class CheckReport:
    """Hold a report on how far to trust a model on a table; `print` shows it as text.

    Each frame has a column `off` that marks differences above 0.02 that chance does not explain
    (3.5 standard errors).

    Args:
        columns: one line per column, from worst to best: the excess over chance in its margin, its
            worst pair and its calibration, the share of its questions that are off, the share of
            draws that break one of its rules, and the sum of these, `score`.
        margins: one line per column: the Kolmogorov or total variation `distance` between the table
            and the model's exact marginal, its `noise` (the mean by chance), `pvalue`, and the
            shares of `missing` and `impossible` cells.
        pairs: one line per pair of columns, from worst to best: the `distance` between table and
            draws over bins of both columns, the part of it that the worse column explains `alone`,
            its `noise` and `pvalue`; for the worst pairs also an association, as in
            `synthesis_report`, in the `table` and in the `model`'s draws.
        calibration: one line per column: the Kolmogorov `distance` between its levels given the
            other columns and the uniform distribution, its `noise` and `pvalue`, and the
            `coverage` of the central 90 % interval.
        questions: plain questions in the query language: the answers of `model` and `table`, the
            standard `error` of the table's answer, and its number of `rows`.
        rules: rules that every checked row obeys: the share of draws that break them, `broken`,
            and the share expected by `chance`.
        levels: the levels behind `calibration`, (rows, columns), NaN where missing.
        rows: number of rows in the table.
        checked: number of rows checked.
        draws: number of rows drawn from the model.
        seconds: time taken.
        notes: what was skipped, and why.
    """

    columns: pd.DataFrame
    margins: pd.DataFrame
    pairs: pd.DataFrame
    calibration: pd.DataFrame
    questions: pd.DataFrame
    rules: pd.DataFrame
    levels: Floats = field(repr=False)
    rows: int
    checked: int
    draws: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, float]:
        """Return the report as a few numbers; lower is better."""
        found: dict[str, float] = {
            "margin_distance": _mean(self.margins["distance"]),
            "pair_distance": _mean(self.pairs["distance"]),
            "calibration_distance": _mean(self.calibration["distance"]),
        }
        for part in _PARTS:
            frame = getattr(self, part)
            found |= {part: len(frame), f"{part}_off": int(frame["off"].sum())}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the single levels as plain types, for JSON."""
        frames = {
            "columns": self.columns.reset_index(),
            "margins": self.margins.reset_index(),
            "pairs": self.pairs,
            "calibration": self.calibration.reset_index(),
            "questions": self.questions,
            "rules": self.rules,
        }
        return {
            **{"rows": self.rows, "checked": self.checked, "draws": self.draws},
            **{"seconds": round(self.seconds, 3), "notes": list(self.notes)},
            "summary": plain_record(self.summary),
            **{name: records(frame) for name, frame in frames.items()},
        }

    def plot(self) -> Any:
        """Draw the report in six panels and return its figure; needs matplotlib."""
        from marginals.checking.check_plot import plot_check

        return plot_check(self)

    def __str__(self) -> str:
        parts = [self._head()]
        for title, frame in self._worst():
            parts.append(title)
            if len(frame):
                parts[-1] += "\n" + frame.to_string(float_format="%.3f", max_colwidth=60)
        return "\n\n".join([*parts, *(f"Note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        tables = "".join(
            f"<p><b>{title}</b></p>{frame.to_html(float_format='%.3f')}"
            for title, frame in self._worst()
        )
        notes = "".join(f"<p>Note: {note}</p>" for note in self.notes)
        return f"<p>{self._head()}</p>{tables}{notes}"

    def _head(self) -> str:
        of = f" of {self.rows}" if self.checked < self.rows else ""
        return (
            f"{self.checked}{of} rows against the model and {self.draws} of its draws, "
            f"in {self.seconds:.1f} s"
        )

    def _worst(self) -> list[tuple[str, pd.DataFrame]]:
        """Return a title and the worst lines of each part."""
        total = self.summary

        def off(part: str) -> str:
            return f"{part}: {total[f'{part}_off']} of {total[part]} off"

        margins = self.margins.sort_values("excess", ascending=False)
        calibration = self.calibration.sort_values("excess", ascending=False)
        gap = (self.questions["model"] - self.questions["table"]).abs().fillna(1.0)
        questions = self.questions.loc[gap.sort_values(ascending=False, kind="stable").index]
        distances = ["distance", "noise", "pvalue"]
        pairs = self.pairs.set_index(["first", "second"])
        return [
            ("columns to look at first", self.columns[self.columns["score"] > 0].head(_SHOWN)),
            (off("margins"), margins.loc[margins["off"], distances].head(_SHOWN)),
            (
                off("pairs"),
                pairs.loc[pairs["off"].to_numpy(), ["distance", "alone", *distances[1:]]].head(
                    _SHOWN
                ),
            ),
            (
                off("calibration"),
                calibration.loc[calibration["off"], [*distances, "coverage"]].head(_SHOWN),
            ),
            (
                off("questions"),
                questions.loc[questions["off"], ["question", "model", "table", "error", "rows"]]
                .head(_SHOWN)
                .set_index("question"),
            ),
            (
                off("rules"),
                self.rules.loc[self.rules["off"], ["rule", "broken"]]
                .head(_SHOWN)
                .set_index("rule"),
            ),
        ]


def ranked_columns(report: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return what exceeds chance in each column, from worst to best; see `CheckReport.columns`."""
    margins, pairs, rules = report["margins"], report["pairs"], report["rules"]
    asked = report["questions"].groupby("column", sort=False)["off"].mean()
    excess = (rules["broken"] - rules["chance"]).clip(lower=0.0)
    frame = pd.DataFrame(
        {
            "margin": margins["excess"],
            "pair": _worst_of(margins.index, pairs, pairs["excess"]),
            "calibration": report["calibration"]["excess"],
            "questions": asked.reindex(margins.index),
            "rules": _worst_of(margins.index, rules, excess),
        },
        index=margins.index,
    ).fillna(0.0)
    frame["score"] = frame.sum(axis=1)
    return frame.sort_values("score", ascending=False, kind="stable")


def _worst_of(names: pd.Index, lines: pd.DataFrame, values: pd.Series) -> list[float]:
    """Return the largest of the values of lines with a column as their first or second."""
    return [
        float(values[(lines["first"] == name) | (lines["second"] == name)].max()) for name in names
    ]


def _mean(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else np.nan
