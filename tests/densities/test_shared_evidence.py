"""Questions that share their evidence: the same answers, and work that follows what is asked."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.leaves import Leaves
from marginals.structure import random
from marginals.tensors import CPTensor, FullTensor, HierarchicalTensor
from tests.laws.registry import chain, generic, ht, mixture

KINDS = (None, 3, None, 2, None)
ROWS = 24
GIVEN: dict[str, dict[int, Any]] = {
    "exact": {2: 0.4, 3: 1, 4: -0.7},
    "interval": {2: (-0.5, None), 4: 0.2},
    "set": {1: {0, 2}, 2: 0.1},
    "one": {3: 0},
}


def models() -> dict[str, Density]:
    return {
        "ht": generic(ht(random(5, seed=2), 3), KINDS),
        "pool 3": generic(ht(random(5, pool=3, seed=4), 3), KINDS),
        "chain": generic(ht(chain(5), 3), KINDS),
        "mera": generic(ht(random(5, pool=3, seed=1), 3, mera=True), KINDS),
        "cp": generic(CPTensor(5, 3), KINDS),
        "full": generic(FullTensor(5, 2), KINDS),
        "mixture": mixture([generic(CPTensor(5, 3), KINDS), generic(ht(chain(5), 2), KINDS)]),
    }


def apart(model: Density, asked: Evidence, given: Evidence) -> torch.Tensor:
    """The ratio of the joint value of each row, for which nothing is shared, to its evidence's."""
    return model.log_value(asked.join(given.expand(len(asked)))) - model.log_value(given)


def values(columns: list[int]) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(ROWS, 5)
    x[:, 1], x[:, 3] = torch.randint(3, (ROWS,)).double(), torch.randint(2, (ROWS,)).double()
    x[3] = torch.nan
    return x[:, columns]


@pytest.mark.parametrize("name", models())
def test_rows_that_share_their_evidence(name: str) -> None:
    """One row of evidence for all rows, alone and in a view, and three rows in turn."""
    model = models()[name]
    few = torch.tensor([[0.4, 1.0, torch.nan], [-1.0, 0.0, 0.3], [torch.nan] * 3])
    in_turn = Evidence.exact(few[torch.arange(ROWS) % 3], [2, 3, 4])
    for given in [*map(Evidence.of, GIVEN.values()), in_turn]:
        for asked in [[0], [1], [0, 1], [1, 0]]:
            if set(asked) & set(given.columns):
                continue
            x = values(asked)
            expected = apart(model, Evidence.exact(x, asked), given)
            assert_close(model.logpdf(x, asked, given), expected, rtol=0, atol=1e-12)
            below = Evidence.interval(torch.full_like(x, -torch.inf), x, asked)
            expected = apart(model, below, given)
            assert_close(model.logcdf(x, asked, given), expected, rtol=0, atol=1e-12)
    given, x = Evidence.of(GIVEN["exact"]), values([0, 1])
    expected = apart(model, Evidence.exact(x, [0, 1]), given)
    assert_close(model.condition(given).logpdf(x), expected, rtol=0, atol=1e-12)


def test_gradients_are_those_of_rows_one_by_one() -> None:
    model, x = models()["ht"], values([0, 1]).nan_to_num()
    cells = torch.tensor([[0.3, -0.2]], requires_grad=True)

    def gradients(shared: bool) -> tuple[torch.Tensor, ...]:
        given, asked = Evidence.exact(cells, [2, 4]), Evidence.exact(x, [0, 1])
        value = model.logpdf(x, [0, 1], given) if shared else apart(model, asked, given)
        wanted = [cells, *(p for p in model.parameters() if p.requires_grad)]
        return torch.autograd.grad(value.sum(), wanted, allow_unused=True)

    for one, other in zip(gradients(True), gradients(False), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_evidence_that_wants_gradients_keeps_its_rows() -> None:
    model, x = models()["ht"], values([0]).nan_to_num()
    rows = torch.tensor([[0.5]]).expand(ROWS, 1).clone().requires_grad_()
    (by_row,) = torch.autograd.grad(model.logpdf(x, [0], Evidence.exact(rows, [2])).sum(), [rows])
    assert bool((by_row != 0).all())


def test_what_is_known_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[int] = []
    log_values = Leaves.log_values

    def counted(self: Leaves, part: Evidence, *rest: Any) -> torch.Tensor:
        cells.append(part.lower.numel())
        return log_values(self, part, *rest)

    model, x = models()["ht"], values([0, 1])
    monkeypatch.setattr(Leaves, "log_values", counted)
    model.logpdf(x[:, :1], [0], Evidence.of(GIVEN["exact"]))
    assert sum(cells) == ROWS + 3
    cells.clear()
    model.logpdf(x, [0, 1], Evidence.of(GIVEN["exact"]))
    assert sum(cells) == 2 * ROWS + 3


def test_impossible_evidence_names_its_row() -> None:
    model, x = models()["ht"], values([0])
    low, high = torch.full((ROWS, 1), -0.5), torch.full((ROWS, 1), 0.5)
    low[5:] = 0.1  # no code lies between
    with pytest.raises(ValueError, match="positive probability; got none in row 5"):
        model.logpdf(x, [0], Evidence.interval(low, high, [3]))


def test_weights_are_normalised_once_and_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[int] = []
    log_weights = HierarchicalTensor._log_weights

    def counted(self: HierarchicalTensor, chosen: Any) -> torch.Tensor:
        out = log_weights(self, chosen)
        nodes.append(len(out))
        return out

    model = generic(ht(chain(5), 3), KINDS)
    monkeypatch.setattr(HierarchicalTensor, "_log_weights", counted)
    monkeypatch.setattr("marginals.densities.density._CPU_FLOATS", model.row_cost())
    x = values([0, 1, 2, 3, 4])
    expected = torch.cat([model.logpdf(row[None]) for row in x])
    nodes.clear()
    assert_close(model.logpdf(x), expected)
    assert sum(nodes) == 3
    # A change of the weights after a query is seen by the next.
    with torch.no_grad():
        model.tensor.raw.add_(torch.randn_like(model.tensor.raw))
    assert not torch.allclose(model.logpdf(x), expected)


def test_distinct_rows() -> None:
    x = torch.tensor([[1.0, torch.nan], [0.0, 2.0], [1.0, torch.nan], [0.0, 2.0], [3.0, 2.0]])
    evidence = Evidence.exact(x)
    few, place = evidence.distinct(3)
    assert len(few) == 3
    assert_close(few.lower[place], x, equal_nan=True)
    assert evidence.distinct(2) is None
    boxes = Evidence.interval(x - torch.arange(5.0)[:, None], x)
    assert len(boxes.distinct(5)[0]) == 5
    sets = Evidence((0,), x[:, :1], x[:, :1], {0: torch.ones(5, 2, dtype=torch.bool)})
    assert sets.distinct(5) is None
