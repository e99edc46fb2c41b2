"""What an experiment is, and the list of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

import numpy as np

from experiments.context import Context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Arrays = Mapping[str, np.ndarray[Any, Any]]


@final
@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Args:
        name: of its config, its result files and its section of the page.
        title: of the section.
        settings: a frozen dataclass; its fields are the keys that the config may have.
        jobs: settings and seed to what there is to measure, in order, each a dict of words and
            numbers that says what a record is of.
        measure: settings, seed, context and one of the jobs to the figures of its record, which
            holds the job, the seed and the seconds as well.
        tables: records and the paper's figures (the config's `[paper.figures]`) to Markdown.
        figures: records and arrays to pictures by name; the page has them in the order of names.
        parts: settings that choose which records there are and change none of them: runs that
            differ in these alone may share a file.
        own: models (of the setting `models`, or of `shown`) with settings that start with their
            name, as does `nsf_seconds`: runs without that model may differ in these as well.
        needs_data: whether it reads the folder of data sets, at every size.
    """

    name: str
    title: str
    settings: type
    jobs: Callable[[Any, int], Sequence[Record]]
    measure: Callable[[Any, int, Context, Record], Record]
    tables: Callable[[Sequence[Record], Mapping[str, Any]], str]
    figures: Callable[[Sequence[Record], Arrays], "dict[str, Figure]"]
    parts: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    needs_data: bool = False


# Modules with a constant EXPERIMENT, in the order of the page.
NAMES = (
    *("toy", "information", "missing", "causal", "density", "appendix"),
    *("universality", "copulas", "anomalies"),
)


def find(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name not in NAMES:
        raise SystemExit(f"Expected the name of an experiment: {', '.join(NAMES)}; got {name!r}.")
    found: Experiment = import_module(f"experiments.{name}").EXPERIMENT
    return found
