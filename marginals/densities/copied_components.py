"""A coupled density with some components of another, perhaps repeatedly."""

from collections.abc import Sequence
from typing import Any

import torch

from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.leaves import Leaves
from marginals.tensors.couplings import Couplings


def copied(model: CoupledDensity, order: Sequence[int]) -> CoupledDensity:
    """Return a model on the CPU whose components are those of another in some order."""
    found, index = _empty(model, len(order)), torch.tensor(list(order))
    other = _empty(model, model.leaves.width + 1).state_dict()
    state = {}
    for name, old in model.state_dict().items():
        # Only the dim of components has another size in a model with more of them.
        apart = [d for d in range(old.ndim) if old.shape[d] != other[name].shape[d]]
        kept = old.cpu()
        state[name] = kept.index_select(apart[0], index) if apart else kept
    found.load_state_dict(state)
    return found


def _empty(model: CoupledDensity, width: int) -> CoupledDensity:
    """Return a model of the same form on the CPU with another number of components."""
    config = _resized(model.config(), width)
    found = CoupledDensity(
        Leaves.from_config(config["leaves"]),
        Couplings(**config["couplings"]),
        CoupledLattices.from_config(config["lattices"]),
    )
    return found.to(next(model.parameters()).dtype)


def _resized(config: Any, width: int) -> Any:
    """Return a configuration with another number of components."""
    if isinstance(config, dict):
        return {k: width if k == "width" else _resized(v, width) for k, v in config.items()}
    return [_resized(part, width) for part in config] if isinstance(config, list) else config
