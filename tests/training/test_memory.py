"""Scoring needs no more memory than one batch of rows, however many rows there are."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource
import torch
torch.set_num_threads(1)
from marginals import build

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB

x = torch.randn(1_000_000, 6)
model = build(x[:5000], width=4)
with torch.no_grad():
    model.log_value(x[:10])
    before = peak()
    value = model.log_value(x)
    beyond = peak() - before
    some = torch.randint(len(x), (1000,))
    agree = torch.allclose(value[some], model.log_value(x[some]), rtol=1e-5, atol=1e-5)
print(json.dumps({"beyond": beyond, "shape": list(value.shape), "agree": agree}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
def test_millions_of_rows_are_scored_within_a_gibibyte() -> None:
    """Scored at once, these rows would take several."""
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shape"] == [1_000_000]
    assert found["agree"]
    assert found["beyond"] < 1.0, found
