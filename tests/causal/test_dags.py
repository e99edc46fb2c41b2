"""The random DAGs of the benchmark, and what it records."""

import json
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from benchmarks.causal import speed
from benchmarks.causal.dags import random_dag, sigmoidal
from marginals.estimators.mdma import MDMA


def test_dags_have_no_cycles_and_the_parents_asked_for() -> None:
    rng = np.random.default_rng(0)
    dags = [random_dag(10, 2.0, rng) for _ in range(200)]
    assert all(nx.is_directed_acyclic_graph(nx.DiGraph(dag.astype(int))) for dag in dags)
    assert np.mean([dag.sum() for dag in dags]) == pytest.approx(20, abs=1)


def test_rows_follow_the_dag() -> None:
    dag = np.zeros((3, 3), dtype=bool)
    dag[2, 0] = True
    frame = sigmoidal(dag, 20_000, np.random.default_rng(0))
    assert list(frame) == ["x0", "x1", "x2"]
    np.testing.assert_allclose(frame.std(ddof=0), 1)
    correlations = frame.corr().to_numpy()
    assert abs(correlations[0, 2]) > 0.3
    assert np.abs(correlations[1, [0, 2]]).max() < 0.03


@pytest.mark.parametrize("by", ["cross_fit", "MDMA"])
def test_a_run(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("causallearn")
    quick = partial(MDMA, tensor="copula", width=2, rank=1, max_steps=20)
    monkeypatch.setattr(speed, "MDMA", quick)
    out = tmp_path / "speed.json"
    words = ["--out", str(out), "--columns", "3", "--rows", "200", "--seeds", "0", "--threads", "1"]
    speed.main([*words, "--by", by, "--picture", str(tmp_path / "graph.png")])
    found = json.loads(out.read_text())
    (run,) = found["runs"]
    assert run["tests"] >= 3
    assert run["transforms"] >= 3
    assert {"fit_s", "pc_s", "pc_cpu_s", "shd", "shd_cdt", "shd_of_no_edges"} <= set(run)
    assert (tmp_path / "graph.png").stat().st_size > 1000
