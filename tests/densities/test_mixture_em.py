"""The EM start of components without couplings."""

import pytest
import torch

import marginals
from marginals.cells.evidence import Evidence

NAN, INF = torch.nan, torch.inf


def table(rows: int = 400) -> Evidence:
    """Two categories that determine each other, a lattice with an atom, and a continuous column."""
    code = torch.randint(3, (rows,)).double()
    lattice = torch.where(torch.rand(rows) < 0.3, 0.0, (code + torch.randn(rows)).round())
    line = 4 * code + torch.randn(rows)
    lower = torch.stack([code, (code + 1) % 3, lattice - 0.5, line], 1)
    upper = torch.stack([code, (code + 1) % 3, lattice + 0.5, line], 1)
    lower[:, 2] = torch.where(lattice <= -2, -INF, lower[:, 2])
    gaps = torch.rand(rows, 4) < 0.1
    lower, upper = (torch.where(gaps, NAN, end) for end in (lower, upper))
    return Evidence.interval(lower.float(), upper.float())


@pytest.mark.parametrize("tensor", ["ht", "cp", "full"])
def test_a_start_by_em_knows_what_determines_what(tensor: str) -> None:
    data = table()
    options = {"tensor": tensor, "width": 6, "leaves": "normal"}
    options |= {"categories": {0: 3, 1: 3}, "atoms": {2: [0.0]}}
    with torch.no_grad():
        plain, by_em = (
            marginals.build(data, init=init, **options).log_value(data).mean()
            for init in ("data", "em")
        )
        model = marginals.build(data, init="em", **options)
        for code in range(3):
            given = {0: float(code)}
            mass = model.log_conditional({1: float((code + 1) % 3)}, given).exp()
            assert mass > 0.9 if tensor != "full" else mass > 0.7
    assert by_em > plain + 0.5
    assert by_em.isfinite()


def test_neural_leaves_start_on_rows() -> None:
    data = table(60)
    options = {"width": 4, "leaves": "neural", "categories": {0: 3, 1: 3}}
    one, other = (marginals.build(data, init=init, **options) for init in ("em", "data"))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
