"""Build a model for data: leaf families, tree, tensor and start."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from marginals import structure
from marginals.cells.evidence import Evidence, as_evidence
from marginals.cells.lattice_table import FINE_WIDTH, Lattice, LatticeTable
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_atoms import CoupledAtoms, smooth_shares, without_atoms
from marginals.densities.coupled_lattices import LEAST_STEPS, CoupledLattices
from marginals.densities.em_start import start_by_em
from marginals.densities.factor_start import start_by_factors
from marginals.densities.located_components import located
from marginals.densities.mixture_em import fit_components
from marginals.densities.sample_weights import checked_weight, drawn_by_weight
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import AtomLeaves, CategoricalLeaves, LeafFamily, Leaves
from marginals.leaves.atoms import CONTINUOUS
from marginals.numerics.logspace import Parametrisation
from marginals.structure import Tree
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor
from marginals.tensors.couplings import LEAST, Couplings

TensorName = Literal["ht", "cp", "mera", "full", "copula"]
TreeName = Literal["coupled", "varied", "balanced", "random"]
LeavesName = Literal["neural", "normal", "logistic"]
Init = Literal["data", "paper", "em", "scales", "factors", "location"]

# Rows that determine scales and tree: enough for three digits of a correlation.
_MOST_ROWS = 100_000
# A lattice is coupled if its floor is at most this share of the column's standard deviation: on
# coarser ones, such as 0 and 1, a floor would blur what the column says about the others.
_MOST_FLOOR = 0.5
# A column with atoms is coupled if at least this share of its values is at none.
_LEAST_SMOOTH = 0.02
# Share of the rows from which on ranges that hold an atom make steps too slow.
_MOST_TWICE = 0.95
# The least unique variance of a lattice column: smaller ones are lost in the digits of float32.
_LEAST_UNIQUE = 1e-9
_LEVELS = torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)  # where steps are measured
# Rows with cells beyond the table, such as the first and last cells of a bounded lattice, cost an
# integral for each step of training.
_MOST_BEYOND = 0.02


def build(
    data: Evidence | Tensor,
    *,
    tensor: TensorName = "ht",
    width: int = 100,
    leaves: LeavesName | None = None,
    depth: int = 1,
    hidden: int | None = None,
    tree: TreeName | Tree = "coupled",
    pool: int = 2,
    rank: int = 2,
    common: int = 0,
    factors: int = 6,
    coupled: Sequence[int] | None = None,
    categories: Mapping[int, int] | None = None,
    atoms: Mapping[int, Sequence[float]] | None = None,
    lattices: Mapping[int, Lattice] | None = None,
    alone: Sequence[int] = (),
    init: Init = "data",
    trim: float = 0.0,
    sample_weight: Tensor | None = None,
    seconds: float | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> TensorDensity | CoupledDensity:
    """Build a model for data, ready to be trained.

    Args:
        data: Rows to start from, (N, D) with NaN for missing cells, or evidence.
        tensor: "ht" (hierarchical Tucker), "mera", "cp", "full" (for few columns), or "copula"
            (components whose columns are coupled by low-rank correlations).
        width: Number of components M.
        leaves: "neural" (a network per component, as in the paper), or "normal" or "logistic" on
            one learned scale per column. The default is "normal" for copula components and "neural"
            for the others.
        depth, hidden: Layers and units of the networks. The defaults are 1 and 3 for each
            component, and 8 units for a learned scale.
        tree: "coupled" (by |correlation|), "varied" (the same, randomised), "balanced", "random",
            or a `Tree`.
        pool: Number of groups that a node of the tree joins.
        rank, common: Number of factors in each copula component, and of factors that all share.
        factors: Number of factors that place the components with `init="factors"`.
        coupled: Columns to couple inside copula components. The default is all continuous columns
            whose cells are mostly exact and all lattices that are fine enough, except columns that
            are nearly always at an atom.
        categories: Number of categories of each categorical column.
        atoms: For each column with atoms, its points of positive mass.
        lattices: For each column with values on a lattice, a function that tabulates its cells.
            Copula components couple such a column by points instead of cells.
        alone: Categorical columns independent of all others; each has one table of probabilities.
        init: "data" starts component k as a narrow kernel on a random row, with weights near the
            diagonal; "paper" uses the paper's parametrisation and start; "em" starts copula
            components as a Gaussian mixture and others, unless their leaves are neural, as a
            mixture of independent columns; "scales" starts copula components at one centre with
            growing spreads; "factors" places many components by few factors, which suits tables of
            related categories; "location" starts copula components by EM and copies each for every
            pattern of few codes, so that codes and atoms move the numbers. With one row, or with
            neural leaves, EM and factors fall back to "data".
        trim: Share of rows that EM ignores when it starts copula components: the least likely
            ones, so that outliers get no component to themselves.
        sample_weight: One weight per row, used by all starts but "data" and "paper".
        seconds: Time limit of "factors", and of "em", "scales" and "location" for copula
            components.
        dtype: Dtype of the parameters.
        seed: Seed for the start and a random tree.

    >>> model = build(torch.randn(100, 3), width=8)
    >>> model.columns
    3
    """
    evidence = as_evidence(data)
    _check_data(evidence)
    categories, atoms, lattices = categories or {}, atoms or {}, lattices or {}
    if sample_weight is not None:
        weight = checked_weight(sample_weight, len(evidence), "sample_weight", "data")
        if init not in ("data", "paper"):
            evidence = evidence.rows(drawn_by_weight(weight, seed).to(evidence.lower.device))
    x = _sample_of_rows(evidence, seed).midpoints(atoms).double().cpu()  # (N, D)
    tied: tuple[int, ...] = ()
    if tensor == "copula":
        tied = _coupled(evidence, coupled, categories, atoms, lattices)
        if leaves not in (None, "normal"):
            raise ValueError(
                f"Expected `leaves` to be 'normal' for copula components; got {leaves!r}."
            )
        leaves = "normal"
    family = _family(leaves or "neural", depth, hidden)
    families = _leaves(x.shape[1], width, family, categories, atoms, tied, alone)
    model: TensorDensity | CoupledDensity
    if tied:
        bare = without_atoms(evidence, {c: atoms[c] for c in tied if c in atoms})
        tables = _tables(bare, {c: lattices[c] for c in tied if c in lattices})
        held = CoupledLattices.of(
            tables, bare, _atoms(evidence, bare, tied, atoms, tables, lattices)
        )
        couplings = Couplings(len(tied), width, rank, common, _least(bare, tied, lattices))
        model = CoupledDensity(families, couplings, held)
    else:
        how: Parametrisation = "softplus" if init == "paper" else "softmax"
        model = TensorDensity(families, _tensor(tensor, x, width, tree, pool, how, seed))
    model = model.to(dtype)
    if init == "location" and seconds is not None:
        seconds /= 2  # half for the components, half for what codes do to them
    start(model, x, init, seed, evidence, factors=factors, trim=trim, seconds=seconds)
    if init == "location" and isinstance(model, CoupledDensity) and len(x) > 1:
        model = located(model, x, seed, seconds)
    return model.to(evidence.lower.device)


@torch.no_grad()
def start(
    model: TensorDensity | CoupledDensity,
    x: Tensor,
    init: Init = "data",
    seed: int = 0,
    evidence: Evidence | None = None,
    *,
    factors: int = 6,
    trim: float = 0.0,
    seconds: float | None = None,
) -> None:
    """Set all parameters for data `x` (N, D), NaN where missing: the middles of `evidence`.

    EM of copula components and factors stop after the seconds. As "location" adds components, it
    starts them as "em" does here, and only `build` completes it.
    """
    if init not in get_args(Init):
        raise ValueError(f"Expected `init` to be one of {get_args(Init)}; got {init!r}.")
    if init == "factors" and len(x) > 1 and all(f.has_closed_form_start for f in model.leaves):
        start_by_factors(model, x, factors, seed, seconds)
        return
    init = "data" if init == "factors" else "em" if init == "location" else init
    if init in ("em", "scales"):
        if isinstance(model, CoupledDensity) and len(x) > 1:
            start_by_em(model, x, seed, init == "scales", trim, seconds)
            return
        closed = all(family.has_closed_form_start for family in model.leaves)
        by_em = init == "em" and len(x) > 1 and closed
        init = "data"  # one row, or no columns to couple
    else:
        by_em = False
    generator = torch.Generator().manual_seed(seed)
    if isinstance(model, CoupledDensity):
        x = model.lattices.atoms.apart(x)
    rows = _complete_rows(x, model.leaves.width, generator)  # (M, D)
    for family, owned in zip(model.leaves, model.leaves.owned, strict=True):
        family.scale_to(x[:, list(owned)].T)
        if init == "data":
            family.start(rows[:, list(owned)].T, generator)
        else:
            family.start_as_paper(generator)
    if isinstance(model, CoupledDensity):
        model.couplings.start(x[:, list(model.coupled)], generator)
    elif by_em and evidence is not None:
        cells = evidence.to(x.device, next(model.parameters()).dtype)
        model.tensor.start(fit_components(model.leaves, cells, generator))
    elif init == "data":
        model.tensor.start()
    else:
        model.tensor.start_as_paper(generator)


def couplable(
    evidence: Evidence,
    categories: Mapping[int, int],
    atoms: Mapping[int, Sequence[float]],
    lattices: Mapping[int, Lattice] | None = None,
    alone: Sequence[int] = (),
) -> tuple[int, ...]:
    """Return the columns that copula components couple by default.

    The options are those of `build`; categorical columns, alone or not, are not coupled.
    """
    bare = without_atoms(evidence, atoms)
    rare = {c for c in atoms if _observed(bare, c) < max(2, _LEAST_SMOOTH * _observed(evidence, c))}
    # Several intervals in a row would cost an integral over all of them at each step.
    exact = [c for c in evidence.columns if _is_mostly_exact(bare, c)]
    tables = _tables(bare, lattices or {})
    found = {*exact, *(c for c, table in tables.items() if _is_coupled(bare, c, table))}
    # A cell that holds an atom and other values would count twice at each step, unless a table of
    # cells says which of them it is.
    twice = {
        c
        for c in atoms
        if tables.get(c) is None and _share_holding(evidence, c, atoms[c]) > _MOST_TWICE
    }
    return tuple(sorted(found - rare - twice - set(categories)))


def _share_holding(evidence: Evidence, column: int, points: Sequence[float]) -> float:
    """Return the share of a column's cells that are ranges and hold one of its atoms."""
    cells = evidence.select([column])
    low, high = cells.lower, cells.upper  # (B, 1)
    at = torch.tensor(points, dtype=low.dtype, device=low.device)
    held = ((low < at) & (at <= high) & (low < high)).any(1)
    return float(held.double().mean())


