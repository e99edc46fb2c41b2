"""What a study declares, what it is given, and the list of studies."""

import itertools
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from studies.harness.available import Unavailable, check_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Settings = SimpleNamespace  # the values of a config, by name
Records = Sequence[Record]
Paper = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray[Any, Any]]


@final
@dataclass(frozen=True)
class Context:
    """Device, data and arrays of one seed of a run.

    Args:
        device: "cpu" or "cuda".
        folder: Folder of data sets, as given by `--data`.
        reference: Folder of the authors' code, as given by `--reference`.
        arrays: What figures need besides the records; add to it with `keep`.
    """

    device: str
    folder: str | None = None
    reference: str | None = None
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    _made: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """The folder of data sets."""
        name = self.folder or os.environ.get("MARGINALS_DATA")
        if not name or not Path(name).is_dir():
            raise Unavailable(
                f"Expected the folder of data sets; got {name!r}. Give it with --data or in the "
                "environment variable MARGINALS_DATA."
            )
        return Path(name)

    def file(self, *parts: str) -> Path:
        """Return the path of a file in the folder of data sets."""
        path = self.data.joinpath(*parts)
        if not path.exists():
            raise Unavailable(f"Expected the file {'/'.join(parts)} in {self.data}; got none.")
        return path

    def keep(self, name: str, values: Any, dtype: Any = np.float32) -> None:
        """Keep an array for the figures; it is written with the next record."""
        self.arrays[name] = np.asarray(values, dtype=dtype)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` returns; it is called once for each key and seed."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


@final
@dataclass(frozen=True)
class Study:
    """One study: what it measures, and how it is reported.

    Args:
        name: Name of its config, its result files and its command.
        title: Heading of its section.
        measure: Settings, seed, context and a job to the figures of its record, or to several
            records' figures. A job is a dict of words and numbers, which its records repeat.
        tables: Records without failures and the config's `[paper.figures]` to Markdown.
        figures: Records and arrays to pictures by name.
        facts: Records to the figures that the text of pages may quote, by name.
        grid: Names of a job's values to the settings that list them; jobs are all combinations.
        jobs: Settings, seed and context to jobs in order, for a study whose jobs are no grid.
        key: Names of further values that tell records apart, besides the seed.
        parts: Further settings that choose which records there are and change none of them. Runs
            that differ in these alone may share a file.
        own: Models (values of the setting `models` or `shown`) with settings that start with their
            name, such as `nsf_seconds`. Runs without the model may differ in these as well.
        page: The page in docs/ that shows it; None if the study has none.
    """

    name: str
    title: str
    measure: Callable[[Settings, int, Context, Record], Record | Iterable[Record]]
    tables: Callable[[Records, Paper], str]
    figures: Callable[[Records, Arrays], "dict[str, Figure]"] = lambda records, arrays: {}
    facts: Callable[[Records], dict[str, str]] = lambda records: {}
    grid: Mapping[str, str] = field(default_factory=dict)
    jobs: Callable[[Settings, int, Context], Iterable[Record]] | None = None
    key: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    page: str | None = "experiments"

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (*self.grid, *self.key))
        object.__setattr__(self, "parts", (*self.grid.values(), *self.parts))

    def all_jobs(self, settings: Settings, seed: int, context: Context) -> Iterable[Record]:
        """Return what there is to measure, in order: the study's own jobs, or its grid."""
        if self.jobs is not None:
            return self.jobs(settings, seed, context)
        values = itertools.product(*(getattr(settings, name) for name in self.grid.values()))
        return [dict(zip(self.grid, each, strict=True)) for each in values]


# The module of each study, which lists it in the constant STUDIES; in the order of the pages.
MODULES = {
    **{"toy": "toy", "information": "information", "information-training": "information"},
    **{"missing": "missing", "causal": "causal"},
    **{"density": "likelihood", "appendix": "appendix", "universality": "universality"},
    **{"copulas": "copulas", "anomalies-missing": "anomalies"},
    **{
        "default": "plain_default",
        "likelihood": "likelihood",
        "starts": "likelihood",
        "members": "likelihood",
    },
    **{"information-tasks": "information", "independence": "independence"},
    **{"causal-speed": "causal", "anomalies": "anomalies", "imputation": "imputation"},
    **{"prediction": "prediction", "synthesis": "synthesis", "speed": "speed"},
    **{"files": "files", "latency": "latency", "selectivity": "selectivity"},
    **{"consistency": "selectivity"},
    **{"engines": "engines", "drag": "drag", "large-fit": "large_fit"},
}


def find(name: str) -> Study:
    """Return a study by its name."""
    check_choice("the name of a study", name, MODULES)
    module = import_module(f"studies.{MODULES[name]}")
    found: Study = next(study for study in module.STUDIES if study.name == name)
    return found
