"""Copies of copula components, one for each pattern of codes, whose numbers the codes move.

As EM leaves a component, the numbers in it say nothing about its codes: those of categories, of
lists of values and of the atoms of coupled columns. `located` replaces it by a general location
model (`location_models.py`), written as one component for each pattern that rows have. Its density
and all that is asked of it stay exact.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.densities.copied_components import copied
from marginals.densities.coupled import CoupledDensity
from marginals.densities.em_start import (
    filled_by_regression,
    lattice_noise,
    least_deviations,
    listed_columns,
    set_coupled,
)
from marginals.densities.location_models import (
    LocationMixture,
    LocationRows,
    fit_location_mixture,
    given_codes,
    placed_atoms,
)
from marginals.leaves import AtomLeaves, CategoricalLeaves, SharedLeaves
from marginals.runtime.threads import answering

# The most patterns, and copies before those of little weight are dropped.
_MOST_PATTERNS, _MOST_COPIES = 200, 1500
# The most rows whose pattern no other row has, as a share of those with all codes; these are at
# least so many of all rows.
_MOST_ALONE, _LEAST_KNOWN = 0.25, 0.5
# Columns with more codes are left as they are.
_MOST_CODES = 40
# How many numbers stand for the codes of a column, and rows that pull the mean of a code's rows
# towards that of all.
_DIRECTIONS, _PRIOR_ROWS = 2, 5.0
# How far beyond the other values an atom may lie, in their standard deviations.
_BEYOND = 0.25
# Rounds in which atoms are placed, each given the places of the others.
_PLACINGS = 5
# Least weight of a copy, in rows.
_LEAST_ROWS = 0.2


class _Codes(NamedTuple):
    """A column of codes and the numbers that stand for them."""

    column: int  # of the leaves
    code: Tensor  # (N,), -1 where missing
    coupled: int | None  # the position among the coupled columns of the one whose atoms these are
    values: Tensor  # (C, r)
    says: float  # the share of the numbers' variance that is between the codes


@torch.no_grad()
@answering()
def located(
    model: CoupledDensity, x: Tensor, seed: int = 0, seconds: float | None = None
) -> CoupledDensity:
    """Return a model with a copy of each component for each pattern of codes, fitted anew.

    It is the model itself if it has no codes of few patterns.

    Args:
        model: A model started by EM on the rows.
        x: Rows (N, D), NaN where missing, atoms at their points.
        seed: Seed for the components.
        seconds: Time limit.
    """
    marked = model.lattices.atoms.apart(x)
    numbers = _on_scale(model, marked)
    codes = _chosen(list(_candidates(model, marked, numbers)), model.leaves.width)
    if not codes:
        return model
    together = torch.stack([c.code for c in codes], 1)
    known = (together >= 0).all(1)
    patterns, which = torch.unique(together[known], dim=0, return_inverse=True)  # (T, Q)
    generator = torch.Generator().manual_seed(seed)
    points, fixed, absent = _points(model, marked, numbers, codes, generator)
    points = _with_placed_atoms(points, codes)
    rows = LocationRows(points[known], fixed[known], absent[known], which, len(patterns))
    noise = F.pad(lattice_noise(model), (0, points.shape[1] - len(model.coupled)))
    floors = (noise + least_deviations(rows.points).square()).sqrt()
    mixture, shares = fit_location_mixture(rows, model.leaves.width, floors, seed, seconds)
    return _written(model, mixture, rows, codes, patterns, marked[known], shares)


def _on_scale(model: CoupledDensity, marked: Tensor) -> Tensor:
    """Return the coupled columns on their learned scale, (N, J), NaN at atoms and gaps."""
    family = _coupled_leaves(model)
    own = marked[:, list(model.coupled)]
    found = family.scale(own.T, range(own.shape[1]))[0].T.double()
    return torch.where(own.isnan(), torch.nan, found)


def _coupled_leaves(model: CoupledDensity) -> SharedLeaves:
    first = model.leaves.families[0]
    assert isinstance(first, SharedLeaves)
    return first


def _points(
    model: CoupledDensity,
    marked: Tensor,
    numbers: Tensor,
    codes: Sequence[_Codes],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers and those that stand for codes, and which are fixed and absent, (N, P) each.

    An atom that is no code here is absent: what stands in its place is only filled in.
    """
    filled, atoms = numbers.clone(), model.lattices.atoms
    fixed, absent = torch.zeros_like(numbers).bool(), torch.zeros_like(numbers).bool()
    inside = {c.coupled: c for c in codes if c.coupled is not None}
    for column, mark in atoms.marks.items():
        place = model.coupled.index(column)
        at = marked[:, mark] < len(atoms.points[column])
        if place in inside:
            filled[at, place] = inside[place].values[marked[at, mark].long(), 0]
            fixed[:, place] = at
        else:
            absent[:, place] = at
    own = [c.values[c.code.clamp_min(0)] for c in codes if c.coupled is None]
    points = torch.cat([filled_by_regression(filled, generator), *own], 1)
    more = (0, points.shape[1] - filled.shape[1])
    return points, F.pad(fixed, more, value=True), F.pad(absent, more)


