"""Mutual information between parts of a Gaussian of 16 columns, all from one fit."""

from experiments.information.figures import figures
from experiments.information.run import Settings, run
from experiments.information.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="information",
    title="Mutual information",
    settings=Settings,
    run=run,
    tables=tables,
    figures=figures,
    parts=("rows", "models"),
)
