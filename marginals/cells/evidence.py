"""Evidence: what is given about each cell of some rows."""

import operator
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, SupportsFloat, final

import torch
from torch import Tensor

from marginals.cells.distinct_cells import DistinctCells, find_distinct
from marginals.numerics import select

Known = float | int | tuple[float | None, float | None] | set[int] | frozenset[int]


@final
@dataclass(frozen=True)
class Evidence:
    """Hold B rows of evidence about some columns; all other columns are missing.

    A cell is exact (`lower == upper`), the interval (lower, upper], missing (NaN in both) or
    impossible (`lower > upper`); in a categorical column it may also be a set of codes. Build
    evidence with `exact`, `interval` or `of`.

    The last five arguments are facts that hold for all rows. They save work and never change an
    answer. Each method keeps the facts that remain true; `with_facts`, `with_distinct` and
    `observed` find them.

    Args:
        columns: the columns, each once.
        lower, upper: the bounds of the cells, (B, n).
        sets: by column, a mask (B, C) or (1, C) of the allowed categories.
        intervals: columns that may hold an interval or an impossible cell; no others do.
        exact_columns: columns in which every cell is exact.
        patterns: if not empty, the observed columns of each row are one of these sets.
        distinct_cells: columns with few distinct cells, and the cell that each row has.
        valid_for: the `categories` of the density that has checked these columns and codes.

    >>> Evidence.exact(torch.tensor([[1.0, torch.nan]]))
    Evidence(1 row: column 0 exact, column 1 missing)
    """

    columns: tuple[int, ...]
    lower: Tensor
    upper: Tensor
    sets: Mapping[int, Tensor] = field(default_factory=dict)
    intervals: frozenset[int] = frozenset()
    exact_columns: frozenset[int] = frozenset()
    patterns: tuple[tuple[int, ...], ...] = ()
    distinct_cells: tuple[DistinctCells, ...] = ()
    valid_for: tuple[int | None, ...] | None = None

    # Building ---------------------------------------------------------------------------------

    @staticmethod
    def exact(x: Tensor, columns: Sequence[int] | None = None) -> "Evidence":
        """Build evidence from values `x` (B, n) of `columns`, all by default; NaN is missing."""
        x = _matrix(x, "x")
        names = _names(columns, x.shape[1])
        _refuse(x.isinf(), names, "to be finite or NaN", "Use `Evidence.interval` for open ends.")
        return Evidence(names, x, x)

    @staticmethod
    def interval(lower: Tensor, upper: Tensor, columns: Sequence[int] | None = None) -> "Evidence":
        """Build evidence from cells (lower, upper]; equal bounds are exact values, NaN is missing.

        >>> Evidence.interval(torch.tensor([[-torch.inf, 2.0]]), torch.tensor([[0.0, 2.0]]))
        Evidence(1 row: column 0 interval, column 1 exact)
        """
        lower, upper = torch.broadcast_tensors(_matrix(lower, "lower"), _matrix(upper, "upper"))
        names = _names(columns, lower.shape[1])
        absent = lower.isnan() | upper.isnan()
        lower, upper = (torch.where(absent, torch.nan, bound) for bound in (lower, upper))
        _refuse(lower > upper, names, "to have lower <= upper", "Swap the bounds.")
        point = (lower == upper) & lower.isinf()
        _refuse(point, names, "not to be a point at infinity", "Give a finite value.")
        inside = _named(names, lower < upper)
        return Evidence(names, lower, upper if inside else lower, {}, inside)

    @staticmethod
    def of(known: Mapping[int, Known], dtype: torch.dtype | None = None) -> "Evidence":
        """Build a row of `dtype` from a dict `known` of numbers, pairs (None is open) or code sets.

        >>> Evidence.of({0: 1.5, 2: (None, 3.0), 3: {0, 2}})
        Evidence(1 row: column 0 exact, column 2 interval, column 3 set)
        """
        lower, upper, sets = [], [], {}
        for column, cell in known.items():
            if isinstance(cell, set | frozenset):
                sets[column] = _mask(column, cell)
                cell = torch.nan
            low, high = _pair(column, cell)
            lower.append(-torch.inf if low is None else float(low))
            upper.append(torch.inf if high is None else float(high))
        low_row, high_row = torch.tensor([[lower], [upper]], dtype=dtype or torch.float64)
        return Evidence.interval(low_row, high_row, list(known)).with_sets(sets)

    @staticmethod
    def nothing(rows: int = 1, like: Tensor | None = None) -> "Evidence":
        """Give nothing about `rows` rows."""
        like = torch.empty(0, dtype=torch.float32) if like is None else like
        empty = like.new_empty(rows, 0)
        return Evidence((), empty, empty)

    def with_sets(self, sets: Mapping[int, Tensor]) -> "Evidence":
        """Allow sets of codes only, by column a mask (B, C) or (1, C)."""
        if not sets:
            return self
        return Evidence(self.columns, self.lower, self.upper, {**self.sets, **sets}, self.intervals)

    def with_impossible(self, cells: Tensor) -> "Evidence":
        """Mark cells (B, n) as impossible: no value of their column lies in them.

        >>> Evidence.of({0: 1.5, 1: 2.0}).with_impossible(torch.tensor([[False, True]]))
        Evidence(1 row: column 0 exact, column 1 impossible)
        """
        marked = _named(self.columns, cells)
        if not marked:
            return self
        lower = self.lower.masked_fill(cells, torch.inf)
        upper = self.upper.masked_fill(cells, -torch.inf)
        return Evidence(self.columns, lower, upper, self.sets, self.intervals | marked)

    def hide(self, cells: Tensor) -> "Evidence":
        """Forget the cells (B, n) that are set, which are then missing."""
        gone = _named(self.columns, cells)
        sets = {c: mask | cells[:, [self.columns.index(c)]] for c, mask in self.sets.items()}
        out = self._with_bounds(lambda bound: bound.masked_fill(cells, torch.nan), sets=sets)
        return replace(out, exact_columns=self.exact_columns - gone, patterns=())

    # Shape ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.lower.shape[0]

    def __repr__(self) -> str:
        rows = f"{len(self)} row" + ("s" if len(self) != 1 else "")
        cells = ", ".join(f"column {c} {self._describe(c)}" for c in self.columns[:8])
        more = f", and {len(self.columns) - 8} more" if len(self.columns) > 8 else ""
        return f"Evidence({rows}: {cells or 'nothing given'}{more})"

    def _describe(self, column: int) -> str:
        if column in self.sets:
            return "set"
        position = self.columns.index(column)
        lower, upper = self.lower[:, position], self.upper[:, position]
        kinds = {
            "missing": lower.isnan(),
            "interval": lower < upper,
            "exact": lower == upper,
            "impossible": lower > upper,
        }
        return "/".join(name for name, found in kinds.items() if bool(found.any())) or "empty"

    # Rows -------------------------------------------------------------------------------------

    def rows(self, index: Tensor | slice) -> "Evidence":
        """Return some rows, by a slice, a mask or nonnegative positions."""
        sets = {c: mask if len(mask) == 1 else mask[index] for c, mask in self.sets.items()}
        coded = tuple(found.rows(index) for found in self.distinct_cells)
        return self._with_bounds(lambda bound: _rows(bound, index), sets=sets, distinct_cells=coded)

    def batches(self, size: int) -> Iterator["Evidence"]:
        """Cut into batches of rows; no rows are one empty batch."""
        for start in range(0, max(1, len(self)), size):
            yield self.rows(slice(start, start + size))

    def expand(self, rows: int) -> "Evidence":
        """Let a single row stand for `rows` rows."""
        if len(self) == rows:
            return self
        return self._with_bounds(lambda bound: bound.expand(rows, -1))

    def repeat(self, draws: int) -> "Evidence":
        """Repeat each row once per draw."""
        if len(self) == 1 or draws == 1:
            return self.expand(draws * len(self))
        sets = {
            c: mask if len(mask) == 1 else mask.repeat_interleave(draws, 0)
            for c, mask in self.sets.items()
        }
        # Columns stay contiguous, as leaves read them.
        return self._with_bounds(lambda bound: bound.T.repeat_interleave(draws, 1).T, sets=sets)

    def distinct(self, most: int) -> "tuple[Evidence, Tensor] | None":
        """Return the distinct rows and the place of each row among them; None if over `most`.

        Rows are grouped by a hash and then compared, in a tenth of the time it takes to sort them.
        Sets that differ by row are not compared.

        >>> Evidence.exact(torch.tensor([[2.0], [1.0], [2.0]])).distinct(2)[1].bincount().sort()[0]
        tensor([1, 2])
        """
        if any(len(mask) > 1 for mask in self.sets.values()) or self.lower.requires_grad:
            return None
        sides = [self.lower, self.upper] if self.intervals else [self.lower]
        bits = torch.cat([_bits(side) for side in sides], 1)  # (B, n) or (B, 2 n)
        hashes, place = torch.unique((bits * _odd(bits)).sum(1), return_inverse=True)
        if len(hashes) > most:
            return None
        index = torch.arange(len(self), device=place.device)
        first = place.new_zeros(len(hashes)).scatter_reduce(
            0, place, index, "amin", include_self=False
        )
        if bool((bits[first[place]] != bits).any()):
            return None
        return self.rows(first), place

    # Columns ----------------------------------------------------------------------------------

    def select(self, columns: Sequence[int]) -> "Evidence":
        """Return the cells of these columns in this order, missing where nothing is given."""
        chosen = tuple(columns)
        if chosen == self.columns:
            return self
        place = {column: position for position, column in enumerate(self.columns)}
        index = [place.get(column, len(place)) for column in chosen]
        known = len(place) not in index

        def arranged(bound: Tensor) -> Tensor:
            # An extra column of NaN serves the columns that are not given.
            wide = bound if known else torch.nn.functional.pad(bound, (0, 1), value=torch.nan)
            return select(wide.T, index).T

        intervals = self.intervals.intersection(chosen)
        lower = arranged(self.lower)
        return Evidence(
            chosen,
            lower,
            arranged(self.upper) if intervals else lower,
            {c: mask for c, mask in self.sets.items() if c in chosen},
            intervals,
            self.exact_columns.intersection(chosen),
            tuple(tuple(c for c in seen if c in chosen) for seen in self.patterns),
            tuple(
                found.select(chosen)
                for found in self.distinct_cells
                if set(chosen) & set(found.columns)
            ),
            self.valid_for if known else None,
        )

    def without(self, column: int) -> "Evidence":
        """Forget a column."""
        return self.select([c for c in self.columns if c != column])

    def renamed(self, names: Sequence[int] | Mapping[int, int]) -> "Evidence":
        """Call column c `names[c]`."""
        return replace(
            self,
            columns=tuple(names[c] for c in self.columns),
            sets={names[c]: mask for c, mask in self.sets.items()},
            intervals=frozenset(names[c] for c in self.intervals),
            exact_columns=frozenset(names[c] for c in self.exact_columns),
            patterns=tuple(tuple(names[c] for c in seen) for seen in self.patterns),
            distinct_cells=tuple(found.renamed(names) for found in self.distinct_cells),
            valid_for=None,
        )

    def join(self, other: "Evidence") -> "Evidence":
        """Give both; one row stands for any number of rows.

        >>> Evidence.of({0: 1.0}).join(Evidence.of({2: (0.0, None)})).columns
        (0, 2)
        """
        self.check_joins(other)
        rows = len(other) if len(self) == 1 else len(self)
        first, second = self.expand(rows), other.expand(rows).to(self.lower.device)
        lower = torch.cat([first.lower, second.lower], 1)
        intervals = first.intervals | second.intervals
        return Evidence(
            first.columns + second.columns,
            lower,
            torch.cat([first.upper, second.upper], 1) if intervals else lower,
            {**first.sets, **second.sets},
            intervals,
            first.exact_columns | second.exact_columns,
            valid_for=first.valid_for if first.valid_for == second.valid_for else None,
        )

    def check_joins(self, other: "Evidence") -> None:
        """Refuse evidence about the same columns or with another number of rows."""
        shared = sorted(set(self.columns) & set(other.columns))
        if shared:
            raise ValueError(
                f"Expected the requested and the given columns to be disjoint; got {shared} in "
                "both. Leave them out of one."
            )
        if len(self) != len(other) and 1 not in (len(self), len(other)):
            raise ValueError(
                f"Expected evidence with one row or as many rows as requested; got {len(self)} "
                f"and {len(other)}. Give one row, or one for each."
            )

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Evidence":
        """Move to a device."""
        sets = {c: mask.to(device) for c, mask in self.sets.items()}
        coded = tuple(found.to(device, dtype) for found in self.distinct_cells)
        return self._with_bounds(
            lambda bound: bound.to(device, dtype), sets=sets, distinct_cells=coded
        )

    # Facts ------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether every cell is known to be exact."""
        return bool(self.columns) and self.exact_columns.issuperset(self.columns)

    @property
    def has_intervals(self) -> bool:
        """Whether some cell may be an interval or impossible; otherwise the bounds are equal."""
        return bool(self.intervals)

    def positions(self, columns: Container[int]) -> list[int]:
        """Return the positions of some of the columns, in ascending order."""
        return [i for i, c in enumerate(self.columns) if c in columns]

    def by_column(self) -> tuple[Tensor, Tensor]:
        """Return views (n, B) of the lower and upper bounds."""
        return self.lower.T, self.upper.T

    def missing(self) -> Tensor:
        """Return which cells are missing, (B, n); a set of categories never is."""
        missing = self.lower.isnan() | ((self.lower == -torch.inf) & (self.upper == torch.inf))
        missing[:, self.positions(self.sets)] = False
        return missing

    def midpoints(self, atoms: Mapping[int, Sequence[float]] | None = None) -> Tensor:
        """Return a number for each cell (B, n): the middle of an interval, or its finite end.

        Args:
            atoms: points of positive mass by column; an interval that holds one stands for it.
        """
        middle = self.lower / 2 + self.upper / 2
        middle = torch.where(self.lower.isinf(), self.upper, middle)
        middle = torch.where(self.upper.isinf(), self.lower, middle)
        middle = torch.where(middle.isinf(), torch.nan, middle)
        for place, column in enumerate(self.columns):
            for atom in (atoms or {}).get(column, ()):
                low, high = self.lower[:, place], self.upper[:, place]
                middle[(low < atom) & (atom <= high), place] = atom
        return middle

    def observed(self) -> "Evidence":
        """Leave out the columns that no row observes, and find whether the rest is complete."""
        if self.complete or not self.columns:
            return self
        rows, counts = len(self), self.lower.isnan().sum(0).tolist()
        gone = {c for c, count in zip(self.columns, counts, strict=True) if count == rows > 0}
        kept = self.select([c for c in self.columns if c not in gone or c in self.sets])
        full = {c for c, count in zip(self.columns, counts, strict=True) if count == 0}
        return replace(kept, exact_columns=frozenset(full - {*kept.sets, *kept.intervals}))

    def with_facts(self, most_patterns: int = 0) -> "Evidence":
        """Find the facts that hold for all rows, with at most `most_patterns` patterns.

        >>> Evidence.exact(torch.tensor([[1.0, torch.nan], [1.0, 2.0]])).with_facts(2).patterns
        ((0,), (0, 1))
        """
        held = self.intervals
        if held:
            held = _named(self.columns, (self.lower != self.upper) & ~self.lower.isnan())
        found = replace(self, intervals=held, upper=self.upper if held else self.lower)
        if not self.columns:
            return found
        gaps = self.lower.isnan()
        exact = set(self.columns) - _named(self.columns, gaps) - held - set(self.sets)
        found = replace(found, exact_columns=frozenset(exact))
        if self.sets or not bool(gaps.any()):
            return found
        seen = ~gaps
        patterns = torch.unique(seen, dim=0)
        if len(patterns) > most_patterns:
            return found
        names = [tuple(c for c, s in zip(self.columns, row, strict=True) if s) for row in patterns]
        return replace(found, patterns=tuple(names))

    def with_distinct(self, most: int, still: Container[int]) -> "Evidence":
        """Find the distinct cells of the columns that have at most `most` of them.

        Exact cells of columns that are not `still` may be changed afterwards.
        """
        return replace(self, distinct_cells=find_distinct(self, most, still))

    def without_impossible(self) -> "tuple[Evidence, Tensor | None]":
        """Forget impossible cells; return also which rows have one, (B,), or None if none has."""
        if not self.intervals:
            return self, None
        empty = self.lower > self.upper
        if not bool(empty.any()):
            return self, None
        return self._with_bounds(lambda bound: bound.masked_fill(empty, torch.nan)), empty.any(1)

    def _with_bounds(self, change: Callable[[Tensor], Tensor], **rest: Any) -> "Evidence":
        """Change the bounds, which are the same tensor without intervals, and keep the facts.

        The distinct cells are of the rows as they were, so the caller must give those that stay.
        """
        lower = change(self.lower)
        upper = change(self.upper) if self.intervals else lower
        return replace(self, **{"lower": lower, "upper": upper, "distinct_cells": (), **rest})