def _with_placed_atoms(points: Tensor, codes: Sequence[_Codes]) -> Tensor:
    """Return points (N, P) with each atom where it explains the other numbers best."""
    points = points.clone()
    inside = [c for c in codes if c.coupled is not None]
    for _ in range(_PLACINGS):
        for c in inside:
            assert c.coupled is not None
            places = placed_atoms(points, c.coupled, c.code, c.values[:-1, 0])
            at = (c.code >= 0) & (c.code < len(places))
            points[at, c.coupled] = places[c.code[at]]
    return points


def _candidates(model: CoupledDensity, marked: Tensor, numbers: Tensor) -> Iterator[_Codes]:
    """Yield the columns of few codes."""
    known = ~numbers.isnan()
    middle, spread = numbers.nanmean(0), (numbers - numbers.nanmean(0)).square().nanmean(0).sqrt()
    z = torch.where(known, (numbers - middle) / spread.clamp_min(1e-9), 0.0)  # (N, J)
    of = {mark: column for column, mark in model.lattices.atoms.marks.items()}
    for column, code, count in _code_columns(model, marked):
        if count > _MOST_CODES:
            continue
        hot = (code[:, None] == torch.arange(count)).double()  # (N, C)
        rows = hot.T @ known.double()  # (C, J)
        means = (hot.T @ z) / (rows + _PRIOR_ROWS)
        coupled, values = None, _directions(means, hot.sum(0))
        if column in of:
            coupled = model.coupled.index(of[column])
            values = _atom_values(model, of[column], numbers[:, coupled])
        yield _Codes(
            column, code, coupled, values, float((rows * means.square()).sum() / len(marked))
        )


def _code_columns(model: CoupledDensity, marked: Tensor) -> Iterator[tuple[int, Tensor, int]]:
    """Yield columns of codes: their place, each row's code (N,), -1 where missing, and the count.

    Lists of values count, in which all other values are the last code.
    """
    for family, owned in zip(model.leaves, model.leaves.owned, strict=True):
        own = marked[:, list(owned)]
        if isinstance(family, CategoricalLeaves) and not family.common:
            code, counts, listed = own, list(family.categories), list(range(len(owned)))
        elif isinstance(family, AtomLeaves):
            code, listed = family.apart(own)[0], listed_columns(family, own)
            counts = [len(points) + 1 for points in family.atoms]
        else:
            continue
        for i in listed:
            yield owned[i], torch.nan_to_num(code[:, i], nan=-1.0).long(), counts[i]


def _atom_values(model: CoupledDensity, column: int, numbers: Tensor) -> Tensor:
    """Return the atoms of a coupled column on its scale, near its other values (N,), (A + 1, 1)."""
    family, place = _coupled_leaves(model), model.coupled.index(column)
    at = torch.tensor(model.lattices.atoms.points[column]).to(family.centres)
    values = family.scale(at[None], [place])[0][0].double()
    seen = numbers[~numbers.isnan()]
    if not len(seen):
        return F.pad(values, (0, 1))[:, None]
    room = _BEYOND * seen.std(correction=0)
    # The last code stands for all other values.
    return F.pad(values.clamp(seen.min() - room, seen.max() + room), (0, 1))[:, None]


