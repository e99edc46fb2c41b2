"""The sigmoid's density and interval probability, exact in both tails."""

import torch.nn.functional as F
from torch import Tensor

from marginals.numerics.logspace import log1mexp


def log_sigmoid_density(z: Tensor, log_slope: Tensor) -> Tensor:
    r"""Compute :math:`\log \frac{d}{dx}\sigma(z(x))` from `z` and :math:`\log z'(x)`.

    >>> import torch
    >>> log_sigmoid_density(torch.tensor(0.0), torch.tensor(0.0)).exp()
    tensor(0.2500)
    """
    return log_slope + F.logsigmoid(z) + F.logsigmoid(-z)


def log_sigmoid_interval(low: Tensor, high: Tensor, gap: Tensor) -> Tensor:
    r"""Compute :math:`\log(\sigma(b) - \sigma(a))` from `a`, `b` and their gap `b - a >= 0`.

    The identity :math:`\sigma(b) - \sigma(a) = \sigma(b)\,\sigma(-a)\,(1 - e^{a-b})` has no
    difference of close numbers, provided that the gap itself was not found by subtraction.
    `a = -inf` gives the log CDF and `b = inf` the log survival function.

    >>> import torch
    >>> a, b = torch.tensor([40.0, 1e4]), torch.tensor([41.0, 1.1e4])
    >>> log_sigmoid_interval(a, b, b - a)
    tensor([   -40.4587, -10000.0000])
    """
    return F.logsigmoid(high) + F.logsigmoid(-low) + log1mexp(-gap)
