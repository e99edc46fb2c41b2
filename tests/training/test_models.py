"""Every kind of model can be trained."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from marginals import NMDMA, Evidence, Mixture, fit
from marginals.densities.density import Density
from tests.training.helpers import assert_close, loss_of, mixed_rows, rows, small, weights

COLUMNS = {"categories": {2: 3}}
MODELS: dict[str, Callable[[Tensor], Density]] = {
    "ht": lambda x: small(x, **COLUMNS),
    "mera": lambda x: small(x, tensor="mera", **COLUMNS),
    "cp": lambda x: small(x, tensor="cp", **COLUMNS),
    "full": lambda x: small(x, tensor="full", **COLUMNS),
    "deep": lambda x: small(x, depth=2, hidden=4, **COLUMNS),
    "paper": lambda x: small(x, width=8, init="paper", **COLUMNS),
    "width 1": lambda x: small(x, width=1, **COLUMNS),
    "nmdma": lambda x: NMDMA(small(x), order=(2, 0, 1)),
    "mixture": lambda x: Mixture([small(x, **COLUMNS), small(x, tensor="cp", **COLUMNS)]),
    "mixture with nmdma": lambda x: Mixture([small(x), NMDMA(small(x, seed=1))]),
    "nested mixture": lambda x: Mixture(
        [Mixture([small(x, seed=1, **COLUMNS)]), small(x, seed=2, **COLUMNS)], [0.9, 0.1]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns(name: str) -> None:
    x = mixed_rows(300)
    model = MODELS[name](x)
    start, before = loss_of(model, x), weights(model)
    settings = {"batch_size": 100, "evaluate_every": 10, "max_steps": 40, "learning_rate": 0.02}
    result = fit(model, x, validation_fraction=0, noise=0.01, **settings)
    assert result.best_loss < start - 0.05
    assert loss_of(model, x) == pytest.approx(result.best_loss, rel=1e-9)
    stuck = [n for n, p in model.named_parameters() if p.numel() and torch.equal(p, before[n])]
    # A tensor of width 1 has a single weight, which is 1; so has a mixture of one member.
    assert not stuck or name in ("width 1", "nested mixture")


def test_categories_alone_reach_their_entropy() -> None:
    codes = mixed_rows(2000)[:, 2:]
    other = torch.where(torch.rand(2000, 1) < 0.8, codes, 0.0)
    x = torch.cat([codes, other], 1)
    model = small(x, width=4, categories={0: 3, 1: 3})
    fit(model, x, max_steps=200, learning_rate=0.05, validation_fraction=0)
    counts = torch.bincount((3 * x[:, 0] + x[:, 1]).long(), minlength=9) / 2000
    entropy = -float(torch.xlogy(counts, counts).sum())
    assert entropy - 1e-9 < loss_of(model, x) < entropy + 0.02


def test_sets_of_categories_are_learnt_from() -> None:
    x = mixed_rows(900)
    truth = float((x[:, 2] == 2).double().mean())
    # In half of the rows only whether the code is 2 is observed.
    unsure = torch.arange(900) < 450
    allowed = torch.nn.functional.one_hot(x[:, 2].long(), 3).bool()
    allowed[unsure & (x[:, 2] < 2)] = torch.tensor([True, True, False])
    cells = torch.where(unsure[:, None] & torch.tensor([False, False, True]), torch.nan, x)
    data = Evidence((0, 1, 2), cells, cells, {2: allowed})
    model = small(x, width=4, categories={2: 3})
    result = fit(model, data, max_steps=150, learning_rate=0.03)
    assert result.best_loss < result.history[0].validation_loss
    two = Evidence.of({2: 2.0})
    assert model.log_value(two).exp().item() == pytest.approx(truth, abs=0.05)


def test_a_mixture_finds_its_weights() -> None:
    x = torch.randn(500, 1)
    good, bad = small(x, width=4), small(x + 50, width=4)
    model = Mixture([good, bad]).requires_grad_(False)
    model.logits.requires_grad_(True)
    fit(model, x, max_steps=200, learning_rate=0.1)
    assert model.log_weights().exp()[0].item() > 0.99


def test_a_model_and_the_mixture_of_it_alone_train_alike() -> None:
    x = rows(100)
    settings = {"batch_size": 25, "max_steps": 8, "evaluate_every": 2, "clip_norm": None}
    assert_close(fit(small(x), x, **settings), fit(Mixture([small(x)]), x, **settings))
