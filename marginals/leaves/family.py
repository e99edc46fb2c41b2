"""What a univariate family must answer.

Shapes: B rows, D columns of the family, n of them asked for, M components. Columns come first,
(n, B, M), because the contraction above multiplies matrices of one tree node at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from marginals.cells import Cells, Truncation
from marginals.runtime.backend import QUERY, Backend


@dataclass(frozen=True)
class LeafEvaluation:
    """Every leaf of n columns at one value per row: three logarithms from one pass, (n, B, M)."""

    log_cdf: Tensor
    log_sf: Tensor
    log_density: Tensor


class LeafFamily(nn.Module, ABC):
    """Univariate distributions for each of D columns and M components.

    To add a family, answer the methods below for any subset of its columns and list the class in
    `leaves/collection.py`; every query, training and sampling then work with it, and the laws in
    `tests/laws` check it once it stands in their registry.
    """

    kind: str
    discrete: bool

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""

    @abstractmethod
    def log_values(self, cells: Cells, columns: Sequence[int], backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""

    @abstractmethod
    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log density (or mass) at `x` (n, B)."""

    def cdf(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the CDF at `x` (n, B), (n, B, M), to a rounding error of one, not of itself."""
        return self.evaluate(x, columns).log_cdf.exp()

    @abstractmethod
    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return quantiles (n, B, Q) of mixtures of each column's leaves with weights (n, B, M)."""

    @abstractmethod
    def sample(
        self,
        components: Tensor,
        columns: Sequence[int],
        within: Truncation,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i for each of N rows, (n, N)."""

    @abstractmethod
    def expect(self, function: Callable[[Tensor], Tensor], columns: Sequence[int]) -> Tensor:
        """Return E f(X) under each leaf, (n, M); `function` maps values (n, T) or (n, T, M).

        Continuous leaves use quadrature: see `NeuralLeaves.expect` for its error.
        """

    @abstractmethod
    def start(self, rows: Tensor, generator: torch.Generator | None = None) -> None:
        """Set the parameters so that component k is a narrow kernel on the values `rows` (D, M)."""

    def start_weighted(self, data: Tensor, shares: Tensor) -> None:
        """Set the parameters so that component k is like rows of `data` (D, N), by their shares.

        Args:
            data: NaN where missing; its scale has been taken.
            shares: how much each row belongs to each component, (N, M).
        """
        # Where no more is known, a kernel on the row that belongs most.
        rows = data[:, shares.argmax(0)]
        middle = torch.nan_to_num(data.nanmedian(1).values)[:, None]
        self.start(torch.where(rows.isnan(), middle, rows))

    @abstractmethod
    def scale_to(self, data: Tensor) -> None:
        """Take what the family needs to know of the data (D, N), NaN where missing."""

    @abstractmethod
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Set the parameters as the paper's appendix does."""

    @abstractmethod
    def row_cost(self) -> int:
        """Return the number of floats that evaluating all columns of one row holds at a time."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return what `__init__` needs, as JSON."""


class ContinuousLeaves(LeafFamily):
    """Leaves with a density everywhere: draws are inverted uniforms."""

    discrete = False

    def sample(
        self,
        components: Tensor,
        columns: Sequence[int],
        within: Truncation,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i for each of N rows, (n, N)."""
        u = torch.rand(
            components.shape, dtype=torch.float64, device=components.device, generator=generator
        )
        # The open unit interval: 0 would be the leaf's end at minus infinity.
        u = u.clamp_min(torch.finfo(torch.float64).tiny)
        return self.invert_chosen(u.log(), torch.log1p(-u), components, columns, within)

    @abstractmethod
    def invert_chosen(
        self,
        log_u: Tensor,
        log_1mu: Tensor,
        components: Tensor,
        columns: Sequence[int],
        within: Truncation,
    ) -> Tensor:
        """Invert one leaf per cell (n, N) at u, within its bounds."""

    @abstractmethod
    def log_interval(self, lower: Tensor, upper: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log(phi(upper) - phi(lower)) for bounds (n, B), (n, B, M)."""

    @abstractmethod
    def bracket(
        self, target: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Bracket, in the columns' units, where mixtures with weights (n, N, M) reach logits."""
