"""Scoring holds no more memory than a batch of rows takes, however many rows there are."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, time
import torch
torch.set_num_threads(1)
from marginals import build

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

x = torch.randn(10_000_000, 6)
model = build(x[:5000], width=4)
with torch.no_grad():
    model.log_value(x[:10])
    before = peak()
    started = time.monotonic()
    value = model.log_value(x)
    seconds = time.monotonic() - started
    beyond = peak() - before
    some = torch.randint(len(x), (1000,))
    agree = torch.allclose(value[some], model.log_value(x[some]), rtol=1e-5, atol=1e-5)
told = {"beyond": beyond / 2**20, "seconds": seconds, "shape": list(value.shape), "agree": agree}
print(json.dumps(told))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
def test_ten_million_rows_are_scored_within_a_gibibyte_beyond_the_data() -> None:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["shape"] == [10_000_000]
    assert told["agree"]
    assert told["beyond"] < 1.0, told
