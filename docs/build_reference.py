"""Write docs/reference.md from the signatures and docstrings of the public names.

    python docs/build_reference.py

Fails if a public name has no docstring, or if the arguments that a docstring lists are not those of
the signature.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

fill = TextWrapper(width=96, subsequent_indent="    ", break_long_words=False).fill
PAGE = Path(__file__).with_name("reference.md")
# Public: the names in `__all__` of these modules, each listed under the first that has it.
MODULES = {
    "marginals": "The top of the package.",
    "marginals.queries": "Queries on a `Density` by column positions; `MDMA` has them by name.",
    "marginals.causal": 'Needs causal-learn: `pip install "marginals[causal]"`.',
    "marginals.synthesis": "The quality of synthetic rows.",
    "marginals.checking": "How far to trust a model on a table.",
    "marginals.engines": 'Models over tables of any size; needs `pip install "marginals[arrow]"`.',
    "marginals.sql": 'Models in DuckDB; needs `pip install "marginals[sql]"`.',
    "marginals.plotting": 'Needs matplotlib: `pip install "marginals[plot]"`.',
    "marginals.cells": "Cells as users give them, and evidence as densities take it.",
    "marginals.columns": "Column kinds and schemas, and the encoding of cells as evidence.",
    "marginals.language": "The query language of `MDMA.query` and the command line.",
    "marginals.densities": "Densities and what their methods return.",
    "marginals.structure": "Trees of column groups, and functions that build them.",
    "marginals.training": "Maximum likelihood for one density.",
}
HEAD = """# Reference

Written by `docs/build_reference.py` from signatures and docstrings; change those, not this page.
Shapes: B rows, D columns, n columns at hand, M components.
"""
_ARGUMENT = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")


def main() -> None:
    """Write the page, or fail with a list of undocumented names."""
    text, faults = build()
    if faults:
        sys.exit("\n".join(faults))
    PAGE.write_text(text)


def build() -> tuple[str, list[str]]:
    """Return the page and the faults of the docstrings."""
    parts, faults = [HEAD], []
    seen: set[Any] = set()
    for name, remark in MODULES.items():
        module = importlib.import_module(name)
        parts.append(f"## {name}\n\n{remark}\n")
        for public in module.__all__:
            thing = getattr(module, public)
            if not callable(thing) or thing in seen:
                continue
            seen.add(thing)
            for title, member in members(public, thing, seen):
                faults += check(f"{name}.{title}", member)
                parts.append(entry(title, member))
    return "\n".join(parts), faults


def members(name: str, thing: Any, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield a public name and, of a class, its public methods that are not listed already."""
    yield name, thing
    if not inspect.isclass(thing):
        return
    ours = [base for base in thing.__mro__ if base.__module__.startswith("marginals.")]
    inherited = {m for base in ours[1:] if base in seen for m in vars(base)}
    found: dict[str, Any] = {}
    for base in reversed(ours):
        found |= {m: v for m, v in vars(base).items() if not m.startswith("_")}
    for member, value in sorted(found.items()):
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        documented = inspect.isfunction(value) or isinstance(value, property)
        if documented and member not in inherited and value not in seen:
            seen.add(value)
            yield f"{name}.{member}", value


def check(title: str, thing: Any) -> list[str]:
    """Return the faults of a docstring."""
    text = inspect.cleandoc(thing.__doc__ or "")  # its own: getdoc would take a base's
    if not text:
        return [f"{title}: expected a docstring; got none."]
    named = set(arguments(text))
    if not named or isinstance(thing, property):
        return []
    taken = {p.name for p in parameters(thing)}
    faults = [f"{title}: argument `{left}` is not in Args." for left in sorted(taken - named)]
    return faults + [f"{title}: Args names `{more}`, no argument." for more in named - taken]


def entry(title: str, thing: Any) -> str:
    """Return a name with its signature and docstring as Markdown."""
    level = "####" if "." in title else "###"
    call = title if isinstance(thing, property) else fill(f"{title}({signature(thing)})")
    about = markdown(inspect.cleandoc(thing.__doc__ or ""))
    return f"{level} {title}\n\n```text\n{call}\n```\n\n{about}\n"


def parameters(thing: Any) -> list[inspect.Parameter]:
    """Return the parameters, without `self` or `cls`."""
    if inspect.isclass(thing):
        maker = next(base for base in thing.__mro__ if "__init__" in vars(base))
        if not maker.__module__.startswith("marginals."):
            return []  # abstract, or an error with a message
    every = inspect.signature(thing).parameters.values()
    return [p for p in every if p.name not in ("self", "cls")]


def signature(thing: Any) -> str:
    """Return the parameters as text, without annotations."""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters(thing)]
    return str(inspect.Signature(plain))[1:-1].replace("<factory>", "...")


def arguments(text: str) -> Iterator[str]:
    """Yield the names under Args."""
    for found in filter(None, map(_ARGUMENT.match, section(text))):
        yield from found[1].replace("*", "").split(", ")


def section(text: str) -> list[str]:
    """Return the lines under Args, with the names not indented."""
    if "Args:\n" not in text:
        return []
    lines = text.split("Args:\n", 1)[1].split("\n")
    end = next((i for i, line in enumerate(lines) if line and line[0] != " "), len(lines))
    return [line.removeprefix("    ") for line in lines[:end]]


def markdown(text: str) -> str:
    """Turn a docstring into Markdown: arguments into a list, examples into a block."""
    text = re.sub(r":math:`([^`]*)`", r"`\1`", text)
    lines = [_ARGUMENT.sub(_as_item, line) for line in section(text)]
    if lines:
        head, rest = text.split("Args:\n", 1)
        body = "\n".join(rest.split("\n")[len(lines) :])
        listed = "\n".join("  " + ln.strip() if ln.startswith("    ") else ln for ln in lines)
        text = f"{head}{listed.rstrip()}\n\n{body}".rstrip()
    return re.sub(r"^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", text, flags=re.M)


def _as_item(found: re.Match[str]) -> str:
    return "- " + ", ".join(f"`{name}`" for name in found[1].split(", ")) + ": "


if __name__ == "__main__":
    main()
