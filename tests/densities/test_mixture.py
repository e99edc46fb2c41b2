"""A mixture is the weighted sum of its members, in every query and in its samples."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.structure import balanced
from marginals.tensors import CPTensor, FullTensor
from tests.laws.registry import boxes_of, chain, generic, ht, mixture, rows_of
from tests.laws.statistics import assert_uniform, rosenblatt

KINDS = (None, 3, None)
WEIGHTS = (0.5, 0.2, 0.3)


def members() -> list[Density]:
    return [
        generic(ht(balanced(3), 3), KINDS),
        generic(CPTensor(3, 4), KINDS, depth=2),
        generic(FullTensor(3, 2), KINDS, hidden=1),
    ]


def weighted(values: list[Tensor], weights: Any = WEIGHTS) -> Tensor:
    """Sum the exponentials of log values with weights, by the book."""
    return sum(w * value.exp() for w, value in zip(weights, values, strict=True)).log()


# Values ---------------------------------------------------------------------------------------


def test_every_query_is_the_weighted_sum() -> None:
    parts = members()
    model = Mixture(parts, WEIGHTS)
    x = rows_of(model, 8)
    assert_close(model.logpdf(x), weighted([m.logpdf(x) for m in parts]))
    assert_close(model.logcdf(x), weighted([m.logcdf(x) for m in parts]))
    assert_close(model.logsf(x), weighted([m.logsf(x) for m in parts]))
    assert_close(model.logprob(x - 1, x), weighted([m.logprob(x - 1, x) for m in parts]))
    boxes = boxes_of(model, 8)
    assert_close(model.log_value(boxes), weighted([m.log_value(boxes) for m in parts]))


def test_a_conditional_is_the_ratio_of_weighted_sums() -> None:
    parts = members()
    model = Mixture(parts, WEIGHTS)
    known = {1: {0, 2}, 2: (0.0, None)}
    x = rows_of(model, 5)[:, :1]
    joint = Evidence.exact(x).join(Evidence.of(known))
    above = weighted([m.log_value(joint) for m in parts])
    below = weighted([m.log_value(known) for m in parts])
    assert_close(model.logpdf(x, [0], known), above - below)


def test_one_member_is_itself() -> None:
    (part, *_) = members()
    model = Mixture([part], [7])
    x = rows_of(part, 5)
    assert_close(model.logpdf(x), part.logpdf(x))
    assert_close(model.ppf(0.3, 0, {1: 2}), part.ppf(0.3, 0, {1: 2}))


def test_equal_weights_by_default() -> None:
    parts = members()
    x = rows_of(parts[0], 4)
    assert_close(Mixture(parts).logpdf(x), weighted([m.logpdf(x) for m in parts], [1 / 3] * 3))


def test_only_proportions_matter() -> None:
    parts = members()
    one, two = Mixture(parts, WEIGHTS), Mixture(parts, [50, 20, 30])
    assert_close(one.log_weights(), two.log_weights())
    assert_close(one.log_weights().exp(), torch.tensor(WEIGHTS))


def test_nested_mixtures_are_flat_ones() -> None:
    one, two, three = members()
    nested = Mixture([Mixture([one, two], [5, 2]), three], [0.7, 0.3])
    flat = Mixture([one, two, three], WEIGHTS)
    x, boxes = rows_of(flat, 6), boxes_of(flat, 6)
    assert_close(nested.log_value(boxes), flat.log_value(boxes))
    at_nested, at_flat = nested.univariates(boxes), flat.univariates(boxes)
    assert_close(at_nested.logpdf(x), at_flat.logpdf(x))
    assert_close(at_nested.log_evidence, at_flat.log_evidence)
    levels = torch.rand(4, 6, 3) * 0.9 + 0.05
    assert_close(at_nested.ppf(levels), at_flat.ppf(levels), rtol=0, atol=1e-8)


def test_what_one_member_excludes_the_others_may_allow() -> None:
    one, two = (generic(CPTensor(2, 2), [2, None]) for _ in range(2))
    with torch.no_grad():
        one.leaves.families[1].logits[..., 1] = -torch.inf
    model = Mixture([one, two], [3, 1])
    x = torch.tensor([[1.0, 0.3]])
    assert_close(model.logpdf(x), two.logpdf(x) - torch.tensor(4.0).log())
    # All the weight then lies with the second member.
    assert_close(model.ppf(0.2, 1, {0: 1}), two.ppf(0.2, 1, {0: 1}))
    x = torch.tensor([[0.3]])
    assert_close(model.logpdf(x, [1], {0: 1}), two.logpdf(x, [1], {0: 1}))
    assert (model.sample(50, {0: 1})[:, 0] == 1).all()


def test_mixture_of_views_with_different_evidence() -> None:
    model = generic(ht(chain(4), 3), [None, 3, None, None])
    one, two = model.condition({0: -1.0}), model.marginal([1, 2, 3])
    both = Mixture([one, two], [1, 2])
    x, boxes = rows_of(two, 6), boxes_of(two, 6)
    assert_close(both.logpdf(x), weighted([one.logpdf(x), two.logpdf(x)], [1 / 3, 2 / 3]))
    parts = both.univariates(boxes)
    assert parts.columns == (0, 1, 2)
    assert parts.discrete == (True, False, False)
    assert_univariates_are_direct(both, boxes)


# Univariates ----------------------------------------------------------------------------------


def assert_univariates_are_direct(model: Density, known: Evidence) -> None:
    """Compare densities, CDFs and quantiles of all columns with queries of one column."""
    parts = model.univariates(known)
    x = rows_of(model, len(known))
    levels = torch.rand(3, len(known), model.columns) * 0.98 + 0.01
    quantiles = parts.ppf(levels)
    for column in range(model.columns):
        rest, at = known.without(column), x[:, [column]]
        for of_all, of_one in [
            (parts.logpdf(x), model.logpdf(at, [column], rest)),
            (parts.logcdf(x), model.logcdf(at, [column], rest)),
            (parts.logsf(x), model.logsf(at, [column], rest)),
            (parts.log_evidence, model.log_value(rest)),
        ]:
            assert_close(of_all[:, column], of_one, rtol=0, atol=1e-10)
        for level, found in zip(levels[..., column], quantiles[..., column], strict=True):
            cdf = model.cdf(found[:, None], [column], rest)
            if model.categories[column] is None:
                assert_close(cdf, level, rtol=0, atol=1e-10)
            else:
                below = cdf - model.pdf(found[:, None], [column], rest)
                assert (cdf >= level - 1e-10).all()
                assert (below < level + 1e-10).all()


def test_univariates_agree_with_direct_queries() -> None:
    model = mixture(members(), WEIGHTS)
    assert_univariates_are_direct(model, boxes_of(model, 6))


def test_members_far_apart() -> None:
    """Quantiles of two narrow members a thousand scales apart, also between them."""
    one, two = (generic(CPTensor(2, 2), [None, 2]) for _ in range(2))
    two.leaves.families[0].location.add_(1000.0)
    model = Mixture([one, two], [1, 3])
    levels = torch.tensor([0.1, 0.2499999, 0.2500001, 0.5, 0.99])
    x = model.ppf(levels, 0)
    assert_close(model.cdf(x[:, None], [0]), levels, rtol=1e-9, atol=0)
    assert x[1] < 200
    assert x[2] > 800


# Parameters -----------------------------------------------------------------------------------


def test_the_gradient_of_the_weights_is_posterior_less_prior() -> None:
    parts = members()
    model = Mixture(parts, WEIGHTS)
    x = rows_of(model, 1)
    (gradient,) = torch.autograd.grad(model.logpdf(x).sum(), model.logits)
    prior = torch.tensor(WEIGHTS)
    joint = prior * torch.stack([m.pdf(x)[0] for m in parts])
    assert_close(gradient, joint / joint.sum() - prior)


def test_members_and_weights_receive_gradients() -> None:
    model = Mixture(members(), WEIGHTS)
    model.logpdf(model.sample(100)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name


def test_learning_the_weights_finds_the_member_that_drew_the_data() -> None:
    parts = members()
    model = Mixture(parts)
    x = parts[1].sample(500)
    optimizer = torch.optim.Adam([model.logits], lr=0.2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = -model.logpdf(x).mean()
        loss.backward()
        optimizer.step()
    weights = model.log_weights().exp()
    assert weights.argmax() == 1
    assert weights[1] > 0.8
    assert_close(weights.sum(), torch.tensor(1.0))


# Samples --------------------------------------------------------------------------------------


def test_samples() -> None:
    model = mixture(members(), WEIGHTS)
    for u in rosenblatt(model, model.sample(4000)).values():
        assert_uniform(u)


def test_samples_for_one_row_of_evidence() -> None:
    model = mixture(members(), WEIGHTS)
    known = {2: (0.5, None), 1: {0, 1}}
    rows = model.sample(4000, known)
    assert rows.shape == (4000, 3)
    for u in rosenblatt(model, rows, known).values():
        assert_uniform(u)


def test_samples_for_several_rows_of_evidence() -> None:
    """Members far apart: evidence on one column decides which member draws the others."""
    one, two = (generic(CPTensor(2, 2), [None, None]) for _ in range(2))
    two.leaves.families[0].location.add_(50.0)
    model = Mixture([one, two], [1, 1])
    ends = one.leaves.families[0].location[0], two.leaves.families[0].location[0]
    known = torch.stack([ends[0], ends[1], ends[0]])[:, None]
    rows = model.sample(1500, Evidence.exact(known))
    assert rows.shape == (3, 1500, 2)
    assert torch.equal(rows[..., 0], known.expand(3, 1500))
    near = (rows[..., 1] - one.leaves.families[0].location[1]).abs() < 25
    assert near.double().mean(1).tolist() == pytest.approx([1, 0, 1], abs=0.01)
    for row, x in zip(rows, known[:, 0].tolist(), strict=True):
        for u in rosenblatt(model, row, {0: x}).values():
            assert_uniform(u)


def test_rows_of_evidence_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the members' weights are found in batches of rows."""
    model = mixture(members(), WEIGHTS)
    monkeypatch.setattr(Mixture, "rows_at_once", lambda self: 3)
    known = torch.linspace(-2, 2, 10)[:, None]
    rows = model.sample(7, Evidence.exact(known, [2]))
    assert rows.shape == (10, 7, 3)
    assert torch.equal(rows[..., 2], known.expand(10, 7))


