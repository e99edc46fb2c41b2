"""Split copula components so that codes depend on each other within what was one component.

A few components with all correlations hold what the numbers of a small table say about each other,
but in each of them the columns of codes are independent. Copies of a component that share its
numbers and differ in their tables of codes, a latent class model within the component, add that
dependence. The tables take closed-form steps of EM; the numbers are evaluated once.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.copied_components import copied
from marginals.densities.coupled import CoupledDensity
from marginals.densities.factor_nodes import updated_masses
from marginals.leaves import CategoricalLeaves

# Rounds of EM; in the first half, the tables of a component are worth so many rows of its copies.
_ROUNDS, _FIRST_ROWS = 30, 1.0
# Share of one row of the component in the table that a copy starts with.
_START_SHARE = 0.5


def codes_of(model: CoupledDensity) -> list[int]:
    """Return the columns of codes that differ between components, without marks of atoms."""
    return [
        column
        for family, owned in zip(model.leaves, model.leaves.owned, strict=True)
        if isinstance(family, CategoricalLeaves) and not family.common
        for column in owned
        if column < model.columns
    ]


@torch.no_grad()
def split_components(
    model: CoupledDensity, data: Evidence, copies: int, seed: int = 0
) -> CoupledDensity:
    """Return a model with several copies of each component, which differ in their tables of codes.

    Args:
        model: A fitted model with K components.
        data: Rows, (N, D).
        copies: How many components each becomes.
        seed: Seed for the rows at which the copies start.
    """
    device, width = model.couplings.raw.device, model.leaves.width
    model = copied(model, range(width))  # on the CPU, where small tables are fastest
    data = data.to(torch.device("cpu"), model.couplings.raw.dtype)
    columns = codes_of(model)
    counts = [n for n in (model.categories[c] for c in columns) if n is not None]
    parent = torch.cat(list(_log_masses(model, columns)), 1).exp()  # (K, V)
    seen = torch.cat([_indicators(data, c, n) for c, n in zip(columns, counts, strict=True)], 1)
    # Points in place of cells: which component a row belongs to needs no integral.
    rest = [c for c in data.columns if c not in columns]
    middles = data.select(rest).midpoints({c: p for c, p in model.atoms.items() if c in rest})
    points = Evidence.exact(middles.to(model.couplings.raw), rest)
    values = [copied(model, [k]).log_value(points) for k in range(width)]
    numbers = torch.stack(values, 1).double() + model.couplings.log_weights().double()  # (N, K)
    generator = torch.Generator().manual_seed(seed)
    start = _start(numbers, seen, parent, counts, copies, generator)
    order = torch.arange(width).repeat_interleave(copies)
    weights, masses = _fitted(numbers[:, order], seen, parent[order], start, counts, copies)
    found = copied(model, order.tolist())
    raw = found.couplings.raw
    raw.copy_((raw + weights.log()).to(raw))
    _set_masses(found, dict(zip(columns, masses.log().split(counts, 1), strict=True)))
    return found.to(device)


def _start(
    numbers: Tensor,
    seen: Tensor,
    parent: Tensor,
    counts: Sequence[int],
    copies: int,
    generator: torch.Generator,
) -> Tensor:
    """Return masses (K copies, V): half those of the component, half one of its rows."""
    shares = (numbers + seen @ parent.log().T).softmax(1).T.clamp_min(1e-12)  # (K, N)
    rows = torch.multinomial(shares, copies, replacement=True, generator=generator)
    masses = parent.repeat_interleave(copies, 0)
    row = seen[rows.flatten()]
    parts = zip(masses.split(list(counts), 1), row.split(list(counts), 1), strict=True)
    mixed = [
        torch.where(r.sum(1, keepdim=True) > 0, (1 - _START_SHARE) * m + _START_SHARE * r, m)
        for m, r in parts
    ]
    return torch.cat(mixed, 1)


def _fitted(
    numbers: Tensor,
    seen: Tensor,
    parent: Tensor,
    masses: Tensor,
    counts: Sequence[int],
    copies: int,
) -> tuple[Tensor, Tensor]:
    """Return the weights of copies within their components (C,), and their masses (C, V), by EM.

    Args:
        numbers: Log values of rows without their codes for each copy, (N, C).
        seen: Indicators of the rows' codes, (N, V).
        parent: Masses of the codes in the component of each copy, (C, V).
        masses: Masses to start from, (C, V).
        counts: The number of codes of each column.
        copies: The number of copies of a component.
    """
    weights = torch.full_like(numbers[0], 1 / copies)
    for turn in range(_ROUNDS):
        shares = (numbers + weights.log() + seen @ masses.log().T).softmax(1)  # (N, C)
        held = shares.T @ seen  # (C, V)
        parts = zip(held.split(list(counts), 1), parent.split(list(counts), 1), strict=True)
        # Copies that are still alike would say that the component is worth many rows.
        fixed = _FIRST_ROWS if turn < _ROUNDS // 2 else None
        masses = torch.cat([updated_masses(count, prior, fixed) for count, prior in parts], 1)
        # One more row for each component, shared by its copies.
        total = (shares.sum(0) + 1 / copies).view(-1, copies)
        weights = (total / total.sum(1, keepdim=True)).flatten()
    return weights, masses


def _log_masses(model: CoupledDensity, columns: Sequence[int]) -> Iterator[Tensor]:
    """Return the log masses of each column's codes, (K, C_j) each."""
    for column in columns:
        codes = torch.arange(model.leaves.categories[column] or 1).double()[:, None]
        cells = Evidence.exact(codes.to(model.couplings.raw), [column])
        yield model.leaves.log_values(cells)[0].T.double()


def _indicators(data: Evidence, column: int, count: int) -> Tensor:
    """Return one column for each code, all 0 where it is not exactly observed, (N, C)."""
    cells = data.select([column])
    code = torch.where(cells.lower == cells.upper, cells.lower, torch.nan)
    if column in data.sets:
        code = torch.full_like(code, torch.nan)
    return (code == torch.arange(count).to(code)).double()


def _set_masses(model: CoupledDensity, log_masses: dict[int, Tensor]) -> None:
    for family, owned in zip(model.leaves, model.leaves.owned, strict=True):
        if isinstance(family, CategoricalLeaves) and not family.common:
            before = dict(zip(owned, _log_masses(model, owned), strict=True))
            family.set_masses([log_masses.get(c, before[c]) for c in owned])
