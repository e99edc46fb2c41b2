"""The report on synthetic rows, as frames and as text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.columns.table_coercion import as_frame
from marginals.synthesis.column_distances import column_distances
from marginals.synthesis.comparable_cells import aligned
from marginals.synthesis.copying import Copying, copying
from marginals.synthesis.pairs import pair_differences
from marginals.synthesis.two_sample import TwoSample, two_sample

_SHOWN = 10


@final
@dataclass(frozen=True)
class SynthesisReport:
    """How good synthetic rows are; it prints itself.

    Args:
        columns: a line for each column: its kind, `distance` (Kolmogorov and Smirnov's for numbers,
            total variation for categories), `shift` (Wasserstein's distance of numbers in standard
            deviations), and the shares of missing cells.
        pairs: a line for each pair of columns: the measure, its value in the real and in the
            synthetic table, and their difference.
        two_sample: how well a classifier tells the two apart.
        copying: how close synthetic rows come to real ones.
        rows: of the real and of the synthetic table.
    """

    columns: pd.DataFrame
    pairs: pd.DataFrame
    two_sample: TwoSample
    copying: Copying
    rows: tuple[int, int]

    @property
    def summary(self) -> dict[str, float]:
        """The report in a few numbers, each the lower the better."""
        gaps = (self.columns["missing_synthetic"] - self.columns["missing_real"]).abs()
        return {
            "column_distance": float(self.columns["distance"].mean()),
            "pair_difference": float(self.pairs["difference"].abs().mean()),
            "missing_difference": float(gaps.mean()),
            "auc": self.two_sample.auc,
            "close": self.copying.close,
            "duplicates": self.copying.duplicates,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single distances in plain types, for JSON."""
        copies = {k: v for k, v in asdict(self.copying).items() if not isinstance(v, np.ndarray)}
        return {
            "rows": list(self.rows),
            "summary": _plain(self.summary),
            "columns": _records(self.columns.reset_index()),
            "pairs": _records(self.pairs),
            "two_sample": _plain(asdict(self.two_sample)),
            "copying": _plain(copies),
        }

    def __str__(self) -> str:
        """Return a table of the columns, the worst pairs, and a line for each check."""
        worst = self.pairs.dropna()
        worst = worst.loc[worst["difference"].abs().sort_values(ascending=False).index]
        told, copied = self.two_sample, self.copying
        lines = [
            f"{self.rows[0]} real rows, {self.rows[1]} synthetic rows",
            "",
            self.columns.sort_values("distance", ascending=False).to_string(float_format="%.3f"),
            "",
            f"pairs, mean difference {self.summary['pair_difference']:.3f}; the largest:",
            worst.head(_SHOWN).to_string(index=False, float_format="%.3f"),
            "",
            f"told apart: AUC {told.auc:.3f} ({told.lower:.3f} to {told.upper:.3f}), "
            f"p = {told.pvalue:.3g}",
            f"copied: {100 * copied.close:.1f} % of rows are closer to a real row than all but 5 % "
            f"of unseen ones, p = {copied.pvalue:.3g}; {100 * copied.duplicates:.1f} % equal one "
            f"({100 * copied.duplicates_unseen:.1f} % of unseen rows do)",
        ]
        return "\n".join(lines)


def synthesis_report(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    *,
    most: int = 5000,
    random_state: int = 0,
) -> SynthesisReport:
    """Compare synthetic rows with the real ones that a model was fitted to.

    Args:
        real: the table that was fitted; cells may be missing.
        synthetic: rows that were drawn, with the same columns.
        holdout: real rows that were not fitted, to judge copies by; without them the fitted rows
            are measured from each other.
        most: rows of a table that the classifier and the search for copies look at.
        random_state: of the choice of rows and of the classifier.

    >>> rows = np.random.default_rng(0).normal(size=(3, 200, 2))
    >>> report = synthesis_report(rows[0], rows[1] + [0.0, 3.0], rows[2])
    >>> report.columns["distance"].round(1).tolist(), report.two_sample.auc > 0.9
    ([0.1, 0.9], True)
    """
    frames = [as_frame(t) for t in (real, synthetic, holdout) if t is not None]
    _check(frames)
    columns = aligned(frames[0], *frames[1:])
    return SynthesisReport(
        column_distances(columns),
        pair_differences(columns),
        two_sample(columns, most, random_state),
        copying(columns, most, np.random.default_rng(random_state)),
        (len(frames[0]), len(frames[1])),
    )


def _check(frames: list[pd.DataFrame]) -> None:
    for name, frame in zip(("real", "synthetic", "holdout"), frames, strict=False):
        twice = frame.columns[frame.columns.duplicated()].unique()
        if len(twice):
            raise ValueError(
                f"Expected `{name}` to have columns of different names; got {list(twice)} more "
                "than once. Rename them."
            )
        lacking = [column for column in frames[0].columns if column not in frame.columns]
        if lacking or frame.shape[1] != frames[0].shape[1]:
            raise ValueError(
                f"Expected `{name}` to have the columns of `real`, {list(frames[0].columns)}; got "
                f"{list(frame.columns)}. Select the same columns of both."
            )
        if len(frame) < 2:
            raise ValueError(
                f"Expected `{name}` to have at least two rows; got {len(frame)}. Draw more."
            )


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [_plain(line) for line in frame.to_dict("records")]


def _plain(line: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a line in types that JSON has; NaN and infinities become None."""

    def plain(value: Any) -> Any:
        if isinstance(value, float | np.floating):
            return float(value) if np.isfinite(value) else None
        if isinstance(value, np.integer):
            return int(value)
        return value if isinstance(value, str | int) else str(value)

    return {str(name): plain(value) for name, value in line.items()}
