"""Everything that changes during a fit, and how it is kept in a checkpoint."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from marginals.io import container
from marginals.training.checkpoint_identity import Identity, check_identity
from marginals.training.config import FitConfig
from marginals.training.result import Record

Weights = dict[str, Tensor]


@dataclass
class FitState:
    """The position of a fit: enough, with data and settings, to go on as if never stopped."""

    optimiser: torch.optim.AdamW
    best: Weights
    average: Weights
    loss_sum: Tensor
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


_COUNTERS = (
    *("step", "best_step", "best_loss", "stale", "cuts", "rate", "seconds"),
    *("since_evaluation", "stopped"),
)


def new_state(model: nn.Module, config: FitConfig) -> FitState:
    """Start a fit at the model's present weights."""
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (plain if "bias" in name or "logits" in name else decayed).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    if config.weight_decay == 0:  # one group is one launch less
        groups = [{"params": [*decayed, *plain], "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"
    # On a GPU the rate is read by a recorded step.
    rate: Any = config.learning_rate
    if on_gpu:
        rate = torch.tensor(rate, dtype=torch.float32, device=device)
    fused = device.type in ("cpu", "cuda")
    optimiser = torch.optim.AdamW(groups, lr=rate, fused=fused, capturable=on_gpu)
    state = FitState(
        optimiser=optimiser,
        best=copy_weights(model),
        average=copy_weights(model) if config.averaging else {},
        loss_sum=torch.zeros(2, dtype=torch.float64, device=device),
    )
    state.set_rate(config.learning_rate)
    return state


def copy_weights(model: nn.Module) -> Weights:
    """Copy the parameters."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def set_aside(model: nn.Module, optimiser: torch.optim.AdamW) -> Callable[[], None]:
    """Keep parameters and moments in the host's memory; return what sets them back."""
    weights = {name: p.detach().cpu() for name, p in model.named_parameters()}
    kept = optimiser.state_dict()["state"]
    moments = {i: {key: t.cpu() for key, t in part.items()} for i, part in kept.items()}

    def restore() -> None:
        load_weights(model, weights)
        load_moments(optimiser, moments)

    return restore


@torch.no_grad()
def load_weights(model: nn.Module, weights: Weights) -> None:
    """Set the parameters."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


@torch.no_grad()
def load_moments(optimiser: torch.optim.AdamW, moments: dict[int, Weights]) -> None:
    """Set the moments in place, to zero where there are none."""
    for i, part in optimiser.state_dict()["state"].items():
        for key, tensor in part.items():
            tensor.copy_(moments[i][key]) if i in moments else tensor.zero_()


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, state: FitState, identity: Identity
) -> None:
    """Write the state atomically."""
    tensors = {f"model/{name}": p.detach() for name, p in model.named_parameters()}
    tensors |= {f"best/{name}": tensor for name, tensor in state.best.items()}
    tensors |= {f"average/{name}": tensor for name, tensor in state.average.items()}
    tensors["loss_sum"] = state.loss_sum
    for index, moments in state.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser/{index}/{key}": tensor for key, tensor in moments.items()}
    header = {
        "identity": identity,
        "counters": {name: getattr(state, name) for name in _COUNTERS},
        "history": [dataclasses.asdict(record) for record in state.history],
    }
    container.write(path, tensors, header, kind="checkpoint")


def load_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, state: FitState, identity: Identity
) -> bool:
    """Go on from a checkpoint if there is one; refuse one of another fit."""
    if not Path(path).exists():
        return False
    tensors, header = container.read(path, kind="checkpoint")
    check_identity(path, header["identity"], identity)
    parts = _by_prefix(tensors)
    load_weights(model, parts["model"])
    device = state.loss_sum.device
    state.best = {name: t.to(device) for name, t in parts["best"].items()}
    state.average = {name: t.to(device) for name, t in parts.get("average", {}).items()}
    state.loss_sum = tensors["loss_sum"].to(device)
    for name, number in header["counters"].items():
        setattr(state, name, number)
    state.history = [Record(**record) for record in header["history"]]
    moments: dict[int, Weights] = {}
    for name, tensor in parts.get("optimiser", {}).items():
        index, key = name.split("/")
        moments.setdefault(int(index), {})[key] = tensor
    groups = state.optimiser.state_dict()["param_groups"]
    state.optimiser.load_state_dict({"state": moments, "param_groups": groups})
    state.set_rate(state.rate)
    return True


def _by_prefix(tensors: Weights) -> dict[str, Weights]:
    parts: dict[str, Weights] = {}
    for name, tensor in tensors.items():
        prefix, _, rest = name.partition("/")
        parts.setdefault(prefix, {})[rest] = tensor
    return parts