def _atoms(
    evidence: Evidence,
    bare: Evidence,
    columns: Sequence[int],
    atoms: Mapping[int, Sequence[float]],
    tables: Mapping[int, LatticeTable | None],
    lattices: Mapping[int, Lattice],
) -> CoupledAtoms:
    """Return the atoms of coupled columns; `bare` is the evidence without them."""
    points = {c: sorted(atoms[c]) for c in columns if c in atoms}
    shares = {
        c: smooth_shares(own, evidence.select([c]), bare.select([c]), tables.get(c))
        for c, own in points.items()
    }
    found = {c: [_cell_of(lattices[c], at) for at in points[c]] for c in points if c in lattices}
    cells = {c: [cell for cell in own if cell is not None] for c, own in found.items()}
    cells = {c: own for c, own in cells.items() if len(own) == len(points[c])}
    return CoupledAtoms(points, len(evidence.columns), shares, cells)


def _cell_of(lattice: Lattice, point: float) -> tuple[float | None, float | None] | None:
    """Return the ends of the cell of a lattice that holds a point, None where it has no end."""
    table = lattice(point, point)
    if table is None:
        return None
    cell, last = int(np.searchsorted(table.ends, point)) - 1, len(table) - 1
    low = None if cell < 0 or 0 < table.below == cell else float(table.ends[min(cell, last + 1)])
    end = None if cell > last or 0 < table.above == last - cell else float(table.ends[cell + 1])
    return low, end


