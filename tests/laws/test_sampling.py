"""Samples follow the model: every transform to uniforms, with and without evidence."""

from itertools import combinations

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.registry import build, coded, names, rows_of, smooth
from tests.laws.statistics import P_VALUE, Known, assert_uniform, rosenblatt

DRAWS = 3000
MODELS = names("cdf", "marginal")


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_independent_uniforms_under_the_rosenblatt_transform(name: str) -> None:
    model = build(name)
    rows = model.sample(DRAWS)
    assert rows.shape == (DRAWS, model.columns)
    assert not rows.requires_grad
    u = rosenblatt(model, rows)
    for column in u.values():
        assert_uniform(column)
    for column in range(1, model.columns):  # under its own CDF; the first was just done
        assert_uniform(rosenblatt(model.marginal([column]), rows[:, [column]])[0])
    for one, two in combinations(u.values(), 2):
        # The sum of two independent uniforms, folded, is uniform.
        assert_uniform((one + two) % 1.0)
        assert_uniform((one - two) % 1.0)


def cells(model: Density) -> dict[str, Known]:
    """Evidence of every kind on column 0, one kind on each other column, and on two at once."""
    low, middle, high = rows_of(model, 3).sort(dim=0).values.tolist()
    kinds: dict[str, Known] = {}
    for column, count in enumerate(model.categories):
        if count is None:
            known = [middle[column], (low[column], high[column]), (high[column] + 3.0, None)]
        else:
            known = [int(middle[column]), {0, count - 1}, (0.0, None) if count > 1 else {0}]
        chosen = range(3) if column == 0 else [column % 3]
        kinds |= {f"{known[i]} in {column}": {column: known[i]} for i in chosen}
        last = known
    if model.columns > 2:
        first = [*kinds.values()]
        for one, two in ((0, 1), (1, 0)):
            kinds[f"two, {one}"] = {**first[one], model.columns - 1: last[two]}
    return kinds


@pytest.mark.parametrize("name", MODELS)
def test_conditional_samples_match_the_conditional_cdf(name: str) -> None:
    model = build(name)
    for kind, known in cells(model).items():
        rows = model.sample(1000, given=known)
        assert_inside(rows, known)
        for column, u in rosenblatt(model, rows, known).items():
            p = kstest(u.numpy(), "uniform").pvalue
            assert p > P_VALUE, f"{kind}: column {column} is not uniform, p = {p:.2g}"


def assert_inside(rows: Tensor, known: Known) -> None:
    for column, cell in known.items():
        x = rows[..., column]
        if isinstance(cell, set):
            assert set(x.unique().tolist()) <= {float(code) for code in cell}
        elif isinstance(cell, tuple):
            low, high = cell
            assert low is None or (x > low).all()
            assert high is None or (x <= high).all()
        else:
            assert (x == cell).all()


def several(model: Density) -> tuple[Evidence, list[Known]]:
    """Build four rows of evidence, each with a pattern of its own, and the same as dicts."""
    rows = rows_of(model, 4)
    lower, upper, dicts = rows.clone(), rows.clone(), [{} for _ in range(4)]
    for i in range(4):
        for column in range(model.columns):
            kind = (i + column) % 4
            x = rows[i, column].item()
            if kind == 0:
                dicts[i][column] = x
            elif kind == 1:
                dicts[i][column] = (x - 1.0, x + 1.0)
                lower[i, column], upper[i, column] = x - 1.0, x + 1.0
            elif kind == 2:
                dicts[i][column] = (None, x)
                lower[i, column] = -torch.inf
            else:
                lower[i, column] = upper[i, column] = torch.nan
    return Evidence.interval(lower, upper), dicts


@pytest.mark.parametrize("name", MODELS)
def test_many_samples_for_each_of_several_rows_of_evidence(name: str) -> None:
    model = build(name)
    evidence, dicts = several(model)
    rows = model.sample(1000, given=evidence)
    assert rows.shape == (4, 1000, model.columns)
    exact = (evidence.lower == evidence.upper)[:, None].expand_as(rows)
    unchanged = evidence.lower[:, None].expand_as(rows)
    assert torch.equal(rows[exact], unchanged[exact])
    for row, known in zip(rows, dicts, strict=True):
        assert_inside(row, known)
        for u in rosenblatt(model, row, known).values():
            assert_uniform(u)


@pytest.mark.parametrize("name", names("cdf", "marginal", coded=1))
def test_samples_of_a_set_per_row_of_evidence(name: str) -> None:
    model = build(name)
    column = coded(model)[0]
    count = model.categories[column]
    masks = torch.ones(2, count, dtype=torch.bool)
    masks[0, 0] = count == 1
    masks[1, -1] = count == 1
    hole = torch.full((2, 1), torch.nan)
    rows = model.sample(1000, given=Evidence((column,), hole, hole, {column: masks}))
    for row, mask in zip(rows, masks, strict=True):
        allowed = set(mask.nonzero()[:, 0].tolist())
        assert_inside(row, {column: allowed})
        for u in rosenblatt(model, row, {column: allowed}).values():
            assert_uniform(u)


@pytest.mark.parametrize("name", MODELS)
def test_same_seed_same_samples(name: str) -> None:
    model = build(name)
    evidence, _ = several(model)
    for given in [None, evidence]:
        before = torch.get_rng_state()
        one = model.sample(50, given, torch.Generator().manual_seed(3))
        two = model.sample(50, given, torch.Generator().manual_seed(3))
        other = model.sample(50, given, torch.Generator().manual_seed(4))
        assert torch.equal(one, two)
        assert not torch.equal(one, other)
        # All randomness came from the generator.
        assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_samples(name: str) -> None:
    model = build(name)
    evidence, _ = several(model)
    for draws in (0, 1):
        assert model.sample(draws).shape == (draws, model.columns)
        assert model.sample(draws, evidence).shape == (4, draws, model.columns)
    with pytest.raises(ValueError, match="draws"):
        model.sample(-1)
    x = rows_of(model, 3)  # a complete row is returned as it is
    assert torch.equal(model.sample(2, given=Evidence.exact(x)), x[:, None].expand(3, 2, -1))


@pytest.mark.parametrize("name", names("cdf", "marginal", at_least=2))
def test_samples_far_in_a_tail_and_in_a_sliver(name: str) -> None:
    """Evidence of probability e^-200 and of width 1e-7 is sampled like any other."""
    model = build(name)
    for column in smooth(model)[:1]:
        x = rows_of(model, 1)[0, column].item()
        right, left, sliver = (x + 300.0, None), (None, x - 300.0), (x, x + 1e-7)
        for cell in [right, left, sliver]:
            rows = model.sample(600, given={column: cell})
            assert rows.isfinite().all()
            assert_inside(rows, {column: cell})
            for u in rosenblatt(model, rows, {column: cell}).values():
                assert_uniform(u)
