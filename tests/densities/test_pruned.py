"""Terms of univariates that carry no weight are left out, and nothing else changes."""

import pytest
import torch

from marginals import build
from marginals.cells.evidence import Evidence
from marginals.densities.mixture import Mixture
from marginals.densities.univariates import UnivariateMixture, Univariates, negligible


def conditional(width: int, members: int = 1) -> Univariates:
    """Return one column given another that few components agree with."""
    generator = torch.Generator().manual_seed(0)
    x = 10 * torch.randn(400, 2, generator=generator, dtype=torch.float64)
    x[:, 1] = x[:, 0].square() / 10 + 0.1 * x[:, 1]
    models = [
        build(x, tensor="copula", width=width, rank=1, init="em", seed=i, dtype=torch.float64)
        for i in range(members)
    ]
    model = models[0] if members == 1 else Mixture(models)
    return model.univariates(Evidence.exact(torch.tensor([[9.0], [-20.0]]).double(), [0]), [1])


@pytest.mark.parametrize("members", [1, 2])
@torch.no_grad()
def test_no_cdf_moves_by_more_than_the_error(members: int) -> None:
    found = conditional(40, members)
    for error in (1e-3, 1e-12):
        kept = found.pruned(error)
        assert kept.terms < found.terms
        x = torch.linspace(-50, 150, 200, dtype=torch.float64)[:, None, None]
        assert float((found.cdf(x) - kept.cdf(x)).abs().max()) <= error
        torch.testing.assert_close(kept.log_evidence, found.log_evidence)
    assert found.pruned(0.0).terms == found.terms


@torch.no_grad()
def test_quantiles_are_exact_far_out_too() -> None:
    found = conditional(40, 2)
    levels = torch.tensor([1e-300, 1e-12, 0.3, 0.7], dtype=torch.float64)[:, None, None]
    log_u, log_1mu = levels.log(), torch.log1p(-levels)
    x = found.quantile(log_u, log_1mu)
    torch.testing.assert_close(found.logcdf(x), log_u.expand_as(x), rtol=1e-9, atol=1e-12)
    upper = found.quantile(log_1mu, log_u)
    torch.testing.assert_close(found.logsf(upper), log_u.expand_as(x), rtol=1e-9, atol=1e-12)


def test_what_is_negligible_shrinks_with_the_rarer_side() -> None:
    small = torch.tensor([1e-30]).double()
    both = negligible(small.log(), torch.log1p(-small), torch.float64)
    assert 0 < both < 1e-45
    assert negligible(torch.empty(0), torch.empty(0), torch.float32) == 0


@torch.no_grad()
def test_members_stay_where_shares_are_undefined() -> None:
    found = conditional(4, 2)
    assert isinstance(found, UnivariateMixture)
    weights = found.log_weights.clone()
    weights[:, 0] = torch.nan
    broken = UnivariateMixture(found.members, found.log_weights, found.discrete)
    broken.log_weights = weights
    assert len(broken.pruned(1e-9).members) == 2
