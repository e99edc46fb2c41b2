"""Start components at the nodes of a factor model, which `factor_nodes.py` fits."""

import torch
from torch import Tensor

from marginals.densities.coupled import CoupledDensity
from marginals.densities.em_start import filled_by_regression, set_coupled
from marginals.densities.factor_nodes import FactorNodes, NodeTable, fit_nodes
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import AtomLeaves, CategoricalLeaves, Leaves, SharedLeaves
from marginals.leaves.family import location_and_scale

# Least deviation of a number in a component, in its own deviations.
_LEAST = 0.02


@torch.no_grad()
def start_by_factors(
    model: TensorDensity | CoupledDensity, x: Tensor, factors: int, seed: int = 0
) -> None:
    """Set all parameters of a model for data `x` (N, D), NaN where missing.

    Args:
        model: a model whose leaves are categorical or normal on a learned scale.
        x: the rows.
        factors: the number of factors that place the components.
        seed: seed for the nodes.
    """
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
    filled = filled_by_regression((numbers - middle) / spread, torch.Generator().manual_seed(seed))
    table = NodeTable(
        torch.cat([*codes, x.new_zeros(len(x), 0)], 1).float(),
        tuple(column.shape[1] for column in codes),
        filled.float(),
        coupled=len(model.coupled) if isinstance(model, CoupledDensity) else 0,
    )
    _set(model, fit_nodes(table, model.leaves.width, factors, seed), middle, spread)


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


def _set(
    model: TensorDensity | CoupledDensity, nodes: FactorNodes, middle: Tensor, spread: Tensor
) -> None:
    """Give the components of a model the masses, locations and scales of nodes."""
    masses = iter(nodes.log_masses().split(nodes.counts, 1))  # (K, C) each
    white = torch.linalg.inv(nodes.whitening().double())
    covariance = white @ white.T * spread[:, None] * spread  # (J, J)
    location = nodes.means().double() * spread + middle  # (K, J)
    deviation = covariance.diagonal().sqrt().maximum(_LEAST * spread)  # (J,)
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
            scale = deviation[here, None].expand(-1, len(location))
            family.set_components(location[:, here].T, scale)
    weights = nodes.raw.softmax(0).double()
    if isinstance(model, CoupledDensity):
        coupled = len(model.coupled)
        set_coupled(model, weights, location[:, :coupled], covariance[None, :coupled, :coupled])
    else:
        model.tensor.start(weights)
