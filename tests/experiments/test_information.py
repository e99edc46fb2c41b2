"""Information of the Gaussian: exact values, and estimates by its own density."""

import numpy as np
from scipy.stats import multivariate_normal

from benchmarks.information.run import gaussian_covariance
from experiments.config import load
from experiments.information import EXPERIMENT
from experiments.information.run import draw, exact_information, information


def test_estimates_by_the_exact_density_agree_with_the_exact_values() -> None:
    settings = load(EXPERIMENT, "tiny", ["held_out=4000"]).settings
    rows = draw(settings, 10, seed=0).held
    covariance = gaussian_covariance()

    def ask(points, columns):  # type: ignore[no-untyped-def]
        part = covariance[np.ix_(columns, columns)]
        return multivariate_normal(cov=part).logpdf(points.reshape(-1, len(part)))

    found = information(ask, rows)
    off = np.abs(np.array(found["values"]) - exact_information())
    assert (off < 5 * np.array(found["stderrs"])).all()


def test_a_smaller_sample_is_part_of_a_larger_one() -> None:
    settings = load(EXPERIMENT, "tiny").settings
    small, large = (draw(settings, rows, seed=1) for rows in (20, 50))
    np.testing.assert_allclose(small.train, large.train[:20])
    np.testing.assert_allclose(small.held, large.held)


def test_the_tables_tell_the_error_of_the_mean_over_seeds() -> None:
    line = {"rows": 100, "model": "paper", "fit_s": 2.0, "exact": [1.0, 2.0], "stderrs": [0.1] * 2}
    records = [
        {**line, "seed": 0, "values": [1.2, 2.0], "seen_values": [2.0, 2.0]},
        {**line, "seed": 1, "values": [1.0, 2.4], "seen_values": [2.0, 2.0]},
    ]
    lines = EXPERIMENT.tables(records, {}).splitlines()
    assert lines[4] == "| 1 | 1.000 | 1.100 ± 0.141 |"
    assert lines[-1].startswith("| paper's model | 100 | 2 | 0.1500 | 0.2000 | 0.5000 |")
