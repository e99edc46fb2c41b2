"""Causal discovery by PC: random DAGs and protein signalling."""

from experiments.causal.figures import figures
from experiments.causal.run import Settings, run
from experiments.causal.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="causal",
    title="Causal discovery",
    settings=Settings,
    run=run,
    tables=tables,
    figures=figures,
    parts=("sets", "methods"),
)
