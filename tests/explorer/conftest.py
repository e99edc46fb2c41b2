"""A small fitted table of every kind of column, a session on it, and a server."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous
from marginals.explorer.session import Session
from marginals.explorer.workers import Workers

TOKEN = "a-token"


def table(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
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
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.round(90 + 30 * size), "D"),
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
