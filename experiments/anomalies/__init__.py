"""Anomalies in rows with missing cells: scores of the cells there are, against imputation."""

from experiments.anomalies.figures import figures
from experiments.anomalies.run import Settings, jobs, measure
from experiments.anomalies.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="anomalies",
    title="Anomalies with missing values",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("sets", "shares", "models"),
)
