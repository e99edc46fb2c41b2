"""The bar is shown on a terminal, or on request, and nowhere else."""

import io
import sys

import pytest

from marginals import fit
from marginals.training.progress_bar import ProgressBar
from tests.training.helpers import rows, small

SETTINGS = {"max_steps": 10, "evaluate_every": 5}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("progress", [None, False])
def test_away_from_a_terminal_a_fit_is_silent(
    capfd: pytest.CaptureFixture[str], progress: bool | None
) -> None:
    x = rows(30)
    fit(small(x), x, progress=progress, **SETTINGS)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_shown_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    x = rows(30)
    result = fit(small(x), x, progress=True, **SETTINGS)
    out, err = capfd.readouterr()
    assert out == ""
    assert "10/10 steps" in err
    assert f"val {result.history[-1].validation_loss:.3f}" in err


@pytest.mark.parametrize(("progress", "shown"), [(None, True), (False, False)])
def test_on_a_terminal_a_bar_is_shown(
    monkeypatch: pytest.MonkeyPatch, progress: bool | None, shown: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    x = rows(30)
    fit(small(x), x, progress=progress, **SETTINGS)
    assert ("/10 steps" in terminal.getvalue()) == shown
    assert shown or terminal.getvalue() == ""


def interrupted() -> None:
    with ProgressBar(True, seconds=9.0) as bar:
        bar.update(3, 7, "3/7 steps")
        raise KeyboardInterrupt


def test_the_bar_ends_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    err = capfd.readouterr().err
    assert "3/7 steps" in err
    assert "of about 9 s" in err
