"""Our models and their peers do what their names say, on small data."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from marginals.causal import causal_graph
from studies import files, missing
from studies.anomalies import PROTOCOLS, cut, scored, simulated
from studies.causal.graphs import distances
from studies.data.density import Split, cell_widths, folds
from studies.harness.available import Unavailable
from studies.harness.study import Context
from studies.imputation import compared, hidden
from studies.models import detectors, imputers, predictors
from studies.models.classical import fit_gmm, fit_kde
from studies.models.densities import fit_density
from studies.models.fitted import answers, best_of, climb, merit, over_cells, summary
from studies.models.neural import Runner, race
from studies.models.synthesizers import draw_copula, draw_independent
from studies.models.testers import OutOfTimeError, PairTests, fisher_z, gaussian, gcm, oracle

TINY = {"width": 4, "max_steps": 5}


def normal_split(rows: int = 60) -> Split:
    return folds("iris", np.random.default_rng(0).normal(size=(rows, 2)))[0]


# Densities --------------------------------------------------------------------------------------


def test_candidates_are_judged_by_impossible_rows_first() -> None:
    scores = {"spiky": np.array([9.0, -np.inf]), "safe": np.array([-5.0, -7.0])}
    assert best_of(list(scores), scores.__getitem__) == "safe"
    assert merit(np.array([-np.inf, -np.inf])) == (-2, -np.inf)


def test_a_ladder_is_climbed_until_two_rungs_bring_no_gain() -> None:
    seen: list[int] = []

    def judge(rung: int) -> Any:
        seen.append(rung)
        return np.array([-abs(rung - 1.0)])

    assert climb(range(10), judge) == 1
    assert seen == [0, 1, 2, 3]


def test_no_row_is_dropped_from_a_mean() -> None:
    found = summary(np.array([1.0, -np.inf, np.nan, 3.0]))
    assert found["test_mean"] == found["test_min"] == -math.inf
    counts = [found[name] for name in ("test_rows", "rows_minus_inf", "rows_undefined")]
    assert counts == [4, 2, 1]
    assert summary(np.array([1.0, 2.0, 6.0]))["test_mean"] == 3.0


def test_densities_of_normal_rows_are_near_the_truth() -> None:
    split = normal_split(200)
    for fitted in (fit_gmm(split, 0), fit_kde(split, 0)):
        assert -3.5 < fitted.exact(split.test).mean() < -2.4  # two standard normals have -2.84


@pytest.mark.parametrize("model", ["ours", "paper", "nmdma", "ht"])
def test_rows_with_gaps_are_trained_on_by_models_that_take_them(model: str) -> None:
    split = normal_split()
    gaps = split.train[:20].copy()
    gaps[:, 1] = np.nan
    partial = Split("miniboone", None, split.train, split.val, split.test, gaps)
    assert len(partial.all_train) == len(split.train) + 20
    options = {"width": 4, "steps": 5} if model != "ours" else TINY
    fitted = fit_density(model, partial, seed=0, device="cpu", options=options)
    scores = fitted.exact(split.test)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores, fitted.score(split.test), atol=1e-3)
    assert fitted.logpdf is not None
    points = np.stack([np.linspace(-9, 9, 600), np.zeros(600)], 1)
    mass = np.exp(fitted.logpdf(points[:, :1], [0], {1: 0.0})).sum() * 18 / 599
    assert mass == pytest.approx(1, abs=0.05)
    assert np.shape(fitted.sample(3)) == (3, 2)


def test_a_race_keeps_the_best_weights() -> None:
    split = normal_split(200)

    def runner(rate: float) -> Runner:
        normal = torch.nn.Linear(2, 1)  # its bias is a log scale

        def score(x: torch.Tensor) -> torch.Tensor:
            scaled = (x - normal.weight) * (-normal.bias).exp()
            return -(scaled**2).sum(-1) / 2 - 2 * normal.bias - math.log(2 * math.pi)

        return Runner(normal, score, {"rate": rate, "decay": 0.0}, split, "cpu")

    good, bad = runner(0.05), runner(math.inf)  # the second's first step leads to NaN
    assert race([bad, good], 1.0) is good
    reached = float(good.score(good.val).mean().detach())
    assert reached == pytest.approx(good.best, abs=1e-5)
    assert -3.5 < reached < -2.2
    assert all(bool(p.isfinite().all()) for p in bad.module.parameters())


@pytest.mark.parametrize("name", ["vine", "einet", "nsf"])
def test_a_peer_that_is_not_installed_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pyvinecopulib", "zuko", "zuko.flows", "spflow", "spflow.zoo.einet"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unavailable, match=r"Expected the package .*marginals\[experiments\]"):
        fit_density(name, normal_split(), seed=0, device="cpu", options={"seconds": 0.1})


# Imputers ---------------------------------------------------------------------------------------


def sides() -> pd.DataFrame:
    """A table whose category the numbers tell."""
    rng = np.random.default_rng(0)
    right = rng.random(100) < 0.5
    numbers = rng.normal(size=(100, 3)) + np.where(right, 4.0, -4.0)[:, None]
    return pd.DataFrame(numbers, columns=list("abc")).assign(side=np.where(right, "r", "l"))


@pytest.mark.parametrize("name", ["mdma", "knn", "iterative", "mean"])
def test_methods_fill_every_gap_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imputers, "DRAWS", 3)
    table = sides()
    mask = hidden(table, "mcar", 0.3, seed=0)
    options = {"effort": "quick"} if name == "mdma" else {}
    filled = imputers.METHODS[name](table.mask(mask), 0, **options)
    assert len(filled.draws) == (0 if name == "knn" else 3)
    found = compared(table, mask, filled, 0.9)
    assert 0 < found["crps"] <= found["rmse"] * 2
    if name == "mean":  # it does not look at the other columns
        assert 0.25 < found["accuracy"] < 0.75
    else:
        assert found["accuracy"] > 0.9
    for whole in (filled.point, *filled.draws):
        for place, column in enumerate(table.columns):
            seen, own = ~mask[:, place], whole[column]
            assert own.notna().all()
            if column == "side":
                assert (own.astype(str)[seen] == table[column][seen]).all()
                assert set(own.astype(str)) <= {"l", "r"}
            else:
                own = own.to_numpy(dtype=float)
                np.testing.assert_allclose(own[seen], table[column].to_numpy()[seen])


@pytest.mark.parametrize("how", ["mice", "knn", "mean", "drop"])
def test_filled_rows_keep_the_cells_there_are(how: str) -> None:
    split = missing.strike(missing.simulated(300, seed=0), 0.3, seed=0)
    found = missing.without_gaps(split, how, seed=0)
    assert not np.isnan(found.train).any()
    assert not np.isnan(found.val).any()
    whole = ~np.isnan(split.train)
    if how == "drop":
        np.testing.assert_array_equal(found.train, split.train[whole.all(1)])
    else:
        kept = split.train[whole.any(1)]
        there = ~np.isnan(kept)
        np.testing.assert_allclose(found.train[there], kept[there])


def test_answers_of_the_true_density_have_the_crps_of_a_normal() -> None:
    """The CRPS of a normal with its own truth has the mean of its deviation / sqrt(pi)."""
    random = np.random.default_rng(0)
    deviation = np.array([1.0, 2.0])
    rows = random.normal(size=(4000, 2)) * deviation

    def score(points: np.ndarray) -> np.ndarray:
        return norm.logpdf(points / deviation).sum(1)

    def blind(points: np.ndarray) -> np.ndarray:
        return norm.logpdf(points / (4 * deviation)).sum(1)

    found = answers(score, rows, rows[:1000], 0)
    assert found == pytest.approx(1 / np.sqrt(np.pi), abs=0.02)
    assert answers(blind, rows, rows[:1000], 0) > found + 0.05


def test_a_spike_on_a_grid_gains_nothing_over_cells() -> None:
    rows = np.random.default_rng(0).integers(0, 10, size=(400, 1)) * 0.5
    widths = cell_widths(rows)
    assert widths == pytest.approx([0.5])

    def flat(points: np.ndarray) -> np.ndarray:
        return np.full(len(points), np.log(0.2))  # uniform on [-0.25, 4.75)

    def spiky(points: np.ndarray) -> np.ndarray:
        """The same mass for each cell, all of it within a fifth of a step of its value."""
        near = np.abs(points[:, 0] / 0.5 - np.round(points[:, 0] / 0.5)) < 0.2
        return np.where(near, np.log(0.5), -np.inf)

    assert spiky(rows).mean() > flat(rows).mean()
    assert over_cells(flat, rows, widths, 0) == pytest.approx(np.log(0.2))
    found = over_cells(spiky, rows, widths, 0)
    assert found == pytest.approx(np.log(0.2), abs=0.06)  # 32 points: the log is low by 0.02
    assert (cell_widths(np.random.default_rng(1).normal(size=(50, 2))) == 0).all()


# Predictors, detectors, synthesizers ------------------------------------------------------------


@pytest.mark.parametrize("name", ["mdma", "boosting", "linear"])
def test_models_predict_numbers_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictors, "LEVELS", np.array([0.05, 0.5, 0.95]))
    table = sides()
    x, y = table[["a", "side"]].mask(np.random.default_rng(0).random((100, 2)) < 0.3), table["b"]
    task = predictors.Task(x[:80], y[:80], x[80:], y[80:], is_class=False)
    quantiles, mean = predictors.PREDICTORS[name](task, 0, **(TINY if name == "mdma" else {}))
    assert quantiles.shape == (20, 3)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert mean.shape == (20,)


def test_detectors_find_what_lies_far_out(monkeypatch: pytest.MonkeyPatch) -> None:
    split = cut(*simulated(0), 0, 0.2)
    assert scored(split, lambda train: detectors.fit_forest(train, 0))["auroc"] > 0.8
    for name in set(detectors.PEERS) - set(detectors.PYOD):
        for protocol in PROTOCOLS:
            split = cut(*simulated(0), 0, 0.2, protocol)
            found = scored(split, lambda x, n=name: detectors.fit_peer(n, x, 0, "mean"))
            assert found["auroc"] > 0.8, (name, protocol)
    for name in [n for n in sys.modules if n.split(".")[0] == "pyod"]:
        monkeypatch.delitem(sys.modules, name)  # another test may have imported it
    monkeypatch.setitem(sys.modules, "pyod", None)
    with pytest.raises(Unavailable, match="Expected the package 'pyod'"):
        detectors.fit_peer("ecod", split.train, 0, "mean")
    assert detectors.finite([1.0, np.inf])[1] == np.finfo(float).max


def test_detectors_of_pyod_find_what_lies_far_out() -> None:
    pytest.importorskip("pyod", exc_type=ImportError)
    split = cut(*simulated(0), 0, 0.2)
    for name in detectors.PYOD:
        found = scored(split, lambda x, n=name: detectors.fit_peer(n, x, 0, "iterative"))
        assert found["auroc"] > 0.8


def test_baselines_keep_columns_and_the_copula_keeps_pairs() -> None:
    a, noise = np.random.default_rng(0).normal(size=(2, 300))
    real = pd.DataFrame({"a": a, "b": a + 0.3 * noise, "side": np.where(a > 0, "r", "l")})
    real.loc[::7, "b"] = np.nan
    for draw, correlation in ((draw_independent, 0.0), (draw_copula, 0.95)):
        drawn = draw(real, 500, 0)
        assert set(drawn["side"]) == {"l", "r"}
        assert set(drawn["a"]) <= set(real["a"])
        assert drawn["a"].corr(drawn["b"]) == pytest.approx(correlation, abs=0.12)


# Tests of independence --------------------------------------------------------------------------


def test_perfect_tests_find_the_skeleton_and_the_collider() -> None:
    edges = [("a", "c"), ("b", "c"), ("c", "d")]
    tester = oracle("abcd", edges)
    assert tester is not None
    found = causal_graph(tester)
    assert distances(found.graph, "abcd", edges) == {"directed": 0, "usual": 0, "skeleton": 0}
    assert oracle("abc", [("a", "b"), ("b", "c"), ("c", "a")]) is None


def test_tests_of_correlation_see_what_is_linear() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(2000, 2)), columns=["x", "y"])
    rows["z"] = rows["x"] + rows["y"] + rng.normal(size=2000)
    tester = gaussian(rows)
    assert tester.independence_test("x", "z").pvalue < 1e-6
    assert tester.independence_test("x", "y").pvalue > 1e-3
    given = tester.independence_test("x", "y", ["z"]).pvalue
    assert given < 1e-6
    assert fisher_z(rows, 0)["Fisher z"] == pytest.approx(given, rel=1e-6)
    assert gcm(rows, 0)["GCM"] < 1e-6


def test_a_search_out_of_time_stops() -> None:
    with pytest.raises(OutOfTimeError):
        PairTests("ab", lambda x, y, z: 1.0, seconds=-1).independence_test("a", "b")


# Commands ---------------------------------------------------------------------------------------


def test_commands_are_measured_in_processes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        files,
        "PROGRAM",
        "import sys; open(sys.argv[1], 'w').write('4096'); sys.exit(sys.argv[2] == 'bad')",
    )
    found = files.measured(["fit", str(tmp_path / "x.parquet")])
    assert found["command"] == "marginals fit x.parquet"
    assert found["peak_mb"] == 4.0  # as the process reports it
    with pytest.raises(RuntimeError, match="Expected bad to succeed; got status 1"):
        files.measured(["bad"])


def test_the_context_makes_things_once() -> None:
    context, made = Context("cpu"), []
    for _ in range(2):
        context.once("key", lambda: made.append(1))
    assert made == [1]
