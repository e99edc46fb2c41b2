"""Keeping freed memory for the next operation during a fit on a CPU.

The C library hands large blocks back to the system as soon as they are free, and gets fresh, zeroed
pages for the next operation: in a training step that costs more than the arithmetic.
"""

import ctypes
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from marginals.runtime.overlapping import Overlapping

# Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 1 << 30  # bytes that may lie free at the top of the heap
_LARGEST = 1 << 25  # of a block from the heap; the library allows no more
_USUAL = 1 << 17  # what the library starts with


def _keep() -> Callable[[], object]:
    library = _glibc()
    if library is None:
        return lambda: None
    library.mallopt(_MMAP_THRESHOLD, _LARGEST)
    library.mallopt(_TRIM_THRESHOLD, _KEPT)
    library.mallopt(_TOP_PAD, _LARGEST)

    def hand_back() -> None:
        library.mallopt(_TRIM_THRESHOLD, _USUAL)
        library.mallopt(_TOP_PAD, _USUAL)
        library.malloc_trim(0)

    return hand_back


_KEPT_MEMORY = Overlapping(_keep)


def kept_memory(on: bool = True) -> AbstractContextManager[None]:
    """Keep freed memory until the end; then hand it back. Does nothing without glibc."""
    return _KEPT_MEMORY.on() if on else nullcontext()


@cache
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if library.mallopt and library.malloc_trim else None
    except (OSError, AttributeError):
        return None
