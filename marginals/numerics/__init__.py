"""Pure functions: stable sums in log space, normals, monotone inversion, draws, indices."""

from marginals.numerics import factors
from marginals.numerics.draws import draw, draw_many, draw_rows, spawn
from marginals.numerics.indices import index_of, select, table_of
from marginals.numerics.inversion import invert_monotone, narrow_brackets
from marginals.numerics.logspace import (
    log1mexp,
    log_matmul,
    log_matmul_kept,
    log_normalised,
    log_shares,
    log_softplus,
    logit_of_interval,
    logsumexp,
    raw_weights,
    sum_of_others,
)
from marginals.numerics.normal import (
    log_normal_cdf,
    log_normal_density,
    log_normal_interval,
    normal_cdf,
    normal_of_logit,
    normal_quantile,
)
from marginals.numerics.sigmoid import log_sigmoid_density, log_sigmoid_interval, x_minus_tanh

__all__ = [
    "draw",
    "draw_many",
    "draw_rows",
    "factors",
    "index_of",
    "invert_monotone",
    "log1mexp",
    "log_matmul",
    "log_matmul_kept",
    "log_normal_cdf",
    "log_normal_density",
    "log_normal_interval",
    "log_normalised",
    "log_shares",
    "log_sigmoid_density",
    "log_sigmoid_interval",
    "log_softplus",
    "logit_of_interval",
    "logsumexp",
    "narrow_brackets",
    "normal_cdf",
    "normal_of_logit",
    "normal_quantile",
    "raw_weights",
    "select",
    "spawn",
    "sum_of_others",
    "table_of",
    "x_minus_tanh",
]
