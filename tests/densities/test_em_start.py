"""The start by EM is a Gaussian mixture."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from marginals import build, fit
from marginals.cells.evidence import Evidence
from marginals.densities.coupled import CoupledDensity
from marginals.densities.em_start import is_dependent
from marginals.leaves import AtomLeaves


def clusters(n: int = 600) -> np.ndarray:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0.0, 0.0, 0.5]])
    return np.where(np.arange(n)[:, None] % 3 > 0, a, 2 * a[:, ::-1] + 3)


def score(model: CoupledDensity, x: np.ndarray) -> float:
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
    # Training continues from there.
    result = fit(model, torch.from_numpy(x).float(), max_steps=60, validation_fraction=0.0)
    assert result.best_loss < -peer + 0.05


def test_trimming_leaves_outliers_out() -> None:
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    rows = torch.from_numpy(np.concatenate([cloud, rng.normal((12.0, -12.0), size=(15, 2))]))
    options: Any = {"tensor": "copula", "width": 1, "rank": 1, "init": "em"}
    plain, trimmed = (build(rows, **options, trim=trim) for trim in (0.0, 0.1))
    assert score(trimmed, cloud) > score(plain, cloud) + 0.2
    far = np.array([[12.0, -12.0]])
    assert score(trimmed, far) < score(plain, far) - 10


def test_gaps_and_other_columns() -> None:
    x = torch.from_numpy(clusters())
    code = torch.arange(len(x)).remainder(3).clamp_max(1).double()  # separates the clusters
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


def test_a_list_of_values_is_counted_as_categories() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3000, 2, generator=generator, dtype=torch.float64)
    x[:, 1] = x[:, 0] + 0.2 * x[:, 1]
    # Uneven values, of which each belongs to a part of the other columns' line.
    listed = (2 * x[:, 0]).round().clamp(-4, 4).exp()
    points = listed.unique().tolist()
    rows = torch.column_stack([x, listed])
    model = build(
        rows, tensor="copula", width=24, rank=1, init="em", atoms={2: points}, coupled=[0, 1]
    )
    family = model.leaves.families[-1]
    assert isinstance(family, AtomLeaves)
    masses = model.univariates(Evidence.exact(rows[:, :2].float(), [0, 1]), [2])
    right = masses.logpdf(rows[:, 2:].float()).exp().mean()
    assert right > 0.6  # the commonest value has 0.2 of the rows
    margin = model.log_value(Evidence.exact(torch.tensor(points)[:, None].float(), [2])).exp()
    shares = torch.tensor([float((listed == point).double().mean()) for point in points])
    assert torch.allclose(margin.double(), shares.double(), atol=0.01)


def test_dependence_is_seen_in_ranks() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 1, generator=generator) + 0.1 * torch.randn(2000, 4, generator=generator)
    assert is_dependent(x.exp() ** 3)
    assert not is_dependent(torch.randn(2000, 4, generator=generator))
    assert not is_dependent(x[:, :1])
    x[::3, 1] = torch.nan
    assert is_dependent(x)


@pytest.mark.parametrize("init", ["em", "scales"])
def test_few_rows_and_no_columns_to_couple(init: Any) -> None:
    for count in (1, 5):  # one row starts as a kernel; fewer rows than components repeat
        x = torch.randn(count, 2)
        model = build(x, tensor="copula", width=8, rank=1, init=init)
        assert bool(model.log_value(x).isfinite().all())
    codes = torch.randint(3, (50, 2)).double()
    model = build(codes, tensor="copula", width=3, init=init, categories={0: 3, 1: 3})
    assert bool(model.log_value(codes).isfinite().all())


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
    x = np.sign(x) * np.log1p(np.abs(x))  # columns without tails of their own
    train, test = torch.from_numpy(x[:2000]), torch.from_numpy(x[2000:])
    found = {}
    for init in ("em", "scales"):
        model = build(train, tensor="copula", width=6, rank=0, init=init)
        with torch.no_grad():
            found[init] = float(model.log_value(test).mean())
    assert found["scales"] > found["em"] + 0.05


def test_rows_count_by_their_weight() -> None:
    x = torch.from_numpy(clusters(300))
    often = torch.where(torch.arange(300) % 3 > 0, 1.0, 3.0)
    repeated = x.repeat_interleave(often.long(), 0)
    options = {"tensor": "copula", "width": 1, "rank": 2, "init": "em", "dtype": torch.float64}
    found = {
        "weighted": build(x, sample_weight=often, **options),
        "repeated": build(repeated, **options),
        "plain": build(x, **options),
    }
    reached = {name: score(model, repeated.numpy()) for name, model in found.items()}
    assert reached["weighted"] == pytest.approx(reached["repeated"], abs=0.03)
    assert reached["plain"] < reached["repeated"] - 0.1
    with pytest.raises(ValueError, match="`sample_weight` to hold one weight for each of the 300"):
        build(x, sample_weight=often[:7], **options)
