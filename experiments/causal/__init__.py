"""Causal discovery by PC: random DAGs and protein signalling."""

from experiments.causal.figures import figures
from experiments.causal.run import Settings, jobs, measure
from experiments.causal.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="causal",
    title="Causal discovery",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("sets", "methods"),
)
