"""The widget: one module of all parts, and messages that are answered."""

import re
import threading
from collections import Counter
from typing import Any

import pytest

from marginals.explorer.front_end import MODULES, one_module, static_files
from marginals.explorer.session import Session
from marginals.explorer.widget import Desk


def test_modules_are_all_listed() -> None:
    files = {name for name in static_files() if name.endswith(".js")}
    assert files == {*MODULES, "main.js", "widget.js"}


def test_no_two_modules_declare_the_same_name() -> None:
    declared: Counter[str] = Counter()
    for name in (*MODULES, "widget.js"):
        text = static_files()[name][0].decode()
        found = r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)"
        declared.update(re.findall(found, text, re.MULTILINE))
    assert [name for name, count in declared.items() if count > 1] == []


def test_one_module_imports_nothing() -> None:
    text = one_module()
    assert not re.search(r"^import ", text, re.MULTILINE)
    assert len(re.findall(r"^export default", text, re.MULTILINE)) == 1


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name, (content, _) in static_files().items():
        addresses = set(re.findall(r"https?://[^\"'\s>)]+", content.decode()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name


def test_messages_are_answered(session: Session) -> None:
    replies: list[Any] = []
    done = threading.Event()

    def send(reply: Any) -> None:
        replies.append(reply)
        if len(replies) == 3:
            done.set()

    desk = Desk(session, send)
    desk.receive(
        {"ask": "typed", "number": 1, "page": "p", "with": {"column": "size", "text": "1"}}
    )
    desk.receive({"ask": "monitors", "number": 2, "page": "p", "with": {"evidence": 3}})
    desk.receive({"ask": "sample", "number": 3, "page": "p", "with": {"count": 2}})
    desk.receive("nonsense")
    assert done.wait(30)
    by_number = {reply["number"]: reply["answer"] for reply in replies}
    assert by_number[1] == {"cell": {"is": "value", "value": 1.0}}
    assert "Expected" in by_number[2]["error"]
    assert by_number[3]["count"] == 2


def test_a_fitted_model_shows_itself(model: Any, data: Any) -> None:
    pytest.importorskip("anywidget")
    widget = model.explore(data)
    assert "startExplorer" in widget._esm
    assert ".mx" in widget._css
