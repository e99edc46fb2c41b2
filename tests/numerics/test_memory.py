import pytest
import torch

from marginals.runtime.memory import floats_at_once


def test_a_cpu_takes_what_is_said() -> None:
    assert floats_at_once(torch.device("cpu"), 100) == 100


@pytest.mark.parametrize(("free", "expected"), [(100 << 30, 1 << 30), (0, 1 << 29)])
def test_a_gpu_takes_a_share_of_what_is_free(
    free: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 140 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 6 << 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 2 << 30)
    assert floats_at_once(torch.device("cuda"), 100) == expected // 4
