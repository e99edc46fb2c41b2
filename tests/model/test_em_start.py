"""The start by EM is the Gaussian mixture itself."""

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from marginals import build, fit
from marginals.model.copula import CopulaDensity


def clusters(n: int = 600) -> np.ndarray:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0.0, 0.0, 0.5]])
    return np.where(np.arange(n)[:, None] % 3 > 0, a, 2 * a[:, ::-1] + 3)


def score(model: CopulaDensity, x: np.ndarray) -> float:
    with torch.no_grad():
        return float(model.log_value(torch.from_numpy(x)).mean())


def test_one_component_is_the_normal_distribution_of_the_rows() -> None:
    x = clusters()
    model = build(torch.from_numpy(x), tensor="copula", width=1, rank=2, init="em")
    centred = x - x.mean(0)
    normal = torch.distributions.MultivariateNormal(
        torch.from_numpy(x.mean(0)), torch.from_numpy(centred.T @ centred / len(x))
    )
    expected = float(normal.log_prob(torch.from_numpy(x)).mean())
    assert score(model, x) == pytest.approx(expected, abs=0.01)  # a ridge, and bent scales


def test_more_components_reach_a_mixture_of_their_number() -> None:
    x = clusters()
    scaled = (x - x.mean(0)) / x.std(0)
    peer = GaussianMixture(2, random_state=0).fit(scaled).score(scaled) - np.log(x.std(0)).sum()
    model = build(torch.from_numpy(x), tensor="copula", width=2, rank=2, init="em")
    assert score(model, x) == pytest.approx(peer, abs=0.05)
    # From there gradients go on.
    result = fit(model, torch.from_numpy(x).float(), max_steps=60, validation_fraction=0.0)
    assert result.best_loss < -peer + 0.05


def test_gaps_and_other_columns() -> None:
    x = torch.from_numpy(clusters())
    code = torch.arange(len(x)).remainder(3).clamp_max(1).double()  # tells the clusters apart
    zero = torch.where(code == 0, 0.0, x[:, 0])  # an atom in one of them
    rows = torch.column_stack([x, code, zero])
    rows[::4, 1] = torch.nan
    rows[1::7, 3] = torch.nan
    options = {"categories": {3: 2}, "atoms": {4: (0.0,)}}
    model = build(rows, tensor="copula", width=4, rank=2, init="em", **options)
    kernel = build(rows, tensor="copula", width=4, rank=2, **options)
    with torch.no_grad():
        started, other = model.log_value(rows).mean(), kernel.log_value(rows).mean()
    assert started > other + 1


def test_more_components_than_rows() -> None:
    x = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    model = build(x, tensor="copula", width=8, rank=1, init="em")
    assert bool(model.log_value(x).isfinite().all())


def test_nothing_to_couple() -> None:
    rows = torch.randint(3, (50, 2)).double()
    model = build(rows, tensor="copula", width=3, init="em", categories={0: 3, 1: 3})
    assert bool(model.log_value(rows).isfinite().all())


def test_without_factors_columns_are_independent_in_a_component() -> None:
    x = clusters()
    scaled = (x - x.mean(0)) / x.std(0)
    peer = GaussianMixture(3, covariance_type="diag", random_state=0).fit(scaled)
    expected = peer.score(scaled) - np.log(x.std(0)).sum()
    model = build(torch.from_numpy(x), tensor="copula", width=3, rank=0, init="em")
    assert score(model, x) == pytest.approx(expected, abs=0.05)


def test_growing_scales_find_joint_tails() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 6)) / np.sqrt(rng.chisquare(2, size=(3000, 1)) / 2)
    x = np.sign(x) * np.log1p(np.abs(x))  # on a scale of no tails of their own
    train, test = torch.from_numpy(x[:2000]), torch.from_numpy(x[2000:])
    found = {}
    for init in ("em", "scales"):
        model = build(train, tensor="copula", width=6, rank=0, init=init)
        with torch.no_grad():
            found[init] = float(model.log_value(test).mean())
    assert found["scales"] > found["em"] + 0.05
