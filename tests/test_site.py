"""The site builds without a warning, needs no network, and its reference has every public name."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest

import marginals
from marginals.queries import TableDensity

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Pages on which the text of a class may name the arguments that its methods share.
FOR_EXPERTS = {"cells", "densities", "engines", "structure"}
PACKAGES = ["marginals", *(f"marginals.{name}" for name in marginals._PACKAGES)]


def tool(name: str) -> ModuleType:
    """Import a script of the docs, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The build ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings_handlers.python")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    loading = re.compile(r"""<(?:script|img|iframe)[^>]* src="?(https?:[^"> ]+)|<link[^>]* """)
    for page in pages:
        text = page.read_text()
        elsewhere = [found[1] for found in loading.finditer(text) if found[1]]
        elsewhere += re.findall(r'<link rel="(?:stylesheet|preconnect)" href="(https?:[^"]+)', text)
        assert not elsewhere, f"{page.name} loads {elsewhere}"
    assert "<math" in (tmp_path / "how.html").read_text()
    assert "arithmatex" not in (tmp_path / "how.html").read_text()
    assert (tmp_path / "search" / "search_index.json").exists()


def test_rendered_pages_are_adjusted() -> None:
    pytest.importorskip("latex2mathml")
    page = r'<p><span class="arithmatex">\(a &lt; b\)</span></p><div class="arithmatex">\[c\]</div>'
    found = tool("rendered_page").on_page_content(page + r"<td><code>P(x \| y)</code></td>")
    assert "<code>P(x | y)</code>" in found
    assert "<mo>&#x0003C;</mo>" in found
    assert found.count("<math") == 2
    assert 'class="formula"' in found


def test_pictures_of_the_model_are_drawn() -> None:
    figures = tool("draw_model").figures(rows=200, width=8, steps=5)
    assert {path.stem.removeprefix("how-") for path in (DOCS / "images").glob("how-*.png")} == set(
        figures
    )


def test_examples_of_the_gallery_become_pages() -> None:
    pytest.importorskip("mkdocs")
    text = "# ---\n\n# %% [markdown]\n# # Title\n#\n# Prose.\n\n# %%\nx = 1\n# why\n"
    assert tool("gallery_pages").as_markdown(text) == (
        "# Title\n\nProse.\n\n```python\nx = 1\n# why\n```"
    )


# The reference --------------------------------------------------------------------------------


def listed() -> dict[str, tuple[str, str | None]]:
    """Return the page of each name in the reference, and its option `members` if it has one."""
    found: dict[str, tuple[str, str | None]] = {}
    for page in sorted((DOCS / "reference").glob("*.md")):
        for name, options in re.findall(r"^::: (\S+)\n((?: .*\n)*)", page.read_text(), flags=re.M):
            assert name not in found, f"{name} is listed twice, the second time on {page.name}"
            chosen = re.search(r"members: (.*)", options)
            found[name] = page.stem, chosen[1] if chosen else None
    return found


def object_of(name: str) -> Any:
    """Return the object of a dotted name; `causal.shd` is both a module and its function."""
    package = max((p for p in PACKAGES if name.startswith(f"{p}.")), key=len)
    try:
        return resolve_name(f"{package}:{name.removeprefix(package + '.')}")
    except AttributeError:
        return resolve_name(name)


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    shown = [object_of(name) for name in listed()]
    absent = [
        f"{package}.{name}"
        for package in PACKAGES
        for name in import_module(package).__all__
        if not any(getattr(import_module(package), name) is other for other in shown)
    ]
    assert not absent, f"Add lines `::: NAME` to pages in docs/reference: {absent}"
    queries = {name for name in dir(TableDensity) if not name.startswith("_")}
    own = {name.rpartition(".")[2] for name in listed() if ".TableDensity." in name}
    assert queries == own, "docs/reference/queries.md lists the methods one by one"


def test_public_names_are_documented() -> None:
    faults = []
    for name, (page, shown) in listed().items():
        thing = object_of(name)
        for title, member in members(name, thing, shown):
            faults += faults_of(title, member, thing if page in FOR_EXPERTS else None)
    assert not faults, "\n".join(faults)


def members(name: str, thing: Any, shown: str | None) -> Iterator[tuple[str, Any]]:
    """Yield a public function or class and, for a class, its own public methods on the page."""
    if inspect.isclass(thing) or inspect.isfunction(thing):
        yield name, thing
    for key, value in vars(thing).items() if inspect.isclass(thing) and shown != "false" else ():
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        public = not key.startswith("_") and (shown is None or key in re.findall(r"\w+", shown))
        if public and (inspect.isfunction(value) or isinstance(value, property)):
            yield f"{name}.{key}", value


def faults_of(title: str, thing: Any, owner: Any = None) -> list[str]:
    """Return what is wrong with a docstring.

    Where methods share their arguments, the text of their class, `owner`, may name them once.
    """
    text = inspect.cleandoc(thing.__doc__ or "")  # its own: getdoc would take a base's
    if not text:
        return [f"{title}: expected a docstring; got none."]
    if isinstance(thing, property):
        return []
    named, taken = set(arguments(text)), set(parameters(thing))
    faults = [f"{title}: Args names `{more}`, no argument." for more in sorted(named - taken)]
    if owner is not None:
        shared = inspect.cleandoc(owner.__doc__ or "")
        named |= {*arguments(shared), *re.findall(r"`(\w+)`", text + shared)}
    return faults + [f"{title}: argument `{x}` is not in Args." for x in sorted(taken - named)]


def parameters(thing: Any) -> list[str]:
    """Return the names of the parameters, without `self` and `cls`."""
    if inspect.isclass(thing):
        maker = next(base for base in thing.__mro__ if "__init__" in vars(base))
        if not maker.__module__.startswith("marginals.") or getattr(thing, "_is_protocol", False):
            return []  # abstract, or an error with a message
    return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]


def arguments(text: str) -> Iterator[str]:
    """Yield the names under Args."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", text, flags=re.M)
    for names in re.findall(
        r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*): ", section[1] if section else "", re.M
    ):
        yield from names.replace("*", "").split(", ")


def test_missing_documentation_is_found() -> None:
    def bare(x: int) -> None: ...

    def partly(x: int, y: int) -> None:
        """Do it.

        Args:
            x, z: one of them is there.
        """

    def without_arguments(x: int) -> None:
        """Say it all in a line."""

    assert faults_of("f", bare) == ["f: expected a docstring; got none."]
    assert faults_of("f", without_arguments) == ["f: argument `x` is not in Args."]
    assert faults_of("f", partly) == [
        "f: Args names `z`, no argument.",
        "f: argument `y` is not in Args.",
    ]


def test_examples_in_docstrings_become_code_blocks() -> None:
    griffe = pytest.importorskip("griffe")
    text = "Do it: :math:`a_b`.\n\n>>> 1\n1\n\nThe end."
    thing = griffe.Function("f", docstring=griffe.Docstring(text))
    tool("docstrings").DocstringsAsMarkdown().on_object(obj=thing)
    assert thing.docstring.value == "Do it: $a_b$.\n\n```pycon\n>>> 1\n1\n```\n\nThe end."