def test_a_member_may_draw_nothing() -> None:
    model = Mixture(members(), [1e-300, 1.0, 1e-300])
    assert model.sample(20).shape == (20, 3)
    assert model.sample(5, Evidence.exact(torch.zeros(4, 1))).shape == (4, 5, 3)


# Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, torch.nan]], ids=str)
def test_wrong_weights(weights: list[float]) -> None:
    parts = members()[:2]
    with pytest.raises(ValueError, match=r"2 positive.*`weights`; got"):
        Mixture(parts, weights)
    with pytest.raises(ValueError, match="finite"):
        Mixture(parts, [1.0, torch.inf])


@pytest.mark.parametrize("kinds", [[None] * 3, [None, 4, None], [None, 3]], ids=str)
def test_members_that_do_not_match(kinds: list[int | None]) -> None:
    other = generic(CPTensor(len(kinds), 2), kinds)
    with pytest.raises(ValueError, match="same columns and categories; got"):
        Mixture([members()[0], other])


def test_no_members() -> None:
    with pytest.raises(ValueError, match="at least one density; got none"):
        Mixture([])


def test_views_of_several_rows_are_refused() -> None:
    one, two, _ = members()
    view = one.condition(Evidence.exact(torch.zeros(4, 1)))
    with pytest.raises(ValueError, match=r"one row of evidence; got \[4\] rows. Condition the mix"):
        Mixture([view])
    with pytest.raises(ValueError, match=r"one row of evidence; got \[1, 4\] rows"):
        Mixture([two.marginal([1, 2]), view])


def test_errors_of_queries_pass_through() -> None:
    model = Mixture(members())
    with pytest.raises(ValueError, match=r"codes 0..2 in categorical column 1"):
        model.logpdf(torch.tensor([[0.0, 3.0, 0.0]]))
    with pytest.raises(ValueError, match="columns between 0 and 2; got 3"):
        model.sample(1, {3: 0.0})
