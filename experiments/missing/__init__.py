"""Densities from rows with missing cells: marginal likelihood against imputation."""

from experiments.missing.figures import figures
from experiments.missing.run import Settings, jobs, measure
from experiments.missing.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="missing",
    title="Missing values",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("sets", "shares", "models"),
    own=("ours", "nsf"),
)
