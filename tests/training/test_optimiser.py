"""The step itself: AdamW, weight decay, clipping and averaging."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from marginals import Mixture, build, fit
from marginals.cells import Evidence
from marginals.densities.density import Density
from marginals.training.batches import make_rows
from marginals.training.config import FitConfig
from marginals.training.fit import FitRun
from marginals.training.state import new_state
from tests.training.helpers import after, loss_of, mixed_rows, parts, rows, same, small, weights

ONE_BATCH = {"batch_size": 1000, "validation_fraction": 0.0}


def mixed_mixture(x: Tensor) -> Density:
    """A model with every kind of parameter."""
    options = {"width": 3, "categories": {2: 3}, "dtype": torch.float64}
    return Mixture([build(x, tensor=tensor, **options) for tensor in ("mera", "cp", "full")])


# Kinds of parameters without weight decay, by the end of their name in a member.
SPARED = ("families.0.biases.0", "families.0.biases.1", "families.1.logits")


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_steps_are_those_of_adamw_on_the_mean_loss(tmp_path: Path, decay: float) -> None:
    x = mixed_rows(50)
    settings = {"learning_rate": 0.003, "weight_decay": decay, "clip_norm": None, **ONE_BATCH}
    fit(mixed_mixture(x), x, max_steps=3, checkpoint=tmp_path / "fit", **settings)
    model = mixed_mixture(x)
    named = dict(model.named_parameters())
    spared = [p for name, p in named.items() if name == "logits" or name.endswith(SPARED)]
    others = [p for p in named.values() if all(p is not other for other in spared)]
    groups = [{"params": spared, "weight_decay": 0.0}, {"params": others, "weight_decay": decay}]
    optimiser = torch.optim.AdamW(groups, lr=0.003)
    for _ in range(3):
        optimiser.zero_grad()
        (-model.log_value(x).mean()).backward()
        optimiser.step()
    for name, found in parts(tmp_path / "fit", "model").items():
        torch.testing.assert_close(found, named[name].detach(), rtol=1e-7, atol=1e-9)


def test_clipping_shortens_a_long_gradient_and_keeps_its_direction(tmp_path: Path) -> None:
    x = rows(50)

    def gradient(limit: float | None) -> Tensor:
        """The gradient of the first step, from its first moment."""
        path = after(1, tmp_path / str(limit), x, clip_norm=limit, **ONE_BATCH)
        moments = parts(path, "optimiser")
        names = sorted(name for name in moments if name.endswith("exp_avg"))
        return torch.cat([moments[name].flatten() for name in names]) / 0.1  # 1 - beta1

    free = gradient(None)
    length = float(free.norm())
    assert length > 1e-2
    torch.testing.assert_close(gradient(1e-3), free * (1e-3 / length), rtol=1e-3, atol=1e-12)
    assert torch.equal(gradient(2 * length), free)


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


# Annealing ------------------------------------------------------------------------------------


def test_the_rate_falls_to_zero_in_a_line() -> None:
    x = rows(50)
    settings = {"annealing": 0.5, "max_steps": 20, "learning_rate": 0.1, **ONE_BATCH}
    run = FitRun(small(x), make_rows(Evidence.exact(x), None, "data"), None, FitConfig(**settings))
    run.started = 0.0
    run.clock = 0.0
    moves = []
    for _ in range(20):
        run.step()
        moves.append(float(run.state.optimiser.rate))
    assert moves[:10] == pytest.approx([0.1] * 10)
    assert moves[10:] == pytest.approx([0.1 * (1 - i / 10) for i in range(10)])


@pytest.mark.parametrize("amsgrad", [False, True])
def test_amsgrad_keeps_the_largest_second_moment(amsgrad: bool) -> None:
    found, wanted = (nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    config = FitConfig(learning_rate=0.1, amsgrad=amsgrad)
    ours = new_state(nn.ParameterList([found]), config).optimiser
    theirs = torch.optim.AdamW([wanted], lr=0.1, weight_decay=0.0, amsgrad=amsgrad)
    for gradient in (10.0, 0.0, 0.1, 0.0, 0.1):  # the second moment falls after the first step
        for parameter in (found, wanted):
            parameter.grad = torch.full_like(parameter, gradient)
        ours.step()
        theirs.step()
    torch.testing.assert_close(found, wanted)
    assert ("0/max_exp_avg_sq" in ours.moments()) == amsgrad
