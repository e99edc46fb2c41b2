"""Columns and rows as the tasks take them."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density

Columns = int | Sequence[int]


def groups(density: Density, **named: Columns | None) -> list[tuple[int, ...]]:
    """Check groups of columns, each by its argument's name: known, and in one place only.

    None is the empty group; a group that is not None must not be empty, `given` excepted.
    """
    found = {name: _positions(name, columns) for name, columns in named.items()}
    seen: dict[int, str] = {}
    for name, columns in found.items():
        density.check_columns(columns)
        for column in columns:
            if column in seen:
                raise ValueError(_twice(column, seen[column], name))
            seen[column] = name
    return list(found.values())


def rows_or_draws(density: Density, rows: Any, samples: int, seed: int) -> Evidence:
    """Return the rows given, or as many draws of the density."""
    if rows is not None:
        return density.checked(rows)
    if samples < 1:
        raise ValueError(f"Expected `samples` to be at least 1; got {samples}.")
    drawn = density.sample(samples, generator=seeded(density, seed))
    if drawn.ndim != 2:
        raise ValueError(
            f"Expected a density given at most one row of evidence; got one given {len(drawn)}. "
            "Condition on one row at a time, or name the columns in `given`."
        )
    return density.checked(drawn)


def seeded(density: Density, seed: int) -> torch.Generator:
    """Return a generator on the density's device."""
    parameter = next(density.parameters(), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    return torch.Generator(device).manual_seed(seed)


def only(evidence: Evidence, columns: Sequence[int]) -> Evidence:
    """Forget all columns but these."""
    keep = [c for c in evidence.columns if c in columns]
    index = [evidence.columns.index(c) for c in keep]
    intervals = evidence.intervals & set(keep)
    lower = evidence.lower[:, index]
    upper = evidence.upper[:, index] if intervals else lower
    sets = {c: mask for c, mask in evidence.sets.items() if c in keep}
    return Evidence(tuple(keep), lower, upper, sets, intervals)


def is_known(evidence: Evidence, columns: Sequence[int]) -> Tensor:
    """Say which cells of these columns are known at least in part, (B, n)."""
    place = {column: position for position, column in enumerate(evidence.columns)}
    known = ~evidence.missing()
    absent = known.new_zeros(len(evidence))
    each = [known[:, place[c]] if c in place else absent for c in columns]
    return torch.stack(each, 1) if each else known.new_zeros(len(evidence), 0)


def at_least_one(use: Tensor, what: str) -> Tensor:
    """Refuse to go on when no row (B,) is of use."""
    if not bool(use.any()):
        raise ValueError(
            f"Expected `rows` to hold a row {what}; got none among {len(use)}. Give rows with "
            "these cells filled in."
        )
    return use


def _positions(name: str, columns: Columns | None) -> tuple[int, ...]:
    if columns is None:
        return ()
    try:
        listed = list(columns) if isinstance(columns, Sequence) else [columns]
        positions = tuple(map(operator.index, listed))
    except TypeError:
        raise TypeError(
            f"Expected `{name}` to be a column's position or a list of them; got {columns!r}."
        ) from None
    if not positions and name != "given":
        raise ValueError(f"Expected `{name}` to name at least one column; got none.")
    return positions


def _twice(column: int, first: str, second: str) -> str:
    if first == second:
        return f"Expected each column of `{first}` once; got {column} twice. Leave one out."
    return (
        f"Expected `{first}` and `{second}` to be disjoint; got column {column} in both. Leave it "
        "out of one."
    )
