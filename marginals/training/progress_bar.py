"""A progress bar on a terminal; nothing elsewhere."""

import sys
from types import TracebackType
from typing import Any, Self, final


@final
class ProgressBar:
    """A bar on stderr with a line of text and the time, drawn inside a `with` block.

    Args:
        show: True, False, or None to show it only on a terminal.
        seconds: Time limit to show next to the time elapsed; None shows the time remaining.
        label: The word before the bar.
    """

    def __init__(self, show: bool | None, seconds: float | None = None, label: str = "fit") -> None:
        wanted = sys.stderr.isatty() if show is None else show
        self._bar = _make_bar(seconds, label) if wanted else None
        self._task = None if self._bar is None else self._bar.add_task("", total=None)

    def update(self, done: int, total: int | None, text: str) -> None:
        """Move the bar to `done` out of `total` and replace the text."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=text)

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


def _make_bar(seconds: float | None, label: str) -> Any:
    # Imported here: most fits show no bar, and rich is slow to import.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    times: list[Any] = [TimeRemainingColumn()]
    if seconds is not None:
        times = [TimeElapsedColumn(), TextColumn(f"of about {seconds:.0f} s")]
    return Progress(
        *(TextColumn(label), BarColumn(), TextColumn("{task.description}"), *times),
        console=console,
        transient=console.is_terminal,  # a file keeps the last state: it cannot be erased
    )
