r"""The copula of a density: how columns depend on each other, whatever their margins.

With U_j = F_j(X_j), C(u) = P(U <= u) is the CDF of the columns at their own quantiles, and its
density c(u) = p(x) / prod_j p_j(x_j) at x_j = F_j^{-1}(u_j). So each question costs one inversion
of the margins and one contraction.

A level u may be missing (NaN: its column is marginalised), 0 or 1. Levels are inverted by log u and
log(1 - u), so that the lower tail is exact down to the smallest float, and the upper one as far as
1 - u has digits: 1e-12 below 1 has four. Answers to questions of the upper tail (`logsf`,
`upper_tail`) are exact without that loss where they take the distance from 1 themselves.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.quantile_table import quantiles
from marginals.queries.estimate import Estimate
from marginals.queries.rank_correlation import RankCorrelations, rank_correlations
from marginals.queries.rows import Columns, groups

# What a missing level, or one on the edge, is inverted at: any number inside.
_HALF = math.log(0.5)


@final
class Copula:
    """The copula of some continuous columns of a density, which are then called 0, 1, ...

    Levels `u` have shape (..., n), one for each of `columns` (all of the copula's by default).
    Nothing here carries gradients.

    Args:
        density: the density; as a view it may be given at most one row of evidence.
        columns: two or more continuous columns without atoms; by default all there are.

    >>> from marginals.densities.build import build
    >>> copula = Copula(build(torch.randn(50, 3), width=4), [0, 2])
    >>> copula.cdf(torch.tensor([[0.5, 1.0], [0.5, 0.0]]))
    tensor([0.5000, 0.0000])
    """

    def __init__(self, density: Density, columns: Sequence[int] | None = None) -> None:
        chosen = _continuous(density) if columns is None else groups(density, columns=columns)[0]
        _check(density, chosen)
        every = chosen == tuple(range(density.columns))
        self.density = density if every else density.marginal(chosen)

    @property
    def columns(self) -> int:
        """Number of columns n."""
        return self.density.columns

    def __repr__(self) -> str:
        return f"Copula({self.columns} columns of {type(self.density).__name__})"

    # The cube and the columns -----------------------------------------------------------------

    @torch.no_grad()
    def quantiles(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return the values x_j = F_j^{-1}(u_j) of levels (..., n): infinite at 0 and 1."""
        flat, asked = self._levels(u, columns)
        return self._invert(flat.log(), torch.log1p(-flat), asked).to(u).reshape(u.shape)

    @torch.no_grad()
    def levels(self, x: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return the levels u_j = F_j(x_j) of values (..., n)."""
        asked = self._asked(columns, x.shape[-1])
        flat = x.reshape(-1, len(asked))
        margins = self.density.univariates(None, asked)
        parts = []
        for rows in flat.split(self.density.rows_at_once()):
            known = torch.where(rows.isfinite(), rows, 0.0).to(margins.log_evidence.device)
            at = margins.evaluate(known[:, None])
            low, high = at.log_cdf[:, 0].double(), at.log_sf[:, 0].double()
            parts.append(torch.where(low < high, low.exp(), -high.expm1()).to(rows))
        u = torch.cat(parts)
        u = torch.where(flat == -torch.inf, 0.0, torch.where(flat == torch.inf, 1.0, u))
        return torch.where(flat.isnan(), torch.nan, u).reshape(x.shape)

    @torch.no_grad()
    def sample(
        self,
        draws: int,
        given: Mapping[int, Any] | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw points of the unit cube, (S, n).

        Args:
            draws: their number S.
            given: by column, a level or an interval of levels (low, high), with None for an end
                of the unit interval, that the draws are given.
            generator: of the draws.
        """
        known, ends = self._known(given or {})
        u = self.levels(self.density.sample(draws, known, generator))
        for column, (low, high) in ends.items():
            u[:, column].clamp_(low, high)  # rounding on the way there and back
        return u

    # C, c and h -------------------------------------------------------------------------------

    def logcdf(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return log C(u) = log P(every U_j <= u_j), (...)."""
        flat, asked = self._levels(u, columns)
        value = self._log_corner(flat.log(), torch.log1p(-flat), asked)
        return value.to(u).reshape(u.shape[:-1])

    def cdf(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return C(u) = P(every U_j <= u_j), (...)."""
        return self.logcdf(u, columns).exp()

    def logsf(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return log P(every U_j > u_j), (...)."""
        flat, asked = self._levels(u, columns)
        value = self._log_corner(flat.log(), torch.log1p(-flat), asked, upper=True)
        return value.to(u).reshape(u.shape[:-1])

    def sf(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return P(every U_j > u_j), (...)."""
        return self.logsf(u, columns).exp()

    @torch.no_grad()
    def logpdf(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return the log of the density c(u), (...); -inf on the faces of the cube by convention.

        The faces have no volume, and c need not have a limit there.
        """
        flat, asked = self._levels(u, columns)
        x = self._invert(flat.log(), torch.log1p(-flat), asked)
        edge = x.isinf()
        x = torch.where(edge, torch.nan, x)
        value = self.density.logpdf(x, asked)
        margins = self.density.univariates(None, asked)
        parts = []
        for rows in x.split(self.density.rows_at_once()):
            each = margins.logpdf(rows.nan_to_num()[:, None])[:, 0]
            parts.append(torch.where(rows.isnan(), 0.0, each).sum(-1))
        value = value - torch.cat(parts).to(value)
        return torch.where(edge.any(-1), -torch.inf, value).to(u).reshape(u.shape[:-1])

    def pdf(self, u: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Return the density c(u), (...); see `logpdf`."""
        return self.logpdf(u, columns).exp()

    @torch.no_grad()
    def h(self, u: Tensor, of: Columns, given: Columns) -> Tensor:
        """Return the conditional CDF P(U_of <= u_of | U_given = u_given), (...).

        Args:
            u: levels of all columns, (..., n); those of other columns are not read.
            of: one column or several, whose joint CDF is asked for.
            given: the columns held at their levels, strictly between 0 and 1.
        """
        asked, known = groups(self.density, of=of, given=given)
        flat, _ = self._levels(u, None)
        at = flat[:, list(known)]
        if bool(((at <= 0) | (at >= 1)).any()):
            raise ValueError(
                "Expected `u` to lie strictly between 0 and 1 in the columns `given`; got 0 or 1, "
                "where a conditional need not have a limit. Give a level just inside."
            )
        x = self._invert(flat.log(), torch.log1p(-flat), range(self.columns))
        fixed = Evidence.exact(x[:, list(known)], known)
        high = x[:, list(asked)]
        high = torch.where(high == torch.inf, torch.nan, high)
        low = torch.full_like(high, -torch.inf)
        out = self.density.logprob(low, high, asked, fixed)
        return out.exp().to(u).reshape(u.shape[:-1])

    # Pairs ------------------------------------------------------------------------------------

    def rank_correlations(
        self, a: int, b: int, points: int = 1024, seed: int = 0
    ) -> RankCorrelations:
        """Return Kendall's tau and Spearman's rho; see `marginals.queries.rank_correlations`."""
        return rank_correlations(self.density, a, b, points, seed)

    def kendall_tau(self, a: int, b: int, points: int = 1024, seed: int = 0) -> Estimate:
        """Return Kendall's tau of two columns, with the standard error of its quadrature."""
        return self.rank_correlations(a, b, points, seed).kendall_tau

    def spearman_rho(self, a: int, b: int, points: int = 1024, seed: int = 0) -> Estimate:
        """Return Spearman's rho of two columns, with the standard error of its quadrature."""
        return self.rank_correlations(a, b, points, seed).spearman_rho

    def lower_tail(self, a: int, b: int, q: Tensor | float = 0.01) -> Tensor:
        """Return P(U_b <= q | U_a <= q) = C(q, q) / q at thresholds `q` (...).

        As q falls to 0 it falls to 0 for every model of this library: with finitely many
        components it is at most a constant times q where columns are independent inside of them,
        and inside of a Gaussian copula it vanishes too. What it says at the thresholds that the
        data reach is what counts; the limit is no estimate of a coefficient of tail dependence.

        Args:
            a, b: the columns.
            q: thresholds between 0 and 1.
        """
        return self._tail(a, b, q, upper=False)

    def upper_tail(self, a: int, b: int, q: Tensor | float = 0.01) -> Tensor:
        """Return P(U_b > 1 - q | U_a > 1 - q) at thresholds `q` (...); see `lower_tail`.

        Args:
            a, b: the columns.
            q: distances from 1, between 0 and 1.
        """
        return self._tail(a, b, q, upper=True)

    # Parts ------------------------------------------------------------------------------------

    def _asked(self, columns: Sequence[int] | None, count: int) -> tuple[int, ...]:
        asked = tuple(range(self.columns)) if columns is None else tuple(columns)
        self.density.check_columns(asked)
        if count != len(asked):
            raise ValueError(
                f"Expected levels or values of {len(asked)} columns; got {count}. Say which with "
                "`columns`."
            )
        return asked

    def _levels(self, u: Tensor, columns: Sequence[int] | None) -> tuple[Tensor, tuple[int, ...]]:
        """Check levels, and view them as rows on the density's device, (B, n)."""
        if not isinstance(u, Tensor) or not u.is_floating_point() or u.ndim == 0:
            raise TypeError(f"Expected `u` to be a tensor (..., n) of levels; got {u!r:.60}.")
        asked = self._asked(columns, u.shape[-1])
        wrong = (u < 0) | (u > 1)
        if bool(wrong.any()):
            raise ValueError(
                f"Expected levels `u` to lie in [0, 1]; got {float(u[wrong][0])}. Bring values to "
                "levels with `levels`."
            )
        parameter = next(self.density.parameters(), u)
        return u.to(parameter.device).double().reshape(-1, len(asked)), asked

    def _invert(self, log_u: Tensor, log_1mu: Tensor, columns: Sequence[int]) -> Tensor:
        """Return quantiles (B, n): -inf and inf at the ends, NaN where missing."""
        margins = self.density.univariates(None, columns)
        inside = (log_u > -torch.inf) & (log_1mu > -torch.inf)
        low, high = (torch.where(inside, side, _HALF) for side in (log_u, log_1mu))
        x = quantiles(margins, low, high, self.density.rows_at_once())
        x = torch.where(log_u == -torch.inf, -torch.inf, x)
        x = torch.where(log_1mu == -torch.inf, torch.inf, x)
        return torch.where(log_u.isnan(), torch.nan, x)

    @torch.no_grad()
    def _log_corner(
        self, log_u: Tensor, log_1mu: Tensor, columns: Sequence[int], upper: bool = False
    ) -> Tensor:
        """Return the log probability of the corner below, or above, levels (B, n)."""
        x = self._invert(log_u, log_1mu, columns)
        # An end that leaves nothing out is a column that is not asked about.
        x = torch.where(x == (-torch.inf if upper else torch.inf), torch.nan, x)
        end = torch.full_like(x, torch.inf if upper else -torch.inf)
        return self.density.logprob(*((x, end) if upper else (end, x)), columns).to(log_u)

    def _tail(self, a: int, b: int, q: Tensor | float, upper: bool) -> Tensor:
        groups(self.density, a=a, b=b)
        level = torch.as_tensor(q, dtype=torch.float64)
        if not bool(((level > 0) & (level < 1)).all()):
            raise ValueError(f"Expected thresholds `q` to lie between 0 and 1; got {q}.")
        parameter = next(self.density.parameters(), level)
        near = level.to(parameter.device).reshape(-1, 1).expand(-1, 2)
        sides = near.log(), torch.log1p(-near)
        log_u, log_1mu = reversed(sides) if upper else sides
        value = self._log_corner(log_u, log_1mu, (a, b), upper)
        return (value - near[:, 0].log()).exp().reshape(level.shape)

    def _known(self, given: Mapping[int, Any]) -> tuple[Evidence, dict[int, tuple[float, float]]]:
        """Return evidence on levels as evidence on values, and the ends of the levels."""
        columns = tuple(given)
        self.density.check_columns(columns)
        ends = {column: _ends(column, cell) for column, cell in given.items()}
        if not ends:
            return Evidence.nothing(like=torch.empty(0, dtype=torch.float64)), ends
        both = torch.tensor(list(ends.values()), dtype=torch.float64).T  # (2, n)
        x = self.quantiles(both, columns)
        return Evidence.interval(x[:1], x[1:], columns), ends


def _continuous(density: Density) -> tuple[int, ...]:
    kinds = density.categories
    return tuple(c for c in range(density.columns) if kinds[c] is None and c not in density.atoms)


def _check(density: Density, columns: Sequence[int]) -> None:
    if getattr(density, "rows", 1) > 1:
        raise ValueError(
            f"Expected a density given at most one row of evidence; got one given {density.rows}. "
            "Condition on one row at a time."
        )
    kinds = density.categories
    wrong = [c for c in columns if kinds[c] is not None or c in density.atoms]
    if wrong:
        raise ValueError(
            "Expected continuous columns without atoms, whose copula is unique; got column "
            f"{wrong[0]}. Leave it out, or condition on it."
        )
    if len(columns) < 2:
        raise ValueError(
            f"Expected a copula of two or more continuous columns; got {list(columns)}. Add one."
        )


def _ends(column: int, cell: Any) -> tuple[float, float]:
    """Return the ends of an interval of levels, equal for a single level."""
    pair = cell if isinstance(cell, tuple) else (cell, cell)
    if len(pair) != 2:
        raise TypeError(
            f"Expected a level or a pair (low, high) for column {column}; got {cell!r}."
        )
    low, high = (0.0 if pair[0] is None else pair[0]), (1.0 if pair[1] is None else pair[1])
    low, high = float(low), float(high)
    inside = 0 < low < 1 if low == high else 0 <= low < high <= 1
    if not inside:
        raise ValueError(
            f"Expected a level between 0 and 1, or a pair (low, high) of them with low < high, for "
            f"column {column}; got {cell!r}."
        )
    return low, high
