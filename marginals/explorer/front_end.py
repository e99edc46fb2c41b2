"""The files of the front end, read once; and all of its modules as one, for notebooks."""

import re
from importlib import resources

# In the order in which they may refer to each other.
MODULES = (
    "types.js",
    "format.js",
    "svg.js",
    "transport.js",
    "state.js",
    "category_rows.js",
    "monitor.js",
    "arrangement.js",
    "gestures.js",
    "typing.js",
    "messages.js",
    "evidence_bar.js",
    "head.js",
    "target_panel.js",
    "pairs_panel.js",
    "rows_panel.js",
    "sweep.js",
    "drag.js",
    "explorer.js",
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(r"^import\s[^;]*?from\s+\"\./[\w.]+\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async |const |let |function |class ))", re.MULTILINE)


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the content and type of each file, by name; nothing else can be requested."""
    folder = resources.files("marginals.explorer") / "static"
    found = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rsplit(".", 1)[-1]
        if suffix in _TYPES:
            found[file.name] = (file.read_bytes(), _TYPES[suffix])
    return found


def one_module() -> str:
    """Return the modules and the widget's own as one module, which notebooks load as text.

    Each module's imports from the others are taken out: all share one scope, and no two declare
    the same name (a test checks it).
    """
    files = static_files()
    texts = [files[name][0].decode() for name in (*MODULES, "widget.js")]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def style() -> str:
    """Return the style sheet."""
    return static_files()["style.css"][0].decode()
