r"""Entropy and mutual information: averages of log values over rows, in nats.

The functions take parts, pairs of a density and rows. Averages over draws of a density
(`draws_of`) estimate what the *model* says. Averages over held-out rows take the expectation over
the data: an entropy is then a cross-entropy, at least as large as that of the data, and an
information mixes the model's log ratio with the data's frequencies. In cross-fitting a density
judges the rows of the fold that it was not fitted to. Averages may fall below zero by chance; they
are not clipped.

A row may hold cells of any kind: intervals (integers, rounded or censored numbers) and categories
have probabilities in place of densities. Information does not change under increasing maps of
single columns, so that the model's scale and the table's agree. Entropy does: see `log_jacobian`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, final

import pandas as pd
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.columns import encode
from marginals.densities.density import Density
from marginals.queries.estimate import Estimate
from marginals.queries.named_rows import NamedModel, NamedRows, places, seed_of
from marginals.queries.positions import (
    SAMPLES,
    Columns,
    Parts,
    at_least_one,
    checked,
    groups,
    observed,
)


@final
@dataclass(frozen=True, eq=False)
class InformationMatrix:
    """The mutual information of all pairs of columns.

    Args:
        columns: the n columns, in the order of the matrix.
        values, stderrs: (n, n), symmetric. NaN on the diagonal, where the information of a column
            with itself is its entropy or infinite, and where no row has both columns.
    """

    columns: tuple[int, ...]
    values: Tensor
    stderrs: Tensor

    def pair(self, a: int, b: int) -> Estimate:
        """Return the estimate for two of the columns.

        Args:
            a, b: two of `columns`.
        """
        for column in (a, b):
            if column not in self.columns:
                raise ValueError(f"Expected one of the columns {list(self.columns)}; got {column}.")
        i, j = self.columns.index(a), self.columns.index(b)
        return Estimate(float(self.values[i, j]), float(self.stderrs[i, j]))


# By position ------------------------------------------------------------------------------------


@torch.no_grad()
def entropy(parts: Parts, columns: Columns, log_jacobian: Tensor | None = None) -> Estimate:
    """Estimate the joint entropy of columns: the mean of -log p.

    The entropy of continuous columns is differential and may be negative. Rows with a missing cell
    in one of the columns are ignored, because their log densities describe fewer columns.

    Args:
        parts: pairs of a density and rows, evidence or a tensor (B, D).
        columns: one or more columns.
        log_jacobian: for the entropy on another scale y of the columns, the sum of log |dx / dy|
            over the exact cells of each row, (B,).

    >>> from marginals.densities.build import build
    >>> from marginals.queries import draws_of
    >>> entropy(draws_of(build(torch.randn(50, 2), width=4), 100), [0, 1]).stderr < 1
    True
    """
    (asked,) = groups(parts[0][0], columns=columns)
    known = [(density, cells.select(asked)) for density, cells in checked(parts)]
    whole = ~torch.cat([cells.missing().any(1).cpu() for _, cells in known])
    at_least_one(whole, "with all of `columns`")
    value = torch.cat([density.log_value(cells).double().cpu() for density, cells in known])
    return Estimate.mean_of(-(value if log_jacobian is None else value + log_jacobian)[whole])


@torch.no_grad()
def mutual_information(
    parts: Parts,
    a: Columns,
    b: Columns,
    given: Columns | None = None,
    permutations: int = 0,
    seed: int = 0,
) -> Estimate:
    """Estimate I(A; B) or I(A; B | C): the mean of log p(a, b | c) - log p(a | c) - log p(b | c).

    A row counts if at least one cell on each side is observed; its missing cells are marginalised.
    If sides of several columns have gaps, the mean is over the information between the observed
    parts, which is at most the information between the complete sides.

    Args:
        parts: pairs of a density and rows, evidence or a tensor (B, D).
        a, b: one or more columns on each side.
        given: the columns C to condition on.
        permutations: for a p-value, how often to permute the cells of B among the rows of each
            part. If A and B are independent, all permutations are equally likely for any densities,
            and the p-value is exact. Not available with `given`: use `independence_test`.
        seed: seed for the permutations.

    >>> from marginals.densities.build import build
    >>> from marginals.queries import draws_of
    >>> mutual_information(draws_of(build(torch.randn(50, 3), width=4), 100), 0, [1, 2]).stderr < 1
    True
    """
    first, second, third = groups(parts[0][0], a=a, b=b, given=given)
    _check_permutations(permutations, third)
    used = _counted(
        parts,
        lambda cells: observed(cells, first).any(1) & observed(cells, second).any(1),
        "with part of `a` and part of `b`",
    )
    found = Estimate.mean_of(_log_ratios(used, [first, second], third))
    if not permutations:
        return found
    generator = torch.Generator().manual_seed(seed)
    # Permutations change nothing but the joint log density.
    present = sum(_log_joint(*part, first, second) for part in used)
    larger = 0
    for _ in range(permutations):
        orders = [torch.randperm(len(c), generator=generator) for _, c in used]
        pairs = zip(used, orders, strict=True)
        larger += sum(_log_joint(*part, first, second, order) for part, order in pairs) >= present
    return replace(found, pvalue=(1 + larger) / (1 + permutations))


def pointwise_mutual_information(
    parts: Parts, a: Columns, b: Columns, given: Columns | None = None
) -> Tensor:
    """Return log p(a, b | c) - log p(a | c) - log p(b | c) of each row, (B,).

    Missing cells are marginalised: the answer is 0, up to rounding, where a side is missing.

    Args:
        parts: pairs of a density and rows, evidence or a tensor (B, D).
        a, b: one or more columns on each side.
        given: the columns C to condition on.
    """
    first, second, third = groups(parts[0][0], a=a, b=b, given=given)
    return _log_ratios(checked(parts), [first, second], third)


@torch.no_grad()
def total_correlation(
    parts: Parts, columns: Sequence[int], given: Columns | None = None
) -> Estimate:
    """Estimate the mean of log p(x | c) - sum_j log p(x_j | c): 0 if all are independent.

    A row counts if it has at least two of the columns. For two columns this is their mutual
    information.

    Args:
        parts: pairs of a density and rows, evidence or a tensor (B, D).
        columns: two or more columns.
        given: the columns to condition on.
    """
    asked, third = _two_or_more(parts, columns, given)
    used = _counted(parts, lambda c: observed(c, asked).sum(1) >= 2, "with two of `columns`")
    return Estimate.mean_of(_log_ratios(used, [(c,) for c in asked], third))


@torch.no_grad()
def mutual_information_matrix(
    parts: Parts, columns: Sequence[int] | None = None, given: Columns | None = None
) -> InformationMatrix:
    """Estimate the mutual information of all pairs of columns, each column contracted once.

    Args:
        parts: pairs of a density and rows, evidence or a tensor (B, D).
        columns: two or more columns; by default all that are not given.
        given: the columns to condition on in every pair.
    """
    asked, third = _two_or_more(parts, columns, given)
    found = [_pairs(density, cells, asked, third) for density, cells in checked(parts)]
    values = torch.full((len(asked), len(asked)), torch.nan, dtype=torch.float64)
    stderrs = values.clone()
    for i, j in combinations(range(len(asked)), 2):
        ratio = torch.cat([pairs[i, j] for pairs in found])
        if len(ratio):
            mean = Estimate.mean_of(ratio)
            values[i, j] = values[j, i] = mean.value
            stderrs[i, j] = stderrs[j, i] = mean.stderr
    return InformationMatrix(asked, values, stderrs)


# By name ----------------------------------------------------------------------------------------


class Information(NamedRows):
    """Information between columns, by their names."""

    def mutual_information(
        self,
        a: Any,
        b: Any,
        given: Any = None,
        *,
        data: Any = None,
        samples: int = SAMPLES,
        random_state: Any = 0,
        permutations: int = 0,
    ) -> Estimate:
        """Estimate the mutual information of columns in nats, optionally given others.

        This is the mean of log p(a, b | c) / (p(a | c) p(b | c)) over rows. A fitted model averages
        over its own draws, or over the rows of `data`. Use held-out rows: on training rows,
        overfitting looks like information. Cross-fitted models average over their held-out rows.

        Args:
            a, b: one or more columns on each side.
            given: columns to condition on.
            data: rows to average over instead of draws.
            samples: the number of draws.
            random_state: seed for the draws and permutations.
            permutations: for `.pvalue`, how often to permute the cells of `b` among the rows; only
                without `given`.
        """
        parts, seed = self._averaged(data, samples, random_state), seed_of(random_state)
        first, second, third = (places(self._columns(), side) for side in (a, b, given))
        return mutual_information(parts, first, second, third, permutations, seed)

    def pointwise_mutual_information(
        self, a: Any, b: Any, data: Any = None, given: Any = None
    ) -> Any:
        """Return log p(a, b | c) / (p(a | c) p(b | c)) of each row in nats.

        Args:
            a, b: one or more columns on each side.
            data: the rows; by default the fitted ones.
            given: columns to condition on.
        """
        parts = self._tested(data)
        first, second, third = (places(self._columns(), side) for side in (a, b, given))
        with torch.no_grad():
            found = pointwise_mutual_information(parts, first, second, third)
        return found.double().cpu().numpy()

    def total_correlation(
        self,
        columns: Any = None,
        given: Any = None,
        *,
        data: Any = None,
        samples: int = SAMPLES,
        random_state: Any = 0,
    ) -> Estimate:
        """Estimate the total correlation of columns in nats, optionally given others.

        This is the mean of log p(x | c) - sum_j log p(x_j | c): 0 if all are independent.

        Args:
            columns: two or more columns; by default all that are not given.
            given: columns to condition on.
            data, samples, random_state: as in `mutual_information`.
        """
        parts = self._averaged(data, samples, random_state)
        return total_correlation(parts, *self._asked(columns, given))

    def mutual_information_matrix(
        self,
        columns: Any = None,
        given: Any = None,
        *,
        data: Any = None,
        samples: int = SAMPLES,
        random_state: Any = 0,
        stderr: bool = False,
    ) -> Any:
        """Estimate the mutual information of all pairs of columns in nats, as a frame.

        Args:
            columns: two or more columns; by default all that are not given.
            given: columns to condition on in every pair.
            data, samples, random_state: as in `mutual_information`.
            stderr: return the standard errors as a second frame.
        """
        parts = self._averaged(data, samples, random_state)
        found = mutual_information_matrix(parts, *self._asked(columns, given))
        names = [self._columns().names[i] for i in found.columns]
        values, errors = (
            pd.DataFrame(part.numpy(), index=names, columns=names)
            for part in (found.values, found.stderrs)
        )
        return (values, errors) if stderr else values

    def _asked(self, columns: Any, given: Any) -> tuple[Any, tuple[int, ...]]:
        schema = self._columns()
        return None if columns is None else places(schema, columns), places(schema, given)


class Entropy(NamedModel):
    """The entropy of columns, by their names."""

    def entropy(
        self,
        columns: Any = None,
        *,
        data: Any = None,
        samples: int = SAMPLES,
        random_state: Any = 0,
    ) -> Estimate:
        """Estimate the entropy of columns, the mean of -log p, in nats and the columns' units.

        Args:
            columns: one or more columns; all by default.
            data: rows to average over instead of draws.
            samples: the number of draws.
            random_state: seed for the draws.
        """
        density, schema = self._parts()
        asked = places(schema, schema.names if columns is None else columns)
        table = self._drawn(samples, random_state) if data is None else data
        cells = encode(schema, table, columns=[schema.names[i] for i in asked])
        return entropy([(density, cells.evidence)], asked, cells.log_jacobian)


# Log ratios -------------------------------------------------------------------------------------


def _two_or_more(
    parts: Parts, columns: Sequence[int] | None, given: Columns | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two or more columns, by default all that are not given, and those given."""
    density = parts[0][0]
    (third,) = groups(density, given=given)
    rest = [c for c in range(density.columns) if c not in third]
    asked, third = groups(density, columns=rest if columns is None else columns, given=given)
    if len(asked) < 2:
        raise ValueError(f"Expected `columns` to name at least two; got {list(asked)}. Add one.")
    return asked, third


