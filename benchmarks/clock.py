"""Limits in seconds of this process, for machines that do other work as well."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import marginals.training

# Both look at the clock as `time.monotonic`. `marginals.training.fit` is also a function.
_MODULES = [
    sys.modules[f"{marginals.training.__name__}.fit"],
    sys.modules["marginals.selection.search"],
]


@contextmanager
def cpu_seconds() -> Iterator[None]:
    """Let the limits of our fits count the seconds that this process computes.

    A limit in seconds on the wall would cut a fit short whenever another process takes the core.
    On an idle machine with one thread the two are the same.
    """
    clock = SimpleNamespace(monotonic=time.process_time)
    before = [module.time for module in _MODULES]  # type: ignore[attr-defined]
    try:
        for module in _MODULES:
            module.time = clock  # type: ignore[attr-defined]
        yield
    finally:
        for module, own in zip(_MODULES, before, strict=True):
            module.time = own  # type: ignore[attr-defined]
