"""Rows drawn by weight are those that the weights say."""

import torch

from marginals.densities.sample_weights import drawn_by_weight


def test_equal_weights_take_each_row_once() -> None:
    assert drawn_by_weight(torch.full((100,), 0.3), seed=4).tolist() == list(range(100))


def test_rows_are_taken_as_often_as_they_weigh() -> None:
    weight = torch.rand(500, generator=torch.Generator().manual_seed(0))
    count = torch.bincount(drawn_by_weight(weight), minlength=500)
    assert int(count.sum()) == 500
    assert float((count - 500 * weight / weight.sum()).abs().max()) < 1


def test_weights_that_repeat_are_not_fallen_into_step_with() -> None:
    weight = torch.where(torch.arange(300) % 3 > 0, 1.0, 3.0)
    heavy = drawn_by_weight(weight) % 3 == 0
    assert abs(int(heavy.sum()) - 180) < 12
