"""Which categorical columns are functions of others, so that members need not learn them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.build import build
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nested_columns import NestedColumns, Nesting

# Rows that find a function; all rows then check it.
_SAMPLE = 500
# Rows for each value of a source, as a mean.
_REPEATS = 5
# Rows that could have broken a function: they repeat a value of the source, and the column is not
# at its most frequent value, which many sources determine by chance.
_LEAST_ROWS = 20
# Rows that show the margins of rows that break a function.
_MOST_ROWS = 2000


@final
@dataclass(frozen=True)
class NestedTable:
    """A table without the columns that are functions of a category.

    Args:
        nestings: These columns.
        counts: Their numbers of categories.
        columns: The number of all columns.
    """

    nestings: tuple[Nesting, ...]
    counts: tuple[int, ...]
    columns: int

    @staticmethod
    def of(data: Evidence, categories: Mapping[int, int], but: Sequence[int] = ()) -> "NestedTable":
        """Find the functions that every row of evidence obeys, but for some columns."""
        found = find_nestings(data, {c: n for c, n in categories.items() if c not in but})
        counts = tuple(categories[nesting.column] for nesting in found)
        return NestedTable(tuple(found), counts, len(data.columns))

    def kept(self) -> dict[int, int]:
        """Return the other columns, and their positions without those that are functions."""
        gone = {nesting.column for nesting in self.nestings}
        rest = [c for c in range(self.columns) if c not in gone]
        return {column: place for place, column in enumerate(rest)}

    def apart(self, evidence: Evidence) -> Evidence:
        """Return rows without the columns that are functions."""
        if not self.nestings:
            return evidence
        kept = self.kept()
        return evidence.select(list(kept)).renamed(kept)

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options of `marginals.build`, by column or lists of columns, for the others."""
        kept = self.kept()
        return {
            name: {kept[c]: value for c, value in given.items() if c in kept}
            if isinstance(given, Mapping)
            else tuple(kept[c] for c in given if c in kept)
            for name, given in options.items()
        }

    def joined(self, model: Density, data: Evidence, options: Mapping[str, Any]) -> Density:
        """Return a density of all columns.

        The next row after n that obey a function breaks it with probability 1 / (n + 2), by
        Laplace's rule. Such rows have independent columns.

        Args:
            model: The density of the other columns.
            data: Rows of all columns.
            options: The options by column of `marginals.build`.
        """
        if not self.nestings:
            return model
        device = next(model.parameters()).device
        loose: dict[str, Any] = {"tensor": "cp", "width": 1, "leaves": "normal", "init": "em"}
        rare = build(data.rows(slice(_MOST_ROWS)), **loose, **options).to(device)
        members = model.densities if isinstance(model, Mixture) else [model]
        weights = model.log_weights().exp().tolist() if isinstance(model, Mixture) else [1.0]
        share = 1 / (len(data) + 2)
        nested = [NestedColumns(member, self.nestings, self.counts) for member in members]
        return Mixture([*nested, rare], [*((1 - share) * w for w in weights), share])


def find_nestings(data: Evidence, categories: Mapping[int, int]) -> list[Nesting]:
    """Return the categorical columns that are functions of others in every row.

    A source has at least as many categories as the column, and is no such function itself. Of two
    columns that are functions of each other, the first is the source.

    >>> zone = torch.arange(60.0) % 6
    >>> find_nestings(Evidence.exact(torch.stack([zone // 3, zone], 1)), {0: 2, 1: 6})
    [Nesting(column=0, source=1, codes=(0, 0, 0, 1, 1, 1))]
    """
    order = sorted((c for c in categories if categories[c] > 1), key=lambda c: -categories[c])
    if len(order) < 2:
        return []
    cells = data.select(order)
    exact = (cells.lower == cells.upper) & torch.tensor(
        [c not in data.sets for c in order], device=cells.lower.device
    )
    codes = torch.where(exact, cells.lower, torch.nan).cpu()  # (N, columns)
    found: dict[int, Nesting] = {}
    for place, source in enumerate(order):
        if source in found:
            continue
        later = [i for i in range(place + 1, len(order)) if order[i] not in found]
        for rows in (slice(_SAMPLE), slice(None)):
            low, high = _extremes(codes[rows, place], codes[rows][:, later], categories[source])
            kept = (low >= high).all(0)
            later = [i for i, one in zip(later, kept.tolist(), strict=True) if one]
        for i, highest in zip(later, high.T[kept], strict=True):
            if _is_shown(codes[:, place], codes[:, i]):
                most = int(codes[~codes[:, i].isnan(), i].mode().values)  # of values never seen
                values = [int(v) if v >= 0 else most for v in highest.tolist()]
                found[order[i]] = Nesting(order[i], source, tuple(values))
    return sorted(found.values(), key=lambda nesting: nesting.column)


def _extremes(source: Tensor, others: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the least and greatest codes of other columns for each code of a source, (C, n)."""
    seen = ~source.isnan()
    index = source[seen].long()[:, None].expand(-1, others.shape[1])
    values, shape = others[seen], (count, others.shape[1])
    low, high = (
        torch.full(shape, -sign * torch.inf, dtype=others.dtype).scatter_reduce(
            0, index, torch.where(values.isnan(), -sign * torch.inf, values), reduce
        )
        for sign, reduce in ((-1.0, "amin"), (1.0, "amax"))
    )
    return low, high


def _is_shown(source: Tensor, column: Tensor) -> bool:
    """Return whether enough rows could have broken a function that they obey."""
    seen = ~(source.isnan() | column.isnan())
    if not bool(seen.any()):
        return False
    source, column = source[seen].long(), column[seen].long()
    pairs, counts = torch.unique(torch.stack([source, column], 1), dim=0, return_counts=True)
    if len(source) < _REPEATS * len(pairs):
        return False
    repeats = torch.zeros(int(column.max()) + 1, dtype=torch.long)
    repeats.index_add_(0, pairs[:, 1], counts - 1)
    return int(repeats.sum() - repeats.max()) >= _LEAST_ROWS
