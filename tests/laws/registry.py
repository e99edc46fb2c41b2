"""Small models of every kind, with generic parameters; the laws run over all of them.

To put a new density under the laws, add a builder below. A density that loses some queries (as
nMDMA does) names what it still answers: the laws ask `names("cdf", ...)` for what they need.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import uniform_lattice
from marginals.densities.build import build as start_model
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nested_columns import NestedColumns, Nesting
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import CategoricalLeaves, LeafFamily, Leaves, NeuralLeaves, SharedLeaves
from marginals.structure import Tree, balanced, flat, random
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor
from marginals.tensors.couplings import Couplings

# What a law may need of a density beside its joint density and its samples.
EVERYTHING = frozenset({"cdf", "marginal", "univariates"})
# A column of a model: None for a continuous one, else its number of categories.
Kinds = Sequence[int | None]


@dataclass(frozen=True)
class Entry:
    build: Callable[[Kinds], Density]
    kinds: tuple[int | None, ...]
    answers: frozenset[str]


REGISTRY: dict[str, Entry] = {}


def register(
    name: str, kinds: Kinds, answers: frozenset[str] = EVERYTHING
) -> Callable[[Callable[[Kinds], Density]], None]:
    """Register the builder of a model of these columns; a view may build it of more."""

    def add(build: Callable[[Kinds], Density]) -> None:
        REGISTRY[name] = Entry(build, tuple(kinds), answers)

    return add


def names(
    *needs: str, at_least: int = 1, at_most: int = 99, smooth: int = 0, coded: int = 0
) -> list[str]:
    """List the models that answer what a law needs, by their number of columns.

    `smooth` and `coded` are the fewest continuous and categorical columns among them.
    """
    return [
        name
        for name, entry in REGISTRY.items()
        if entry.answers.issuperset(needs)
        and at_least <= len(entry.kinds) <= at_most
        and entry.kinds.count(None) >= smooth
        and len(entry.kinds) - entry.kinds.count(None) >= coded
    ]


def build(name: str) -> Density:
    """Build a model; the same name always gives the same parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(sum(name.encode()))
        model = REGISTRY[name].build(REGISTRY[name].kinds)
    assert model.categories == REGISTRY[name].kinds
    assert all(p.dtype == torch.float64 for p in model.parameters())
    return model


# Parts ----------------------------------------------------------------------------------------


@torch.no_grad()
def shake(module: nn.Module, noise: float = 1.0) -> None:
    """Move every parameter off its start, so that no symmetry hides a mistake."""
    for parameter in module.parameters():
        parameter.add_(noise * torch.randn_like(parameter))


@torch.no_grad()
def generic_neural(columns: int, width: int, depth: int = 1, hidden: int = 3) -> NeuralLeaves:
    """Leaves whose slopes are of order one, which keeps quadrature cheap, and nothing else is."""
    leaves = NeuralLeaves(columns, width, depth, hidden)
    for weight in leaves.weights:
        weight.copy_(0.15 * torch.randn_like(weight) + 1.2 / weight.shape[1])
    for bias in leaves.biases:
        bias.copy_(0.8 * torch.randn_like(bias))
    for gate in leaves.gates:
        gate.copy_(0.5 * torch.randn_like(gate))
    leaves.location.copy_(2 * torch.randn(columns))
    leaves.scale.copy_(torch.empty(columns).uniform_(0.5, 3))
    return leaves


@torch.no_grad()
def generic_shared(
    columns: int, width: int, base: str, hidden: int = 4, bend: float = 0.3
) -> SharedLeaves:
    """Leaves on a bent scale, with components of several sizes."""
    leaves = SharedLeaves(columns, width, hidden, base)
    for parameter in leaves.learned.parameters():
        parameter.add_(bend * torch.randn_like(parameter))
    leaves.learned.location.copy_(2 * torch.randn(columns))
    leaves.learned.unit.copy_(torch.empty(columns).uniform_(0.5, 3))
    leaves.spreads.add_(0.5 * torch.randn_like(leaves.spreads))
    return leaves


