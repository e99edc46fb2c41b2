"""Densities from rows with missing cells: marginal likelihood against imputation."""

from experiments.missing.figures import figures
from experiments.missing.run import Settings, run
from experiments.missing.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="missing",
    title="Missing values",
    settings=Settings,
    run=run,
    tables=tables,
    figures=figures,
    parts=("sets", "shares", "models"),
    own=("ours", "nsf"),
)
