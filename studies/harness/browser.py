"""The browser that pages are measured and tested in: Debian's chromium or any other there is."""

import shutil

# Without a sandbox, a GPU or any traffic of its own.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def chromium() -> str | None:
    """Return the path of a browser, if there is one."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)
