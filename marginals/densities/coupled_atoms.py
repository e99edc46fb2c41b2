"""Atoms of coupled columns: each is a category of its component, next to the smooth part.

A coupled column with atoms has a mark: a further categorical column, whose category is one of the
atoms or "none". At an atom, the mark has the atom's mass and the column is left out of the Gaussian
part, as if it were missing; elsewhere it takes part. A cell that holds atoms and other values is
the sum of both cases: one row of evidence becomes two.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import LatticeTable
from marginals.densities.univariates import Univariates, columns_first, columns_last
from marginals.leaves import LeafEvaluation, Leaves

# Relative difference of ends of cells that is only rounding.
_CLOSE = 1e-6
# Cells on each side of an atom's that say how many of its rows are of the smooth part.
_NEIGHBOURS = 4


class Marked(NamedTuple):
    """Evidence with marks, and the row that each of its rows stands for."""

    evidence: Evidence  # R rows
    place: Tensor  # (R,), rising


class _Split(NamedTuple):
    """Where the atoms of a column lie relative to cells (B,)."""

    first: Tensor  # the first atom inside
    last: Tensor  # the one after the last
    hit: Tensor  # whether an exact cell is an atom
    both: Tensor  # whether a range holds atoms, and other values
    missing: Tensor  # whether nothing is known


@final
class CoupledAtoms:
    """The atoms of coupled columns, and the marks that stand for them.

    Args:
        points: the atoms of each column that has any, rising.
        columns: the number of columns of the table; the marks come after them.
        shares: for each atom, the part of its rows that the smooth density explains; 0 by default.
        cells: for each atom of a lattice, the ends of its cell, None where it has no end.
    """

    def __init__(
        self,
        points: Mapping[int, Sequence[float]] | None = None,
        columns: int = 0,
        shares: Mapping[int, Sequence[float]] | None = None,
        cells: Mapping[int, Sequence[Sequence[float | None]]] | None = None,
    ) -> None:
        self.points = {int(c): tuple(sorted(map(float, p))) for c, p in (points or {}).items()}
        self.table_columns = columns
        self.marks = {c: columns + i for i, c in enumerate(self.points)}
        given = {int(c): tuple(map(float, part)) for c, part in (shares or {}).items()}
        self.shares = {c: given.get(c, (0.0,) * len(p)) for c, p in self.points.items()}
        self.cells = {int(c): [tuple(cell) for cell in own] for c, own in (cells or {}).items()}

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""
        return {
            "points": {str(c): list(p) for c, p in self.points.items()},
            "columns": self.table_columns,
            "shares": {str(c): list(p) for c, p in self.shares.items()},
            "cells": {str(c): [list(cell) for cell in own] for c, own in self.cells.items()},
        }

    @property
    def categories(self) -> list[int]:
        """The number of categories of each mark: the atoms, then the smooth part."""
        return [len(points) + 1 for points in self.points.values()]

    def unmarked(self, *evidence: Evidence) -> bool:
        """Return whether some evidence gives a column with atoms and not its mark."""
        return any(
            c in known.columns and mark not in known.columns
            for known in evidence
            for c, mark in self.marks.items()
        )

    def log_unmarked(self, leaves: Leaves, columns: Sequence[int]) -> Tensor:
        """Return the log probability that columns are at no atom, by component, (n, M).

        Args:
            leaves: of the table and the marks.
            columns: the columns, with or without atoms.
        """
        like = next(leaves.parameters())
        nothing = torch.zeros(leaves.width, dtype=like.dtype, device=like.device)
        out = [nothing] * len(columns)
        for i, c in enumerate(columns):
            if c in self.points:
                none = like.new_full((1, 1), len(self.points[c]))
                out[i] = leaves.log_values(Evidence.exact(none, [self.marks[c]]))[0, 0]
        return torch.stack(out)

    # Evidence ---------------------------------------------------------------------------------

    def mark(self, evidence: Evidence) -> Marked:
        """Add the marks of columns with atoms: a cell with atoms and other values is two rows."""
        place = torch.arange(len(evidence), device=evidence.lower.device)
        for column in self._open(evidence):
            split = self._split(evidence, column)
            counts = 1 + split.both.long()
            source = torch.arange(len(counts), device=place.device).repeat_interleave(counts)
            # The first of two rows is the one at the atoms.
            again = torch.zeros_like(source, dtype=torch.bool)
            again[1:] = source[1:] == source[:-1]
            split = _Split(*(part[source] for part in split))
            at = split.hit | (split.both & ~again)
            evidence = self._marked(evidence.rows(source), column, split, at)
            place = place[source]
        return Marked(evidence, place)

    def mark_once(self, evidence: Evidence, generator: torch.Generator) -> Evidence | None:
        """Add the marks without more rows: a cell of a lattice at an atom is one or the other.

        The choice is random, by the share of the atom's rows that the smooth part explains.

        Args:
            evidence: rows to train on.
            generator: source of the choice.

        Returns:
            None if a range holds atoms together with other values of its column.
        """
        for column in self._open(evidence):
            split = self._split(evidence, column)
            if bool((split.both & ~self._is_cell(evidence, column, split)).any()):
                return None
            shares = torch.tensor(self.shares[column], dtype=torch.float64)
            level = torch.rand(len(evidence), generator=generator, dtype=torch.float64)
            smooth = level < shares[(split.last - 1).clamp_min(0).cpu()]
            at = split.hit | (split.both & ~smooth.to(split.both.device))
            evidence = self._marked(evidence, column, split, at)
        return evidence

    def _is_cell(self, evidence: Evidence, column: int, split: _Split) -> Tensor:
        """Return which rows have the cell of an atom of a lattice, (B,)."""
        if column not in self.cells:
            return torch.zeros_like(split.both)
        position = evidence.columns.index(column)
        same = split.last - split.first == 1
        cell = (split.last - 1).clamp_min(0)
        for side, bound in enumerate((evidence.lower, evidence.upper)):
            ends = [own[side] for own in self.cells[column]]
            open_ = (-torch.inf, torch.inf)[side]
            whole = torch.tensor([open_ if end is None else end for end in ends]).to(bound)[cell]
            seen = bound[:, position]
            same = same & ((seen == whole) | ((seen - whole).abs() <= _CLOSE * (1 + whole.abs())))
        return same

    def options(self, evidence: Evidence) -> Tensor:
        """Return the number of rows that each row of evidence becomes, (B,)."""
        total = torch.ones(len(evidence), dtype=torch.double, device=evidence.lower.device)
        for column in self._open(evidence):
            total = total * (1 + self._split(evidence, column).both.double())
        return total

    def apart(self, x: Tensor) -> Tensor:
        """Return data (N, D) with its marks (N, D + V), NaN in place of atoms."""
        if not self.points:
            return x
        x, marks = x.clone(), []
        for column, points in self.points.items():
            own = x[:, column]
            # In float32: the data may have been rounded to it.
            at = own.float()[:, None] == torch.tensor(points, device=x.device).float()  # (N, A)
            code = torch.where(at.any(1), at.int().argmax(1), len(points)).to(x.dtype)
            marks.append(torch.where(own.isnan(), torch.nan, code))
            x[:, column] = torch.where(at.any(1), torch.nan, own)
        return torch.cat([x, torch.stack(marks, 1)], 1)

    def joined(self, rows: Tensor) -> Tensor:
        """Return rows (..., D) from rows with marks (..., D + V)."""
        if not self.points:
            return rows
        out = rows[..., : self.table_columns]
        for column, points in self.points.items():
            code = rows[..., self.marks[column]].long()
            values = torch.tensor(points, device=rows.device).to(rows.dtype)
            atom = values[code.clamp_max(len(points) - 1)]
            out[..., column] = torch.where(code < len(points), atom, out[..., column])
        return out

    def _open(self, evidence: Evidence) -> list[int]:
        """Return the columns of evidence whose marks are to be added."""
        if not self.unmarked(evidence):
            return []
        return [c for c in self.points if c in evidence.columns]

    def _split(self, evidence: Evidence, column: int) -> _Split:
        position = evidence.columns.index(column)
        lower, upper = (side[:, position].contiguous() for side in (evidence.lower, evidence.upper))
        points = torch.tensor(self.points[column], dtype=torch.float64).to(lower)
        missing = lower.isnan() | ((lower == -torch.inf) & (upper == torch.inf))
        low, high = (torch.where(missing, 0.0, side) for side in (lower, upper))
        first, last = (torch.searchsorted(points, side, right=True) for side in (low, high))
        hit = ~missing & (lower == upper) & (points[(last - 1).clamp_min(0)] == upper)
        both = ~missing & (lower < upper) & (first < last)
        return _Split(first, last, hit, both, missing)

    def _marked(self, known: Evidence, column: int, split: _Split, at: Tensor) -> Evidence:
        """Add one mark to rows, which are at atoms or not, (R,)."""
        position, mark = known.columns.index(column), self.marks[column]
        lower, upper = known.lower.clone(), known.upper.clone()
        smooth = len(self.points[column])
        code = torch.where(at, split.last - 1, smooth).to(lower)
        several = at & split.both & (split.last - split.first > 1)
        below = torch.where(several, (split.first - 1).to(lower), code)
        code, below = (torch.where(split.missing, torch.nan, part) for part in (code, below))
        lower[:, position] = torch.where(at, torch.nan, lower[:, position])
        upper[:, position] = torch.where(at, torch.nan, upper[:, position])
        lower, upper = torch.cat([lower, below[:, None]], 1), torch.cat([upper, code[:, None]], 1)
        held = known.intervals
        ranged = bool((lower[:, position] != upper[:, position])[~lower[:, position].isnan()].any())
        held = held if ranged else held - {column}
        held = held | {mark} if bool(several.any()) else held
        return replace(
            known,
            columns=(*known.columns, mark),
            lower=lower,
            upper=upper if held else lower,
            intervals=held,
            exact_columns=known.exact_columns - {column},
            distinct_cells=(),
            patterns=(),  # the marks need no check: `valid_for` stays
        )


def without_atoms(evidence: Evidence, atoms: Mapping[int, Sequence[float]]) -> Evidence:
    """Return evidence in which exact cells and intervals that hold an atom are missing."""
    found = [c for c in atoms if c in evidence.columns]
    if not found:
        return evidence
    middle = evidence.midpoints(atoms)
    lower, upper = evidence.lower.clone(), evidence.upper.clone()
    for column in found:
        position = evidence.columns.index(column)
        points = torch.tensor(atoms[column], dtype=torch.float64).to(middle)
        at = (middle[:, position, None] == points).any(1)
        lower[at, position], upper[at, position] = torch.nan, torch.nan
    return replace(
        evidence,
        lower=lower,
        upper=upper,
        exact_columns=frozenset(),
        distinct_cells=(),
        patterns=(),
    )


def smooth_shares(
    points: Sequence[float], every: Evidence, bare: Evidence, table: LatticeTable | None
) -> list[float]:
    """Return the part of each atom's rows that the smooth density explains, from its neighbours.

    Args:
        points: the atoms of a column.
        every: the observed cells of the column.
        bare: those without atoms.
        table: the cells of the lattice; None for a continuous column, where no row at an atom is
            of the smooth part.
    """
    if table is None:
        return [0.0] * len(points)
    ends = torch.from_numpy(table.ends)
    low, high = ends[0], ends[-1]
    seen = bare.midpoints().double().cpu()[:, 0]
    inside = seen[(seen > low) & (seen <= high)]
    counts = torch.bincount(torch.searchsorted(ends, inside) - 1, minlength=len(table)).double()
    free = torch.ones(len(table), dtype=torch.bool)
    at = torch.searchsorted(ends, torch.tensor(points, dtype=torch.float64)) - 1
    free[at[(at >= 0) & (at < len(table))]] = False
    rows = every.midpoints({every.columns[0]: points}).double().cpu()[:, 0]
    out = []
    for point, cell in zip(points, at.tolist(), strict=True):
        near = slice(max(0, cell - _NEIGHBOURS), cell + _NEIGHBOURS + 1)
        if not 0 <= cell < len(table) or not bool(free[near].any()):
            out.append(0.0)  # the cells beyond a table are the tails of the smooth part
            continue
        own = float((rows.float() == torch.tensor(point).float()).sum())
        out.append(min(0.9, float(counts[near][free[near]].mean()) / max(own, 1.0)))
    return out


@final
class AtomMixtures(Univariates):
    """The distribution of one coupled column with atoms: masses, and the smooth part elsewhere.

    Args:
        points: the atoms, rising.
        mark: the distribution of the column's mark.
        smooth: the distribution of the column given that it is at no atom.
    """

    def __init__(self, points: Sequence[float], mark: Univariates, smooth: Univariates) -> None:
        self.points, self.mark, self.smooth = tuple(points), mark, smooth
        self.columns, self.log_evidence = smooth.columns, mark.log_evidence
        self.discrete = (True,)

    @property
    def terms(self) -> int:
        """How many terms are summed at each point: those of the smooth part."""
        return self.smooth.terms

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        return (self.points,)

    def pruned(self, error: float) -> "AtomMixtures":
        """Return these without terms that together move no CDF by more than `error`."""
        return AtomMixtures(self.points, self.mark, self.smooth.pruned(error))

    @cached_property
    def masses(self) -> Tensor:
        """The log masses of the atoms and, last, of the smooth part, (A + 1, B)."""
        codes = torch.arange(len(self.points) + 1).to(self.log_evidence)
        return self.mark.logpdf(codes[:, None, None])[..., 0]

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        shape = torch.broadcast_shapes(x.shape, self.log_evidence.shape)
        at = self.smooth.evaluate(x)
        masses = self.masses[..., None]  # (A + 1, B, 1)
        points = self._points(x).view(-1, *[1] * len(shape))
        wide = masses[:-1].view(len(self.points), *[1] * (len(shape) - 2), *masses.shape[1:])

        def counted(chosen: Tensor) -> Tensor:
            every = torch.where(chosen, wide, -torch.inf)
            return every.expand(len(self.points), *shape).logsumexp(0)

        rest = masses[-1]
        mass = counted(points == x)
        density = torch.where(mass > -torch.inf, mass, rest + at.log_density)
        return LeafEvaluation(
            torch.logaddexp(rest + at.log_cdf, counted(points <= x)),
            torch.logaddexp(rest + at.log_sf, counted(points > x)),
            density,
        )

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        masses = self.masses.exp()[..., None]  # (A + 1, B, 1)
        at = zip(self.points, masses[:-1], strict=True)
        below = sum((mass * (x >= point) for point, mass in at), torch.zeros_like(masses[-1]))
        return below + masses[-1] * self.smooth.cdf(x)

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and the smooth part's slope at `x` (..., B, n)."""
        masses = self.masses.exp()[..., None]  # (A + 1, B, 1)
        rest = masses[-1]
        below, above, slope = (rest * part for part in self.smooth.tails(x))
        for point, mass in zip(self._points(x), masses[:-1], strict=True):
            reached = x >= point
            below, above = below + mass * reached, above + mass * ~reached
        return below, above, slope

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n): the smallest x that reaches u."""
        low, shape = columns_first(log_u, self.log_evidence.shape)  # (1, Q, B)
        high, _ = columns_first(log_1mu, self.log_evidence.shape)
        u, rest = low[0].double(), high[0].double()  # (Q, B)
        masses = self.masses.double()  # (A + 1, B)
        points = self._points(self.log_evidence)
        at = self.smooth.evaluate(points[:, None, None])
        own = masses[:-1]
        nothing = torch.full_like(own[:1], -torch.inf)
        before = torch.cat([nothing, own.logcumsumexp(0)])  # (A + 1, B), of the first atoms
        after = torch.cat([own.flip(0).logcumsumexp(0).flip(0), nothing])
        smooth_below = masses[-1] + at.log_cdf[..., 0].double()  # (A, B)
        smooth_above = masses[-1] + at.log_sf[..., 0].double()
        error = 8 * torch.finfo(self.log_evidence.dtype).eps
        reached = torch.logaddexp(smooth_below, before[1:])[:, None]  # (A, 1, B), F at the atom
        beyond = torch.logaddexp(smooth_above, after[:-1])[:, None]  # from the atom on
        left = torch.logaddexp(smooth_above, after[1:])[:, None]
        # Each level is compared on its smaller side, where digits are.
        upper = u > rest
        short = torch.where(upper, left > rest + error, reached < u - error)  # (A, Q, B)
        passed = short.sum(0)  # the number of atoms below the quantile
        cell = passed.clamp_max(len(self.points) - 1)
        start = torch.logaddexp(smooth_below, before[:-1])[:, None].expand_as(short)
        inside = torch.where(
            upper,
            beyond.expand_as(short).gather(0, cell[None])[0] >= rest - error,
            start.gather(0, cell[None])[0] <= u + error,
        )
        jump = (passed < len(self.points)) & inside
        down, up = (part.gather(0, passed) for part in (before, after))
        level, other = _less(u, down) - masses[-1], _less(rest, up) - masses[-1]
        level, other = (part.clamp_max(0.0)[..., None] for part in (level, other))
        # A level that the atoms take up whole is an end of the smooth part next to them.
        tiny = 0.5 * math.log(torch.finfo(self.log_evidence.dtype).tiny)
        x = self.smooth.quantile(*(part.clamp_min(tiny) for part in (level, other)))
        x = x[..., 0].double()
        # Rounding must not take it past the atoms on either side.
        ends = torch.cat(
            [points.new_full((1,), -torch.inf), points, points.new_full((1,), torch.inf)]
        )
        x = x.clamp(ends[passed].double(), ends[passed + 1].double())
        x = torch.where(jump, points[cell].double(), x)
        return columns_last(x[None], shape)

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n): a sum over the atoms and the smooth part's expectation."""
        mass = self.masses.exp()  # (A + 1, B)
        values = function(self._points(mass)[None], self.columns)[0]
        each = self.smooth.expect(function)
        rest = torch.where(mass[-1][:, None] > 0, mass[-1][:, None] * each, 0.0)
        return rest + (mass[:-1] * values[:, None]).sum(0)[:, None]

    def take(self, place: int, rows: Tensor) -> "AtomMixtures":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        out = AtomMixtures(self.points, self.mark.take(0, rows), self.smooth.take(place, rows))
        out.log_evidence = self.log_evidence[rows]
        return out

    def _points(self, like: Tensor) -> Tensor:
        return torch.tensor(self.points, dtype=torch.float64).to(like)


def _less(total: Tensor, part: Tensor) -> Tensor:
    """Return log(e^total - e^part), -inf where rounding leaves nothing."""
    return total + torch.log1p(-(part - total).clamp_max(0.0).exp())
