"""The test of independence in the words of other libraries: causal-learn, pgmpy and tigramite.

Each takes a fitted model, or anything with `names` and `independence_test(x, y, given=...)`. The
libraries are imported when an adapter is made, never before; only causal-learn is installed with
`pip install "marginals[causal]"`. tigramite is under the GPL: it is no dependency of any kind, and
the adapter is a class that is made at run time for those who have installed it themselves.
"""

import importlib
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.causal.lags import lagged, lagged_name
from marginals.causal.pc_search import RecordedTests
from marginals.causal.testers import as_tester, check_one_result

NAME = "marginals"


def required(module: str, package: str, remedy: str | None = None) -> Any:
    """Import a module of an optional package, or say how to get it.

    Args:
        module: what to import.
        package: its name on the package index.
        remedy: what to install instead, for packages that come with an extra of ours.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Expected the package {package!r}; it is not installed ({error}). Run: "
            f"pip install {remedy or package}."
        ) from error


# causal-learn -----------------------------------------------------------------------------------


def register_causal_learn(name: str = NAME) -> type:
    """Register the test with causal-learn, for `pc(data, indep_test=name, tester=model)`.

    `tester` is a fitted model, tested at the rows it was fitted to, or anything that
    `causal_graph` takes. Its columns are those of `data`, in order; beyond their number, `data` is
    not read. Without a `tester` the default model is fitted to `data`.

    Args:
        name: what the test is called.

    Returns:
        the class registered.
    """
    cit = required("causallearn.utils.cit", "causal-learn", '"marginals[causal]"')

    class IndependenceCIT(cit.CIT_Base):  # type: ignore[name-defined]
        """The test of independence of a model, by the positions of its columns."""

        def __init__(self, data: Any, tester: Any = None, **options: Any) -> None:
            super().__init__(data, **options)
            self.check_cache_method_consistent(name, "")
            given = isinstance(tester, RecordedTests)
            found = data if tester is None else tester
            self.tests = tester if given else RecordedTests(as_tester(found))
            if len(self.tests.names) != self.num_features:
                raise ValueError(
                    f"Expected `data` to have the {len(self.tests.names)} columns of `tester`; "
                    f"got {self.num_features}."
                )

        def __call__(self, x: int, y: int, condition_set: Any = None) -> float:
            return self.tests.pvalue(x, y, () if condition_set is None else condition_set)

    return cit.register_ci_test(name, IndependenceCIT)


# pgmpy ------------------------------------------------------------------------------------------


@final
class PgmpyTest:
    """The test as a callable for pgmpy: `PC(ci_test=PgmpyTest(model))`.

    After a call `statistic_`, `p_value_` and `effect_size_`, the largest absolute generalised
    correlation, hold its result. Run it with `variant="stable"` and one job: the transforms kept
    from test to test are those of one process.

    Args:
        model: a fitted model, or anything that `causal_graph` takes.
        data: rows to test at, by default those that were fitted.
        options: of the tests, see `marginals.queries.independence_test`.
    """

    def __init__(self, model: Any, data: Any = None, **options: Any) -> None:
        self.tests = RecordedTests(as_tester(model, data, **options))
        self._place = {name: i for i, name in enumerate(self.tests.names)}
        self.statistic_ = self.p_value_ = self.effect_size_ = float("nan")

    def __call__(
        self,
        X: Any,  # noqa: N803 (pgmpy's names)
        Y: Any,  # noqa: N803
        Z: Any = (),  # noqa: N803
        significance_level: float = 0.05,
        **_: Any,
    ) -> bool:
        """Say whether the columns pass for independent at a level."""
        result = self.tests.result(self._at(X), self._at(Y), [self._at(z) for z in Z])
        self.statistic_, self.p_value_ = result.statistic, result.pvalue
        self.effect_size_ = float(result.correlations.abs().max())
        return bool(result.pvalue >= significance_level)

    def _at(self, name: Any) -> int:
        if name not in self._place:
            raise ValueError(
                f"Expected columns of the model, {self.tests.names[:20]}; got {name!r}."
            )
        return self._place[name]


# tigramite --------------------------------------------------------------------------------------


def tigramite_test(
    model: Any = None, max_lag: int = 0, options: dict[str, Any] | None = None, **settings: Any
) -> Any:
    """Return the test as a tigramite `CondIndTest`, for `PCMCI(..., cond_ind_test=...)`.

    One model of the lagged table, see `lagged`, serves all tests. tigramite chooses the rows of
    each (masks, missing samples, the start of the series), and the model transforms them.

    tigramite is under the GPL and must be installed by yourself: pip install tigramite.

    Args:
        model: fitted to `lagged(frame, max_lag)`; None fits the default to it, at the first test.
        max_lag: the largest lag in any test, conditions included: twice tigramite's `tau_max` for
            PCMCI, 0 for tables that are no time series.
        options: of the tests, see `marginals.queries.independence_test`.
        settings: of `CondIndTest`.
    """
    check_one_result(options or {})
    base = required("tigramite.independence_tests.independence_tests_base", "tigramite")

    class IndependenceTest(base.CondIndTest):  # type: ignore[name-defined]
        """The test of independence of a model of lagged columns."""

        @property
        def measure(self) -> str:
            return NAME

        def __init__(self) -> None:
            super().__init__(significance="analytic", **settings)
            self.two_sided, self.residual_based = False, False
            self._model = model
            self._nodes: Any = ()
            self._result: Any = None

        def _get_array(self, *arguments: Any, **named: Any) -> Any:
            found = super()._get_array(*arguments, **named)
            # The nodes of the array that is tested: without constant ones, where they are left out.
            self._nodes = found[6] if len(found) == 8 else found[2]
            return found

        def get_dependence_measure(self, array: Any, xyz: Any, data_type: Any = None) -> float:
            """Return the statistic of a test at the samples in `array`, (columns, rows)."""
            if self._model is None:
                self._model = as_tester(_lagged_frame(self.dataframe, max_lag), fit_only=True)
            sides = [[self._named(*node) for node in side] for side in self._nodes]
            order = [name for side in sides for name in side]
            rows = pd.DataFrame(np.asarray(array).T, columns=order)
            x, y, z = sides
            self._result = self._model.independence_test(
                x, y, given=z or None, data=rows, **options or {}
            )
            return self._result.statistic

        def get_analytic_significance(self, value: float, T: int, dim: int, xyz: Any) -> float:  # noqa: N803
            """Return the p-value of the test made last."""
            return self._result.pvalue

        def _named(self, variable: int, lag: int) -> str:
            if -lag > max_lag:
                raise ValueError(
                    f"Expected lags up to `max_lag`, {max_lag}; got {-lag}. PCMCI needs twice its "
                    "`tau_max`."
                )
            return lagged_name(self.dataframe.var_names[variable], -lag)

    return IndependenceTest()


def _lagged_frame(dataframe: Any, max_lag: int) -> pd.DataFrame:
    """Return the lagged table of a tigramite dataframe, of all its series."""
    parts = []
    for series in dataframe.values.values():
        values = np.asarray(series, dtype=float)
        missing = dataframe.missing_flag
        if missing is not None:
            values = np.where(values == missing, np.nan, values)
        parts.append(lagged(pd.DataFrame(values, columns=list(dataframe.var_names)), max_lag))
    return pd.concat(parts, ignore_index=True)
