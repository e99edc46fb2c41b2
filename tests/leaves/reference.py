"""The neural leaf of one column and component, in as many digits as asked for."""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import torch
from mpmath import mpf

from marginals.leaves import NeuralLeaves

BETA = 10  # of the weights' softplus


@dataclass(frozen=True)
class Leaf:
    """Plain numbers of one leaf; the formulas of the paper, written without any care."""

    weights: list[list[list[mpf]]]  # by layer, (out, in)
    biases: list[list[mpf]]
    gates: list[list[mpf]]
    location: mpf
    scale: mpf

    def z(self, x: float) -> mpf:
        values = [(mpf(x) - self.location) / self.scale]
        for i, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = [
                sum(w * v for w, v in zip(row, values, strict=True)) + b
                for row, b in zip(weights, biases, strict=True)
            ]
            if i < len(self.gates):
                pairs = zip(values, self.gates[i], strict=True)
                values = [h + a * mpmath.tanh(h) for h, a in pairs]
        return values[0]

    def cdf(self, x: float) -> mpf:
        z = self.z(x)
        return 1 / (1 + mpmath.exp(-z))

    def sf(self, x: float) -> mpf:
        return 1 / (1 + mpmath.exp(self.z(x)))

    def log_interval(self, low: float, high: float) -> mpf:
        """Subtract on the side of the smaller tail; 1 - e^-10000 would take 4343 digits."""
        if self.z(low) > 0:
            return mpmath.log(self.sf(low) - self.sf(high))
        return mpmath.log(self.cdf(high) - self.cdf(low))

    def log_density(self, x: float) -> mpf:
        """Differentiate the CDF by a central difference in many more digits than are asked for."""
        step = mpf(10) ** (-mpmath.mp.dps // 3)
        exact = mpf(x)
        return mpmath.log((self.cdf(exact + step) - self.cdf(exact - step)) / (2 * step))


def leaf_of(leaves: NeuralLeaves, column: int, component: int) -> Leaf:
    """Read a leaf's raw parameters; call inside `mpmath.workdps`."""

    def numbers(raw: torch.Tensor) -> list:
        return [[mpf(v) for v in row] for row in raw[..., column, component].tolist()]

    def flat(raw: torch.Tensor, function: Callable[[mpf], mpf]) -> list[mpf]:
        return [function(mpf(v)) for v in raw[..., column, component].tolist()]

    return Leaf(
        [
            [[mpmath.log1p(mpmath.exp(BETA * w)) / BETA for w in row] for row in numbers(raw)]
            for raw in leaves.weights
        ],
        [flat(raw, lambda b: b) for raw in leaves.biases],
        [flat(raw, mpmath.tanh) for raw in leaves.gates],
        mpf(leaves.location[column].item()),
        mpf(leaves.scale[column].item()),
    )
