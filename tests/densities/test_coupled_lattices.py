"""Lattice columns inside copula components: cells are points, and every law of masses holds."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import LatticeTable, uniform_lattice
from marginals.densities.build import build, couplable
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.mixture import Mixture
from marginals.densities.tensor_density import TensorDensity
from marginals.io.model_files import load_density, save
from marginals.leaves import CategoricalLeaves, Leaves
from marginals.tensors import CPTensor
from marginals.tensors.couplings import Couplings
from marginals.training import fit
from tests.laws.registry import generic_shared, shake
from tests.laws.statistics import assert_uniform

STEP, REACH = 0.7, 40
LATTICES = (0, 1)


@torch.no_grad()
def lattice_model(seed: int = 0, sharp: bool = True, bent: bool = False) -> CoupledDensity:
    """Two lattices, two continuous columns and a loose one.

    Deviations are near the floor if `sharp`; the learned scale bends within two steps if `bent`.
    """
    torch.manual_seed(seed)
    leaves = generic_shared(4, 2, "normal", bend=0.3 if bent else 0.1)
    leaves.learned.location.zero_()
    leaves.learned.unit.fill_(2 * STEP if bent else 6 * STEP)
    couplings = Couplings(4, 2, 2, 1)
    shake(couplings, 3.0 if sharp else 1.0)
    if sharp:
        leaves.spreads.fill_(-3.0)
    table = uniform_lattice(STEP, margin=0)(-REACH * STEP + 1e-6, REACH * STEP - 1e-6)
    observed = Evidence.exact(torch.tensor([[-5.0] * 4, [5.0] * 4]))
    held = CoupledLattices.of(dict.fromkeys(LATTICES, table), observed)
    families = Leaves([leaves, CategoricalLeaves([3], 2)], [(0, 1, 2, 3), (4,)])
    return CoupledDensity(families, couplings, held)


def ends() -> Tensor:
    return STEP * torch.arange(-REACH, REACH + 1, dtype=torch.float64)


def cells_of(column: int) -> Evidence:
    """All cells of a lattice column, one per row."""
    at = ends()[:, None]
    return Evidence.interval(at[:-1], at[1:], [column])


def pairs() -> Evidence:
    """All cells of both lattices within 25 steps of zero."""
    at = STEP * torch.arange(-25, 25, dtype=torch.float64)
    low = torch.cartesian_prod(at, at)
    return Evidence.interval(low, low + STEP, list(LATTICES))


@pytest.mark.parametrize("seed", range(4))
def test_masses_sum_to_one_at_the_floor(seed: int) -> None:
    model = lattice_model(seed)
    row = model.sample(1)[0].tolist()
    one = torch.tensor(1.0)
    for given in ({}, {2: row[2]}, {2: row[2], 3: row[3], 4: int(row[4])}, {3: (row[3], None)}):
        for column in LATTICES:
            mass = model.log_conditional(cells_of(column), given).exp()
            assert_close(mass.sum(), one, rtol=0, atol=1e-5)
        both = model.log_conditional(pairs(), given).exp()
        assert_close(both.sum(), one, rtol=0, atol=2e-5)


@pytest.mark.parametrize("seed", range(4))
def test_sharp_bends_of_the_scale_cost_a_digit(seed: int) -> None:
    model = lattice_model(seed, bent=True)
    for column in LATTICES:
        mass = model.log_conditional(cells_of(column), {2: 0.4}).exp()
        assert_close(mass.sum(), torch.tensor(1.0), rtol=0, atol=1e-4)


def test_the_floor_is_needed() -> None:
    """Without it, the same components lose the sum: the tests above have power."""
    model = lattice_model(0)
    model.lattices.probe_widths.fill_(-20.0)
    mass = model.log_value(pairs()).exp().sum()
    assert abs(float(mass.detach()) - 1) > 0.01


@pytest.mark.parametrize("seed", range(2))
def test_a_column_summed_out_gives_the_marginal(seed: int) -> None:
    model = lattice_model(seed)
    rest = {1: (0.0, STEP), 2: 0.3, 4: 2}
    joint = cells_of(0).join(Evidence.of(rest))
    assert_close(model.log_value(joint).logsumexp(0), model.log_value(rest)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "given", [{}, {2: 0.4}, {1: (-0.7, 2.1)}, {1: (0.0, None)}, {2: (None, 0.5)}, {1: (0.0, 0.7)}]
)
def test_a_range_is_the_sum_of_its_cells(given: dict[int, object]) -> None:
    model = lattice_model(1)
    low = torch.tensor([[-1.4], [0.0], [-torch.inf], [-2.1]])
    high = torch.tensor([[0.7], [torch.inf], [-0.7], [-1.4]])
    whole = model.log_conditional(Evidence.interval(low, high, [0]), given).exp()
    mass = model.log_conditional(cells_of(0), given).exp()
    inside = (ends()[:-1] >= low - 0.1) & (ends()[1:] <= high + 0.1)
    assert_close(whole, (inside * mass).sum(1), rtol=0, atol=1e-7)
    values = [-2.8, -0.7, 0.0, 1.4]
    for value in values:  # P(= v) + P(> v) = P(>= v)
        equal, more, least = (
            model.log_conditional({0: cell}, given).exp()
            for cell in ((value, value + STEP), (value + STEP, None), (value, None))
        )
        assert_close(equal + more, least, rtol=0, atol=1e-9)


def test_parts_of_cells_add_up() -> None:
    model = lattice_model(1)
    cuts = [-1.0, -0.4, 0.1, 0.35, 3.0]
    parts = [model.log_value({0: pair, 2: 0.3}) for pair in itertools.pairwise(cuts)]
    whole = model.log_value({0: (cuts[0], cuts[-1]), 2: 0.3})
    assert_close(torch.stack(parts).logsumexp(0), whole)


@pytest.mark.parametrize("given", [{}, {2: 0.4, 1: (0.0, 0.7)}, {1: (0.0, None)}, {2: (0.0, 1.0)}])
def test_univariates_agree_with_masses(given: dict[int, object]) -> None:
    model = lattice_model(2, sharp=False)
    found = model.univariates(Evidence.of(given), [0])
    mass = model.log_conditional(cells_of(0), given).exp()  # (C,)
    at = ends()[:, None, None]
    cdf = found.cdf(at)[:, 0, 0]
    # Given ranges of continuous columns, nodes stand for them.
    error = 2e-4 if 2 in given and isinstance(given[2], tuple) else 1e-5
    assert_close(cdf.diff(), mass, rtol=0, atol=error)
    assert_close(found.logsf(at).exp()[:, 0, 0], 1 - cdf, rtol=0, atol=1e-9)
    points = ends()[:-1] + STEP / 2
    mean = found.expect(lambda x, _: x)[0, 0]
    assert_close(mean, (mass * points).sum(), rtol=0, atol=50 * error)
    levels = torch.linspace(0.001, 0.999, 97)
    x = found.ppf(levels[:, None, None])[:, 0, 0]
    cell = torch.searchsorted(ends(), x) - 1
    assert_close(cell, torch.searchsorted(cdf[1:].detach().contiguous(), levels))
    back = found.cdf(x[:, None, None])[:, 0, 0]
    assert_close(back, levels, rtol=0, atol=2e-3)
    assert_close(found.log_evidence[0, 0], model.log_value(given)[0])


def test_mixtures_with_other_models() -> None:
    """A mixture inverts its CDF, which is that of leaves in one member and a sum in the other."""
    leaves = Leaves([generic_shared(4, 3, "normal"), CategoricalLeaves([3], 3)], [range(4), (4,)])
    leaves.families[0].learned.location.zero_()
    model = Mixture([lattice_model(2, sharp=False), TensorDensity(leaves, CPTensor(5, 3))])
    found = model.univariates(Evidence.of({1: (0.0, STEP), 2: 0.3}), [0])
    levels = torch.linspace(0.01, 0.99, 51)
    with torch.no_grad():
        x = found.ppf(levels[:, None, None])
        assert_close(found.cdf(x)[:, 0, 0], levels, rtol=0, atol=1e-3)
        mass = model.log_conditional(cells_of(0), {1: (0.0, STEP), 2: 0.3}).exp()
        assert_close(found.cdf(ends()[:, None, None])[:, 0, 0].diff(), mass, rtol=0, atol=1e-5)


def test_the_own_cell_is_no_evidence() -> None:
    model = lattice_model(2, sharp=False)
    rows = {0: (0.0, STEP), 1: (-STEP, 0.0), 2: 0.3}
    both = model.univariates(Evidence.of(rows), [0, 2, 4])
    for place, c in enumerate((0, 2, 4)):
        rest = {key: value for key, value in rows.items() if key != c}
        alone = model.univariates(Evidence.of(rest), [c])
        at = torch.tensor([[[0.0]], [[1.0]], [[2.0]]])
        assert_close(both.take(place, torch.tensor([0])).logcdf(at), alone.logcdf(at))
        assert_close(both.log_evidence[:, place], alone.log_evidence[:, 0])


@pytest.mark.parametrize("given", [{}, {1: (0.0, 0.7), 2: 0.3}, {1: (0.0, None)}])
def test_draws_have_the_masses(given: dict[int, object]) -> None:
    """Rounded normal draws would be off by 6 % of the largest mass."""
    model = lattice_model(3)
    with torch.no_grad():
        count = 4000
        x = model.sample(count, Evidence.of(given))
        found = model.univariates(Evidence.of(given), [0])
        high = found.cdf(x[:, None, :1])[:, 0, 0]
        points = (x[:, 0] / STEP).floor() * STEP
        assert_close(x[:, 0], points + STEP / 2)  # draws are points of cells
        low, high = (found.cdf((points + s)[:, None, None])[:, 0, 0] for s in (0.0, STEP))
        assert_uniform(low + torch.rand(count) * (high - low))
        if 1 in given:
            inside = (x[:, 1] > 0) & ((given[1][1] is None) | (x[:, 1] <= 0.7))  # type: ignore
            assert bool(inside.all())


def test_many_ranges_fall_back_to_a_box() -> None:
    model = lattice_model(2, sharp=False)
    box = {0: (-21.0, None), 1: (-21.0, None)}  # 61 * 61 points, and what lies beyond the table
    assert_close(model.log_value(box).exp(), torch.ones(1), rtol=0, atol=1e-3)
    wide = {0: (-28.0, 0.7), 1: (-28.0, None)}
    assert model.lattices.points_of(model.checked(Evidence.of(wide))) <= 4096
    near = model.log_value({0: (-14.0, 0.7)})
    assert_close(model.log_value(wide), near, rtol=0, atol=5e-3)


def test_cells_beyond_the_table() -> None:
    model = lattice_model(2, sharp=False)
    model.lattices.counts = (8, 8)  # 40 to 32 steps below zero
    edge = float(ends()[8])
    for low, high in ((edge, edge + STEP), (edge - STEP, edge + STEP), (-29.0, edge + 2 * STEP)):
        with torch.no_grad():
            parts = [(None, low), (low, high), (high, None)]
            mass = sum(float(model.log_value({0: part}).exp()) for part in parts)
        assert mass == pytest.approx(1, abs=1e-6)


def data(rows: int = 60) -> tuple[Evidence, Tensor]:
    torch.manual_seed(0)
    x = 3 * torch.randn(rows, 3) @ torch.tensor([[1.0, 0.9, 0.5], [0, 0.4, 0.2], [0, 0, 0.6]])
    low = x.clone()
    low[:, :2] = low[:, :2].floor()
    high = low.clone()
    high[:, :2] += 1
    low[::7, 1] = high[::7, 1] = torch.nan
    return Evidence.interval(low, high), x


LATTICE = {0: uniform_lattice(1.0), 1: uniform_lattice(1.0)}


@pytest.mark.parametrize("init", ["data", "em"])
def test_training_counts_masses(init: str) -> None:
    evidence, _ = data()
    model = build(evidence, tensor="copula", width=2, lattices=LATTICE, init=init)
    assert model.coupled == (0, 1, 2)
    assert model.lattices.columns == (0, 1)
    exact, log_width = model.settled(model.checked(evidence))
    assert not exact.intervals
    assert log_width is not None
    value = model.log_value(evidence)
    assert_close(model.log_value(exact) + log_width.float(), value)
    result = fit(model, evidence, max_steps=10, validation=evidence, averaging=0.0)
    after = -float(model.log_value(evidence).detach().mean())
    assert_close(result.best_loss, after, rtol=1e-5, atol=1e-5)
    assert after <= -float(value.detach().mean()) + 1e-5


def test_censored_lattice_cells_are_trained_on() -> None:
    evidence, _ = data()
    upper = evidence.upper.clone()
    upper[3, 0] += 4.0
    censored = Evidence.interval(evidence.lower, upper)
    model = build(censored, tensor="copula", width=2, lattices=LATTICE)
    fit(model, censored, max_steps=2)
    exact, _ = model.settled(model.checked(censored))
    assert exact.intervals == {0}
    assert int((exact.lower < exact.upper).sum()) == 1
    with torch.no_grad():
        cells = [Evidence.of({0: (k, k + 1.0), 2: 0.5}) for k in range(-2, 3)]
        parts = torch.stack([model.log_value(cell) for cell in cells])
        assert_close(parts.logsumexp(0), model.log_value({0: (-2.0, 3.0), 2: 0.5}))


def test_every_parameter_has_a_gradient() -> None:
    evidence, _ = data()
    model = build(
        evidence, tensor="copula", width=2, common=1, lattices=LATTICE, dtype=torch.float64
    )
    model.contract(model.checked(evidence)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name


def test_the_start_by_em_has_the_covariance_of_the_data() -> None:
    evidence, x = data(3000)
    model = build(
        evidence, tensor="copula", width=1, rank=2, lattices=LATTICE, init="em", dtype=torch.float64
    )
    spread = model.sample(20000).std(0)
    assert_close(spread, x.std(0).double(), rtol=0.05, atol=0)


def test_coarse_lattices_stay_loose() -> None:
    evidence, _ = data()
    assert couplable(evidence, {}, {}, LATTICE) == (0, 1, 2)
    assert couplable(evidence, {}, {}) == (2,)
    assert couplable(evidence, {}, {0: (0.0,)}, LATTICE) == (0, 1, 2)
    binary = torch.randint(2, (60, 1)).double()
    codes = Evidence.interval(binary, binary + 1)
    assert couplable(codes, {}, {}, {0: uniform_lattice(1.0)}) == ()


def test_fine_lattices_have_points_without_a_table() -> None:
    evidence, x = data()
    step = 2.0**-9
    low = torch.cat([evidence.lower, (x[:, 2:] / step).floor() * step], 1)
    high = torch.cat([evidence.upper, low[:, 3:] + step], 1)
    cells = Evidence.interval(low, high)
    lattices = {**LATTICE, 3: lambda *_: None}
    assert couplable(cells, {}, {}, lattices) == (0, 1, 2, 3)
    assert couplable(cells, {}, {}, {3: lambda *_: None}) == (2, 3)
    model = build(cells, tensor="copula", width=2, lattices=lattices, dtype=torch.float64)
    assert model.lattices.columns == (0, 1, 3)
    assert model.lattices.tabulated == (0, 1)
    floor = model.lattices.log_floor(model.leaves.families[0], model.coupled)
    assert 0.25 * step < float(floor[3].detach().exp()) < 2 * step
    exact, _ = model.settled(model.checked(cells))
    assert not exact.intervals
    # A range of many cells is nearly their sum, and the cells are nearly their integrals.
    with torch.no_grad():
        at = step * torch.arange(512.0)[:, None]
        mass = model.log_conditional(Evidence.interval(at, at + step, [3]), {0: (0.0, 1.0)})
        whole = model.log_conditional({3: (0.0, 1.0)}, {0: (0.0, 1.0)})
    assert_close(mass.logsumexp(0), whole[0], rtol=0, atol=1e-4)


def test_the_floor_holds_where_values_were_observed() -> None:
    """Missing cells and the table's margin, where steps may be wide, do not count."""
    evidence, _ = data()
    model = build(evidence, tensor="copula", width=2, lattices=LATTICE)
    seen = evidence.select([0, 1]).midpoints()
    low, high = seen.nan_to_num(torch.inf).amin(0), seen.nan_to_num(-torch.inf).amax(0)
    assert_close(model.lattices.probes[:, 0], low.float())
    assert_close(model.lattices.probes[:, -1], high.float())


