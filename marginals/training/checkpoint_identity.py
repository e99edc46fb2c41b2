"""What a checkpoint belongs to: the data, the settings and the model of one fit."""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from marginals.densities.density import Density
from marginals.io.model_files import describe
from marginals.training.batches import Rows
from marginals.training.config import FitConfig

Identity = dict[str, Any]


def identify(model: Density, train: Rows, held: Rows | None, config: FitConfig) -> Identity:
    """Describe a fit, as JSON: only a fit of the same description may go on from its checkpoint."""
    identity = {
        "data": _digest_rows(train),
        "validation": None if held is None else _digest_rows(held),
        "settings": config.numbers(),
        "model": {
            "config": _describe(model),
            "parameters": {name: list(p.shape) for name, p in model.named_parameters()},
            "buffers": _digest(model.buffers()),
        },
    }
    return json.loads(json.dumps(identity))


def check_identity(path: str | os.PathLike[str], found: Identity, expected: Identity) -> None:
    """Refuse a checkpoint of another fit, and say what differs."""
    changed = [key for key in expected if found.get(key) != expected[key]]
    if not changed:
        return
    if "settings" in changed:
        names = _changed_settings(found["settings"], expected["settings"])
        changed[changed.index("settings")] = f"settings ({', '.join(names)})"
    raise ValueError(
        f"Expected the checkpoint {os.fspath(path)!r} to belong to this fit; got one with other "
        f"{' and '.join(changed)}. Use another file, delete it, or restore what changed."
    )


def _changed_settings(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    names = sorted({*found, *expected})
    return [
        f"{name} {found.get(name)}, now {expected.get(name)}"
        for name in names
        if found.get(name) != expected.get(name)
    ]


def _describe(model: Density) -> Any:
    try:
        return describe(model)
    except TypeError:  # a density of the user's own, which no file holds
        return repr(model)


def _digest_rows(rows: Rows) -> str:
    evidence = rows.evidence
    masks = [evidence.sets[column] for column in sorted(evidence.sets)]
    names = torch.tensor([*evidence.columns, -1, *sorted(evidence.sets)])
    return _digest([names, evidence.lower, evidence.upper, rows.weight, *masks])


def _digest(tensors: Iterable[Tensor]) -> str:
    # Of the bytes, not of sums: alike on every device and number of threads, and rows and columns
    # in another order are told apart.
    sha256 = hashlib.sha256()
    for tensor in tensors:
        sha256.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().reshape(-1).view(torch.uint8).cpu()
        sha256.update(flat.numpy().data)
    return sha256.hexdigest()
