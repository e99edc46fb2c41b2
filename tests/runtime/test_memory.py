"""How many floats a batch may hold, and settings of the process that concurrent fits share."""

from typing import Any

import pytest
import torch

from marginals.runtime import memory
from marginals.runtime.memory import floats_at_once, kept_memory


@pytest.mark.parametrize(("free", "expected"), [(100 << 30, 8 << 30), (0, 1 << 29)])
def test_a_gpu_takes_a_share_of_its_free_memory(
    free: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 140 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 6 << 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 2 << 30)
    assert floats_at_once(torch.device("cuda"), 100) == expected // 4
    assert floats_at_once(torch.device("cpu"), 100) == 100


class Library:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def mallopt(self, *numbers: int) -> None:
        self.calls.append(numbers)

    def malloc_trim(self, pad: int) -> None:
        self.calls.append("trim")


def test_the_first_fit_sets_and_the_last_one_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(memory, "_glibc", lambda: library)
    with kept_memory():
        assert len(library.calls) == 3
        with kept_memory():
            pass
        assert len(library.calls) == 3
    assert len(library.calls) == 6
    with pytest.raises(KeyboardInterrupt), kept_memory():
        raise KeyboardInterrupt
    assert library.calls[5] == library.calls[-1] == "trim"


def test_it_can_be_off_or_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(memory, "_glibc", lambda: library)
    with kept_memory(False):
        assert not library.calls
    monkeypatch.setattr(memory, "_glibc", lambda: None)
    with kept_memory():
        assert not library.calls