def _observed(evidence: Evidence, column: int) -> int:
    return int((~evidence.select([column]).lower.isnan()).sum())


def _is_mostly_exact(evidence: Evidence, column: int) -> bool:
    cells = evidence.select([column])
    observed = (~cells.lower.isnan()).double().sum().clamp_min(1)
    return float((cells.lower < cells.upper).double().sum() / observed) < 0.5


def _tables(evidence: Evidence, lattices: Mapping[int, Lattice]) -> dict[int, LatticeTable | None]:
    """Tabulate the cells of lattices from the first to the last that was observed.

    None stands for a fine lattice, most of whose cells may be exact points already. A lattice that
    has neither a table nor narrow cells is left out.
    """
    found = {}
    for column, lattice in lattices.items():
        seen = evidence.select([column]).midpoints()
        seen = seen[seen.isfinite()]
        table = None
        if len(seen) and not _is_mostly_exact(evidence, column):
            table = lattice(float(seen.min()), float(seen.max()))
        if table is not None or _is_fine(evidence, column):
            found[column] = table
    return found


def _is_coupled(evidence: Evidence, column: int, table: LatticeTable | None) -> bool:
    """Return whether a lattice column is fine enough, with few cells beyond the table."""
    if table is None:
        return True
    seen = evidence.select([column]).midpoints().double()
    seen = seen[seen.isfinite()]
    low, high, spread = (float(of(seen)) for of in (torch.min, torch.max, torch.std))
    near = (table.points >= low - table.widths) & (table.points <= high + table.widths)
    # Cells without an end on one side have their other end in place of a middle.
    beyond = (seen < (table.points[0] + table.ends[0]) / 2) | (
        seen > (table.points[-1] + table.ends[-1]) / 2
    )
    few = float(beyond.double().mean()) <= _MOST_BEYOND and near.any()
    return bool(few and LEAST_STEPS * table.widths[near].max() <= _MOST_FLOOR * spread)


