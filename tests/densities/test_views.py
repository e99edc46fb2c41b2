"""Views answer as the density beneath them does, under their own names, in any composition."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.view import View
from marginals.structure import balanced
from tests.examples import examples
from tests.laws.registry import boxes_of, generic, ht, rows_of

KINDS = (None, 3, None, None, 2, None)
LEVELS = torch.tensor([0.02, 0.5, 0.9], dtype=torch.float64)


def make_model() -> Density:
    return generic(ht(balanced(6), 3), KINDS)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def assert_view_is(view: View, model: Density, names: list[int], known: dict[int, Any]) -> None:
    """Compare a view with queries of `model`, whose columns `names` it speaks of, given `known`."""
    assert view.columns == len(names)
    assert view.categories == tuple(model.categories[c] for c in names)
    x = rows_of(model, 3)[:, names]
    assert_close(view.logpdf(x), model.logpdf(x, names, known), rtol=0, atol=1e-11)
    assert_close(view.logcdf(x), model.logcdf(x, names, known), rtol=0, atol=1e-11)
    assert_close(view.logsf(x), model.logsf(x, names, known), rtol=0, atol=1e-11)
    box = model.logprob(x - 1, x, names, known)
    assert_close(view.logprob(x - 1, x), box, rtol=0, atol=1e-11)
    last = len(names) - 1
    quantiles = model.ppf(LEVELS, names[last], known)
    assert_close(view.ppf(LEVELS, last), quantiles, rtol=0, atol=1e-9)
    drawn = model.sample(4, known, seeded())[:, names]
    assert_close(view.sample(4, generator=seeded()), drawn, rtol=0, atol=1e-9)


# Composition ----------------------------------------------------------------------------------


def test_a_view_of_columns_and_evidence() -> None:
    model = make_model()
    view = View(model, [5, 0], {1: 2, 3: (-1.0, 2.0)})
    assert_view_is(view, model, [5, 0], {1: 2, 3: (-1.0, 2.0)})
    rows = view.sample_rows(view.checked(Evidence.nothing()), 4, seeded())  # as mixtures call it
    assert rows.shape == (1, 4, 2)
    assert_close(rows[0], view.sample(4, generator=seeded()))
    assert repr(view).startswith("View(\n  columns=[5, 0], given=Evidence(1 row: column 1 exact")


@examples(25)
@hypothesis_given(seed=st.integers(0, 10**6))
def test_any_composition_is_one_query(seed: int) -> None:
    """Marginals and conditionals in random order, against the names followed by hand."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = make_model()
    view, names, known = model, list(range(6)), {}
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.5 or len(names) == 1:
            chosen = rng.sample(range(len(names)), rng.randint(1, len(names)))
            view, names = view.marginal(chosen), [names[c] for c in chosen]
        else:
            chosen = rng.sample(range(len(names)), rng.randint(1, len(names) - 1))
            cells = {c: random_cell(rng, KINDS[names[c]]) for c in chosen}
            view = view.condition(cells)
            known.update({names[c]: cell for c, cell in cells.items()})
            names = [name for c, name in enumerate(names) if c not in chosen]
    assert_view_is(view, model, names, known)


def random_cell(rng: random.Random, count: int | None) -> Any:
    if count is not None:
        return rng.choice([rng.randrange(count), {rng.randrange(count)}, (None, count - 1)])
    x = rng.uniform(-2, 2)
    return rng.choice([x, (x, x + 1), (None, x), (x, None), torch.nan])


def test_views_do_not_nest() -> None:
    model = make_model()
    view = model.marginal([0, 2, 3]).condition({1: 0.5}).marginal([1])
    assert view.base is model
    assert view.kept == (3,)


