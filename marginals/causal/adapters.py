"""The independence test for other libraries: causal-learn, pgmpy and tigramite.

Each adapter accepts a fitted model, or anything with `names` and `independence_test(x, y,
given=...)`. The libraries are imported on use; `pip install "marginals[causal]"` installs only
causal-learn. tigramite is under the GPL and no dependency of any kind: its adapter is a class made
at run time for users who installed it themselves.
"""

from typing import Any, final

import numpy as np
import pandas as pd

from marginals.causal.pc_search import RecordedTests, as_tester, check_one_result
from marginals.estimators.mdma import MDMA
from marginals.runtime.extras import optional

NAME = "marginals"
EXTRA = "marginals[causal]"


# causal-learn -----------------------------------------------------------------------------------


def register_causal_learn(name: str = NAME) -> type:
    """Register the test with causal-learn, for `pc(data, indep_test=name, tester=model)`.

    `tester` is a fitted model, tested on its fitted rows, or anything else that `causal_graph`
    accepts. Only the number of columns of `data` is read, and it must match. Without `tester`, a
    default model is fitted to `data`.

    Args:
        name: name of the test.

    Returns:
        The registered class.
    """
    cit = optional("causallearn.utils.cit", EXTRA)

    class IndependenceCIT(cit.CIT_Base):  # type: ignore[name-defined]
        """Run a model's independence test by column position."""

        def __init__(self, data: Any, tester: Any = None, **options: Any) -> None:
            super().__init__(data, **options)
            self.check_cache_method_consistent(name, "")
            if not isinstance(tester, RecordedTests):
                tester = RecordedTests(as_tester(data if tester is None else tester))
            self.tests = tester
            if len(self.tests.names) != self.num_features:
                raise ValueError(
                    f"Expected `data` to have the {len(self.tests.names)} columns of `tester`; "
                    f"got {self.num_features}. Give an array with as many columns."
                )

        def __call__(self, x: int, y: int, condition_set: Any = None) -> float:
            return self.tests.pvalue(x, y, () if condition_set is None else condition_set)

    return cit.register_ci_test(name, IndependenceCIT)


# pgmpy ------------------------------------------------------------------------------------------


@final
class PgmpyTest:
    """Wrap the test as a callable for pgmpy: `PC(ci_test=PgmpyTest(model))`.

    After a call, `statistic_`, `p_value_` and `effect_size_` (the largest absolute generalised
    correlation) hold the result. Use `variant="stable"` and one job, because transforms are shared
    between tests within one process.

    Args:
        model: a fitted model, or anything else that `causal_graph` accepts.
        data: rows to test on; by default the fitted rows.
        options: options of the tests; see `marginals.queries.independence_test`.
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
        """Return whether the test accepts independence at a level."""
        result = self.tests.result(self._at(X), self._at(Y), map(self._at, Z))
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
    each test (masks, missing samples, the start of the series) and the model transforms them.

    tigramite is licensed under the GPL and installed separately: pip install tigramite.

    Args:
        model: a model fitted to `lagged(frame, max_lag)`; None fits a default model at the first
            test.
        max_lag: largest lag in any test, conditions included: twice tigramite's `tau_max` for
            PCMCI, 0 for tables that are not time series.
        options: options of the tests, see `marginals.queries.independence_test`.
        settings: arguments of `CondIndTest`.
    """
    check_one_result(options or {})
    base = optional("tigramite.independence_tests.independence_tests_base", "tigramite")

    class IndependenceTest(base.CondIndTest):  # type: ignore[name-defined]
        """Run the independence test of a model of lagged columns."""

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
            # The nodes of the tested array; longer answers also hold those without constants.
            self._nodes = found[6] if len(found) == 8 else found[2]
            return found

        def get_dependence_measure(self, array: Any, xyz: Any, data_type: Any = None) -> float:
            """Return the statistic of a test at the samples in `array`, (columns, rows)."""
            if self._model is None:
                table = _lagged_frame(self.dataframe, max_lag)
                self._model = MDMA(random_state=0).fit(table)
            x, y, z = ([self._named(*node) for node in side] for side in self._nodes)
            rows = pd.DataFrame(np.asarray(array).T, columns=[*x, *y, *z])
            self._result = self._model.independence_test(
                x, y, given=z or None, data=rows, **options or {}
            )
            return self._result.statistic

        def get_analytic_significance(self, value: float, T: int, dim: int, xyz: Any) -> float:  # noqa: N803
            """Return the p-value of the latest test."""
            return self._result.pvalue

        def _named(self, variable: int, lag: int) -> str:
            if -lag > max_lag:
                raise ValueError(
                    f"Expected lags up to `max_lag`, {max_lag}; got {-lag}. PCMCI needs twice its "
                    "`tau_max`."
                )
            return _lagged_name(self.dataframe.var_names[variable], -lag)

    return IndependenceTest()


def lagged(frame: pd.DataFrame, max_lag: int) -> pd.DataFrame:
    """Add lagged values to each row of a series, as columns "x", "x[t-1]", "x[t-2]", ...

    Args:
        frame: the series, in order of time.
        max_lag: how many steps to look back.

    >>> lagged(pd.DataFrame({"x": [1, 2, 3]}), 1)
       x  x[t-1]
    0  2       1
    1  3       2
    """
    last = len(frame)
    if not 0 <= max_lag < last:
        raise ValueError(
            f"Expected `max_lag` to be at least 0 and less than the {last} rows; got {max_lag}."
        )
    parts = [
        frame.iloc[max_lag - lag : last - lag]
        .reset_index(drop=True)
        .rename(columns={name: _lagged_name(name, lag) for name in frame.columns})
        for lag in range(max_lag + 1)
    ]
    return pd.concat(parts, axis=1)


def _lagged_name(name: Any, lag: int) -> str:
    return f"{name}[t-{lag}]" if lag else str(name)


def _lagged_frame(dataframe: Any, max_lag: int) -> pd.DataFrame:
    """Return the lagged table of all series in a tigramite dataframe."""
    parts = []
    for series in dataframe.values.values():
        values = pd.DataFrame(np.asarray(series, dtype=float), columns=list(dataframe.var_names))
        if dataframe.missing_flag is not None:
            values = values.mask(values == dataframe.missing_flag)
        parts.append(lagged(values, max_lag))
    return pd.concat(parts, ignore_index=True)
