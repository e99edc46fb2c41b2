"""Densities trained by gradients: a spline flow and an Einsum network.

Several settings race: each has an equal share of the first half of the time, the best on validation
the second half. A run goes back to its best weights and halves its rate when validation stops
gaining, as ours do, and ends after a few halvings.
"""

import copy
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from studies.data.density import FOLDS, Rows, Split, some
from studies.harness.available import installed
from studies.models.fitted import Fitted
from studies.models.ours import in_double, in_parts

BATCH = 500
JUDGED = 5_000  # validation rows by which a run is judged while it trains
EVERY = 50  # steps between two looks at validation
PATIENCE = 5  # looks without gain before the rate is halved
HALVINGS = 5

Score = Callable[[Tensor], Tensor]


@final
class Runner:
    """One candidate of a race: a module, its optimiser and its best weights so far."""

    def __init__(
        self, module: Any, score: Score, settings: dict[str, Any], split: Split, device: str
    ) -> None:
        self.module = module.to(device, torch.float32)
        self.score = score
        self.settings = settings
        self.train = torch.as_tensor(split.train, dtype=torch.float32, device=device)
        judged = some(split.val, JUDGED, 0)
        self.val = torch.as_tensor(judged, dtype=torch.float32, device=device)
        self.optimiser = torch.optim.AdamW(
            module.parameters(), lr=settings["rate"], weight_decay=settings["decay"]
        )
        self.best, self.best_state = -math.inf, copy.deepcopy(module.state_dict())
        self.steps = self.stale = self.halvings = 0
        # On a CPU, the seconds that this process computes: other work takes nothing from them.
        self.clock = time.process_time if device == "cpu" else time.perf_counter

    def advance(self, seconds: float) -> None:
        """Train until the time is over or validation has stopped gaining."""
        end = self.clock() + seconds
        while self.clock() < end and self.halvings < HALVINGS:
            self._step()
            if self.steps % EVERY == 0:
                self._look()
        self._look()
        self.module.load_state_dict(self.best_state)

    def _step(self) -> None:
        rows = torch.randint(len(self.train), (min(BATCH, len(self.train)),))
        loss = -self.score(self.train[rows.to(self.train.device)]).mean()
        self.optimiser.zero_grad()
        loss.backward()
        # An infinite loss makes the norm, and so the step, NaN: `_look` then goes back.
        nn.utils.clip_grad_norm_(self.module.parameters(), 10.0)
        self.optimiser.step()
        self.steps += 1

    def _look(self) -> None:
        with torch.no_grad():
            now = float(self.score(self.val).mean())
        if now > self.best:
            self.best, self.best_state = now, copy.deepcopy(self.module.state_dict())
            self.stale = 0
            return
        self.stale += 1
        if self.stale >= PATIENCE or not math.isfinite(now):
            self._halve()

    def _halve(self) -> None:
        self.module.load_state_dict(self.best_state)
        self.optimiser.state.clear()  # of a run that went wrong, moments too may be NaN
        for group in self.optimiser.param_groups:
            group["lr"] /= 2
        self.stale = 0
        self.halvings += 1


def race(runners: Sequence[Runner], seconds: float) -> Runner:
    """Give each its share of half the time, and the best of them the rest."""
    clock = runners[0].clock
    started = clock()
    for runner in runners:
        runner.advance(seconds / 2 / len(runners))
    winner = max(runners, key=lambda runner: runner.best)
    winner.advance(max(0.0, seconds - (clock() - started)))
    return winner


def share(split: Split, seconds: float) -> float:
    """Return the time for one fit: the folds of a small set share that of a large one."""
    return seconds if split.fold is None else seconds / FOLDS


def fit_nsf(
    split: Split,
    *,
    seed: int,
    device: str,
    seconds: float,
    transforms: Sequence[int] = (3, 5),
    decays: Sequence[float] = (0.0, 1e-4, 1e-2),
    hidden: int = 128,
) -> Fitted:
    """Fit a neural spline flow; of several transforms and weight decays validation chooses."""
    flows = installed("zuko.flows")
    torch.manual_seed(seed)
    columns = split.train.shape[1]
    runners = []
    for count, decay in itertools.product(transforms, decays):
        settings = {"transforms": count, "decay": decay, "rate": 1e-3, "hidden": hidden}
        flow = flows.NSF(columns, transforms=count, hidden_features=(hidden, hidden))
        runners.append(Runner(flow, _flow_score(flow), settings, split, device))
    winner = race(runners, share(split, seconds))
    flow = winner.module
    return _fitted(winner, lambda count: flow().sample((count,)))


def _flow_score(flow: Any) -> Score:
    return lambda rows: flow().log_prob(rows)


def fit_einet(split: Split, *, seed: int, device: str, seconds: float) -> Fitted:
    """Fit an Einsum network with normal leaves; its size is chosen on validation.

    By gradients, because the package's expectation maximisation lets leaves collapse to scale 0.
    """
    torch.manual_seed(seed)
    deepest = int(math.log2(split.train.shape[1]))
    runners = []
    for width, repetitions, depth in ((10, 5, 2), (10, 20, 3), (30, 3, 3)):
        sizes = {"width": width, "repetitions": repetitions, "depth": min(depth, deepest)}
        module = einet(split.train, **sizes)
        settings = {**sizes, "rate": 0.05, "decay": 0.0}
        runners.append(Runner(module, _einet_score(module), settings, split, device))
    winner = race(runners, share(split, seconds))
    module = winner.module
    return _fitted(winner, lambda count: module.sample(num_samples=count))


def einet(train: Rows, *, width: int, repetitions: int, depth: int) -> Any:
    """Build a network whose leaves start on random rows, from where it learns far faster."""
    network = installed("spflow.zoo.einet").Einet
    normal = installed("spflow.modules.leaves").Normal
    columns = train.shape[1]
    rows = torch.as_tensor(train, dtype=torch.float32)
    chosen = rows[torch.randint(len(rows), (width * repetitions,))]
    leaves = normal(
        scope=list(range(columns)),
        out_channels=width,
        num_repetitions=repetitions,
        validate_args=False,  # a step that went wrong is undone, not raised
        loc=chosen.T.reshape(columns, width, repetitions).contiguous(),
        scale=torch.full((columns, width, repetitions), 0.5),
    )
    return network(
        [leaves],
        num_classes=1,
        num_sums=width,
        num_leaves=width,
        depth=depth,
        num_repetitions=repetitions,
        layer_type="linsum",
    )


def _einet_score(module: Any) -> Score:
    return lambda rows: module.log_likelihood(rows).flatten()


def _fitted(winner: Runner, draw: Callable[[int], Tensor]) -> Fitted:
    settings = {
        **winner.settings,
        "steps": winner.steps,
        "stopped": "validation" if winner.halvings >= HALVINGS else "time",
        "parameters": sum(p.numel() for p in winner.module.parameters()),
    }

    def score(rows: Rows) -> Rows:
        return in_parts(winner.score, rows, winner.module)

    def sample(count: int) -> Any:
        with torch.no_grad():
            return np.asarray(draw(count).cpu())

    return Fitted(score, sample, settings, in_double(winner.module, score))