def test_a_view_shares_the_parameters() -> None:
    model = make_model()
    view = model.condition({0: 1.0})
    assert {id(p) for p in view.parameters()} == {id(p) for p in model.parameters()}
    view.logpdf(rows_of(view, 2)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


# Queries of views with more evidence ----------------------------------------------------------


def test_a_view_takes_further_evidence() -> None:
    model = make_model()
    view = model.marginal([5, 1, 2, 0]).condition({2: 0.7})  # columns 5, 1, 0
    x = rows_of(model, 4)
    both = {2: 0.7, 1: 1}
    assert_close(view.logpdf(x[:, [0]], [2], {1: 1}), model.logpdf(x[:, [0]], [0], both))
    assert_close(view.logcdf(x[:, [5]], [0], {1: 1}), model.logcdf(x[:, [5]], [5], both))
    assert_close(view.ppf(LEVELS, 0, {1: 1}), model.ppf(LEVELS, 5, both))
    drawn = model.sample(6, both, seeded())[:, [5, 1, 0]]
    assert_close(view.sample(6, {1: 1}, seeded()), drawn)


def test_univariates_of_a_view() -> None:
    model = make_model()
    view = model.condition({1: {0, 1}, 3: 0.2})  # columns 0, 2, 4, 5
    known = Evidence.exact(rows_of(model, 3)[:, 2:3], [1])
    parts = view.univariates(known, [3, 0])
    assert parts.columns == (3, 0)
    assert parts.discrete == (False, False)
    x = torch.randn(3, 2)
    for place, column in enumerate([3, 0]):
        expected = view.logpdf(x[:, [place]], [column], known)
        assert_close(parts.logpdf(x)[:, place], expected, rtol=0, atol=1e-11)
    # What is given to the view itself is taken for granted.
    assert_close(parts.log_evidence, view.log_value(known)[:, None].expand(3, 2))
    parts = view.univariates()
    assert parts.columns == (0, 1, 2, 3)
    assert parts.discrete == (False, False, True, False)
    assert_close(parts.log_evidence, torch.zeros(1, 4), rtol=0, atol=1e-12)


# Several rows of evidence ---------------------------------------------------------------------


def several(model: Density) -> tuple[Evidence, View]:
    boxes = boxes_of(model, 5)
    given = Evidence.interval(boxes.lower[:, [1, 3]], boxes.upper[:, [1, 3]], [1, 3])
    return given, model.condition(given)  # columns 0, 2, 4, 5


def test_a_view_answers_row_by_row() -> None:
    model = make_model()
    given, view = several(model)
    assert view.rows == 5
    names = [0, 2, 4, 5]
    x = rows_of(model, 5)[:, names]
    assert_close(view.logpdf(x), model.logpdf(x, names, given))
    assert_close(view.logsf(x), model.logsf(x, names, given))
    assert_close(view.ppf(LEVELS, 1), model.ppf(LEVELS, 2, given))
    drawn = view.sample(3, generator=seeded())
    assert drawn.shape == (5, 3, 4)
    assert_close(drawn, model.sample(3, given, seeded())[..., names])
    row = given.rows(slice(2, 3))
    assert_close(view.logpdf(x)[[2]], model.condition(row).logpdf(x[[2]]))


def test_rows_of_a_view_and_of_a_query_match() -> None:
    model = make_model()
    given, view = several(model)
    more = Evidence.exact(rows_of(model, 5)[:, 2:3], [1])
    x = rows_of(model, 5)[:, [5]]
    both = given.join(more.renamed([0, 2, 4, 5]))
    assert_close(view.logpdf(x, [3], more), model.logpdf(x, [5], both))
    assert_close(view.condition(more).marginal([2]).logpdf(x), model.logpdf(x, [5], both))


def test_rows_that_do_not_match_are_refused() -> None:
    _, view = several(make_model())
    with pytest.raises(ValueError, match="as many rows as requested; got 3 and 5"):
        view.logpdf(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="as many rows"):
        view.condition(Evidence.exact(torch.zeros(2, 1)))


# Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: m.marginal([0, 6]), "columns between 0 and 5; got 6"),
        (lambda m: m.marginal([-1]), "columns between 0 and 5; got -1"),
        (lambda m: m.marginal([0, 0]), r"each column once; got \[0, 0\]"),
        (lambda m: m.condition({6: 1.0}), "columns between 0 and 5; got 6"),
        (lambda m: m.condition({1: (0.1, 0.9)}), "positive probability"),
        (lambda m: m.condition({1: 7}), "codes 0..2 in categorical column 1; got 7"),
        (lambda m: m.condition({0: {1}}), "continuous column 0; got a set"),
        (lambda m: View(m, [0, 1], {1: 2}), r"columns that are not given; got \[1\]"),
        (lambda m: m.marginal([0, 1]).marginal([2]), "columns between 0 and 1; got 2"),
        (lambda m: m.marginal([0, 1]).condition({2: 1.0}), "columns between 0 and 1; got 2"),
        (lambda m: m.marginal([0, 1, 2]).condition({-1: 1.0}), "columns between 0 and 2; got -1"),
        (lambda m: m.marginal([4, 1]).condition({0: 2}), "codes 0..1 in categorical column 0"),
        (lambda m: m.marginal([1, 0]).ppf(0.5, 2), "columns between 0 and 1; got 2"),
        (lambda m: m.marginal([1, 0]).ppf(0.5, -1), "columns between 0 and 1; got -1"),
        (lambda m: m.marginal([1, 0]).ppf(0.5, 1, {1: 0.0}), "disjoint"),
        (lambda m: m.marginal([1, 0]).univariates(None, [2]), "columns between 0 and 1; got 2"),
        (lambda m: m.marginal([1, 0]).logpdf(torch.zeros(1, 1), [2]), "between 0 and 1; got 2"),
        (lambda m: m.marginal([1, 0]).logpdf(torch.zeros(1, 1), [0], {3: 0.0}), "got 3"),
        (lambda m: m.marginal([1, 0]).sample(-2), "`draws` to be at least 0; got -2"),
        (lambda m: m.condition({0: 0.0}).sample(1, {0: (0.1, 0.9)}), "positive probability"),
    ],
)
def test_refused(call: Callable[[Density], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call(make_model())


def test_expectations_name_the_columns_of_the_view() -> None:
    model = make_model()
    known = Evidence.of({2: 0.3})
    view = model.marginal([5, 2, 0]).condition({1: 0.3})  # columns 5 and 0
    factors = torch.tensor([1.0, 10.0])

    def scaled(x: Tensor, columns: Sequence[int]) -> Tensor:
        return x * factors[list(columns)].reshape(-1, *[1] * (x.ndim - 1))

    plain = model.univariates(known, [5, 0]).expect(lambda x, columns: x)
    assert_close(view.univariates().expect(scaled), plain * factors)
