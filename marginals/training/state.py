"""Everything that changes during a fit."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from marginals.training.config import FitConfig
from marginals.training.result import Record

Weights = dict[str, Tensor]


@dataclass
class FitState:
    """The position of a fit: with data and settings, all that is needed to continue it."""

    optimiser: torch.optim.AdamW
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

    def set_rate(self, rate: float) -> None:
        """Change the learning rate."""
        self.rate = rate
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # in place: a recorded step reads it there
            else:
                group["lr"] = rate


def new_state(model: nn.Module, config: FitConfig) -> FitState:
    """Start a fit at the model's current weights."""
    device = next(model.parameters()).device
    state = FitState(
        optimiser=_optimiser(model, config, device),
        best=copy_weights(model),
        average=copy_weights(model) if config.averaging else {},
        loss_sum=torch.zeros(2, dtype=torch.float64, device=device),
    )
    state.set_rate(config.learning_rate)
    return state


def _optimiser(model: nn.Module, config: FitConfig, device: torch.device) -> torch.optim.AdamW:
    decay = config.weight_decay
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        spared = decay == 0 or "bias" in name or "logits" in name
        (plain if spared else decayed).append(parameter)
    groups = [
        {"params": group, "weight_decay": amount}
        for group, amount in ((decayed, decay), (plain, 0.0))
        if group
    ]
    on_gpu = device.type == "cuda"
    rate: float | Tensor = config.learning_rate
    if on_gpu:  # a recorded step reads the rate from device memory
        rate = torch.tensor(rate, dtype=torch.float32, device=device)
    fused = device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=rate, fused=fused, capturable=on_gpu)


def copy_weights(model: nn.Module) -> Weights:
    """Copy the parameters."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@torch.no_grad()
def load_weights(model: nn.Module, weights: Weights) -> None:
    """Set the parameters in place."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def set_aside(model: nn.Module, optimiser: torch.optim.AdamW) -> Callable[[], None]:
    """Copy parameters and moments to host memory; return a function that restores them."""
    weights = {name: p.detach().cpu() for name, p in model.named_parameters()}
    stored = optimiser.state_dict()["state"]
    moments = {i: {key: t.cpu() for key, t in part.items()} for i, part in stored.items()}

    @torch.no_grad()
    def restore() -> None:
        load_weights(model, weights)
        for i, part in optimiser.state_dict()["state"].items():
            for key, tensor in part.items():  # moments created since become zero
                tensor.copy_(moments[i][key]) if i in moments else tensor.zero_()

    return restore
