"""Checkpoints: the state of a fit in a file, and a description of the fit it belongs to."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from marginals.densities.density import Density
from marginals.io import container
from marginals.io.model_files import describe
from marginals.training.batches import Rows
from marginals.training.config import FitConfig
from marginals.training.result import Record
from marginals.training.state import FitState, Weights, load_weights

Identity = dict[str, Any]

_COUNTERS = [f.name for f in dataclasses.fields(FitState) if f.type in (int, float, str)]


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, state: FitState, identity: Identity
) -> None:
    """Write the state atomically."""
    parts: dict[str, Weights] = {
        "model": {name: p.detach() for name, p in model.named_parameters()},
        "best": state.best,
        "average": state.average,
        "optimiser": state.optimiser.moments(),
    }
    tensors = {f"{part}/{name}": t for part, named in parts.items() for name, t in named.items()}
    header = {
        "identity": identity,
        "counters": {name: getattr(state, name) for name in _COUNTERS},
        "history": [dataclasses.asdict(record) for record in state.history],
    }
    container.write(path, {**tensors, "loss_sum": state.loss_sum}, header, kind="checkpoint")


def load_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, state: FitState, identity: Identity
) -> bool:
    """Load the state if the file exists, and say whether it does; reject another fit's file."""
    if not Path(path).exists():
        return False
    tensors, header = container.read(path, kind="checkpoint")
    _check_identity(path, header["identity"], identity)
    device = state.loss_sum.device
    state.loss_sum = tensors.pop("loss_sum").to(device)
    parts: dict[str, Weights] = {"best": {}, "average": {}, "model": {}, "optimiser": {}}
    for key, tensor in tensors.items():
        part, name = key.split("/", 1)
        parts[part][name] = tensor.to(device)
    load_weights(model, parts["model"])
    state.best, state.average = parts["best"], parts["average"]
    for name, number in header["counters"].items():
        setattr(state, name, number)
    state.history = [Record(**record) for record in header["history"]]
    state.optimiser.load_moments(parts["optimiser"])
    state.set_rate(state.rate)
    return True


def identify(model: Density, train: Rows, held: Rows | None, config: FitConfig) -> Identity:
    """Describe a fit as JSON; only a fit with the same description may resume its checkpoint."""
    described: Any
    try:
        described = describe(model)
    except TypeError:  # a user-defined density, which no model file can hold
        described = repr(model)
    identity = {
        "data": _digest_rows(train),
        "validation": None if held is None else _digest_rows(held),
        "settings": config.numbers(),
        "model": {
            "config": described,
            "parameters": {name: list(p.shape) for name, p in model.named_parameters()},
            "buffers": _digest(model.buffers()),
        },
    }
    return json.loads(json.dumps(identity))


def _check_identity(path: str | os.PathLike[str], found: Identity, expected: Identity) -> None:
    changed = [key for key in expected if found.get(key) != expected[key]]
    if not changed:
        return
    if "settings" in changed:
        old, new = found["settings"], expected["settings"]
        names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        listed = ", ".join(f"{name} {old.get(name)}, now {new.get(name)}" for name in names)
        changed[changed.index("settings")] = f"settings ({listed})"
    raise ValueError(
        f"Expected the checkpoint {os.fspath(path)!r} to belong to this fit; got one with other "
        f"{' and '.join(changed)}. Use another file, delete it, or restore what changed."
    )


def _digest_rows(rows: Rows) -> str:
    evidence = rows.evidence
    masks = [evidence.sets[column] for column in sorted(evidence.sets)]
    names = torch.tensor([*evidence.columns, -1, *sorted(evidence.sets)])
    return _digest([names, evidence.lower, evidence.upper, rows.weight, *masks])


def _digest(tensors: Iterable[Tensor]) -> str:
    # Bytes, not sums: the digest is the same on every device and number of threads, and it changes
    # with the order of rows and columns.
    sha256 = hashlib.sha256()
    for tensor in tensors:
        sha256.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().reshape(-1).view(torch.uint8).cpu()
        sha256.update(flat.numpy().data)
    return sha256.hexdigest()
