"""Univariates of several families side by side."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation


@final
class Interleaved(Univariates):
    """Univariates of the same rows, each of other columns, in a given order.

    Args:
        parts: the univariates.
        columns: all their columns, in the order wanted.
    """

    def __init__(self, parts: Sequence[Univariates], columns: Sequence[int]) -> None:
        self.parts, self.columns = tuple(parts), tuple(columns)
        self.places = [[self.columns.index(c) for c in part.columns] for part in self.parts]
        self.log_evidence = self._join([part.log_evidence for part in self.parts])
        flags = {c: f for p in self.parts for c, f in zip(p.columns, p.discrete, strict=True)}
        self.discrete = tuple(flags[c] for c in self.columns)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        wide = x.expand(torch.broadcast_shapes(x.shape, (1, len(self.columns))))
        found = [p.evaluate(wide[..., at]) for p, at in zip(self.parts, self.places, strict=True)]
        return LeafEvaluation(
            self._join([f.log_cdf for f in found]),
            self._join([f.log_sf for f in found]),
            self._join([f.log_density for f in found]),
        )

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to a rounding error of one, not of itself."""
        wide = x.expand(torch.broadcast_shapes(x.shape, (1, len(self.columns))))
        return self._join(
            [p.cdf(wide[..., at]) for p, at in zip(self.parts, self.places, strict=True)]
        )

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        shape = torch.broadcast_shapes(log_u.shape, (1, len(self.columns)))
        low, high = log_u.expand(shape), log_1mu.expand(shape)
        found = [
            part.quantile(low[..., at], high[..., at]).double()
            for part, at in zip(self.parts, self.places, strict=True)
        ]
        return self._join(found)

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n)."""
        return self._join([part.expect(function) for part in self.parts])

    def take(self, place: int, rows: Tensor) -> Univariates:
        """Return those of one column and of some rows of evidence."""
        for part, at in zip(self.parts, self.places, strict=True):
            if place in at:
                return part.take(at.index(place), rows)
        raise IndexError(place)

    def _join(self, found: Sequence[Tensor]) -> Tensor:
        order = torch.tensor([at for places in self.places for at in places])
        return torch.cat(list(found), -1)[..., order.argsort().to(found[0].device)]
