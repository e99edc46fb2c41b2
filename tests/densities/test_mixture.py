"""A mixture is the weighted sum of its members, in every query and in its samples."""

from collections.abc import Callable
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
from tests.laws.registry import boxes_of, generic, ht, mixture, rows_of
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


def test_weights() -> None:
    """They are equal by default, only proportions matter, and one member is itself."""
    parts = members()
    x = rows_of(parts[0], 4)
    assert_close(Mixture(parts).logpdf(x), weighted([m.logpdf(x) for m in parts], [1 / 3] * 3))
    assert_close(Mixture(parts, [50, 20, 30]).log_weights().exp(), torch.tensor(WEIGHTS))
    alone = Mixture(parts[:1], [7])
    assert_close(alone.logpdf(x), parts[0].logpdf(x))
    assert_close(alone.ppf(0.3, 0, {1: 2}), parts[0].ppf(0.3, 0, {1: 2}))


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

SEVERAL_ROWS = Evidence.exact(torch.zeros(4, 1))
REFUSED: list[tuple[Callable[[list[Density]], Any], str]] = [
    *(
        (lambda parts, w=w: Mixture(parts[:2], w), r"2 positive.*`weights`; got")
        for w in ([1.0], [1.0, 0.0], [1.0, -1.0], [1.0, torch.nan])
    ),
    (lambda parts: Mixture(parts[:2], [1.0, torch.inf]), "finite"),
    *(
        (
            lambda parts, k=kinds: Mixture([parts[0], generic(CPTensor(len(k), 2), k)]),
            "same columns and categories; got",
        )
        for kinds in ([None] * 3, [None, 4, None], [None, 3])
    ),
    (lambda parts: Mixture([]), "at least one density; got none"),
    (
        lambda parts: Mixture([parts[0].condition(SEVERAL_ROWS)]),
        r"one row of evidence; got \[4\] rows. Condition the mix",
    ),
    (
        lambda parts: Mixture([parts[1].marginal([1, 2]), parts[0].condition(SEVERAL_ROWS)]),
        r"one row of evidence; got \[1, 4\] rows",
    ),
    # Errors of queries pass through.
    (lambda parts: Mixture(parts).logpdf(torch.tensor([[0.0, 3.0, 0.0]])), "categorical column 1"),
    (lambda parts: Mixture(parts).sample(1, {3: 0.0}), "columns between 0 and 2; got 3"),
]


def test_refused() -> None:
    for call, match in REFUSED:
        with pytest.raises(ValueError, match=match):
            call(members())
