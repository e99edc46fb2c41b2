"""The toy densities have the mass and the values that they are said to have."""

import numpy as np
import pytest

from experiments.toy import EXPERIMENT
from experiments.toy.densities import TOYS

KNOWN = [name for name, toy in TOYS.items() if toy.logpdf is not None]


@pytest.mark.parametrize("name", KNOWN)
def test_known_densities_have_mass_one_and_are_those_of_the_rows(name: str) -> None:
    toy = TOYS[name]
    assert toy.logpdf is not None
    side = (np.arange(60) + 0.5) * 0.2 - 6  # cells of 0.2 to 6, which divide those of the board
    grid = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    masses = np.exp(toy.logpdf(grid)) * 0.2**3
    assert masses.sum() == pytest.approx(1, abs=1e-3)
    rows = toy.draw(20_000, np.random.default_rng(0))
    assert np.isfinite(toy.logpdf(rows)).all()
    # Five standard errors: the same density gives rows and values.
    entropy = -(masses[masses > 0] * toy.logpdf(grid)[masses > 0]).sum()
    scores = toy.logpdf(rows)
    assert abs(-scores.mean() - entropy) < 5 * scores.std() / np.sqrt(len(rows)) + 0.02
    first = grid[:, :2] > 0
    share = masses[first.all(1)].sum()
    assert (rows[:, :2] > 0).all(1).mean() == pytest.approx(share, abs=0.02)


def test_spirals_are_mirror_images_that_part_along_the_third_axis() -> None:
    rows = TOYS["spirals"].draw(20_000, np.random.default_rng(0))
    assert np.abs(rows.mean(0)).max() < 0.1
    radius = np.hypot(rows[:, 0], rows[:, 1])
    assert np.corrcoef(radius, np.abs(rows[:, 2]))[0, 1] > 0.9
    assert radius.max() < 4.2


def test_a_table_lacks_what_was_not_run() -> None:
    records = [
        {"seed": 0, "set": "gaussians", "model": "truth", "test": -3.0},
        {"seed": 0, "set": "gaussians", "model": "paper", "test": -3.25, "fit_s": 2.0},
        {"seed": 0, "set": "spirals", "model": "truth", "test": None},
        {"seed": 0, "set": "spirals", "model": "paper", "test": -2.0, "fit_s": 4.0},
    ]
    lines = EXPERIMENT.tables(records, {}).splitlines()
    assert lines[4] == "| 8 Gaussians | -3.000 | -3.250 (0.250) |"
    assert lines[5] == "| two spirals | not in closed form | -2.000 |"
    assert lines[-1] == "| two spirals | 4 |"
    assert "NSF" not in "".join(lines)
