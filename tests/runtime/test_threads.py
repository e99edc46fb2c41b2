"""How many threads fits and queries use, and that the number comes back."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from marginals.runtime.query_batches import map_batches
from marginals.runtime.threads import answering, threads_for

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_come_back_after_fits_that_overlap() -> None:
    both = threading.Barrier(2, timeout=30)

    def fit() -> list[int]:
        assert torch.get_num_threads() == 2
        both.wait()
        with threads_for(10):
            inside = torch.get_num_threads()
            both.wait()
        return [inside, torch.get_num_threads()]

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(fit) for _ in range(2)]
        assert [one.result() for one in found] == [[1, 2], [1, 2]]
    assert torch.get_num_threads() == 2


def test_large_steps_use_all_threads() -> None:
    with threads_for(1 << 30):
        assert torch.get_num_threads() == 2


def test_batches_run_on_a_thread_each() -> None:
    both = threading.Barrier(2, timeout=30)

    def work(part: int) -> tuple[int, int, bool]:
        both.wait()  # a second batch runs at the same time
        return part, torch.get_num_threads(), torch.is_grad_enabled()

    with torch.no_grad():
        found = map_batches(work, range(4), CPU)
    assert found == [(part, 1, False) for part in range(4)]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("grad", "threads"), [(False, 1), (True, 2)])
def test_a_small_query_runs_on_one_thread(grad: bool, threads: int) -> None:
    def work(_: int) -> list[int]:
        return [torch.get_num_threads(), threading.get_ident()]

    with torch.set_grad_enabled(grad):
        assert map_batches(work, [0], CPU) == [[threads, threading.get_ident()]]
        assert map_batches(work, [], CPU) == []
    with torch.inference_mode():
        assert map_batches(lambda _: torch.is_inference_mode_enabled(), [0, 1], CPU) == [True] * 2
    assert torch.get_num_threads() == 2


def test_an_error_in_a_batch_comes_through() -> None:
    def work(part: int) -> int:
        if part:
            raise ValueError(f"batch {part}")
        return part

    with torch.no_grad(), pytest.raises(ValueError, match="batch 1"):
        map_batches(work, range(5), CPU)
    assert torch.get_num_threads() == 2


def test_a_query_may_run_several_batches_at_a_time() -> None:
    both = threading.Barrier(2, timeout=30)
    with torch.no_grad(), answering():
        assert torch.get_num_threads() == 1
        with answering():
            map_batches(lambda _: both.wait(), range(2), CPU)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