def generic_leaves(
    kinds: Kinds, width: int, depth: int = 1, hidden: int = 3, base: str = "neural"
) -> Leaves:
    smooth = [j for j, kind in enumerate(kinds) if kind is None]
    coded = [j for j, kind in enumerate(kinds) if kind is not None]
    families: list[LeafFamily] = []
    owned = []
    if smooth:
        neural = base == "neural"
        families.append(
            generic_neural(len(smooth), width, depth, hidden)
            if neural
            else generic_shared(len(smooth), width, base)
        )
        owned.append(smooth)
    if coded:
        families.append(CategoricalLeaves([kinds[j] for j in coded], width))
        owned.append(coded)
    return Leaves(families, owned)


@torch.no_grad()
def generic_tensor(tensor: ComponentTensor) -> ComponentTensor:
    """Shake a tensor off its start near the diagonal, and let MERA's two terms share alike."""
    tensor.start()
    # Softplus with beta 20 is flat below -0.2: less noise there, or most weights vanish.
    shake(tensor, 0.1 if tensor.parametrisation == "softplus" else 1.0)
    if isinstance(tensor, HierarchicalTensor) and tensor.share is not None:
        tensor.share.copy_(torch.randn_like(tensor.share))
    return tensor


def generic(
    tensor: ComponentTensor, kinds: Kinds, depth: int = 1, hidden: int = 3, base: str = "neural"
) -> Density:
    """Join a generic tensor with generic leaves of its width."""
    leaves = generic_leaves(kinds, tensor.size[1], depth, hidden, base)
    return TensorDensity(leaves, generic_tensor(tensor))


@torch.no_grad()
def generic_copula(
    kinds: Kinds, width: int, own: int, common: int, step: float | None = None
) -> CoupledDensity:
    """Couple the continuous columns by random loadings; the others are loose.

    With a step, all coupled columns except the last are lattices around their centres.
    """
    tied = [j for j, kind in enumerate(kinds) if kind is None]
    loose = [j for j, kind in enumerate(kinds) if kind is not None]
    families: list[LeafFamily] = [generic_shared(len(tied), width, "normal")]
    owned = [tied]
    if loose:
        families.append(CategoricalLeaves([kinds[j] for j in loose], width))
        owned.append(loose)
    couplings = Couplings(len(tied), width, own, common)
    shake(couplings)
    tables = {}
    observed = torch.zeros(2, len(kinds))
    if step is not None:
        for i, column in enumerate(tied[:-1]):
            middle, unit = (
                float(t[i]) for t in (families[0].learned.location, families[0].learned.unit)
            )
            observed[:, column] = torch.tensor([middle - 3 * unit, middle + 3 * unit])
            tables[column] = uniform_lattice(step * unit, middle, 60)(middle, middle)
    lattices = CoupledLattices.of(tables, Evidence.exact(observed))
    return CoupledDensity(Leaves(families, owned), couplings, lattices)


@torch.no_grad()
def mixture(members: Sequence[Density], weights: Sequence[float] | None = None) -> Mixture:
    """Mix models on one location and scale per column, which quadrature needs."""
    neural = [part for member in members for part in member.modules()]
    neural = [part for part in neural if isinstance(part, NeuralLeaves)]
    for part in neural:
        part.location.copy_(neural[0].location)
        part.scale.copy_(neural[0].scale)
    for member in members:
        for part in member.modules():
            if isinstance(part, SharedLeaves) and neural:
                part.learned.location.copy_(neural[0].location)
                part.learned.unit.copy_(neural[0].scale)
    return Mixture(members, weights)


def chain(columns: int) -> Tree:
    """A tree as deep as it can be, which coupling gives for nested similarities."""
    groups: tuple = (columns - 2, columns - 1)
    for column in reversed(range(columns - 2)):
        groups = (column, groups)
    return Tree(groups)


def ht(tree: Tree, width: int, **options: object) -> HierarchicalTensor:
    return HierarchicalTensor(tree, width, **options)


# Models ---------------------------------------------------------------------------------------
# Each kind of leaf, tensor and density occurs at least once; the shapes of trees are the business
# of test_contraction.py, which compares every tensor with a full sum.


@register("one column", [None])
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(1), 4), kinds)


@register("one column, cp, depth 3", [None])
def _(kinds: Kinds) -> Density:
    return generic(CPTensor(1, 3), kinds, depth=3, hidden=2)


@register("one categorical column", [4])
def _(kinds: Kinds) -> Density:
    return generic(FullTensor(1, 3), kinds)


@register("ht balanced, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(2), 5), kinds, depth=2, hidden=4)


@register("ht balanced, 3 columns", [None] * 3)
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(3), 3), kinds)


