"""Fitted models over tables of any size: one function of Arrow batches, and engines that run it."""

from marginals.engines.arrow_function import ArrowFunction
from marginals.engines.row_jobs import (
    Anomalies,
    Impute,
    ImputeInterval,
    Job,
    Predict,
    Probability,
    SampleGiven,
    Score,
)
from marginals.io.stored_rows import StoredRows

__all__ = [
    "Anomalies",
    "ArrowFunction",
    "Impute",
    "ImputeInterval",
    "Job",
    "Predict",
    "Probability",
    "SampleGiven",
    "Score",
    "StoredRows",
]
