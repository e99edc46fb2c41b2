"""A fit that is killed again and again ends as if it never had been."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from marginals.io import container

# One process imports torch and forks the fits, which would otherwise mostly be killed while they
# start. Times are random: whatever the moment, the outcome must be the same.
SCRIPT = """
import json, os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from marginals import Evidence, build, fit, storage

folder, signal_name, seconds, kills = sys.argv[1:]
torch.manual_seed(0)
x = torch.randn(120, 3)
x[:, 1] += x[:, 0] ** 2
x[torch.rand(x.shape) < 0.2] = torch.nan
data = Evidence.interval(x, torch.where(torch.rand(x.shape) < 0.2, x + 0.5, x))
settings = dict(
    batch_size=20, evaluate_every=5, max_steps=120, averaging=0.8, noise=0.1,
    patience=3, min_gain=0.05, learning_rate=0.02, weight_decay=0.01,
)

def run(name, checkpoint=None):
    model = build(x, width=3)
    try:
        result = fit(
            model, data, checkpoint=checkpoint, checkpoint_seconds=float(seconds), **settings
        )
    finally:
        assert all(p.isfinite().all() for p in model.parameters())
    losses = [[r.step, r.train_loss, r.validation_loss, r.learning_rate] for r in result.history]
    header = {"losses": losses, "best": [result.best_step, result.best_loss], "end": result.stopped}
    container.write(f"{folder}/{name}", model.state_dict(), header, "outcome")

def child(name, checkpoint):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run(name, checkpoint)
            code = 0
        except KeyboardInterrupt:
            code = 2
        finally:
            os._exit(code)
    return pid

run("whole")
started = time.monotonic()
os.waitpid(child("whole", None), 0)
whole = time.monotonic() - started
random.seed(int(kills))
longest, killed, steps = 0.3 * whole, 0, 0
while True:
    pid = child("pieces", f"{folder}/checkpoint")
    if killed < int(kills):
        time.sleep(random.uniform(0.0, longest))
        try:
            os.kill(pid, getattr(signal, signal_name))
        except ProcessLookupError:
            pass
    status = os.waitpid(pid, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and killed >= 3:
        break
    if code == 0:  # done too soon: once more, with less time to live
        os.remove(f"{folder}/checkpoint")
        longest, killed, steps = longest / 2, 0, 0
        continue
    assert code in (2, -9), code
    killed += 1
    # What is in the file at any moment is whole.
    if os.path.exists(f"{folder}/checkpoint"):
        _, header = container.read(f"{folder}/checkpoint", "checkpoint")
        assert header["counters"]["step"] >= steps
        steps = header["counters"]["step"]
print(json.dumps({"killed": killed, "steps": steps}))
"""


@pytest.mark.parametrize(
    ("signal", "seconds"), [("SIGKILL", 0.0), ("SIGKILL", 0.02), ("SIGINT", 0.0), ("SIGINT", 1e9)]
)
def test_a_fit_killed_at_random_moments_ends_the_same(
    tmp_path: Path, signal: str, seconds: float
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    arguments = [str(tmp_path), signal, str(seconds), "12"]
    done = subprocess.run(command + arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["killed"] >= 3
    (whole, expected), (pieces, header) = (
        container.read(tmp_path / name, "outcome") for name in ("whole", "pieces")
    )
    assert header == expected
    assert len({rate for *_, rate in header["losses"]}) > 1  # the course had a cut
    assert whole.keys() == pieces.keys()
    assert all(torch.equal(whole[name], pieces[name]) for name in whole)
    assert not list(tmp_path.glob(".*.partial"))
