"""Many tests of independence at the same rows, by column name."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, final

from marginals.columns import Schema
from marginals.densities import Density
from marginals.queries.independence import IndependenceResult, independence_tests
from marginals.queries.uniforms import Uniforms


@final
class IndependenceTester:
    """Rows under a model, or folds of rows each under its own, and tests at them.

    What a column is given others, F(x | z), is found once and serves every test with that z.

    Args:
        schema: of the columns.
        parts: pairs of a density and its rows, on the model's scale.
        options: of the tests, see `marginals.queries.independence_test`.
    """

    def __init__(
        self, schema: Schema, parts: Iterable[tuple[Density, Any]], **options: Any
    ) -> None:
        self._schema, self._uniforms = schema, Uniforms(parts)
        self._q = options.pop("q", 1)
        self._options = options

    @property
    def names(self) -> list[Any]:
        """The names of the columns."""
        return list(self._schema.names)

    def independence_test(self, x: Any, y: Any, given: Any = None) -> IndependenceResult:
        """Test whether columns are independent, perhaps given others.

        Args:
            x, y: a column or several on each side.
            given: the columns to condition on.
        """
        several = isinstance(self._q, Sequence)
        counts = tuple(self._q) if several else (self._q,)
        first, second, third = (places(self._schema, side) for side in (x, y, given))
        results = independence_tests(self._uniforms, first, second, third, counts, **self._options)
        # Several numbers of functions give as many results, as in `independence_test` of tasks.
        return results if several else results[0]  # type: ignore[return-value]

    def prepare(self, columns: Any, given: Any = None) -> None:
        """Transform columns that are soon to be tested given the same others, in one pass.

        Args:
            columns: the columns.
            given: what they will be tested given.
        """
        self._uniforms.ends(places(self._schema, columns), places(self._schema, given))


def places(schema: Schema, columns: Any) -> tuple[int, ...]:
    """Return the positions of one column or several; None is no column."""
    if columns is None:
        return ()
    single = isinstance(columns, str | Integral)
    names: list[Any] = [columns] if single else list(columns)
    return tuple(schema.positions(names)) if names else ()
