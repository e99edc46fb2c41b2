"""All missing cells of a table at once, each row with a pattern of its own."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.univariates import Univariates
from marginals.structure import random
from marginals.tensors import CPTensor, FullTensor
from tests.laws.registry import generic, ht, mixture

NAN, INF = torch.nan, torch.inf
KINDS = (None, 3, None, 2, None)

# Rows of cells as in `Evidence.of`; "?" is asked for, None is missing and not looked at.
ROWS: list[list[Any]] = [
    [0.5, "?", -1.0, "?", "?"],
    ["?", 2, "?", 1, 0.3],
    ["?", "?", "?", "?", "?"],
    [(-1.0, 0.5), "?", "?", (None, 0.0), "?"],
    ["?", (0.0, 2.0), (0.0, None), "?", 1.5],
    ["?", 0, -0.2, 0, 0.7],
]


def models() -> dict[str, Density]:
    return {
        "ht": generic(ht(random(5, seed=2), 3), KINDS),
        "mera": generic(ht(random(5, pool=3, seed=1), 3, mera=True), KINDS),
        "full": generic(FullTensor(5, 2), KINDS),
        "mixture": mixture([generic(CPTensor(5, 3), KINDS), generic(FullTensor(5, 2), KINDS)]),
    }


def known_of(row: list[Any]) -> dict[int, Any]:
    return {column: cell for column, cell in enumerate(row) if cell != "?"}


def table() -> Evidence:
    """Put all rows into one piece of evidence."""
    bounds = []
    for side in (0, 1):
        open_end = (-INF, INF)[side]
        rows = [[bound(cell, side, open_end) for cell in row] for row in ROWS]
        bounds.append(torch.tensor(rows))
    return Evidence.interval(*bounds)


def bound(cell: Any, side: int, open_end: float) -> float:
    if cell == "?":
        return NAN
    if isinstance(cell, tuple):
        return open_end if cell[side] is None else cell[side]
    return cell


def asked() -> list[tuple[int, int]]:
    return [(i, c) for i, row in enumerate(ROWS) for c, cell in enumerate(row) if cell == "?"]


def values() -> Tensor:
    """A value for every cell, codes where codes belong."""
    x = torch.randn(len(ROWS), 5)
    x[:, 1] = torch.randint(0, 3, (len(ROWS),)).double()
    x[:, 3] = torch.randint(0, 2, (len(ROWS),)).double()
    return x


@pytest.mark.parametrize("name", models())
def test_each_missing_cell_is_the_conditional_given_its_row(name: str) -> None:
    model = models()[name]
    parts, x = model.univariates(table()), values()
    found = {
        "logpdf": parts.logpdf(x),
        "logcdf": parts.logcdf(x),
        "logsf": parts.logsf(x),
    }
    for i, column in asked():
        known = known_of(ROWS[i])
        for query, out in found.items():
            assert out.shape == (len(ROWS), 5)
            expected = getattr(model, query)(x[i, [column]], [column], known)
            assert_close(out[i, column], expected, rtol=0, atol=1e-11)
        # What is known of the row, since the cell itself is missing.
        evidence = model.log_value(known)[0] if known else torch.tensor(0.0)
        assert_close(parts.log_evidence[i, column], evidence, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", models())
def test_quantiles_of_each_missing_cell(name: str) -> None:
    model = models()[name]
    parts = model.univariates(table())
    levels = torch.rand(4, len(ROWS), 5) * 0.96 + 0.02
    found = parts.ppf(levels)
    assert found.shape == levels.shape
    for i, column in asked():
        expected = model.ppf(levels[:, i, column], column, known_of(ROWS[i]))
        assert_close(found[:, i, column], expected, rtol=1e-9, atol=1e-9)


def test_some_columns_in_any_order() -> None:
    model = models()["ht"]
    every, some = model.univariates(table()), model.univariates(table(), [4, 1])
    x = values()
    assert some.columns == (4, 1)
    assert some.discrete == (False, True)
    assert_close(some.logpdf(x[:, [4, 1]]), every.logpdf(x)[:, [4, 1]])
    assert_close(some.log_evidence, every.log_evidence[:, [4, 1]])


def test_values_broadcast_over_rows() -> None:
    """A grid for each column, the same for all rows."""
    parts = models()["ht"].univariates(table(), [0, 2])
    grid = torch.linspace(-3, 3, 7)[:, None, None].expand(7, 1, 2)
    out = parts.logpdf(grid)
    assert out.shape == (7, len(ROWS), 2)
    assert_close(out, parts.logpdf(grid.expand(7, len(ROWS), 2)))
    levels = torch.tensor([0.1, 0.9])[:, None, None]
    assert parts.ppf(levels).shape == (2, len(ROWS), 2)


def test_densities_integrate_to_one() -> None:
    parts = models()["mera"].univariates(table(), [0, 2, 4])
    ends = parts.ppf(torch.tensor([1e-9, 1 - 1e-9])[:, None, None].expand(2, len(ROWS), 3)).detach()
    t = torch.linspace(0, 1, 4001)[:, None, None]
    x = ends[0] + t * (ends[1] - ends[0])
    mass = torch.trapezoid(parts.logpdf(x).exp(), x, dim=0)
    assert_close(mass, torch.ones_like(mass), rtol=0, atol=1e-5)


def test_masses_of_codes_sum_to_one() -> None:
    parts = models()["ht"].univariates(table(), [1])
    mass = parts.logpdf(torch.arange(3.0)[:, None, None].expand(3, len(ROWS), 1)).exp()
    assert_close(mass.sum(0), torch.ones(len(ROWS), 1))


def test_sets_are_evidence_too() -> None:
    model = models()["ht"]
    known = Evidence.of({1: {0, 2}, 0: (None, 1.0)})
    parts = model.univariates(known, [2, 3])
    x = torch.tensor([[0.4, 1.0]])
    for place, column in enumerate([2, 3]):
        expected = model.logpdf(x[:, [place]], [column], known)
        assert_close(parts.logpdf(x)[:, place], expected, rtol=0, atol=1e-12)


def test_one_pass_serves_gradients_of_the_evidence() -> None:
    model = models()["ht"]
    cells = torch.tensor([[0.5, -1.0], [0.1, 0.2]], requires_grad=True)

    def score(x: Tensor) -> Tensor:
        return model.univariates(Evidence.exact(x, [0, 2]), [4]).logpdf(torch.ones(2, 1))

    assert torch.autograd.gradcheck(score, cells)


def test_ppf_refuses_levels_outside() -> None:
    parts: Univariates = models()["ht"].univariates()
    for level in [0.0, 1.0, -1.0, NAN]:
        with pytest.raises(ValueError, match="between 0 and 1"):
            parts.ppf(torch.full((1, 5), level))


@pytest.mark.parametrize("name", ["ht", "mixture"])
def test_no_rows(name: str) -> None:
    parts = models()[name].univariates(table().rows(slice(0, 0)))
    assert parts.logpdf(torch.zeros(0, 5)).shape == (0, 5)
    assert parts.logpdf(torch.zeros(3, 0, 5)).shape == (3, 0, 5)
    assert parts.ppf(torch.full((0, 5), 0.5)).shape == (0, 5)
