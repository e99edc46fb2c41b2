"""Univariates of some columns: their order, grids, and sets. The laws cover their values."""

import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.structure import random
from tests.laws.registry import boxes_of, generic, ht, rows_of

KINDS = (None, 3, None, 2, None)


def make_model() -> Density:
    return generic(ht(random(5, seed=2), 3), KINDS)


def test_some_columns_in_any_order() -> None:
    model = make_model()
    boxes, x = boxes_of(model, 6), rows_of(model, 6)
    every, some = model.univariates(boxes), model.univariates(boxes, [4, 1])
    assert some.columns == (4, 1)
    assert some.discrete == (False, True)
    assert_close(some.logpdf(x[:, [4, 1]]), every.logpdf(x)[:, [4, 1]])
    assert_close(some.log_evidence, every.log_evidence[:, [4, 1]])


def test_values_broadcast_over_rows() -> None:
    """A grid for each column, the same for all rows."""
    model = make_model()
    boxes = boxes_of(model, 6)
    parts = model.univariates(boxes, [0, 2])
    grid = torch.linspace(-3, 3, 7)[:, None, None].expand(7, 1, 2)
    out = parts.logpdf(grid)
    assert out.shape == (7, 6, 2)
    assert_close(out, parts.logpdf(grid.expand(7, 6, 2)))
    levels = torch.tensor([0.1, 0.9])[:, None, None]
    assert parts.ppf(levels).shape == (2, 6, 2)
    mass = model.univariates(boxes, [1]).logpdf(torch.arange(3.0)[:, None, None]).exp()
    assert_close(mass.sum(0), torch.ones(6, 1))
    none = model.univariates(boxes.rows(slice(0, 0)))
    assert none.logpdf(torch.zeros(3, 0, 5)).shape == (3, 0, 5)
    assert none.ppf(torch.full((0, 5), 0.5)).shape == (0, 5)


def test_sets_are_evidence_too() -> None:
    model = make_model()
    known = Evidence.of({1: {0, 2}, 0: (None, 1.0)})
    parts = model.univariates(known, [2, 3])
    x = torch.tensor([[0.4, 1.0]])
    for place, column in enumerate([2, 3]):
        expected = model.logpdf(x[:, [place]], [column], known)
        assert_close(parts.logpdf(x)[:, place], expected, rtol=0, atol=1e-12)
