"""Conditionals are probabilities however unlikely their evidence is."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.registry import REGISTRY, build, names

FAR = (0.0, 30.0, 1e3, 1e4, 1e6)
# A coded column to sum over, and continuous ones for the evidence and for an interval.
MODELS = names("cdf", "marginal", smooth=2, coded=1)
DTYPES = [torch.float32, torch.float64]


def far(model: Density, columns: list[int], dtype: torch.dtype) -> Evidence:
    """Evidence ever farther out, neighbouring columns on opposite sides."""
    signs = torch.tensor([(-1.0) ** i for i in range(len(columns))])
    return Evidence.exact((torch.tensor(FAR)[:, None] * signs).to(dtype), columns)


def parts(name: str) -> tuple[int, list[int]]:
    """A coded column, and the continuous ones."""
    kinds = REGISTRY[name].kinds
    coded = next(j for j, count in enumerate(kinds) if count is not None)
    return coded, [j for j, count in enumerate(kinds) if count is None]


def total(model: Density, cells: Tensor, columns: list[int], given: Evidence) -> Tensor:
    """Sum the probabilities of several cells for each row of evidence."""
    each = [model.logpdf(cell[None], columns, given) for cell in cells]
    return torch.stack(each).double().logsumexp(0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_categories_sum_to_one(name: str, dtype: torch.dtype) -> None:
    model = build(name).to(dtype)
    coded, smooth = parts(name)
    codes = torch.arange(float(model.categories[coded]), dtype=dtype)[:, None]
    for known in (smooth[:1], smooth):
        log_total = total(model, codes, [coded], far(model, known, dtype))
        assert_close(log_total, torch.zeros(len(FAR)).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_boxes_with_a_category_sum_to_one(name: str, dtype: torch.dtype) -> None:
    """Several requested columns: the two halves of one, times every category of another."""
    model = build(name).to(dtype)
    coded, (known, asked, *_) = parts(name)
    given = far(model, [known], dtype)
    ends = torch.tensor([-torch.inf, 0.3, torch.inf], dtype=dtype)
    logs = []
    for code in range(model.categories[coded]):
        for low, high in pairwise(ends):
            lower = torch.stack([low, torch.tensor(code - 0.5, dtype=dtype)])
            upper = torch.stack([high, torch.tensor(code + 0.5, dtype=dtype)])
            logs.append(model.logprob(lower[None], upper[None], [asked, coded], given))
    log_total = torch.stack(logs).double().logsumexp(0)
    assert_close(log_total, torch.zeros(len(FAR)).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_one_question_asked_in_two_ways(name: str) -> None:
    """P(code | evidence) is the sum over the halves of another column."""
    model = build(name)
    coded, (known, asked, *_) = parts(name)
    given = far(model, [known], torch.float64)
    code = torch.zeros(1, 1)
    alone = model.logpdf(code, [coded], given)
    ends = torch.tensor([-torch.inf, 0.3, torch.inf])
    halves = [
        model.logprob(
            torch.tensor([[low, -0.5]]), torch.tensor([[high, 0.5]]), [asked, coded], given
        )
        for low, high in pairwise(ends)
    ]
    assert_close(torch.stack(halves).logsumexp(0), alone, rtol=0, atol=1e-6)
