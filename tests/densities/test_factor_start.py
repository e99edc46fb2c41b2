"""Many components placed by few factors answer for tables of related codes."""

import math

import pytest
import torch
from torch import Tensor

from marginals import build
from marginals.cells.evidence import Evidence
from marginals.densities.coupled import CoupledDensity
from marginals.densities.density import Density
from marginals.densities.em_start import flat_column
from marginals.densities.factor_nodes import (
    FactorNodes,
    NodeComponents,
    NodeTable,
    prior_rows,
    updated_components,
)
from marginals.densities.factor_start import spread_over
from marginals.leaves import CategoricalLeaves


def survey(rows: int, columns: int = 12, seed: int = 0) -> Tensor:
    """Answers 0 to 4 that depend on two traits, half of the columns on each."""
    generator = torch.Generator().manual_seed(seed)
    traits = torch.randn(rows, 2, generator=generator).repeat_interleave(columns // 2, 1)
    own = torch.randn(rows, columns, generator=generator)
    latent = 0.8 * traits + 0.6 * own
    return torch.bucketize(latent, torch.tensor([-1.0, -0.3, 0.4, 1.1])).double()


def score(model: Density, x: Tensor) -> float:
    with torch.no_grad():
        return float(model.log_value(x).mean())


def test_related_answers_are_known_from_each_other() -> None:
    train, test = survey(1000), survey(2000, seed=1)
    options = {"categories": dict.fromkeys(range(12), 5), "width": 60}
    model = build(train, tensor="cp", leaves="normal", init="factors", factors=2, **options)
    free = build(train, tensor="cp", leaves="normal", init="em", **options)
    assert score(model, test) > score(free, test) + 0.5
    given = torch.full((1, 12), torch.nan, dtype=torch.double)
    given[0, 1] = 4
    conditional = model.univariates(given, [0]).logpdf(torch.arange(5.0)[:, None, None]).exp()
    rows = test[test[:, 1] == 4, 0].long()
    frequency = torch.bincount(rows, minlength=5) / len(rows)
    assert (conditional.flatten() - frequency).abs().max() < 0.06


def test_numbers_atoms_gaps_and_columns_alone_take_part() -> None:
    codes = survey(800, columns=4)
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(800, 3, generator=generator)
    number = codes[:, 0] + 0.5 * noise[:, 0]
    near = number + 0.1 * noise[:, 1]  # coupled with the number within components
    paid = torch.where(codes[:, 1] > 2, 0.0, 3 + noise[:, 2])
    rows = torch.column_stack([codes, number, near, paid, torch.arange(800.0) % 7])
    gaps = rows.clone()
    gaps[::5, 0], gaps[1::6, 4] = torch.nan, torch.nan
    gaps[2::7, 6] = torch.nan
    options = {
        "categories": {**dict.fromkeys(range(4), 5), 7: 7},
        "atoms": {6: (0.0,)},
        "alone": (7,),
    }
    model = build(gaps, tensor="copula", width=40, rank=2, init="factors", factors=4, **options)
    assert isinstance(model, CoupledDensity)
    assert model.coupled == (4, 5, 6)
    apart = build(gaps, tensor="copula", width=1, rank=0, init="em", **options)
    assert score(model, rows) > score(apart, rows) + 2
    paid_nothing = Evidence.exact(torch.zeros(2, 1, dtype=torch.double), [6])
    low_and_high = Evidence.exact(torch.tensor([[0.0], [4.0]]), [1])
    at_zero = model.log_conditional(paid_nothing, low_and_high).exp()
    assert at_zero[0] < 0.1 < 0.8 < at_zero[1]


def test_numbers_that_nearly_equal_each_other_stay_so() -> None:
    generator = torch.Generator().manual_seed(3)
    codes = survey(1000, columns=4)
    start = 100 * torch.rand(1000, generator=generator)
    lasts = torch.where(codes[:, 0] > 2, 0.3, 0.1)  # by a code
    end = start + lasts * (1 + 0.2 * torch.randn(1000, generator=generator))
    rows = torch.column_stack([codes, start, end]).double()
    categories = dict.fromkeys(range(4), 5)
    model = build(
        rows, tensor="copula", width=160, rank=1, init="factors", factors=3, categories=categories
    )
    assert flat_column(rows[:, 4:]) == 0  # so that each of 40 components has four copies
    assert abs(float((model.sample(4000)[:, 4] < 20).double().mean()) - 0.2) < 0.03
    drawn = model.sample(2000, generator=generator)
    gap = drawn[:, 5] - drawn[:, 4]
    assert (gap - lasts.mean()).abs().max() < 1
    long = drawn[:, 0] > 2
    assert gap[long].mean() > 2 * gap[~long].mean()


def test_uncoupled_columns_with_atoms_start_too() -> None:
    codes = survey(400, columns=4)
    noise = torch.randn(400, generator=torch.Generator().manual_seed(0))
    rows = torch.column_stack([codes, torch.where(codes[:, 0] > 2, 0.0, 2 + noise)])
    options = {"categories": dict.fromkeys(range(4), 5), "atoms": {4: (0.0,)}, "leaves": "normal"}
    model = build(rows, tensor="cp", width=20, init="factors", factors=2, **options)
    assert score(model, rows) > score(build(rows, tensor="cp", width=1, **options), rows) + 1


def test_a_rare_category_keeps_some_mass() -> None:
    rows = survey(300, columns=4)
    rows[:, 3] = 0.0
    rows[0, 3] = 1.0
    model = build(
        rows,
        tensor="cp",
        width=30,
        init="factors",
        leaves="normal",
        categories={
            **dict.fromkeys(range(3), 5),
            3: 3,
        },
    )
    never = model.univariates(None, [3]).logpdf(torch.full((1, 1), 2.0))
    assert math.log(1e-3) < never < math.log(1e-2)
    assert isinstance(model.leaves.families[0], CategoricalLeaves)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_are_enough(rows: int) -> None:
    model = build(
        survey(rows, 4),
        tensor="cp",
        width=5,
        init="factors",
        leaves="normal",
        categories=dict.fromkeys(range(4), 5),
    )
    assert math.isfinite(score(model, survey(10, 4)))


def test_networks_start_on_rows() -> None:
    rows = torch.randn(20, 2)
    same = [build(rows, width=4, init=init).log_value(rows) for init in ("factors", "data")]
    assert torch.equal(*same)


def test_time_runs_out_after_one_round() -> None:
    rows = torch.randint(3, (400, 4), generator=torch.Generator().manual_seed(0)).double()
    options = {"tensor": "cp", "leaves": "normal", "width": 8, "init": "factors", "factors": 2}
    model = build(rows, categories=dict.fromkeys(range(4), 3), seconds=0.0, **options)
    assert bool(model.log_value(rows).isfinite().all())


def test_narrow_components_far_from_zero_keep_a_covariance() -> None:
    """In float32 the difference of large squares is no covariance."""
    generator = torch.Generator().manual_seed(0)
    places = torch.where(torch.rand(600, 1, generator=generator) < 0.5, -30.0, 30.0)
    numbers = (places + 1e-3 * torch.randn(600, 4, generator=generator)).float()
    table = NodeTable(torch.zeros(600, 0).float(), (), numbers, 4)
    nodes = FactorNodes(table, 8, 1, generator).float()
    found = updated_components(nodes, table)
    assert bool((torch.linalg.eigvalsh(found.covariances) > 0).all())


def test_the_factors_are_worth_as_many_rows_as_components_agree_with_them() -> None:
    prior = torch.tensor([[0.7, 0.3]]).expand(200, 2)
    exact = torch.distributions.Binomial(50, prior[:, 0]).sample()
    apart = 50 * (torch.rand(200) < 0.7).float()  # each component has one code only
    agree, differ = (prior_rows(torch.stack([n, 50 - n], 1), prior) for n in (exact, apart))
    assert agree >= 40
    assert differ == 1.0


def test_copies_change_one_margin_and_nothing_given_it() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2000, generator=generator, dtype=torch.double)
    root = torch.randn(3, 3, 3, generator=generator, dtype=torch.double)
    means = torch.randn(3, 3, generator=generator, dtype=torch.double)
    shares = torch.rand(2000, 3, generator=generator, dtype=torch.double)
    before = NodeComponents(
        torch.tensor([0.5, 0.3, 0.2]).double(),
        torch.randn(3, 4, generator=generator).log_softmax(1),
        means,
        root @ root.mT + 0.1 * torch.eye(3),
    )
    after = spread_over(before, 1, x, shares / shares.sum(1, keepdim=True), 4)

    def given(components: NodeComponents) -> tuple[Tensor, Tensor, Tensor]:
        """Slope, intercept and covariance of the columns given the second."""
        covariance, mean = components.covariances, components.means
        slope = covariance[:, :, 1] / covariance[:, 1, 1, None]
        rest = covariance - slope[:, :, None] * covariance[:, None, 1]
        return slope, mean - slope * mean[:, 1, None], rest

    for one, other in zip(given(before), given(after), strict=True):
        torch.testing.assert_close(one.repeat_interleave(4, 0), other)
    torch.testing.assert_close(after.weights.view(3, 4).sum(1), before.weights)
    level = torch.linspace(0.05, 0.95, 19).double()[:, None]
    deviation = after.covariances[:, 1, 1].sqrt()
    cdf = torch.special.ndtr((level - after.means[:, 1]) / deviation) @ after.weights
    assert (cdf - level[:, 0]).abs().max() < 0.03


@pytest.mark.parametrize(
    ("margin", "apart", "found"), [("flat", 0.001, 0), ("flat", 0.3, None), ("normal", 0.001, None)]
)
def test_flat_columns_are_those_that_others_nearly_equal(
    margin: str, apart: float, found: int | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 3, generator=generator)
    x[:, 0] = torch.rand(1000, generator=generator) if margin == "flat" else x[:, 0]
    x[:, 2] = x[:, 0] + apart * x[:, 2]
    where = flat_column(x)
    assert (where is None) == (found is None)
    assert where in (None, 0, 2)
    x[::2, 1] = torch.nan
    assert (flat_column(x) is None) == (found is None)
    assert flat_column(x[:50]) is None