def as_evidence(known: Any) -> Evidence:
    """Convert `known` to evidence: a dict by `Evidence.of`, a tensor by `Evidence.exact`, None."""
    if isinstance(known, Evidence):
        return known
    if known is None:
        return Evidence.nothing()
    if isinstance(known, Mapping):
        return Evidence.of(known)
    if isinstance(known, Tensor):
        return Evidence.exact(known)
    raise TypeError(
        "Expected evidence to be an `Evidence`, a dict of columns or a tensor; got "
        f"{type(known).__name__}. Convert it to one of these."
    )


def _rows(x: Tensor, index: Tensor | slice) -> Tensor:
    if isinstance(index, Tensor) and index.dtype == torch.long and index.ndim == 1:
        return x.index_select(0, index)  # faster than general indexing
    return x[index]


def _named(columns: tuple[int, ...], cells: Tensor) -> frozenset[int]:
    """Return the columns in which any of the cells (B, n) is set."""
    return frozenset(c for c, some in zip(columns, cells.any(0).tolist(), strict=True) if some)


def _bits(x: Tensor) -> Tensor:
    """Return the bits of floats as integers."""
    return x.double().contiguous().view(torch.int64)


def _odd(bits: Tensor) -> Tensor:
    """Return a random odd multiplier for each column of a row's hash."""
    seed = torch.Generator().manual_seed(0)
    return (2 * torch.randint(1 << 62, bits.shape[1:], generator=seed) + 1).to(bits.device)