def test_files_keep_lattices(tmp_path: Path) -> None:
    evidence, _ = data()
    model = build(evidence, tensor="copula", width=2, lattices=LATTICE)
    save(model, tmp_path / "model.mdma")
    again, _ = load_density(tmp_path / "model.mdma")
    assert isinstance(again, CoupledDensity)
    assert again.config() == model.config()
    assert torch.equal(again.log_value(evidence), model.log_value(evidence))


def test_lattices_must_be_coupled() -> None:
    leaves = Leaves([generic_shared(1, 2, "normal"), CategoricalLeaves([2], 2)], [(0,), (1,)])
    with pytest.raises(ValueError, match="Expected `lattices` to name coupled columns"):
        CoupledDensity(leaves, Couplings(1, 2, 0), CoupledLattices([1], [3]))


def test_the_error_of_a_sum_is_that_of_the_docs() -> None:
    """2 exp(-2 pi^2 s^2) at s = 0.8."""
    k = torch.arange(-40.0, 40.0)
    for shift in (0.0, 0.25, 0.5):
        mass = (-0.5 * ((k + shift) / 0.8).square()).exp() / (0.8 * math.sqrt(2 * math.pi))
        assert abs(float(mass.sum()) - 1) <= 2 * math.exp(-2 * math.pi**2 * 0.64) + 1e-12


