"""The C library's parameters are set by the first fit and set back by the last."""

import pytest

from marginals.runtime import allocation


class Library:
    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, *numbers: int) -> int:
        self.calls.append(numbers)
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.calls.append((pad,))
        return 1


def test_nested_fits_set_and_reset_once(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(allocation, "_glibc", lambda: library)
    with allocation.kept_memory():
        first = len(library.calls)
        assert first == 3
        with allocation.kept_memory():
            assert len(library.calls) == first
        assert len(library.calls) == first
    assert library.calls[-1] == (0,)
    assert len(library.calls) == first + 3


def test_it_can_be_off_or_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    with allocation.kept_memory(False):
        pass
    monkeypatch.setattr(allocation, "_glibc", lambda: None)
    with allocation.kept_memory():
        pass


def test_it_is_set_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(allocation, "_glibc", lambda: library)
    with pytest.raises(KeyboardInterrupt), allocation.kept_memory():
        raise KeyboardInterrupt
    assert library.calls[-1] == (0,)
