"""The top of the package: quick to import, complete, and importable classes from every method."""

import ast
import inspect
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import marginals

# The packages whose `__all__` is public.
PACKAGES = ["marginals", *(f"marginals.{name}" for name in marginals._PACKAGES)]


def test_import_is_quick_and_loads_nothing() -> None:
    """Less than 0.3 s of processor time, which other work on the machine does not change."""
    code = (
        "import sys, time; start = time.process_time(); import marginals;"
        "print(time.process_time() - start, *(m for m in sys.modules if m.count('.') == 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *loaded = done.stdout.split()
    assert float(seconds) < 0.3
    assert not {"torch", "numpy", "scipy", "pandas", "sklearn"} & set(loaded)


def test_every_name_is_there() -> None:
    assert len(set(marginals.__all__)) == len(marginals.__all__)
    assert set(marginals._HOME_OF) == set(marginals.__all__)
    assert {*marginals.__all__, *marginals._PACKAGES, "__version__"} <= set(dir(marginals))
    for name in marginals.__all__:
        assert getattr(marginals, name).__name__ == name
    for name in marginals._PACKAGES:
        assert getattr(marginals, name) is import_module(f"marginals.{name}")
    assert marginals.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        marginals.absent  # noqa: B018


def test_type_checkers_see_the_same_homes() -> None:
    tree = ast.parse(Path(str(marginals.__file__)).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.name: str(node.module).removeprefix("marginals.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == marginals._HOME_OF


def public_callables() -> Iterator[tuple[str, Any]]:
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{package}.{name}", thing
            for key, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
                member = member.fget if isinstance(member, property) else member
                ours = getattr(member, "__module__", None) or ""
                if not key.startswith("_") and callable(member) and ours.startswith("marginals."):
                    yield f"{package}.{name}.{key}", member


def classes(annotation: Any) -> Iterator[type]:
    """Yield the classes of this package that an annotation mentions."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if annotation.__module__.startswith("marginals."):
            yield annotation
    else:
        for part in typing.get_args(annotation):
            yield from classes(part)


def test_what_public_methods_return_is_importable() -> None:
    things = [getattr(import_module(p), name) for p in PACKAGES for name in _all(p)]
    known = {thing for thing in things if inspect.isclass(thing)}
    names = {thing.__name__: thing for thing in known}  # of imports for type checkers only
    absent = set()
    for title, thing in public_callables():
        annotation = getattr(thing, "__annotations__", {}).get("return")
        if isinstance(annotation, str):
            annotation = eval(annotation, {**names, **vars(import_module(thing.__module__))})
        for found in classes(annotation):
            if not set(found.__mro__) & known:  # a subclass of a public class will do
                absent.add(f"{title} returns {found.__name__}")
    assert absent == set()


def _all(package: str) -> list[str]:
    return list(import_module(package).__all__)
