"""Cells are struck out at random, gaps are filled as they are said to be."""

from pathlib import Path

import numpy as np
import pytest

from experiments.missing import EXPERIMENT
from experiments.missing.data import GAPS, load, simulated, strike
from experiments.missing.models import filled


def test_cells_are_struck_out_of_training_and_validation_alone() -> None:
    whole = simulated(3000, seed=0)
    split = strike(whole, 0.3, seed=0)
    for part in (split.train, split.val):
        assert np.isnan(part).mean() == pytest.approx(0.3, abs=0.03)
    np.testing.assert_array_equal(split.test, whole.test)


@pytest.mark.parametrize("how", ["mice", "knn", "mean", "drop"])
def test_filled_rows_keep_the_cells_there_are(how: str) -> None:
    split = strike(simulated(600, seed=0), 0.3, seed=0)
    found = filled(split, how, seed=0)
    assert not np.isnan(found.train).any()
    assert not np.isnan(found.val).any()
    whole = ~np.isnan(split.train)
    if how == "drop":
        np.testing.assert_array_equal(found.train, split.train[whole.all(1)])
    else:
        kept = split.train[whole.any(1)]
        there = ~np.isnan(kept)
        np.testing.assert_allclose(found.train[there], kept[there])


def test_gaps_of_the_file_lose_all_but_the_time(data_dir: Path) -> None:
    split = load(GAPS, lambda: data_dir, (5000, 500, 500), seed=0)
    gaps = np.isnan(split.train)
    assert 0 < gaps[:, 0].mean() < 0.05
    assert (gaps[:, :-1] == gaps[:, :1]).all()
    assert not gaps[:, -1].any()
    assert not np.isnan(split.test).any()


def test_without_gaps_all_ways_to_fill_them_are_one() -> None:
    line = {"set": "gas", "seed": 0, "fill_s": 0.0, "fit_s": 1.0, "gaps": 0.0}
    records = [
        {**line, "share": 0.0, "model": "nsf_mice", "test": 1.5, "test_median": 2.5},
        {**line, "share": 0.5, "model": "nsf_mice", "test": 1.0, "test_median": 2.0},
        {**line, "share": 0.5, "model": "nsf_mean", "test": 0.5, "test_median": 1.0},
    ]
    lines = EXPERIMENT.tables(records, {}).splitlines()
    assert lines[4] == "| 0 | 1.50 | 1.50 |"
    assert lines[5] == "| 0.5 | 1.00 | 0.50 |"
    assert "| 0.5 | 2.00 | 1.00 |" in lines