def _directions(means: Tensor, rows: Tensor) -> Tensor:
    """Return numbers (C, r) that stand for codes: the main directions of their means (C, J)."""
    share = (rows / rows.sum().clamp_min(1))[:, None]
    centred = means - (share * means).sum(0)
    u, s, _ = torch.linalg.svd(share.sqrt() * centred, full_matrices=False)
    kept = min(_DIRECTIONS, len(means) - 1, len(s))
    found = u[:, :kept] / share.sqrt().clamp_min(1e-6)
    return torch.where(s[:kept] > 1e-9, found, 0.0)


def _chosen(candidates: Sequence[_Codes], width: int) -> list[_Codes]:
    """Return codes that make few patterns, those that say most about the numbers first."""
    chosen: list[_Codes] = []
    for c in sorted(candidates, key=lambda c: -c.says):
        together = torch.stack([d.code for d in (*chosen, c)], 1)
        known = (together >= 0).all(1)
        counts = torch.unique(together[known], dim=0, return_counts=True)[1]
        often = int((counts == 1).sum()) <= _MOST_ALONE * int(known.sum())
        many = int(known.sum()) >= _LEAST_KNOWN * len(known)
        few = len(counts) <= min(_MOST_PATTERNS, _MOST_COPIES // width)
        if few and often and many:
            chosen.append(c)
    return chosen


def _written(
    model: CoupledDensity,
    mixture: LocationMixture,
    rows: LocationRows,
    codes: Sequence[_Codes],
    patterns: Tensor,
    marked: Tensor,
    shares: Tensor,
) -> CoupledDensity:
    """Return the mixture as a model with one component for each pattern (T, Q) that has weight.

    Args:
        model: The form of the model.
        mixture: The mixture.
        rows: The rows it was fitted to.
        codes: The columns of its patterns.
        patterns: The codes of each pattern.
        marked: The rows with marks, (N, D + V).
        shares: Posterior of the mixture's components, (N, K).
    """
    weights = mixture.weights[:, None] * mixture.masses  # (K, T)
    component, pattern = (weights * len(marked) > _LEAST_ROWS).nonzero().unbind(1)  # (C,) each
    found = copied(model, component.tolist())
    for family, owned in list(zip(found.leaves, found.leaves.owned, strict=True))[1:]:
        family.start_weighted(marked[:, list(owned)].T, shares[:, component])
    _set_codes(found, codes, patterns[pattern], rows.patterns)
    coupled, size = len(model.coupled), len(component)
    means = mixture.means.new_zeros(size, coupled)
    covariances = mixture.means.new_zeros(size, coupled, coupled)
    for t in range(rows.kinds):
        row, some = (rows.patterns == t).nonzero()[0, 0], pattern == t
        mean, covariance = given_codes(mixture, rows.points[row], rows.fixed[row])
        means[some] = mean[component[some], :coupled]
        covariances[some] = covariance[component[some], :coupled, :coupled]
    kept = weights[component, pattern]
    set_coupled(found, kept / kept.sum(), means, covariances)
    return found


def _set_codes(
    found: CoupledDensity, codes: Sequence[_Codes], patterns: Tensor, which: Tensor
) -> None:
    """Give each component (C, Q) nearly all mass at its own codes, the rest as in the table.

    The rest is the mass of patterns that no row has, by Good and Turing (1953).
    """
    alone = int((torch.bincount(which) == 1).sum())
    rest = (alone + 1) / (len(which) + 2) / len(codes)
    masses = {}
    for c, own in zip(codes, patterns.T, strict=True):
        margin = torch.bincount(c.code[c.code >= 0], minlength=len(c.values)).double() + 0.5
        hot = F.one_hot(own, len(margin)).double()
        masses[c.column] = ((1 - rest) * hot + rest * margin / margin.sum()).log()
    for family, owned in zip(found.leaves, found.leaves.owned, strict=True):
        here = [i for i, column in enumerate(owned) if column in masses]
        if here and isinstance(family, CategoricalLeaves | AtomLeaves):
            family.set_masses([masses[owned[i]] for i in here], here)
