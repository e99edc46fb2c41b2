r"""Tests of (conditional) independence by the partial copula.

If X and Y are independent given Z, then so are :math:`U_1 = F(X \mid Z)` and
:math:`U_2 = F(Y \mid Z)`, and both are uniform. The converse does not hold: a dependence whose sign
changes with Z may cancel out. The test is that of Petersen and Hansen, "Testing conditional
independence via quantile regression based partial copulas" (JMLR 2021), with the density's own
conditional distributions in place of quantile regressions.

Its level rests on those distributions: on rows that the model has overfitted, or with a model that
fits badly, p-values are too large or too small. Test on held-out rows where there are enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from torch import Tensor

from marginals.columns import Schema
from marginals.queries.named_rows import NamedRows, places
from marginals.queries.positions import Columns, Parts, groups, seeded
from marginals.queries.shape_functions import (
    check_functions,
    shape_functions,
    trimmed_functions,
)
from marginals.queries.uniforms import Uniforms

Ties = Literal["random", "middle"]
Incomplete = Literal["marginalise", "omit"]

# The test over all shapes: the largest degree of a side, and how fast weights fall with degrees.
# Faster means more power against trends and less against all else.
DEGREES, DECAY = 4, 3.0


@final
@dataclass(frozen=True, eq=False)
class IndependenceResult:
    """The outcome of a test of independence.

    Args:
        statistic: n times the sum of the squared generalised correlations; for the test over all
            shapes, the sum for the shape that decided.
        pvalue: the probability of a result as extreme if the columns are independent.
        degrees: the degrees of freedom of the statistic's chi-squared distribution.
        n: the number of rows that counted.
        correlations: the generalised correlations, (functions of x, functions of y); the functions
            of a column are next to each other.
        ties: how cells with mass, if any, were transformed.
        shape: for the test over all shapes, the degrees in x and y that decided: (1, 1) is a trend,
            (2, 1) a mean of y that bends with x, (1, 2) a spread of y that grows or shrinks with x.
            None for a test with `q` functions.
    """

    statistic: float
    pvalue: float
    degrees: int
    n: int
    correlations: Tensor
    ties: Ties
    shape: tuple[int, int] | None = None

    def __str__(self) -> str:
        told = f"chi2({self.degrees}) = {self.statistic:.4g}, p = {self.pvalue:.3g}, n = {self.n}"
        return told if self.shape is None else f"{told}, shape {self.shape}"


# By position ------------------------------------------------------------------------------------


@torch.no_grad()
def independence_test(
    uniforms: Uniforms,
    x: Columns,
    y: Columns,
    given: Columns | None = None,
    q: int | None = None,
    *,
    trim: float = 0.01,
    ramp: float = 0.01,
    ties: Ties = "random",
    incomplete: Incomplete = "marginalise",
    seed: int = 0,
) -> IndependenceResult:
    """Test whether X and Y are independent, given Z if there is one, on rows of data.

    Rows with a missing cell in x or y are ignored; at least two must remain. A constant column
    carries no evidence: with "random" ties its transform is noise and the p-value is uniform; with
    "middle" the transform is 1/2, where the first function is 0, and the p-value for q = 1 is 1.

    By default the test combines shapes of dependence: the correlations of degree 1 to 4 in x with
    degree 1 to 4 in y, see `shape_functions`. They are independent if X and Y are, so the smallest
    weighted p-value has an exact distribution. Degree (j, k) has a weight proportional to
    (j k)^-3: most of the level goes to the trend, (1, 1), and the rest to curves and spreads.

    If a side has several columns, each is transformed given the ones before it too:
    F(x_1 | z), F(x_2 | x_1, z), ...; under independence all of these are independent uniforms.

    Args:
        uniforms: the rows, under one density or several; it caches transforms for later tests.
        x, y: one or more columns on each side.
        given: the columns Z; None for an unconditional test.
        q: None for the test over all shapes; or the number of functions of each uniform, as in
            Petersen and Hansen, with q^2 degrees of freedom for single columns. q = 1 only detects
            a trend.
        trim: the `q` functions vanish below `trim` and above 1 - `trim`, where conditional
            distributions are estimated worst.
        ramp: the width over which the weight of the `q` functions rises from 0 to 1.
        ties: the transform of a cell with mass (a category, an integer, a rounded or censored
            number), whose CDF jumps: "random" draws uniformly from the jump, which keeps the
            level exact; "middle" takes its middle, or over all shapes the mean of each function
            over the jump, which needs no seed and makes the test conservative.
        incomplete: by default rows in which part of Z is missing are transformed given the rest
            of Z. Independence given Z does not imply independence given part of it; "omit"
            excludes these rows.
        seed: seed for the random ties.

    >>> from marginals.densities.build import build
    >>> rows = torch.randn(50, 3)
    >>> uniforms = Uniforms([(build(rows, width=4), rows)])
    >>> independence_test(uniforms, 0, 1, given=[2]).degrees
    1
    """
    first, second, third = groups(uniforms.density, x=x, y=y, given=given)
    check_functions(1 if q is None else q, trim, ramp)
    _check_choice("ties", ties, ("random", "middle"))
    _check_choice("incomplete", incomplete, ("marginalise", "omit"))
    use = _usable(uniforms, first + second, third if incomplete == "omit" else ())
    ends = _ends(uniforms, first, second, third)[use]  # (B, n, 2)
    if bool(ends.isnan().any()):
        raise ValueError(
            "Expected `rows` to have positive probability; got a row in which columns "
            f"{list(third)} have none. Leave it out."
        )
    generator = seeded(uniforms.density, seed)
    if q is None:
        return result_of_shapes(_shapes(ends, ties, generator), len(first), ties)
    return result_of_uniforms(within(ends, ties, generator), len(first), q, trim, ramp, ties)


# By name ----------------------------------------------------------------------------------------


class Independence(NamedRows):
    """Tests of independence, by column names."""

    def independence_test(
        self, x: Any, y: Any, given: Any = None, *, data: Any = None, **options: Any
    ) -> IndependenceResult:
        """Test whether columns are independent, optionally given others.

        A fitted model is tested on the rows of `data`, by default the fitted rows. Cross-fitted
        models are tested on their held-out rows.

        Args:
            x, y: one or more columns on each side.
            given: columns to condition on.
            data: rows to test on.
            options: `q`, `ties`, `incomplete`, `seed`, `trim` and `ramp`; see
                `marginals.queries.independence_test`. `q` may be a list.

        Returns:
            An `IndependenceResult`, or one for each of several numbers `q`.
        """
        return self.independence_tester(data=data, **options).independence_test(x, y, given)

    def independence_tester(self, *, data: Any = None, **options: Any) -> "IndependenceTester":
        """Return an object that runs many tests on the same rows and computes each transform once.

        Args:
            data: rows to test on, as in `independence_test`.
            options: as in `independence_test`.
        """
        return IndependenceTester(self._columns(), self._tested(data), **options)


@final
class IndependenceTester:
    """Run many tests of independence on the same rows, by column name.

    The transform F(x | z) of a column is computed once and reused in every test with that z.

    Args:
        schema: the schema of the columns.
        parts: pairs of a density and its rows, on the model's scale.
        q: the number of functions of each test, None for the test over all shapes, or a list of
            these for one result each.
        options: options of the tests; see `marginals.queries.independence_test`.
    """

    def __init__(self, schema: Schema, parts: Parts, *, q: Any = None, **options: Any) -> None:
        self._schema, self._uniforms = schema, Uniforms(parts)
        self._q, self._options = q, options

    @property
    def names(self) -> list[Any]:
        """The names of the columns."""
        return list(self._schema.names)

    def independence_test(self, x: Any, y: Any, given: Any = None) -> IndependenceResult:
        """Test whether columns are independent, optionally given others.

        Args:
            x, y: one or more columns on each side.
            given: the columns to condition on.

        Returns:
            An `IndependenceResult`, or one for each of several numbers `q`.
        """
        first, second, third = (places(self._schema, side) for side in (x, y, given))
        several = isinstance(self._q, Sequence) and len(self._q) > 0
        results = tuple(
            independence_test(self._uniforms, first, second, third, q, **self._options)
            for q in (self._q if several else (self._q,))
        )
        return results if several else results[0]  # type: ignore[return-value]

    def prepare(self, columns: Any, given: Any = None) -> None:
        """Transform several columns to be tested given the same others, in one pass.

        Args:
            columns: the columns.
            given: the columns that the tests will condition on.
        """
        self._uniforms.ends(places(self._schema, columns), places(self._schema, given))


# The transform to uniforms ----------------------------------------------------------------------


def _usable(uniforms: Uniforms, needed: tuple[int, ...], complete: tuple[int, ...]) -> Tensor:
    """Say which rows have all of some columns, (B,)."""
    uniforms.check_no_sets(needed)
    use = uniforms.observed(needed + complete).all(1)
    if int(use.sum()) < 2:
        what = "both sides and all of `given`" if complete else "both sides"
        raise ValueError(
            f"Expected at least 2 rows with {what}; got {int(use.sum())} among {len(use)}. Give "
            "more rows, or rows with these cells filled in."
        )
    return use


def _ends(
    uniforms: Uniforms, first: tuple[int, ...], second: tuple[int, ...], given: tuple[int, ...]
) -> Tensor:
    """Return F at both ends of each cell of both sides, (B, n, 2)."""
    # The first columns of both sides share their evidence: one pass serves both.
    heads = (first[0], second[0])
    found = dict(zip(heads, uniforms.ends(heads, given).unbind(1), strict=True))
    for side in (first, second):
        for position in range(1, len(side)):
            before = (*given, *side[:position])
            found[side[position]] = uniforms.ends(side[position : position + 1], before)[:, 0]
    return torch.stack([found[c] for c in first + second], 1)


def within(ends: Tensor, ties: Ties, generator: torch.Generator) -> Tensor:
    """Return a number within the jump of the CDF at each cell, given its ends (..., 2)."""
    below, above = ends.unbind(-1)
    if ties == "middle":
        return (below + above) / 2
    noise = torch.rand(above.shape, dtype=above.dtype, device=above.device, generator=generator)
    return below + noise * (above - below)


# The test of independence -----------------------------------------------------------------------


def result_of_uniforms(
    u: Tensor, split: int, q: int, trim: float, ramp: float, ties: Ties
) -> IndependenceResult:
    """Test whether the first `split` columns of uniforms (B, n) depend on the others."""
    correlations = (
        _correlations(trimmed_functions(u, q, trim, ramp), split).flatten(2).flatten(0, 1)
    )
    statistic, degrees = len(u) * correlations.square().sum(), correlations.numel()
    pvalue = _upper_tail(statistic, degrees)
    return IndependenceResult(
        float(statistic), float(pvalue), degrees, len(u), correlations.cpu(), ties
    )


def result_of_shapes(values: Tensor, split: int, ties: Ties) -> IndependenceResult:
    """Test whether the first `split` columns depend on the others, given their shapes (B, n, q).

    The correlations of all pairs of degrees are uncorrelated, and nearly normal for many rows. So
    the p-values p of the pairs are independent, and the smallest p / w, with weights w that add up
    to 1, is below s with probability 1 - prod(1 - w s).
    """
    found = _correlations(values, split)  # (a, q, b, q)
    statistics = len(values) * found.square().sum((0, 2))  # (q, q)
    degrees = found.shape[0] * found.shape[2]
    weights = _weights().to(statistics)
    ratios = _upper_tail(statistics, degrees) / weights
    decisive = int(ratios.argmin())
    pvalue = -torch.expm1(torch.log1p(-weights * ratios.min()).sum())
    return IndependenceResult(
        float(statistics.flatten()[decisive]),
        float(pvalue),
        degrees,
        len(values),
        found.flatten(2).flatten(0, 1).cpu(),
        ties,
        (decisive // DEGREES + 1, decisive % DEGREES + 1),
    )


def _shapes(ends: Tensor, ties: Ties, generator: torch.Generator) -> Tensor:
    """Return the shapes of cells given the ends of their jumps (B, n, 2), (B, n, q)."""
    if ties == "random":
        return shape_functions(within(ends, ties, generator), DEGREES)
    # The mean over the jump, exact by Gauss's rule: its mean over all jumps is 0, given Z too.
    nodes, shares = np.polynomial.legendre.leggauss(DEGREES // 2 + 1)
    below, above = ends.unbind(-1)
    at = [below + (above - below) * (1 + node) / 2 for node in nodes.tolist()]
    parts = zip(shares.tolist(), at, strict=True)
    return torch.stack([share / 2 * shape_functions(u, DEGREES) for share, u in parts]).sum(0)


def _correlations(values: Tensor, split: int) -> Tensor:
    """Return the correlations of functions (B, n, q) of both sides, (a, q, b, q)."""
    return torch.einsum("bik,bjm->ikjm", values[:, :split], values[:, split:]) / len(values)


def _upper_tail(statistic: Tensor, degrees: int) -> Tensor:
    """Return the upper tail of the chi-squared distribution."""
    return torch.special.gammaincc(statistic.new_tensor(degrees / 2), statistic / 2)


def _weights() -> Tensor:
    """Return the share of the level that each pair of degrees has, (q, q)."""
    falling = torch.arange(1, DEGREES + 1, dtype=torch.float64) ** -DECAY
    weights = falling[:, None] * falling
    return weights / weights.sum()


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Expected `{name}` to be one of {list(choices)}; got {value!r}.")
