"""Density estimation on the UCI sets of the paper."""

from experiments.density.figures import figures
from experiments.density.run import Settings, jobs, measure
from experiments.density.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="density",
    title="Density estimation",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("sets", "models"),
    own=("ours", "einet", "nsf"),
)
