"""What an experiment is given besides its settings."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.data import data_folder


@final
class Bar:
    """Progress of one seed: a bar on a terminal, elsewhere one line for each record."""

    def __init__(self, name: str) -> None:
        self._terminal = sys.stderr.isatty()
        self._bar = Progress(
            *(TextColumn("{task.description}"), BarColumn()),
            *(MofNCompleteColumn(), TimeElapsedColumn()),
            console=Console(stderr=True),
            disable=not self._terminal,
        )
        self._name = self._now = name
        self._task = self._bar.add_task(name, total=None)

    def expect(self, total: int) -> None:
        """Say how many records there will be, those of an earlier run among them."""
        self._bar.update(self._task, total=total)

    def doing(self, what: str) -> None:
        """Say what is being measured."""
        self._now = f"{self._name}: {what}"
        self._bar.update(self._task, description=self._now)

    def advance(self, seconds: float | None = None) -> None:
        """Count a record; without seconds, one that was there already."""
        self._bar.advance(self._task)
        if not self._terminal and seconds is not None:
            print(f"{self._now}, {seconds:.1f} s", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


@final
@dataclass(frozen=True)
class Context:
    """Device, data, progress and arrays of one run of an experiment with one seed.

    Args:
        device: "cpu" or "cuda".
        is_done: whether a record that holds these values is there from an earlier run.
        bar: of progress.
        arrays: what figures need besides the records; add to it by `keep`.
        folder: of data sets as given by `--data`.
    """

    device: str
    is_done: Callable[[Mapping[str, Any]], bool]
    bar: Bar
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    folder: str | None = None

    @property
    def data(self) -> Path:
        """The folder of data sets; an error that says what to do if there is none."""
        return data_folder(self.folder)

    def todo(self, **values: Any) -> bool:
        """Return whether the record of these values is still to be measured, and show it."""
        if self.is_done(values):
            self.bar.advance()
            return False
        self.bar.doing(", ".join(str(value) for value in values.values()))
        return True

    def keep(self, name: str, values: Any, dtype: Any = np.float32) -> None:
        """Keep an array for the figures, written with the next record; float16 if it will do."""
        self.arrays[name] = np.asarray(values, dtype=dtype)
