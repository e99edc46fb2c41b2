r"""Lattice columns in copula components: the mass of a cell is a density times the cell's width.

Summed over the lattice, a density of deviation s steps equals its integral up to
:math:`2 \exp(-2 \pi^2 s^2)`, by Poisson summation. Each lattice column therefore has, in each
component and given all other columns, a deviation of at least 0.8 steps: the error is below 7e-6.
Joint densities, marginals and conditionals of cells are then closed forms, without an integral.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import FINE_WIDTH, LatticeTable
from marginals.densities.coupled_atoms import CoupledAtoms
from marginals.densities.lattice_folds import NEAR, Fold
from marginals.leaves import SharedLeaves
from marginals.numerics import index_of

# The least deviation of a lattice column given all others, in steps; see the module.
LEAST_STEPS = 0.8
# The default of `CoupledLattices.most_points`.
_MOST_POINTS = 4096
# Points of ranges over which univariates are mixed.
_FEW_POINTS = 64
# Points of a row that keeps several ranges: each costs an integral over them in every component.
_POINTS_OF_BOXES = 16
# Points at which the slope of a learned scale is compared, besides those where its units bend.
_PROBES = 32


class Settled(NamedTuple):
    """Evidence in which cells of lattices are exact points.

    A row with a range of a lattice becomes several rows, one for each point, whose values add up.
    """

    evidence: Evidence  # R rows
    log_width: Tensor  # (R, n), of the cells behind the points, else 0
    place: Tensor  # (R,), rising: the row that each stands for
    rows: int  # B, the number of rows

    @property
    def is_expanded(self) -> bool:
        """Whether some row has become several."""
        return len(self.evidence) != self.rows

    def log_widths(self, without: int | None = None) -> Tensor:
        """Return the log widths of each row's cells together, (R,), without one column."""
        kept = [i for i, c in enumerate(self.evidence.columns) if c != without]
        return self.log_width[:, kept].sum(1)

    def joined(self, column: int, code: int) -> "Settled":
        """Give one more exact cell in all rows."""
        cell = Evidence.exact(self.log_width.new_full((len(self.evidence), 1), code), [column])
        cell = cell.to(self.evidence.lower.device, self.evidence.lower.dtype)
        width = torch.nn.functional.pad(self.log_width, (0, 1))
        return self._replace(evidence=self.evidence.join(cell), log_width=width)

    def counts(self) -> Tensor:
        """Return the number of rows that stand for each row, (B,)."""
        return torch.bincount(self.place, minlength=self.rows)

    def summed(self, values: Tensor) -> Tensor:
        """Return log values (B, ...) of rows from those of the rows (R, ...) that stand for them.

        The widths are counted here.
        """
        widths = self.log_widths().to(values)
        return _sum_points(
            values + widths.view(-1, *[1] * (values.ndim - 1)), self.place, self.rows
        )

    def gathered(self, values: Tensor, fill: float) -> Tensor:
        """Return values (R, ...) by row, (B, P, ...), filled up where a row has fewer than P."""
        counts = self.counts()
        first = counts.cumsum(0) - counts
        which = torch.arange(len(self.place), device=first.device) - first[self.place]
        out = values.new_full((self.rows, int(counts.max()), *values.shape[1:]), fill)
        return out.index_put((self.place, which), values)


