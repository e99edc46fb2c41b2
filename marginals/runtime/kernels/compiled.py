"""Compiling the plain kernels for long fits on a CPU; short ones run eagerly and wait for nothing.

Compiling takes some seconds, the first time in a process more, and needs a C++ compiler. It pays
when a fit works on so many leaves that the time it saves is several times that.
"""

import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

_LOCAL = threading.local()
# What a compiled step saves per leaf and hidden unit, and what compiling costs.
_SECONDS_SAVED = 1e-8
_SECONDS_TO_COMPILE = 20.0


def worth_compiling(leaf_units: int, steps: int, seconds: float | None = None) -> bool:
    """Say whether to compile, for so many steps or seconds, each step on leaves times hidden units.

    >>> worth_compiling(500 * 6 * 100 * 3, steps=200), worth_compiling(500 * 6 * 100 * 3, 20_000)
    (False, True)
    """
    eager = leaf_units * steps * _SECONDS_SAVED
    if seconds is not None:
        eager = min(eager, seconds)
    return eager > 2 * _SECONDS_TO_COMPILE


@contextmanager
def compiling(on: bool) -> Iterator[None]:
    """Let the plain kernels of this thread be compiled, where a compiler is at hand."""
    before = is_compiling()
    _LOCAL.on = on and has_compiler()
    try:
        yield
    finally:
        _LOCAL.on = before


def is_compiling() -> bool:
    """Say whether this thread compiles the plain kernels."""
    return bool(getattr(_LOCAL, "on", False))


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of tensors, compiled; if that fails for any reason, say so and go on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own
            return _compiled(function)(*args)
    except Exception as error:
        _Broken.functions.add(function)
        warnings.warn(
            f"Compiling {function.__name__} for the CPU failed, it goes on uncompiled: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}",
            RuntimeWarning,
            stacklevel=2,
        )
        return function(*args)


def can_call(function: Callable[..., Any]) -> bool:
    """Say whether to call a function compiled in this thread."""
    return is_compiling() and is_sound(function)


def is_sound(function: Callable[..., Any]) -> bool:
    """Say whether a function has not failed to compile in this process."""
    return function not in _Broken.functions


class _Broken:
    """Functions that could not be compiled in this process."""

    functions: set[Callable[..., Any]] = set()  # noqa: RUF012 - there is one of this class


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, fullgraph=True)


@cache
def has_compiler() -> bool:
    """Say whether a C++ compiler is at hand."""
    return any(shutil.which(name) for name in ("g++", "clang++", "cl"))
