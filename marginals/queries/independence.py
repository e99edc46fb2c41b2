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
from numbers import Integral
from typing import Any, Literal, final

import torch
from torch import Tensor

from marginals.columns import Schema
from marginals.queries.named_rows import NamedRows, places
from marginals.queries.positions import Columns, Parts, groups, seeded
from marginals.queries.uniforms import Uniforms

Ties = Literal["random", "middle"]
Incomplete = Literal["marginalise", "omit"]


@final
@dataclass(frozen=True, eq=False)
class IndependenceResult:
    """The outcome of a test of independence.

    Args:
        statistic: n times the sum of the squared generalised correlations.
        pvalue: the chance of a statistic as large if the columns are independent.
        degrees: the degrees of freedom of its chi-squared distribution.
        n: the number of rows that counted.
        correlations: the generalised correlations, (q columns of x, q columns of y).
        ties: how cells with mass, if there were any, were transformed.
    """

    statistic: float
    pvalue: float
    degrees: int
    n: int
    correlations: Tensor
    ties: Ties

    def __str__(self) -> str:
        return f"chi2({self.degrees}) = {self.statistic:.4g}, p = {self.pvalue:.3g}, n = {self.n}"


# By position ------------------------------------------------------------------------------------


@torch.no_grad()
def independence_test(
    uniforms: Uniforms,
    x: Columns,
    y: Columns,
    given: Columns | None = None,
    q: int = 1,
    *,
    trim: float = 0.01,
    ramp: float = 0.01,
    ties: Ties = "random",
    incomplete: Incomplete = "marginalise",
    seed: int = 0,
) -> IndependenceResult:
    """Test whether X and Y are independent (given Z), at rows of data.

    Rows that miss a cell of x or y do not count; at least two must remain. A column that never
    varies carries no evidence: with "random" ties its transform is noise and the p-value uniform;
    with "middle" it is 1/2, where the first function is 0, and the p-value for q = 1 is 1.

    Sides of several columns are transformed in turn, each column given those before it too:
    F(x_1 | z), F(x_2 | x_1, z), ...; under independence all of these are independent uniforms.

    Args:
        uniforms: the rows, under one density or several; it keeps transforms for later tests.
        x, y: one column or several on each side.
        given: the columns Z; None for an unconditional test.
        q: the number of functions of each uniform; the degrees of freedom are q^2 for single
            columns. More functions see more kinds of dependence, each of them less well.
        trim: the functions vanish below `trim` and above 1 - `trim`, where conditional
            distributions are estimated worst.
        ramp: the width over which the weight of a function rises from 0 to 1.
        ties: the transform of a cell with mass (a category, an integer, a rounded or censored
            number), whose CDF jumps: "random" draws uniformly from the jump, which keeps the
            level exact; "middle" takes its middle, which needs no seed and makes the test
            conservative.
        incomplete: by default rows in which part of Z is missing are transformed given the rest
            of Z. Independence given Z does not imply independence given a part of it: "omit"
            leaves these rows out.
        seed: seed for the random ties.

    >>> from marginals.densities.build import build
    >>> rows = torch.randn(50, 3)
    >>> uniforms = Uniforms([(build(rows, width=4), rows)])
    >>> independence_test(uniforms, 0, 1, given=[2]).degrees
    1
    """
    first, second, third = groups(uniforms.density, x=x, y=y, given=given)
    _check_functions(q, trim, ramp)
    _check_choice("ties", ties, ("random", "middle"))
    _check_choice("incomplete", incomplete, ("marginalise", "omit"))
    use = _usable(uniforms, first + second, third if incomplete == "omit" else ())
    ends = _ends(uniforms, first, second, third)[use]  # (B, n, 2)
    if bool(ends.isnan().any()):
        raise ValueError(
            "Expected `rows` to have positive probability; got a row in which columns "
            f"{list(third)} have none. Leave it out."
        )
    u = within(ends, ties, seeded(uniforms.density, seed))
    return result_of_uniforms(u, len(first), q, trim, ramp, ties)


# By name ----------------------------------------------------------------------------------------


