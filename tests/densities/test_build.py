"""Models start where they should, with finite scores, also for awkward data."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.build import build, couplable, start
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import NeuralLeaves
from marginals.structure import Tree, balanced
from marginals.structure import random as random_tree
from marginals.tensors import CPTensor, FullTensor, HierarchicalTensor
from tests.leaves.cells import exact

NAN, INF = torch.nan, torch.inf
TENSORS = ("ht", "cp", "mera", "full")
INITS = ("data", "paper")


def table(rows: int = 60, dtype: torch.dtype = torch.float64) -> Tensor:
    """Two numbers, a code and another number, with holes."""
    x = torch.randn(rows, 4, dtype=dtype)
    x[:, 2] = torch.randint(0, 3, (rows,)).to(dtype)
    x[torch.rand(rows, 4) < 0.2] = NAN
    return x


@torch.no_grad()
def medians(model: TensorDensity) -> Tensor:
    """Return the median of every neural leaf (D, M)."""
    (family,) = model.leaves.families
    assert isinstance(family, NeuralLeaves)
    columns, width = family.size
    half = torch.full((columns, width), 0.5, dtype=torch.float64).log()
    hole = torch.full((columns, width), NAN, dtype=torch.float64)
    components = torch.arange(width).expand(columns, width)
    return family.invert_chosen(half, half, components, exact(hole))


def assert_works(model: TensorDensity, data: Any) -> None:
    """Check that scores, gradients and samples are finite."""
    value = model.log_value(data)
    assert value.isfinite().all()
    model.contract(model.checked(data)).sum().backward()
    parameters = [p for p in model.parameters() if p.numel()]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in parameters)
    assert model.sample(20).isfinite().all()


# Every choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("tensor", TENSORS)
def test_every_choice_works(tensor: Any, init: Any) -> None:
    x = table()
    kinds = {"ht": HierarchicalTensor, "mera": HierarchicalTensor, "cp": CPTensor}
    how = "softplus" if init == "paper" else "softmax"
    for depth, dtype in ((1, torch.float32), (3, torch.float64)):
        options = {"tensor": tensor, "init": init, "depth": depth, "dtype": dtype}
        model = build(x, width=5, categories={2: 3}, **options)
        assert model.categories == (None, None, 3, None)
        assert {p.dtype for p in model.parameters()} == {dtype}
        assert type(model.tensor) is kinds.get(tensor, FullTensor)
        assert model.tensor.size == (4, 5)
        assert model.tensor.config()["parametrisation"] == how
        expected = {"columns": 3, "width": 5, "depth": depth, "hidden": 3}
        assert model.leaves.families[0].config() == expected
        assert_works(model, x)


@pytest.mark.parametrize("tensor", TENSORS)
def test_any_number_of_columns_and_one_component(tensor: Any) -> None:
    for columns in (1, 2, 7):
        x = torch.randn(30, columns)
        assert_works(build(x, tensor=tensor, width=4), x)
    x = table()
    assert_works(build(x, tensor=tensor, width=1, hidden=1, categories={2: 3}), x)


def test_columns_of_codes_alone() -> None:
    x = torch.randint(0, 4, (50, 3)).double()
    model = build(x, width=4, categories={0: 4, 1: 5, 2: 4})
    assert model.categories == (4, 5, 4)
    assert_works(model, x)


def test_pool_hidden_and_mera_are_used() -> None:
    model = build(torch.randn(50, 9), width=3, pool=3, hidden=5, tree="balanced")
    assert model.tensor.tree == balanced(9, 3)
    assert model.leaves.families[0].hidden == 5
    assert not model.tensor.mera
    assert build(table(), tensor="mera", width=3).tensor.mera


# Trees ----------------------------------------------------------------------------------------


def test_trees() -> None:
    x = torch.randn(200, 4)
    tree = Tree(((3, 0), (2, 1)))
    assert build(x, tree=tree, width=2).tensor.tree is tree
    assert build(x, tree="balanced", width=2).tensor.tree == balanced(4)
    assert build(x, tree="random", width=2, seed=7).tensor.tree == random_tree(4, 2, 7)
    x[:, 3] = x[:, 0] + 0.1 * torch.randn(200)
    x[:, 2] = x[:, 1] - 0.1 * torch.randn(200)
    x[::7, 2] = NAN
    groups = {frozenset(node.columns) for node in build(x, width=2).tensor.tree.nodes}
    assert {frozenset({0, 3}), frozenset({1, 2})} <= groups


# Awkward data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_constant_column_has_scale_one(dtype: torch.dtype) -> None:
    for constant in (0.0, 0.1, -1234.567, 1e5 + 0.3, 1e-30):
        x = torch.randn(1000, 2)
        x[:, 1] = constant
        model = build(x, width=4, dtype=dtype)
        assert_works(model, x)
        assert model.leaves.families[0].scale[1] == 1.0
        low, middle, high = model.ppf(torch.tensor([0.05, 0.5, 0.95]), 1).tolist()
        assert middle == pytest.approx(constant, rel=1e-6, abs=1e-6)
        assert 0.5 < high - low < 4


@pytest.mark.parametrize("tensor", TENSORS)
def test_columns_and_tables_without_values(tensor: Any) -> None:
    for empty in (1, 2):
        x = table()
        x[:, empty] = NAN
        for init in INITS:
            model = build(x, tensor=tensor, init=init, width=4, categories={2: 3})
            assert_works(model, x)
            assert model.logpdf(torch.zeros(1, 1), [1]).isfinite().all()
            mass = model.pdf(torch.arange(3.0)[:, None], [2])
            assert_close(mass.sum(), torch.tensor(1.0, dtype=mass.dtype))
    x = torch.full((5, 3), NAN)
    model = build(x, tensor=tensor, width=4, categories={2: 3})
    assert_close(model.log_value(x), torch.zeros(5, dtype=torch.float32))
    assert model.sample(5).isfinite().all()


@pytest.mark.parametrize("tensor", TENSORS)
def test_fewer_rows_than_components(tensor: Any) -> None:
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        model = build(x, tensor=tensor, width=7)
        assert_works(model, x)
        # Every row is used, and about equally often.
        counts = torch.cdist(medians(model).T, x).argmin(1).bincount(minlength=rows)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    ("tensor", "init", "dtype"),
    [
        ("ht", "data", torch.float32),
        ("ht", "paper", torch.float64),
        ("cp", "data", torch.float64),
        ("mera", "paper", torch.float32),
        ("full", "data", torch.float32),
        ("full", "paper", torch.float64),
    ],
    ids=str,
)
def test_columns_of_any_scale(tensor: Any, init: Any, dtype: torch.dtype) -> None:
    scales = torch.tensor([1e-6, 1e6, 1.0, 1e-6])
    z = torch.randn(300, 4)
    x = z * scales + torch.tensor([0.0, 0.0, 1e5, 3e-6])
    options = {"tensor": tensor, "init": init, "width": 6, "dtype": dtype, "tree": "balanced"}
    model = build(x, **options)
    assert_works(model, x)
    # The same as for the standardised table, up to the change of variables.
    expected = build(z, **options).logpdf(z).double() - scales.log().sum()
    # In float32 the location 1e5 is off by up to 0.004 of its scale.
    atol = 0.1 if dtype == torch.float32 else 1e-6
    assert_close(model.logpdf(x).double(), expected, rtol=0, atol=atol)


def test_a_large_table_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    # By its name, because the package's `build` is the function.
    monkeypatch.setattr(import_module("marginals.densities.build"), "_MOST_ROWS", 50)
    x = torch.randn(500, 2) * 3 + 7
    model = build(x, width=10, dtype=torch.float64)
    assert_close(medians(model).T, nearest(medians(model).T, x), rtol=0, atol=1e-6)
    (family,) = model.leaves.families
    assert (family.location - 7).abs().max() < 3
    assert ((family.scale > 1.5) & (family.scale < 4.5)).all()


# Starting from data ---------------------------------------------------------------------------


def nearest(points: Tensor, rows: Tensor) -> Tensor:
    return rows[torch.cdist(points, rows).argmin(1)]


@pytest.mark.parametrize("tensor", TENSORS)
def test_kernels_sit_on_rows(tensor: Any) -> None:
    x = torch.randn(40, 3) * torch.tensor([1.0, 50.0, 1e-3]) + torch.tensor([0.0, 1e3, 5.0])
    for depth, hidden in ((1, 1), (1, 3), (2, 3), (4, 1), (4, 3)):
        model = build(x, tensor=tensor, width=12, depth=depth, hidden=hidden, dtype=torch.float64)
        points, rows = medians(model).T / x.std(0), x / x.std(0)
        index = torch.cdist(points, rows).argmin(1)
        assert_close(points, rows[index], rtol=0, atol=1e-6)
        assert len(index.unique()) == 12


def test_kernels_are_narrow() -> None:
    x = torch.randn(500, 2)
    model = build(x, width=8, dtype=torch.float64)
    (family,) = model.leaves.families
    at = family.evaluate(medians(model).mean(1, keepdim=True), [0, 1])
    assert at.log_density.shape == (2, 1, 8)
    on_row = torch.stack(
        [family.evaluate(medians(model)[:, [k]], [0, 1]).log_density[:, 0, k] for k in range(8)]
    )
    # A logistic density of scale h is 1 / 4h at its median; h = 1/4 of the column's scale.
    assert ((on_row.exp() * family.scale > 0.5) & (on_row.exp() * family.scale < 2)).all()


def test_holes_are_filled_from_their_column() -> None:
    x = torch.randn(30, 3)
    x[torch.rand(30, 3) < 0.5] = NAN
    points = medians(build(x, width=20, dtype=torch.float64))
    for column, own in zip(x.T, points, strict=True):
        seen = column[~column.isnan()]
        assert (own[:, None] - seen).abs().amin(1).max() < 1e-6


def test_scores_are_near_those_of_a_kernel_estimate() -> None:
    """With one kernel per row and no weight off the diagonal, CP is a kernel density estimate."""
    x = torch.randn(30, 2)
    model = build(x, tensor="cp", width=30, dtype=torch.float64)
    z = (x[:, None] - x) / x.std(0, correction=0) / 0.25
    kernel = -(torch.nn.functional.softplus(z) + torch.nn.functional.softplus(-z))
    kernel = (kernel - (0.25 * x.std(0, correction=0)).log()).sum(-1)
    expected = kernel.logsumexp(1) - torch.tensor(30.0).log()
    assert (model.logpdf(x) - expected).abs().mean() < 0.5


def test_codes_of_the_rows_gain_mass() -> None:
    x = torch.randint(0, 4, (100, 2)).double()
    model = build(x, tensor="cp", width=6, categories={0: 4, 1: 4}, dtype=torch.float64)
    mass = model.leaves.families[0].logits.softmax(-1)  # (2, 6, 4)
    assert (mass.amax(-1) > 0.5).all()
    modes = mass.argmax(-1).T.double()  # (6, 2)
    assert all(bool((x == mode).all(1).any()) for mode in modes)


def test_intervals_start_at_their_middle_or_end() -> None:
    x = torch.randn(40, 2)
    lower, upper = x - 0.5, x + 0.5
    lower[::4, 0], upper[1::4, 0] = -INF, INF
    lower[::5, 1] = upper[::5, 1] = x[::5, 1]
    data = Evidence.interval(lower, upper)
    model = build(data, width=25, dtype=torch.float64)
    assert_works(model, data)
    middle = torch.where(lower[:, 0].isinf(), x[:, 0] + 0.5, x[:, 0])
    middle = torch.where(upper[:, 0].isinf(), x[:, 0] - 0.5, middle)
    rows = torch.stack([middle, x[:, 1]], 1)
    points = medians(model).T
    assert_close(points, nearest(points, rows), rtol=0, atol=1e-6)


def test_sets_in_data_are_filled_like_holes() -> None:
    plain = Evidence.exact(table(20)[:, :2].nan_to_num())
    masks = {2: torch.rand(20, 3) < 0.7}
    masks[2][:, 0] = True
    hole = torch.full((20, 1), NAN)
    data = plain.join(Evidence((2,), hole, hole, masks))
    assert_works(build(data, width=4, categories={2: 3}), data)


# Seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("tensor", TENSORS)
def test_same_seed_same_parameters(tensor: Any, init: Any) -> None:
    x = table()
    options = {"tensor": tensor, "init": init, "width": 4, "categories": {2: 3}, "tree": "random"}
    one = build(x, seed=3, **options).state_dict()
    torch.manual_seed(99)
    two = build(x, seed=3, **options).state_dict()
    other = build(x, seed=4, **options).state_dict()
    assert one.keys() == two.keys() == other.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_start_again() -> None:
    x = torch.randn(50, 3)
    model = build(x, width=4, dtype=torch.float64, tree="balanced")
    before = model.logpdf(x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    start(model, x)
    assert_close(model.logpdf(x), before, rtol=0, atol=1e-12)


# Rejected -------------------------------------------------------------------------------------


BAD: dict[str, tuple[Any, dict[str, Any]]] = {
    r"at least one row.*got shape \(0, 3\)": (torch.zeros(0, 3), {}),
    r"one column; got shape \(3, 0\)": (torch.zeros(3, 0), {}),
    "two dims": (torch.zeros(3), {}),
    "finite or NaN": (torch.full((2, 2), INF), {}),
    "a tensor; got ndarray": (np.zeros((3, 2)), {}),
    r"columns 0, 1, ...; got \(0, 2\)": (Evidence.exact(torch.zeros(2, 2), [0, 2]), {}),
    "'copula'; got 'tt'": (torch.zeros(3, 2), {"tensor": "tt"}),
    "'location'.; got 'zero'": (torch.zeros(3, 2), {"init": "zero"}),
    "Tree or one of.*got 'oak'": (torch.zeros(3, 2), {"tree": "oak"}),
    "over 2 columns": (torch.zeros(3, 2), {"tree": balanced(3)}),
    "`categories`.*0..1; got": (torch.zeros(3, 2), {"categories": {2: 3}}),
    "at least 1; got": (torch.zeros(3, 2), {"categories": {0: 0}}),
    "`width` to be at least 1; got 0": (torch.zeros(3, 2), {"width": 0}),
    "`depth` to be at least 1; got 0": (torch.zeros(3, 2), {"depth": 0}),
    "`hidden` to be at least 1": (torch.zeros(3, 2), {"hidden": 0}),
    "pool": (torch.zeros(3, 2), {"pool": 1}),
    r"at most \d+ for the full tensor; got 100 \*\* 9. Use tensor='ht'": (
        torch.zeros(3, 9),
        {"tensor": "full"},
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_rejected(message: str) -> None:
    data, options = BAD[message]
    with pytest.raises(TypeError if "ndarray" in message else ValueError, match=message):
        build(data, **options)


def test_a_lattice_with_many_gaps_is_still_no_column_to_couple() -> None:
    lower = torch.randn(40, 2).floor()
    upper = lower + torch.tensor([1.0, 0.0])
    hidden = torch.arange(40) % 4 > 0  # three cells of four are missing
    lower[hidden], upper[hidden] = NAN, NAN
    assert couplable(Evidence.interval(lower, upper), {}, {}) == (1,)
