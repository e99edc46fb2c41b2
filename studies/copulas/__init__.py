"""Copulas of simulated and of financial-style data: rank correlations, tails, likelihood."""

from studies.copulas.estimates import STUDIES

__all__ = ["STUDIES"]
