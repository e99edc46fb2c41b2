"""A process that forks after queries and fits on several threads can go on in the child."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing
import numpy as np, torch
from marginals import MDMA

torch.set_num_threads(2)
x = np.random.default_rng(0).normal(size=(20_000, 3))

def ask(model):
    found = [
        model.prob({0: (0, None)}, given={1: (-1, 1)}),
        model.ppf(0.9, 2, given={0: 0.5}),
        model.sample(2000, random_state=0),
        model.score_samples(x),
        MDMA(width=2, max_steps=2, random_state=0).fit(x[:200]).score(x),
    ]
    torch.ones(1000, 1000).exp().sum()  # large enough for torch's own threads
    return found

model = MDMA(width=4, max_steps=3, random_state=0).fit(x[:2000])
expected = ask(model)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for found in pool.map_async(ask, [model, model]).get(timeout=60):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
assert torch.get_num_threads() == 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_answers_as_its_parent() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
