"""Columns by position, and rows under densities, as the queries take them."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density

Columns = int | Sequence[int]
# Densities of the same columns, each with the rows it judges: evidence or a tensor (B, D). One
# model has one part; cross-fitting has a part for each fold.
Parts = Sequence[tuple[Density, Any]]

# A mean over 10,000 rows has a hundredth of the spread of a single row, often about one nat.
SAMPLES = 10_000


def groups(density: Density, **named: Columns | None) -> list[tuple[int, ...]]:
    """Return groups of columns as tuples; refuse unknown columns and those named twice.

    Args:
        density: the density that has the columns.
        named: groups by the name of their argument. None is the empty group; any other group but
            `given` needs a column.
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


@torch.no_grad()
def draws_of(density: Density, samples: int = SAMPLES, seed: int = 0) -> Parts:
    """Draw rows from a density, to average over its own distribution.

    Draws are exact numbers. For integers or rounded numbers, pass the cells that contain the draws
    instead.

    Args:
        density: the density, given at most one row of evidence.
        samples: the number of draws.
        seed: seed for the draws.

    Returns:
        One part: the density and its draws.
    """
    if samples < 1:
        raise ValueError(f"Expected `samples` to be at least 1; got {samples}.")
    drawn = density.sample(samples, generator=seeded(density, seed))
    if drawn.ndim != 2:
        raise ValueError(
            f"Expected a density given at most one row of evidence; got one given {len(drawn)}. "
            "Condition on one row at a time, or name the columns in `given`."
        )
    return [(density, density.checked(drawn))]


def checked(parts: Parts) -> list[tuple[Density, Evidence]]:
    """Return parts whose rows are evidence on their density's device."""
    return [(density, density.checked(rows)) for density, rows in parts]


def observed(cells: Evidence, columns: Sequence[int]) -> Tensor:
    """Say which cells of these columns are observed at least in part, (B, n)."""
    return ~cells.select(columns).missing()


def seeded(density: Density, seed: int) -> torch.Generator:
    """Return a generator on the density's device."""
    parameter = next(density.parameters(), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    return torch.Generator(device).manual_seed(seed)


def at_least_one(use: Tensor, what: str) -> Tensor:
    """Return a mask of rows (B,), or raise if it has none."""
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
