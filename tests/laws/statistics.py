"""Samples against the model they came from: the transforms that should give uniforms."""

from collections.abc import Mapping

import torch
from scipy.stats import kstest
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density

# The declared failure rate: the chance that one test of a hypothesis fails by bad luck. The suite
# makes about a thousand of them, so a fresh set of seeds fails once in a thousand. Seeds are fixed
# by the tests' names, so an unlucky one would stay, and is then to be looked at, not to be rerun.
P_VALUE = 1e-6

# What is known of the columns: an exact value, a pair, or a set of codes, as in `Evidence.of`.
Known = Mapping[int, object]


def assert_uniform(u: Tensor) -> None:
    """Compare numbers with the uniform distribution by Kolmogorov and Smirnov's test."""
    assert ((u >= -1e-12) & (u <= 1 + 1e-12)).all()
    p = kstest(u.numpy(), "uniform").pvalue
    assert p > P_VALUE, f"{len(u)} numbers are not uniform: p = {p:.2g}"


@torch.no_grad()
def rosenblatt(model: Density, rows: Tensor, known: Known | None = None) -> dict[int, Tensor]:
    """Transform rows (S, D), drawn given `known`, into independent uniforms, one per free column.

    Column c is transformed by its CDF given the columns before it (as drawn) and what is known of
    those after it, within what is known of itself. A code is spread evenly over its step.
    """
    known = known or {}
    out = {}
    for column in range(model.columns):
        cell = known.get(column)
        if isinstance(cell, int | float):
            continue
        later = {c: cell for c, cell in known.items() if c > column}
        given = Evidence.exact(rows[:, :column], range(column))
        if later:
            given = given.join(Evidence.of(later))
        if not given.columns:
            given = None
        if model.categories[column] is None:
            out[column] = _within_interval(model, rows[:, column], column, given, cell)
        else:
            out[column] = _within_codes(model, rows[:, column], column, given, cell)
    return out


def _within_interval(
    model: Density, x: Tensor, column: int, given: Evidence | None, cell: object
) -> Tensor:
    low, high = cell if isinstance(cell, tuple) else (None, None)
    lower = torch.full((len(x), 1), -torch.inf if low is None else float(low))
    upper = torch.full((len(x), 1), torch.inf if high is None else float(high))
    part = model.logprob(lower, x[:, None], [column], given)
    return (part - model.logprob(lower, upper, [column], given)).exp()


def _within_codes(
    model: Density, x: Tensor, column: int, given: Evidence | None, cell: object
) -> Tensor:
    count = model.categories[column]
    mass = []
    for code in range(count):
        at = torch.full((len(x), 1), float(code))
        mass.append(model.pdf(at, [column], given) * _allows(cell, code))
    mass = torch.stack(mass, 1)
    mass = mass / mass.sum(1, keepdim=True)
    index = x.long()[:, None]
    own = mass.gather(1, index)[:, 0]
    assert (own > 0).all()
    return (mass.cumsum(1).gather(1, index)[:, 0] - own) + torch.rand(len(x)) * own


def _allows(cell: object, code: int) -> bool:
    if isinstance(cell, set | frozenset):
        return code in cell
    low, high = cell if isinstance(cell, tuple) else (None, None)
    return (low is None or code > low) and (high is None or code <= high)
