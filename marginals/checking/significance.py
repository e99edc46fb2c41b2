"""When a difference counts: beyond chance, and large enough to matter."""

import numpy as np
import pandas as pd
from scipy.stats import norm

ERRORS = 3.5  # standard errors that chance explains
TOLERANCE = 0.02  # a difference in probability that hardly matters
LEVEL = float(2 * norm.sf(ERRORS))  # the p-value of so many standard errors
# The mean of Kolmogorov's statistic times the root of the number of rows: sqrt(pi/2) log 2.
KOLMOGOROV_MEAN = float(np.sqrt(np.pi / 2) * np.log(2))


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Add `excess` and `off` to distances with their `noise` and `pvalue`.

    The excess is the distance less its mean by chance and, for pairs, less the distance of a column
    `alone`. A distance is off if its p-value is below that of 3.5 standard errors and its excess is
    above 0.02.

    >>> lines = {"distance": [0.05, 0.05], "noise": [0.01, 0.04], "pvalue": [1e-9, 0.1]}
    >>> judged(pd.DataFrame(lines))["off"].tolist()
    [True, False]
    """
    explained = frame["noise"] + frame.get("alone", 0.0)
    excess = (frame["distance"] - explained).clip(lower=0.0)
    return frame.assign(excess=excess, off=(frame["pvalue"] < LEVEL) & (excess > TOLERANCE))
