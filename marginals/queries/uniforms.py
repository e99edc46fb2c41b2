r"""Rows as uniforms: :math:`F(x_j \mid z)` of every cell, under the density's own conditionals.

The transform of a column given Z serves every test that conditions on Z. It is cached, up to a
bound on memory, so that a search over thousands of tests computes each transform once.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density, in_batches
from marginals.queries.positions import Parts, checked, observed

_KEPT_BYTES = 1 << 28  # of cached transforms; those used longest ago go first
# Rows transformed in the memory of one contracted: a CDF in linear space holds fewer numbers.
_ROWS_PER_ROW = 4
# Rows with up to so many patterns of gaps in the columns given are transformed pattern by pattern.
_MOST_PATTERNS = 32


@final
class Uniforms:
    """Hold rows of data, each under a density, and cache their transforms to uniforms.

    The rows of several parts, as in cross-fitting, are concatenated.

    Args:
        parts: pairs of a density and rows, evidence or a tensor (B, D).
        kept_bytes: the memory for cached transforms.

    >>> from marginals.densities.build import build
    >>> rows = torch.randn(50, 3)
    >>> Uniforms([(build(rows, width=4), rows)]).ends([0, 1], given=[2]).shape
    torch.Size([50, 2, 2])
    """

    def __init__(self, parts: Parts, kept_bytes: int = _KEPT_BYTES) -> None:
        self.parts = checked(parts)
        if not self.parts:
            raise ValueError("Expected `parts` to hold a density and its rows; got none.")
        counts = [density.columns for density, _ in self.parts]
        if len(set(counts)) > 1:
            raise ValueError(
                f"Expected all `parts` to have the same columns; got {counts} columns. Fit each "
                "density to the same table."
            )
        self._kept: OrderedDict[tuple[int, frozenset[int]], Tensor] = OrderedDict()
        self._room = kept_bytes

    @property
    def density(self) -> Density:
        """The density of the first part, for what all have in common."""
        return self.parts[0][0]

    def observed(self, columns: Sequence[int]) -> Tensor:
        """Say which cells of these columns are observed at least in part, (B, n)."""
        return self._joined([observed(cells, columns) for _, cells in self.parts])

    def check_no_sets(self, columns: Sequence[int]) -> None:
        """Refuse columns that hold a set of categories, which has no place in an order."""
        several = sorted({c for _, cells in self.parts for c in cells.sets} & set(columns))
        if several:
            raise ValueError(
                "Expected values or intervals in the columns tested; got sets of categories in "
                f"{several}. Give a code, or leave these rows out."
            )

    def ends(self, columns: Sequence[int], given: Sequence[int]) -> Tensor:
        """Return F just below and at the end of each cell given other columns, (B, n, 2).

        The two differ where a cell has mass. Both are NaN where a cell is missing and where the
        row's evidence on the given columns has probability 0.
        """
        known = frozenset(given)
        found = {c: self._kept[c, known] for c in columns if (c, known) in self._kept}
        for column in found:
            self._kept.move_to_end((column, known))
        new = tuple(c for c in columns if c not in found)
        if new:  # the columns share their evidence: one pass
            parts = [cell_ends(density, cells, new, sorted(known)) for density, cells in self.parts]
            found |= dict(zip(new, self._joined(parts).unbind(1), strict=True))
            for column in new:
                self._keep((column, known), found[column])
        return torch.stack([found[c].expand(-1, 2) for c in columns], 1)

    def _keep(self, key: tuple[int, frozenset[int]], ends: Tensor) -> None:
        ends = ends.contiguous()
        below, above = ends.unbind(-1)
        if bool(((below == above) | above.isnan()).all()):
            ends = ends[:, :1].clone()  # one number for both
        self._kept[key] = ends
        self._room -= ends.nbytes
        while self._room < 0 and self._kept:
            self._room += self._kept.popitem(last=False)[1].nbytes

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return torch.cat([part.to(parts[0].device) for part in parts])


@torch.no_grad()
def cell_ends(
    density: Density, cells: Evidence, asked: Sequence[int], given: Sequence[int]
) -> Tensor:
    """Return F just below and at the end of cells given other columns, (B, n, 2).

    NaN where a cell is missing, and where the evidence on the given columns has probability 0.
    """
    known = observed(cells, asked)  # (B, n)
    out = cells.lower.new_full((*known.shape, 2), torch.nan, dtype=torch.float64)
    # A row holds some of its columns, and costs that share of a whole row.
    share = (len(asked) + len(given)) / density.columns
    size = int(_ROWS_PER_ROW * density.rows_at_once() / share)
    sharp = _is_sharp(density, cells, asked)
    for rows, seen in _patterns(cells, known.any(1), given):

        def of(part: Evidence, seen: Sequence[int] = seen) -> Tensor:
            return _ends(density, part, asked, seen, sharp)

        for some in _by_open_ends(cells, rows, seen):
            out[some] = in_batches(of, cells.rows(some), size)
    return torch.where(known[..., None], out, torch.nan)


def _ends(
    density: Density, cells: Evidence, asked: Sequence[int], given: Sequence[int], sharp: bool
) -> Tensor:
    """Return the ends of a batch of rows; those of missing cells are 0 and 1."""
    univariates = density.univariates(cells.select(given), asked)
    bounds = cells.select(asked)
    lower, upper = bounds.lower, bounds.upper  # (B, n)
    # A missing cell is open on both sides; `nan_to_num` would close the open ends of others.
    lower = lower.masked_fill(lower.isnan(), -torch.inf)
    upper = upper.masked_fill(upper.isnan(), torch.inf)
    if sharp:
        at = univariates.cdf(upper).double()[..., None].expand(-1, -1, 2)
    else:
        # An exact value is the cell (x-, x], without width unless it is a category or an atom.
        before = lower.nextafter(torch.full_like(lower, -torch.inf))
        before = torch.where(lower < upper, lower, before)
        at = univariates.cdf(torch.stack([before, upper])).double().movedim(0, -1)
    impossible = univariates.log_evidence == -torch.inf
    return torch.where(impossible[..., None], torch.nan, at)


def _patterns(
    cells: Evidence, use: Tensor, given: Sequence[int]
) -> list[tuple[Tensor, tuple[int, ...]]]:
    """Group rows (B,) by which of the given columns they have: one pattern takes one quick pass.

    With too many patterns, all rows stay together.
    """
    rows = use.nonzero()[:, 0]
    if not len(rows):
        return []
    seen = observed(cells, given)[rows]  # (B, n)
    if bool(seen.all()):
        return [(rows, tuple(given))]
    patterns, kind = torch.unique(seen, dim=0, return_inverse=True)
    if len(patterns) > _MOST_PATTERNS:
        return [(rows, tuple(given))]
    return [
        (rows[kind == i], tuple(c for c, has in zip(given, pattern, strict=True) if has))
        for i, pattern in enumerate(patterns.tolist())
    ]


def _by_open_ends(cells: Evidence, rows: Tensor, columns: Sequence[int]) -> list[Tensor]:
    """Split rows by whether a cell of these columns has no end, as the first of a bounded lattice.

    Such cells are integrals in coupled columns, and one of them would slow down all rows.
    """
    some = cells.select(columns).rows(rows)
    has_open = (some.lower.isinf() | some.upper.isinf()).any(1)
    return [part for part in (rows[~has_open], rows[has_open]) if len(part)]


def _is_sharp(density: Density, cells: Evidence, columns: Sequence[int]) -> bool:
    """Say whether no cell of these columns has mass, so that its two ends are equal."""
    categories = density.categories
    blurred = {*cells.intervals, *density.atoms}
    return not any(c in blurred or categories[c] is not None for c in columns)
