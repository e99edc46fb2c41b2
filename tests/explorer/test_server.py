"""The page's server: tokens, hosts, headers, limits, and requests that do not block each other."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from marginals.explorer.session import Session
from marginals.explorer.workers import Workers
from tests.explorer.conftest import TOKEN, Running, serving

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx")

Client = Any


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Client]:
    with client_of(server) as client:
        yield client


def client_of(server: Running) -> Client:
    limits = httpx.Limits(max_connections=60)
    return httpx.Client(base_url=server.address.split(f"/{TOKEN}")[0], timeout=60, limits=limits)


def asked(client: Client, ask: str, page: str = "p", number: int = 1, **content: Any) -> Any:
    body = {"ask": ask, "page": page, "number": number, "with": content}
    return client.post(f"/{TOKEN}/api", json=body)


def test_the_page_and_its_files_are_served(client: Client) -> None:
    page = client.get(f"/{TOKEN}/")
    assert page.status_code == 200
    assert "main.js" in page.text
    for name, kind in (("main.js", "text/javascript"), ("style.css", "text/css")):
        file = client.get(f"/{TOKEN}/{name}")
        assert file.status_code == 200
        assert file.headers["content-type"].startswith(kind)


def test_headers_keep_the_page_to_itself(client: Client) -> None:
    for path in (f"/{TOKEN}/", f"/{TOKEN}/main.js", "/nowhere"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/main.js", "/a-toke/", "/a-token2/"])
def test_without_the_token_nothing_is_served(client: Client, path: str) -> None:
    assert client.get(path).status_code in (403, 404)
    assert client.post("/wrong/api", json={}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1:9999"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_other_hosts_and_origins_are_refused(client: Client, headers: dict[str, str]) -> None:
    body = {"ask": "table", "page": "p", "number": 1}
    reply = client.post(f"/{TOKEN}/api", json=body, headers=headers)
    assert reply.status_code == 403
    assert "error" in reply.json()


@pytest.mark.parametrize(
    "name",
    ["..%2f..%2fsession.py", "..%2fsession.py", "%2fetc%2fpasswd", "session.py", "tsconfig.json"],
)
def test_no_other_file_can_be_read(client: Client, name: str) -> None:
    assert client.get(f"/{TOKEN}/{name}").status_code == 404


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{}", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b'"' + b"x" * 300_000 + b'"', "application/json", 413),
        (b'{"ask": "monitors", "page": "p", "number": 1, "with": []}', "application/json", 400),
        (b'{"ask": "open", "page": "p", "number": 1, "with": {}}', "application/json", 400),
        (b'{"ask": "table", "page": "p", "number": "one"}', "application/json", 400),
    ],
)
def test_bad_requests_get_a_clear_message(
    client: Client, body: bytes, kind: str, status: int
) -> None:
    reply = client.post(f"/{TOKEN}/api", content=body, headers={"content-type": kind})
    assert reply.status_code == status
    assert "Traceback" not in reply.text
    assert reply.json()["error"]


def test_impossible_evidence_is_marked(client: Client) -> None:
    reply = asked(client, "monitors", evidence={"rain": {"is": "value", "value": -1}})
    assert reply.status_code == 400
    assert reply.json()["impossible"]


def test_an_error_of_ours_shows_no_traceback(session: Session, capsys: Any) -> None:
    class Broken:
        quick = session.quick

        def answer(self, name: Any, arguments: Any) -> Any:
            raise ZeroDivisionError("secret")

    with serving(Broken()) as server, client_of(server) as client:  # type: ignore[arg-type]
        reply = asked(client, "table")
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "secret" in capsys.readouterr().err


class Slow:
    """A session with one request that waits, and counts those that are worked on."""

    quick = frozenset({"monitors"})

    def __init__(self) -> None:
        self.go, self.worked = threading.Event(), []  # type: ignore[var-annotated]

    def answer(self, name: str, arguments: Any) -> Any:
        self.worked.append(arguments.get("n"))
        if name == "slow" or arguments.get("wait"):
            assert self.go.wait(20)
        return {"n": arguments.get("n")}


def test_slow_requests_block_no_quick_ones_and_outdated_ones_are_dropped() -> None:
    session = Slow()
    workers = Workers(quick=1, slow=1)
    with (
        serving(session, workers) as server,  # type: ignore[arg-type]
        client_of(server) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        slow = [threads.submit(asked, client, "slow", "p", 1, n="slow")]
        while "slow" not in session.worked:
            time.sleep(0.01)
        slow += [threads.submit(asked, client, "slow", "p", 2, n="older")]
        time.sleep(0.1)
        slow += [threads.submit(asked, client, "slow", "p", 3, n="newer")]
        assert asked(client, "monitors", "p", 4, n="quick").json() == {"n": "quick"}
        time.sleep(0.1)
        session.go.set()
        replies = [job.result(20).json() for job in slow]
    assert replies == [{"n": "slow"}, {"outdated": True}, {"n": "newer"}]
    assert "older" not in session.worked


def test_the_command_prints_an_address_that_works(model: Any, data: Any, tmp_path: Any) -> None:
    model.save(tmp_path / "shop.mdma")
    data.to_csv(tmp_path / "shop.csv", index=False)
    line = ["explore", "shop.mdma", "--data", "shop.csv", "--no-browser"]
    code = "from marginals.cli import main; main()"
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", code, *line],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        assert len(address.split("/")[3]) >= 32
        assert "explorer" in httpx.get(address).text
        body = {"ask": "table", "page": "p", "number": 1, "with": {}}
        found = httpx.post(f"{address}api", json=body, timeout=60).json()
        assert found["rows"] == len(data)
        assert found["model"] == "shop.mdma"
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_fifty_pages_at_once(client: Client) -> None:
    def drag(page: int) -> int:
        cell = {"is": "value", "value": page / 50}
        reply = asked(client, "monitors", f"fiftieth {page}", 1, evidence={"size": cell})
        return int(reply.status_code == 200 and "columns" in reply.json())

    with ThreadPoolExecutor(50) as threads:
        assert list(threads.map(drag, range(50))) == [1] * 50
