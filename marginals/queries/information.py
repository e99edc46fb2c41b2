r"""Entropy and mutual information, by averages of log values over rows.

The rows are draws of the density, whose averages estimate what the *model* says, or rows held out,
whose averages take the expectation over the data: then an entropy is a cross-entropy, at least as
large as that of the data, and an information mixes the model's log ratio with the data's
frequencies. Everything is in nats. An average may fall below zero by chance; it is not cut off.

A row may hold cells of any kind. With intervals (integers, rounded or censored numbers) and
categories the same formulas hold, with probabilities in place of densities. Draws of a density are
exact numbers: to ask about integers or rounded numbers, turn draws into the cells they fall into
and pass those as `rows`.

Information does not change under increasing maps of single columns, so that the model's scale and
the table's give the same. Entropy does change: see `log_jacobian`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.queries.estimate import Estimate
from marginals.queries.rows import Columns, at_least_one, groups, is_known, only, rows_or_draws

# The error of a mean of 10,000 is a hundredth of the spread of a row, often about one nat.
_SAMPLES = 10_000


@final
@dataclass(frozen=True, eq=False)
class InformationMatrix:
    """The mutual information of all pairs of columns.

    Args:
        columns: the n columns, in the order of the matrix.
        values, stderrs: (n, n), symmetric; NaN on the diagonal, where the information of a column
            with itself would be its entropy or infinite, and where no row knows both columns.
    """

    columns: tuple[int, ...]
    values: Tensor
    stderrs: Tensor

    def pair(self, a: int, b: int) -> Estimate:
        """Return the estimate for two of the columns."""
        for column in (a, b):
            if column not in self.columns:
                raise ValueError(f"Expected one of the columns {list(self.columns)}; got {column}.")
        i, j = self.columns.index(a), self.columns.index(b)
        return Estimate(float(self.values[i, j]), float(self.stderrs[i, j]))


@torch.no_grad()
def entropy(
    density: Density,
    columns: Columns,
    rows: Any = None,
    samples: int = _SAMPLES,
    seed: int = 0,
    log_jacobian: Callable[[Evidence], Tensor] | None = None,
) -> Estimate:
    """Estimate the joint entropy of columns: the mean of -log p.

    The entropy of continuous columns is differential, and may be negative. Rows that miss one of
    the columns are left out: their log densities are of other columns.

    Args:
        density: the density.
        columns: one column or several.
        rows: evidence or a tensor (B, D) to average over instead of draws.
        samples: the number of draws.
        seed: of the draws.
        log_jacobian: for the entropy on another scale y of the columns: maps the rows averaged
            over, evidence on `columns`, to the sum of log |dx / dy| over their exact cells, (B,).

    >>> from marginals.densities.build import build
    >>> model = build(torch.randn(50, 2), width=4)
    >>> entropy(model, [0, 1], samples=100).stderr < 1
    True
    """
    (asked,) = groups(density, columns=columns)
    cells = only(rows_or_draws(density, rows, samples, seed), asked)
    complete = at_least_one(is_known(cells, asked).all(1), "that knows all of `columns`")
    cells = cells.rows(complete)
    value = density.log_value(cells)
    return Estimate.mean_of(-value if log_jacobian is None else -value - log_jacobian(cells))


@torch.no_grad()
def mutual_information(
    density: Density,
    a: Columns,
    b: Columns,
    given: Columns | None = None,
    rows: Any = None,
    samples: int = _SAMPLES,
    seed: int = 0,
    permutations: int = 0,
) -> Estimate:
    """Estimate I(A; B) or I(A; B | C): the mean of log p(a, b | c) - log p(a | c) - log p(b | c).

    A row counts if at least one cell of each side is known; its other missing cells are
    marginalised. Where sides of several columns are partly known, the mean is therefore that of
    the information between the known parts, which is at most that between the whole.

    Args:
        density: the density.
        a, b: one column or several on each side.
        given: the columns C conditioned on.
        rows: evidence or a tensor (B, D) to average over instead of draws.
        samples: the number of draws.
        seed: of the draws and permutations.
        permutations: how often B is dealt out anew among the rows for the p-value; see
            `folded_information`.

    >>> from marginals.densities.build import build
    >>> model = build(torch.randn(50, 3), width=4)
    >>> mutual_information(model, 0, [1, 2], samples=100).stderr < 1
    True
    """
    cells = rows_or_draws(density, rows, samples, seed)
    return folded_information([(density, cells)], a, b, given, permutations, seed)


@torch.no_grad()
def folded_information(
    parts: Sequence[tuple[Density, Any]],
    a: Columns,
    b: Columns,
    given: Columns | None = None,
    permutations: int = 0,
    seed: int = 0,
) -> Estimate:
    """Estimate mutual information as `mutual_information` does, over rows of several densities.

    In cross-fitting each fold of rows is judged by a density that was fitted to the others.

    Args:
        parts: pairs of a density and rows: evidence or a tensor (B, D).
        a, b: one column or several on each side.
        given: the columns C conditioned on.
        permutations: for a p-value, how often the cells of B are dealt out anew among the rows of
            each part. If A and B are independent, all deals are alike, whatever the densities are,
            and the p-value is exact. Not with `given`: use `independence_test`.
        seed: of the permutations.
    """
    first, second, third = groups(parts[0][0], a=a, b=b, given=given)
    _check_permutations(permutations, third)
    used = [(density, _both_known(density.checked(rows), first, second)) for density, rows in parts]
    if not any(len(cells) for _, cells in used):
        count = sum(len(density.checked(rows)) for density, rows in parts)
        at_least_one(torch.zeros(count, dtype=torch.bool), "that knows part of `a` and part of `b`")
    ratios = [_log_ratio(density, cells, [first, second], third).cpu() for density, cells in used]
    found = Estimate.mean_of(torch.cat(ratios))
    if not permutations:
        return found
    # What permutations change is the joint density alone.
    generator = torch.Generator().manual_seed(seed)
    present = sum(_log_joint(density, cells, first, second) for density, cells in used)
    larger = 0
    for _ in range(permutations):
        dealt = sum(
            _log_joint(
                density, cells, first, second, torch.randperm(len(cells), generator=generator)
            )
            for density, cells in used
        )
        larger += dealt >= present
    return replace(found, pvalue=(1 + larger) / (1 + permutations))


def _both_known(cells: Evidence, first: tuple[int, ...], second: tuple[int, ...]) -> Evidence:
    """Return the rows that know a part of both sides."""
    return cells.rows(is_known(cells, first).any(1) & is_known(cells, second).any(1))


def _log_joint(
    density: Density,
    cells: Evidence,
    first: tuple[int, ...],
    second: tuple[int, ...],
    order: Tensor | None = None,
) -> float:
    """Return the log density of all rows, the cells of the second side in another order."""
    other = only(cells, second)
    if order is not None:
        other = other.rows(order.to(other.lower.device))
    return float(density.log_value(only(cells, first).join(other)).double().sum())


def _check_permutations(permutations: int, given: tuple[int, ...]) -> None:
    if permutations < 0:
        raise ValueError(f"Expected `permutations` to be at least 0; got {permutations}.")
    if permutations and given:
        raise ValueError(
            "Expected no `permutations` beside `given`: rows that differ in it do not exchange "
            "their cells. Use `independence_test` for a p-value."
        )


def pointwise_mutual_information(
    density: Density, a: Columns, b: Columns, rows: Any, given: Columns | None = None
) -> Tensor:
    """Return log p(a, b | c) - log p(a | c) - log p(b | c) of each row, (B,).

    Missing cells are marginalised: the answer is 0, up to rounding, where a side is unknown.

    Args:
        density: the density.
        a, b: one column or several on each side.
        rows: evidence or a tensor (B, D).
        given: the columns C conditioned on.
    """
    first, second, third = groups(density, a=a, b=b, given=given)
    return _log_ratio(density, density.checked(rows), [first, second], third)


@torch.no_grad()
def total_correlation(
    density: Density,
    columns: Sequence[int],
    given: Columns | None = None,
    rows: Any = None,
    samples: int = _SAMPLES,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean of log p(x | c) - sum_j log p(x_j | c): 0 if all are independent.

    A row counts if it knows at least two of the columns; see `mutual_information`, which this is
    for two columns.
    """
    asked, third = groups(density, columns=columns, given=given)
    if len(asked) < 2:
        raise ValueError(f"Expected `columns` to name at least two; got {list(asked)}. Add one.")
    cells = rows_or_draws(density, rows, samples, seed)
    some = at_least_one(is_known(cells, asked).sum(1) >= 2, "that knows two of `columns`")
    return Estimate.mean_of(_log_ratio(density, cells.rows(some), [(c,) for c in asked], third))


