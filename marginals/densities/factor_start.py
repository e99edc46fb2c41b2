"""Start components at the nodes of a factor model, which `factor_nodes.py` fits."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from marginals.densities.coupled import CoupledDensity
from marginals.densities.em_start import (
    filled_by_regression,
    flat_column,
    set_coupled,
    sharp_stretch,
)
from marginals.densities.factor_nodes import (
    NodeComponents,
    NodeTable,
    fit_nodes,
    updated_components,
)
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import AtomLeaves, CategoricalLeaves, Leaves, SharedLeaves
from marginals.leaves.family import location_and_scale

# Rows to use, each of which holds an indicator of every code.
_MOST_ROWS = 20_000

# Copies of each component that together have a flat margin, and rounds of EM that find them.
PARTS, _PART_ROUNDS = 4, 60
# Share of the seconds for the nodes; the rest is for their components.
_STEP_SHARE = 0.6


@torch.no_grad()
def start_by_factors(
    model: TensorDensity | CoupledDensity,
    x: Tensor,
    factors: int,
    seed: int = 0,
    seconds: float | None = None,
) -> None:
    """Set all parameters of a model for data `x` (N, D), NaN where missing.

    Args:
        model: a model whose leaves are categorical or normal on a learned scale.
        x: the rows.
        factors: the number of factors that place the components.
        seed: seed for the nodes.
        seconds: time limit.
    """
    generator = torch.Generator().manual_seed(seed)
    x = x[torch.randperm(len(x), generator=generator)[:_MOST_ROWS]]
    begun = time.monotonic()
    if isinstance(model, CoupledDensity):
        x = model.lattices.atoms.apart(x)
    for family, owned in zip(model.leaves, model.leaves.owned, strict=True):
        family.scale_to(x[:, list(owned)].T)
        smooth = family.inner if isinstance(family, AtomLeaves) else family
        if isinstance(smooth, SharedLeaves):
            smooth.learned.start(noise=0.0)
    parts = [_parts(family, x[:, list(owned)]) for family, owned in _families(model.leaves)]
    codes = [column for part in parts for column in part[0]]  # (N, C) each
    numbers = torch.cat([part[1] for part in parts], 1)  # (N, J)
    middle, spread = location_and_scale(numbers.T)
    filled = filled_by_regression((numbers - middle) / spread, generator)
    coupled = len(model.coupled) if isinstance(model, CoupledDensity) else 0
    stretch = torch.eye(len(middle), dtype=filled.dtype)
    if coupled and len(filled) > 2:
        stretch[:coupled, :coupled] = sharp_stretch(filled[:, :coupled])
    table = NodeTable(
        torch.cat([*codes, x.new_zeros(len(x), 0)], 1).float(),
        tuple(column.shape[1] for column in codes),
        (filled @ stretch).float(),
        coupled,
    )
    left = None if seconds is None else seconds - (time.monotonic() - begun)
    steps = None if left is None else _STEP_SHARE * left
    flat = flat_column(numbers[:, :coupled])
    copies = PARTS if flat is not None and model.leaves.width % PARTS == 0 else 1
    nodes = fit_nodes(table, model.leaves.width // copies, factors, seed, steps)
    left = None if seconds is None else seconds - (time.monotonic() - begun)
    found = updated_components(nodes, table, left)
    back = torch.linalg.inv(stretch) * spread
    placed = found._replace(
        means=found.means.double() @ back + middle,
        covariances=back.T @ found.covariances.double() @ back,
    )
    if flat is not None and copies > 1:
        own = (filled * spread + middle)[:, flat]
        shares = found.log_joint(table.codes, table.numbers.double()).softmax(1)
        placed = spread_over(placed, flat, own, shares, copies)
    _set(model, placed, table.counts)


def _families(leaves: Leaves) -> list[tuple[object, tuple[int, ...]]]:
    """Return the families that differ between components, with their columns."""
    every = zip(leaves, leaves.owned, strict=True)
    return [
        (family, owned)
        for family, owned in every
        if not (isinstance(family, CategoricalLeaves) and family.common)
    ]


def _parts(family: object, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the codes of a family's columns (N, n) as indicators (N, C), and numbers (N, J)."""
    nothing = x.new_zeros(len(x), 0)
    if isinstance(family, CategoricalLeaves):
        return [_indicators(c, n) for c, n in zip(x.T, family.categories, strict=True)], nothing
    codes = []
    if isinstance(family, AtomLeaves):
        marks, x = family.apart(x)
        codes = [_indicators(c, len(p) + 1) for c, p in zip(marks.T, family.atoms, strict=True)]
        family = family.inner
    assert isinstance(family, SharedLeaves)
    on_scale = family.scale(x.T, range(x.shape[1]))[0].T.double()
    return codes, torch.where(x.isnan(), torch.nan, on_scale)


