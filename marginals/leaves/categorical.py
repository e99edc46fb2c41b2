"""Leaves of categorical columns: theta_kjc, the mass of category c under component k."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.leaves.family import LeafEvaluation, LeafFamily, check_positive, normal_like
from marginals.numerics import draw, index_of, log_matmul, select
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.derived import Derived


@final
class CategoricalLeaves(LeafFamily):
    """Masses of the codes 0..C_j - 1 of D columns under M components.

    Codes are ordered as numbers, which defines the CDF and intervals (a, b] of codes; a set of
    categories need not be an interval.

    Args:
        categories: the number of categories C_j of each column.
        width: the number of components M.
        common: whether all components share the masses, so that the columns are independent of all
            others.

    >>> leaves = CategoricalLeaves(categories=[2, 3], width=4)
    >>> leaves.evaluate(torch.tensor([[1.0], [2.0]]), columns=[0, 1]).log_cdf.abs().max().item()
    0.0
    """

    kind = "categorical"
    discrete = True
    absent: Tensor

    def __init__(self, categories: Sequence[int], width: int, common: bool = False) -> None:
        super().__init__()
        check_positive(categories=min(categories), width=width)
        self.categories = tuple(categories)
        most = max(self.categories)
        self.width, self.common = width, common
        self.logits = nn.Parameter(torch.zeros(len(categories), 1 if common else width, most))
        codes, counts = torch.arange(most), torch.tensor(self.categories)
        self.register_buffer("absent", codes >= counts[:, None], persistent=False)  # (D, C)
        self._masses = Derived()
        self.start_as_paper()

    @property
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""
        return self.logits.shape[0], self.width

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""
        return {"categories": list(self.categories), "width": self.width, "common": self.common}

    def log_values(self, cells: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""
        log_mass = self._log_mass(cells.columns)
        lower, upper = cells.by_column()
        if cells.sets or cells.has_intervals:
            allowed = self._allowed(lower, upper, cells.columns, cells.sets)
            return self._log_sum(log_mass, allowed, cells.columns, backend.host_free)
        missing = upper.isnan()
        code = torch.where(missing, 0.0, upper).long()
        known = (code >= 0) & (code < self._counts(cells.columns)) & (code == upper)
        picked = pick(log_mass, code.clamp(0, log_mass.shape[-1] - 1))
        picked = torch.where(known[..., None], picked, -torch.inf)
        return torch.where(missing[..., None], 0.0, picked)

    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log mass at `x` (n, B)."""
        log_mass = self._log_mass(columns)
        infinity = torch.full_like(x, torch.inf)

        def of(lower: Tensor, upper: Tensor) -> Tensor:
            allowed = self._allowed(lower, upper, columns)
            return self._log_sum(log_mass, allowed, columns)

        return LeafEvaluation(of(-infinity, x), of(x, infinity), of(x, x))

    @torch.no_grad()
    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return the smallest codes (n, B, Q) at which the mixtures' CDFs reach u."""
        # Far-out evidence has weights in float64, whatever the parameters are.
        log_mass = self._log_mass(columns).transpose(1, 2).to(log_weights)  # (n, C, M)
        mixed = log_matmul(log_weights, log_mass)  # (n, B, C)
        cumulative = mixed.double().softmax(-1).cumsum(-1)
        # A quantile at the sum of some masses must not fall past it by rounding.
        u = log_u.double().exp() * (1 - 8 * torch.finfo(log_weights.dtype).eps)
        code = torch.searchsorted(cumulative.contiguous(), u.contiguous())
        return code.minimum(self._counts(columns)[..., None] - 1).to(log_weights.dtype)

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor], Tensor], columns: Sequence[int]) -> Tensor:
        """Return E f(code) under each leaf, (n, M), an exact sum."""
        log_mass = self._log_mass(columns)  # (n, M, C)
        codes = torch.arange(log_mass.shape[-1], device=log_mass.device, dtype=log_mass.dtype)
        values = function(codes.expand(len(columns), -1))[:, None]  # (n, 1, C)
        present = ~select(self.absent, columns)[:, None]
        return (torch.where(present, values, 0.0) * log_mass.exp()).sum(-1)

    def sample(
        self, components: Tensor, cells: Evidence, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i within the cell of each row, (n, B)."""
        log_mass = self._log_mass(cells.columns)
        rows = torch.arange(len(cells.columns), device=log_mass.device)[:, None]
        chosen = log_mass[rows, components]  # (n, B, C)
        allowed = self._allowed(*cells.by_column(), cells.columns, cells.sets)
        code = draw(torch.where(allowed, chosen, -torch.inf), generator)
        return code.to(cells.lower.dtype)

    @torch.no_grad()
    def scale_to(self, data: Tensor) -> None:
        """Set every component to the column's margin, with one more count for each category."""
        most = self.logits.shape[-1]
        counts = torch.stack(
            [
                torch.bincount(x[x.isfinite()].long().clamp(0, most - 1), minlength=most)
                for x in data
            ]
        )
        self.logits.copy_((counts + 1.0).log()[:, None].expand(self.logits.shape))

    @torch.no_grad()
    def start(self, rows: Tensor, generator: torch.Generator | None = None) -> None:
        """Set component k to half its masses so far and half the category in `rows` (D, M)."""
        if self.common:
            return  # the margin
        most = self.logits.shape[-1]
        kernel = nn.functional.one_hot(rows.long().clamp(0, most - 1), most)
        mass = 0.5 * self._log_mass(range(self.size[0])).exp() + 0.5 * kernel
        self.logits.copy_(torch.where(self.absent[:, None], 0.0, mass.log()))

    @torch.no_grad()
    def start_weighted(
        self, data: Tensor, shares: Tensor, columns: Sequence[int] | None = None
    ) -> None:
        """Set component k to counts of data (n, N) weighted by shares (N, M).

        One more row, like all rows together, is added to each component.
        """
        at = list(range(len(data)) if columns is None else columns)
        most = self.logits.shape[-1]
        shares = shares.sum(1, keepdim=True) if self.common else shares
        counts = torch.stack([_counts(x, shares, most) for x in data])  # (n, M, C)
        self.logits[at] = with_prior_row(counts, self.absent[at][:, None]).to(self.logits)

    @torch.no_grad()
    def set_masses(
        self, log_masses: Sequence[Tensor], columns: Sequence[int] | None = None
    ) -> None:
        """Set the log masses (M, C_j) of some columns, all by default."""
        at = range(len(log_masses)) if columns is None else columns
        for column, found in zip(at, log_masses, strict=True):
            self.logits[column, :, : found.shape[1]] = found.to(self.logits)

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Set the logits to standard Gaussians; the paper has no categorical columns."""
        self.logits.copy_(normal_like(self.logits, generator))

    def row_cost(self) -> int:
        """Return the number of floats that evaluating all columns of one row holds at a time."""
        columns, width = self.size
        return columns * 4 * (width + self.logits.shape[-1])

    def _log_mass(self, columns: Sequence[int]) -> Tensor:
        """Return the log masses of all codes, (n, M, C)."""

        def make(some: Sequence[int]) -> Tensor:
            absent = select(self.absent, some)[:, None]
            logits = select(self.logits, some).masked_fill(absent, -torch.inf)
            return logits.log_softmax(-1).expand(-1, self.width, -1)

        return self._masses.of_columns(columns, self.size[0], (self.logits,), make, select)

    def _log_sum(
        self, log_mass: Tensor, allowed: Tensor, columns: Sequence[int], host_free: bool = False
    ) -> Tensor:
        """Sum the masses of the codes that each cell admits, (n, B, C) to (n, B, M)."""
        log_mask = torch.where(allowed, 0.0, -torch.inf).to(log_mass.dtype)
        total = log_matmul(log_mask, log_mass, host_free=host_free)
        # All codes together are certain, not a sum that rounds to one.
        certain = (allowed | select(self.absent, columns)[:, None]).all(-1)
        return torch.where(certain[..., None], 0.0, total)

    def _counts(self, columns: Sequence[int]) -> Tensor:
        counts = [self.categories[c] for c in columns]
        return index_of(counts, self.logits.device)[:, None]

    def _allowed(
        self,
        lower: Tensor,
        upper: Tensor,
        columns: Sequence[int],
        sets: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """Return which codes each cell (n, B) admits, (n, B, C)."""
        code = torch.arange(self.logits.shape[-1], device=lower.device)
        low, high = lower[..., None], upper[..., None]
        inside = torch.where(low == high, code == low, (code > low) & (code <= high))
        allowed = inside | low.isnan()
        for column, mask in (sets or {}).items():
            at = list(columns).index(column)
            padded = nn.functional.pad(mask, (0, len(code) - mask.shape[-1]))
            both = (allowed[at] & padded)[None]
            allowed = allowed.index_copy(0, index_of([at], lower.device), both)
        return allowed & ~select(self.absent, columns)[:, None]


def pick(log_mass: Tensor, code: Tensor) -> Tensor:
    """Return values (n, M, C) at codes (n, B), (n, B, M)."""
    columns, width, categories = log_mass.shape
    start = torch.arange(columns, device=code.device)[:, None] * categories
    # Picking rows of a matrix makes the gradient add up rows, not single numbers.
    table = log_mass.transpose(1, 2).reshape(-1, width)
    return table.index_select(0, (code + start).flatten()).view(columns, -1, width)


def with_prior_row(counts: Tensor, absent: Tensor) -> Tensor:
    """Return logits of counts (n, M, C) plus one row of the margin, 0 where absent (n, 1, C).

    The margin has one more count for each category, so that a rare one keeps some mass.
    """
    margin = torch.where(absent, 0.0, counts.sum(1, keepdim=True) + 1.0)
    mass = counts + margin / margin.sum(-1, keepdim=True)
    return torch.where(absent, 0.0, mass.log())


def _counts(data: Tensor, shares: Tensor, categories: int) -> Tensor:
    """Return the sum of the shares (N, M) of each category of a column (N,), (M, C)."""
    known = data.isfinite()
    code = data[known].long().clamp(0, categories - 1)
    return shares.new_zeros(categories, shares.shape[1]).index_add(0, code, shares[known]).T
