"""How far to trust a model on a table: margins, pairs, calibration, questions, rules, answers."""

from marginals.checking.check_report import CheckReport
from marginals.checking.conditional_score import ConditionalScore, score_conditional
from marginals.checking.model_check import check

__all__ = ["CheckReport", "ConditionalScore", "check", "score_conditional"]
