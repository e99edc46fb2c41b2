"""Every snippet of the README and the docs runs, and the reference says what the code says."""

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import torch
from typer.testing import CliRunner

from marginals.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "README.md", ROOT / "studies" / "README.md"),
    *sorted((ROOT / "docs").glob("*.md")),
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in order, Python in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # what a user has
    namespace: dict[str, object] = {}
    try:
        for language, snippet in re.findall(r"```(python|sh)\n(.*?)```", page.read_text(), re.S):
            if language == "python":
                exec(compile(snippet, str(page), "exec"), namespace)
            else:
                run_commands(snippet)
    finally:
        torch.set_default_dtype(torch.float64)


def run_commands(snippet: str) -> None:
    """Run those lines that call our own program; `make` and `pip` are another matter."""
    for line in snippet.splitlines():
        if line.startswith("marginals "):
            done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), target


# The reference --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that writes the page, which is no part of the package."""
    path = ROOT / "docs" / "build_reference.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_complete_and_up_to_date(reference: ModuleType) -> None:
    text, faults = reference.build()
    assert not faults
    assert text == reference.PAGE.read_text(), "Run: python docs/build_reference.py"


def test_reference_refuses_what_is_not_documented(reference: ModuleType) -> None:
    def bare(x: int) -> None: ...

    def partly(x: int, y: int) -> None:
        """Do it.

        Args:
            x, z: one of them is there.
        """

    def without_arguments(x: int) -> None:
        """Say it all in a line."""

    assert reference.check("bare", bare) == ["bare: expected a docstring; got none."]
    assert reference.check("partly", partly) == [
        "partly: argument `y` is not in Args.",
        "partly: Args names `z`, no argument.",
    ]
    assert reference.check("plain", without_arguments) == []


def test_reference_turns_a_docstring_into_markdown(reference: ModuleType) -> None:
    doc = "Do it.\n\nArgs:\n    x, y: two\n        lines.\n    z: one.\n\n>>> 1\n1\n\nThe end."
    assert reference.markdown(doc) == (
        "Do it.\n\n- `x`, `y`: two\n  lines.\n- `z`: one.\n\n```pycon\n>>> 1\n1\n```\n\nThe end."
    )
