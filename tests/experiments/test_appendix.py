"""Axes, rates and cells of the appendix."""

import numpy as np
import pytest

from experiments.appendix import EXPERIMENT
from experiments.appendix.run import _midnight, ends_of
from experiments.appendix.tables import rate


def test_midnight_and_the_length_of_an_hour() -> None:
    minutes = np.repeat(np.arange(1440) / 400 - 1.8, 2)
    assert _midnight(minutes) == pytest.approx((-1.8, 60 / 400))


def test_the_ends_leave_out_what_lies_far() -> None:
    low, high = ends_of(np.append(np.linspace(0, 1, 1000), 1e6))
    assert -0.1 < low < 0.05
    assert 0.95 < high < 1.1


def test_tables_of_structures_and_times() -> None:
    shared = {"part": "structures", "set": "gas", "columns": 8, "width": 4, "steps": 9, "fit_s": 1}
    times = {"part": "sampling", "columns": 8, "width": 4}
    records = [
        {**shared, "seed": 0, "structure": "coupled", "test": 1.0},
        {**shared, "seed": 1, "structure": "coupled", "test": 3.0},
        {**shared, "seed": 0, "structure": "mera", "test": 2.0},
        {**times, "seed": 0, "way": "components", "draws": 100, "draw_s": 0.1},
        {**times, "seed": 0, "way": "autoregressive", "draws": 10, "draw_s": 1.0},
    ]
    assert rate(records[3:], 8, "components") == pytest.approx(1000)
    text = EXPERIMENT.tables(records, {})
    assert "| GAS, d = 8 | 2.00 ± 1.41 (9; 1) | 2.00 (9; 1) |" in text
    assert "| 8 | 1,000 | 10 | 100 |" in text
    assert "random" not in text
