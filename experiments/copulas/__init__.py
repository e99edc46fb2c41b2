"""Copulas of simulated and of financial-style data: rank correlations, tails, likelihood."""

from experiments.copulas.figures import figures
from experiments.copulas.run import Settings, run
from experiments.copulas.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="copulas",
    title="Copulas",
    settings=Settings,
    run=run,
    tables=tables,
    figures=figures,
    parts=("sets", "models"),
    own=("ours",),
)
