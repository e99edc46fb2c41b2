"""What the paper's appendix shows of the model: marginals, features, couplings and sampling."""

from experiments.appendix.figures import figures
from experiments.appendix.run import Settings, jobs, measure
from experiments.appendix.tables import tables
from experiments.registry import Experiment

EXPERIMENT = Experiment(
    name="appendix",
    title="Figures of the appendix",
    settings=Settings,
    jobs=jobs,
    measure=measure,
    tables=tables,
    figures=figures,
    parts=("shown", "pictured", "sets", "structures"),
    own=("sampling",),
)
