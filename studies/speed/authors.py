"""The authors' code, run from the folder given by `--reference`; nothing of it is kept here."""

import hashlib
import importlib
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from studies.speed.floor import synchronise
from studies.speed.shapes import Shape, table
from studies.speed.timing import PeakMemory, steps_per_block, summary

STABILISED = 5  # first steps of their fit, which scale the densities
# Rows of their queries at a time: a whole question does not fit in memory.
CHUNK = {"cpu": 1000, "cuda": 10_000}


@final
class Authors:
    """Their model, and the step of their fit.

    Args:
        folder: with the package `mdma`.
        shape: of the model.
        device: where it is.
    """

    def __init__(self, folder: Path, shape: Shape, device: str) -> None:
        self.device = device
        self.models, self.utils = imported(folder)
        with their_defaults(device):
            self.model = self.models.MDMA(
                shape.columns,
                m=shape.width,
                l=shape.depth + 1,
                r=shape.hidden,
                adaptive_coupling=False,
            )
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=0.01, amsgrad=True)
        self.steps = 0

    def step(self, batch: Tensor) -> float:
        """Do what their fit does with a batch, which is already on the device."""
        for parameter in self.model.parameters():
            parameter.grad = None
        loss = self.model.nll(batch, stabilize=self.steps < STABILISED)
        value = loss.item()
        loss.backward()
        self.optimiser.step()
        self.steps += 1
        return value

    def train(self, x: Tensor, batch: int, steps: int) -> None:
        """Step through shuffled rows. Their loader, which is slower than this, is left out."""
        with their_defaults(self.device):
            order = torch.randperm(len(x), device=x.device)
            for place in range(steps):
                start = place * batch % max(1, len(x) - batch + 1)
                self.step(x[order[start : start + batch]])


def imported(folder: Path) -> tuple[Any, Any]:
    """Import their modules of models and of helpers."""
    if not (folder / "mdma" / "models.py").exists():
        raise SystemExit(
            f"Expected `--reference` to be the folder of the authors' code, with mdma/models.py; "
            f"got {folder}."
        )
    try:
        importlib.import_module("matplotlib.pyplot")
    except ImportError:  # their helpers import it for pictures that are not drawn here
        for name in ("matplotlib", "matplotlib.pyplot"):
            sys.modules[name] = types.ModuleType(name)
    sys.path.insert(0, str(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("mdma.models"), importlib.import_module("mdma.utils")
    finally:
        sys.path.remove(str(folder))


def fingerprint(folder: Path) -> str:
    """Return what tells versions of their code apart."""
    return hashlib.sha256((folder / "mdma" / "models.py").read_bytes()).hexdigest()[:12]


@contextmanager
def their_defaults(device: str) -> Iterator[None]:
    """Make new tensors on their device, as their fit does for the whole process."""
    if device != "cuda":
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, but their code needs it
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        try:
            yield
        finally:
            torch.set_default_tensor_type("torch.FloatTensor")


def measure_step(
    folder: Path,
    shape: Shape,
    device: str,
    *,
    block_s: float = 1.0,
    blocks: int = 5,
    memory: bool = True,
) -> dict[str, Any]:
    """Measure a training step of theirs: forward, backward and Adam, on batches of the device."""
    imported(folder)  # beforehand, so that it does not count as memory
    meter = PeakMemory(device)
    x = table(shape.rows, shape.columns, device)
    authors = Authors(folder, shape, device)
    first = _seconds(authors, x, shape.batch, 1)
    _seconds(authors, x, shape.batch, STABILISED)
    found: dict[str, Any] = {
        "first_step_s": round(first, 4),
        "parameters": sum(p.numel() for p in authors.model.parameters()),
    }
    every = steps_per_block(_seconds(authors, x, shape.batch, 1), block_s, least=2)
    step_s = [_seconds(authors, x, shape.batch, every) / every for _ in range(blocks)]
    if memory:
        found["peak_mib"] = meter.mib()
    return {**summary(step_s, every, shape.batch), **found}


def _seconds(authors: Authors, x: Tensor, batch: int, steps: int) -> float:
    synchronise(authors.device)
    started = time.perf_counter()
    authors.train(x, batch, steps)
    synchronise(authors.device)
    return time.perf_counter() - started


def queries(
    folder: Path, shape: Shape, device: str, trained: int
) -> dict[str, Callable[[int], object]]:
    """Return the queries of their model, named as ours; sampling in both of their ways."""
    x = table(shape.rows, shape.columns, device)
    authors = Authors(folder, shape, device)
    authors.train(x, shape.batch, trained)
    model, last, half = authors.model, shape.columns - 1, shape.columns // 2
    every, right = list(range(shape.columns)), list(range(half, shape.columns))

    def parts(count: int) -> Iterator[Tensor]:
        yield from x.repeat(-(-count // len(x)), 1)[:count].split(CHUNK[device])

    def conditional(part: Tensor) -> Any:
        return model.condCDF(last, part[:, :last], every)

    def quantile(part: Tensor) -> Tensor:
        level = torch.full((len(part),), 0.5)
        return authors.utils.invert(conditional(part), level, lb=-1e3, ub=1e3)

    asked: dict[str, Callable[[int], object]] = {
        "score": lambda n: [model.log_density(part) for part in parts(n)],
        "score half the columns": lambda n: [
            model.log_density(part[:, :half], inds=every[:half]) for part in parts(n)
        ],
        "sample": lambda n: model.sample(n),
        "sample, autoregressive": lambda n: model.sample_autoregressive(n, min(n, CHUNK[device])),
        "conditional CDF": lambda n: [conditional(part)(part[:, last:]) for part in parts(n)],
        "conditional quantile": lambda n: [quantile(part) for part in parts(n)],
        "sample given one row": lambda n: model.sample(n, cond_inds=right, cond_X=x[:1, half:]),
    }
    return {name: _as_theirs(ask, device) for name, ask in asked.items()}


def _as_theirs(ask: Callable[[int], object], device: str) -> Callable[[int], object]:
    def answer(count: int) -> object:
        with torch.no_grad(), their_defaults(device):
            return ask(count)

    return answer


def course(
    folder: Path, shape: Shape, train: Tensor, held: Tensor, device: str, seconds: float
) -> list[tuple[float, float]]:
    """Train on rows and return (seconds, held-out log-likelihood); the looks do not count."""
    authors = Authors(folder, shape, device)
    spent, found = 0.0, []
    while spent < seconds:
        spent += _seconds(authors, train, shape.batch, 50)
        with torch.no_grad(), their_defaults(device):
            scores = [authors.model.log_density(part) for part in held.split(CHUNK[device])]
        found.append((round(spent, 3), float(np.mean(torch.cat(scores).double().cpu().numpy()))))
    return found