def _matrix(x: Any, name: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"Expected `{name}` to be a torch.Tensor; got {type(x).__name__}.")
    if x.ndim != 2:
        raise ValueError(
            f"Expected `{name}` to have two dims, rows and columns; got shape {tuple(x.shape)}."
        )
    if x.is_complex():
        raise TypeError(f"Expected `{name}` to hold real numbers; got {x.dtype}.")
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _names(columns: Sequence[int] | None, count: int) -> tuple[int, ...]:
    try:
        names = tuple(range(count)) if columns is None else tuple(map(operator.index, columns))
    except TypeError:
        raise TypeError(f"Expected columns to be whole numbers; got {columns!r}.") from None
    if len(names) != count:
        raise ValueError(
            f"Expected {count} names of columns; got {len(names)}: {names}. Name each column."
        )
    if len(set(names)) != len(names):
        raise ValueError(f"Expected each column once; got {names}. Leave the repeats out.")
    return names


def _refuse(bad: Tensor, names: tuple[int, ...], expected: str, remedy: str) -> None:
    """Raise for the first bad cell."""
    if bool(bad.any()):
        row, position = (int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"Expected cells {expected}; got otherwise in column {names[position]}, row {row}. "
            f"{remedy}"
        )


def _pair(column: int, cell: Any) -> tuple[SupportsFloat | None, SupportsFloat | None]:
    pair = cell if isinstance(cell, tuple) else (cell, cell)
    if len(pair) != 2 or not all(end is None or isinstance(end, SupportsFloat) for end in pair):
        raise TypeError(
            f"Expected a number, a pair (low, high) or a set of codes for column {column}; got "
            f"{cell!r}."
        )
    return pair


def _mask(column: int, codes: set[int] | frozenset[int]) -> Tensor:
    if not codes or any(not isinstance(c, Integral) or c < 0 for c in codes):
        raise ValueError(
            f"Expected the set for column {column} to hold codes 0, 1, ...; got {set(codes)}."
        )
    mask = torch.zeros(1, max(codes) + 1, dtype=torch.bool)
    mask[0, sorted(codes)] = True
    return mask
