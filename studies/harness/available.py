"""Whether what a run asks for is there: a choice among names, a package, a data set."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any, final


@final
class Unavailable(Exception):  # noqa: N818 (not an error: the job is skipped)
    """A package or a data set is missing; the message says how to get it."""


def check_choice(what: str, given: Any, known: Iterable[Any]) -> Any:
    """Return a value that is among those known; end the program if it is not."""
    if given not in (known := list(known)):
        raise SystemExit(
            f"Expected {what} to be among {', '.join(map(str, known))}; got {given!r}."
        )
    return given


def installed(name: str) -> Any:
    """Import a package that is not required."""
    try:
        return import_module(name)
    except ImportError as cause:
        raise Unavailable(
            f"Expected the package {name.split('.')[0]!r}; got {cause}. Install it with "
            "`pip install 'marginals[experiments]'`."
        ) from cause
