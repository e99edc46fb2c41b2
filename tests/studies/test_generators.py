"""Generators have the densities, CDFs, graphs and dependence that they are said to have."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from studies import independence, missing
from studies.anomalies import MOST_ROWS, cut, simulated
from studies.causal.dags import MECHANISMS, draw, random_dag, sachs, sigmoidal
from studies.copulas import truth
from studies.copulas.estimates import gaussian, ranks
from studies.copulas.truth import SETS, counted, draw_returns, gaussian_measures
from studies.harness.study import Context
from studies.information import gaussian as information
from studies.toy import TOYS
from studies.universality import TARGETS, empirical, grid_of

Q = (0.05, 0.1)
CLOSED = ("gaussian", "clayton", "student")


# Copulas ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLOSED)
def test_draws_of_copulas_agree_with_what_is_known(name: str) -> None:
    levels = SETS[name].draw(40_000, np.random.default_rng(0))
    assert ((levels > 0) & (levels < 1)).all()
    found, known = counted(levels, Q), SETS[name].exact(Q)
    for figure, atol in (("tau", 0.02), ("rho", 0.02), ("lower", 0.05), ("upper", 0.05)):
        np.testing.assert_allclose(getattr(found, figure), getattr(known, figure), atol=atol)


@pytest.mark.parametrize("name", CLOSED)
def test_densities_of_copulas_have_mass_one_and_are_those_of_the_draws(name: str) -> None:
    logpdf = SETS[name].logpdf
    assert logpdf is not None
    side = (np.arange(400) + 0.5) / 400
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    mass = np.exp(logpdf(grid)) / len(grid)
    assert mass.sum() == pytest.approx(1, abs=0.01)
    levels = SETS[name].draw(20_000, np.random.default_rng(1))
    corner = (grid < 0.25).all(1)
    assert mass[corner].sum() == pytest.approx((levels < 0.25).all(1).mean(), abs=0.02)


def test_gains_and_losses_of_returns_have_one_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "PATHS", 20)
    monkeypatch.setattr(truth, "DAYS", 300)
    cached = (truth.returns_measures, truth._many_returns)
    try:
        known = SETS["returns"].exact(Q)
    finally:
        for each in cached:
            each.cache_clear()
    assert known.lower == known.upper
    assert np.shape(known.lower) == (3, 2)
    # By the correlations 0.6, 0.3 and 0.4 of the pairs.
    assert known.tau[0] > known.tau[2] > known.tau[1] > 0.1


def test_a_gaussian_copula_is_found_from_ranks() -> None:
    levels = SETS["gaussian"].draw(20_000, np.random.default_rng(2))
    found = gaussian(levels**3, Q)  # ranks do not see margins
    known = gaussian_measures(np.array([[1, 0.6], [0.6, 1]]), Q)
    np.testing.assert_allclose(found.measures.tau, known.tau, atol=0.02)
    assert ranks(levels).min() == pytest.approx(0.5 / 20_000)


def test_returns_have_heavy_tails_and_volatility_that_lasts() -> None:
    days = draw_returns(4000, np.random.default_rng(3))
    first = days[:, 0] / days[:, 0].std()
    assert (first**4).mean() > 4
    size = np.abs(first)
    assert np.corrcoef(size[1:], size[:-1])[0, 1] > 0.05
    assert np.corrcoef(days.T)[0, 1] == pytest.approx(0.6, abs=0.1)


# Toy densities and targets of universality ------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, toy in TOYS.items() if toy.logpdf is not None])
def test_toy_densities_have_mass_one_and_are_those_of_the_rows(name: str) -> None:
    toy = TOYS[name]
    assert toy.logpdf is not None
    side = (np.arange(60) + 0.5) * 0.2 - 6  # cells of 0.2 to 6, which divide those of the board
    grid = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    values = toy.logpdf(grid)
    masses = np.exp(values) * 0.2**3
    assert masses.sum() == pytest.approx(1, abs=1e-3)
    rows = toy.draw(20_000, np.random.default_rng(0))
    scores = toy.logpdf(rows)
    assert np.isfinite(scores).all()
    # Five standard errors: the same density gives rows and values.
    entropy = -(masses[masses > 0] * values[masses > 0]).sum()
    assert abs(-scores.mean() - entropy) < 5 * scores.std() / np.sqrt(len(rows)) + 0.02
    share = masses[(grid[:, :2] > 0).all(1)].sum()
    assert (rows[:, :2] > 0).all(1).mean() == pytest.approx(share, abs=0.02)


def test_spirals_are_mirror_images_that_part_along_the_third_axis() -> None:
    rows = TOYS["spirals"].draw(20_000, np.random.default_rng(0))
    assert np.abs(rows.mean(0)).max() < 0.1
    radius = np.hypot(rows[:, 0], rows[:, 1])
    assert np.corrcoef(radius, np.abs(rows[:, 2]))[0, 1] > 0.9
    assert radius.max() < 4.2


@pytest.mark.parametrize("name", TARGETS)
def test_rows_of_targets_follow_their_cdf(name: str) -> None:
    target = TARGETS[name]
    rows = target.draw(40_000, np.random.default_rng(0))
    points = grid_of(target, 31)
    exact = target.cdf(points)
    assert rows.shape == (40_000, target.columns)
    assert exact[[0, -1]] == pytest.approx([0, 1], abs=1e-4)
    # Of two columns the distance is larger than that of one by a small factor.
    assert np.abs(empirical(rows, points) - exact).max() < 2.5 / np.sqrt(len(rows))


def test_the_empirical_cdf_of_two_columns() -> None:
    points = grid_of(TARGETS["board"], 5)
    rows = np.array([[-2.5, 0.0], [0.1, 2.5]])
    counted = [(rows <= point).all(1).mean() for point in points]
    np.testing.assert_array_equal(empirical(rows, points), counted)


# Graphs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_graphs_and_rows_of_the_toolbox(mechanism: str) -> None:
    counts = []
    for seed in range(30):
        problem = draw(mechanism, 10, 50, seed)
        graph = nx.DiGraph(problem.truths["the DAG"])
        assert nx.is_directed_acyclic_graph(graph)
        assert max(dict(graph.in_degree).values()) <= 5
        counts.append(len(graph.edges))
        np.testing.assert_allclose(problem.rows.std(ddof=0), 1)
    assert 15 < np.mean(counts) < 20  # 17.5 expected: a mean of up to five parents
    assert draw(mechanism, 10, 50, 29).rows.equals(problem.rows)


def test_random_dags_have_no_cycles_and_the_parents_wanted() -> None:
    rng = np.random.default_rng(0)
    dags = [random_dag(10, 2.0, rng) for _ in range(200)]
    assert all(nx.is_directed_acyclic_graph(nx.DiGraph(dag.astype(int))) for dag in dags)
    assert np.mean([dag.sum() for dag in dags]) == pytest.approx(20, abs=1)


def test_sigmoidal_rows_follow_the_dag() -> None:
    dag = np.zeros((3, 3), dtype=bool)
    dag[2, 0] = True
    frame = sigmoidal(dag, 20_000, np.random.default_rng(0))
    assert list(frame) == ["x0", "x1", "x2"]
    np.testing.assert_allclose(frame.std(ddof=0), 1)
    correlations = frame.corr().to_numpy()
    assert abs(correlations[0, 2]) > 0.3
    assert np.abs(correlations[1, [0, 2]]).max() < 0.03


@pytest.mark.data
def test_sachs_has_both_graphs(data_dir: Path) -> None:
    problem = sachs(Context("cpu", str(data_dir)))
    assert [len(edges) for edges in problem.truths.values()] == [18, 20]
    names = set(problem.rows)
    assert all(set(edge) <= names for edges in problem.truths.values() for edge in edges)


# Information and independence -------------------------------------------------------------------


def test_estimates_by_the_exact_density_agree_with_the_exact_information() -> None:
    rows = information.draw((10, 10, 4000), seed=0).held
    covariance = information.gaussian_covariance()
    assert covariance[0, 1] == pytest.approx(1 / 80)

    def ask(points, columns):  # type: ignore[no-untyped-def]
        part = covariance[np.ix_(columns, columns)]
        return multivariate_normal(cov=part).logpdf(points.reshape(-1, len(part)))

    found = information.information(ask, rows)
    off = np.abs(np.array(found["values"]) - information.exact_information())
    assert (off < 5 * np.array(found["stderrs"])).all()


def test_a_smaller_sample_is_part_of_a_larger_one() -> None:
    small, large = (information.draw((rows, 5, 5), seed=1) for rows in (20, 50))
    np.testing.assert_allclose(small.train, large.train[:20])
    np.testing.assert_allclose(small.held, large.held)


@pytest.mark.parametrize("name", independence.NULL)
def test_alternatives_depend_on_the_noise_and_null_rows_do_not(name: str) -> None:
    null, additive, even = (
        independence.draw_rows(name, kind, 4000, np.random.default_rng(0))
        for kind in ("null", "additive", "even")
    )
    assert not null.isna().any(axis=None)
    noise = independence.NULL[name](4000, np.random.default_rng(0)).noise
    low, high = np.quantile(noise, [0.05, 0.95])
    inside = (noise > low) & (noise < high)  # of heavy tails a few rows would decide
    added = (additive["y"] - null["y"])[inside]
    assert np.corrcoef(noise[inside], added)[0, 1] > 0.99
    assert abs(np.corrcoef(noise[inside], (even["y"] - null["y"])[inside])[0, 1]) < 0.1
    assert additive[["x", "z"]].equals(null[["x", "z"]])


# Missing cells and anomalies --------------------------------------------------------------------


def test_cells_are_struck_out_of_training_and_validation_alone() -> None:
    whole = missing.simulated(3000, seed=0)
    split = missing.strike(whole, 0.3, seed=0)
    for part in (split.train, split.val):
        assert np.isnan(part).mean() == pytest.approx(0.3, abs=0.03)
    np.testing.assert_array_equal(split.test, whole.test)


@pytest.mark.data
def test_gaps_of_the_file_lose_all_but_the_time(data_dir: Path) -> None:
    context = Context("cpu", str(data_dir))
    split = missing.load(missing.GAPS, context, (5000, 500, 500), seed=0)
    gaps = np.isnan(split.train)
    assert 0 < gaps[:, 0].mean() < 0.05
    assert (gaps[:, :-1] == gaps[:, :1]).all()
    assert not gaps[:, -1].any()
    assert not np.isnan(split.test).any()


def test_sets_with_anomalies_are_cut_by_label_and_gaps_leave_the_split_alone() -> None:
    rows, labels = simulated(0, 100)
    far = np.abs(rows).max(1)
    assert far[labels == 1].mean() > 2 * far[labels == 0].mean()
    plain, holed = (cut(rows, labels, 1, missing) for missing in (0.0, 0.2))
    assert (len(plain.train), len(plain.test), plain.labels.sum()) == (70, 30, 3)
    gone = np.isnan(holed.train)
    assert gone.mean() == pytest.approx(0.2, abs=0.08)
    np.testing.assert_array_equal(holed.train[~gone], plain.train[~gone])
    large = cut(np.zeros((MOST_ROWS + 500, 1)), np.arange(MOST_ROWS + 500) % 2, 0, 0.0)
    assert len(large.train) + len(large.test) == MOST_ROWS
    few = (np.arange(5 * MOST_ROWS) % 1000 == 0).astype(np.int64)  # 50 of them
    assert cut(np.zeros((len(few), 1)), few, 0, 0.0).labels.sum() == 9
    # Fitted to normal rows alone, all anomalies are scored.
    normal = cut(rows, labels, 1, 0.0, "semi-supervised")
    assert (len(normal.train), len(normal.test), normal.labels.sum()) == (63, 37, labels.sum())
    assert {tuple(row) for row in normal.train} < {tuple(row) for row in plain.train}
