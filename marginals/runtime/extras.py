"""Import an optional package when it is needed, or say how to install it."""

import importlib
from typing import Any


def optional(module: str, package: str) -> Any:
    """Import a module of a package that a core install lacks.

    Args:
        module: dotted name, such as "pyarrow.parquet".
        package: what to install; an extra of this package, such as "marginals[arrow]", where one
            lists it.

    >>> optional("json", "marginals[plot]").dumps([1])
    '[1]'
    >>> optional("absent.part", "marginals[plot]")
    Traceback (most recent call last):
    ImportError: Expected `absent` to be installed; ... Run: pip install "marginals[plot]".
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Expected `{module.split('.')[0]}` to be installed; got: {error}. "
            f'Run: pip install "{package}".'
        ) from error