def _counted(
    parts: Parts, enough: Callable[[Evidence], Tensor], what: str
) -> list[tuple[Density, Evidence]]:
    """Keep the rows that have enough of the columns, and refuse parts without any."""
    every = checked(parts)
    use = [enough(cells) for _, cells in every]
    at_least_one(torch.cat([rows.cpu() for rows in use]), what)
    return [(density, c.rows(rows)) for (density, c), rows in zip(every, use, strict=True)]


def _log_joint(
    density: Density,
    cells: Evidence,
    first: tuple[int, ...],
    second: tuple[int, ...],
    order: Tensor | None = None,
) -> float:
    """Return the log density of all rows, with the cells of the second side in another order."""
    other = cells.select(second)
    if order is not None:
        other = other.rows(order.to(other.lower.device))
    return float(density.log_value(cells.select(first).join(other)).double().sum())


def _pairs(
    density: Density, cells: Evidence, asked: tuple[int, ...], given: tuple[int, ...]
) -> dict[tuple[int, int], Tensor]:
    """Return, for each pair of columns, the log ratios of the rows that have both."""
    known = observed(cells, asked)  # (B, n)
    base = _log_value(density, cells, given)  # (B,)
    alone = [_log_value(density, cells, (c, *given)) - base for c in asked]
    found = {}
    for i, j in combinations(range(len(asked)), 2):
        both = known[:, i] & known[:, j]
        pair = _log_value(density, cells.rows(both), (asked[i], asked[j], *given))
        ratio = pair - base[both] - alone[i][both] - alone[j][both]
        found[i, j] = _defined(ratio).double().cpu()
    return found


