"""The tests that a search for a graph runs: each once, recorded, the next ones made ready."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Protocol, final

import pandas as pd

from marginals.queries import IndependenceResult

Pair = frozenset[int]


class Tester(Protocol):
    """What is needed of a model, a cross-fitted one, or anything else that tests independence."""

    def independence_test(self, x: Any, y: Any, given: Any = None) -> IndependenceResult:
        """Test whether columns are independent, perhaps given others."""
        ...


def names_of(tester: Any) -> list[Any]:
    """Return the names of the columns that a tester knows.

    Args:
        tester: has `names`, or the `schema_` of a fitted model.
    """
    schema = getattr(tester, "schema_", None)
    names = getattr(tester, "names", None) if schema is None else schema.names
    if names is None or not hasattr(tester, "independence_test"):
        raise TypeError(
            "Expected a fitted model, or an object with `names` and `independence_test(x, y, "
            f"given=...)`; got {type(tester).__name__}."
        )
    return list(names)


@final
class RecordedTests:
    """Tests by the positions of columns, each run once and written down.

    A search like PC goes up by the number of columns conditioned on, and given Z asks only about
    columns that are still joined. All of these are transformed in one pass if the tester can
    (`prepare`), since they share their evidence.

    Args:
        tester: what tests.
        alpha: the level above which a pair is no longer joined; None expects any pair.
        settled: p-values of pairs that are not to be tested.
    """

    def __init__(
        self,
        tester: Tester,
        alpha: float | None = None,
        settled: dict[Pair, float] | None = None,
    ) -> None:
        self.names = names_of(tester)
        self._tester, self._alpha, self._settled = tester, alpha, settled or {}
        self._found: dict[tuple[Pair, frozenset[int]], IndependenceResult] = {}
        self._joined = {frozenset(p) for p in combinations(range(len(self.names)), 2)}
        self._parted: set[Pair] = {p for p, value in self._settled.items() if value == 1}
        self._depth = -1
        self._ready: set[frozenset[int]] = set()

    def pvalue(self, x: int, y: int, given: Iterable[int] = ()) -> float:
        """Return the p-value of one test.

        Args:
            x, y: positions of columns.
            given: positions of the columns to condition on.
        """
        pair = frozenset((int(x), int(y)))
        if pair in self._settled:
            return self._settled[pair]
        return self.result(x, y, given).pvalue

    def result(self, x: int, y: int, given: Iterable[int] = ()) -> IndependenceResult:
        """Return one test.

        Args:
            x, y: positions of columns.
            given: positions of the columns to condition on.
        """
        pair, known = frozenset((int(x), int(y))), frozenset(map(int, given))
        if (pair, known) not in self._found:
            self._prepare(known)
            first, second = sorted(pair)
            result = self._tester.independence_test(
                self.names[first], self.names[second], given=self._named(sorted(known)) or None
            )
            self._found[pair, known] = result
            if self._alpha is not None and result.pvalue > self._alpha:
                self._parted.add(pair)
        return self._found[pair, known]

    def frame(self) -> pd.DataFrame:
        """Return all tests run, in their order: x, y, given, statistic, pvalue, n."""
        rows = [
            (*self._named(sorted(pair)), tuple(self._named(sorted(known))), *_figures(result))
            for (pair, known), result in self._found.items()
        ]
        return pd.DataFrame(rows, columns=["x", "y", "given", "statistic", "pvalue", "n"])

    def _prepare(self, known: frozenset[int]) -> None:
        """Transform what is likely to be tested given these columns."""
        if len(known) > self._depth:  # pairs are parted when a depth is done
            self._depth = len(known)
            self._joined -= self._parted
        prepare = getattr(self._tester, "prepare", None)
        if prepare is None or self._alpha is None or known in self._ready:
            return
        self._ready.add(known)
        asked = expected(self._joined, known)
        if asked:
            prepare(self._named(sorted(asked)), self._named(sorted(known)) or None)

    def _named(self, positions: Sequence[int]) -> list[Any]:
        return [self.names[i] for i in positions]


def expected(joined: Iterable[Pair], known: frozenset[int]) -> set[int]:
    """Return the columns of pairs that PC tests given others: these are neighbours of one of them.

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


def _figures(result: IndependenceResult) -> tuple[float, float, int]:
    return result.statistic, result.pvalue, result.n