@register("ht random, 5 columns, pool 3", [None] * 5)
def _(kinds: Kinds) -> Density:
    return generic(ht(random(5, pool=3, seed=2), 3), kinds, hidden=5)


@register("ht flat, 3 columns", [None] * 3)
def _(kinds: Kinds) -> Density:
    return generic(ht(flat(3), 4), kinds)


@register("ht mixed columns, 3", [None, 3, None])
def _(kinds: Kinds) -> Density:
    return generic(ht(Tree(((1, 2), 0)), 3), kinds, depth=2, hidden=2)


@register("ht mixed columns, 5, softplus", [2, None, 5, None, None])
def _(kinds: Kinds) -> Density:
    tensor = ht(random(5, seed=3), 3, parametrisation="softplus")
    return generic(tensor, kinds)


@register("ht categorical, 4 columns", [2, 3, 1, 4])
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(4), 3), kinds)


@register("mera, 3 columns", [None] * 3)
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(3), 3, mera=True), kinds)


@register("mera chain, 4 columns, softplus", [None] * 4)
def _(kinds: Kinds) -> Density:
    tensor = ht(chain(4), 4, mera=True, parametrisation="softplus")
    return generic(tensor, kinds, hidden=2)


@register("mera mixed columns, 5, pool 3", [None, None, 3, None, 2])
def _(kinds: Kinds) -> Density:
    return generic(ht(Tree(((4, 0, 2), (1, 3))), 3, mera=True), kinds)


@register("cp, 2 columns, softplus", [None] * 2)
def _(kinds: Kinds) -> Density:
    return generic(CPTensor(2, 4, "softplus"), kinds, depth=2, hidden=1)


@register("cp mixed columns, 3", [4, None, 2])
def _(kinds: Kinds) -> Density:
    return generic(CPTensor(3, 4), kinds)


@register("full, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    return generic(FullTensor(2, 4), kinds, hidden=4)


@register("full, 3 columns, softplus", [None] * 3)
def _(kinds: Kinds) -> Density:
    return generic(FullTensor(3, 3, "softplus"), kinds, depth=2, hidden=2)


@register("cp normal leaves, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    return generic(CPTensor(2, 4), kinds, base="normal")


@register("ht logistic leaves, 3 columns", [None] * 3)
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(3), 3), kinds, base="logistic")


@register("ht normal leaves, mixed columns, 3", [None, 3, None])
def _(kinds: Kinds) -> Density:
    return generic(ht(Tree(((1, 2), 0)), 3), kinds, base="normal")


@register("copula, one column", [None])
def _(kinds: Kinds) -> Density:
    return generic_copula(kinds, 3, 0, 0)  # there is nothing to couple


@register("copula, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    return generic_copula(kinds, 3, 1, 1)


@register("copula mixed columns, 4", [3, None, None, 2])
def _(kinds: Kinds) -> Density:
    return generic_copula(kinds, 2, 1, 0)


# Boxes of more than two coupled columns carry an error: see tests/densities/test_copula.py.
@register("copula, 3 columns", [None] * 3, frozenset({"marginal", "univariates"}))
def _(kinds: Kinds) -> Density:
    return generic_copula(kinds, 3, 2, 1)


# The density of a lattice column is smooth, and its CDF a line in each cell.
@register("copula with lattices, 3 mixed columns", [None, 3, None], frozenset({"marginal"}))
def _(kinds: Kinds) -> Density:
    return generic_copula(kinds, 3, 1, 1, step=0.3)


@register("copula placed by factors, 4 mixed columns", [4, None, 6, None])
def _(kinds: Kinds) -> Density:
    trait = torch.randn(60, 1)
    rows = trait + 0.5 * torch.randn(60, len(kinds))
    codes = {c: count for c, count in enumerate(kinds) if count is not None}
    for column, count in codes.items():
        rows[:, column] = rows[:, column].round().add(count // 2).clamp(0, count - 1)
    options = {"init": "factors", "factors": 2, "categories": codes}
    return start_model(rows, tensor="copula", width=8, rank=1, dtype=torch.float64, **options)


@register("copula rank 0, mixed columns, 3", [None, 3, None])
def _(kinds: Kinds) -> Density:
    return generic_copula(kinds, 3, 0, 0)


@register("mixture of ht and copula, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    members = [generic(ht(balanced(2), 3), kinds), generic_copula(kinds, 2, 1, 0)]
    return mixture(members, [0.6, 0.4])


@register("width 1, 3 columns", [None, 3, None])
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(3), 1), kinds)


@register("width 1 mera, 4 columns", [None] * 4)
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(4), 1, mera=True), kinds)


