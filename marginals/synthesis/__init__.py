"""Reports on synthetic rows: columns, pairs, a two-sample classifier, and copies."""

from marginals.synthesis.copying import Copying
from marginals.synthesis.report import SynthesisReport, synthesis_report
from marginals.synthesis.two_sample import TwoSample, column_detection

__all__ = ["Copying", "SynthesisReport", "TwoSample", "column_detection", "synthesis_report"]
