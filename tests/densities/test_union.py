"""A density given a union of boxes is the mixture of its conditionals given each box."""

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.union import GivenUnion
from marginals.structure import balanced
from tests.laws.registry import generic, generic_copula, ht, rows_of

KINDS = (None, 3, None, None, 2)
# Boxes in columns 0 and 1; the others are asked.
BOXES = Evidence.interval(
    torch.tensor([[-torch.inf, 0.0], [0.5, 2.0], [1.5, 0.0]], dtype=torch.float64),
    torch.tensor([[-1.0, 0.0], [1.0, 2.0], [1.5, 0.0]], dtype=torch.float64),
    [0, 1],
)
REST = [2, 3, 4]


@pytest.fixture(params=["tree", "copula"])
def model(request: pytest.FixtureRequest) -> Density:
    if request.param == "tree":
        return generic(ht(balanced(5), 3), KINDS)
    return generic_copula(KINDS, 3, 1, 1)


@pytest.fixture
def pair(model: Density) -> tuple[Density, Density]:
    """Return the union as a view and, by other means, as a mixture of views."""
    weights = model.log_value(BOXES).exp().tolist()
    members = [model.condition(BOXES.rows(slice(k, k + 1))) for k in range(len(BOXES))]
    return GivenUnion(model, BOXES).marginal(REST), Mixture(members, weights)


def test_values_and_conditionals(pair: tuple[Density, Density]) -> None:
    union, mixture = pair
    x = rows_of(mixture, 4)
    close = {"rtol": 0, "atol": 1e-7}
    assert_close(union.logpdf(x), mixture.logpdf(x), **close)
    assert_close(union.logcdf(x[:, :1], [0]), mixture.logcdf(x[:, :1], [0]), **close)
    for given in (None, {2: 1}, Evidence.exact(x[:, 1:], [1, 2])):
        asked = [x[:, :1], [0], given]
        assert_close(union.logpdf(*asked), mixture.logpdf(*asked), **close)
        assert_close(union.logsf(*asked), mixture.logsf(*asked), **close)
        levels = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
        found = union.ppf(levels, 0, given), mixture.ppf(levels, 0, given)
        assert_close(*found, rtol=0, atol=1e-5)
    assert_close(
        union.univariates(None, [0, 2]).expect(lambda x, _: x),
        mixture.univariates(None, [0, 2]).expect(lambda x, _: x),
        rtol=1e-5,
        atol=1e-5,
    )


def test_draws_lie_in_the_boxes(model: Density) -> None:
    drawn = GivenUnion(model, BOXES).sample(600)
    share = model.log_value(BOXES).softmax(0)
    inside = torch.stack(
        [
            (drawn[:, 0] <= -1) & (drawn[:, 1] == 0),
            (drawn[:, 0] > 0.5) & (drawn[:, 0] <= 1) & (drawn[:, 1] == 2),
            (drawn[:, 0] == 1.5) & (drawn[:, 1] == 0),
        ]
    )
    assert bool((inside.sum(0) == 1).all())
    assert_close(inside.double().mean(1), share, rtol=0, atol=0.09)


def test_refusals(model: Density) -> None:
    union = GivenUnion(model, BOXES)
    with pytest.raises(ValueError, match="columns that are not given"):
        union.univariates(None, [0])
    with pytest.raises(ValueError, match="columns that are not given"):
        union.log_value({0: 1.0})
    with pytest.raises(ValueError, match="disjoint"):
        union.logpdf(torch.zeros(1, 1), [2], {0: 1.0})
    empty = BOXES.with_impossible(torch.ones(len(BOXES), 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="positive probability"):
        GivenUnion(model, empty)
