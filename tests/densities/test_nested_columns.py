"""Columns that are functions of a category: every answer is a sum over the source's values."""

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.nested_columns import NestedColumns, Nesting
from marginals.io.model_files import load_density, save
from marginals.structure import balanced
from tests.laws.registry import generic, ht

GROUPS = (0, 1, 1, 0, 2)


@pytest.fixture
def model() -> NestedColumns:
    """Column 1 groups the values of column 2."""
    inner = generic(ht(balanced(3), 3), [None, 5, 3])
    return NestedColumns(inner, [Nesting(1, 2, GROUPS)], [3])


def test_conditionals_are_sums_over_the_source(model: NestedColumns) -> None:
    inner, some = model.inner, {0: 0.4, 3: 2}
    below = {0: 0.4, 2: 2}
    masses = inner.pdf(torch.arange(5.0).double()[:, None], [1], below)
    for code in range(3):
        members = torch.tensor([g == code for g in GROUPS])
        asked = torch.tensor([[float(code)]]).double()
        assert_close(model.pdf(asked, [1], some), masses[members].sum()[None])
        # Of a source given its group, and of a group given a set of sources.
        first = int(members.nonzero()[0])
        value = model.pdf(torch.tensor([[float(first)]]).double(), [2], {**some, 1: code})
        assert_close(value, (masses[first] / masses[members].sum())[None])
        found = model.pdf(asked, [1], {**some, 2: {0, 1}})
        share = masses[:2][members[:2]].sum() / masses[:2].sum()
        assert_close(found, share[None])
    # Both sides: a group and another column, given the source's range.
    event = Evidence.of({1: 1, 3: 0})
    given = Evidence.of({0: 0.4, 2: (0.0, 3.0)})
    both = inner.log_value(Evidence.of({0: 0.4, 1: {1, 2}, 2: 0}))
    alone = inner.log_value(Evidence.of({0: 0.4, 1: {1, 2, 3}}))
    assert_close(model.log_conditional(event, given), both - alone)


def test_contradictions_are_impossible(model: NestedColumns) -> None:
    rows = torch.tensor([[0.1, 0.0, 1.0, 2.0], [0.1, 1.0, 1.0, 2.0]]).double()
    value = model.logpdf(rows)
    assert value[0] == -torch.inf
    assert_close(value[1], model.inner.logpdf(rows[1:, [0, 2, 3]])[0])
    assert model.pdf(torch.tensor([[0.0]]).double(), [1], {2: 1}) == 0
    assert model.univariates({1: 0, 2: 1}, [0]).log_evidence == -torch.inf
    with pytest.raises(ValueError, match="positive probability"):
        model.sample(1, {1: 0, 2: 1})


def test_draws_obey_the_function_and_the_evidence(model: NestedColumns) -> None:
    rows = model.sample(500, {1: 1})
    assert set(rows[:, 2].tolist()) == {1.0, 2.0}
    rows = model.sample(500)
    assert torch.equal(torch.tensor(GROUPS).double()[rows[:, 2].long()], rows[:, 1])


def test_files(model: NestedColumns, tmp_path) -> None:
    save(model, tmp_path / "model.mdma")
    again, _ = load_density(tmp_path / "model.mdma")
    rows = model.sample(5)
    assert torch.equal(model.logpdf(rows), again.logpdf(rows))


@pytest.mark.parametrize(
    ("nesting", "match"),
    [
        (Nesting(1, 0, GROUPS), "a source among columns"),
        (Nesting(1, 2, (0, 1)), "a code for each category"),
        (Nesting(1, 2, (0, 1, 1, 0, 3)), r"codes 0\.\.2"),
    ],
)
def test_functions_are_checked(model: NestedColumns, nesting: Nesting, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        NestedColumns(model.inner, [nesting], [3])
