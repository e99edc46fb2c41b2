"""Progress of an experiment: a bar on a terminal, elsewhere one line for each record."""

import sys
from typing import final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@final
class Bar:
    """Progress of one seed.

    Args:
        name: of the experiment and the seed.
        total: the number of records, those of an earlier run among them.

    `shown` is the bar itself, to be entered by `with`.
    """

    def __init__(self, name: str, total: int) -> None:
        self._terminal = sys.stderr.isatty()
        self.shown = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            *(TimeElapsedColumn(), TimeRemainingColumn()),
            console=Console(stderr=True),
            disable=not self._terminal,
        )
        self._name = self._now = name
        self._task = self.shown.add_task(name, total=total)

    def doing(self, what: str) -> None:
        """Say what is being measured."""
        self._now = f"{self._name}: {what}"
        self.shown.update(self._task, description=self._now)

    def advance(self, told: str | None = None) -> None:
        """Count a record, with a word on it; without one it was there already."""
        self.shown.advance(self._task)
        if told is not None and not self._terminal:
            print(f"{self._now}, {told}", file=sys.stderr, flush=True)
        elif told is not None:
            self.shown.console.print(f"{self._now}, {told}", highlight=False)
