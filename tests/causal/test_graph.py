"""PC with exact tests finds the right graphs and records its tests."""

import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from marginals import cross_fit, plotting
from marginals.causal import CausalGraph, causal_graph, pc_search, shd
from marginals.causal.graph import SUFFIXES, dot
from marginals.causal.pc_search import RecordedTests, expected
from marginals.estimators.mdma import MDMA
from tests.causal.dags import CHAIN, COLLIDER, Oracle

pytest.importorskip("causallearn")
from causallearn.graph.GraphNode import GraphNode
from causallearn.utils.PCUtils.BackgroundKnowledge import BackgroundKnowledge


@pytest.fixture(scope="module")
def mixed_frame() -> pd.DataFrame:
    """City causes wage causes rent; with missing cells."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Rome"], 600)
    wage = np.where(city == "Oslo", 1.5, -1.5) + rng.normal(size=600)
    frame = pd.DataFrame({"city": city, "wage": wage, "rent": wage + rng.normal(size=600)})
    for name in frame:
        frame.loc[rng.random(600) < 0.05, name] = None
    return frame


@pytest.fixture(scope="module")
def model(mixed_frame: pd.DataFrame) -> MDMA:
    settings: Any = {"tensor": "copula", "width": 4, "rank": 1, "max_steps": 120}
    return MDMA(**settings, random_state=0, progress=False).fit(mixed_frame)


# Exact tests ------------------------------------------------------------------------------------


def test_the_graph_of_a_collider_is_found() -> None:
    found = causal_graph(Oracle(COLLIDER), alpha=0.001)
    assert set(found.directed) == set(COLLIDER)
    assert found.undirected == []
    assert shd(found, nx.DiGraph(list(COLLIDER))) == 0
    assert found.names == ("a", "b", "c", "d", "e")
    assert str(found).splitlines()[0] == "a -> c"
    assert found.seconds > 0


def test_the_directions_of_a_chain_stay_open() -> None:
    found = causal_graph(Oracle(CHAIN), alpha=0.001)
    assert found.undirected == [("a", "b"), ("b", "c")]
    assert found.directed == []
    assert {kind for *_, kind in found.graph.edges(data="kind")} == {"undirected"}
    assert str(found) == "a -- b\nb -- c"
    # The edges that a mixed graph has both ways count one each.
    assert shd(found, nx.DiGraph(list(CHAIN))) == 2


def test_every_test_is_recorded() -> None:
    oracle = Oracle(COLLIDER)
    found = causal_graph(oracle, alpha=0.001)
    assert list(found.tests) == ["x", "y", "given", "statistic", "pvalue", "n"]
    assert not found.tests.duplicated(["x", "y", "given"]).any()
    for row in found.tests.itertuples():
        alone = oracle.independence_test(row.x, row.y, given=list(row.given))
        assert (row.statistic, row.pvalue, row.n) == (alone.statistic, alone.pvalue, alone.n)
    pair = found.tests[(found.tests.x == "a") & (found.tests.y == "c")]
    assert found.graph.edges["a", "c"]["pvalue"] == pair.pvalue.max() <= 0.001


def test_columns_that_share_evidence_are_prepared_together() -> None:
    oracle = Oracle(COLLIDER)
    tests = causal_graph(oracle, alpha=0.001).tests
    given = [tuple(known or ()) for _, known in oracle.prepared]
    assert len(given) == len(set(given))
    ready = {tuple(known or ()): set(columns) for columns, known in oracle.prepared}
    for row in tests.itertuples():
        assert {row.x, row.y} <= ready[row.given]
    # Nothing more than was tested.
    for known, columns in ready.items():
        tested = tests[[g == known for g in tests.given]]
        assert columns == set(tested.x) | set(tested.y)
    triangle = [frozenset(pair) for pair in [(0, 1), (1, 2), (0, 2)]]
    assert expected(triangle, frozenset()) == {0, 1, 2}
    assert expected(triangle, frozenset({2})) == {0, 1}
    assert expected(triangle, frozenset({1, 2})) == set()


def test_max_cond_vars() -> None:
    found = causal_graph(Oracle(CHAIN), alpha=0.001, max_cond_vars=0)
    assert set(found.tests.given) == {()}
    assert len(found.undirected) == 3
    assert causal_graph(Oracle(CHAIN), alpha=0.001).tests.given.map(len).max() == 1


# Background knowledge ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "known",
    [
        {"tiers": [["a"], ["b"], ["c"]]},
        {"required": [("a", "b")]},
        {"forbidden": [("b", "a")]},
        BackgroundKnowledge().add_forbidden_by_node(GraphNode("b"), GraphNode("a")),
    ],
)
def test_knowledge_directs_a_chain(known: Any) -> None:
    found = causal_graph(Oracle(CHAIN), background_knowledge=known)
    assert set(found.directed) == {("a", "b"), ("b", "c")}


def test_required_edges_are_kept_and_forbidden_ones_not_tested() -> None:
    known = {"required": [("a", "c")], "forbidden": [("a", "b"), ("b", "a")]}
    found = causal_graph(Oracle(CHAIN), alpha=0.001, background_knowledge=known)
    assert found.graph.has_edge("a", "c")
    assert not found.graph.has_edge("c", "a")
    assert "pvalue" not in found.graph.edges["a", "c"]
    assert not found.graph.has_edge("a", "b")
    assert {(row.x, row.y) for row in found.tests.itertuples()} == {("b", "c")}


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"needed": []}, "keys among"),
        ([("a", "b")], "got list"),
        ({"required": [("a", "z")]}, r"\['required'\]` to be among .* got 'z'"),
        ({"forbidden": ["a"]}, r"pairs \(from, to\); got 'a'"),
        ({"tiers": [["z"]]}, "got 'z'"),
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, r"both .* got \('a', 'b'\)"),
        ({"required": [("b", "a")], "tiers": [["a"], ["b"]]}, r"by tiers; got \('b', 'a'\)"),
    ],
)
def test_mistakes_in_knowledge(known: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        causal_graph(Oracle(CHAIN), background_knowledge=known)


# Models and tables ------------------------------------------------------------------------------


def test_categories_and_gaps(model: MDMA) -> None:
    found = causal_graph(model, alpha=0.01)
    assert found.undirected == [("city", "wage"), ("wage", "rent")]
    assert found.tests.n.between(400, 599).all()
    alone = model.independence_test("city", "rent", given=["wage"])
    row = found.tests[found.tests.given == ("wage",)].iloc[0]
    assert row.pvalue == pytest.approx(alone.pvalue, rel=1e-4)


def test_rows_and_options_of_the_tests(model: MDMA, mixed_frame: pd.DataFrame) -> None:
    found = causal_graph(model, data=mixed_frame[:300], incomplete="omit", max_cond_vars=1)
    assert found.tests.n.max() <= 300
    parted = found.tests[found.tests.given == ("wage",)]
    assert (parted.n < len(mixed_frame[:300].dropna(subset=["city", "rent"]))).all()


def test_a_table_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[Any] = []
    monkeypatch.setattr(pc_search, "cross_fit", lambda table: fitted.append(table) or Oracle(CHAIN))
    frame = Oracle(CHAIN).frame
    assert causal_graph(frame, alpha=0.001).undirected == [("a", "b"), ("b", "c")]
    assert fitted[0] is frame


def test_names_that_read_the_same() -> None:
    """Columns called "1" and 1 are two columns."""
    oracle = Oracle(CHAIN)
    oracle.names = ["1", 1, "c"]
    found = causal_graph(oracle, alpha=0.001)
    assert found.undirected == [("1", 1), (1, "c")]
    assert "pvalue" in found.graph.edges["1", 1]
    known = {"required": [("1", 1)]}
    found = causal_graph(oracle, alpha=0.001, background_knowledge=known)
    assert found.directed == [("1", 1), (1, "c")]
    assert dot(found.graph).splitlines()[1:4] == [
        """  "'1'"; "1"; "'c'";""",
        """  "'1'" -> "1";""",
        """  "1" -> "'c'";""",
    ]
    with pytest.raises(ValueError, match=r"differ as text .* Give a dict"):
        causal_graph(oracle, background_knowledge=BackgroundKnowledge())


# Files ------------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    found = causal_graph(Oracle({**CHAIN, ("d", "b"): 1.0}), alpha=0.001)
    found.save(tmp_path / "graph.graphml")
    assert shd(nx.read_graphml(tmp_path / "graph.graphml"), found) == 0
    found.save(tmp_path / "graph.json")
    content = json.loads((tmp_path / "graph.json").read_text())
    assert shd(nx.node_link_graph(content, edges="edges"), found) == 0
    found.save(tmp_path / "graph.dot")
    assert '"a" -> "b";' in (tmp_path / "graph.dot").read_text()
    with pytest.raises(ValueError, match="to end in one of"):
        found.save(tmp_path / "graph.xls")


def test_files_are_utf8_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some machines' locales lack these letters."""
    write_text = Path.write_text

    def with_ascii(self: Path, data: str, encoding: str = "ascii") -> int:
        return write_text(self, data, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", with_ascii)
    for suffix in SUFFIXES:
        path = tmp_path / f"graph{suffix}"
        graph = nx.DiGraph([("år", "β")])
        CausalGraph(graph, ("år", "β"), pd.DataFrame(), 0.01, 0.0).save(path)
        assert "β" in path.read_text(encoding="utf-8")


def test_a_curve_is_an_edge() -> None:
    rng = np.random.default_rng(0)
    w, noise, other = rng.normal(size=(3, 600))
    frame = pd.DataFrame({"w": w, "v": w**2 / 2 + noise, "other": other})
    folded = cross_fit(frame)  # as `causal_graph(frame)` does
    assert causal_graph(folded).undirected == [("w", "v")]
    assert causal_graph(folded, q=1).undirected == []


# Errors -----------------------------------------------------------------------------------------


def test_errors_name_the_cause(model: MDMA) -> None:
    for alpha in (0, 1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="`alpha` to lie between 0 and 1"):
            causal_graph(Oracle(CHAIN), alpha=alpha)
    for q in ([1, 2], (1,)):
        with pytest.raises(ValueError, match=r"`q` to be one whole number.*; got [\[(]1"):
            causal_graph(model, q=q)
    assert ("wage", "rent") in causal_graph(model, q=2).undirected
    with pytest.raises(ValueError, match="`max_cond_vars` to be at least 0; got -1"):
        causal_graph(Oracle(CHAIN), max_cond_vars=-1)
    with pytest.raises(ValueError, match=r"neither `data` nor test options .* Oracle; got data"):
        causal_graph(Oracle(CHAIN), data=[1])
    with pytest.raises(TypeError, match="object with `names`"):
        RecordedTests(object())
    with pytest.raises(ValueError, match="wealth"):
        model.independence_tester().independence_test("city", "wealth")


def test_without_causal_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "causallearn.utils.cit", None)
    monkeypatch.setitem(sys.modules, "causallearn.search.ConstraintBased.PC", None)
    with pytest.raises(ImportError, match=r'pip install "marginals\[causal\]"'):
        causal_graph(Oracle(CHAIN))


# Pictures ---------------------------------------------------------------------------------------


def test_pictures() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    found = causal_graph(Oracle({**CHAIN, ("d", "b"): 1.0, ("e", "f"): 1.0}), alpha=0.001)
    ax = found.plot()
    ax.figure.canvas.draw()
    assert {text.get_text() for text in ax.texts} == set("abcdef")
    # An arrow for each directed edge, one line for each undirected edge.
    assert len(ax.patches) == len(found.directed) + len(found.undirected)
    one, two = plt.subplots(1, 2)[1]
    assert found.plot(one) is one
    lonely = nx.DiGraph()
    lonely.add_nodes_from(["a_name_that_is_far_too_long_to_fit", "b"])
    assert plotting.graph(lonely, ax=two) is two
    plt.close("all")
