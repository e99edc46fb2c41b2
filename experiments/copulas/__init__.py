"""Copulas of simulated and of financial-style data: rank correlations, tails, likelihood."""

from experiments.copulas.figures import figures
from experiments.copulas.run import Settings, jobs, measure
from experiments.copulas.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="copulas",
    title="Copulas",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("sets", "models"),
    own=("ours",),
)