@final
class CoupledLattices(nn.Module):
    """The cells of coupled lattice columns.

    A fine lattice has too many cells for a table. Its narrow cells are evaluated at their middles;
    in everything else the column is treated as continuous.

    A range is the sum over its points, unless a row has more combinations of them than
    `most_points`: it is then a range of a continuous column, which at each end misses the sum by
    0.01 / s^2 at most, for a component of deviation s steps.

    Args:
        columns: the columns that are lattices.
        counts: the number of cells in the table of each, 0 for a fine lattice.
        folds: how the first and the last value of each are spread over the cells beyond them.
        atoms: the atoms of coupled columns, lattices or not; see `coupled_atoms.py`.
    """

    ends: Tensor
    points: Tensor
    log_widths: Tensor
    probes: Tensor
    probe_widths: Tensor

    def __init__(
        self,
        columns: Sequence[int] = (),
        counts: Sequence[int] = (),
        folds: Sequence[Sequence[float]] = (),
        atoms: CoupledAtoms | None = None,
    ) -> None:
        super().__init__()
        self.columns, self.counts = tuple(columns), tuple(counts)
        self.folds = tuple(map(Fold.stored, folds)) or (Fold(),) * len(self.columns)
        self.atoms = CoupledAtoms() if atoms is None else atoms
        self.most_points = _MOST_POINTS
        most = max(self.counts, default=0)
        shape = (len(self.columns), most)
        self.register_buffer("ends", torch.zeros(shape[0], most + 1))
        self.register_buffer("points", torch.zeros(shape))
        self.register_buffer("log_widths", torch.zeros(shape))
        self.register_buffer("probes", torch.zeros(shape[0], _PROBES))
        self.register_buffer("probe_widths", torch.zeros(shape[0], _PROBES))

    @staticmethod
    def of(
        tables: Mapping[int, LatticeTable | None],
        observed: Evidence,
        atoms: CoupledAtoms | None = None,
    ) -> "CoupledLattices":
        """Store the tables of columns, None for a fine lattice.

        The observed cells say where the floor must hold.
        """
        counts = [0 if table is None else len(table) for table in tables.values()]
        folds = [Fold.of(table, observed.select([c])) for c, table in tables.items()]
        out = CoupledLattices(list(tables), counts, folds, atoms).double()
        for i, (column, table) in enumerate(tables.items()):
            cells = observed.select([column]).to("cpu", torch.float64)
            if table is None:
                widths = (cells.upper - cells.lower)[:, 0]
                kept = (widths > 0) & (widths <= FINE_WIDTH)
                points, order = cells.midpoints()[kept, 0].sort()
                log_widths = widths[kept][order].log()
                place = torch.linspace(0, len(points) - 1, _PROBES)
            else:
                _fill(out.ends[i], table.ends)
                _fill(out.points[i], table.points)
                _fill(out.log_widths[i], np.log(table.widths))
                points, log_widths = out.points[i], out.log_widths[i]
                seen = cells.midpoints()
                seen = seen[seen.isfinite()]
                low, high = ((points - end).abs().argmin() for end in (seen.amin(), seen.amax()))
                place = torch.linspace(int(low), int(high), _PROBES)
            index = place.round().long()
            out.probes[i], out.probe_widths[i] = points[index], log_widths[index]
        return out

    @property
    def tabulated(self) -> tuple[int, ...]:
        """The columns with a table."""
        return tuple(c for c, count in zip(self.columns, self.counts, strict=True) if count)

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""
        held = {"columns": list(self.columns), "counts": list(self.counts)}
        return {**held, "folds": list(map(list, self.folds)), "atoms": self.atoms.config()}

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> "CoupledLattices":
        """Return what `config` describes, without the tables."""
        return CoupledLattices(**{**config, "atoms": CoupledAtoms(**config["atoms"])})

    def table(self, column: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return ends (C + 1,), points (C,) and log widths (C,) of a column's cells."""
        i = self.columns.index(column)
        count = self.counts[i]
        return self.ends[i, : count + 1], self.points[i, :count], self.log_widths[i, :count]

    # The floor --------------------------------------------------------------------------------

    def log_floor(self, family: SharedLeaves, coupled: Sequence[int]) -> Tensor:
        """Return the log of 0.8 steps on the learned scale of coupled columns (J,), else -inf.

        The step is widest where the slope is largest. A unit is steepest where it bends, so that
        the slopes are compared there and at points in between, all within the observed range.
        """
        if not self.columns:
            return self.ends.new_full((len(coupled),), -torch.inf)
        own = [coupled.index(c) for c in self.columns]
        bends = family.learned.bends(own)  # (n, R)
        bends = bends.clamp(self.probes[:, :1], self.probes[:, -1:])
        place = torch.searchsorted(self.probes, bends.contiguous()).clamp(max=_PROBES - 1)
        # Between two probes, the wider cell counts.
        near = self.probe_widths.gather(1, place)
        before = self.probe_widths.gather(1, (place - 1).clamp_min(0))
        widths = torch.cat([self.probe_widths, torch.maximum(near, before)], 1)
        _, log_slope = family.scale(torch.cat([self.probes, bends], 1), own)
        widest = (log_slope + widths).amax(1) + math.log(LEAST_STEPS)
        out = widest.new_full((len(coupled),), -torch.inf)
        return out.index_copy(0, index_of(own, out.device), widest)

    # Evidence ---------------------------------------------------------------------------------

    def settle(self, evidence: Evidence, most: int | None = None) -> Settled:
        """Replace atoms by marks, and the cells and ranges of lattices by their points.

        Ranges with more points than `most` in a row, by default `most_points`, stay as they are.
        """
        if not self.hold(evidence):
            place = torch.arange(len(evidence), device=evidence.lower.device)
            return Settled(evidence, torch.zeros_like(evidence.lower), place, len(evidence))
        marked = self.atoms.mark(evidence)
        found = self._settled(marked.evidence, self.most_points if most is None else most)
        return found._replace(place=marked.place[found.place], rows=len(evidence))

    def settle_few(self, evidence: Evidence) -> Settled:
        """Settle evidence for univariates given it, each of which is a mixture over its points."""
        return self.settle(evidence, min(self.most_points, _FEW_POINTS))

    def settle_once(self, evidence: Evidence) -> Settled | None:
        """Settle rows for training, each as one row; None if some row would become several.

        At random, a cell at an atom is taken as the atom or as the smooth part, and the infinite
        cell of a first or last value as one of its finite parts.
        """
        generator = torch.Generator().manual_seed(0)
        marked = self.atoms.mark_once(evidence, generator)
        if marked is None:
            return None
        for c in self.tabulated:
            if c in marked.intervals:
                fold = self.folds[self.columns.index(c)]
                marked = fold.spread(marked, c, self.table(c)[0], generator)
        return self._settled(marked, most=1)

    def _settled(self, evidence: Evidence, most: int) -> Settled:
        """Replace the cells of lattices in evidence with marks."""
        columns = [c for c in self.tabulated if c in evidence.intervals]
        spans = {c: self._spans(evidence, c) for c in columns}
        # Columns with few points come first, so that most of them are expanded.
        columns.sort(key=lambda c: float(spans[c].options.double().mean()))
        out = _Expansion(evidence, _most_by_row([spans[c].options for c in columns], most))
        for c in evidence.intervals.intersection(self.columns).difference(columns):
            out.narrow(c)
        for c in columns:
            out.expand(c, spans[c], *self.table(c))
        return out.settled()

    def hold(self, *evidence: Evidence) -> bool:
        """Return whether some evidence may have cells or ranges of lattices, or atoms."""
        ranges = any(known.intervals.intersection(self.columns) for known in evidence)
        return ranges or self.atoms.unmarked(*evidence)

    def batches(self, evidence: Evidence, size: int, most: int | None = None) -> Iterator[Settled]:
        """Settle batches of rows, which become about `size` rows each."""
        points = self._points(evidence)
        # By what came before, so that a row of many points makes its own batch small, not all.
        counts = ((points.cumsum(0) - points) // size).unique_consecutive(return_counts=True)[1]
        first = 0
        for count in counts.tolist():
            yield self.settle(evidence.rows(slice(first, first + count)), most)
            first += count

    def sum_given(
        self,
        asked: Evidence,
        known: Evidence,
        place: Tensor | None,
        contract: Callable[[Evidence], Tensor],
        contract_given: Callable[[Evidence, Evidence, Tensor | None], tuple[Tensor, Tensor]],
        size: int,
    ) -> tuple[Tensor, Tensor]:
        """Return the log values of requested rows given evidence, and of the evidence.

        Both sides are sums over points: pairs of a requested and a given point are weighed by the
        share of the given one in its row of evidence.

        Args:
            asked, known, place: as for `Density.contract_given`.
            contract: returns the log values of rows without cells of lattices.
            contract_given: returns those of requested rows given others.
            size: the number of rows to hold at once.
        """
        if not self.hold(asked, known):
            return contract_given(asked, known, place)
        if place is None:
            asked = asked.expand(len(known))
            place = torch.arange(len(known), device=known.lower.device)
        given = self.settle(known)
        each = torch.cat([contract(part) for part in given.evidence.batches(size)])
        log_given = given.summed(each)
        shares = each + given.log_widths().to(each) - log_given[given.place]
        out, first = [], 0
        points = int(given.counts().max())
        # Together they have at most `most_points`, as one row of both would.
        for part in self.batches(asked, max(1, size // points), max(1, self.most_points // points)):
            mine, theirs = _pairs(part, given, place[first : first + part.rows])
            first += part.rows
            used, back = theirs.unique(return_inverse=True)
            value, _ = contract_given(part.evidence.rows(mine), given.evidence.rows(used), back)
            value = value + shares[theirs] + part.log_widths().to(value)[mine]
            out.append(_sum_points(value, part.place[mine], part.rows))
        return torch.cat(out), log_given

    def points_of(self, evidence: Evidence) -> int:
        """Return the largest number of rows that one row of evidence becomes."""
        return int(self._points(evidence).max()) if len(evidence) else 1

    def _points(self, evidence: Evidence) -> Tensor:
        """Return the number of rows that each row of evidence becomes, (B,)."""
        total = self.atoms.options(evidence)
        for c in self.tabulated:
            if c in evidence.intervals:
                options = self._spans(evidence, c).options
                total = torch.where(total * options <= self.most_points, total * options, total)
        return total

    def _spans(self, evidence: Evidence, column: int) -> "_Spans":
        position = evidence.columns.index(column)
        lower, upper = evidence.lower[:, position], evidence.upper[:, position]
        return _Spans.of(lower, upper, self.table(column)[0])


class _Spans(NamedTuple):
    """The cells of a table that ranges (B,) cover, and what they cover beyond the table."""

    start: Tensor  # the lower end in cells, such as 2.5
    end: Tensor  # the upper end
    first: Tensor  # the first cell
    cells: Tensor  # the number of cells
    below: Tensor  # whether the range begins below the table
    above: Tensor  # whether it ends above the table

    @staticmethod
    def of(lower: Tensor, upper: Tensor, ends: Tensor) -> "_Spans":
        """Find the cells; a cell that is no range has none and is left as it is."""
        inside = (lower < upper) & ~((lower == -torch.inf) & (upper == torch.inf))
        low, high = (torch.where(inside, end, 0.0).double() for end in (lower, upper))
        start, end = _cells_at(low, ends.double()), _cells_at(high, ends.double())
        first = start.floor()
        count = torch.where(inside, (end.ceil() - first).clamp_min(0), 0.0)
        edge = (ends[1] - ends[0]) * NEAR, (ends[-1] - ends[-2]) * NEAR
        below, above = inside & (low < ends[0] - edge[0]), inside & (high > ends[-1] + edge[1])
        return _Spans(start, end, first.long(), count.long(), below, above)

    @property
    def options(self) -> Tensor:
        """The number of parts of each range, 1 for other cells, (B,)."""
        return (self.cells + self.below + self.above).clamp_min(1)


class _Expansion:
    """Rows of evidence, of which ranges are replaced by their points one column at a time."""

    def __init__(self, evidence: Evidence, most: Tensor | int) -> None:
        self.rows, self.most = len(evidence), most  # (B,), or the same for all rows
        self.evidence = evidence
        self.log_width = torch.zeros_like(evidence.lower)
        self.place = torch.arange(self.rows, device=evidence.lower.device)
        self.total = torch.ones_like(self.place)  # the rows that each row has become, (B,)

    def narrow(self, column: int) -> None:
        """Replace narrow cells of a fine lattice by their middles."""
        position = self.evidence.columns.index(column)
        lower, upper = (side[:, position] for side in (self.evidence.lower, self.evidence.upper))
        width = upper - lower
        narrow = (width > 0) & (width <= FINE_WIDTH)
        middle = lower + width / 2
        low, high = (torch.where(narrow, middle, side) for side in (lower, upper))
        self.log_width[:, position] = torch.where(narrow, width, 1.0).log()
        self.evidence = self._with(self.evidence, column, low, high)

    @staticmethod
    def _with(known: Evidence, column: int, low: Tensor, high: Tensor) -> Evidence:
        position = known.columns.index(column)
        lower, upper = known.lower.clone(), known.upper.clone()
        lower[:, position], upper[:, position] = low, high
        held = known.intervals
        if not bool((low < high).any() | (low > high).any()):
            held = held - {column}
        return replace(known, lower=lower, upper=upper, intervals=held)

    def expand(
        self, column: int, spans: _Spans, ends: Tensor, points: Tensor, log_widths: Tensor
    ) -> None:
        """Replace the ranges of a column, where the rows do not become too many."""
        parts = torch.where(self.total * spans.options <= self.most, spans.options, 1)
        whole = (parts < spans.options)[self.place]  # too many points: the range stays
        self.total = self.total * parts
        counts = parts[self.place]  # (R,)
        source = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        which = torch.arange(len(source), device=counts.device)
        which = which - (counts.cumsum(0) - counts)[source]  # which part of its range, (R',)
        origin, whole = self.place[source], whole[source]
        position = self.evidence.columns.index(column)
        lower, upper = (
            side[source, position] for side in (self.evidence.lower, self.evidence.upper)
        )
        count, below, above = (s[origin] for s in (spans.cells, spans.below, spans.above))
        cell = (spans.first[origin] + which - below.long()).clamp(0, len(points) - 1)
        ranged = (count > 0) | below | above
        under = below & (which == 0)
        over = above & (which == counts[source] - 1)
        exact = ranged & ~whole & ~under & ~over
        # A range may cover a part of its first and last cell.
        share = torch.minimum(spans.end[origin], cell + 1.0) - torch.maximum(
            spans.start[origin], cell.double()
        )
        width = log_widths[cell] + share.clamp(0.0, 1.0).log().to(log_widths)
        at = points[cell].to(lower)
        low = torch.where(exact, at, torch.where(over & ~whole, lower.clamp(min=ends[-1]), lower))
        high = torch.where(exact, at, torch.where(under & ~whole, upper.clamp(max=ends[0]), upper))
        self.place = origin
        self.log_width = self.log_width[source]
        self.log_width[:, position] = torch.where(exact, width, 0.0).to(self.log_width)
        self.evidence = self._with(self.evidence.rows(source), column, low, high)

    def settled(self) -> Settled:
        """Return the rows."""
        known = self.evidence
        if not known.intervals:
            known = replace(known, upper=known.lower).with_facts()
        return Settled(known, self.log_width, self.place, self.rows)


def _most_by_row(options: Sequence[Tensor], most: int) -> Tensor | int:
    """Return how many rows each row of evidence may become, (B,).

    Args:
        options: the points of the ranges of each column (B,), in the order in which they expand.
        most: the number for rows that keep at most one range.
    """
    if not options or most <= _POINTS_OF_BOXES:
        return most
    total, kept = torch.ones_like(options[0]), torch.zeros_like(options[0])
    for own in options:
        fits = total * own <= most
        total, kept = torch.where(fits, total * own, total), kept + (~fits).long()
    return torch.where(kept > 1, _POINTS_OF_BOXES, most)


def _sum_points(values: Tensor, place: Tensor, rows: int) -> Tensor:
    """Return the log sums (B, ...) of log values (R, ...) that stand for the rows at `place`."""
    if len(values) == rows:
        return values
    index = place.view(-1, *[1] * (values.ndim - 1)).expand_as(values)
    empty = values.new_full((rows, *values.shape[1:]), -torch.inf)
    peak = empty.scatter_reduce(0, index, values.detach(), "amax").nan_to_num(neginf=0.0)
    terms = (values - peak[place]).exp()
    return torch.zeros_like(peak).index_add(0, place, terms).log() + peak


def _pairs(asked: Settled, given: Settled, row: Tensor) -> tuple[Tensor, Tensor]:
    """Return all pairs of a requested and a given point, as two indices (P,).

    Args:
        asked, given: points of requested and given rows.
        row: the given row that belongs to each requested row.
    """
    counts = given.counts()
    own = row[asked.place]
    many = counts[own]
    first = torch.arange(len(own), device=own.device).repeat_interleave(many)
    nth = torch.arange(len(first), device=own.device) - (many.cumsum(0) - many)[first]
    return first, (counts.cumsum(0) - counts)[own[first]] + nth


def _cells_at(x: Tensor, ends: Tensor) -> Tensor:
    """Return where x lies in a table, in cells: 2.5 is the middle of the third cell."""
    place = (torch.searchsorted(ends, x) - 1).clamp(0, len(ends) - 2)
    low, high = ends[place], ends[place + 1]
    at = place + ((x - low) / (high - low)).clamp(0.0, 1.0)
    near = at.round()
    return torch.where((at - near).abs() < NEAR, near, at)


def _fill(buffer: Tensor, values: npt.NDArray[np.float64]) -> None:
    """Copy values, and repeat the last of them to the end."""
    buffer[: len(values)] = torch.from_numpy(values)
    buffer[len(values) :] = float(values[-1])
