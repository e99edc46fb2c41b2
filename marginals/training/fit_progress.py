"""A progress bar on a terminal; nothing elsewhere."""

import math
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress


class _Shown:
    """A bar that is there or not, started and stopped by `with`."""

    _bar: "Progress | None"

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class FitProgress(_Shown):
    """Show steps, rate, losses and time left on stderr.

    Args:
        total: the most steps.
        show: True, False, or None for only on a terminal.
    """

    def __init__(self, total: int, show: bool | None) -> None:
        wanted = sys.stderr.isatty() if show is None else show
        self._bar = _make_bar() if wanted else None
        if self._bar is not None:
            self._task = self._bar.add_task("fit", total=total, rate=0.0, train=0.0, validation=0.0)

    def step(self, step: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def evaluated(self, rate: float, train: float, validation: float) -> None:
        """Show the losses of an evaluation."""
        if self._bar is not None:
            self._bar.update(self._task, rate=rate, train=train, validation=validation)


def _make_bar() -> "Progress":
    # Imported here: most fits show no bar, and rich takes a while to import.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("fit"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
        TextColumn("{task.fields[rate]:.0f}/s"),
        TextColumn("train {task.fields[train]:.3f} val {task.fields[validation]:.3f}"),
        TimeRemainingColumn(),
        console=console,
        # A file cannot be wiped: there the last state is all that is ever shown.
        transient=console.is_terminal,
    )


class SearchProgress(_Shown):
    """Show on stderr how many models are fitted, the best score so far, and the time.

    Args:
        seconds: the most that the search takes.
        show: True, False, or None for only on a terminal.
    """

    def __init__(self, seconds: float, show: bool | None) -> None:
        wanted = sys.stderr.isatty() if show is None else show
        self._bar = _make_search_bar(seconds) if wanted else None
        self._done, self._total, self._best = 0, 0, -math.inf
        if self._bar is not None:
            self._task = self._bar.add_task("search", total=None, told="starting")

    def planned(self, models: int) -> None:
        """Say that so many more models will be fitted."""
        self._total += models
        self._show()

    def fitted(self, score: float | None) -> None:
        """Say that a model was fitted, with its validation score, None if it failed."""
        self._done += 1
        self._best = self._best if score is None else max(self._best, score)
        self._show()

    def _show(self) -> None:
        if self._bar is not None:
            best = "" if self._best == -math.inf else f", best {self._best:.3f} nats"
            told = f"{self._done} of {self._total} models{best}"
            self._bar.update(self._task, completed=self._done, total=self._total, told=told)


def _make_search_bar(seconds: float) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("fit"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TextColumn(f"of about {seconds:.0f} s"),
        console=console,
        transient=console.is_terminal,
    )
