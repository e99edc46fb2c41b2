"""How much memory a batch may take, and keeping freed memory during a fit on a CPU."""

import ctypes
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch

from marginals.runtime.threads import SharedSetting

# Share of a GPU's free memory; the rest covers temporaries not counted and other fits.
_SHARE = 0.125
# Most floats of a batch, by the count of the plain form; fused kernels hold a tenth of it. On an
# H200 smaller batches score fewer rows a second, and larger ones no more.
_MOST_ON_GPU = 1 << 31

# Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 1 << 30  # bytes that may stay free at the top of the heap
_LARGEST = 1 << 25  # largest block on the heap; glibc allows no more
_USUAL = 1 << 17  # glibc's own default


def floats_at_once(device: torch.device, on_cpu: int) -> int:
    """Return how many floats a batch may hold: `on_cpu` there, else by a GPU's free memory.

    On a CPU larger batches gain nothing once they leave the caches.

    >>> floats_at_once(torch.device("cpu"), 1 << 23)
    8388608
    """
    if device.type != "cuda":
        return on_cpu
    free, _ = torch.cuda.mem_get_info(device)
    # Memory that torch reserves but does not use is free too.
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(on_cpu, min(_MOST_ON_GPU, int(_SHARE * (free + unused)) // 4))


def kept_memory(on: bool = True) -> AbstractContextManager[None]:
    """Keep freed memory for the next operation until the block ends; a no-op without glibc.

    By default glibc returns large blocks to the system at once and gets fresh, zeroed pages for the
    next operation. In a training step that costs more than the arithmetic.
    """
    return _KEPT_MEMORY.on() if on else nullcontext()


def _keep_memory() -> Callable[[], object]:
    library = _glibc()
    if library is None:
        return lambda: None
    library.mallopt(_MMAP_THRESHOLD, _LARGEST)
    library.mallopt(_TRIM_THRESHOLD, _KEPT)
    library.mallopt(_TOP_PAD, _LARGEST)

    def release() -> None:
        library.mallopt(_TRIM_THRESHOLD, _USUAL)
        library.mallopt(_TOP_PAD, _USUAL)
        library.malloc_trim(0)

    return release


_KEPT_MEMORY = SharedSetting(_keep_memory)


@cache
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if library.mallopt and library.malloc_trim else None
    except (OSError, AttributeError):
        return None
