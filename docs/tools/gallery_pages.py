"""Add a page for each worked example of gallery/, notebooks in jupytext's percent format."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

GALLERY = Path(__file__).parents[2] / "gallery"
_CELL = re.compile(r"^# %%(.*)\n", flags=re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to the files of the site."""
    for path in sorted(GALLERY.glob("*.py")):
        if _CELL.search(text := path.read_text()):
            picture = f"![](../images/gallery/{path.stem}.png)"
            page = f"{as_markdown(text)}\n\n{picture}\n"
            files.append(File.generated(config, f"gallery/{path.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to an example lead to its page."""
    if page.file.src_uri != "gallery.md":
        return markdown
    return re.sub(
        r"\[[^]]*\]\(\.\./gallery/(\w+)\.py\)", r"[Read the example](gallery/\1.md).", markdown
    )


def as_markdown(text: str) -> str:
    """Return a notebook's text as Markdown: prose as it is, code in blocks."""
    _, *parts = _CELL.split(text)
    cells = zip(parts[::2], parts[1::2], strict=True)
    found = []
    for kind, body in cells:
        if "[markdown]" in kind:
            found.append(re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE))
        elif body.strip():
            found.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(found)
