"""The interface of a univariate family.

Shapes: B rows, D columns of the family, n requested ones, M components. Columns come first,
(n, B, M), because the contraction above multiplies the matrices of one tree node at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.numerics import index_of, logsumexp, select
from marginals.runtime.backend import QUERY, Backend


@dataclass(frozen=True)
class LeafEvaluation:
    """Every leaf of n columns at one value per row: three logarithms from one pass, (n, B, M).

    Args:
        log_cdf: log of the CDF.
        log_sf: log of the survival function.
        log_density: log density, or log mass of a discrete leaf.
    """

    log_cdf: Tensor
    log_sf: Tensor
    log_density: Tensor


class LeafFamily(nn.Module, ABC):
    """Univariate distributions for each of D columns and M components.

    To add a family, implement the methods below for any subset of its columns and list the class in
    `leaves/collection.py`; every query, training and sampling then work with it. Add it to the
    registry of `tests/laws`, which check it.

    The methods share their arguments: n `columns` of the family; `cells`, evidence about them;
    `log_u` and `log_1mu`, the logarithms of levels u and 1 - u, (n, B, Q); `log_weights` of the
    leaves, (n, B, M); `components`, the leaf of each cell, (n, B); `data`, values (D, N); a
    `generator` of random numbers; and the `backend`, which selects the implementation.
    """

    kind: str
    discrete: bool

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""

    @abstractmethod
    def log_values(self, cells: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing.

        The evidence is about columns of this family, 0..D-1, in any order.
        """

    @abstractmethod
    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log density (or mass) at `x` (n, B)."""

    def cdf(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the CDF at `x` (n, B), (n, B, M), to absolute machine precision."""
        return self.evaluate(x, columns).log_cdf.exp()

    @abstractmethod
    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return quantiles (n, B, Q) of mixtures of each column's leaves with weights (n, B, M)."""

    def rough_invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return points (n, B, Q) near the quantiles, at lower cost if the family can."""
        return self.invert(log_u, log_1mu, log_weights, columns)

    def bracket(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return ends (n, B, Q) between which quantiles lie; by default the quantiles themselves.

        A family with ends in closed form overrides this.
        """
        found = self.invert(log_u, log_1mu, log_weights, columns)
        return found, found

    def tails(
        self, x: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density of mixtures, (n, Q, B).

        They underflow far out. A family that needs no logarithms for them overrides this.

        Args:
            x: points (n, Q, B).
            log_weights: of the leaves, (n, B, M).
            columns: the n columns.
        """
        found = self.evaluate(x.flatten(1), columns)
        below, above, density = (
            logsumexp(log_weights[:, None] + part.unflatten(1, x.shape[1:])).exp()
            for part in (found.log_cdf, found.log_sf, found.log_density)
        )
        return below, above, density

    @abstractmethod
    def sample(
        self, components: Tensor, cells: Evidence, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i within the cell of each row, (n, B)."""

    @abstractmethod
    def expect(self, function: Callable[[Tensor], Tensor], columns: Sequence[int]) -> Tensor:
        """Return E f(X) under each leaf, (n, M); `function` maps values (n, T) or (n, T, M).

        Continuous leaves use quadrature; see `NeuralLeaves.expect` for its error.
        """

    @abstractmethod
    def start(self, rows: Tensor, generator: torch.Generator | None = None) -> None:
        """Set component k to a narrow kernel on the values `rows` (D, M)."""

    @property
    def has_closed_form_start(self) -> bool:
        """Whether `start_weighted` is a step of EM."""
        return True

    def start_weighted(
        self, data: Tensor, shares: Tensor, columns: Sequence[int] | None = None
    ) -> None:
        """Set component k of some columns, all by default, to resemble data by weight.

        Args:
            data: rows or distinct values, (n, N), NaN where missing; call `scale_to` first.
            shares: the share of each in each component, (N, M).
            columns: the n columns.
        """
        raise TypeError(f"Expected leaves with a closed-form start; got {type(self).__name__}.")

    @abstractmethod
    def scale_to(self, data: Tensor) -> None:
        """Set the scale of each column from data (D, N), NaN where missing."""

    @abstractmethod
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Set the parameters as the paper's appendix does."""

    @abstractmethod
    def row_cost(self) -> int:
        """Return the number of floats in memory while all columns of one row are evaluated."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""

    def extra_repr(self) -> str:
        """Show the configuration."""
        return ", ".join(f"{key}={option}" for key, option in self.config().items())


def has_exact(lower: Tensor, upper: Tensor, backend: Backend) -> bool:
    """Return whether some cell with these bounds is exact; true if the host must not look."""
    return backend.host_free or bool((lower == upper).any())


class ContinuousLeaves(LeafFamily):
    """Leaves with a density everywhere: draws are inverted uniforms."""

    discrete = False

    def log_values(self, cells: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""
        lower, upper = cells.by_column()
        missing = upper.isnan()[..., None]
        at = cells.positions(cells.intervals)
        low, high = select(lower, at), select(upper, at)
        if at and len(at) == len(cells.columns) and not has_exact(low, high, backend):
            return torch.where(missing, 0.0, self.log_interval(low, high, cells.columns))
        value = self.log_density(upper, cells.columns)
        if at:
            mass = self.log_interval(low, high, [cells.columns[i] for i in at])
            mass = torch.where((low < high)[..., None], mass, select(value, at))
            every = len(at) == len(cells.columns)
            value = mass if every else value.index_copy(0, index_of(at, value.device), mass)
        return torch.where(missing, 0.0, value)

    def sample(
        self, components: Tensor, cells: Evidence, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i within the cell of each row, (n, B)."""
        u = torch.rand(
            components.shape, dtype=torch.float64, device=components.device, generator=generator
        )
        # The open unit interval: 0 would be the leaf's end at minus infinity.
        u = u.clamp_min(torch.finfo(torch.float64).tiny)
        return self.invert_chosen(u.log(), torch.log1p(-u), components, cells)

    @torch.no_grad()
    def invert_chosen(
        self,
        log_u: Tensor,
        log_1mu: Tensor,
        components: Tensor,
        cells: Evidence,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Invert one leaf per cell (n, B) at u, within its bounds."""
        held = cells.positions(cells.intervals)
        if 0 < len(held) < len(cells.columns):  # bounds cost more than the inversion
            rest = [i for i in range(len(cells.columns)) if i not in held]

            def some(at: list[int]) -> Tensor:
                u, v, chosen = (select(part, at) for part in (log_u, log_1mu, components))
                own = cells.select([cells.columns[i] for i in at])
                return self.invert_chosen(u, v, chosen, own, backend)

            order = [*held, *rest]
            back = sorted(range(len(order)), key=order.__getitem__)
            return select(torch.cat([some(held), some(rest)]), back)
        lower, upper = cells.by_column()
        exact = lower == upper
        request = ((log_u, log_1mu), components, cells.columns, lower.dtype)
        if not cells.has_intervals:
            x = self.quantiles_of_chosen(*request, backend=backend)
            return torch.where(exact, lower, x)
        free = exact | lower.isnan()
        bounds = torch.where(free, -torch.inf, lower), torch.where(free, torch.inf, upper)
        x = self.quantiles_of_chosen(*request, bounds, backend)
        least = bounds[0].nextafter(torch.full_like(lower, torch.inf))
        return torch.where(exact, lower, x.clamp(least, bounds[1]))

    @abstractmethod
    def quantiles_of_chosen(
        self,
        levels: tuple[Tensor, Tensor],
        components: Tensor,
        columns: Sequence[int],
        dtype: torch.dtype,
        bounds: tuple[Tensor, Tensor] | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Return quantiles of one leaf per cell (n, B), truncated to bounds (n, B) if given.

        Args:
            levels: log u and log(1 - u), (n, B).
            components: the chosen leaf of each cell, (n, B).
            columns: the columns of the cells.
            dtype: that of the answer: around a large offset float32 has few numbers.
            bounds: the lower and upper ends of the cells, infinite where open.
            backend: how it is computed.
        """

    @abstractmethod
    def log_density(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log phi'(x) for `x` (n, B), (n, B, M)."""

    @abstractmethod
    def log_interval(self, lower: Tensor, upper: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log(phi(upper) - phi(lower)) for bounds (n, B), (n, B, M).

        Cells whose bounds are not in order get an arbitrary finite number.
        """

    @abstractmethod
    def bracket_logits(
        self, target: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Bracket, in the columns' units, where mixtures with weights (n, N, M) reach logits."""

    def bracket(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return ends (n, B, Q) between which quantiles at finite levels lie."""
        target = (log_u - log_1mu).flatten(1)
        weights = log_weights.repeat_interleave(log_u.shape[-1], 1)  # (n, B Q, M)
        low, high = self.bracket_logits(target, weights, columns)
        return low.reshape(log_u.shape), high.reshape(log_u.shape)


def check_positive(**numbers: int) -> None:
    """Refuse sizes below 1."""
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"Expected `{name}` to be at least 1; got {number}.")


def location_and_scale(data: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each column (D, N), NaN where missing; each (D,)."""
    location = torch.nan_to_num(data.nanmean(1))
    scale = (data - location[:, None]).square().nanmean(1).sqrt()
    # A constant or empty column has no scale of its own; its mean is off by rounding.
    rounding = 8 * torch.finfo(data.dtype).eps * location.abs()
    return location, torch.where(scale.isfinite() & (scale > rounding), scale, 1.0)


def integral(terms: Tensor, step: Tensor | float) -> Tensor:
    """Sum terms (n, T, M) by the trapezoidal rule; infinite if they do not fall off at the ends."""
    total = terms.sum(1) * step
    ends = terms[:, [0, -1]].abs().amax(1)
    return torch.where(ends > 1e-3 * (1 + total.abs()), total.sign() * torch.inf, total)


def normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw standard normal numbers of the shape, dtype and device of `x`."""
    return torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
