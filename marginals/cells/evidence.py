"""Evidence: what is known of a row, cell by cell."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, SupportsFloat, final

import torch
from torch import Tensor

from marginals.cells.leaf_cells import Cells
from marginals.numerics import select

Known = float | int | tuple[float | None, float | None] | set[int] | frozenset[int]


@final
@dataclass(frozen=True)
class Evidence:
    """B rows of knowledge about some columns; the other columns are missing.

    A cell is exact (`lower == upper`), the interval (lower, upper], missing (NaN in both), or, in a
    categorical column, one of a set of codes. Build it with `exact`, `interval` or `of`.

    Args:
        columns: the columns, each once.
        lower, upper: (B, n). `upper is lower` promises that there is no interval.
        sets: by column, a mask (B, C) or (1, C) of the categories allowed.
        intervals: the columns that may hold an interval.
        complete: a promise that every cell is exact.
        patterns: a promise that there is no interval, and that each row knows one of these sets of
            columns, made for training data; empty if nothing is promised.

    >>> Evidence.exact(torch.tensor([[1.0, torch.nan]]))
    Evidence(1 row: column 0 exact, column 1 missing)
    """

    columns: tuple[int, ...]
    lower: Tensor
    upper: Tensor
    sets: Mapping[int, Tensor] = field(default_factory=dict)
    intervals: frozenset[int] = frozenset()
    complete: bool = False
    patterns: tuple[tuple[int, ...], ...] = ()

    # Building ---------------------------------------------------------------------------------

    @staticmethod
    def exact(x: Tensor, columns: Sequence[int] | None = None) -> "Evidence":
        """Know the values `x` (B, n) of some columns (all by default); NaN is missing."""
        x = _matrix(x, "x")
        names = _names(columns, x.shape[1])
        _refuse(x.isinf(), names, "to be finite or NaN", "Use `Evidence.interval` for open ends.")
        return Evidence(names, x, x)

    @staticmethod
    def interval(lower: Tensor, upper: Tensor, columns: Sequence[int] | None = None) -> "Evidence":
        """Know that each cell lies in (lower, upper]; equal bounds are exact, NaN is missing.

        >>> Evidence.interval(torch.tensor([[-torch.inf, 2.0]]), torch.tensor([[0.0, 2.0]]))
        Evidence(1 row: column 0 interval, column 1 exact)
        """
        lower, upper = torch.broadcast_tensors(_matrix(lower, "lower"), _matrix(upper, "upper"))
        names = _names(columns, lower.shape[1])
        absent = lower.isnan() | upper.isnan()
        lower, upper = (torch.where(absent, torch.nan, bound) for bound in (lower, upper))
        _refuse(lower > upper, names, "to have lower <= upper", "Swap the bounds.")
        equal = lower == upper
        _refuse(
            equal & lower.isinf(), names, "not to be a point at infinity", "Give a finite value."
        )
        found = (lower < upper).any(0).tolist()
        inside = frozenset(name for name, some in zip(names, found, strict=True) if some)
        return Evidence(names, lower, upper if inside else lower, {}, inside)

    @staticmethod
    def of(known: Mapping[int, Known], dtype: torch.dtype | None = None) -> "Evidence":
        """Build one row from a dict: a number, a pair with None for an open end, or a set of codes.

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
        dtype = dtype or torch.float64
        low_high = [torch.tensor([side], dtype=dtype) for side in (lower, upper)]
        plain = Evidence.interval(low_high[0], low_high[1], list(known))
        return Evidence(plain.columns, plain.lower, plain.upper, sets, plain.intervals)

    @staticmethod
    def nothing(rows: int = 1, like: Tensor | None = None) -> "Evidence":
        """Know nothing of `rows` rows."""
        empty = (
            torch.empty(rows, 0, dtype=torch.float32) if like is None else like.new_empty(rows, 0)
        )
        return Evidence((), empty, empty)

    # Shape ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.lower.shape[0]

    def __repr__(self) -> str:
        rows = f"{len(self)} row" + ("s" if len(self) != 1 else "")
        cells = ", ".join(f"column {c} {self._describe(c)}" for c in self.columns[:8])
        more = f", and {len(self.columns) - 8} more" if len(self.columns) > 8 else ""
        return f"Evidence({rows}: {cells or 'nothing known'}{more})"

    def _describe(self, column: int) -> str:
        if column in self.sets:
            return "set"
        position = self.columns.index(column)
        lower, upper = self.lower[:, position], self.upper[:, position]
        kinds = {
            "missing": lower.isnan(),
            "interval": lower < upper,
            "exact": lower == upper,
        }
        return "/".join(name for name, found in kinds.items() if bool(found.any())) or "empty"

    # Algebra ----------------------------------------------------------------------------------

    def join(self, other: "Evidence") -> "Evidence":
        """Know both; one row stands for any number of rows.

        >>> Evidence.of({0: 1.0}).join(Evidence.of({2: (0.0, None)})).columns
        (0, 2)
        """
        self.check_joins(other)
        rows = len(other) if len(self) == 1 else len(self)
        first, second = self.expand(rows), other.expand(rows)
        second = second.to(first.lower.device)
        lower = torch.cat([first.lower, second.lower], 1)
        intervals = first.intervals | second.intervals
        upper = torch.cat([first.upper, second.upper], 1) if intervals else lower
        sets = {**first.sets, **second.sets}
        return Evidence(first.columns + second.columns, lower, upper, sets, intervals)

    def check_joins(self, other: "Evidence") -> None:
        """Refuse evidence that speaks of the same columns or of another number of rows."""
        shared = sorted(set(self.columns) & set(other.columns))
        if shared:
            raise ValueError(
                f"Expected the columns asked for and those given to be disjoint; got {shared} in "
                "both. Leave them out of one."
            )
        if len(self) != len(other) and 1 not in (len(self), len(other)):
            raise ValueError(
                f"Expected evidence with one row or with as many rows as asked; got {len(self)} "
                f"and {len(other)}."
            )

    def distinct(self, most: int) -> "tuple[Evidence, Tensor] | None":
        """Return the different rows and which of them each row is; None for more than `most`.

        Rows are told apart by a hash and then compared, which takes a tenth of the time of sorting
        them. Sets that differ from row to row are not looked into.

        >>> Evidence.exact(torch.tensor([[2.0], [1.0], [2.0]])).distinct(2)[1].bincount().sort()[0]
        tensor([1, 2])
        """
        if any(len(mask) > 1 for mask in self.sets.values()) or self.lower.requires_grad:
            return None
        sides = [self.lower] if self.upper is self.lower else [self.lower, self.upper]
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

    def expand(self, rows: int) -> "Evidence":
        """Let a single row stand for `rows` rows."""
        if len(self) == rows:
            return self
        lower = self.lower.expand(rows, -1)
        upper = lower if self.upper is self.lower else self.upper.expand(rows, -1)
        return Evidence(self.columns, lower, upper, self.sets, self.intervals)

    def rows(self, index: Tensor | slice) -> "Evidence":
        """Return some rows, by a slice, a mask or positions from 0 on."""
        lower = _rows(self.lower, index)
        upper = lower if self.upper is self.lower else _rows(self.upper, index)
        sets = {c: mask if len(mask) == 1 else mask[index] for c, mask in self.sets.items()}
        known = (self.intervals, self.complete, self.patterns)
        return Evidence(self.columns, lower, upper, sets, *known)

    def batches(self, size: int) -> Iterator["Evidence"]:
        """Cut into batches of rows; no rows are one empty batch."""
        for start in range(0, max(1, len(self)), size):
            yield self.rows(slice(start, start + size))

    def without(self, column: int) -> "Evidence":
        """Forget a column."""
        rest = [c for c in self.columns if c != column]
        index = [self.columns.index(c) for c in rest]
        intervals = self.intervals - {column}
        lower = self.lower[:, index]
        upper = self.upper[:, index] if intervals else lower
        sets = {c: mask for c, mask in self.sets.items() if c != column}
        return Evidence(tuple(rest), lower, upper, sets, intervals)

    def select(self, columns: Sequence[int]) -> "Evidence":
        """Return the cells of these columns in this order, missing where nothing is given."""
        cells, chosen = self.cells(columns), tuple(columns)
        lower = cells.lower.T
        intervals = self.intervals.intersection(chosen)
        sets = {c: mask for c, mask in self.sets.items() if c in chosen}
        return Evidence(chosen, lower, cells.upper.T if intervals else lower, sets, intervals)

    def known(self) -> "Evidence":
        """Leave out the columns of which no row knows anything."""
        absent = self.lower.isnan().all(0).tolist()
        unknown = [c for c, gone in zip(self.columns, absent, strict=True) if gone]
        keep = [c for c in self.columns if c not in unknown or c in self.sets]
        if len(keep) == len(self.columns) or len(self) == 0:
            return self
        index = [self.columns.index(c) for c in keep]
        lower = self.lower[:, index]
        intervals = self.intervals & set(keep)
        upper = self.upper[:, index] if intervals else lower
        return Evidence(tuple(keep), lower, upper, self.sets, intervals)

    def promised(self) -> "Evidence":
        """Promise that every cell is exact, if that is so."""
        if self.complete or self.sets or self.upper is not self.lower or not self.columns:
            return self
        if bool(self.lower.isnan().any()):
            return self
        return replace(self, complete=True)

    def with_patterns(self, most: int) -> "Evidence":
        """Promise the patterns of known cells, if there are few and no intervals or sets."""
        if self.sets or self.upper is not self.lower or not self.columns:
            return self
        found = torch.unique(~self.lower.isnan(), dim=0)
        if len(found) > most:
            return self
        known = [[c for c, seen in zip(self.columns, row, strict=True) if seen] for row in found]
        return replace(self, patterns=tuple(map(tuple, known)))

    def renamed(self, names: Sequence[int]) -> "Evidence":
        """Call column c `names[c]`."""
        sets = {names[c]: mask for c, mask in self.sets.items()}
        intervals = frozenset(names[c] for c in self.intervals)
        columns = tuple(names[c] for c in self.columns)
        return Evidence(columns, self.lower, self.upper, sets, intervals)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Evidence":
        """Move to a device."""
        lower = self.lower.to(device, dtype)
        upper = lower if self.upper is self.lower else self.upper.to(device, dtype)
        sets = {c: mask.to(device) for c, mask in self.sets.items()}
        return Evidence(self.columns, lower, upper, sets, self.intervals)

    def cells(self, columns: Sequence[int]) -> Cells:
        """Return the cells (n, B) of these columns in this order; what is unknown is missing."""
        place = {column: position for position, column in enumerate(self.columns)}
        lower = self._arranged(self.lower, columns, place)
        upper = lower if self.upper is self.lower else self._arranged(self.upper, columns, place)
        order = {column: position for position, column in enumerate(columns)}
        intervals = tuple(sorted(order[c] for c in self.intervals if c in order))
        sets = tuple((order[c], mask) for c, mask in self.sets.items() if c in order)
        complete = self.complete and set(columns) <= set(self.columns)
        patterns = tuple(tuple(order[c] for c in p if c in order) for p in self.patterns)
        return Cells(lower, upper, intervals, sets, complete, patterns)

    def _arranged(self, bounds: Tensor, columns: Sequence[int], place: Mapping[int, int]) -> Tensor:
        if list(columns) == list(self.columns):
            return bounds.T
        known = [place.get(column, len(place)) for column in columns]
        if len(place) in known:
            bounds = (
                torch.cat([bounds, torch.full_like(bounds[:, :1], torch.nan)], 1)
                if (bounds.shape[1])
                else bounds.new_full((len(bounds), 1), torch.nan)
            )
        return select(bounds.T, known)

    # Facts ------------------------------------------------------------------------------------

    def midpoints(self) -> Tensor:
        """Return a number for each cell (B, n): of an interval the middle or the finite end."""
        middle = self.lower / 2 + self.upper / 2
        middle = torch.where(self.lower.isinf(), self.upper, middle)
        middle = torch.where(self.upper.isinf(), self.lower, middle)
        return torch.where(middle.isinf(), torch.nan, middle)

    def missing(self) -> Tensor:
        """Say which cells are missing, (B, n); a set of categories is never so."""
        missing = self.lower.isnan() | ((self.lower == -torch.inf) & (self.upper == torch.inf))
        missing[:, [self.columns.index(column) for column in self.sets]] = False
        return missing


def as_evidence(known: Any) -> Evidence:
    """Accept evidence, a dict for `Evidence.of`, or a tensor for `Evidence.exact`."""
    if isinstance(known, Evidence):
        return known
    if isinstance(known, Mapping):
        return Evidence.of(known)
    if isinstance(known, Tensor):
        return Evidence.exact(known)
    raise TypeError(
        "Expected evidence to be an `Evidence`, a dict of columns or a tensor; got "
        f"{type(known).__name__}."
    )


def _rows(x: Tensor, index: Tensor | slice) -> Tensor:
    if isinstance(index, Tensor) and index.dtype == torch.long and index.ndim == 1:
        return x.index_select(0, index)  # a faster kernel than that of any index
    return x[index]


def _bits(x: Tensor) -> Tensor:
    """Return the bits of floats as whole numbers."""
    return x.double().contiguous().view(torch.int64)


def _odd(bits: Tensor) -> Tensor:
    """Return an odd number for each column, of which no few add up to another."""
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
            f"Expected as many columns as the {count} given by name; got {len(names)}: {names}."
        )
    if len(set(names)) != len(names):
        raise ValueError(f"Expected each column once; got {names}.")
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
