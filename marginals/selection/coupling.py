"""Which columns and atoms the copula members of the default take, so that their steps are fast."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.build import couplable

# Share of the rows from which on an atom of a lattice matters; below, its cell is like any other.
_LEAST_ATOM = 0.1
# The same while there are few patterns of rows at atoms.
_RARE_ATOM = 0.01
# A column with more atoms off a grid is a list of values, which does not vary with others smoothly.
_MOST_ATOMS = 3
# With more of its rows at atoms than this, a column is a list of values too, on a grid or off it.
_MOST_AT = 0.95
# Rows at atoms lack these columns, and each pattern of lacking ones costs as much as a batch.
_MOST_PATTERNS = 8
_LOOKED_AT = 4096
# A lattice whose atoms would make too many patterns is coupled without them, unless they have more
# than this share of the rows.
_PLAIN_SHARE = 0.3
# Share of rows with several open cells from which on held-out rows take longer to score than a tree
# takes to learn: the value of such a row is a box of each component.
_MOST_BOXES = 0.05


def copula_options(data: Evidence, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `marginals.build` for copula members, with the columns to couple.

    Trees take every atom. Copula members leave out rare atoms of lattices, and couple columns with
    atoms only if there are few patterns of rows at them, or without their atoms if these are few.
    """
    lattices = options.get("lattices") or {}
    cells = data.rows(slice(_LOOKED_AT))
    at = {c: _at_atoms(cells, c, points) for c, points in options["atoms"].items()}
    atoms = {
        c: points
        for c, points in options["atoms"].items()
        if c not in lattices or float(at[c].double().mean()) >= _LEAST_ATOM
    }
    coupled = couplable(data, **{**options, "atoms": atoms})
    plain = [c for c in coupled if c not in atoms]
    share = {c: float(at[c].double().mean()) for c in atoms}
    heavy = [
        c
        for c in coupled
        if c in atoms
        and (c in lattices or len(atoms[c]) <= _MOST_ATOMS)
        and (len(atoms[c]) <= _MOST_ATOMS or share[c] <= _MOST_AT)
    ]
    # A column with several atoms is nearer to a list of values: it comes last.
    heavy.sort(key=lambda c: (len(atoms[c]) > _MOST_ATOMS, -share[c]))
    kept: list[int] = []
    for column in heavy:
        together = torch.stack([at[c] for c in (*kept, column)], 1)
        if len(torch.unique(together, dim=0)) <= _MOST_PATTERNS:
            kept.append(column)
        elif column in lattices and share[column] <= _PLAIN_SHARE:
            plain.append(column)
            del atoms[column]
    rare = _rare_atoms(cells, options["atoms"], [c for c in plain if c in lattices], at, kept)
    return {**options, "atoms": {**atoms, **rare}, "coupled": tuple(sorted([*plain, *kept]))}


def _rare_atoms(
    cells: Evidence,
    atoms: Mapping[int, Sequence[float]],
    columns: Sequence[int],
    at: Mapping[int, Tensor],
    kept: Sequence[int],
) -> dict[int, Sequence[float]]:
    """Return atoms of coupled lattices that are worth it while there are few patterns.

    A fixed fare is an atom that narrow components would blur over its neighbours.
    """
    found: dict[int, Sequence[float]] = {}
    several = [c for c in columns if c in atoms and len(atoms[c]) <= _MOST_ATOMS]
    for column in sorted(several, key=lambda c: -float(at[c].double().mean())):
        together = torch.stack([at[c] for c in (*kept, *found, column)], 1)
        often = float(at[column].double().mean()) >= _RARE_ATOM
        if often and len(torch.unique(together, dim=0)) <= 2 * _MOST_PATTERNS:
            found[column] = atoms[column]
    return found


def has_many_boxes(data: Evidence, coupled: Sequence[int]) -> bool:
    """Return whether many rows have the open cells of first or last values in two columns or more.

    >>> cells = Evidence.interval(torch.tensor([[-torch.inf, -torch.inf]]), torch.zeros(1, 2))
    >>> has_many_boxes(cells, [0, 1]), has_many_boxes(cells, [0])
    (True, False)
    """
    cells = data.rows(slice(_LOOKED_AT)).select(list(coupled))
    # A missing cell has no ends.
    open_ends = (cells.lower.isinf() ^ cells.upper.isinf()).sum(1)
    return float((open_ends > 1).double().mean()) > _MOST_BOXES


def _at_atoms(cells: Evidence, column: int, points: Sequence[float]) -> Tensor:
    """Return which rows are at an atom of a column, (B,)."""
    found = cells.select([column])
    low, high = found.lower, found.upper  # (B, 1)
    atom = torch.tensor(points, dtype=low.dtype, device=low.device)
    return ((low == atom) | ((low < atom) & (atom <= high))).any(1)
