"""Mutual information between parts of a Gaussian of 16 columns, all from one fit."""

from experiments.information.figures import figures
from experiments.information.run import Settings, jobs, measure
from experiments.information.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="information",
    title="Mutual information",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("rows", "models"),
)
