"""Universality in practice: the largest error of a CDF against the number of components."""

from experiments.registry import Experiment
from experiments.universality.figures import figures
from experiments.universality.run import Settings, run
from experiments.universality.tables import tables

EXPERIMENT = Experiment(
    name="universality",
    title="Universality in practice",
    settings=Settings,
    run=run,
    tables=tables,
    figures=figures,
    parts=("targets", "ways", "sizes"),
)
