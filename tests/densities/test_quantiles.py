"""Quantiles from a table are those that are found one by one."""

import pytest
import torch
import torch.nn.functional as F

from marginals.densities import Mixture, build
from marginals.densities.density import Density
from marginals.densities.quantile_table import quantiles


def model(kind: str) -> Density:
    x = torch.randn(80, 2) * torch.tensor([1.0, 300.0])
    if kind == "mixture":
        return Mixture([model("ht"), model("copula")])
    return build(x, width=12, tensor=kind).double()


@pytest.mark.parametrize("kind", ["ht", "copula", "mixture"])
def test_a_table_changes_nothing(kind: str) -> None:
    margins = model(kind).univariates(None, (0, 1))
    t = torch.cat([torch.randn(3000, 2) * 3, torch.tensor([[-600.0, 25.0], [0.0, 700.0]])])
    log_u, log_1mu = F.logsigmoid(t), F.logsigmoid(-t)
    direct = margins.quantile(log_u[:, None], log_1mu[:, None])[:, 0]
    found = quantiles(margins, log_u, log_1mu, rows=701)
    torch.testing.assert_close(found, direct, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["ht", "copula", "mixture"])
def test_few_quantiles_are_the_same_by_either_way(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    margins = Mixture([model(kind), model("copula")]).univariates(None, (0, 1))
    assert margins.terms >= 24
    u = torch.tensor([1e-6, 0.05, 0.5, 0.95, 1 - 1e-6])[:, None, None]
    bracketed = margins.ppf(u)
    monkeypatch.setattr("marginals.densities.univariates._FEW_TERMS", 0)
    torch.testing.assert_close(margins.ppf(u), bracketed, rtol=1e-9, atol=1e-10)


def test_levels_that_are_all_equal_or_far_out() -> None:
    margins = model("ht").univariates(None, (0, 1))
    t = torch.tensor([0.3, 40.0]).expand(2000, 2)
    log_u, log_1mu = F.logsigmoid(t), F.logsigmoid(-t)
    direct = margins.quantile(log_u[:1, None], log_1mu[:1, None])[:, 0].expand(2000, 2)
    torch.testing.assert_close(quantiles(margins, log_u, log_1mu, 512), direct)


def test_sharp_bends_are_inverted_on_their_own() -> None:
    # Two clusters far apart: between them the CDF is flat, and a table has no use.
    x = torch.cat([torch.randn(40, 1) * 1e-3, 50 + torch.randn(40, 1) * 1e-3])
    margins = build(x, width=12).double().univariates(None, (0,))
    t = torch.linspace(-3, 3, 2500)[:, None]
    log_u, log_1mu = F.logsigmoid(t), F.logsigmoid(-t)
    found = quantiles(margins, log_u, log_1mu, 512)
    at = margins.evaluate(found[:, None])
    torch.testing.assert_close((at.log_cdf - at.log_sf)[:, 0], t, rtol=0, atol=1e-6)
