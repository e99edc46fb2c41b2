"""A cell that no value lies in has probability zero, and cannot be given."""

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from tests.laws.registry import REGISTRY, build, names, rows_of


@pytest.mark.parametrize("name", REGISTRY)
def test_impossible_cells_have_probability_zero(name: str) -> None:
    model = build(name)
    x = rows_of(model, 5)
    plain = model.log_value(Evidence.exact(x))
    for column in range(model.columns):
        marks = torch.zeros(x.shape, dtype=torch.bool)
        marks[[1, 4], column] = True
        evidence = Evidence.exact(x).with_impossible(marks)
        value = model.log_value(evidence)
        assert (value[[1, 4]] == -torch.inf).all()
        assert_close(value[[0, 2, 3]], plain[[0, 2, 3]], rtol=0, atol=1e-13)
        gradients = torch.autograd.grad(
            value[[0, 2, 3]].sum(), list(model.parameters()), allow_unused=True
        )
        assert all(g is None or g.isfinite().all() for g in gradients)
        with pytest.raises(ValueError, match="positive probability; got none in row 1"):
            model.sample(1, evidence)
        nowhere = evidence.rows(torch.tensor([1, 4]))
        assert (model.log_value(nowhere) == -torch.inf).all()


@pytest.mark.parametrize("name", names("marginal", "univariates", at_least=2))
def test_impossible_cells_in_conditionals(name: str) -> None:
    model = build(name)
    x = rows_of(model, 12)
    marks = torch.zeros(12, 1, dtype=torch.bool)
    marks[5] = True
    first, rest = Evidence.exact(x[:, :1], [0]), Evidence.exact(x[:, 1:2], [1])
    plain = model.log_conditional(first, rest)
    value = model.log_conditional(first.with_impossible(marks), rest)
    assert_close(value, plain.masked_fill(marks[:, 0], -torch.inf), rtol=0, atol=1e-12)
    given = rest.with_impossible(marks)
    with pytest.raises(ValueError, match="positive probability; got none in row 5"):
        model.log_conditional(first, given)
    with pytest.raises(ValueError, match="positive probability; got none in row 5"):
        model.ppf(0.5, 0, given)
    found = model.univariates(given, [0, 1]).log_evidence
    assert (found[5, 0] == -torch.inf).all()
    # The cell of a column itself says nothing about its conditional.
    assert found[5, 1].isfinite()
    expected = model.univariates(rest, [0, 1]).log_evidence
    others = torch.arange(12) != 5
    assert_close(found[others], expected[others], rtol=0, atol=1e-12)
