"""Training steps on a CUDA device, looked at from inside the fit.

    python -m studies.speed.gpu_steps profile 6 1000 1 3
    python -m studies.speed.gpu_steps recording --data DATA

`profile` lists the kernels of a step, here of 6 columns, width 1000 and leaves of 1 layer of 3
units. `recording` compares recorded steps with single ones: the same losses, and how much faster.
"""

import argparse
import time
from collections import defaultdict

import torch

from marginals import FitConfig, build, fit
from marginals.training.batches import make_rows
from marginals.training.fit import FitRun
from studies.data.density import splits
from studies.harness.study import Context

CASES = [
    ("sachs", {"tensor": "ht", "leaves": "normal", "width": 32}),
    ("sachs", {"tensor": "ht", "leaves": "neural", "width": 64}),
    ("gas", {"tensor": "ht", "leaves": "normal", "width": 512}),
    ("miniboone", {"tensor": "copula", "width": 32, "rank": 2, "common": 20}),
    ("gas", {"tensor": "copula", "width": 800, "rank": 3}),
    ("miniboone partial", {"tensor": "copula", "width": 32, "rank": 2, "common": 20}),
]


def profile(columns: int, width: int, depth: int, hidden: int) -> None:
    """Print the milliseconds of a step and the kernels that take them."""
    x = torch.randn(5000, columns, device="cuda")
    model = build(x, width=width, depth=depth, hidden=hidden, init="paper")
    run = FitRun(model, make_rows(model.checked(x), None, "data"), None, FitConfig())
    for _ in range(20):
        run.step()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(200):
        run.step()
    end.record()
    torch.cuda.synchronize()
    print(f"{columns} {width} {depth}x{hidden}: {start.elapsed_time(end) / 200:.3f} ms a step")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        for _ in range(10):
            run.step()
        torch.cuda.synchronize()
    spent: dict[str, list[float]] = defaultdict(list)
    for event in profiled.events():
        spent[event.name[:70]].append(event.device_time)
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:22]:
        print(f"{sum(times) / 10:9.1f} us  {len(times) / 10:5.1f} x  {name}")


def recording(data: str | None, steps: int) -> None:
    """Print milliseconds and losses of steps with and without recording."""
    context = Context("cuda", data)
    for name, settings in CASES:
        split = splits(name.split()[0], context)[0]
        train, val = (
            torch.as_tensor(rows, dtype=torch.float32, device="cuda")
            for rows in (split.train, split.val[:500])
        )
        if "partial" in name:
            train = torch.where(torch.rand_like(train) < 0.1, torch.nan, train)
        line = [name, str(settings)]
        for recorded in (False, True):
            original = FitRun.record
            if not recorded:
                FitRun.record = lambda self, size: None  # type: ignore[method-assign]
            model = build(train, **settings)
            options = {"validation": val, "progress": False, "evaluate_every": 100}
            fit(model, train, max_steps=5, **options)
            torch.cuda.synchronize()
            started = time.perf_counter()
            result = fit(model, train, max_steps=steps, noise=0.01, **options)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - started
            FitRun.record = original  # type: ignore[method-assign]
            losses = [round(r.validation_loss, 4) for r in result.history][1:4]
            line.append(f"{1000 * seconds / steps:.2f} ms {losses}")
        print(" | ".join(line), flush=True)


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(prog="python -m studies.speed.gpu_steps")
    commands = parser.add_subparsers(dest="command", required=True)
    profiled = commands.add_parser("profile")
    for name in ("columns", "width", "depth", "hidden"):
        profiled.add_argument(name, type=int)
    compared = commands.add_parser("recording")
    compared.add_argument("--data")
    compared.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    if given.command == "profile":
        profile(given.columns, given.width, given.depth, given.hidden)
    else:
        recording(given.data, given.steps)


if __name__ == "__main__":
    main()
