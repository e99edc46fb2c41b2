"""How far to trust a model on a table: margins, pairs, calibration, questions and rules."""

from marginals.checking.check_report import CheckReport
from marginals.checking.model_check import check

__all__ = ["CheckReport", "check"]