@torch.no_grad()
def mutual_information_matrix(
    density: Density,
    columns: Sequence[int] | None = None,
    given: Columns | None = None,
    rows: Any = None,
    samples: int = _SAMPLES,
    seed: int = 0,
) -> InformationMatrix:
    """Estimate the mutual information of all pairs of columns from one set of rows.

    Args:
        density: the density.
        columns: two or more; by default all that are not given.
        given: the columns conditioned on in every pair.
        rows: evidence or a tensor (B, D) to average over instead of draws.
        samples: the number of draws.
        seed: of the draws.
    """
    cells = rows_or_draws(density, rows, samples, seed)
    return folded_information_matrix([(density, cells)], columns, given)


@torch.no_grad()
def folded_information_matrix(
    parts: Sequence[tuple[Density, Any]],
    columns: Sequence[int] | None = None,
    given: Columns | None = None,
) -> InformationMatrix:
    """Estimate the mutual information of all pairs over rows of several densities.

    Args:
        parts: pairs of a density and rows: evidence or a tensor (B, D).
        columns: two or more; by default all that are not given.
        given: the columns conditioned on in every pair.
    """
    density = parts[0][0]
    (third,) = groups(density, given=given)
    chosen = [c for c in range(density.columns) if c not in third] if columns is None else columns
    asked, third = groups(density, columns=chosen, given=given)
    if len(asked) < 2:
        raise ValueError(f"Expected `columns` to name at least two; got {list(asked)}. Add one.")
    found = [_pairs(density, density.checked(rows), asked, third) for density, rows in parts]
    values = torch.full((len(asked), len(asked)), torch.nan, dtype=torch.float64)
    stderrs = values.clone()
    for i, j in combinations(range(len(asked)), 2):
        ratio = torch.cat([pairs[i, j] for pairs in found])
        if len(ratio):
            mean = Estimate.mean_of(ratio)
            values[i, j] = values[j, i] = mean.value
            stderrs[i, j] = stderrs[j, i] = mean.stderr
    return InformationMatrix(asked, values, stderrs)


