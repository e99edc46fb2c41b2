"""The split, the batches and the noise depend on the seed alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marginals import Evidence, fit
from marginals.training.batches import (
    Noise,
    Rows,
    batch_at,
    make_noise,
    make_rows,
    moved,
    sample,
    split,
)
from tests.examples import examples
from tests.training.helpers import boxes, mixed_rows, rows, small, watch


def numbered(count: int) -> Rows:
    """Rows that hold their own number."""
    number = torch.arange(float(count))
    return make_rows(Evidence.exact(number[:, None]), number + 1, "data")


def with_noise(batch: Rows, noise: Noise, seed: int = 0, step: int = 0) -> Rows:
    return moved(batch, noise, noise.draw(len(batch), seed, step))


def ids(part: Rows) -> list[int]:
    return part.evidence.lower[:, 0].int().tolist()


def taken(rows: Rows, step: int, size: int, seed: int, orders: dict[int, Tensor]) -> Rows:
    return rows.take(batch_at(rows, step, size, seed, orders))


# Split ----------------------------------------------------------------------------------------


@examples(40)
@given(st.integers(1, 100), st.floats(0, 0.99))
def test_split_cuts_the_rows_in_two_or_not_at_all(count: int, fraction: float) -> None:
    train, held = split(numbered(count), fraction, seed=3)
    assert len(train) > 0
    if round(count * fraction) in (0, count):
        assert held is None
        assert ids(train) == list(range(count))
        return
    assert held is not None
    assert len(held) == round(count * fraction)
    assert sorted(ids(train) + ids(held)) == list(range(count))
    assert torch.equal(held.weight, (held.evidence.lower[:, 0] + 1) / count)


def test_split_is_random_and_reproducible() -> None:
    held = [split(numbered(1000), 0.1, seed)[1] for seed in (0, 0, 1)]
    first, again, other = (set(ids(part)) for part in held)
    assert first == again
    assert len(first & other) < 40
    assert 300 < sum(first) / len(first) < 700


def test_sample_picks_each_row_once() -> None:
    assert ids(sample(numbered(20), 20, seed=0)) == list(range(20))
    some, again, other = (ids(sample(numbered(200), 50, seed)) for seed in (0, 0, 1))
    assert len(set(some)) == 50
    assert some == again != other


class Watcher:
    """The rows that a model is trained on, and those that judge it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.trained: list[Evidence] = []
        self.judged: list[Evidence] = []
        watch(model, lambda evidence: self._lists().append(evidence))

    def _lists(self) -> list[Evidence]:
        return self.trained if torch.is_grad_enabled() else self.judged


def test_no_judging_row_is_trained_on() -> None:
    x, held = rows(200), rows(30, seed=1)
    model = small(x)
    watcher = Watcher(model)
    fit(model, x, batch_size=9, max_steps=20, evaluate_every=5, validation_fraction=0.1)
    judged = {float(v) for v in watcher.judged[-1].lower[:, 0]}
    trained = {float(v) for part in watcher.trained for v in part.lower[:, 0]}
    assert len(judged) == 20
    assert len(trained) == 180  # 20 steps of 9 rows: one epoch
    assert not judged & trained
    watcher.trained.clear()
    fit(model, x, validation=held, batch_size=20, max_steps=10)  # all rows train
    assert torch.equal(watcher.judged[-1].lower, held)
    every = torch.cat([part.lower[:, 0] for part in watcher.trained])
    assert torch.equal(every.sort().values, x[:, 0].sort().values)


