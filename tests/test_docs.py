"""Every snippet of the README and the docs runs, and every link of the README leads somewhere."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from marginals.cli import app
from marginals.selection.recipes import SECONDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Pages outside of the site, whose links the strict build does not see.
LOOSE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
LOOSE.append(ROOT / "studies" / "README.md")
HOME = DOCS / "index.md"  # shows the README's snippet
PAGES = [
    page
    for page in [*LOOSE, *sorted(DOCS.glob("*.md"))]
    if page != HOME and "```" in page.read_text()
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in order, Python in one namespace, in an empty folder.

    Fits without settings get the seconds of a quick one.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SECONDS, "fast", SECONDS["quick"])
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


def test_home_shows_the_snippet_of_the_readme() -> None:
    (snippet,) = re.findall(r"```python\n.*?```", HOME.read_text(), re.S)
    assert snippet in (ROOT / "README.md").read_text()


def run_commands(snippet: str) -> None:
    """Run the lines that call our own program, and not those that call `make` or `pip`."""
    for line in snippet.splitlines():
        if line.startswith("marginals "):
            done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}"


@pytest.mark.parametrize("page", LOOSE, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_docs_named_in_the_code_exist() -> None:
    """Comments and messages that name a page of the docs name one that is there."""
    for path in [*ROOT.glob("marginals/**/*.py"), *ROOT.glob("studies/**/*.py")]:
        for name in re.findall(r"\bdocs/([\w/]+\.md)", path.read_text()):
            assert (DOCS / name).exists(), f"{path} names docs/{name}"
