"""A progress bar on a terminal; nothing elsewhere."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


class FitProgress:
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

    def __enter__(self) -> "FitProgress":
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