def _least(
    evidence: Evidence, columns: Sequence[int], lattices: Mapping[int, Lattice]
) -> list[float]:
    """Return the least unique variance of each coupled column: that of a step, if it has one.

    Columns that nearly equal each other, such as the start and the end of a trip, then determine
    each other up to their steps, or to 3e-5 standard deviations.
    """
    return [_step_variance(evidence, c, lattices[c]) if c in lattices else LEAST for c in columns]


def _step_variance(evidence: Evidence, column: int, lattice: Lattice) -> float:
    """Return the square of 0.8 steps, in the column's standard deviations, within limits."""
    seen = evidence.select([column]).midpoints().double()
    seen = seen[seen.isfinite()]
    spread = float(seen.std()) if len(seen) > 1 else 0.0
    tables = [lattice(at, at) for at in seen.quantile(_LEVELS).tolist()] if spread > 0 else []
    widths = [float(table.widths.max()) for table in tables if table is not None]
    if not widths:
        return LEAST
    return min(LEAST, max(_LEAST_UNIQUE, (LEAST_STEPS * max(widths) / spread) ** 2))


def _is_fine(evidence: Evidence, column: int) -> bool:
    """Return whether nearly all cells of a lattice are narrow, and not all of them points."""
    cells = evidence.select([column])
    width = (cells.upper - cells.lower)[~cells.lower.isnan()]
    narrow = width <= FINE_WIDTH
    some = bool((narrow & (width > 0)).any())
    return some and float(narrow.double().mean()) >= 1 - _MOST_BEYOND


def _coupled(
    evidence: Evidence,
    requested: Sequence[int] | None,
    categories: Mapping[int, int],
    atoms: Mapping[int, Sequence[float]],
    lattices: Mapping[int, Lattice],
) -> tuple[int, ...]:
    if requested is None:
        return couplable(evidence, categories, atoms, lattices)
    wrong = [c for c in requested if c in categories]
    if wrong:
        raise ValueError(
            f"Expected `coupled` to name continuous columns; got column {wrong[0]}. Leave it out."
        )
    return tuple(sorted(requested))