def _log_ratios(
    parts: Sequence[tuple[Density, Evidence]],
    sides: Sequence[tuple[int, ...]],
    given: tuple[int, ...],
) -> Tensor:
    """Return log p(all sides | given) - sum of log p(side | given) of the rows of all parts."""
    ratios = []
    for density, cells in parts:
        base = _log_value(density, cells, given)
        together = [column for side in sides for column in side]
        ratio = _log_value(density, cells, (*together, *given)) - base
        for side in sides:
            ratio = ratio - (_log_value(density, cells, (*side, *given)) - base)
        ratios.append(ratio.cpu())
    return _defined(torch.cat(ratios))


def _log_value(density: Density, cells: Evidence, columns: tuple[int, ...]) -> Tensor:
    """Return the log value of some columns of the rows, (B,); of no columns it is 0."""
    # A view would contract its own evidence twice for nothing.
    return (
        density.log_value(cells.select(columns)) if columns else cells.lower.new_zeros(len(cells))
    )


def _defined(ratio: Tensor) -> Tensor:
    """Refuse rows with a side that the model finds impossible: 0 / 0 has no logarithm."""
    wrong = ratio.isnan()
    if bool(wrong.any()):
        raise ValueError(
            "Expected rows that have positive probability; got none in row "
            f"{int(wrong.nonzero()[0])} of those that count. Leave it out."
        )
    return ratio


def _check_permutations(permutations: int, given: tuple[int, ...]) -> None:
    if permutations < 0:
        raise ValueError(f"Expected `permutations` to be at least 0; got {permutations}.")
    if permutations and given:
        raise ValueError(
            "Expected no `permutations` with `given`: rows that differ in it do not exchange "
            "their cells. Use `independence_test` for a p-value."
        )