@pytest.mark.parametrize("init", ["data", "em"])
def test_first_values_are_sums_over_points_beyond(init: str) -> None:
    """Counts that are often zero are coupled, and zero stands for everything below it."""
    torch.manual_seed(0)
    z = torch.randn(500, dtype=torch.float64)
    counts = (3 + 4 * z).round().clamp_min(0)
    low = torch.where(counts > 0, counts, -torch.inf)
    near = z + 0.5 * torch.randn(500)
    data = Evidence.interval(torch.stack([low, near], 1), torch.stack([counts + 1, near], 1))

    def table(low: float, high: float) -> LatticeTable:
        cells = uniform_lattice(1.0, margin=16)(low - 1, high)
        return LatticeTable(cells.ends, cells.points, cells.widths, int(-cells.ends[0]), 0)

    model = build(
        data, tensor="copula", width=2, lattices={0: table}, init=init, dtype=torch.float64
    )
    assert model.coupled == (0, 1)
    fold = model.lattices.folds[0]
    assert fold.below >= 16
    assert fold.falls > 0.5  # zeros are many
    marked, log_width = model.settled(model.checked(data))
    assert log_width is not None
    assert not marked.intervals
    assert float(marked.lower[:, 0].min()) < 0
    fit(model, data, max_steps=150, validation=data, noise=0.0)
    with torch.no_grad():
        mass = float(model.log_value({0: (None, 1.0)}).exp())
        assert mass == pytest.approx(float((counts == 0).double().mean()), abs=0.05)
        at = torch.arange(1.0, 60.0)[:, None]
        rest = model.log_value(Evidence.interval(at, at + 1, [0])).exp().sum()
        assert float(rest) + mass == pytest.approx(1, abs=1e-5)
        # What zero says about the other column is what the draws say.
        x = model.sample(20_000)
        below = x[x[:, 0] <= 1, 1]
        found = model.univariates(Evidence.of({0: (None, 1.0)}), [1])
        mean = float(found.expect(lambda x, _: x))
        assert mean == pytest.approx(
            float(below.mean()), abs=5 * float(below.std()) / len(below) ** 0.5
        )


