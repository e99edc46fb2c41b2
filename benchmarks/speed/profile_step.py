"""Where the time of a training step on a CUDA device goes: kernels of one replayed graph.

python -m benchmarks.speed.profile_step 6 1000 1 3
"""

import sys
from collections import defaultdict

import torch

from marginals import FitConfig, build
from marginals.training.batches import make_rows
from marginals.training.fit import FitRun


def main(words: list[str]) -> None:
    columns, width, depth, hidden = map(int, words[:4])
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
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(10):
            run.step()
        torch.cuda.synchronize()
    spent: dict[str, list[float]] = defaultdict(list)
    for event in profile.events():
        spent[event.name[:70]].append(event.device_time)
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:22]:
        print(f"{sum(times) / 10:9.1f} us  {len(times) / 10:5.1f} x  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
