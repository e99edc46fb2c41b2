"""Atoms of coupled columns are categories of their components, and every law of masses holds."""

import copy
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals import Continuous, Integer
from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import uniform_lattice
from marginals.columns import encode, infer
from marginals.densities.build import build, couplable
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_atoms import CoupledAtoms
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.mixture import Mixture
from marginals.densities.tensor_density import TensorDensity
from marginals.io.model_files import load_density, save
from marginals.leaves import AtomLeaves, CategoricalLeaves, Leaves
from marginals.tensors import CPTensor
from marginals.tensors.couplings import Couplings
from marginals.training import fit
from tests.laws.registry import generic_shared, shake
from tests.laws.statistics import assert_uniform

STEP, REACH = 0.5, 40
# Column 0 is a lattice with atoms at the middles of two cells, column 1 is continuous with atoms.
ATOMS = {0: (-0.25, 1.25), 1: (0.0, 0.4, 2.0)}
COLUMNS = 4


@torch.no_grad()
def atom_model(seed: int = 0, atoms: bool = True) -> CoupledDensity:
    """A lattice and a continuous column with atoms, a continuous one, and categories."""
    torch.manual_seed(seed)
    shared = generic_shared(3, 2, "normal")
    shared.learned.location.zero_()
    shared.learned.unit.fill_(3 * STEP)
    couplings = Couplings(3, 2, 2)
    shake(couplings, 2.0)
    loose = CategoricalLeaves([3], 2)
    marks = CategoricalLeaves([3, 4], 2)
    table = uniform_lattice(STEP, margin=0)(-REACH * STEP + 1e-6, REACH * STEP - 1e-6)
    observed = Evidence.exact(torch.tensor([[-3.0] * COLUMNS, [3.0] * COLUMNS]))
    if not atoms:
        leaves = Leaves([shared, loose], [(0, 1, 2), (3,)])
        return CoupledDensity(leaves, couplings, CoupledLattices.of({0: table}, observed))
    leaves = Leaves([shared, loose, marks], [(0, 1, 2), (3,), (4, 5)])
    held = CoupledLattices.of({0: table}, observed, CoupledAtoms(ATOMS, COLUMNS))
    return CoupledDensity(leaves, couplings, held)


def expected(seed: int, given: dict[int, object]) -> Tensor:
    """Return the log value of a row by enumerating all marks of all components."""
    model, plain = atom_model(seed), atom_model(seed, atoms=False)
    marks = model.leaves.families[2]
    log_mass = marks.logits.log_softmax(-1)  # (2, K, C); the first column has three codes
    log_mass = torch.stack(
        [
            torch.cat([marks.logits[0, :, :3].log_softmax(-1), torch.full((2, 1), -torch.inf)], 1),
            log_mass[1],
        ]
    )
    total = []
    for k in range(2):
        alone = copy.deepcopy(plain)
        with torch.no_grad():
            alone.couplings.raw.fill_(-1e6)[k] = 0.0
        weight = model.couplings.log_weights()[k]
        choices = []
        for place, column in enumerate(ATOMS):
            cell = given.get(column)
            choices.append(_choices(cell, ATOMS[column], log_mass[place, k]))
        for combination in itertools.product(*choices):
            rest = {c: cell for c, cell in given.items() if c not in ATOMS}
            value = weight
            for column, (mass, cell) in zip(ATOMS, combination, strict=True):
                value = value + mass
                rest |= {} if cell is None else {column: cell}
            if rest:
                value = value + alone.log_value(Evidence.of(rest))[0]
            total.append(value)
    return torch.stack(total).logsumexp(0)


