"""Keeping freed memory for the next operation during a fit on a CPU.

The C library hands large blocks back to the system as soon as they are free, and gets fresh, zeroed
pages for the next operation: in a training step that costs more than the arithmetic.
"""

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 1 << 30  # bytes that may lie free at the top of the heap
_LARGEST = 1 << 25  # of a block from the heap; the library allows no more
_USUAL = 1 << 17  # what the library starts with


class _Fits:
    """Fits under way in this process; the first sets the parameters, the last sets them back."""

    lock = threading.Lock()
    count = 0


@contextmanager
def kept_memory(on: bool = True) -> Iterator[None]:
    """Keep freed memory until the end; then hand it back. Does nothing without glibc."""
    library = _glibc() if on else None
    if library is None:
        yield
        return
    with _Fits.lock:
        if _Fits.count == 0:
            library.mallopt(_MMAP_THRESHOLD, _LARGEST)
            library.mallopt(_TRIM_THRESHOLD, _KEPT)
            library.mallopt(_TOP_PAD, _LARGEST)
        _Fits.count += 1
    try:
        yield
    finally:
        with _Fits.lock:
            _Fits.count -= 1
            if _Fits.count == 0:
                library.mallopt(_TRIM_THRESHOLD, _USUAL)
                library.mallopt(_TOP_PAD, _USUAL)
                library.malloc_trim(0)


@cache
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if library.mallopt and library.malloc_trim else None
    except (OSError, AttributeError):
        return None
