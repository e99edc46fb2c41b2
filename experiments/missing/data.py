"""Rows with cells struck out, or with gaps of their own; test rows are complete."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.likelihood.classical import installed
from benchmarks.likelihood.sets import DEQUANTISED, Rows, Split, splits

GAPS = "power_gaps"
FILES = {"power": DEQUANTISED, "gas": "gas"}
NAMES = (*FILES, GAPS, "simulated")
# Of a reading, the width of the noise that hides its rounding, as the paper's preparation has it;
# of the time of day, one minute, so that no density can buy likelihood with spikes there.
READINGS = {
    "Global_active_power": 0.001,
    "Voltage": 0.01,
    "Sub_metering_1": 1.0,
    "Sub_metering_2": 1.0,
    "Sub_metering_3": 1.0,
}


def load(name: str, folder: Callable[[], Path], counts: tuple[int, int, int], seed: int) -> Split:
    """Return at most so many training, validation and test rows of a set, those of a seed."""
    if name not in NAMES:
        raise SystemExit(f"Expected `sets` to be among {', '.join(NAMES)}; got {name!r}.")
    if name == "simulated":
        whole = simulated(sum(counts), seed)
    else:
        whole = power_with_gaps(folder()) if name == GAPS else splits(FILES[name], folder())[0]
    generator = np.random.default_rng(seed)
    parts = (
        rows[generator.permutation(len(rows))[:count]]
        for rows, count in zip((whole.train, whole.val, whole.test), counts, strict=True)
    )
    train, val, test = parts
    return Split(name, None, train, val, test)


def strike(split: Split, share: float, seed: int) -> Split:
    """Strike out each cell of training and validation with a probability, each on its own."""
    generator = np.random.default_rng((seed, round(100 * share)))

    def struck(rows: Rows) -> Rows:
        return np.where(generator.random(rows.shape) < share, np.nan, rows)

    return replace(split, train=struck(split.train), val=struck(split.val))


def simulated(rows: int, seed: int) -> Split:
    """Return a mixture of two Gaussians of four columns, for tests without data sets."""
    generator = np.random.default_rng(seed)
    side = generator.choice([-1.0, 1.0], (rows, 1))
    base = generator.normal(size=(rows, 1))
    drawn = side + 0.6 * base + 0.5 * generator.normal(size=(rows, 4))
    train, val, test = np.array_split(drawn, 3)
    return Split("simulated", None, train, val, test)


def power_with_gaps(folder: Path) -> Split:
    """Return the minutes of the POWER file as they are: some have lost all but their time."""
    files = sorted((folder / "power").glob("*.parquet"))
    if not files:
        raise SystemExit(f"Expected a Parquet file in {folder / 'power'}; there is none.")
    installed("pyarrow")
    frame = pd.concat([pd.read_parquet(file) for file in files])
    generator = np.random.default_rng(42)
    time = frame["datetime"].dt.hour * 60.0 + frame["datetime"].dt.minute
    columns: list[Any] = [frame[name].to_numpy(dtype=np.float64) for name in READINGS]
    rows = np.stack([*columns, time.to_numpy(dtype=np.float64)], 1)
    rows += generator.random(rows.shape) * [*READINGS.values(), 1.0]
    rows = rows[generator.permutation(len(rows))]
    tenth = len(rows) // 10
    train, val, test = np.split(rows, [8 * tenth, 9 * tenth])
    mean, scale = np.nanmean(train, 0), np.nanstd(train, 0)
    train, val, test = ((part - mean) / scale for part in (train, val, test))
    return Split(GAPS, None, train, val, complete(test))


def complete(rows: Rows) -> Rows:
    """Return the rows without gaps."""
    return rows[~np.isnan(rows).any(1)]


def known(rows: Rows) -> Rows:
    """Return the rows that have at least one cell: the others say nothing."""
    return rows[~np.isnan(rows).all(1)]