# Batches --------------------------------------------------------------------------------------


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 9))
def test_an_epoch_takes_each_row_at_most_once(count: int, size: int, seed: int) -> None:
    data, size = numbered(count), min(size, count)
    orders: dict[int, Tensor] = {}
    for epoch in range(2):
        steps = range(epoch * (count // size), (epoch + 1) * (count // size))
        batches = [taken(data, step, size, seed, orders) for step in steps]
        assert {len(batch) for batch in batches} == {size}
        seen = [i for batch in batches for i in ids(batch)]
        assert len(set(seen)) == len(seen) == count // size * size
        assert len(orders) == 1  # only the current epoch is kept
        # A batch depends on seed and step alone, not on the steps before.
        assert ids(batches[-1]) == ids(taken(data, steps[-1], size, seed, {}))


def test_batches_differ_by_seed_and_epoch_and_drop_no_row_forever() -> None:
    data = numbered(11)
    batches = [ids(taken(data, step, 6, 0, {})) for step in range(20)]
    assert {i for batch in batches for i in batch} == set(range(11))
    assert len({tuple(batch) for batch in batches}) == 20  # an epoch is one batch
    assert batches[3] != ids(taken(data, 3, 6, 1, {}))


# Noise ----------------------------------------------------------------------------------------


def mixed_batch(count: int = 400) -> Rows:
    """Exact, interval and missing cells in two columns, codes and a set in the third."""
    x = mixed_rows(count)
    some = boxes(x[:, :2])
    lower, upper = (torch.cat([side, x[:, 2:]], 1) for side in (some.lower, some.upper))
    sets = {2: torch.tensor([[True, True, False]])}
    return make_rows(Evidence((0, 1, 2), lower, upper, sets, some.intervals), None, "data")


def bounds(part: Rows) -> tuple[Tensor, Tensor]:
    return tuple(side.nan_to_num(77.0) for side in (part.evidence.lower, part.evidence.upper))


def test_noise_moves_exact_continuous_cells_alone() -> None:
    batch = mixed_batch()
    noisy = with_noise(batch, make_noise(batch.evidence, [None, None, 3], {}, 0.2))
    (low, high), (old_low, old_high) = bounds(noisy), bounds(batch)
    expected = (batch.evidence.lower == batch.evidence.upper) & torch.tensor([True, True, False])
    assert 0.2 < float(expected[:, :2].double().mean()) < 0.5
    assert torch.equal(low != old_low, expected)
    assert torch.equal(high != old_high, expected)
    assert torch.equal(low[expected], high[expected])
    assert noisy.evidence.sets is batch.evidence.sets
    assert noisy.evidence.intervals == batch.evidence.intervals
    assert torch.equal(noisy.weight, batch.weight)


def test_noise_is_a_share_of_each_columns_deviation() -> None:
    x = torch.randn(20_000, 2) * torch.tensor([0.01, 300.0]) + 5
    batch = make_rows(Evidence.exact(x), None, "data")
    made = make_noise(batch.evidence, [None, None], {}, 0.1)
    assert made.scale.tolist() == pytest.approx([0.001, 30.0], rel=0.05)
    noise = with_noise(batch, made).evidence.lower - x
    assert noise.std(0).tolist() == pytest.approx(made.scale.tolist(), rel=0.05)
    assert (noise.mean(0) / made.scale).tolist() == pytest.approx([0, 0], abs=0.05)
    assert float(torch.corrcoef(noise.T)[0, 1]) == pytest.approx(0, abs=0.05)


def test_noise_of_exact_rows_stays_free_of_intervals() -> None:
    batch = make_rows(Evidence.exact(rows(5)), None, "data")
    noisy = with_noise(batch, Noise(torch.ones(2))).evidence
    assert noisy.upper is noisy.lower


def test_noise_depends_on_seed_and_step_alone() -> None:
    batch, scale = mixed_batch(), Noise(torch.ones(3))
    keys = [(0, 0), (0, 0), (0, 1), (1, 0)]
    first, again, *others = (bounds(with_noise(batch, scale, *key))[0] for key in keys)
    assert torch.equal(first, again)
    assert not any(torch.equal(first, other) for other in others)


def test_columns_without_spread_have_no_noise() -> None:
    x = torch.tensor([[1.0, torch.nan], [1.0, torch.nan]])
    assert make_noise(Evidence.exact(x), [None, None], {}, 0.5).scale.tolist() == [0.0, 0.0]


def test_noise_is_for_training_and_new_at_each_step() -> None:
    x = rows(50)
    model = small(x)
    watcher = Watcher(model)
    fit(model, x, noise=0.1, batch_size=50, max_steps=3, validation_fraction=0)
    first, second, third = (part.lower.sort(0).values for part in watcher.trained)
    clean = x.sort(0).values
    for one, other in [(first, clean), (first, second), (second, third)]:
        assert 1e-3 < float((one - other).abs().mean()) < 0.3
    assert all(torch.equal(part.lower, x) for part in watcher.judged)


def test_atoms_stay_where_they_are() -> None:
    x = torch.randn(100, 2) * torch.tensor([1.0, 10.0])
    x[::3, 0], x[::5, 0] = 0.0, -2.0
    batch = make_rows(Evidence.exact(x), None, "data")
    noise = make_noise(batch.evidence, [None, None], {0: (-2.0, 0.0)}, 0.1)
    changed = with_noise(batch, noise).evidence.lower != x
    atom = (x[:, 0] == 0) | (x[:, 0] == -2)
    assert torch.equal(changed[:, 0], ~atom)
    assert bool(changed[:, 1].all())
    assert float(noise.scale[0]) == pytest.approx(0.1 * float(x[~atom, 0].std(correction=0)))


def test_noise_is_less_where_other_columns_nearly_determine_a_column() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    x[:, 1] = x[:, 0] + 0.02 * x[:, 1]
    near, same, own = make_noise(Evidence.exact(x), [None] * 3, {}, 0.1).scale.tolist()
    assert own == pytest.approx(0.1, rel=0.1)
    assert max(near, same) < 2.5 * 0.1 * 0.02
    few = make_noise(Evidence.exact(x[:20]), [None] * 3, {}, 0.1).scale
    assert bool((few > 0.05).all())  # few rows show no dependence
