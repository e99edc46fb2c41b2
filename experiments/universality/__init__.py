"""Universality in practice: the largest error of a CDF against the number of components."""

from experiments.registry import Experiment
from experiments.universality.figures import figures
from experiments.universality.run import Settings, jobs, measure
from experiments.universality.tables import tables

EXPERIMENT = Experiment(
    name="universality",
    title="Universality in practice",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("targets", "ways", "sizes"),
)
