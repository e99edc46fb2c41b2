"""What tests independence, from a model, a table, or an object of its own."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from marginals.causal.pc_search import names_of
from marginals.estimators.cross_fit import cross_fit
from marginals.estimators.mdma import MDMA


def as_tester(model_or_df: Any, data: Any = None, fit_only: bool = False, **options: Any) -> Any:
    """Return an object with `names` and `independence_test(x, y, given=...)`.

    Args:
        model_or_df: a fitted model, which is tested at `data` or at the rows it was fitted to; an
            object that tests by itself; or a table, which is cross-fitted.
        data: rows to test at.
        fit_only: return the model, that each test may bring its own rows.
        options: of the tests, see `marginals.queries.independence_test`; `q` is one number.
    """
    check_one_result(options)
    if not hasattr(model_or_df, "independence_test"):
        # Rows that a test brings are not among the folds: then one model serves them all.
        model_or_df = _fitted(model_or_df) if fit_only else cross_fit(model_or_df)
    if fit_only:
        return model_or_df
    if hasattr(model_or_df, "independence_tester"):
        return model_or_df.independence_tester(data=data, **options)
    names_of(model_or_df)  # refuses what cannot test
    if data is not None or options:
        raise ValueError(
            "Expected neither `data` nor options of the tests with an object that tests by itself, "
            f"{type(model_or_df).__name__}; got {sorted(options) or 'data'}. Set them there."
        )
    return model_or_df


def check_one_result(options: Mapping[str, Any]) -> None:
    """Refuse several numbers of functions, each of which gives a result of its own.

    Args:
        options: of the tests.
    """
    q = options.get("q", 1)
    if not isinstance(q, Integral):
        raise ValueError(
            f"Expected `q` to be one whole number, as a pair of columns is parted by one p-value; "
            f"got {q!r}. Give one, and search again for each other."
        )


def _fitted(table: Any) -> MDMA:
    return MDMA(random_state=0).fit(table)
