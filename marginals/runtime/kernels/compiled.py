"""Compiling the CPU kernels for long fits.

Compiling takes some seconds, more the first time in a process, and needs a C++ compiler. It pays
when it saves several times that; shorter fits run eagerly.
"""

import shutil
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

# Time that a compiled step saves per leaf and hidden unit, and the cost of compiling.
_SECONDS_SAVED = 1e-8
_SECONDS_TO_COMPILE = 20.0
# Functions that failed to compile in this process.
_FAILED: set[Callable[..., Any]] = set()


def worth_compiling(leaf_units: int, steps: int, seconds: float | None = None) -> bool:
    """Return whether compiling pays.

    Args:
        leaf_units: leaves times hidden units of one step.
        steps: the most steps of the fit.
        seconds: the most seconds of the fit, if limited.

    >>> worth_compiling(500 * 6 * 100 * 3, steps=200), worth_compiling(500 * 6 * 100 * 3, 20_000)
    (False, True)
    """
    eager = leaf_units * steps * _SECONDS_SAVED
    if seconds is not None:
        eager = min(eager, seconds)
    return eager > 2 * _SECONDS_TO_COMPILE


def call(function: Callable[..., Any], *args: Any, compiled: bool) -> Any:
    """Call a function of tensors, compiled if requested; if compiling fails, warn and go on."""
    if not compiled or not compiles(function):
        return function(*args)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own
            return _compiled(function)(*args)
    except Exception as error:
        _FAILED.add(function)
        reason = str(error).strip() or type(error).__name__
        warnings.warn(
            f"Could not compile {function.__name__} for the CPU; it runs uncompiled: "
            f"{reason.splitlines()[0]}",
            RuntimeWarning,
            stacklevel=2,
        )
        return function(*args)


def compiles(function: Callable[..., Any]) -> bool:
    """Return whether a function has not failed to compile in this process."""
    return function not in _FAILED


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, fullgraph=True)


@cache
def has_compiler() -> bool:
    """Return whether a C++ compiler is installed."""
    return any(shutil.which(name) for name in ("g++", "clang++", "cl"))
