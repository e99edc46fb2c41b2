"""A small fitted table of every kind of column, a session on it, and a server."""

import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous
from marginals.explorer.session import Session
from marginals.explorer.workers import Workers
from studies.harness.browser import FLAGS, chromium

TOKEN = "a-token"
BROWSER = chromium()
NEEDS_BROWSER = pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium")

Page = Any


def table(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
    late = np.random.default_rng(1).normal(size=rows)
    frame = pd.DataFrame(
        {
            "size": size,
            "weight": 2 * size + rng.normal(size=rows),
            "count": rng.poisson(np.exp(0.6 + 0.4 * size)),
            "price": np.round(20 + 3 * size + rng.normal(size=rows), 1),
            "rain": np.where(rng.random(rows) < 0.4, 0.0, rng.gamma(2.0, 1 + size**2)),
            "kind": np.array(["small", "middle", "large"])[
                np.clip((size + 2) // 1.4, 0, 2).astype(int)
            ],
            "sold": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(np.round(90 + 30 * size + 12 * late), "D"),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "rain"] = 5.0
    return frame.mask(rng.random(frame.shape) < 0.05)


@pytest.fixture(scope="session")
def data() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="session")
def model(data: pd.DataFrame) -> MDMA:
    kinds = {"rain": Continuous(lower=0, atoms=(0.0, 5.0)), "size": Continuous()}
    model = MDMA(tensor="copula", width=4, max_steps=60, columns=kinds, random_state=0)
    return model.fit(data)


@pytest.fixture(scope="session")
def session(model: MDMA, data: pd.DataFrame) -> Session:
    return Session(model, data, "shop.mdma")


@dataclass
class Running:
    """A server in a thread."""

    address: str
    stop: threading.Event


@contextmanager
def serving(session: Session, workers: Workers | None = None, port: int = 0) -> Iterator[Running]:
    import uvicorn

    from marginals.explorer.server import create_app

    listening = socket.create_server(("127.0.0.1", port))
    port = listening.getsockname()[1]
    app = create_app(session, TOKEN, [f"127.0.0.1:{port}"], workers)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    server, stop = uvicorn.Server(config), threading.Event()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)

    def end() -> None:
        stop.wait()
        server.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    try:
        yield Running(f"http://127.0.0.1:{port}/{TOKEN}/", stop)
    finally:
        stop.set()
        thread.join(10)
        listening.close()


@pytest.fixture(scope="session")
def server(session: Session) -> Iterator[Running]:
    with serving(session) as running:
        yield running


# Browsers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Page]:
    """Return a new page; an error in its console fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(15_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda m: m.type == "error" and problems.append(m.text))
    yield page
    context.close()
    refused = [p for p in problems if "400 (Bad Request)" not in p]
    assert not refused


def address(server: Running, **state: Any) -> str:
    return f"{server.address}#{urllib.parse.quote(json.dumps(state))}"


def opened(page: Page, server: Running, **state: Any) -> Page:
    page.goto(address(server, **state))
    page.wait_for_selector(".mx-grid .mx-line" if "view" not in state else ".mx-head")
    return page


def card(page: Page, name: str) -> Any:
    return page.locator(f".mx-card[data-id={name}]")


def given(page: Page) -> str:
    return str(page.locator(".mx-chips").inner_text())


def settled(page: Page, text: str) -> None:
    """Wait until the evidence bar holds a text and a probability."""
    page.wait_for_function(
        "text => document.querySelector('.mx-chips').innerText.includes(text)"
        " && document.querySelector('.mx-probability').innerText.includes('=')",
        arg=text,
    )
