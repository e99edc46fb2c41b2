"""The sigmoid's density and interval probability, exact in both tails."""

import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.numerics.logspace import log1mexp


def log_sigmoid_density(z: Tensor, log_slope: Tensor) -> Tensor:
    r"""Compute :math:`\log \frac{d}{dx}\sigma(z(x))` from `z` and :math:`\log z'(x)`.

    >>> log_sigmoid_density(torch.tensor(0.0), torch.tensor(0.0)).exp()
    tensor(0.2500)
    """
    return log_slope + F.logsigmoid(z) + F.logsigmoid(-z)


def log_sigmoid_interval(low: Tensor, high: Tensor, gap: Tensor) -> Tensor:
    r"""Compute :math:`\log(\sigma(b) - \sigma(a))` from `a`, `b` and their gap `b - a >= 0`.

    The identity :math:`\sigma(b) - \sigma(a) = \sigma(b)\,\sigma(-a)\,(1 - e^{a-b})` avoids
    cancellation, provided that the gap was not computed by subtraction. `a = -inf` gives the log
    CDF and `b = inf` the log survival function.

    >>> a, b = torch.tensor([40.0, 1e4]), torch.tensor([41.0, 1.1e4])
    >>> log_sigmoid_interval(a, b, b - a)
    tensor([   -40.4587, -10000.0000])
    """
    return F.logsigmoid(high) + F.logsigmoid(-low) + log1mexp(-gap)


def x_minus_tanh(x: Tensor) -> Tensor:
    r"""Compute :math:`x - \tanh x` to full relative precision, by its series near 0.

    >>> x_minus_tanh(torch.tensor(1e-5, dtype=torch.float64))
    tensor(3.3333e-16, dtype=torch.float64)
    """
    near = x.abs() < 0.1
    y = torch.where(near, x, 0.0)
    square = y * y
    # At 0.1 the next term is 2e-12 of the sum.
    series = torch.full_like(x, 1382 / 155925)
    for term in (-62 / 2835, 17 / 315, -2 / 15, 1 / 3):
        series = series * square + term
    return torch.where(near, series * square * y, x - torch.tanh(x))
