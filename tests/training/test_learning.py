"""A fit recovers the density behind the data, whatever is observed of each cell."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from marginals import Evidence, FitResult, build, fit
from marginals.densities.density import Density
from tests.training.helpers import loss_of, normal_cdf

SETTINGS = {"learning_rate": 0.02, "batch_size": 250, "evaluate_every": 50, "patience": 3}


class TwoGaussians:
    """0.3 N((-2, 1), 0.5^2) + 0.7 N((1, -1), 1)."""

    share = torch.tensor([0.3, 0.7], dtype=torch.float64)
    mean = torch.tensor([[-2.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    std = torch.tensor([0.5, 1.0], dtype=torch.float64)

    def sample(self, count: int) -> Tensor:
        k = torch.multinomial(self.share, count, replacement=True)
        return self.mean[k] + self.std[k, None] * torch.randn(count, 2)

    def log_density(self, x: Tensor) -> Tensor:
        z = (x[:, None] - self.mean) / self.std[:, None]
        log_normal = -0.5 * z.square().sum(-1) - 2 * self.std.log() - math.log(2 * math.pi)
        return (log_normal + self.share.log()).logsumexp(-1)


def trained(data: Tensor | Evidence, steps: int = 400) -> tuple[Density, FitResult]:
    model = build(data, width=8)
    return model, fit(model, data, max_steps=steps, **SETTINGS)


def test_reaches_the_true_density_of_held_out_rows() -> None:
    truth = TwoGaussians()
    train, test = truth.sample(3000), truth.sample(5000)
    start = loss_of(build(train, width=8), test)
    model, result = trained(train)
    entropy = -float(truth.log_density(test).mean())
    assert loss_of(model, test) < start - 0.1
    # No model has a lower loss than the true density, except by chance.
    assert entropy - 0.01 < loss_of(model, test) < entropy + 0.05
    assert result.history[-1].train_loss < result.history[0].train_loss - 0.1


def correlated(count: int, rho: float = 0.8) -> Tensor:
    """Normal columns with correlation rho, means (1, -2) and deviations (1, 3)."""
    z = torch.randn(count, 2)
    z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]
    return z * torch.tensor([1.0, 3.0]) + torch.tensor([1.0, -2.0])


def missing() -> Tensor:
    x = correlated(3000)
    x[torch.rand(x.shape) < 0.3] = torch.nan
    return x


def intervals() -> Evidence:
    """A grid of its own for each cell: three deviations in two cells."""
    x = correlated(3000)
    step = torch.tensor([1.5, 4.5])
    offset = step * torch.rand(x.shape)
    lower = ((x - offset) / step).floor() * step + offset
    return Evidence.interval(lower, lower + step)


def censored() -> Evidence:
    x = correlated(4000)
    limit = 1.0 + torch.randn(len(x), 1)
    beyond = x[:, :1] > limit
    lower = torch.cat([torch.where(beyond, limit, x[:, :1]), x[:, 1:]], 1)
    upper = torch.cat([torch.where(beyond, torch.inf, x[:, :1]), x[:, 1:]], 1)
    assert float(lower[:, 0].mean()) < 0.6  # the mean if censoring were ignored
    return Evidence.interval(lower, upper)


@pytest.mark.parametrize("make", [missing, intervals, censored])
def test_recovers_the_density_behind_the_cells(make: Callable[[], Tensor | Evidence]) -> None:
    model, _ = trained(make())
    drawn = model.sample(20_000, generator=torch.Generator().manual_seed(0)).double()
    mean, std = drawn.mean(0), drawn.std(0)
    assert mean[0] == pytest.approx(1.0, abs=0.12)
    assert mean[1] == pytest.approx(-2.0, abs=0.36)
    assert std[0] == pytest.approx(1.0, abs=0.12)
    assert std[1] == pytest.approx(3.0, abs=0.36)
    assert torch.corrcoef(drawn.T)[0, 1] == pytest.approx(0.8, abs=0.08)


def test_recovers_the_density_behind_a_rounded_column() -> None:
    x = correlated(3000)
    x[:, 0] = x[:, 0].round()
    half = torch.tensor([0.5, 0.0])
    model, _ = trained(Evidence.interval(x - half, x + half))
    for k in range(-1, 4):
        bounds = torch.tensor([[k - 0.5]]), torch.tensor([[k + 0.5]])
        expected = normal_cdf(k + 0.5, 1.0) - normal_cdf(k - 0.5, 1.0)
        assert model.prob(*bounds, columns=[0]).item() == pytest.approx(expected, abs=0.03)
    # If cells were exact, a density squeezed onto the integers would win without limit.
    between = model.prob(torch.tensor([[0.6]]), torch.tensor([[1.4]]), columns=[0])
    assert between.item() == pytest.approx(normal_cdf(0.4) - normal_cdf(-0.4), abs=0.15)


def test_the_losses_of_interval_rows_are_those_of_probabilities() -> None:
    x = correlated(1000).round()
    model, result = trained(Evidence.interval(x - 0.5, x + 0.5), steps=100)
    assert all(record.validation_loss > 0 for record in result.history)
    assert result.best_loss < result.history[0].validation_loss - 0.05
    drawn = model.sample(5000, generator=torch.Generator().manual_seed(0)).double()
    assert drawn.mean(0).tolist() == pytest.approx([1.0, -2.0], abs=0.4)
