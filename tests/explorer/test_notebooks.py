"""The widget in JupyterLab and marimo themselves, where they are installed."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from marginals import MDMA
from studies.harness.browser import FLAGS, chromium
from tests.explorer.conftest import table

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("anywidget", reason="anywidget is not installed")
BROWSER = chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium"),
]
ROOT = Path(__file__).parents[2]
CODE = """import marginals, pandas as pd
model = marginals.load("shop.mdma")
model.explore(pd.read_parquet("shop.parquet"))"""
MARIMO = f"""import marimo
app = marimo.App()

@app.cell
def _():
    {CODE.replace(chr(10), chr(10) + "    ").replace("model.explore", "widget = model.explore")}
    import marimo as mo
    shown = mo.ui.anywidget(widget)
    shown
    return

if __name__ == "__main__":
    app.run()
"""


def command(name: str) -> str:
    """Return the path of a program beside this Python or on the path; skip without one."""
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = table(120)
    MDMA(width=3, max_steps=5, random_state=0, progress=False).fit(frame).save(
        tmp_path / "shop.mdma"
    )
    frame.to_parquet(tmp_path / "shop.parquet")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": CODE}
    book = {
        "cells": [cell | {"execution_count": None}],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (tmp_path / "shop.ipynb").write_text(json.dumps(book))
    (tmp_path / "shop.py").write_text(MARIMO)
    return tmp_path


@contextmanager
def running(words: list[str], folder: Path, port: int) -> Iterator[str]:
    """Run a server of notebooks until it answers, and end it afterwards."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def check_widget(page: Any) -> None:
    """Give evidence by mouse, and see the other columns move."""
    page.set_default_timeout(120_000)
    line = page.locator(".mx-card[data-id=weight] .mx-line[d]")
    line.wait_for(state="attached")
    before = line.get_attribute("d")
    # Cards are drawn when they come into sight.
    page.locator(".mx-card[data-id=kind] .mx-plot").scroll_into_view_if_needed()
    page.locator(".mx-card[data-id=kind] [data-bar='0'] text").first.click()
    chip = page.locator(".mx-chips li", has_text="kind = ")
    chip.wait_for()
    page.locator(".mx-probability b").wait_for()
    page.locator(".mx-card[data-id=weight] .mx-plot").scroll_into_view_if_needed()
    for _ in range(100):
        if line.get_attribute("d") != before:
            return
        page.wait_for_timeout(100)
    pytest.fail("the curve did not move")


def test_jupyterlab(folder: Path) -> None:
    port = free_port()
    words = [command("jupyter-lab"), "--no-browser", "--allow-root", f"--port={port}"]
    words += ["--ServerApp.token=t", "--ServerApp.open_browser=False", "--ip=127.0.0.1"]
    with running(words, folder, port) as address, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto(f"{address}/lab/tree/shop.ipynb?token=t", timeout=120_000)
        cell = page.locator(".jp-Notebook .cm-content").first
        cell.wait_for(timeout=120_000)
        page.get_by_text("| Idle").wait_for(timeout=120_000)  # the kernel is ready
        cell.click()
        page.keyboard.press("Shift+Enter")
        try:
            check_widget(page)
        finally:
            page.screenshot(path=folder / "jupyter.png")
        browser.close()


def test_marimo(folder: Path) -> None:
    port = free_port()
    words = [command("marimo"), "run", "shop.py", "--headless", "--no-token", f"--port={port}"]
    words += ["--host=127.0.0.1"]
    with running(words, folder, port) as address, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto(address, timeout=120_000)
        try:
            check_widget(page)
        finally:
            page.screenshot(path=folder / "marimo.png")
        browser.close()
