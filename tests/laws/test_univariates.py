"""Univariate conditionals of many cells at once, and their quantiles."""

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.registry import boxes_of, build, coded, names, rows_of, smooth

MODELS = names("univariates")
SEVERAL = names("univariates", at_least=2)
# Levels to within 1e-12 of both ends.
LEVELS = torch.tensor([1e-12, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999], dtype=torch.float64)
LEVELS = torch.cat([LEVELS, 1 - LEVELS[:3].flip(0)])
# Of univariates, and of those of coupled columns given ranges, which are mixtures over nodes.
EXACT, OF_NODES = 1e-11, 3e-3


def _evidence(name: str, model: Density, rows: int) -> list[tuple[Evidence, float]]:
    """Return evidence about all columns, with the error of univariates given it."""
    if "copula" not in name:
        return [(boxes_of(model, rows), EXACT)]
    return [(Evidence.exact(rows_of(model, rows)), EXACT), (boxes_of(model, rows), OF_NODES)]


@pytest.mark.parametrize("name", SEVERAL)
def test_univariates_of_all_columns_are_the_full_conditionals(name: str) -> None:
    """One pass gives p(x_j | all the others) for every column j."""
    model = build(name)
    x = rows_of(model, 5)
    for known, error in _evidence(name, model, 5):
        every = model.univariates(known)
        density, cdf, sf = every.logpdf(x), every.logcdf(x), every.logsf(x)
        assert density.shape == cdf.shape == sf.shape == x.shape
        for column in range(model.columns):
            given = known.without(column)
            at = x[:, [column]]
            expected = model.logcdf(at, [column], given), model.logsf(at, [column], given)
            assert_close(cdf[:, column].exp(), expected[0].exp(), rtol=0, atol=error)
            assert_close(sf[:, column].exp(), expected[1].exp(), rtol=0, atol=error)
            if error <= EXACT:
                found = model.logpdf(at, [column], given)
                assert_close(density[:, column], found, rtol=0, atol=error)
                assert_close(cdf[:, column], expected[0], rtol=0, atol=error)
                assert_close(sf[:, column], expected[1], rtol=0, atol=error)
            # The evidence of a column is the value of the others.
            expected = model.log_value(given)
            assert_close(every.log_evidence[:, column], expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", SEVERAL)
def test_the_cdf_is_that_of_its_logarithm(name: str) -> None:
    model = build(name)
    x = rows_of(model, 3)
    asked = list(range(1, model.columns))
    for parts, at in [
        (model.univariates(Evidence.exact(x[:, :1], [0]), asked), x[:, asked]),
        (model.univariates(None, asked), x[:, None, asked]),
        (model.univariates(boxes_of(model, 3)), x),
    ]:
        ends = torch.full_like(at, torch.inf)
        for cells in (at, torch.stack([at, at + 1]), ends, -ends):
            assert_close(parts.cdf(cells), parts.logcdf(cells).exp(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_univariates_of_missing_cells(name: str) -> None:
    """Without evidence each is the marginal; given column 0, the conditional."""
    model = build(name)
    x = rows_of(model, 8)
    parts = model.univariates()
    assert parts.columns == tuple(range(model.columns))
    density = parts.logpdf(x[:, None])  # (8, 1, D)
    given, asked = Evidence.exact(x[:, :1], [0]), list(range(1, model.columns))
    parts = model.univariates(given, asked) if asked else None
    for column in range(model.columns):
        at = x[:, [column]]
        assert_close(density[:, 0, column], model.logpdf(at, [column]), rtol=0, atol=1e-12)
        if column:
            for query in ("logpdf", "logcdf"):
                expected = getattr(model, query)(at, [column], given)
                found = getattr(parts, query)(x[:, asked])[:, column - 1]
                assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", names("univariates", smooth=2))
def test_log_densities_are_differentiable_by_the_evidence(name: str) -> None:
    model = build(name)
    x = rows_of(model, 4)
    at = smooth(model)
    asked, known = at[0], at[1:]

    def through_univariates(cells: torch.Tensor) -> torch.Tensor:
        given = Evidence.exact(cells, known)
        return model.univariates(given, [asked]).logpdf(x[:, [asked]]).sum()

    def through_ratio(cells: torch.Tensor) -> torch.Tensor:
        return model.logpdf(x[:, [asked]], [asked], Evidence.exact(cells, known)).sum()

    cells = x[:, known].clone().requires_grad_()
    (one,) = torch.autograd.grad(through_univariates(cells), cells)
    (two,) = torch.autograd.grad(through_ratio(cells), cells)
    assert_close(one, two, rtol=1e-8, atol=1e-11)


# Quantiles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_ppf_inverts_the_cdf(name: str) -> None:
    model = build(name)
    for column in smooth(model):
        x = model.ppf(LEVELS, column)[:, None]
        logit = model.logcdf(x, [column]) - model.logsf(x, [column])
        assert_close(logit, LEVELS.log() - torch.log1p(-LEVELS), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", SEVERAL)
def test_conditional_ppf_inverts_the_conditional_cdf(name: str) -> None:
    model = build(name)
    for known, error in _evidence(name, model, 4):
        for column in smooth(model):
            given = known.without(column)
            x = model.ppf(LEVELS, column, given)
            assert x.shape == (4, len(LEVELS))
            for level, at in zip(LEVELS, x.T, strict=True):
                log_cdf = model.logcdf(at[:, None], [column], given)
                assert_close(log_cdf.exp(), level.expand(4), rtol=0, atol=error)
                if error <= EXACT:
                    logit = log_cdf - model.logsf(at[:, None], [column], given)
                    expected = (level.log() - torch.log1p(-level)).expand(4)
                    assert_close(logit, expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("name", names("univariates", coded=1))
def test_ppf_of_codes_is_the_smallest_that_reaches_the_level(name: str) -> None:
    model = build(name)
    boxes = boxes_of(model, 3)
    for column in coded(model):
        rest = [c for c in range(model.columns) if c != column]
        codes = torch.arange(float(model.categories[column]))
        given = None
        if rest:
            given = Evidence.interval(boxes.lower[:1, rest], boxes.upper[:1, rest], rest)
        cdf = model.cdf(codes[:, None], [column], given).detach()
        # Just below and above every step, and both ends.
        inner = cdf[:-1]
        levels = torch.cat([inner * (1 - 1e-9), inner + 1e-9 * (1 - inner), LEVELS])
        levels = levels[(levels > 0) & (levels < 1)]  # codes of nested columns may have no mass
        expected = (cdf[None] < levels[:, None]).sum(1).clamp_max(len(codes) - 1).double()
        assert torch.equal(model.ppf(levels, column, given), expected)
        # At a step as the univariate itself has it, where rounding must not fall past it.
        steps = model.univariates(given, [column]).logcdf(codes[:-1, None, None]).exp().flatten()
        steps = steps[(steps > 0) & (steps < 1)].detach()
        first = torch.searchsorted(steps, steps) + int((cdf == 0).sum())
        assert torch.equal(model.ppf(steps, column, given), first.double())


@pytest.mark.parametrize("name", names("univariates", "cdf"))
def test_univariate_ppf_of_all_columns_at_once(name: str) -> None:
    model = build(name)
    count = 2 if "copula" in name else 4
    parts = model.univariates(boxes_of(model, count))
    levels = torch.rand(count, count, model.columns) * 0.98 + 0.01
    x = parts.ppf(levels)
    assert x.shape == levels.shape
    at = parts.evaluate(x)
    for place, column in enumerate(range(model.columns)):
        cdf = at.log_cdf[..., place].exp()
        if column in coded(model):
            below = cdf - at.log_density[..., place].exp()
            assert (cdf >= levels[..., place] - 1e-12).all()
            assert (below <= levels[..., place] + 1e-12).all()
        else:
            assert_close(cdf, levels[..., place], rtol=1e-11, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_ppf_is_monotone(name: str) -> None:
    model = build(name)
    levels = torch.linspace(0.001, 0.999, 101)
    for column in range(model.columns):
        steps = model.ppf(levels, column).diff()
        assert (steps >= 0).all()
        assert column in coded(model) or (steps > 0).all()
    for level in [0.0, 1.0, -0.1, 1.5, torch.nan]:
        with pytest.raises(ValueError, match="between 0 and 1"):
            model.ppf(torch.tensor([0.5, level]), 0)


@pytest.mark.parametrize("name", MODELS)
def test_ppf_has_the_gradient_of_the_level(name: str) -> None:
    model = build(name)
    for column in smooth(model):
        levels = torch.tensor([0.01, 0.4, 0.97], requires_grad=True)
        x = model.ppf(levels, column)
        (gradient,) = torch.autograd.grad(x.sum(), levels)
        assert_close(gradient, 1 / model.pdf(x.detach()[:, None], [column]), rtol=1e-9, atol=0)
        step = 1e-5
        ends = [model.ppf(levels.detach() + side, column).detach() for side in (step, -step)]
        assert_close(gradient, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", names("univariates", smooth=2))
def test_ppf_has_the_gradient_of_the_evidence(name: str) -> None:
    model = build(name)
    at = smooth(model)
    asked, known = at[0], at[1:]
    row = rows_of(model, 1)[:, known]

    def solve(cells: torch.Tensor) -> torch.Tensor:
        return model.ppf(torch.tensor([0.1, 0.7]), asked, Evidence.exact(cells, known))

    assert torch.autograd.gradcheck(solve, row.clone().requires_grad_(), eps=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_ppf_has_the_gradient_of_the_parameters(name: str) -> None:
    model = build(name)
    parameters = [p for p in model.parameters() if p.numel()]
    direction = [torch.randn_like(p) for p in parameters]
    for column in smooth(model):
        levels = torch.tensor([0.05, 0.6])
        total = model.ppf(levels, column).sum()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        slope = sum(
            (g * d).sum() for g, d in zip(gradients, direction, strict=True) if g is not None
        )
        ends = [moved_ppf(model, parameters, direction, s, levels, column) for s in (1e-5, -1e-5)]
        assert_close(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)


@torch.no_grad()
def moved_ppf(
    model: Density,
    parameters: list[torch.Tensor],
    direction: list[torch.Tensor],
    step: float,
    levels: torch.Tensor,
    column: int,
) -> torch.Tensor:
    for parameter, change in zip(parameters, direction, strict=True):
        parameter.add_(step * change)
    out = model.ppf(levels, column).sum()
    for parameter, change in zip(parameters, direction, strict=True):
        parameter.sub_(step * change)
    return out
