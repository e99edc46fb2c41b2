"""The test in other libraries; fakes stand in for those that are not installed."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.causal import PgmpyTest, adapters, lagged, register_causal_learn, tigramite_test
from marginals.estimators.mdma import MDMA
from tests.causal.dags import CHAIN, COLLIDER, Oracle

# causal-learn -----------------------------------------------------------------------------------


def test_causal_learn() -> None:
    pytest.importorskip("causallearn")
    from causallearn.search.ConstraintBased.PC import pc

    oracle = Oracle(COLLIDER)
    register_causal_learn("exact")
    found = pc(oracle.frame.to_numpy(), 0.001, "exact", show_progress=False, tester=oracle)
    arrows = np.argwhere((found.G.graph == -1) & (found.G.graph.T == 1))
    assert {(oracle.names[i], oracle.names[j]) for i, j in arrows} == set(COLLIDER)
    with pytest.raises(ValueError, match="`data` to have the 5 columns of `tester`; got 2"):
        pc(np.zeros((9, 2)), 0.001, "exact", show_progress=False, tester=oracle)


# pgmpy ------------------------------------------------------------------------------------------


def test_a_call_as_pgmpy_makes_it() -> None:
    oracle = Oracle(CHAIN)
    test = PgmpyTest(oracle)
    assert test("a", "c", ["b"], significance_level=0.001) is True
    alone = oracle.independence_test("a", "c", given=["b"])
    assert (test.statistic_, test.p_value_) == (alone.statistic, alone.pvalue)
    assert test.effect_size_ == pytest.approx(float(alone.correlations.abs().max()))
    assert test(X="c", Y="a", Z=(), significance_level=0.001) is False
    with pytest.raises(ValueError, match="got 'z'"):
        test("a", "z", [])


def test_pgmpy() -> None:
    discovery = pytest.importorskip("pgmpy.causal_discovery")
    oracle = Oracle(COLLIDER)
    search = discovery.PC(
        variant="stable",
        ci_test=PgmpyTest(oracle),
        significance_level=0.001,
        n_jobs=1,
        show_progress=False,
    )
    found = search.fit(oracle.frame)
    assert set(found.causal_graph_.directed_edges) == set(COLLIDER)


# tigramite --------------------------------------------------------------------------------------


class FakeFrame:
    """The part of tigramite's dataframe that the adapter reads."""

    def __init__(self, values: np.ndarray, names: list[str]) -> None:
        self.values, self.var_names, self.missing_flag = {0: values}, names, 999.0

    def array(self, nodes: list[tuple[int, int]]) -> np.ndarray:
        start = max(-lag for _, lag in nodes)
        values = self.values[0]
        return np.stack([values[start + lag : len(values) + lag, i] for i, lag in nodes])


class FakeCondIndTest:
    """The part of tigramite's base class that calls the adapter."""

    def __init__(self, significance: str = "", verbosity: int = 0) -> None:
        self.significance, self.verbosity = significance, verbosity
        self.dataframe: Any = None

    def set_dataframe(self, dataframe: Any) -> None:
        self.dataframe = dataframe

    def _get_array(self, X: Any, Y: Any, Z: Any, **_: Any) -> Any:  # noqa: N803
        array = self.dataframe.array([*X, *Y, *Z])
        xyz = np.repeat([0, 1, 2], [len(X), len(Y), len(Z)])
        part = (array, xyz, (X, Y, Z), None)
        return (*part, *part)

    def run_test(self, X: Any, Y: Any, Z: Any = ()) -> tuple[float, float]:  # noqa: N803
        array, xyz = self._get_array(X, Y, list(Z))[:2]
        value = self.get_dependence_measure(array, xyz)  # type: ignore[attr-defined]
        dim, rows = array.shape
        return value, self.get_analytic_significance(value, rows, dim, xyz)  # type: ignore[attr-defined]


