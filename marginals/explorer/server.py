"""The page on this machine: a small web application around a session, for one token and host."""

import functools
import hmac
import json
import secrets
import socket
import sys
import threading
import traceback
import webbrowser
from collections.abc import Callable, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marginals.explorer.evidence_json import ImpossibleError, RequestError
from marginals.explorer.front_end import static_files
from marginals.explorer.session import Session
from marginals.explorer.workers import BusyError, OutdatedError, Workers

LOOPBACK = "127.0.0.1"
_MOST_BYTES = 256 * 1024
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def create_app(
    session: Session, token: str, hosts: Iterable[str], workers: Workers | None = None
) -> ASGIApp:
    """Return the application.

    Args:
        session: answers the requests.
        token: the first part of every path.
        hosts: the values of the Host header that are accepted, such as "127.0.0.1:8000".
        workers: run the requests.
    """
    files = static_files()
    pool = Workers() if workers is None else workers

    async def page(request: Request) -> Response:
        _check_token(request, token)
        return _file(files, request.path_params.get("name") or "index.html")

    async def api(request: Request) -> Response:
        _check_token(request, token)
        return await _answer(request, session, pool)

    app = Starlette(
        routes=[
            Route("/{token}/api", api, methods=["POST"]),
            Route("/{token}/", page),
            Route("/{token}/{name}", page),
        ]
    )
    for code in (404, 405):
        app.add_exception_handler(code, lambda _, error: _refusal(error.status_code, "Not found."))
    app.add_exception_handler(_RefusedError, _refused)
    return _Guard(app, frozenset(hosts))


class _RefusedError(Exception):
    """A request that is answered with a status and a message."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.more = status, message, more


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, _RefusedError)
    return _refusal(error.status, error.message, **error.more)


def _refusal(status: int, message: str, **more: Any) -> Response:
    return _json({"error": message, **more}, status)


def _json(content: Any, status: int = 200) -> Response:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Response(text, status, media_type="application/json")


class _Guard:
    """Check the Host and Origin of requests, and add headers that keep the page to itself."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        problem = self._problem(headers)
        if problem is None:
            await self.app(scope, receive, with_headers)
        else:
            await _refusal(403, problem)(scope, receive, with_headers)

    def _problem(self, headers: dict[str, str]) -> str | None:
        if headers.get("host", "").lower() not in self.hosts:
            return "Expected a request to the address that was printed; got another Host."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return "Expected a request from the page itself; got another Origin."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "Expected a request from the page itself; got one from another site."
        return None


def _check_token(request: Request, token: str) -> None:
    given = str(request.path_params["token"]).encode()
    if not hmac.compare_digest(given, token.encode()):
        raise _RefusedError(403, "Expected the address with its token, as it was printed.")


def _file(files: dict[str, tuple[bytes, str]], name: str) -> Response:
    if name not in files:
        raise _RefusedError(404, "Not found.")
    content, kind = files[name]
    return Response(content, media_type=kind)


async def _answer(request: Request, session: Session, pool: Workers) -> Response:
    content = await _content(request)
    name, page, number = (content.get(key) for key in ("ask", "page", "number"))
    if not isinstance(page, str) or len(page) > 64 or not isinstance(number, int):
        raise _RefusedError(400, "Expected `page`, a short text, and `number`, a whole number.")
    if not isinstance(name, str):
        raise _RefusedError(400, "Expected `ask` to name a request.")
    work = functools.partial(_worked, session, name, content.get("with", {}))
    try:
        text = await pool.run((page, name), number, work, name in session.quick)
    except OutdatedError:
        return _json({"outdated": True})
    except BusyError as error:
        raise _RefusedError(503, str(error)) from None
    except RequestError as error:
        impossible = isinstance(error, ImpossibleError)
        raise _RefusedError(400, str(error), impossible=impossible) from None
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        message = f"The answer failed ({type(error).__name__}); the terminal shows more."
        raise _RefusedError(500, message) from None
    return Response(text, media_type="application/json")


def _worked(session: Session, name: str, arguments: Any) -> str:
    """Return an answer as JSON, written in the worker and not on the event loop."""
    return json.dumps(
        session.answer(name, arguments), allow_nan=False, separators=(",", ":"), ensure_ascii=False
    )


async def _content(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise _RefusedError(415, "Expected a request as application/json.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise _RefusedError(413, f"Expected at most {_MOST_BYTES} bytes.")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise _RefusedError(400, "Expected JSON; got something else.") from None
    if not isinstance(content, dict):
        raise _RefusedError(400, "Expected a JSON object.")
    return content


# Serving ----------------------------------------------------------------------------------------


def serve(
    session: Session,
    host: str = LOOPBACK,
    port: int = 0,
    browser: bool = True,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the page until the process is interrupted.

    Args:
        session: answers the requests.
        host: the address to listen on.
        port: its port; 0 for a free one.
        browser: open the page.
        tell: receives the address.
    """
    import uvicorn

    listening = socket.create_server((host, port))
    own = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    names = {host, LOOPBACK, "localhost"} if host == LOOPBACK else {host}
    if host in ("0.0.0.0", "::"):
        names = {LOOPBACK, "localhost", socket.gethostname().lower(), *_addresses()}
    hosts = {f"{name}:{own}" for name in names}
    shown = LOOPBACK if host in ("0.0.0.0", "::") else host
    address = f"http://{shown}:{own}/{token}/"
    app = create_app(session, token, hosts)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    tell(address)
    if browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    uvicorn.Server(config).run(sockets=[listening])


def _addresses() -> set[str]:
    """Return the addresses of this machine, which other machines may use."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return set()
    return {str(entry[4][0]) for entry in found}
