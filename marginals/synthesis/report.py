"""The report on synthetic rows, as frames and as text."""

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.synthesis.column_distances import column_distances
from marginals.synthesis.comparable_cells import aligned, checked_tables
from marginals.synthesis.copying import Copying, copying
from marginals.synthesis.json_records import plain_record, records
from marginals.synthesis.pair_distances import pair_differences
from marginals.synthesis.two_sample import TwoSample, two_sample

_SHOWN = 10  # pairs in the text


@final
@dataclass(frozen=True)
class SynthesisReport:
    """Hold a report on the quality of synthetic rows; `print` shows it as text.

    Args:
        columns: one line per column: its kind, `distance` (Kolmogorov-Smirnov for numbers, total
            variation for categories), `shift` (Wasserstein distance of numbers in standard
            deviations), and the shares of missing cells.
        pairs: one line per pair of columns: the measure of association, its value in the real and
            in the synthetic table, and their difference.
        two_sample: how well a classifier tells the tables apart.
        copying: how close synthetic rows come to real ones.
        rows: number of rows in the real and in the synthetic table.
    """

    columns: pd.DataFrame
    pairs: pd.DataFrame
    two_sample: TwoSample
    copying: Copying
    rows: tuple[int, int]

    @property
    def summary(self) -> dict[str, float]:
        """Return the report as a few numbers; lower is better."""
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
        """Return everything except the single distances as plain types, for JSON."""
        copies = {k: v for k, v in asdict(self.copying).items() if not isinstance(v, np.ndarray)}
        return {
            "rows": list(self.rows),
            "summary": plain_record(self.summary),
            "columns": records(self.columns.reset_index()),
            "pairs": records(self.pairs),
            "two_sample": plain_record(asdict(self.two_sample)),
            "copying": plain_record(copies),
        }

    def __str__(self) -> str:
        worst = self.pairs.dropna().sort_values("difference", key=abs, ascending=False)
        auc, copied = self.two_sample, self.copying
        lines = [
            f"{self.rows[0]} real rows, {self.rows[1]} synthetic rows",
            "",
            self.columns.sort_values("distance", ascending=False).to_string(float_format="%.3f"),
            "",
            f"pairs: mean difference {self.summary['pair_difference']:.3f}; the largest:",
            worst.head(_SHOWN).to_string(index=False, float_format="%.3f"),
            "",
            f"real or synthetic: AUC {auc.auc:.3f} ({auc.lower:.3f} to {auc.upper:.3f}), "
            f"p = {auc.pvalue:.3g}",
            f"copies: {100 * copied.close:.1f} % of rows are closer to a real row than 95 % of "
            f"unseen rows, p = {copied.pvalue:.3g}; {100 * copied.duplicates:.1f} % equal a real "
            f"row ({100 * copied.duplicates_unseen:.1f} % of unseen rows do)",
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
    """Compare synthetic rows with the real rows that a model was fitted to.

    Args:
        real: the fitted table; cells may be missing.
        synthetic: sampled rows with the same columns.
        holdout: real rows that were not fitted, as the baseline for copies. Without them, fitted
            rows are compared with each other.
        most: largest number of rows per table for the classifier and the search for copies.
        random_state: seed for choosing rows and for the classifier.

    >>> rows = np.random.default_rng(0).normal(size=(3, 200, 2))
    >>> report = synthesis_report(rows[0], rows[1] + [0.0, 3.0], rows[2])
    >>> report.columns["distance"].round(1).tolist(), report.two_sample.auc > 0.9
    ([0.1, 0.9], True)
    """
    others = {} if holdout is None else {"holdout": holdout}
    frames = checked_tables(real=real, synthetic=synthetic, **others)
    columns = aligned(*frames)
    return SynthesisReport(
        column_distances(columns),
        pair_differences(columns),
        two_sample(columns, most, random_state),
        copying(columns, most, np.random.default_rng(random_state)),
        (len(frames[0]), len(frames[1])),
    )
