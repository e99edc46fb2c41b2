"""The step itself: AdamW, weight decay, clipping and averaging."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from marginals import Mixture, build, fit
from marginals.densities.density import Density
from tests.training.helpers import after, loss_of, mixed_rows, parts, rows, same, small, weights

ONE_BATCH = {"batch_size": 1000, "validation_fraction": 0.0}


def mixed_mixture(x: Tensor) -> Density:
    """A model with every kind of parameter."""
    options = {"width": 3, "categories": {2: 3}, "dtype": torch.float64}
    return Mixture([build(x, tensor=tensor, **options) for tensor in ("mera", "cp", "full")])


def moved(path: Path, x: Tensor, **settings: object) -> dict[str, Tensor]:
    """Return a mixed model's weights after one step."""
    fit(mixed_mixture(x), x, max_steps=1, checkpoint=path, **ONE_BATCH, **settings)
    return parts(path, "model")


def test_weight_decay_is_decoupled_and_spares_biases_and_logits(tmp_path: Path) -> None:
    x = mixed_rows(50)
    start = weights(mixed_mixture(x))
    plain = moved(tmp_path / "plain", x, learning_rate=0.01)
    decayed = moved(tmp_path / "decayed", x, learning_rate=0.01, weight_decay=0.5)
    spared = [name for name in start if torch.equal(decayed[name], plain[name])]
    for name in set(start) - set(spared):
        expected = plain[name] - 0.01 * 0.5 * start[name]
        torch.testing.assert_close(decayed[name], expected, rtol=1e-9, atol=1e-12)
    kinds = {name.split(".", 2)[-1] for name in spared}
    neural, coded = "leaves.families.0", "leaves.families.1"
    assert kinds == {f"{neural}.biases.0", f"{neural}.biases.1", f"{coded}.logits", "logits"}
    # Decoupled: the decay is no part of the gradient.
    moments = (parts(tmp_path / name, "optimiser") for name in ("plain", "decayed"))
    assert same_values(*moments)


def same_values(some: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Compare the moments, which are numbered by group and so in another order."""
    totals = [
        sorted(float(tensor.square().sum()) for tensor in moments.values())
        for moments in (some, other)
    ]
    return totals[0] == pytest.approx(totals[1], rel=1e-12)


def gradient(path: Path) -> Tensor:
    """The gradient of the first step, from its first moment."""
    moments = parts(path, "optimiser")
    names = sorted(name for name in moments if name.endswith("exp_avg"))
    return torch.cat([moments[name].flatten() for name in names]) / 0.1  # 1 - beta1


def test_clipping_shortens_a_long_gradient_and_keeps_its_direction(tmp_path: Path) -> None:
    x = rows(50)
    free = gradient(after(1, tmp_path / "free", x, clip_norm=None, **ONE_BATCH))
    length = float(free.norm())
    assert length > 1e-2
    clipped = gradient(after(1, tmp_path / "clipped", x, clip_norm=1e-3, **ONE_BATCH))
    torch.testing.assert_close(clipped, free * (1e-3 / length), rtol=1e-3, atol=1e-12)
    loose = gradient(after(1, tmp_path / "loose", x, clip_norm=2 * length, **ONE_BATCH))
    assert torch.equal(loose, free)


def test_the_step_is_the_gradient_of_the_mean_loss(tmp_path: Path) -> None:
    x = rows(50)
    model = small(x)
    (-model.log_value(x).mean()).backward()
    moments = parts(after(1, tmp_path / "fit", x, clip_norm=None, **ONE_BATCH), "optimiser")
    expected = sorted(float(p.grad.norm()) for p in model.parameters() if p.grad is not None)
    found = sorted(float(t.norm()) / 0.1 for n, t in moments.items() if n.endswith("exp_avg"))
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_first_step_moves_by_the_learning_rate(tmp_path: Path) -> None:
    x = rows(50)
    path = after(1, tmp_path / "fit", x, learning_rate=0.003, **ONE_BATCH)
    start = weights(small(x))
    steps = torch.cat([(t - start[n]).abs().flatten() for n, t in parts(path, "model").items()])
    # Adam's first step has the length of the rate wherever there is a gradient.
    assert float(steps.max()) == pytest.approx(0.003, rel=1e-3)
    assert float(steps.median()) == pytest.approx(0.003, rel=1e-2)


def test_parameters_that_need_no_gradient_stay() -> None:
    x = rows(50)
    model = small(x)
    frozen = model.leaves.requires_grad_(False)
    before = weights(frozen)
    result = fit(model, x, max_steps=10, evaluate_every=5, weight_decay=0.1, **ONE_BATCH)
    assert result.best_step > 0
    assert same(weights(frozen), before)


# Averaging ------------------------------------------------------------------------------------


def test_the_average_follows_the_weights(tmp_path: Path) -> None:
    x = rows(50)
    settings = {"averaging": 0.6, "batch_size": 10, "learning_rate": 0.05}
    path = tmp_path / "fit"
    average = weights(small(x))
    decays = []
    for step in range(1, 15):
        after(step, path, x, **settings)
        present, followed = parts(path, "model"), parts(path, "average")
        gap = torch.cat([(present[n] - average[n]).flatten() for n in present])
        stride = torch.cat([(followed[n] - average[n]).flatten() for n in present])
        share = float(stride @ gap / (gap @ gap))
        torch.testing.assert_close(stride, share * gap, rtol=1e-6, atol=1e-12)
        decays.append(1 - share)
        average = followed
    # Small at first, so that the start is forgotten; then the decay requested.
    assert decays[0] < 0.3
    assert all(one < other + 1e-6 for one, other in pairwise(decays))
    assert decays[-1] == pytest.approx(0.6)


def test_averaging_calms_a_rate_that_is_too_high() -> None:
    x, held = rows(500), rows(500, seed=1)
    settings = {"batch_size": 20, "learning_rate": 0.2, "max_steps": 150, "evaluate_every": 150}
    jumpy, calm = small(x, width=6), small(x, width=6)
    last = [
        fit(model, x, validation=held, averaging=averaging, **settings).history[-1]
        for model, averaging in [(jumpy, 0.0), (calm, 0.95)]
    ]
    assert last[1].validation_loss < last[0].validation_loss - 0.02
    # The steps are the same: only the weights evaluated and kept differ.
    assert last[1].train_loss == last[0].train_loss
    assert loss_of(calm, held) == pytest.approx(last[1].validation_loss, rel=1e-12)
