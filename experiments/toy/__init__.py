"""Toy densities of three columns: two spirals, eight Gaussians and a checkerboard."""

from experiments.registry import Experiment
from experiments.toy.figures import figures
from experiments.toy.run import Settings, jobs, measure
from experiments.toy.tables import tables

EXPERIMENT = Experiment(
    name="toy",
    title="Toy densities",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("sets", "models"),
    own=("ours", "nsf"),
)
