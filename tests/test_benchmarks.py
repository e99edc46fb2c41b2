"""The benchmark runs end to end on a small model."""

from pathlib import Path

import pytest

from benchmarks.density.run import GRID, run_one, table


@pytest.mark.data
def test_a_density_run(data_dir: Path) -> None:
    job = {
        **{"name": "sachs", "init": "data", "tensor": "ht", "width": 8, "noise": 0.05},
        **{"rate": 0.01, "batch": 500, "decay": 0.0, "seed": 0, "seconds": 30.0, "steps": 60},
        **{"folder": str(data_dir), "device": "cpu", "threads": 1},
    }
    run = run_one(job)
    assert set(GRID) <= set(run)
    assert run["test_min"] <= run["test_median"]
    assert -12 < run["test"] < -8
    assert len(table([run, run])) == 2
