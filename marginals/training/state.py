"""Everything that changes during a fit."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from marginals.runtime.adamw import AdamW
from marginals.training.config import FitConfig
from marginals.training.result import Record

Weights = dict[str, Tensor]


@dataclass
class FitState:
    """The position of a fit: with data and settings, all that is needed to continue it."""

    optimiser: AdamW
    best: Weights
    average: Weights
    loss_sum: Tensor  # (2,): weighted losses and weights since the last evaluation
    step: int = 0
    best_step: int = 0
    best_loss: float = float("inf")
    stale: int = 0
    cuts: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    since_evaluation: int = 0
    stopped: str = ""
    history: list[Record] = field(default_factory=list)

    def set_rate(self, rate: float, share: float = 1.0) -> None:
        """Change the learning rate; steps use a share of it."""
        self.rate = rate
        self.optimiser.set_rate(rate * share)


def new_state(model: nn.Module, config: FitConfig) -> FitState:
    """Start a fit at the model's current weights."""
    device = next(model.parameters()).device
    state = FitState(
        optimiser=_optimiser(model, config),
        best=copy_weights(model),
        average=copy_weights(model) if config.averaging else {},
        loss_sum=torch.zeros(2, dtype=torch.float64, device=device),
    )
    state.set_rate(config.learning_rate)
    return state


def _optimiser(model: nn.Module, config: FitConfig) -> AdamW:
    named = dict(model.named_parameters())
    spared = [any(part in name for part in ("bias", "logits")) for name in named]
    decay = [0.0 if kept else config.weight_decay for kept in spared]
    return AdamW(list(named.values()), config.learning_rate, decay, config.amsgrad)


def copy_weights(model: nn.Module) -> Weights:
    """Copy the parameters."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@torch.no_grad()
def load_weights(model: nn.Module, weights: Weights) -> None:
    """Set the parameters in place."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def set_aside(model: nn.Module, optimiser: AdamW) -> Callable[[], None]:
    """Copy parameters and moments to host memory; return a function that restores them."""
    weights = {name: p.detach().cpu() for name, p in model.named_parameters()}
    moments = {name: moment.cpu() for name, moment in optimiser.moments().items()}

    def restore() -> None:
        load_weights(model, weights)
        optimiser.load_moments(moments)

    return restore
