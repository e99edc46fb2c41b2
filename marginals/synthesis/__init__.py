"""Comparison of two tables: reports on synthetic rows, a two-sample classifier, and drift."""

from marginals.synthesis.copying import Copying
from marginals.synthesis.report import SynthesisReport, synthesis_report
from marginals.synthesis.table_drift import Drift, drift
from marginals.synthesis.two_sample import TwoSample, column_detection

__all__ = [
    "Copying",
    "Drift",
    "SynthesisReport",
    "TwoSample",
    "column_detection",
    "drift",
    "synthesis_report",
]
