"""How soon the explorer's page follows a drag: from the pointer's move to the frame that shows it.

A default model of 20 columns is served by `marginals explore` in its own process, and Chromium
drags a range at 60 moves a second. A move counts as shown in the first frame that has the monitors
of this or a later move. Moves that a newer one overtook therefore count with their full wait, as do
those at the start of a drag, which wait for its one request.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marginals import MDMA
from studies.harness.available import Unavailable, check_choice, installed
from studies.harness.browser import FLAGS, chromium
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import shown, table
from studies.latency import fitted, make_table

# What is given besides the column under the pointer.
GIVEN: dict[str, dict[str, Any]] = {
    "a value": {},
    "a range": {},
    "a range, given a value": {"x1": {"is": "value", "value": 0.5}},
    "a range, given a range": {"x1": {"is": "range", "low": 0.0, "high": 1.0}},
    "a range, given a category": {"city": {"is": "value", "value": "b"}},
}
COLUMN = "x0"
# Note when the pointer moves and when monitors have been drawn; the frame after that shows them.
_WATCH = """(column) => {
  window.moves = []; window.frames = [];
  const plot = document.querySelector(`.mx-plot[data-id=${column}]`);
  const move = (event) => event.buttons && moves.push(event.timeStamp);
  plot.addEventListener('pointermove', move, {capture: true});
  document.querySelector('.mx').addEventListener('mx-drawn', ({detail}) =>
    requestAnimationFrame(() => frames.push([detail.since, performance.now()])));
}"""


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Drag on the page, and return the quantiles of the time to the frame."""
    check_choice("`drags`", job["drag"], GIVEN)
    installed("playwright")
    if chromium() is None:
        raise Unavailable("Expected a browser; got none. Install chromium.")
    model = context.once("model", lambda: fitted(settings, make_table(settings.rows, seed), seed))
    with _served(model) as address, _page(address, job["drag"]) as page:
        waits = _dragged(page, settings.moves, value=job["drag"] == "a value")
    median, high = np.quantile(waits, [0.5, 0.95])
    return {"median_ms": round(median, 1), "p95_ms": round(high, 1), "moves": len(waits)}


def _dragged(page: Any, moves: int, value: bool) -> list[float]:
    """Return the milliseconds from each move to its frame."""
    box = page.locator(f".mx-plot[data-id={COLUMN}]").bounding_box()
    x, y = box["x"] + 0.35 * box["width"], box["y"] + 0.3 * box["height"]
    if value:
        page.mouse.click(x, y)
        page.wait_for_function("() => document.querySelector('.mx').dataset.shown === 'exact'")
    page.evaluate(_WATCH, COLUMN)
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(moves):
        started = time.perf_counter()
        share = 0.1 + 0.25 * (1 + np.sin(step / 12))
        page.mouse.move(x + share * box["width"], y)
        time.sleep(max(0.0, 1 / 60 - (time.perf_counter() - started)))
    page.wait_for_timeout(1000)
    page.mouse.up()
    made, frames = page.evaluate("[moves, frames]")
    # The first moves are too short to be a drag, and first answers warm the caches.
    found = [next((at - move for since, at in frames if since >= move), None) for move in made[5:]]
    return [wait for wait in found if wait is not None]


@contextlib.contextmanager
def _served(model: MDMA) -> Iterator[str]:
    """Serve a model as the command does; give the page's address."""
    code = "from marginals.cli import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.mdma")
        command = [sys.executable, "-c", code, "explore", "model.mdma", "--no-browser"]
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split()[-1]
        finally:
            process.terminate()
            process.communicate(timeout=20)


@contextlib.contextmanager
def _page(address: str, drag: str) -> Iterator[Any]:
    """Open the page with the evidence of a drag."""
    sync_api = installed("playwright.sync_api")
    state = urllib.parse.quote(json.dumps({"e": GIVEN[drag]}))
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"{address}#{state}")
        page.wait_for_selector(".mx-grid .mx-line")
        page.wait_for_timeout(1500)
        yield page
        browser.close()


def tables(records: Records, paper: Paper) -> str:
    """Return a line for each drag."""
    head = ["milliseconds from a move to its frame", "median", "95th percentile"]
    lines = [[r["drag"], shown(r["median_ms"], 0), shown(r["p95_ms"], 0)] for r in records]
    return table(head, lines)


STUDIES = (
    Study(
        "drag",
        "Drags on the explorer's page",
        measure,
        tables,
        grid={"drag": "drags"},
        page="explorer",
    ),
)
