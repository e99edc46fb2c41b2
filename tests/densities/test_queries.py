"""Queries: what is refused and how it is said, shapes, and evidence of one row or of many."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities import density as density_module
from marginals.densities.density import Density
from marginals.densities.tensor_density import TensorDensity
from marginals.structure import random
from tests.laws.registry import boxes_of, generic, ht, mixture, rows_of
from tests.laws.statistics import assert_uniform, rosenblatt

INF, NAN = torch.inf, torch.nan
KINDS = (None, 3, None, None)
Query = Callable[[Density, Tensor, list[int], Any], Tensor]

# Each query of values `x` (..., n) of some columns, given evidence.
QUERIES: dict[str, Query] = {
    "logpdf": lambda model, x, columns, given: model.logpdf(x, columns, given),
    "logcdf": lambda model, x, columns, given: model.logcdf(x, columns, given),
    "logsf": lambda model, x, columns, given: model.logsf(x, columns, given),
    "logprob": lambda model, x, columns, given: model.logprob(x - 1.0, x + 1.0, columns, given),
}


def make_model() -> TensorDensity:
    return generic(ht(random(4, seed=4), 3), KINDS)


# Refusals -------------------------------------------------------------------------------------


def rows(*cells: float, count: int = 1) -> Tensor:
    return torch.tensor([cells] * count)


REFUSED: dict[str, tuple[Callable[[Density], Any], str]] = {
    "a column too far": (lambda m: m.logpdf(rows(0.0, 0.0), [0, 4]), "between 0 and 3; got 4"),
    "a negative column": (lambda m: m.logcdf(rows(0.0), [-1]), "between 0 and 3; got -1"),
    "an unknown column given": (
        lambda m: m.logpdf(rows(0.0), [0], {9: 1.0}),
        "columns between 0 and 3; got 9",
    ),
    "the quantile of an unknown column": (lambda m: m.ppf(0.5, 4), "between 0 and 3; got 4"),
    "the quantile of a negative column": (lambda m: m.ppf(0.5, -1), "between 0 and 3; got -1"),
    "univariates of an unknown column": (lambda m: m.univariates(None, [4]), "0 and 3; got 4"),
    "a column twice": (lambda m: m.logpdf(rows(0.0, 0.0), [2, 2]), r"column once; got \(2, 2\)"),
    "a column requested and given": (
        lambda m: m.logpdf(rows(0.0, 0.0), [0, 2], {2: 0.0, 3: 1.0}),
        r"disjoint; got \[2\] in both",
    ),
    "a quantile of a column given": (
        lambda m: m.ppf(0.5, 2, {2: 0.0}),
        "disjoint; got column 2 in both",
    ),
    "an interval without a code": (
        lambda m: m.logpdf(rows(0.0), [0], {1: (0.2, 0.8)}),
        "positive probability; got none in row 0",
    ),
    "the row that is impossible": (
        lambda m: m.sample(
            1, Evidence.interval(torch.tensor([[0.0], [2.5]]), torch.tensor([[1.0], [INF]]), [1])
        ),
        "positive probability; got none in row 1",
    ),
    "a quantile given the impossible": (
        lambda m: m.ppf(0.5, 0, {1: (0.2, 0.8)}),
        "positive probability",
    ),
    "too few columns": (lambda m: m.logpdf(rows(0.0, 0.0)), "4 columns|columns.*4"),
    "too few columns for a CDF": (lambda m: m.logcdf(rows(0.0, 0.0, 0.0)), "4 columns|columns.*4"),
    "too many columns": (lambda m: m.logpdf(rows(0.0, 0.0, 0.0, 0.0, 0.0)), "columns"),
    "more values than names": (
        lambda m: m.logpdf(rows(0.0, 0.0, 0.0), [0, 2]),
        "Expected 3 names of columns; got 2",
    ),
    "a code past the last": (
        lambda m: m.logpdf(rows(0.0, 3.0), [0, 1]),
        "codes 0..2 in categorical column 1; got 3 in row 0",
    ),
    "half a code": (
        lambda m: m.logpdf(torch.tensor([[1.0], [0.5]]), [1]),
        "codes 0..2 in categorical column 1; got 0.5 in row 1",
    ),
    "a negative code given": (
        lambda m: m.logpdf(rows(0.0), [0], {1: -1}),
        "codes 0..2 in categorical column 1; got -1",
    ),
    "a code in a set past the last": (
        lambda m: m.sample(2, {1: {0, 5}}),
        "codes 0..2 for column 1; got a set with code 5",
    ),
    "a set for a continuous column": (
        lambda m: m.logpdf(rows(0.0), [0], {2: {0, 1}}),
        "number or an interval for continuous column 2; got a set",
    ),
    "level 0": (lambda m: m.ppf(0.0, 0), "between 0 and 1; got 0"),
    "level 1": (lambda m: m.ppf(torch.tensor([0.5, 1.0]), 0), "0.5 to 1"),
    "a negative level": (lambda m: m.ppf(-0.5, 1), "between 0 and 1"),
    "level NaN": (lambda m: m.ppf(NAN, 0), "between 0 and 1"),
    "negative draws": (lambda m: m.sample(-1), "`draws` to be at least 0; got -1"),
    "a scalar": (lambda m: m.logpdf(torch.tensor(0.0)), "last dim.*got a scalar"),
    "scalar bounds": (
        lambda m: m.logprob(torch.tensor(0.0), torch.tensor(1.0), [0]),
        "last dim.*got a scalar",
    ),
    "a list": (lambda m: m.logpdf([[0.0] * 4]), "Tensor; got list"),
    "evidence of another type": (
        lambda m: m.logpdf(rows(0.0), [0], [1.0]),
        "`Evidence`, a dict.*got list",
    ),
    "an infinite value": (lambda m: m.logpdf(rows(INF), [0]), "finite or NaN"),
    "bounds in the wrong order": (
        lambda m: m.logprob(rows(1.0, 1.0), rows(2.0, 0.0), [2, 3]),
        "lower <= upper.*column 3, row 0",
    ),
    "rows that do not match the evidence": (
        lambda m: m.logpdf(rows(0.0, count=3), [0], Evidence.exact(rows(0.0, count=2), [2])),
        "one row or as many rows as requested; got 3 and 2",
    ),
    "a CDF's rows that do not match": (
        lambda m: m.logcdf(rows(0.0, count=3), [0], Evidence.exact(rows(0.0, count=2), [2])),
        "as many rows as requested; got 3 and 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, match = REFUSED[case]
    with pytest.raises(TypeError if "got list" in match else ValueError, match=match):
        call(make_model())


# Shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
def test_the_last_dim_runs_over_columns(query: str) -> None:
    model, columns = make_model(), [2, 0]
    for shape in [(), (1,), (6,), (2, 3), (2, 1, 3), (0,), (2, 0)]:
        x = torch.randn(*shape, 2)
        for given in [None, {1: 2, 3: (None, 1.0)}]:
            out = QUERIES[query](model, x, columns, given)
            assert out.shape == shape
            by_rows = QUERIES[query](model, x.reshape(-1, 2), columns, given)
            assert_close(out.flatten(), by_rows, rtol=0, atol=0)
    none = Evidence.exact(torch.zeros(0, 1), [2])
    assert QUERIES[query](model, torch.zeros(0, 4), [0, 1, 2, 3], None).shape == (0,)
    assert QUERIES[query](model, torch.zeros(0, 1), [0], none).shape == (0,)


def test_quantiles_have_the_shape_of_the_levels() -> None:
    model = make_model()
    for shape in [(), (3,), (2, 3)]:
        levels = torch.rand(shape) * 0.9 + 0.05
        assert model.ppf(levels, 0).shape == shape
        assert model.ppf(levels, 0, {1: 1}).shape == shape
        assert model.ppf(levels, 0, Evidence.exact(torch.randn(5, 1), [2])).shape == (5, *shape)
    assert_close(model.ppf(0.3, 0), model.ppf(torch.tensor([0.3]), 0)[0])


@pytest.mark.parametrize("many", [False, True], ids=["tensor", "mixture"])
def test_samples_have_a_dim_for_several_rows_of_evidence(many: bool) -> None:
    model = mixture([make_model(), make_model()]) if many else make_model()
    assert model.sample(5, {1: 1}).shape == (5, 4)
    assert model.sample(5, Evidence.exact(torch.zeros(1, 1))).shape == (5, 4)
    assert model.sample(5, Evidence.exact(torch.zeros(2, 1))).shape == (2, 5, 4)
    none = Evidence.exact(torch.zeros(0, 1), [2])
    assert model.sample(3, none).shape == (0, 3, 4)
    assert model.ppf(torch.tensor([0.2, 0.5]), 0, none).shape == (0, 2)
    assert model.univariates(none).logpdf(torch.zeros(0, 4)).shape == (0, 4)


# Rows of evidence -----------------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
def test_rows_of_evidence(query: str) -> None:
    """Evidence per row is a loop over rows; one row, on either side, serves all of the other."""
    model, ask = make_model(), QUERIES[query]
    boxes, x = boxes_of(model, 12), rows_of(model, 12)
    given = Evidence.interval(boxes.lower[:, 1:3], boxes.upper[:, 1:3], [1, 2])
    out = ask(model, x[:, [3, 0]], [3, 0], given)
    each = [ask(model, x[[i]][:, [3, 0]], [3, 0], given.rows(slice(i, i + 1))) for i in range(12)]
    assert_close(out, torch.cat(each), rtol=0, atol=1e-12)
    known = {1: {0, 2}, 3: 0.5}
    expected = ask(model, x[:, [0, 2]], [0, 2], Evidence.of(known).expand(12))
    for one in (known, Evidence.of(known)):
        assert_close(ask(model, x[:, [0, 2]], [0, 2], one), expected, rtol=0, atol=1e-13)
    many = Evidence.exact(x[:, 2:3], [2])
    expected = ask(model, x[:1, :1].expand(12, 1), [0], many)
    for one in (x[:1, :1], x[0, :1]):
        assert_close(ask(model, one, [0], many), expected, rtol=0, atol=1e-13)
    expected = ask(model, x[:, :1], [0], {2: 0.3})
    for nothing in [NAN, (None, None)]:
        out = ask(model, x[:, :1], [0], {2: 0.3, 3: nothing, 1: NAN})
        assert_close(out, expected, rtol=0, atol=1e-12)
    whole = torch.tensor([[0, 1, 2, -3], [1, 2, 0, 0]])
    expected = ask(model, whole.double(), [0, 1, 2, 3], None)
    assert_close(ask(model, whole, [0, 1, 2, 3], None), expected, rtol=0, atol=0)


def test_quantiles_per_row_equal_a_loop_over_rows() -> None:
    model = make_model()
    boxes = boxes_of(model, 8)
    given = Evidence.interval(boxes.lower[:, 1:], boxes.upper[:, 1:], [1, 2, 3])
    levels = torch.tensor([0.01, 0.4, 0.9])
    out = model.ppf(levels, 0, given)
    each = [model.ppf(levels, 0, given.rows(slice(i, i + 1))) for i in range(8)]
    assert_close(out, torch.stack(each), rtol=0, atol=1e-10)


# Boxes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, {1: 0}], ids=["alone", "given"])
def test_a_box_without_width_is_empty(given: Any) -> None:
    model = make_model()
    lower, upper = torch.zeros(3, 2), torch.ones(3, 2)
    upper[1, 0] = 0.0
    out = model.logprob(lower, upper, [0, 3], given)
    assert (out == -INF).tolist() == [False, True, False]


def test_a_box_with_a_gap_is_the_marginal() -> None:
    model = make_model()
    low, high = torch.tensor([[0.0, NAN, 0.0]]), torch.tensor([[1.0, 0.5, NAN]])
    expected = model.logprob(torch.zeros(1, 1), torch.ones(1, 1), [0], {1: 1})
    assert_close(model.logprob(low, high, [0, 2, 3], {1: 1}), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("given", [None, {1: 0}], ids=["alone", "given"])
def test_open_ends_at_both_infinities(given: Any) -> None:
    model = make_model()
    x = torch.tensor([[-INF, 0.3], [INF, 0.3], [INF, INF], [-INF, -INF]])
    one = torch.tensor([[0.3]])
    cdf, sf = model.cdf(x, [0, 2], given), model.sf(x, [0, 2], given)
    assert_close(cdf[[0, 3]], torch.zeros(2), rtol=0, atol=0)
    assert_close(cdf[1], model.cdf(one, [2], given)[0], rtol=1e-13, atol=0)
    assert_close(cdf[2], torch.tensor(1.0), rtol=1e-13, atol=0)
    assert_close(sf[[1, 2]], torch.zeros(2), rtol=0, atol=0)
    assert_close(sf[0], model.sf(one, [2], given)[0], rtol=1e-13, atol=0)
    assert_close(sf[3], torch.tensor(1.0), rtol=1e-13, atol=0)


def test_linear_queries_are_the_exponentials() -> None:
    model = make_model()
    x = rows_of(model, 4)
    assert_close(model.pdf(x), model.logpdf(x).exp())
    assert_close(model.cdf(x), model.logcdf(x).exp())
    assert_close(model.sf(x), model.logsf(x).exp())
    assert_close(model.prob(x - 1, x), model.logprob(x - 1, x).exp())


# Memory ---------------------------------------------------------------------------------------


def test_batches_do_not_change_conditionals(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    boxes = boxes_of(model, 7)
    given = Evidence.interval(boxes.lower[:, 1:3], boxes.upper[:, 1:3], [1, 2])
    x, levels = rows_of(model, 7)[:, [0, 3]], torch.tensor([[0.1], [0.6]])
    density, quantile = model.logpdf(x, [0, 3], given), model.ppf(levels, 0, given)
    monkeypatch.setattr(density_module, "_CPU_FLOATS", 3 * model.row_cost())
    monkeypatch.setattr(density_module, "_FEW_ROWS", 1)
    assert model.rows_at_once() == 3
    assert_close(model.logpdf(x, [0, 3], given), density, rtol=0, atol=1e-13)
    assert_close(model.ppf(levels, 0, given), quantile, rtol=0, atol=1e-10)


def test_samples_drawn_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    given = Evidence.exact(torch.tensor([[0.5], [-1.0], [2.0]]), [2])
    # 50 draws at a time, which divides neither number of draws.
    monkeypatch.setattr(TensorDensity, "draw_cost", lambda self: (1 << 24) // 50)
    monkeypatch.setattr(TensorDensity, "_leaf_cost", lambda self: (1 << 24) // 50)
    one, three = model.sample(1070), model.sample(730, given)
    assert one.shape == (1070, 4)
    assert three.shape == (3, 730, 4)
    assert len(one[:, 0].unique()) == 1070
    for u in rosenblatt(model, one).values():
        assert_uniform(u)
    for row, x in zip(three, [0.5, -1.0, 2.0], strict=True):
        for u in rosenblatt(model, row, {2: x}).values():
            assert_uniform(u)
