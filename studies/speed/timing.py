"""Clocks and meters: medians of repeated work, rows per second, peak memory."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import torch

from studies.speed.floor import synchronise

FEW_ROWS = {"cpu": 1000, "cuda": 10_000}  # fewer would not fill a GPU
GROWTH = 10
REPEATS = 3


def summary(step_s: Sequence[float], per_block: int, batch: int) -> dict[str, Any]:
    """Describe the seconds of a step in several blocks: the median counts."""
    median = statistics.median(step_s)
    return {
        "step_ms": round(1000 * median, 4),
        "step_ms_least": round(1000 * min(step_s), 4),
        "step_ms_most": round(1000 * max(step_s), 4),
        "blocks": len(step_s),
        "steps_per_block": per_block,
        "rows_per_s": round(batch / median),
    }


def steps_per_block(step_s: float, block_s: float, least: int = 5, most: int = 400) -> int:
    """Return how many steps make a block of about so many seconds.

    >>> steps_per_block(0.01, 1.0), steps_per_block(2.0, 1.0), steps_per_block(1e-5, 1.0)
    (100, 5, 400)
    """
    return max(least, min(most, round(block_s / step_s)))


def answers_per_second(
    ask: Callable[[int], object], most: int, device: str, seconds: float
) -> dict[str, Any]:
    """Return the rate at which rows are answered: of `most` rows, or as many as there is time for.

    The number of rows grows tenfold while the next is expected to fit, so that a GPU is full. The
    first call, which may compile, does not count.

    Args:
        ask: is called with a number of rows.
        most: rows at most.
        device: where it is computed.
        seconds: in which one call should be done.
    """
    count = min(FEW_ROWS[device], most)
    first = _seconds(ask, count, device)
    found = _seconds(ask, count, device)
    while count < most and found * GROWTH <= seconds:
        count = min(most, GROWTH * count)
        _seconds(ask, count, device)  # larger shapes may be compiled anew
        found = _seconds(ask, count, device)
    every = [found]
    while len(every) < REPEATS and sum(every) + found <= seconds:
        every.append(_seconds(ask, count, device))
    median = statistics.median(every)
    return {
        "answered": count,
        "seconds": round(median, 6),
        "rows_per_s": round(count / median, 1),
        "repeats": len(every),
        "first_s": round(first, 4),
    }


def _seconds(ask: Callable[[int], object], count: int, device: str) -> float:
    synchronise(device)
    started = time.perf_counter()
    ask(count)
    synchronise(device)
    return time.perf_counter() - started


@final
class PeakMemory:
    """The most memory in use since it was made, of the GPU or of the process.

    What was in use before, as by the interpreter and the libraries, does not count. A process must
    be fresh: memory that it used before may be used again without growth.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        gc.collect()
        self.before = 0.0
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated() / 2**20
        elif Path("/proc/self/clear_refs").exists():
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
            self.before = _resident("VmRSS")

    def mib(self) -> float | None:
        """Return the peak so far in MiB, None if this system does not tell."""
        if self.device == "cuda":
            return round(torch.cuda.max_memory_allocated() / 2**20 - self.before, 1)
        peak = _resident("VmHWM")
        return round(peak - self.before, 1) if peak else None


def _resident(field: str) -> float:
    """Return a figure of the process in MiB, 0 where there is no such file."""
    path = Path("/proc/self/status")
    if not path.exists():
        return 0.0
    line = next(line for line in path.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