def _indicators(codes: Tensor, count: int) -> Tensor:
    """Return one column for each code, all 0 where missing, (N, C)."""
    return (codes[:, None] == torch.arange(count)).to(codes)


def spread_over(
    components: NodeComponents, column: int, x: Tensor, shares: Tensor, parts: int
) -> NodeComponents:
    """Return copies of components whose margins of one column together have the column's shape.

    Each copy has one of several normal parts of that margin. What the component says about the
    other columns given this one stays as it is.

    Args:
        components: K components on the scale of the numbers.
        column: the position of the column among the numbers.
        x: the column's values, (N,).
        shares: the posterior of the components for each row, (N, K).
        parts: how many copies of each component.
    """
    weights, middles, variances, own = normal_parts(x.double(), parts)
    count = len(components.weights)
    held = shares.T.to(own) @ own + weights  # (K, parts), with one more row for all
    held = held / held.sum(1, keepdim=True)
    mean, covariance = components.means, components.covariances
    slope = covariance[:, :, column] / covariance[:, column, column, None]  # (K, J)
    shift = middles - mean[:, column, None]  # (K, parts)
    change = variances - covariance[:, column, column, None]  # (K, parts)
    means = mean[:, None] + shift[..., None] * slope[:, None]
    outer = slope[:, :, None] * slope[:, None]
    covariances = covariance[:, None] + change[..., None, None] * outer[:, None]
    return NodeComponents(
        (components.weights[:, None] * held).flatten(),
        components.log_masses.repeat_interleave(parts, 0),
        means.reshape(count * parts, -1),
        covariances.reshape(count * parts, *covariance.shape[1:]),
    )


def normal_parts(x: Tensor, parts: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fit normal parts to values (N,) by EM.

    Returns:
        Weights, means and variances of the parts, (parts,), and their shares of the values,
        (N, parts).
    """
    level = (torch.arange(parts).double() + 0.5) / parts
    weights, middles = torch.full_like(level, 1 / parts), x.quantile(level)
    variances = torch.full_like(level, float(x.var()) / parts**2)
    for _ in range(_PART_ROUNDS):
        apart = (x[:, None] - middles).square() / variances
        shares = (weights.log() - 0.5 * variances.log() - 0.5 * apart).softmax(1)
        total = shares.sum(0) + 1e-9
        weights, middles = total / total.sum(), shares.T @ x / total
        variances = (shares * (x[:, None] - middles).square()).sum(0) / total
        variances = variances.clamp_min(float(x.var()) * 1e-4)
    return weights, middles, variances, shares


def _set(
    model: TensorDensity | CoupledDensity, found: NodeComponents, counts: Sequence[int]
) -> None:
    """Set masses, locations and scales of a model's components, numbers on the learned scale."""
    masses = iter(found.log_masses.split(list(counts), 1))  # (K, C) each
    covariance, location = found.covariances, found.means
    deviation = covariance.diagonal(dim1=-2, dim2=-1).sqrt()  # (K, J)
    done = 0
    for family, owned in _families(model.leaves):
        if isinstance(family, CategoricalLeaves):
            family.set_masses([next(masses) for _ in owned])
            continue
        if isinstance(family, AtomLeaves):
            family.set_masses([next(masses) for _ in owned])
            family = family.inner
        assert isinstance(family, SharedLeaves)
        here = slice(done, done + len(owned))
        done += len(owned)
        if not (isinstance(model, CoupledDensity) and here.start == 0):
            family.set_components(location[:, here].T, deviation[:, here].T)
    weights = found.weights.double()
    if isinstance(model, CoupledDensity):
        coupled = len(model.coupled)
        set_coupled(model, weights, location[:, :coupled], covariance[:, :coupled, :coupled])
    else:
        model.tensor.start(weights)