def _pairs(
    density: Density, cells: Evidence, asked: tuple[int, ...], given: tuple[int, ...]
) -> dict[tuple[int, int], Tensor]:
    """Return, for each pair of columns, the log ratios of the rows that know both."""
    known = is_known(cells, asked)  # (B, n)
    base = _log_value(density, cells, given)  # (B,)
    alone = [_log_value(density, cells, (c, *given)) - base for c in asked]
    found = {}
    for i, j in combinations(range(len(asked)), 2):
        both = known[:, i] & known[:, j]
        pair = _log_value(density, cells.rows(both), (asked[i], asked[j], *given))
        ratio = pair - base[both] - alone[i][both] - alone[j][both]
        found[i, j] = _defined(ratio).double().cpu()
    return found


def _log_ratio(
    density: Density, cells: Evidence, parts: Sequence[tuple[int, ...]], given: tuple[int, ...]
) -> Tensor:
    """Return log p(all parts | given) - sum of log p(part | given), (B,)."""
    base = _log_value(density, cells, given)
    together = [column for part in parts for column in part]
    ratio = _log_value(density, cells, (*together, *given)) - base
    for part in parts:
        ratio = ratio - (_log_value(density, cells, (*part, *given)) - base)
    return _defined(ratio)


def _log_value(density: Density, cells: Evidence, columns: tuple[int, ...]) -> Tensor:
    """Return the log value of some columns of the rows, (B,); of none it is 0."""
    # No contraction for nothing: a view would contract its own evidence, twice.
    return density.log_value(only(cells, columns)) if columns else cells.lower.new_zeros(len(cells))


def _defined(ratio: Tensor) -> Tensor:
    """Refuse rows one of whose sides the model finds impossible: 0 / 0 has no logarithm."""
    wrong = ratio.isnan()
    if bool(wrong.any()):
        raise ValueError(
            "Expected rows that have positive probability; got none in row "
            f"{int(wrong.nonzero()[0])} of those that count. Leave it out."
        )
    return ratio