@register("mixture of families, 3 columns", [None] * 3)
def _(kinds: Kinds) -> Density:
    members = [
        generic(ht(balanced(3), 3), kinds),
        generic(CPTensor(3, 2), kinds, depth=2, hidden=2),
        generic(FullTensor(3, 2), kinds, hidden=1),
    ]
    return mixture(members, [0.5, 0.2, 0.3])


@register("nested mixture, 3 mixed columns", [None, 3, None])
def _(kinds: Kinds) -> Density:
    inner = mixture([generic(CPTensor(3, 2), kinds), generic(ht(chain(3), 3), kinds)], [3, 1])
    return mixture([inner, generic(ht(balanced(3), 3, mera=True), kinds)], [1, 2])


@register("nested columns, 4 mixed", [2, None, 4, None])
def _(kinds: Kinds) -> Density:
    inner = generic(ht(Tree((0, (1, 2))), 3), kinds[1:])
    return NestedColumns(inner, [Nesting(0, 2, (1, 0, 1, 1))], [2])


@register("nested columns of a copula, 4 mixed", [None, 4, 3, 2])
def _(kinds: Kinds) -> Density:
    nestings = [Nesting(3, 1, (0, 1, 1, 0)), Nesting(2, 1, (2, 0, 1, 1))]
    return NestedColumns(generic_copula(kinds[:2], 3, 0, 0), nestings, [2, 3])


@register("mixture of views, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    model = generic(ht(balanced(4), 3), [None, 2, None, None])
    for part in model.modules():
        if isinstance(part, NeuralLeaves):
            part.location.fill_(0.5)
            part.scale.fill_(1.5)
    views = [model.marginal([2, 0]), model.condition({1: 1, 3: (0.0, None)})]
    return Mixture(views, [2, 1])


@register("marginal view, 2 of 4 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    return generic(ht(balanced(4), 4), [None] * 4).marginal([3, 1])


@register("conditional view, 3 of 5 columns", [None, 3, None])
def _(kinds: Kinds) -> Density:
    model = generic(ht(random(5, seed=5), 3), [None, None, 3, None, 4])
    return model.condition({0: 0.7, 4: {0, 3}})


@register("view of a view of a mixture, 2 columns", [None] * 2)
def _(kinds: Kinds) -> Density:
    kinds = [None] * 4
    model = mixture([generic(ht(balanced(4), 3), kinds), generic(CPTensor(4, 4), kinds)])
    return model.condition({2: (-1.0, 2.5)}).marginal([2, 0, 1]).condition({1: -0.3})


# Rows -----------------------------------------------------------------------------------------


def coded(model: Density) -> list[int]:
    return [c for c, count in enumerate(model.categories) if count is not None]


def smooth(model: Density) -> list[int]:
    return [c for c, count in enumerate(model.categories) if count is None]


def rows_of(model: Density, count: int, spread: float = 0.3) -> torch.Tensor:
    """Draw typical rows of a model (count, D), and move the continuous cells off them a little."""
    rows = model.sample(count).detach()
    at = smooth(model)
    rows[:, at] += spread * torch.randn(count, len(at))
    return rows


def boxes_of(model: Density, count: int, holes: bool = True) -> Evidence:
    """Draw rows in which each cell is exact, an interval of one of three kinds, or missing."""
    rows = rows_of(model, count)
    width = torch.empty_like(rows).exponential_().clamp_min(0.01)
    width[:, coded(model)] = width[:, coded(model)].ceil()
    kind = torch.randint(0, 5 if holes else 4, rows.shape)
    lower = torch.where((kind == 1) | (kind == 2), rows - width, rows)
    upper = torch.where(kind == 1, rows + 0.5 * width, rows)
    lower = torch.where(kind == 3, -torch.inf, lower)
    lower = torch.where(kind == 4, torch.nan, lower)
    upper = torch.where(kind == 4, torch.nan, upper)
    upper = torch.where((kind == 2) & (torch.rand(rows.shape) < 0.5), torch.inf, upper)
    return Evidence.interval(lower, upper)
