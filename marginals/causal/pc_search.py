"""The independence tests that a search for a graph runs: each once, recorded, the next prepared."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from numbers import Integral
from typing import Any, final

import pandas as pd

from marginals.estimators.cross_fit import cross_fit
from marginals.queries import IndependenceResult

Pair = frozenset[int]


def as_tester(model_or_df: Any, data: Any = None, **options: Any) -> Any:
    """Return an object with `names` and `independence_test(x, y, given=...)`.

    Args:
        model_or_df: a fitted model, tested at `data` or at the rows it was fitted to; an object
            that runs its own tests; or a table, which is cross-fitted.
        data: rows to test at.
        options: options of the tests, see `marginals.queries.independence_test`.
    """
    check_one_result(options)
    tester = model_or_df
    if not hasattr(tester, "independence_test"):
        tester = cross_fit(tester)
    if hasattr(tester, "independence_tester"):
        return tester.independence_tester(data=data, **options)
    names_of(tester)
    if data is not None or options:
        raise ValueError(
            "Expected neither `data` nor test options with an object that runs its own tests, "
            f"{type(tester).__name__}; got {sorted(options) or 'data'}. Set them there."
        )
    return tester


def check_one_result(options: Mapping[str, Any]) -> None:
    """Raise if the options ask for several results per test."""
    q = options.get("q")
    if q is not None and not isinstance(q, Integral):
        raise ValueError(
            f"Expected `q` to be one whole number, as one p-value decides about a pair; got {q!r}. "
            "Give one, and search again for each other."
        )


def names_of(tester: Any) -> list[Any]:
    """Return a tester's column names, from its `names` or the `schema_` of a fitted model."""
    schema = getattr(tester, "schema_", None)
    names = getattr(tester, "names", None) if schema is None else schema.names
    if names is None or not hasattr(tester, "independence_test"):
        raise TypeError(
            "Expected a fitted model, or an object with `names` and `independence_test(x, y, "
            f"given=...)`; got {type(tester).__name__}. Fit a model first."
        )
    return list(names)


@final
class RecordedTests:
    """Run tests by column position, each once, and record them.

    PC increases the number of columns it conditions on, and given Z only tests columns that are
    still joined. If the tester has `prepare`, all of these are transformed in one pass, since they
    share their evidence.

    Args:
        tester: a fitted model or another object with `names` and `independence_test`.
        alpha: level above which a pair is no longer joined; None prepares nothing.
        settled: p-values of pairs that are not tested.
    """

    def __init__(
        self, tester: Any, alpha: float | None = None, settled: dict[Pair, float] | None = None
    ) -> None:
        self.names = names_of(tester)
        self._tester, self._alpha, self._settled = tester, alpha, settled or {}
        self._found: dict[tuple[Pair, frozenset[int]], IndependenceResult] = {}
        self._joined = {frozenset(p) for p in combinations(range(len(self.names)), 2)}
        self._separated: set[Pair] = {p for p, value in self._settled.items() if value == 1}
        self._depth = -1
        self._ready: set[frozenset[int]] = set()

    def pvalue(self, x: int, y: int, given: Iterable[int] = ()) -> float:
        """Return the p-value of one test, or the settled one; arguments are column positions."""
        pair = frozenset((int(x), int(y)))
        return self._settled[pair] if pair in self._settled else self.result(x, y, given).pvalue

    def result(self, x: int, y: int, given: Iterable[int] = ()) -> IndependenceResult:
        """Return the result of one test; arguments are column positions."""
        pair, known = frozenset((int(x), int(y))), frozenset(map(int, given))
        if (pair, known) not in self._found:
            self._prepare(known)
            result = self._tester.independence_test(
                *self._named(pair), given=self._named(known) or None
            )
            self._found[pair, known] = result
            if self._alpha is not None and result.pvalue > self._alpha:
                self._separated.add(pair)
        return self._found[pair, known]

    def frame(self) -> pd.DataFrame:
        """Return all tests in the order they ran: x, y, given, statistic, pvalue, n."""
        rows = [
            (*self._named(pair), tuple(self._named(known)), r.statistic, r.pvalue, r.n)
            for (pair, known), r in self._found.items()
        ]
        return pd.DataFrame(rows, columns=["x", "y", "given", "statistic", "pvalue", "n"])

    def _prepare(self, known: frozenset[int]) -> None:
        """Transform the columns that are likely to be tested given these."""
        if len(known) > self._depth:  # PC removes edges at the end of each depth
            self._depth = len(known)
            self._joined -= self._separated
        prepare = getattr(self._tester, "prepare", None)
        if prepare is None or self._alpha is None or known in self._ready:
            return
        self._ready.add(known)
        columns = expected(self._joined, known)
        if columns:
            prepare(self._named(columns), self._named(known) or None)

    def _named(self, positions: Iterable[int]) -> list[Any]:
        return [self.names[i] for i in sorted(positions)]


def expected(joined: Iterable[Pair], known: frozenset[int]) -> set[int]:
    """Return the columns that PC tests given `known`: one of each pair is adjacent to all of it.

    >>> sorted(expected([frozenset(p) for p in [(0, 1), (0, 2), (2, 3)]], frozenset({2})))
    [0, 1]
    """
    near: dict[int, set[int]] = {}
    for a, b in map(tuple, joined):
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    found: set[int] = set()
    for column, neighbours in near.items():
        others = neighbours - known
        if column not in known and known <= neighbours and others:
            found |= {column, *others}
    return found