@pytest.fixture
def _fake_tigramite(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "tigramite.independence_tests.independence_tests_base"
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    sys.modules[path].CondIndTest = FakeCondIndTest  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def series() -> pd.DataFrame:
    """x drives itself and, a step later, y."""
    rng = np.random.default_rng(0)
    values = np.zeros((400, 2))
    for t in range(1, 400):
        values[t, 0] = 0.5 * values[t - 1, 0] + rng.normal()
        values[t, 1] = 0.9 * values[t - 1, 0] + rng.normal()
    return pd.DataFrame(values, columns=["x", "y"])


@pytest.fixture(scope="module")
def model(series: pd.DataFrame) -> MDMA:
    settings: Any = {"tensor": "copula", "width": 1, "rank": 2, "max_steps": 100}
    return MDMA(**settings, random_state=0, progress=False).fit(lagged(series, 2))


@pytest.mark.usefixtures("_fake_tigramite")
def test_a_run_as_tigramite_makes_it(series: pd.DataFrame, model: MDMA) -> None:
    test = tigramite_test(model, max_lag=2, verbosity=0)
    assert test.measure == "marginals"
    test.set_dataframe(FakeFrame(series.to_numpy(), ["x", "y"]))
    value, pvalue = test.run_test([(0, -1)], [(1, 0)], [(0, -2)])
    assert pvalue < 1e-6
    rows = lagged(series, 2)[["x[t-1]", "y", "x[t-2]"]]
    alone = model.independence_test("x[t-1]", "y", given=["x[t-2]"], data=rows)
    assert (value, pvalue) == (alone.statistic, alone.pvalue)
    assert test.run_test([(1, -1)], [(0, 0)], [(0, -1), (0, -2)])[1] > 1e-3
    with pytest.raises(ValueError, match="lags up to `max_lag`, 2; got 3"):
        test.run_test([(0, -3)], [(1, 0)])


@pytest.mark.usefixtures("_fake_tigramite")
def test_the_lagged_table_is_fitted(
    series: pd.DataFrame, model: MDMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[pd.DataFrame] = []

    class Recorded(MDMA):
        def fit(self, table: Any) -> Any:
            return fitted.append(table) or model

    monkeypatch.setattr(adapters, "MDMA", Recorded)
    values = series.to_numpy().copy()
    values[7, 0] = 999.0
    test = tigramite_test(max_lag=2)
    test.set_dataframe(FakeFrame(values, ["x", "y"]))
    test.run_test([(1, -1)], [(0, 0)])
    test.run_test([(1, -2)], [(0, 0)])
    (table,) = fitted  # one fit for both
    assert list(table) == ["x", "y", "x[t-1]", "y[t-1]", "x[t-2]", "y[t-2]"]
    assert int(table.isna().sum().sum()) == 3


def test_tigramite(series: pd.DataFrame, model: MDMA) -> None:
    pytest.importorskip("tigramite")
    from tigramite import data_processing
    from tigramite.pcmci import PCMCI

    frame = data_processing.DataFrame(series.to_numpy(), var_names=["x", "y"])
    search = PCMCI(frame, cond_ind_test=tigramite_test(model, max_lag=2), verbosity=0)
    found = search.run_pcmci(tau_max=1, pc_alpha=0.05, alpha_level=0.001)["graph"]
    links = {(i, j, lag) for i, j, lag in np.argwhere(found == "-->")}
    assert links == {(0, 0, 1), (0, 1, 1)}


def test_lagged() -> None:
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "y": list("abcd")})
    found = lagged(frame, 2)
    assert found.to_numpy().tolist() == [[3, "c", 2, "b", 1, "a"], [4, "d", 3, "c", 2, "b"]]
    with pytest.raises(ValueError, match="less than the 4 rows; got 4"):
        lagged(frame, 4)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    base = "tigramite.independence_tests.independence_tests_base"
    monkeypatch.setitem(sys.modules, base, None)
    with pytest.raises(ImportError, match=r'Run: pip install "tigramite"'):
        tigramite_test()
    monkeypatch.setitem(sys.modules, "causallearn.utils.cit", None)
    with pytest.raises(ImportError, match=r'Run: pip install "marginals\[causal\]"'):
        register_causal_learn()
