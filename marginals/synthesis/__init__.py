"""Reports on synthetic rows: columns, pairs, a two-sample classifier, and copies."""

from marginals.synthesis.copying import Copying
from marginals.synthesis.report import SynthesisReport, synthesis_report
from marginals.synthesis.two_sample import TwoSample

__all__ = ["Copying", "SynthesisReport", "TwoSample", "synthesis_report"]
