"""Columns that are functions of a category, as boroughs are of zones: a density without them, and
their codes.

Evidence on such a column is a set of categories of its source, so every answer stays exact, and
every row obeys the function.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.code_masses import CodeMasses
from marginals.densities.coupled_univariates import Interleaved
from marginals.densities.density import Density
from marginals.densities.univariates import Univariates
from marginals.densities.view import ViewUnivariates
from marginals.numerics import log_matmul
from marginals.runtime.backend import QUERY, Backend


@final
@dataclass(frozen=True)
class Nesting:
    """A categorical column that is a function of another one, its source.

    Args:
        column: The column.
        source: The column that determines it.
        codes: The code of the column for each code of the source.
    """

    column: int
    source: int
    codes: tuple[int, ...]


@final
class NestedColumns(Density):
    """A density with further columns, each of which is a function of a categorical column.

    Args:
        inner: The density of the other columns, in their order.
        nestings: The further columns, by their positions among all. Sources are columns of `inner`.
        counts: The number of categories of each further column.

    >>> from marginals.densities.build import build
    >>> zones = build(torch.tensor([[0.0], [1.0], [2.0]] * 9), width=4, categories={0: 3})
    >>> model = NestedColumns(zones, [Nesting(1, 0, (0, 0, 1))], [2])
    >>> model.prob(torch.tensor([[0.5]]), torch.tensor([[1.5]]), [1], given={0: 2})
    tensor([1.], grad_fn=<ExpBackward0>)
    """

    def __init__(self, inner: Density, nestings: Sequence[Nesting], counts: Sequence[int]) -> None:
        super().__init__()
        self.inner = inner
        self.nestings, self.counts = tuple(nestings), tuple(counts)
        self.nested = {nesting.column: nesting for nesting in self.nestings}
        every = range(inner.columns + len(self.nestings))
        self.kept = tuple(c for c in every if c not in self.nested)
        self.place = {c: i for i, c in enumerate(self.kept)}  # of a column in `inner`
        self._check()

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return len(self.kept) + len(self.nested)

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        found = dict(zip(self.kept, self.inner.categories, strict=True))
        found |= dict(zip(self.nested, self.counts, strict=True))
        return tuple(found[c] for c in range(self.columns))

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return {self.kept[c]: points for c, points in self.inner.atoms.items()}

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        known, impossible = self.folded(evidence, backend.host_free)
        return _masked(self.inner.contract(known, backend), impossible)

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log values of requested rows given their evidence, and of the evidence."""
        # Columns of one source in both: what is given about them counts as requested, twice.
        split = self._sources(requested.columns) & self._sources(given.columns)
        shared = [c for c in given.columns if self._source(c) in split]
        rest = given.select([c for c in given.columns if c not in shared])
        if not shared:
            asked, never = self.folded(requested)
            known, impossible = self.folded(given)
            value, log_given = self.inner.contract_given(asked, known, place)
            return _masked(value, never), _masked(log_given, impossible)
        about = given.select(shared)
        both = requested.join(about if place is None else about.rows(place))
        value, log_rest = self._given(both, rest, place)
        log_about, _ = self._given(about, rest, None)
        log_given = log_about + log_rest
        log_about = log_about if place is None else log_about[place]
        return torch.where(log_about > -torch.inf, value - log_about, value), log_given

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        known = self.checked(given)
        asked = tuple(range(self.columns) if columns is None else columns)
        self.check_columns(asked)
        seen = {self.nested[c].source for c in known.columns if c in self.nested}
        coded = [c for c in asked if c in self.nested or c in seen]
        parts: list[Univariates] = [self._code_masses(known, c) for c in coded]
        plain = [c for c in asked if c not in coded]
        if plain:
            cells, impossible = self.folded(known)
            found = self.inner.univariates(cells, [self.place[c] for c in plain])
            part = ViewUnivariates(found, plain, torch.zeros_like(found.log_evidence))
            if impossible is not None:
                part.log_evidence = part.log_evidence.masked_fill(impossible[:, None], -torch.inf)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Interleaved(parts, asked)

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        drawn = self.inner.sample_rows(self.folded(given)[0], draws, generator)
        rows = drawn.new_empty(*drawn.shape[:-1], self.columns)
        rows[..., list(self.kept)] = drawn
        for nesting in self.nestings:
            codes = self._codes(nesting, drawn)
            rows[..., nesting.column] = codes[rows[..., nesting.source].long()]
        return rows

    def check_rows(self, evidence: Evidence) -> None:
        """Refuse rows whose value has no closed form."""
        self.inner.check_rows(self.folded(evidence)[0])

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time, given such evidence."""
        return self.inner.row_cost(None if given is None else self.folded(given)[0])

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__` apart from `inner`, as JSON."""
        nestings = [[n.column, n.source, list(n.codes)] for n in self.nestings]
        return {"nestings": nestings, "counts": list(self.counts)}

    def extra_repr(self) -> str:
        """Show which column determines which."""
        return ", ".join(f"{n.source} determines {n.column}" for n in self.nestings)

    # Parts ------------------------------------------------------------------------------------

    def folded(self, evidence: Evidence, host_free: bool = False) -> tuple[Evidence, Tensor | None]:
        """Return checked evidence about the columns of `inner`.

        Args:
            evidence: Checked rows about all columns.
            host_free: Do not branch on values.

        Returns:
            The evidence, and which rows contradict a function though each of their cells is
            possible, (B,), or None if none does. Such rows keep their sources' cells.
        """
        found = evidence.select([c for c in evidence.columns if c not in self.nested])
        wrong: Tensor | None = None
        for nesting in self.nestings:
            if nesting.column not in evidence.columns:
                continue
            cell = evidence.select([nesting.column])
            codes = self._codes(nesting, evidence.lower)
            source = found.select([nesting.source])
            exact = source.complete
            if not (exact or host_free or source.sets):
                exact = bool((source.lower == source.upper).all())
            if exact:  # a set of categories would take longer
                broken = ~_admitted(cell, codes[source.lower.long()])[:, 0]
                wrong = broken if wrong is None else wrong | broken
                continue
            mask = _admitted(cell, codes[None])  # (B, C)
            if nesting.source not in found.columns:
                found = found.select([*found.columns, nesting.source])
            old = found.sets.get(nesting.source)
            if old is not None:
                old = torch.nn.functional.pad(old, (0, mask.shape[1] - old.shape[1]))
                mask = mask & old
            found = found.with_sets({nesting.source: mask})
        found = replace(found.renamed(self.place), valid_for=self.inner.categories)
        if wrong is not None and not host_free and not bool(wrong.any()):
            wrong = None
        return found, wrong

    def _given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return log values of requested rows given others, which share no source, and of these."""
        possible, empty = requested.without_impossible()
        asked, never = self.folded(possible)
        known, impossible = self.folded(given)
        if given.columns:
            value, log_given = self.inner.contract_given(asked, known, place)
        else:
            value, log_given = self.inner.contract_all(asked), given.lower.new_zeros(len(given))
        value = _masked(_masked(value, never), empty)
        return value, _masked(log_given, impossible)

    def _code_masses(self, known: Evidence, column: int) -> CodeMasses:
        """Return the masses of a column that is nested, or whose source's columns are observed."""
        source = self._source(column)
        family = [source, *(n.column for n in self.nestings if n.source == source)]
        others, impossible = self.folded(
            known.select([c for c in known.columns if c not in family])
        )
        found = self.inner.univariates(others, [self.place[source]])
        count = self.inner.categories[self.place[source]]
        assert count is not None
        codes = torch.arange(count, device=found.log_evidence.device)
        masses = found.logpdf(codes.to(found.log_evidence)[:, None, None])[..., 0].T  # (B, C)
        masses = masses + found.log_evidence
        for other in family:
            if other != column and other in known.columns:
                own = self._codes(self.nested[other], codes) if other in self.nested else codes
                admitted = _admitted(known.select([other]), own[None])
                masses = masses.masked_fill(~admitted, -torch.inf)
        if impossible is not None:
            masses = masses.masked_fill(impossible[:, None], -torch.inf)
        if column in self.nested:
            own = self._codes(self.nested[column], codes)
            width = self.counts[list(self.nested).index(column)]
            hit = torch.arange(width, device=own.device)[:, None] == own  # (P, C)
            masses = log_matmul(masses[None], hit.to(masses).log()[None])[0]
        return CodeMasses(column, masses)

    def _source(self, column: int) -> int:
        return self.nested[column].source if column in self.nested else column

    def _sources(self, columns: Iterable[int]) -> set[int]:
        return {self._source(c) for c in columns}

    def _codes(self, nesting: Nesting, like: Tensor) -> Tensor:
        return torch.tensor(nesting.codes, device=like.device)

    def _check(self) -> None:
        categories = self.categories
        for nesting, count in zip(self.nestings, self.counts, strict=True):
            sources = [c for c in self.kept if categories[c] is not None]
            codes = nesting.codes
            if nesting.source not in sources or len(codes) != categories[nesting.source]:
                raise ValueError(
                    f"Expected a code for each category of a source among columns {sources}; got "
                    f"{len(codes)} for column {nesting.source}."
                )
            if not all(0 <= code < count for code in codes):
                raise ValueError(f"Expected codes 0..{count - 1} of a column; got {codes}.")


def _admitted(cells: Evidence, codes: Tensor) -> Tensor:
    """Return which codes (B, n) or (1, n) the cells of one column admit, (B, n)."""
    low, high = cells.lower, cells.upper  # (B, 1)
    inside = torch.where(low == high, codes == low, (codes > low) & (codes <= high)) | low.isnan()
    for mask in cells.sets.values():
        missing = max(0, int(codes.max()) + 1 - mask.shape[1])
        allowed = torch.nn.functional.pad(mask, (0, missing)).expand(len(low), -1)
        inside = inside & allowed.gather(1, codes.expand(len(low), -1))
    return inside


def _masked(value: Tensor, rows: Tensor | None) -> Tensor:
    return value if rows is None else value.masked_fill(rows, -torch.inf)
