"""Every Python snippet of the README and the docs runs, in order, in one namespace per page."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # what a user has
    namespace: dict[str, object] = {}
    try:
        for snippet in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S):
            exec(compile(snippet, str(page), "exec"), namespace)
    finally:
        torch.set_default_dtype(torch.float64)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
