"""Sampling one column after the other, in any order, agrees with sampling down the tree."""

from itertools import permutations
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.autoregressive import sample_autoregressive
from marginals.densities.density import Density
from marginals.structure import Tree, balanced
from marginals.tensors import CPTensor
from tests.laws.registry import generic, ht, mixture
from tests.laws.statistics import P_VALUE, assert_uniform, rosenblatt

DRAWS = 2000
KINDS = (None, 3, None)


def make_model() -> Density:
    return generic(ht(Tree(((2, 0), 1)), 4), KINDS)


def assert_agree(model: Density, rows: Tensor, known: dict[int, Any] | None = None) -> None:
    """Compare rows with the model by transforms to uniforms, and with fast samples by columns."""
    for u in rosenblatt(model, rows, known).values():
        assert_uniform(u)
    fast = model.sample(DRAWS, known)
    for column in range(model.columns):
        one, two = rows[:, column].numpy(), fast[:, column].numpy()
        p = ks_2samp(one, two, method="asymp").pvalue
        assert p > P_VALUE, f"column {column} differs from fast samples: p = {p:.2g}"


@pytest.mark.parametrize("order", [None, *permutations(range(3))][::2], ids=str)
def test_any_order(order: tuple[int, ...] | None) -> None:
    model = make_model()
    rows = sample_autoregressive(model, DRAWS, order)
    assert rows.shape == (DRAWS, 3)
    assert not rows.requires_grad
    assert_agree(model, rows)


KNOWN: dict[str, tuple[dict[int, Any], list[int]]] = {
    "exact": ({2: 0.7}, [1, 0]),
    "a code": ({1: 2}, [2, 0]),
    "an interval, drawn first": ({0: (-0.5, 1.0)}, [0, 2, 1]),
    "an interval, drawn last": ({0: (-0.5, 1.0)}, [1, 2, 0]),
    "an open interval": ({2: (0.3, None)}, [0, 2, 1]),
    "an interval open below": ({2: (None, 0.3)}, [2, 1, 0]),
    "codes": ({1: (0.0, 2.0)}, [0, 1, 2]),
    "two intervals and a code": ({0: (None, 0.2), 2: (-1.0, 0.5), 1: 1}, [2, 0]),
    "exact and an interval": ({0: -0.4, 2: (0.0, 0.1)}, [2, 1]),
    "a far tail": ({0: (200.0, None)}, [2, 0, 1]),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_evidence(kind: str) -> None:
    model = make_model()
    known, order = KNOWN[kind]
    rows = sample_autoregressive(model, DRAWS, order, known)
    assert rows.isfinite().all()
    for column, cell in known.items():
        x = rows[:, column]
        if isinstance(cell, tuple):
            low, high = cell
            # The bound itself by rounding, no more.
            assert low is None or (x > low - 1e-9 * (1 + abs(low))).all()
            assert high is None or (x <= high + 1e-9 * (1 + abs(high))).all()
        else:
            assert (x == cell).all()
    assert_agree(model, clamped(rows, known), known)


def clamped(rows: Tensor, known: dict[int, Any]) -> Tensor:
    """Move what lies past a bound by rounding back onto it."""
    rows = rows.clone()
    for column, cell in known.items():
        if isinstance(cell, tuple):
            low, high = cell
            low = (
                -torch.inf if low is None else torch.tensor(low).nextafter(torch.tensor(torch.inf))
            )
            rows[:, column] = rows[:, column].clamp(low, torch.inf if high is None else high)
    return rows


def test_a_mixture() -> None:
    model = mixture([make_model(), generic(CPTensor(3, 2), KINDS)], [2, 1])
    known = {2: (0.0, 2.0)}
    assert_agree(model, sample_autoregressive(model, DRAWS, [2, 0, 1], known), known)


def test_a_view() -> None:
    """Given an interval on a column of the view, and evidence of its own."""
    model = generic(ht(balanced(4), 3), [None, 2, None, None])
    view = model.condition({0: (0.5, None)})  # columns 1, 2 and 3
    known = {1: (-1.0, 1.0)}
    assert_agree(view, sample_autoregressive(view, DRAWS, [1, 2, 0], known), known)


def test_one_column() -> None:
    model = generic(CPTensor(1, 3), [None])
    assert_uniform(model.cdf(sample_autoregressive(model, DRAWS), [0]).detach())
    assert (sample_autoregressive(model, 5, given={0: 0.25}) == 0.25).all()


@pytest.mark.parametrize("nothing", [torch.nan, (None, None)], ids=str)
def test_missing_evidence_is_no_evidence(nothing: Any) -> None:
    model = make_model()
    seeds = (torch.Generator().manual_seed(1) for _ in range(2))
    given = {0: nothing, 2: 0.5}
    one, two = (
        sample_autoregressive(model, 20, [1, 0], g, s)
        for g, s in zip([given, {2: 0.5}], seeds, strict=True)
    )
    assert torch.equal(one, two)
    assert one.isfinite().all()


def test_same_seed_same_samples() -> None:
    model = make_model()
    before = torch.get_rng_state()
    one, two, other = (
        sample_autoregressive(
            model, 30, [2, 1, 0], {0: (0.0, None)}, torch.Generator().manual_seed(s)
        )
        for s in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("draws", [0, 1])
def test_any_number_of_draws(draws: int) -> None:
    assert sample_autoregressive(make_model(), draws, [2, 0, 1]).shape == (draws, 3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"order": [0, 1]}, r"free columns \[0, 1, 2\]; got \[0, 1\]"),
        ({"order": [0, 1, 1]}, r"free columns \[0, 1, 2\]; got"),
        ({"order": [0, 1, 2], "given": {1: 0}}, r"free columns \[0, 2\]; got \[0, 1, 2\]"),
        ({"order": [0], "given": {1: 0, 2: (0.0, 1.0)}}, r"free columns \[0, 2\]; got \[0\]"),
        ({"given": {1: {0, 2}}}, "one row of exact values and intervals.*density.sample"),
        ({"given": Evidence.exact(torch.zeros(2, 1))}, "one row of exact values"),
        ({"given": {5: 0.0}}, "columns between 0 and 2; got 5"),
        ({"given": {1: (0.1, 0.2)}}, "positive probability"),
        ({"draws": -1}, "`draws` to be at least 0; got -1"),
    ],
)
def test_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        sample_autoregressive(make_model(), **{"draws": 3, **options})
