"""Detectors find what is far from the cloud, also where cells are missing."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.anomalies.sets import FILES
from experiments.anomalies import EXPERIMENT
from experiments.anomalies.run import simulated
from experiments.anomalies.tables import whole
from experiments.config import SIZES, load


def test_simulated_anomalies_lie_farther_out() -> None:
    rows, labels = simulated(0)
    far = np.abs(rows).max(1)
    assert far[labels == 1].mean() > 2 * far[labels == 0].mean()
    assert labels.mean() == pytest.approx(0.1)


@pytest.mark.parametrize("size", SIZES[:2])
def test_sets_of_the_configs_are_there(size: str, data_dir: Path) -> None:
    for name in load(EXPERIMENT, size).settings.sets:  # type: ignore[arg-type]
        assert (data_dir / "adbench" / f"{FILES[name]}.npz").exists()


def test_the_tables_have_means_over_sets() -> None:
    line = {"seed": 0, "share": 0.0, "model": "ours", "fit_s": 1.0, "score_s": 0.5, "ap": 0.5}
    line["test_anomalies"] = 3
    records = [
        {**line, "set": name, "auroc": auroc}
        for name, auroc in (("thyroid", 0.9), ("yeast", 0.7), ("wbc", 0.5))
    ]
    lines = EXPERIMENT.tables(records, {}).splitlines()
    assert lines[4] == "| AUROC | MDMAOutlierDetector() | 0.700 |"
    assert lines[6] == "| AUROC, other sets | MDMAOutlierDetector() | 0.600 |"
    assert "| thyroid (3) | MDMAOutlierDetector() | 0.900 |" in lines
    assert lines[-1].endswith("MDMAOutlierDetector() 1.5.")


def test_means_are_over_sets_that_are_whole() -> None:
    line = {"seed": 0, "model": "ours", "auroc": 0.5}
    shared = [{**line, "set": "wbc", "share": share} for share in (0.0, 0.5)]
    assert whole([*shared, {**line, "set": "yeast", "share": 0.0}]) == shared