def _choices(cell: object, points: tuple[float, ...], log_mass: Tensor) -> list[tuple]:
    """Return the log masses and the cells of the smooth part that a cell stands for."""
    smooth = log_mass[len(points)]
    if cell is None:
        return [(torch.zeros(()), None)]
    if not isinstance(cell, tuple):
        hits = [log_mass[i] for i, p in enumerate(points) if p == cell]
        return [(hits[0], None)] if hits else [(smooth, cell)]
    low, high = (end if end is not None else s * 1e9 for end, s in zip(cell, (-1, 1), strict=True))
    inside = [(log_mass[i], None) for i, p in enumerate(points) if low < p <= high]
    return [*inside, (smooth, cell)]


GIVEN = [
    {0: (-0.5, 0.0), 1: 0.4, 2: 0.3},  # both at an atom
    {0: (0.0, 0.5), 1: 0.1, 2: 0.3, 3: 1},  # neither
    {0: (-0.5, 1.5), 2: 0.3},
    {1: (-1.0, 0.5), 2: 0.3},
    {0: (-0.5, 0.0), 1: (0.0, 1.0)},
    {0: (None, 1.5), 1: (-0.5, None), 2: (0.0, 1.0)},
    {1: 2.0},
    {2: 0.7, 3: 2},
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("given", GIVEN)
def test_values_are_sums_over_marks(seed: int, given: dict[int, object]) -> None:
    model = atom_model(seed)
    assert model.columns == COLUMNS
    assert model.atoms == ATOMS
    with torch.no_grad():
        found = model.log_value(Evidence.of(given))[0]
        # Three ranges are a box by quasi-Monte Carlo.
        assert_close(found, expected(seed, given), rtol=0, atol=2e-3 if len(given) == 3 else 1e-9)
        given = dict(given)
        own = {c: given.pop(c) for c in (0, 1) if c in given and len(given) > 1}
        if own:
            ratio = model.log_conditional(Evidence.of(own), Evidence.of(given))[0]
            assert_close(ratio, found - model.log_value(Evidence.of(given))[0], rtol=0, atol=2e-3)


@pytest.mark.parametrize("given", [{}, {1: 0.4}, {1: 0.3, 2: 0.1}, {1: (0.2, None), 3: 0}])
def test_masses_sum_to_one(given: dict[int, object]) -> None:
    model = atom_model(1)
    at = STEP * torch.arange(-REACH, REACH + 1, dtype=torch.float64)[:, None]
    with torch.no_grad():
        mass = model.log_conditional(Evidence.interval(at[:-1], at[1:], [0]), given).exp()
    assert_close(mass.sum(), torch.tensor(1.0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("given", [{}, {0: (-0.5, 0.0)}, {2: 0.1, 0: (0.0, 0.5)}, {0: (0.0, None)}])
def test_parts_of_a_line_sum_to_one(given: dict[int, object]) -> None:
    model = atom_model(1)
    cuts = [-torch.inf, -2.0, -0.1, 0.0, 0.3, 0.4, 1.0, 2.0, 3.0, torch.inf]
    low, high = torch.tensor(cuts[:-1])[:, None], torch.tensor(cuts[1:])[:, None]
    with torch.no_grad():
        mass = model.log_conditional(Evidence.interval(low, high, [1]), given).exp()
        atom = model.log_conditional(Evidence.of({1: 0.4}), given).exp()
    assert_close(mass.sum(), torch.tensor(1.0), rtol=0, atol=1e-6)
    assert float(mass[4]) > float(atom[0]) > 0


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize(
    "given", [{}, {2: 0.2}, {2: 0.2, 3: 1, 0: (-0.5, 0.0)}, {1: (0.0, 1.0)}, {2: (-0.3, 0.8)}]
)
def test_univariates_agree_with_values(column: int, given: dict[int, object]) -> None:
    model = atom_model(2)
    given = {c: cell for c, cell in given.items() if c != column}
    cuts = STEP * torch.arange(-12.0, 13.0)
    with torch.no_grad():
        found = model.univariates(Evidence.of(given), [column])
        below = torch.full((len(cuts), 1), -torch.inf)
        box = Evidence.interval(below, cuts[:, None], [column])
        cdf = model.log_conditional(box, given).exp()
        # Nodes stand for given ranges of continuous columns, the table for those of lattices.
        error = 2e-4 if given else 1e-5
        assert_close(found.cdf(cuts[:, None, None])[:, 0, 0], cdf, rtol=0, atol=error)
        above = found.logsf(cuts[:, None, None]).exp()[:, 0, 0]
        assert_close(above, 1 - cdf, rtol=0, atol=error)
        assert_close(found.log_evidence[0, 0], model.log_value(Evidence.of(given))[0])
        levels = torch.linspace(0.002, 0.998, 83)
        x = found.ppf(levels[:, None, None])
        assert bool((x.diff(dim=0) >= 0).all())
        reached = found.cdf(x)[:, 0, 0]
        before = found.cdf(x - 1e-6)[:, 0, 0]
        assert bool((reached >= levels - 2e-3).all())
        assert bool((before <= levels + 2e-3).all())
        jumps = torch.isin(x[:, 0, 0].float(), torch.tensor(ATOMS[column]).float())
        assert bool(jumps.any())
        drawn = model.sample(20_000, Evidence.of(given), torch.Generator().manual_seed(0))
        mean, spread = float(drawn[:, column].mean()), float(drawn[:, column].std())
        assert float(found.expect(lambda x, _: x)) == pytest.approx(mean, abs=0.04 * spread)
        both = model.univariates(Evidence.of({**given, column: 0.4}), [column, 3])
        alone = both.take(0, torch.tensor([0]))
        assert_close(alone.logcdf(cuts[:, None, None]), found.logcdf(cuts[:, None, None]))


@pytest.mark.parametrize("column", [0, 1])
def test_tails_agree_with_logs_and_slopes_with_differences(column: int) -> None:
    found = atom_model(2).univariates(Evidence.of({2: 0.2}), [column])
    end = STEP * REACH
    x = torch.tensor([-end - 3, -end - 0.1, -2.2, -0.3, 0.1, 1.1, 2.3, end + 0.1])[:, None, None]
    with torch.no_grad():
        below, above, slope = found.tails(x)
        at = found.evaluate(x)
        assert_close(below, at.log_cdf.exp())
        assert_close(above, at.log_sf.exp())
        step = 1e-5
        rise = (found.cdf(x + step) - found.cdf(x - step)) / (2 * step)
        assert_close(slope, rise, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("given", [{2: (0.0, 1.0)}, {2: (-0.3, 0.8), 3: 1}, {1: (0.1, 1.5)}])
def test_columns_given_ranges_are_the_same_together_and_alone(given: dict[int, object]) -> None:
    model = atom_model(2)
    known = Evidence.of(given)
    columns = [c for c in range(COLUMNS) if c not in given]
    cuts = torch.linspace(-3, 3, 41)[:, None, None]
    with torch.no_grad():
        together = model.univariates(known, columns)
        for place, column in enumerate(columns):
            alone = model.univariates(known, [column])
            assert_close(together.cdf(cuts)[..., place], alone.cdf(cuts)[..., 0])
            assert_close(together.log_evidence[:, place], alone.log_evidence[:, 0])


@pytest.mark.parametrize("given", [{}, {2: 0.3, 1: 0.4}, {0: (-0.5, 0.5)}, {1: (-0.2, 3.0)}])
def test_draws_follow_the_univariates(given: dict[int, object]) -> None:
    model = atom_model(3)
    count = 4000
    with torch.no_grad():
        x = model.sample(count, Evidence.of(given), torch.Generator().manual_seed(0))
        assert x.shape == (count, COLUMNS)
        for column in (c for c in (0, 1, 2) if c not in given):
            found = model.univariates(Evidence.of(given), [column])
            at = x[:, column]
            ends = (at, at) if column else ((at / STEP).floor() * STEP, (at / STEP).ceil() * STEP)
            low, high = (found.cdf(end[:, None, None])[:, 0, 0] for end in ends)
            if column == 1:
                low = torch.where(
                    torch.isin(at, torch.tensor(ATOMS[1])),
                    found.cdf(at[:, None, None] - 1e-9)[:, 0, 0],
                    low,
                )
            assert_uniform(low + torch.rand(count) * (high - low))
        for column, cell in given.items():
            low, high = cell if isinstance(cell, tuple) else (cell - 1e-12, cell)
            assert bool(((x[:, column] > low) & (x[:, column] <= high)).all())


def test_conditionals_by_simulation() -> None:
    """A pair of events on columns with atoms has the frequency of its draws."""
    model = atom_model(0)
    with torch.no_grad():
        x = model.sample(40_000, generator=torch.Generator().manual_seed(0))
        for event in ({0: (-0.5, 0.0), 1: 0.4}, {0: (0.0, 2.0), 1: (-0.5, 0.1)}):
            inside = torch.ones(len(x), dtype=torch.bool)
            for column, cell in event.items():
                low, high = cell if isinstance(cell, tuple) else (cell - 1e-9, cell)
                inside &= (x[:, column] > low) & (x[:, column] <= high)
            share, p = float(inside.double().mean()), float(model.log_value(event).exp())
            assert share == pytest.approx(p, abs=5 * (p / len(x)) ** 0.5)


def data(rows: int = 400) -> tuple[Evidence, Tensor]:
    """Three correlated columns: counts that are often 3, an inflated zero, and a plain one."""
    torch.manual_seed(0)
    mix = torch.tensor([[1.0, 0.9, 0.5], [0, 0.4, 0.2], [0, 0, 0.6]])
    x = 3 * torch.randn(rows, 3, dtype=torch.float64) @ mix.double()
    x[: rows // 4, 0] = 3.2
    x[rows // 8 : rows // 2, 1] = 0.0
    low = x.clone()
    low[:, 0] = low[:, 0].floor()
    high = low.clone()
    high[:, 0] += 1
    low[::7, 1] = high[::7, 1] = torch.nan
    order = torch.randperm(rows)
    return Evidence.interval(low[order], high[order]), x[order]


OPTIONS = {"lattices": {0: uniform_lattice(1.0)}, "atoms": {0: (3.5,), 1: (0.0,)}}


@pytest.mark.parametrize("init", ["data", "em"])
def test_training_counts_masses(init: str) -> None:
    evidence, _ = data()
    assert couplable(evidence, {}, **OPTIONS) == (0, 1, 2)
    model = build(evidence, tensor="copula", width=3, init=init, **OPTIONS)
    assert model.coupled == (0, 1, 2)
    marked, log_width = model.settled(model.checked(evidence))
    assert not marked.intervals
    assert log_width is not None
    assert marked.columns == (0, 1, 2, 3, 4)
    assert len(marked) == len(evidence)
    value = float(model.log_value(evidence).detach().mean())
    once = float((model.contract(marked) + log_width).detach().mean())
    assert once <= value + 1e-6  # each row counts one of its two cases
    fit(model, evidence, max_steps=150, validation=evidence, noise=0.0, validation_fraction=0.0)
    assert float(model.log_value(evidence).detach().mean()) > value
    with torch.no_grad():
        mass = float(model.log_value({0: (3.0, 4.0)}).exp()), float(model.log_value({1: 0.0}).exp())
    seen = evidence.lower[:, 1]
    observed = float((evidence.lower[:, 0] == 3).double().mean())
    assert mass[0] == pytest.approx(observed, abs=0.05)
    assert mass[1] == pytest.approx(float((seen[~seen.isnan()] == 0).double().mean()), abs=0.05)


def test_censored_cells_with_atoms_are_trained_on() -> None:
    evidence, _ = data(60)
    upper = evidence.upper.clone()
    upper[torch.where(evidence.lower[:, 1] < 0)[0][:1], 1] = 1.0
    censored = Evidence.interval(evidence.lower, upper)
    model = build(censored, tensor="copula", width=2, **OPTIONS)
    assert model.settled(model.checked(censored))[1] is None
    fit(model, censored, max_steps=2)


def test_every_parameter_has_a_gradient() -> None:
    evidence, _ = data(60)
    model = build(evidence, tensor="copula", width=2, common=1, dtype=torch.float64, **OPTIONS)
    model.contract(model.checked(evidence)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name


def test_columns_nearly_always_at_an_atom_stay_loose() -> None:
    evidence, _ = data(400)
    lower = evidence.lower.clone()
    lower[4:, 1] = 0.0
    rare = Evidence.interval(lower, torch.where(evidence.lower == lower, evidence.upper, lower))
    assert couplable(rare, {}, **OPTIONS) == (0, 2)
    model = build(rare, tensor="copula", width=2, **OPTIONS)
    assert isinstance(model.leaves.family_of(1)[0], AtomLeaves)
    assert model.atoms == {0: (3.5,), 1: (0.0,)}


def test_files_and_mixtures(tmp_path: Path) -> None:
    evidence, _ = data(60)
    model = build(evidence, tensor="copula", width=2, **OPTIONS)
    save(model, tmp_path / "model.mdma")
    again, _ = load_density(tmp_path / "model.mdma")
    assert isinstance(again, CoupledDensity)
    assert again.config() == model.config()
    assert torch.equal(again.log_value(evidence), model.log_value(evidence))
    tree = build(evidence, width=3, leaves="normal", atoms=OPTIONS["atoms"])
    assert isinstance(tree, TensorDensity)
    mixed = Mixture([model, tree])
    assert mixed.atoms == {0: (3.5,), 1: (0.0,)}
    with torch.no_grad():
        found = mixed.univariates(Evidence.of({2: 0.5}), [0, 1])
        levels = torch.linspace(0.05, 0.95, 19)[:, None, None]
        x = found.ppf(levels.expand(-1, 1, 2))
        assert bool((found.cdf(x) >= levels - 1e-3).all())
        assert bool((x[..., 1] == 0).any())


def test_marks_come_last() -> None:
    leaves = Leaves([generic_shared(1, 2, "normal")], [(0,)])
    with pytest.raises(ValueError, match="end with marks"):
        CoupledDensity(leaves, Couplings(1, 2, 0), CoupledLattices(atoms=CoupledAtoms({0: [0]}, 1)))
    tensor = CPTensor(1, 2)
    assert TensorDensity(leaves, tensor).columns == 1


def test_atoms_at_bounds_and_in_cells_are_settled_once() -> None:
    """No training step sees a range: neither of a fine lattice with zeros nor of a coarse one."""
    rng = np.random.default_rng(0)
    paid = np.where(rng.random(300) < 0.4, 0, rng.integers(1, 9000, 300))
    hours = np.where(rng.random(300) < 0.4, 40, rng.integers(0, 100, 300))
    tips = np.where(rng.random(300) < 0.3, 0.0, np.round(rng.gamma(2, 2, 300), 2))
    frame = pd.DataFrame({"paid": paid, "hours": hours, "tips": tips})
    kinds = {
        "paid": Integer(0, atoms=(0,)),
        "hours": Integer(0, 99, atoms=(40,)),
        "tips": Continuous(0, resolution=0.01, atoms=(0.0,)),
    }
    schema = infer(frame, kinds)
    evidence = encode(schema, frame).evidence
    model = build(evidence, tensor="copula", width=2, **schema.build_options)
    assert model.coupled == (0, 1, 2)
    marked, log_width = model.settled(model.checked(evidence))
    assert log_width is not None
    assert not marked.intervals
    assert float((marked.lower[:, 3] == 0).double().mean()) == pytest.approx((paid == 0).mean())