def test_a_row_of_many_points_does_not_make_all_batches_small() -> None:
    rows = torch.arange(40.0, dtype=torch.float64)
    cells = Evidence.interval(rows[:, None], rows[:, None] + 1)
    table = uniform_lattice(1.0)(0.0, 40.0)
    held = CoupledLattices.of({0: table}, cells)
    low, high = cells.lower.clone(), cells.upper.clone()
    low[7], high[7] = 2.0, 40.0  # 38 points
    parts = list(held.batches(Evidence.interval(low, high), size=20))
    assert sum(part.rows for part in parts) == 40
    assert len(parts) <= 6
    assert max(len(part.evidence) for part in parts) < 20 + 38


def test_a_row_that_keeps_several_ranges_has_few_points() -> None:
    """Each point would cost an integral over the other ranges, in every component."""
    rows = torch.arange(300.0, dtype=torch.float64)[:, None].expand(-1, 3)
    cells = Evidence.interval(rows, rows + 1)
    held = CoupledLattices.of(dict.fromkeys(range(3), uniform_lattice(1.0)(0.0, 300.0)), cells)
    low, high = rows[:3].clone(), rows[:3] + 1
    low[1], high[1] = 2.0, 250.0  # three ranges of 248 points
    low[2, 0], high[2, 0] = 2.0, 250.0  # one range
    settled = held.settle(Evidence.interval(low, high))
    assert settled.counts().tolist() == [1, 1, 248]
    assert (settled.evidence.lower < settled.evidence.upper).sum(1).max() == 3
