"""Imports point downward, so that each part can be read without those built on it."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "marginals"
# From the bottom up; a module may import from its own layer and those before it.
LAYERS = [
    *("numerics", "runtime", "structure", "cells", "leaves", "tensors", "densities", "io"),
    *("training", "selection", "columns", "language", "queries", "synthesis", "plotting"),
    *("checking", "explorer", "estimators", "causal", "engines", "sql", "cli"),
]
TOP = {PACKAGE / "__init__.py", PACKAGE / "__main__.py"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path not in TOP)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path: Path) -> set[str]:
    """Return the marginals modules and names that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "marginals"}


def test_imports_point_downward() -> None:
    for path in MODULES:
        own = layer_of(path)
        assert own in LAYERS, f"{path} belongs to no layer: add it to LAYERS in its place."
        for name in imported(path):
            parts = name.split(".")
            assert len(parts) > 1, f"{path} imports the top of the package."
            assert parts[1] in LAYERS, f"{path} imports {name}"
            assert LAYERS.index(parts[1]) <= LAYERS.index(own), f"{path} imports {name}"


def test_no_file_is_too_long() -> None:
    lengths = {str(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > 500} == {}


def test_no_two_files_share_a_name() -> None:
    counts = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert [name for name, count in counts.items() if count > 1] == []


def test_private_names_stay_in_their_module() -> None:
    private = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in MODULES
        for name in imported(path)
        if name.split(".")[-1].startswith("_")
    }
    assert private == set()


def test_nothing_is_switched_by_the_thread() -> None:
    """How a computation runs is passed down as a `Backend`."""
    for path in MODULES:
        assert not re.search(r"threading\.local|import local|ContextVar", path.read_text()), path


def test_no_pickle() -> None:
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"pickle", "cloudpickle"}
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("torch", "load"), path
