"""`causal`."""

import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginals.causal import shd
from marginals.cli import app
from tests.cli.conftest import Run

pytest.importorskip("causallearn")

FIT = ["--set", "tensor=copula", "--set", "rank=1", "--width", "2", "--set", "max_steps=250"]


pytestmark = pytest.mark.usefixtures("_chain")


@pytest.fixture(scope="module")
def _chain(folder: Path) -> None:
    """A model of a chain: age, then wage, then rent."""
    rng = np.random.default_rng(0)
    age = rng.normal(size=400)
    wage = age + rng.normal(size=400)
    frame = pd.DataFrame({"age": age, "wage": wage, "rent": wage + rng.normal(size=400)})
    frame.to_csv(folder / "chain.csv", index=False)
    where = [f"{folder}/chain.csv", "-o", f"{folder}/chain.mdma"]
    done = CliRunner().invoke(app, ["fit", *where, *FIT])
    assert done.exit_code == 0, done.output


def test_edges_are_printed(run: Run) -> None:
    done = run("causal", "chain.mdma", "--data", "chain.csv")
    assert done.stdout.splitlines() == ["from\tedge\tto", "age\t--\twage", "wage\t--\trent"]
    assert "tests at level 0.01" in done.stderr


def test_json_and_tiers(run: Run) -> None:
    words = ["causal", "chain.mdma", "--data", "chain.csv", "--json"]
    found = json.loads(run(*words, "--tier", "age", "--tier", "wage,rent").stdout)
    assert found["directed"] == [["age", "wage"], ["wage", "rent"]]
    assert found["columns"] == ["age", "wage", "rent"]
    assert {"x", "y", "given", "statistic", "pvalue", "n"} == set(found["tests"][0])
    shallow = json.loads(run(*words, "--max-cond-vars", "0", "--alpha", "0.001").stdout)
    assert {tuple(test["given"]) for test in shallow["tests"]} == {()}
    assert len(shallow["undirected"]) == 3


def test_files(run: Run, folder: Path) -> None:
    out = ["-o", "graph.png", "--out", "graph.graphml", "--output", "graph.json"]
    done = run("causal", "chain.mdma", "--data", "chain.csv", *out)
    assert "Wrote graph.png." in done.stderr
    assert (folder / "graph.png").stat().st_size > 5000
    read = nx.read_graphml(folder / "graph.graphml")
    content = json.loads((folder / "graph.json").read_text())
    assert shd(read, nx.node_link_graph(content, edges="edges")) == 0
    assert set(read.edges) >= {("age", "wage"), ("wage", "age")}


def test_a_table_is_fitted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginals.causal import pc_search
    from marginals.estimators.loading import load

    fitted: list[pd.DataFrame] = []

    def quick(table: pd.DataFrame) -> Any:
        fitted.append(table)
        model: Any = load("chain.mdma")
        return model.marginal(list(table)).independence_tester(data=table)

    monkeypatch.setattr(pc_search, "cross_fit", quick)
    done = run("causal", "chain.csv", "--ignore", "rent")
    assert "age\t--\twage" in done.stdout
    assert list(fitted[0]) == ["age", "wage"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["chain.mdma"], 2, "--data"),
        (["chain.csv", "--data", "chain.csv"], 2, "on its own"),
        (["chain.csv", "-o", "graph.xls"], 1, "to end in one of"),
        (["chain.csv", "-o", "nowhere/graph.png"], 1, "`--output`"),
        (["chain.csv", "--ignore", "wealth"], 1, "wealth"),
        (["chain.mdma", "--data", "chain.csv", "--alpha", "2"], 1, "`alpha`"),
        (["chain.mdma", "--data", "chain.csv", "--tier", "agee"], 1, "Did you mean 'age'"),
    ],
)
def test_mistakes(run: Run, words: list[str], code: int, message: str) -> None:
    assert message in run("causal", *words, code=code).stderr


def test_without_causal_learn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "causallearn.search.ConstraintBased.PC", None)
    done = run("causal", "chain.mdma", "--data", "chain.csv", code=1)
    assert 'pip install "marginals[causal]"' in done.stderr
