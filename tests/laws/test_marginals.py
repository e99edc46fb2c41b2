"""Marginals and conditionals: NaN, subsets, views, the chain rule and Bayes' rule."""

from itertools import combinations

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.registry import boxes_of, build, coded, names, rows_of, smooth

MODELS = names("marginal", at_least=2)


def splits(model: Density) -> list[tuple[list[int], list[int]]]:
    """List the ways to part the columns into two sets that are not empty."""
    every = range(model.columns)
    subsets = [s for size in range(1, model.columns) for s in combinations(every, size)]
    return [(list(s), [c for c in every if c not in s]) for s in subsets]


@pytest.mark.parametrize("name", MODELS)
def test_nan_is_the_marginal_exactly(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    for kept, absent in splits(model):
        holes = x.clone()
        holes[:, absent] = torch.nan
        marginal = model.logpdf(x[:, kept], kept)
        assert torch.equal(model.logpdf(holes), marginal), kept
        assert_close(model.marginal(kept).logpdf(x[:, kept]), marginal, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", names("marginal"))
def test_a_row_of_nan_is_certain(name: str) -> None:
    model = build(name)
    nothing = torch.full((2, model.columns), torch.nan)
    assert_close(model.logpdf(nothing), torch.zeros(2), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_columns_come_in_any_order(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    back = list(reversed(range(model.columns)))
    assert_close(model.logpdf(x[:, back], back), model.logpdf(x), rtol=0, atol=1e-13)
    assert_close(model.marginal(back).logpdf(x[:, back]), model.logpdf(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_chain_rule(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    joint = model.logpdf(x)
    for a, b in splits(model):
        given = Evidence.exact(x[:, a], a)
        conditional = model.logpdf(x[:, b], b, given)
        assert_close(model.logpdf(x[:, a], a) + conditional, joint, rtol=0, atol=1e-10)
        assert_close(model.condition(given).logpdf(x[:, b]), conditional, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_chain_rule_column_by_column(name: str) -> None:
    """Each factor from `univariates`, which shares no code with the ratio of two contractions."""
    model = build(name)
    x = rows_of(model, 6)
    total = model.logpdf(x[:, :1], [0])
    for column in range(1, model.columns):
        before = Evidence.exact(x[:, :column], range(column))
        factor = model.univariates(before, [column]).logpdf(x[:, column : column + 1])
        total = total + factor[:, 0]
    assert_close(total, model.logpdf(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_conditional_is_the_ratio_for_every_kind_of_evidence(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    boxes = boxes_of(model, 6)
    # Each column requested alone and given alone; of the others every third.
    every = splits(model)
    for asked, known in [s for i, s in enumerate(every) if 1 in map(len, s) or i % 3 == 0]:
        given = Evidence.interval(boxes.lower[:, known], boxes.upper[:, known], known)
        exact = Evidence.exact(x[:, asked], asked)
        ratio = model.log_value(exact.join(given)) - model.log_value(given)
        assert_close(model.logpdf(x[:, asked], asked, given), ratio, rtol=0, atol=1e-12)
        cdf = Evidence.interval(torch.full_like(x, -torch.inf)[:, asked], x[:, asked], asked)
        ratio = model.log_value(cdf.join(given)) - model.log_value(given)
        # The points of boxes of three or more coupled columns depend on the weights.
        error = 4e-3 if "copula" in name and model.columns > 2 else 1e-12
        assert_close(model.logcdf(x[:, asked], asked, given), ratio, rtol=0, atol=error)
        view = model.condition(given)
        assert_close(view.logcdf(x[:, asked]), ratio, rtol=0, atol=error)


@pytest.mark.parametrize("name", names("cdf", "marginal", at_least=2))
def test_derivative_of_a_conditional_cdf_is_the_conditional_density(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    boxes = boxes_of(model, 6)
    for column in smooth(model):
        rest = [c for c in range(model.columns) if c != column]
        given = Evidence.interval(boxes.lower[:, rest], boxes.upper[:, rest], rest)
        at = x[:, [column]].clone().requires_grad_()
        (slope,) = torch.autograd.grad(model.cdf(at, [column], given).sum(), at)
        expected = model.pdf(at, [column], given).detach()
        assert_close(slope[:, 0], expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_one_row_serves_all_rows_of_the_other_side(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    one, many = x[:1].expand_as(x), Evidence.exact(x[:, :1], [0])
    given, repeated = Evidence.exact(x[:1, :1], [0]), Evidence.exact(one[:, :1], [0])
    expected = model.logpdf(x[:, 1:2], [1], repeated)
    assert_close(model.logpdf(x[:, 1:2], [1], given), expected, rtol=0, atol=1e-14)
    expected = model.logpdf(one[:, 1:2], [1], many)
    assert_close(model.logpdf(x[:1, 1:2], [1], many), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", names("marginal", at_least=3))
def test_views_compose(name: str) -> None:
    model = build(name)
    x = rows_of(model, 5)
    last = model.columns - 1
    known = Evidence.exact(x[:1, :1], [0])
    # Condition on column 0, then ask for the last column alone; its name is then 0.
    view = model.condition(known).marginal([last - 1])
    expected = model.logpdf(x[:, [last]], [last], known)
    assert_close(view.logpdf(x[:, [last]]), expected, rtol=0, atol=1e-12)
    # Condition twice.
    both = model.condition(known).condition(Evidence.exact(x[:1, 1:2], [0]))
    at_once = Evidence.exact(x[:1, :2], [0, 1])
    rest = list(range(2, model.columns))
    expected = model.logpdf(x[:, rest], rest, at_once)
    assert_close(both.logpdf(x[:, rest]), expected, rtol=0, atol=1e-12)
    assert both.categories == tuple(model.categories[c] for c in rest)


@pytest.mark.parametrize("name", names("marginal", at_least=2, coded=1))
def test_marginal_of_a_code_is_the_sum_over_the_others(name: str) -> None:
    model = build(name)
    x = rows_of(model, 6)
    for column in coded(model):
        rest = [c for c in range(model.columns) if c != column]
        every = x[:, None].repeat(1, model.categories[column], 1)
        every[..., column] = torch.arange(float(model.categories[column]))
        total = model.logpdf(every).logsumexp(-1)
        assert_close(total, model.logpdf(x[:, rest], rest), rtol=0, atol=1e-13)
