"""Marginals and conditionals of a density, as densities."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation
from marginals.runtime.backend import QUERY, Backend


@final
class View(Density):
    """The distribution of some columns of another density, given evidence on others.

    Views of views do not nest: they refer to the density at the bottom.

    Args:
        base: the density.
        columns: the columns of `base` in the view, which numbers them 0, 1, ... in this order.
        given: evidence on other columns; with B rows, row b of a query is conditioned on row b.
            `Density.condition` checks that it is possible.
    """

    base: Density
    kept: tuple[int, ...]
    given: Evidence

    def __init__(self, base: Density, columns: Sequence[int], given: Any = None) -> None:
        super().__init__()
        kept = _within([int(c) for c in columns], base.columns)
        known = base.checked(given)
        if isinstance(base, View):
            known = base._joined(known)
            kept = tuple(base.kept[c] for c in kept)
            base = base.base
        self.base, self.kept, self.given = base, kept, known
        shared = sorted(set(kept) & set(known.columns))
        if shared:
            raise ValueError(
                f"Expected a view of columns that are not given; got {shared}. Leave them out."
            )

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return len(self.kept)

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        every = self.base.categories
        return tuple(every[c] for c in self.kept)

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        every = self.base.atoms
        return {i: every[c] for i, c in enumerate(self.kept) if c in every}

    @property
    def rows(self) -> int:
        """Number of rows of evidence, 1 if nothing is given."""
        return len(self.given)

    def log_value(self, evidence: Any) -> Tensor:
        """Return the log density of the exact cells and probability of the others, (B,)."""
        return self.log_conditional(evidence)

    def log_conditional(self, requested: Any, given: Any = None) -> Tensor:
        """Return the log value of requested cells given evidence, (B,)."""
        asked, known = self.checked(requested), self.checked(given)
        asked.check_joins(known)
        return self.base.log_conditional(self._of_base(asked), self._joined(known))

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        joint = self.base.contract(self._joined(evidence), backend)
        return joint - self.base.contract(self.given, backend)

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        known = self.checked(given)
        asked = _within(range(self.columns) if columns is None else columns, self.columns)
        inner = self.base.univariates(self._joined(known), [self.kept[c] for c in asked])
        # With no further evidence, that of the view is all there is.
        own = self.base.log_value(self.given)[:, None] if known.columns else inner.log_evidence
        return ViewUnivariates(inner, asked, own)

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        rows = self.base.sample_rows(self._joined(given), draws, generator)
        return rows[..., list(self.kept)]

    def sample(
        self, draws: int, given: Any = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw rows: (S, D) for none or one row of evidence, (B, S, D) for B rows."""
        out = self.base.sample(draws, self._joined(self.checked(given)), generator)
        return out[..., list(self.kept)]

    def ppf(self, u: Tensor | float, column: int, given: Any = None) -> Tensor:
        """Return the quantiles of one column at levels `u` (...), given evidence."""
        (asked,) = _within([column], self.columns)
        return self.base.ppf(u, self.kept[asked], self._joined(self.checked(given)))

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time, given such evidence."""
        return self.base.row_cost(None if given is None else self._joined(given))

    def extra_repr(self) -> str:
        """Show the columns and the evidence."""
        return f"columns={list(self.kept)}, given={self.given!r}"

    def _of_base(self, evidence: Evidence) -> Evidence:
        """Return evidence that was checked for the view, about the columns of the base."""
        return replace(evidence.renamed(self.kept), valid_for=self.base.categories)

    def _joined(self, evidence: Evidence) -> Evidence:
        """Return checked evidence together with that of the view, for the base."""
        if not evidence.columns and len(evidence) == 1:
            return self.given
        return self._of_base(evidence).join(self.given)


@final
class ViewUnivariates(Univariates):
    """Univariates of a view: those of its base, under the view's names of columns.

    Args:
        inner: the univariates of the base.
        columns: the view's names of their columns.
        log_given: the log value of the view's evidence, (B, n), (B, 1) or (1, 1).
    """

    def __init__(self, inner: Univariates, columns: Sequence[int], log_given: Tensor) -> None:
        self.inner, self.columns, self.discrete = inner, tuple(columns), inner.discrete
        self.log_evidence = inner.log_evidence - log_given

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        return self.inner.atoms

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        return self.inner.evaluate(x)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        return self.inner.quantile(log_u, log_1mu)

    def rough_quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return points near the quantiles, (..., B, n)."""
        return self.inner.rough_quantile(log_u, log_1mu)

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        return self.inner.cdf(x)

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density at `x` (..., B, n), which underflow far out."""
        return self.inner.tails(x)

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie."""
        return self.inner.bracket(log_u, log_1mu)

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), where j are the view's names."""
        names = dict(zip(self.inner.columns, self.columns, strict=True))
        return self.inner.expect(lambda x, columns: function(x, [names[c] for c in columns]))

    def take(self, place: int, rows: Tensor) -> "ViewUnivariates":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        taken = self.inner.take(place, rows)
        change = taken.log_evidence - self.log_evidence[rows][:, [place]]
        return ViewUnivariates(taken, (self.columns[place],), change)


def _within(columns: Sequence[int], count: int) -> tuple[int, ...]:
    for column in columns:
        if not 0 <= column < count:
            raise ValueError(f"Expected columns between 0 and {count - 1}; got {column}.")
    if len(set(columns)) != len(columns):
        raise ValueError(f"Expected each column once; got {list(columns)}.")
    return tuple(columns)