def _complete_rows(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Pick random rows (M, D) and fill their missing cells with random values of the column."""
    order = torch.randperm(len(x), generator=generator)
    rows = x[order.repeat(-(-count // len(x)))[:count]].clone()
    for column in range(x.shape[1]):
        absent = rows[:, column].isnan()
        seen = x[x[:, column].isfinite(), column]
        seen = seen if len(seen) else torch.zeros(1, dtype=x.dtype)
        fill = torch.randint(len(seen), (int(absent.sum()),), generator=generator)
        rows[absent, column] = seen[fill]
    return rows


def _family(name: LeavesName, depth: int, hidden: int | None) -> dict[str, Any]:
    """Return the kind of leaves for continuous columns and their options."""
    if name == "neural":
        return {"kind": "neural", "depth": depth, "hidden": 3 if hidden is None else hidden}
    if name not in ("normal", "logistic"):
        raise ValueError(f"Expected `leaves` to be 'neural', 'normal' or 'logistic'; got {name!r}.")
    return {"kind": "shared", "base": name, "hidden": 8 if hidden is None else hidden}


def _leaves(
    columns: int,
    width: int,
    family: Mapping[str, Any],
    categories: Mapping[int, int],
    atoms: Mapping[int, Sequence[float]],
    first: Sequence[int],
    alone: Sequence[int],
) -> Leaves:
    """Make the leaf families of all columns; the columns `first` get one of their own."""
    for name, named in (("categories", categories), ("atoms", atoms)):
        if not set(named) <= set(range(columns)):
            raise ValueError(
                f"Expected `{name}` to name columns 0..{columns - 1}; got {sorted(named)}."
            )
    both = sorted(set(categories) & set(atoms))
    if both:
        raise ValueError(f"Expected no atoms in categorical columns; got them in {both}.")
    marked = {c: points for c, points in atoms.items() if c in first}
    atoms = {c: points for c, points in atoms.items() if c not in first}
    taken = {*categories, *atoms, *first}
    plain = [c for c in range(columns) if c not in taken]
    families: dict[tuple[int, ...], LeafFamily] = {}
    options = {key: option for key, option in family.items() if key != "kind"}
    for owned in (tuple(first), tuple(plain)):
        if owned:
            families[owned] = CONTINUOUS[family["kind"]](len(owned), width, **options)
    if atoms:
        owned = tuple(sorted(atoms))
        families[owned] = AtomLeaves([atoms[c] for c in owned], width, family)
    for common in (False, True):
        owned = tuple(c for c in sorted(categories) if (c in alone) == common)
        if owned:
            counts = [categories[c] for c in owned]
            families[owned] = CategoricalLeaves(counts, width, common)
    if marked:  # in the order of `CoupledAtoms.points`
        owned = tuple(range(columns, columns + len(marked)))
        counts = [len(marked[c]) + 1 for c in first if c in marked]
        families[owned] = CategoricalLeaves(counts, width)
    return Leaves(list(families.values()), list(families))


def _tensor(
    name: TensorName,
    x: Tensor,
    width: int,
    tree: TreeName | Tree,
    pool: int,
    how: Parametrisation,
    seed: int,
) -> ComponentTensor:
    columns = x.shape[1]
    if name in ("ht", "mera"):
        shape = _tree(tree, x, pool, seed)
        if shape.columns != columns:
            raise ValueError(f"Expected a tree over {columns} columns; got {shape!r}.")
        return HierarchicalTensor(shape, width, mera=name == "mera", parametrisation=how)
    if name in ("cp", "copula"):  # a copula without columns to couple is CP
        return CPTensor(columns, width, how)
    if name == "full":
        return FullTensor(columns, width, how)
    raise ValueError(
        f"Expected `tensor` to be 'ht', 'mera', 'cp', 'full' or 'copula'; got {name!r}."
    )


def _tree(tree: TreeName | Tree, x: Tensor, pool: int, seed: int) -> Tree:
    if isinstance(tree, Tree):
        return tree
    numbers: np.ndarray[Any, np.dtype[np.float64]] = x.numpy()
    makers: dict[str, Callable[[], Tree]] = {
        "coupled": lambda: structure.from_data(numbers, pool),
        "varied": lambda: structure.from_data(numbers, pool, jitter=0.2, seed=seed),
        "balanced": lambda: structure.balanced(x.shape[1], pool),
        "random": lambda: structure.random(x.shape[1], pool, seed),
    }
    if tree not in makers:
        raise ValueError(f"Expected `tree` to be a Tree or one of {list(makers)}; got {tree!r}.")
    return makers[tree]()


def _sample_of_rows(evidence: Evidence, seed: int) -> Evidence:
    if len(evidence) <= _MOST_ROWS:
        return evidence
    order = torch.randperm(len(evidence), generator=torch.Generator().manual_seed(seed))
    return evidence.rows(order[:_MOST_ROWS].to(evidence.lower.device))


def _check_data(evidence: Evidence) -> None:
    if len(evidence) == 0 or not evidence.columns:
        raise ValueError(
            "Expected `data` to have at least one row and one column; got shape "
            f"{tuple(evidence.lower.shape)}."
        )
    if evidence.columns != tuple(range(len(evidence.columns))):
        raise ValueError(f"Expected `data` to hold columns 0, 1, ...; got {evidence.columns}.")
