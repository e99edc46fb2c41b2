"""Fitted models over tables of any size: one function of Arrow batches, and engines that run it."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from marginals.engines.streamed_fit import fit_stream

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
    "fit_stream",
]


def __getattr__(name: str) -> Any:
    """Import what trains models when it is first used: it loads scikit-learn."""
    if name == "fit_stream":
        from marginals.engines.streamed_fit import fit_stream

        return fit_stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
