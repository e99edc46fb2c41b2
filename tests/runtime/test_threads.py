"""Fits that overlap share one change of torch's thread count."""

import torch

from marginals.runtime.threads import threads_for


def test_threads_come_back_after_fits_that_overlap() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = threads_for(10), threads_for(10)
        first.__enter__()
        second.__enter__()
        assert torch.get_num_threads() == 1
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        second.__exit__(None, None, None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
