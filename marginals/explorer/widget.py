"""The explorer in a notebook: the same front end and session, over the notebook's messages."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from marginals.explorer.evidence_json import ImpossibleError, RequestError
from marginals.explorer.front_end import one_module, style
from marginals.explorer.session import Session
from marginals.queries import TableDensity
from marginals.runtime.extras import optional


def explore(model: TableDensity, data: Any = None) -> Any:
    """Return a widget that explores a model, in Jupyter, VS Code and marimo.

    Args:
        model: a fitted `MDMA`, or a view of one.
        data: rows to compare with, a DataFrame.
    """
    anywidget = optional("anywidget", "marginals[explore]")

    class Explorer(anywidget.AnyWidget):  # type: ignore[name-defined]
        """Answer the messages of the front end."""

        _esm = one_module()
        _css = style()

    session = Session(model, data)
    widget = Explorer()
    Desk(session, widget.send).listen(widget)
    return widget


class Desk:
    """Answer messages in threads; those that a newer one has replaced are dropped.

    Args:
        session: answers the requests.
        send: sends an answer to the front end.
    """

    def __init__(self, session: Session, send: Any) -> None:
        self._session, self._send = session, send
        self._latest: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._pools = [
            ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
            for _ in range(2)
        ]

    def listen(self, widget: Any) -> None:
        """Answer the messages of a widget."""
        widget.on_msg(lambda _, content, __: self.receive(content))

    def receive(self, content: Any) -> None:
        """Answer one message, later and in a thread."""
        if not isinstance(content, Mapping) or not isinstance(content.get("number"), int):
            return
        key = (str(content.get("page"))[:64], str(content.get("ask"))[:64])
        with self._lock:
            self._latest[key] = max(content["number"], self._latest.get(key, 0))
        pool = self._pools[0 if content.get("ask") in self._session.quick else 1]
        pool.submit(self._work, key, content)

    def _work(self, key: Any, content: Mapping[str, Any]) -> None:
        reply: dict[str, Any] = {"number": content["number"], "ask": content.get("ask")}
        with self._lock:
            outdated = self._latest[key] > content["number"]
        try:
            if outdated:
                reply["answer"] = {"outdated": True}
            else:
                reply["answer"] = self._session.answer(content.get("ask"), content.get("with", {}))
        except RequestError as error:
            reply["answer"] = {
                "error": str(error),
                "impossible": isinstance(error, ImpossibleError),
            }
        except Exception as error:
            reply["answer"] = {"error": f"The answer failed ({type(error).__name__}: {error})."}
        self._send(reply)
