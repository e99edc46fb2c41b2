"""Each row of a batch may have its own mix of exact, interval and missing cells and sets."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.registry import boxes_of, build, coded, names, rows_of

MODELS = names("cdf", "marginal")
CODED = names("cdf", "marginal", coded=1)


def with_sets(model: Density, evidence: Evidence) -> Evidence:
    """Let a random set of codes, one per row, stand in every categorical column."""
    sets = {c: random_sets(len(evidence), model.categories[c]) for c in coded(model)}
    lower, upper = evidence.lower.clone(), evidence.upper.clone()
    for column in sets:
        lower[:, column] = upper[:, column] = torch.nan
    plain = Evidence.interval(lower, upper)
    return Evidence(plain.columns, plain.lower, plain.upper, sets, plain.intervals)


def random_sets(rows: int, count: int) -> Tensor:
    mask = torch.rand(rows, count) < 0.6
    mask[torch.arange(rows), torch.randint(count, (rows,))] = True
    return mask


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_patterns_equals_its_rows(name: str) -> None:
    model = build(name)
    boxes = boxes_of(model, 16)
    assert boxes.lower.isnan().any()
    assert (boxes.lower < boxes.upper).any()
    assert (boxes.lower == boxes.upper).any()
    together = model.log_value(boxes)
    for i in range(16):
        # Built anew from the cells that are known, so that the single row knows nothing of others.
        kept = (~boxes.lower[i].isnan()).nonzero()[:, 0].tolist()
        if kept:
            lower, upper = boxes.lower[i : i + 1, kept], boxes.upper[i : i + 1, kept]
            alone = model.log_value(Evidence.interval(lower, upper, kept))
            assert_close(together[i : i + 1], alone, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CODED)
def test_a_batch_with_sets_equals_its_rows(name: str) -> None:
    model = build(name)
    evidence = with_sets(model, boxes_of(model, 8))
    together = model.log_value(evidence)
    alone = torch.cat([model.log_value(evidence.rows(slice(i, i + 1))) for i in range(8)])
    assert_close(together, alone, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CODED)
def test_a_set_is_the_sum_over_its_codes(name: str) -> None:
    model = build(name)
    boxes = boxes_of(model, 15, holes=False)
    for column in coded(model):
        count = model.categories[column]
        mask = random_sets(15, count)
        hole_low, hole_high = boxes.lower.clone(), boxes.upper.clone()
        hole_low[:, column] = hole_high[:, column] = torch.nan
        plain = Evidence.interval(hole_low, hole_high)
        known = Evidence(plain.columns, plain.lower, plain.upper, {column: mask}, plain.intervals)
        terms = []
        for code in range(count):
            low, high = hole_low.clone(), hole_high.clone()
            low[:, column] = high[:, column] = code
            terms.append(model.log_value(Evidence.interval(low, high)))
        terms = torch.where(mask, torch.stack(terms, 1), -torch.inf)
        assert_close(model.log_value(known), terms.logsumexp(1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CODED)
def test_an_interval_of_codes_is_the_sum_over_them(name: str) -> None:
    model = build(name)
    x = rows_of(model, 4)
    for column in coded(model):
        count = model.categories[column]
        for low in range(-1, count):
            for high in range(low + 1, count):
                lower, upper = x.clone(), x.clone()
                lower[:, column], upper[:, column] = low, high
                every = x[:, None].repeat(1, high - low, 1)
                every[..., column] = torch.arange(low + 1.0, high + 1.0)
                expected = model.logpdf(every).logsumexp(1)
                value = model.log_value(Evidence.interval(lower, upper))
                assert_close(value, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CODED)
def test_a_dict_of_cells_means_what_it_says(name: str) -> None:
    model = build(name)
    column = coded(model)[0]
    count = model.categories[column]
    masses = model.pdf(torch.arange(float(count))[:, None], [column])
    for code in range(count):
        others = set(range(count)) - {code}
        one = model.log_value({column: code}).exp()
        assert_close(one, masses[[code]], rtol=1e-13, atol=0)
        if others:
            rest = model.log_value({column: others}).exp()
            assert_close(rest, masses[sorted(others)].sum()[None], rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", CODED)
def test_a_code_that_does_not_exist_is_refused(name: str) -> None:
    model = build(name)
    column = coded(model)[0]
    for code in [-1.0, 0.5, float(model.categories[column]), 1e9]:
        with pytest.raises(ValueError, match="codes"):
            model.logpdf(torch.tensor([[0.0], [code]]), [column])


@pytest.mark.parametrize("name", MODELS)
def test_batches_of_rows_do_not_matter(name: str) -> None:
    """Contracting in pieces is what `log_value` does with more rows than memory allows."""
    model = build(name)
    boxes = boxes_of(model, 23)
    pieces = torch.cat([model.log_value(part) for part in boxes.batches(5)])
    assert_close(model.log_value(boxes), pieces, rtol=0, atol=1e-13)
