"""The `torch.distributions` view: torch's contract of shapes, checks and gradients."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.stats import kstest
from torch.distributions import (
    AffineTransform,
    ExpTransform,
    Independent,
    Normal,
    TransformedDistribution,
    kl_divergence,
)
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.build import build
from marginals.densities.density import Density
from marginals.densities.nmdma import NMDMA
from marginals.densities.torch_distribution import DensityDistribution
from marginals.structure import balanced
from marginals.tensors import CPTensor
from tests.laws.registry import generic, ht
from tests.laws.statistics import P_VALUE, assert_uniform, rosenblatt

GIVEN = torch.tensor([[0.3], [-1.0], [2.0]], dtype=torch.float64)  # three rows for column 0


def make_model(columns: int = 3) -> Density:
    return generic(ht(balanced(columns), 3), [None] * columns)


def mixed() -> Density:
    return generic(CPTensor(3, 3), [None, 4, None])


def rows(model: Density) -> Evidence:
    return Evidence.exact(GIVEN, [0])


# The batch and the event of each way to make a distribution.
SHAPES: dict[str, tuple[Callable[[], DensityDistribution], tuple[int, ...], tuple[int, ...]]] = {
    "joint": (lambda: make_model().distribution(), (), (3,)),
    "one column": (lambda: make_model(1).distribution(), (), ()),
    "marginal": (lambda: make_model().marginal([1]).distribution(), (), ()),
    "given one row": (lambda: make_model().distribution({0: 0.5}), (), (2,)),
    "given rows": (lambda: make_model().distribution(Evidence.exact(GIVEN, [0])), (3,), (2,)),
    "univariate given rows": (
        lambda: make_model(2).distribution(Evidence.exact(GIVEN, [0])),
        (3,),
        (),
    ),
    "expanded": (lambda: make_model().distribution().expand((2, 3)), (2, 3), (3,)),
    "expanded to one": (lambda: make_model(1).distribution().expand((1,)), (1,), ()),
    "expanded rows": (
        lambda: make_model(2).distribution(Evidence.exact(GIVEN, [0])).expand((2, 3)),
        (2, 3),
        (),
    ),
    "codes": (lambda: mixed().distribution(), (), (3,)),
    "one column of codes": (lambda: mixed().distribution({0: 0.1, 2: (0, None)}), (), ()),
}


@pytest.fixture(params=SHAPES)
def case(request: pytest.FixtureRequest) -> tuple[DensityDistribution, torch.Size, torch.Size]:
    make, batch, event = SHAPES[request.param]
    return make(), torch.Size(batch), torch.Size(event)


# Shapes ---------------------------------------------------------------------------------------


def test_shapes(case: tuple[DensityDistribution, torch.Size, torch.Size]) -> None:
    d, batch, event = case
    assert d.batch_shape == batch
    assert d.event_shape == event
    assert d.support.event_dim == len(event)
    for shape in [(), (5,), (2, 4)]:
        x = d.sample(shape)
        assert x.shape == (*shape, *batch, *event)
        assert not x.requires_grad
        assert d.support.check(x).shape == (*shape, *batch)
        assert d.support.check(x).all()
        assert d.log_prob(x).shape == (*shape, *batch)
        assert d.cdf(x).shape == (*shape, *batch)
        if d.has_rsample:
            assert d.rsample(shape).shape == x.shape
        if not event:
            assert d.icdf(torch.rand((*shape, *batch)) * 0.9 + 0.05).shape == x.shape
    for draw in [d.sample, *([d.rsample] if d.has_rsample else [])]:
        assert draw((0,)).shape == (0, *batch, *event)
    # Values broadcast over the batch.
    x = d.sample((1,)).reshape(-1, *event)[0]
    assert_close(d.log_prob(x), d.log_prob(x.expand((*batch, *event))))
    if not event:
        u = torch.tensor(0.3)
        assert_close(d.icdf(u), d.icdf(u.expand(batch)))


def test_shapes_that_do_not_match_are_refused() -> None:
    d = make_model().distribution(Evidence.exact(GIVEN, [0]))
    with pytest.raises(ValueError, match="must match event_shape"):
        d.log_prob(torch.zeros(3, 3))
    with pytest.raises(ValueError, match="not broadcastable"):
        d.log_prob(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="not broadcastable"):
        d.cdf(torch.zeros(4, 2))


# Values ---------------------------------------------------------------------------------------


def test_log_prob_and_cdf_are_those_of_the_density() -> None:
    model = make_model()
    d = model.distribution()
    x = d.sample((4, 5))
    assert_close(d.log_prob(x), model.logpdf(x))
    assert_close(d.cdf(x), model.cdf(x))
    given = model.distribution({1: (0.0, 2.0)})
    x = given.sample((6,))
    assert_close(given.log_prob(x), model.logpdf(x, [0, 2], {1: (0.0, 2.0)}))
    assert_close(given.cdf(x), model.cdf(x, [0, 2], {1: (0.0, 2.0)}))


def test_a_batch_answers_each_element_given_its_row() -> None:
    model = make_model()
    d = model.distribution(rows(model))
    x = d.sample((2, 4))  # (2, 4, 3, 2)
    assert torch.equal(d.log_prob(x)[1, 2], d.log_prob(x[1, 2]))
    for b in range(3):
        known = {0: GIVEN[b].item()}
        assert_close(d.log_prob(x)[..., b], model.logpdf(x[..., b, :], [1, 2], known))
        assert_close(d.cdf(x)[..., b], model.cdf(x[..., b, :], [1, 2], known))


def test_an_expanded_batch_repeats_its_rows() -> None:
    model = make_model()
    d = model.distribution(rows(model))
    big = d.expand((4, 3))
    x = big.sample((2,))
    assert_close(big.log_prob(x), d.log_prob(x))
    across = d.expand((3, 3)).expand((2, 3, 3))
    assert across.batch_shape == (2, 3, 3)
    x = across.sample()
    assert_close(across.log_prob(x), d.log_prob(x))
    same = d.expand((3,))
    assert_close(same.log_prob(x), d.log_prob(x))
    with pytest.raises(RuntimeError):
        d.expand((4,))


def test_icdf_inverts_cdf() -> None:
    model = make_model(2)
    u = torch.rand(5, 3) * 0.98 + 0.01
    for d in [
        model.marginal([1]).distribution(),
        model.distribution(Evidence.exact(GIVEN, [0])),
        model.distribution({0: (0.0, None)}).expand((3,)),
    ]:
        assert_close(d.cdf(d.icdf(u)), u, rtol=0, atol=1e-11)
        x = d.sample((5,))
        assert_close(d.icdf(d.cdf(x)), x, rtol=1e-8, atol=1e-8)


def test_icdf_of_codes_is_the_smallest_that_reaches_the_level() -> None:
    d = mixed().distribution({0: 0.1, 2: 0.4})
    mass = d.log_prob(torch.arange(4.0)).exp()
    assert_close(mass.sum(), torch.tensor(1.0))
    middle = mass.cumsum(0) - mass / 2
    assert torch.equal(d.icdf(middle), torch.arange(4.0))


def test_icdf_refuses() -> None:
    with pytest.raises(NotImplementedError, match=r"one column for `icdf`; got 3. Take a marginal"):
        make_model().distribution().icdf(torch.tensor(0.5))
    for level in [0.0, 1.0, -0.1, 1.1]:
        with pytest.raises(ValueError, match="between 0 and 1"):
            make_model(1).distribution().icdf(torch.tensor(level))


def test_icdf_has_a_gradient() -> None:
    d = make_model(1).distribution()
    u = torch.tensor([0.2, 0.7], requires_grad=True)
    x = d.icdf(u)
    (gradient,) = torch.autograd.grad(x.sum(), u)
    assert_close(gradient, (-d.log_prob(x.detach())).exp(), rtol=1e-9, atol=0)


# Arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1.0, 4.0, 0.5, torch.nan])
def test_values_outside_the_support_are_refused(value: float) -> None:
    d = mixed().distribution()
    x = d.sample((3,))
    x[1, 1] = value
    assert d.support.check(x).tolist() == [True, False, True]
    for query in [d.log_prob, d.cdf]:
        with pytest.raises(ValueError, match="to be within the support"):
            query(x)
    one = mixed().distribution({0: 0.0, 2: 0.0})
    with pytest.raises(ValueError, match="to be within the support"):
        one.log_prob(torch.tensor(value))


def test_nan_in_a_continuous_column_is_outside_the_support() -> None:
    d = make_model().distribution()
    with pytest.raises(ValueError, match="to be within the support"):
        d.log_prob(torch.tensor([0.0, torch.nan, 0.0]))


def test_without_validation_nan_is_marginalised_and_codes_are_still_checked() -> None:
    model = mixed()
    d = DensityDistribution(model, validate_args=False)
    x = torch.tensor([0.3, 2.0, torch.nan])
    assert_close(d.log_prob(x), model.logpdf(x[:2], [0, 1]))
    with pytest.raises(ValueError, match=r"codes 0..3 in categorical column 1"):
        d.log_prob(torch.tensor([0.3, 7.0, 0.0]))


def test_without_validation_values_are_the_same() -> None:
    model = make_model()
    for given in [None, {1: 0.0}, rows(model)]:
        density = model if given is None else model.condition(given)
        on, off = (DensityDistribution(density, validate_args=check) for check in (True, False))
        x = on.sample((4,))
        assert_close(on.log_prob(x), off.log_prob(x))
        assert_close(on.cdf(x), off.cdf(x))
        assert off.expand((2, *off.batch_shape))._validate_args is False
        assert on.expand((2, *on.batch_shape))._validate_args is True


def test_repr() -> None:
    d = make_model().distribution(Evidence.exact(GIVEN, [0]))
    assert repr(d) == "DensityDistribution(batch_shape=(3,), event_shape=(2,))"
    # An error of torch's shows it.
    with pytest.raises(ValueError, match="DensityDistribution"):
        d.log_prob(torch.full((3, 2), torch.nan))


# Samples --------------------------------------------------------------------------------------


def test_generators() -> None:
    model = make_model()
    for d in [model.distribution(), model.distribution(rows(model)).expand((2, 3))]:
        for draw in [d.sample, d.rsample]:
            before = torch.get_rng_state()
            one, two, other = (draw((3,), torch.Generator().manual_seed(s)) for s in (1, 1, 2))
            assert torch.equal(one, two)
            assert not torch.equal(one, other)
            assert torch.equal(before, torch.get_rng_state())


def test_samples_are_those_of_the_density() -> None:
    model = make_model()
    for given in [None, {0: 0.5}, rows(model)]:
        d = model.distribution(given)
        names = [0, 1, 2] if given is None else [1, 2]
        x = d.sample((2, 4), torch.Generator().manual_seed(1))
        expected = model.sample(8, given, torch.Generator().manual_seed(1))[..., names]
        # Draws come first in torch, rows of evidence in the density.
        expected = expected.transpose(0, 1) if d.batch_shape else expected
        assert_close(x.reshape(expected.shape), expected)


def test_samples_follow_the_density() -> None:
    d = mixed().distribution({2: (0.0, None)})
    x = d.sample((2, 1500)).reshape(3000, 2)
    for u in rosenblatt(d.density, x).values():
        assert_uniform(u)


def test_samples_of_a_batch_follow_their_rows() -> None:
    model = make_model(2)
    d = model.distribution(rows(model))
    u = d.cdf(d.sample((2000,)))
    for b in range(3):
        assert_uniform(u[:, b].detach())
    # All elements of an expanded batch are drawn apart.
    x = model.marginal([0]).distribution().expand((2000,)).sample()
    assert len(x.unique()) == 2000
    assert_uniform(model.cdf(x[:, None], [0]).detach())


def test_has_rsample() -> None:
    assert make_model().distribution().has_rsample
    assert mixed().distribution({1: 2}).has_rsample
    assert not mixed().distribution().has_rsample
    nmdma = NMDMA(make_model())
    atoms = build(torch.randn(20, 2), width=2, atoms={0: [0.0]})
    distributions = [
        mixed().distribution(),
        nmdma.distribution(),
        nmdma.distribution({2: 0.0}),
        atoms.distribution(),
    ]
    for d in distributions:
        assert not d.has_rsample
        assert d.sample((2,)).isfinite().all()
        with pytest.raises(NotImplementedError, match=r"continuous columns.*Use `sample`"):
            d.rsample()


def test_nmdma() -> None:
    model = NMDMA(make_model())
    d = model.distribution(Evidence.exact(GIVEN, [2]))
    x = d.sample((5,))
    assert x.shape == (5, 3, 2)
    assert_close(d.log_prob(x)[2], model.logpdf(x[2], [0, 1], Evidence.exact(GIVEN, [2])))


# Torch's own tools ----------------------------------------------------------------------------


def test_independent() -> None:
    model = make_model(2)
    d = Independent(model.distribution(rows(model)), 1)
    assert d.batch_shape == ()
    assert d.event_shape == (3,)
    x = d.rsample((4,))
    assert x.shape == (4, 3)
    assert_close(d.log_prob(x), d.base_dist.log_prob(x).sum(-1))
    assert d.expand((2,)).sample().shape == (2, 3)


def test_transformed_distribution() -> None:
    model = make_model(1)
    d = TransformedDistribution(model.distribution(), [AffineTransform(1.0, 2.0), ExpTransform()])
    y = d.rsample((2000,))
    assert (y > 0).all()
    x = (y.log() - 1) / 2
    assert_close(d.log_prob(y), model.logpdf(x[:, None]) - torch.tensor(2.0).log() - y.log())
    assert kstest(d.cdf(y).detach().numpy(), "uniform").pvalue > P_VALUE
    u = torch.tensor([0.1, 0.8])
    assert_close(d.cdf(d.icdf(u)), u)


def test_transformed_events() -> None:
    model = make_model(2)
    d = TransformedDistribution(model.distribution(), AffineTransform(torch.zeros(3, 1), 2.0))
    assert d.batch_shape == (3,)
    assert d.event_shape == (2,)
    y = d.sample((4,))
    expected = model.logpdf(y / 2) - 2 * torch.tensor(2.0).log()
    assert_close(d.log_prob(y), expected)


def test_kl_divergence_says_that_it_is_not_known() -> None:
    with pytest.raises(NotImplementedError, match="KL"):
        kl_divergence(make_model(1).distribution(), Normal(0.0, 1.0))


def test_training_through_rsample() -> None:
    """Fit a model to a Gaussian by the reverse divergence, as a variational posterior is fitted."""
    model = make_model(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    target = Normal(3.0, 0.5)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        d = model.distribution()
        x = d.rsample((100,))
        loss = (d.log_prob(x) - target.log_prob(x)).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 < losses[0]
    assert abs(model.ppf(0.5, 0).item() - 3.0) < 0.5


def test_dtype() -> None:
    model: Any = make_model(2).float()
    d = model.distribution()
    assert d.sample().dtype == d.rsample().dtype == torch.float32
    assert d.log_prob(d.sample()).dtype == torch.float32
