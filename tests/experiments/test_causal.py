"""Random DAGs are acyclic and as said; perfect tests find what PC can find."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from experiments.causal import EXPERIMENT
from experiments.causal.data import MECHANISMS, draw, sachs
from experiments.causal.run import distances, empty
from experiments.causal.testers import OutOfTimeError, PairTests, gaussian, oracle
from marginals.causal import causal_graph


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_graphs_and_rows_of_a_mechanism(mechanism: str) -> None:
    counts = []
    for seed in range(30):
        problem = draw(mechanism, 10, 50, seed)
        graph = nx.DiGraph(problem.truths["the DAG"])
        assert nx.is_directed_acyclic_graph(graph)
        assert max(dict(graph.in_degree).values()) <= 5
        counts.append(len(graph.edges))
        np.testing.assert_allclose(problem.rows.std(ddof=0), 1)
    assert 15 < np.mean(counts) < 20  # 17.5 expected: a mean of up to five parents
    again = draw(mechanism, 10, 50, 29)
    assert again.rows.equals(problem.rows)


def test_perfect_tests_find_the_skeleton_and_the_collider() -> None:
    edges = [("a", "c"), ("b", "c"), ("c", "d")]
    tester = oracle("abcd", edges)
    assert tester is not None
    found = causal_graph(tester)
    assert distances(found.graph, "abcd", edges) == {"directed": 0, "usual": 0, "skeleton": 0}
    assert oracle("abc", [("a", "b"), ("b", "c"), ("c", "a")]) is None


def test_distances_by_convention() -> None:
    found = nx.DiGraph([("b", "a"), ("a", "c"), ("c", "a")])
    told = distances(found, "abc", [("a", "b"), ("a", "c")])
    assert told == {"directed": 3, "usual": 2, "skeleton": 0}
    assert empty([["a", "b"], ["a", "c"]]) == {"directed": 2, "usual": 2, "skeleton": 2}


def test_the_gaussian_test_sees_what_is_linear() -> None:
    rng = np.random.default_rng(0)
    rows = draw("sigmoidal", 3, 2000, 0).rows
    rows["x1"], rows["x2"] = rng.normal(size=(2, 2000))
    rows["x3"] = rows["x1"] + rows["x2"] + rng.normal(size=2000)
    tester = gaussian(rows)
    assert tester.independence_test("x1", "x3").pvalue < 1e-6
    assert tester.independence_test("x1", "x2").pvalue > 1e-3
    assert tester.independence_test("x1", "x2", ["x3"]).pvalue < 1e-6


def test_a_search_out_of_time_stops() -> None:
    tester = PairTests("ab", lambda x, y, z: 1.0, seconds=-1)
    with pytest.raises(OutOfTimeError):
        tester.independence_test("a", "b")


def test_a_search_given_up_is_told_in_the_table() -> None:
    truths = {"the DAG": [["x1", "x2"]]}
    shared = {"seed": 0, "set": "sigmoidal", "rows": 50, "fit_s": 0.0, "search_s": 20.0}
    records = [{**shared, "method": "kci", "finished": False, "truths": truths}]
    text = EXPERIMENT.tables(records, {"sigmoidal": {"MDMA": ["15.6", "12.8"]}})
    assert "| PC, KCI |  |  |  |  | 50 |  |  | 20 | 0 of 1 in time |" in text
    assert "| the empty graph | 1.0 | 1.0 | 1.0 | 0 |" in text
    assert "| paper: MDMA | 15.6 | 12.8 |" in text


def test_differences_are_within_graphs_that_both_ended() -> None:
    truths = {"the DAG": [["x1", "x2"]]}
    shared = {"set": "sigmoidal", "rows": 50, "fit_s": 0.0, "search_s": 1.0, "truths": truths}
    shared |= {"edges": 1, "tests": 1, "finished": True}
    records = []
    for seed, gaussian_off, ours_off in ((0, 10, 8), (1, 30, 26), (2, 50, None)):
        for method, off in (("gaussian", gaussian_off), ("ours", ours_off)):
            far = {"the DAG": {"directed": off, "usual": off, "skeleton": off}}
            ended = {"distances": far} if off is not None else {"finished": False}
            records.append({**shared, "seed": seed, "method": method, **ended})
    # 2 and 4: mean 3, standard deviation the root of 2, of two graphs.
    line = "| PC, ours (q = 1) | 3.0 ± 1.0 | 3.0 ± 1.0 | 3.0 ± 1.0 | 2 |"
    assert line in EXPERIMENT.tables(records, {})


@pytest.mark.data
def test_sachs_has_both_graphs(data_dir: Path) -> None:
    problem = sachs(data_dir)
    assert [len(edges) for edges in problem.truths.values()] == [18, 20]
    names = set(problem.rows)
    assert all(set(edge) <= names for edges in problem.truths.values() for edge in edges)
