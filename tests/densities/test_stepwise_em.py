"""Stepwise EM of mixtures of numbers and categories."""

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from marginals.densities.stepwise_em import MixedMixture, MixedRows, StepwiseEM


def mixed_rows(count: int, seed: int = 0) -> tuple[MixedRows, Tensor]:
    """Return rows of three clusters, which a column of categories tells apart in part."""
    generator = torch.Generator().manual_seed(seed)
    cluster = torch.randint(3, (count,), generator=generator)
    centre = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], dtype=torch.float64)[cluster]
    noise = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    points = centre + noise @ torch.tensor([[1.0, 0.7], [0.0, 0.5]], dtype=torch.float64)
    wrong = torch.rand(count, generator=generator) < 0.1
    codes = torch.where(wrong, torch.randint(3, (count,), generator=generator), cluster)
    codes[::17] = -1
    return MixedRows(points, codes[:, None], [3]), cluster


def fitted(rows: MixedRows, width: int, **options: bool) -> tuple[StepwiseEM, MixedMixture]:
    em = StepwiseEM(rows, width, torch.full((2,), 0.01, dtype=torch.float64), **options)
    return em, em.fit()


@pytest.mark.parametrize("count", [900, 9000])  # in whole rounds, and in steps
def test_clusters_and_their_categories_are_found(count: int) -> None:
    rows, cluster = mixed_rows(count)
    em, found = fitted(rows, 3)
    shares = em.shares(found)
    assert torch.allclose(shares.sum(1), torch.ones(count, dtype=torch.float64))
    # The components are the clusters in some order.
    order = [int(shares[cluster == c].mean(0).argmax()) for c in range(3)]
    assert sorted(order) == [0, 1, 2]
    own = torch.tensor(order)[cluster]
    assert float((shares.argmax(1) == own).double().mean()) > 0.97
    assert torch.allclose(found.weights[order], torch.full((3,), 1 / 3).double(), atol=0.05)
    tables = found.tables.exp()[:, order]  # (category, cluster)
    assert torch.allclose(tables.sum(0), torch.ones(3, dtype=torch.float64))
    assert torch.allclose(tables.diagonal(), torch.full((3,), 0.93).double(), atol=0.04)
    expected = torch.tensor([[1.0, 0.7], [0.7, 0.74]], dtype=torch.float64)
    assert float((found.covariances[order] - expected).abs().max()) < 0.25


def test_many_components_are_as_likely_as_a_mixture_of_scikit_learn() -> None:
    rows, _ = mixed_rows(9000)
    bare = MixedRows(rows.points, rows.codes[:, :0], [])
    held, _ = mixed_rows(4000, seed=1)
    em, found = fitted(bare, 12)
    linear = em._linear(found)
    joint = (
        held.points @ linear.values.T
        + linear.offset
        + em._products(held.points) @ (linear.products.T)
    )
    ours = float(joint.logsumexp(1).mean())
    peer = GaussianMixture(12, random_state=0).fit(bare.points.numpy()).score(held.points.numpy())
    assert ours > peer - 0.02


def test_covariances_keep_room_for_the_noise_of_each_column() -> None:
    rows, _ = mixed_rows(3000)
    points = rows.points.clone()
    points[:, 1] = points[:, 0]  # nothing of its own
    floors = torch.tensor([0.2, 0.3], dtype=torch.float64)
    for diagonal in (False, True):
        em = StepwiseEM(MixedRows(points, rows.codes, [3]), 4, floors, diagonal)
        left = em.fit().covariances - floors.square().diag()
        assert float(torch.linalg.eigvalsh(left).min()) > 0
        assert (float(left[:, 0, 1].abs().max()) == 0) == diagonal


def test_time_runs_out_and_few_rows_suffice() -> None:
    rows, _ = mixed_rows(5000)
    em = StepwiseEM(rows, 3, torch.full((2,), 0.01, dtype=torch.float64))
    start = em.from_rows()
    for mine, theirs in zip(em.fit(start, seconds=0.0), start, strict=True):
        assert torch.equal(mine, theirs)
    few, _ = mixed_rows(3)
    _, found = fitted(few, 3)
    assert all(bool(part.isfinite().all()) for part in found)
    assert np.isclose(float(found.weights.sum()), 1.0)
