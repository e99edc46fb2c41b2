"""The bar is shown on a terminal, or on request, and never gets in the way."""

import io
import sys

import pytest

from marginals import fit
from marginals.training.fit_progress import FitProgress
from tests.training.helpers import rows, small

pytestmark = pytest.mark.usefixtures("_wide")
SETTINGS = {"max_steps": 10, "evaluate_every": 5}


@pytest.fixture
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


def test_on_a_terminal_a_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    x = rows(30)
    fit(small(x), x, **SETTINGS)
    assert "/10 steps" in terminal.getvalue()
    silent = Terminal()
    monkeypatch.setattr(sys, "stderr", silent)
    fit(small(x), x, progress=False, **SETTINGS)
    assert silent.getvalue() == ""


def interrupted() -> None:
    with FitProgress(7, True) as bar:
        bar.step(3)
        bar.evaluated(12.0, 1.5, 2.5)
        raise KeyboardInterrupt


def test_the_bar_ends_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    err = capfd.readouterr().err
    assert "3/7 steps" in err
    assert "12/s" in err
    assert "train 1.500 val 2.500" in err
