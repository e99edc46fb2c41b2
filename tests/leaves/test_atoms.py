"""Columns with points of positive mass beside a density."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals import Evidence, Mixture, TensorDensity, build, fit, load, save

ATOMS = (0.0, 2.0)


@pytest.fixture(scope="module")
def data() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 2, generator=generator, dtype=torch.float64)
    kind = torch.rand(600, generator=generator)
    x[kind < 0.3, 0] = 0.0
    x[kind > 0.9, 0] = 2.0
    x[:, 1] += x[:, 0]
    return x


@pytest.fixture(scope="module")
def model(data: Tensor) -> TensorDensity:
    model = build(data, width=5, atoms={0: ATOMS}, dtype=torch.float64)
    fit(model, data, max_steps=60)
    return model.requires_grad_(False)


def points(*values: float) -> Tensor:
    return torch.tensor(values)[:, None]


def test_training_finds_the_masses(data: Tensor, model: TensorDensity) -> None:
    share = torch.stack([(data[:, 0] == atom).double().mean() for atom in ATOMS])
    assert_close(model.pdf(points(*ATOMS), [0]), share, rtol=0, atol=0.06)


def test_mass_and_density_sum_to_one(model: TensorDensity) -> None:
    grid = torch.linspace(-40, 40, 400_002)  # even: no point of it is an atom
    smooth = torch.trapezoid(model.pdf(grid[:, None], [0]), grid)
    assert_close(
        smooth + model.pdf(points(*ATOMS), [0]).sum(), torch.tensor(1.0), rtol=0, atol=1e-6
    )


def test_an_interval_holds_the_atom_at_its_upper_end_only(model: TensorDensity) -> None:
    mass = model.pdf(points(0.0), [0])
    below = model.prob(points(-1.0), points(-1e-12), [0])
    assert_close(model.prob(points(-1.0), points(0.0), [0]), below + mass, rtol=0, atol=1e-10)
    above = model.prob(points(0.0), points(1.0), [0])
    assert_close(model.prob(points(-1e-12), points(1.0), [0]), above + mass, rtol=0, atol=1e-10)


def test_cdf_and_survival_are_complements(model: TensorDensity) -> None:
    x = points(-3.0, -0.5, 0.0, 1e-9, 1.0, 2.0, 5.0)
    assert_close(model.cdf(x, [0]) + model.sf(x, [0]), torch.ones(7), rtol=0, atol=1e-13)


def test_chain_rule_and_missing_cells(data: Tensor, model: TensorDensity) -> None:
    x = data[:40]
    joint = model.logpdf(x)
    chained = model.logpdf(x[:, :1], [0]) + model.logpdf(
        x[:, 1:], [1], Evidence.exact(x[:, :1], [0])
    )
    assert_close(joint, chained, rtol=0, atol=1e-10)
    gaps = torch.stack([torch.full((40,), torch.nan), x[:, 1]], 1)
    assert torch.equal(model.logpdf(gaps), model.logpdf(x[:, 1:], [1]))


def test_quantiles_are_the_smallest_points_that_reach_u(model: TensorDensity) -> None:
    u = torch.linspace(0.01, 0.99, 99)
    for given in (None, {1: 0.5}, {1: (1.0, None)}):
        x = model.ppf(u, 0, given)[:, None]
        at_atom = (x == 0) | (x == 2)
        assert int(at_atom.sum()) > 5
        smooth = ~at_atom[:, 0]
        assert_close(model.cdf(x, [0], given)[smooth], u[smooth], rtol=0, atol=1e-12)
        assert (model.cdf(x, [0], given) >= u - 1e-12).all()
        assert (model.cdf(x - 1e-9, [0], given) <= u + 1e-8).all()


def test_quantiles_of_mixtures_of_models_hit_the_atoms(data: Tensor, model: TensorDensity) -> None:
    other = build(data[:50], width=3, atoms={0: ATOMS}, dtype=torch.float64, seed=1)
    both = Mixture([model, other.requires_grad_(False)], [1, 2]).requires_grad_(False)
    u = torch.linspace(0.02, 0.98, 49)
    x = both.ppf(u, 0)[:, None]
    shift = torch.full_like(x, -torch.inf)
    assert int((x == 0).sum()) > 5
    assert (both.cdf(x, [0]) >= u - 1e-12).all()
    assert (both.cdf(x.nextafter(shift), [0]) <= u + 1e-12).all()


def test_an_atom_at_zero_costs_no_long_bisection(
    model: TensorDensity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marginals.numerics.inversion.MAX_ITERATIONS", 100)
    model.ppf(torch.linspace(0.01, 0.99, 99), 0)


def test_quantiles_and_samples_of_a_float32_model_hit_the_atoms(data: Tensor) -> None:
    small = build(data, width=4, atoms={0: ATOMS})
    known = Evidence.exact(data[:20, 1:], [1])
    x = small.ppf(torch.tensor([0.3, 0.5], dtype=torch.float64), 0, known)
    assert (x == 0).any()
    drawn = small.sample(50, known)[..., 0]
    assert (drawn == 0).any()
    assert (drawn == 2).any()


def test_samples_match_the_masses(model: TensorDensity) -> None:
    for given in ({}, {1: 0.3}, {0: (-0.5, 0.5)}):
        drawn = model.sample(20_000, given or None)[:, 0]
        rest = {c: v for c, v in given.items() if c != 0} or None
        total = torch.tensor(1.0)
        if 0 in given:
            total = model.prob(points(-0.5), points(0.5), [0])[0]
            assert ((drawn > -0.5) & (drawn <= 0.5)).all()
        expected = float(model.pdf(points(0.0), [0], rest)[0] / total)
        # Six standard errors: one failure in 5e8.
        error = 6 * (expected * (1 - expected) / 20_000) ** 0.5
        assert float((drawn == 0).double().mean()) == pytest.approx(expected, abs=error)


def test_expectations(model: TensorDensity) -> None:
    mean = model.univariates().expect(lambda x, _: x)[0]
    drawn = model.sample(200_000)
    assert_close(mean, drawn.mean(0), rtol=0, atol=0.03)


def test_every_parameter_learns(data: Tensor) -> None:
    fresh = build(data, width=4, atoms={0: ATOMS}, dtype=torch.float64)
    lower, upper = data[:200].clone(), data[:200].clone()
    lower[:50, 0] -= 1.0
    fresh.log_value(Evidence.interval(lower, upper)).sum().backward()
    for name, parameter in fresh.named_parameters():
        if parameter.numel() == 0:  # two columns have a root only
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name


def test_files_keep_the_atoms(data: Tensor, model: TensorDensity, tmp_path: Path) -> None:
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert torch.equal(again.logpdf(data[:50]), model.logpdf(data[:50]))


def test_atoms_of_unknown_or_categorical_columns_are_refused(data: Tensor) -> None:
    with pytest.raises(ValueError, match=r"`atoms` to name columns 0\.\.1; got \[2\]"):
        build(data, atoms={2: (0.0,)})
    codes = torch.cat([data[:, 1:], (data[:, :1] > 0).double()], 1)
    with pytest.raises(ValueError, match="no atoms in categorical columns"):
        build(codes, atoms={1: (0.0,)}, categories={1: 2})