class Independence(NamedRows):
    """Tests of independence, by column names."""

    def independence_test(
        self, x: Any, y: Any, given: Any = None, *, data: Any = None, **options: Any
    ) -> IndependenceResult:
        """Test whether columns are independent, perhaps given others.

        A fitted model is tested at the rows of `data`, by default at those it was fitted to;
        cross-fitted models at their held-out rows.

        Args:
            x, y: a column or several on each side.
            given: columns to condition on.
            data: rows to test at.
            options: `q`, `ties`, `incomplete`, `seed`, `trim` and `ramp`; see
                `marginals.queries.independence_test`. `q` may be a list of numbers.

        Returns:
            An `IndependenceResult`, or one for each of several numbers `q`.
        """
        return self.independence_tester(data=data, **options).independence_test(x, y, given)

    def independence_tester(self, *, data: Any = None, **options: Any) -> "IndependenceTester":
        """Return an object that runs many tests at the same rows and makes each transform once.

        Args:
            data: rows to test at, as of `independence_test`.
            options: as of `independence_test`.
        """
        return IndependenceTester(self._columns(), self._tested(data), **options)


@final
class IndependenceTester:
    """Many tests of independence at the same rows, by column names.

    The transform F(x | z) of a column is computed once and serves every test with that z.

    Args:
        schema: the schema of the columns.
        parts: pairs of a density and its rows, on the model's scale.
        q: the number of functions of each test, or a list of numbers for one result each.
        options: options of the tests, see `marginals.queries.independence_test`.
    """

    def __init__(self, schema: Schema, parts: Parts, *, q: Any = 1, **options: Any) -> None:
        self._schema, self._uniforms = schema, Uniforms(parts)
        self._q, self._options = q, options

    @property
    def names(self) -> list[Any]:
        """The names of the columns."""
        return list(self._schema.names)

    def independence_test(self, x: Any, y: Any, given: Any = None) -> IndependenceResult:
        """Test whether columns are independent, perhaps given others.

        Args:
            x, y: a column or several on each side.
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
        """Transform columns that will be tested given the same others, in one pass.

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
    values = trimmed_functions(u, q, trim, ramp)  # (B, n, q)
    first, second = values[:, :split].flatten(1), values[:, split:].flatten(1)
    correlations = first.T @ second / len(u)
    statistic, degrees = len(u) * correlations.square().sum(), correlations.numel()
    # The upper tail of the chi-squared distribution.
    pvalue = torch.special.gammaincc(statistic.new_tensor(degrees / 2), statistic / 2)
    return IndependenceResult(
        float(statistic), float(pvalue), degrees, len(u), correlations.cpu(), ties
    )


def trimmed_functions(u: Tensor, q: int, trim: float, ramp: float) -> Tensor:
    """Return q orthonormal functions of uniforms (...), of mean 0 and variance 1, (..., q).

    [trim, 1 - trim] is cut into q equal pieces. On its piece, function k is c w(u) (u - m), where m
    is the middle and the weight w rises from 0 to 1 within `ramp` of both ends; elsewhere it is 0,
    so that no two overlap. q = 1 gives a trimmed Spearman correlation.
    """
    half = (0.5 - trim) / q
    middles = trim + half * (2 * torch.arange(q, dtype=u.dtype, device=u.device) + 1)
    away = u[..., None] - middles
    weight = ((half - away.abs()) / ramp).clamp(0, 1)
    flat = (half - ramp) ** 3 / 3
    ramps = half**2 * ramp / 3 - half * ramp**2 / 2 + ramp**3 / 5
    # The integral of the square over both halves of the piece.
    return weight * away / (2 * (flat + ramps)) ** 0.5


def _check_functions(q: int, trim: float, ramp: float) -> None:
    if not isinstance(q, Integral) or q < 1:
        raise ValueError(f"Expected `q` to be a number of functions, 1 or more; got {q!r}.")
    if not 0 <= trim < 0.5:
        raise ValueError(f"Expected `trim` to be at least 0 and below 0.5; got {trim}.")
    widest = (0.5 - trim) / q
    if not 0 < ramp <= widest:
        raise ValueError(
            f"Expected `ramp` to be positive and at most {widest:.3g}, half the width of a piece; "
            f"got {ramp}. Give a smaller ramp or a smaller `q`."
        )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Expected `{name}` to be one of {list(choices)}; got {value!r}.")
