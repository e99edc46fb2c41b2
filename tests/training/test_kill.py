"""A fit that is killed again and again ends like one that never was."""

import subprocess
import sys
from pathlib import Path

import torch

from marginals.io import container

# One process imports torch and forks the fits, which would otherwise mostly be killed while they
# start. The moments are random: whenever the signal comes, the outcome must be the same.
SCRIPT = """
import os, random, signal, sys, time
# A process started in the background ignores SIGINT, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
import torch
torch.set_num_threads(1)
from marginals import Evidence, build, fit
from marginals.io import container

folder, *ways = sys.argv[1:]
torch.manual_seed(0)
x = torch.randn(120, 3)
x[:, 1] += x[:, 0] ** 2
x[torch.rand(x.shape) < 0.2] = torch.nan
data = Evidence.interval(x, torch.where(torch.rand(x.shape) < 0.2, x + 0.5, x))
settings = dict(
    batch_size=20, evaluate_every=5, max_steps=80, averaging=0.8, noise=0.1,
    patience=3, min_gain=0.05, learning_rate=0.02, weight_decay=0.01,
)

def run(name, **options):
    model = build(x, width=3)
    try:
        result = fit(model, data, **options, **settings)
    finally:
        assert all(p.isfinite().all() for p in model.parameters())
    losses = [[r.step, r.train_loss, r.validation_loss, r.learning_rate] for r in result.history]
    header = {"losses": losses, "best": [result.best_step, result.best_loss], "end": result.stopped}
    container.write(f"{folder}/{name}", model.state_dict(), header, "outcome")

def child(name, **options):
    # A signal between the fork and the try would escape from both: it waits until the try.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            run(name, **options)
            code = 0
        except KeyboardInterrupt:
            code = 2
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return pid

def kill_until_done(way, longest):
    signal_name, seconds = way.split()
    checkpoint = f"{folder}/checkpoint {way}"
    killed = steps = 0
    while True:
        pid = child(f"pieces {way}", checkpoint=checkpoint, checkpoint_seconds=float(seconds))
        if killed < 6:
            time.sleep(random.uniform(0.0, longest))
            try:
                os.kill(pid, getattr(signal, signal_name))
            except ProcessLookupError:
                pass
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code == 0 and killed >= 3:
            return
        if code == 0:  # finished too early: start again with less time to live
            os.remove(checkpoint)
            longest, killed, steps = longest / 2, 0, 0
            continue
        assert code in (2, -9), code
        killed += 1
        if os.path.exists(checkpoint):  # the file is complete at any moment
            step = container.read(checkpoint, "checkpoint")[1]["counters"]["step"]
            assert step >= steps
            steps = step

run("whole")
started = time.monotonic()
os.waitpid(child("whole"), 0)
longest = 0.3 * (time.monotonic() - started)
random.seed(12)
for way in ways:
    kill_until_done(way, longest)
"""


# Signals and the seconds between checkpoints.
WAYS = ["SIGKILL 0", "SIGKILL 0.02", "SIGINT 0", "SIGINT 1e9"]


def test_a_fit_killed_at_random_moments_ends_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), *WAYS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480)
    assert done.returncode == 0, done.stderr
    whole, expected = container.read(tmp_path / "whole", "outcome")
    assert len({rate for *_, rate in expected["losses"]}) > 1  # the rate was cut
    for way in WAYS:
        pieces, header = container.read(tmp_path / f"pieces {way}", "outcome")
        assert header == expected, way
        assert whole.keys() == pieces.keys()
        assert all(torch.equal(whole[name], pieces[name]) for name in whole)
    assert not list(tmp_path.glob(".*.partial"))
