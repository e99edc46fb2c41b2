"""The examples run, what they claim is true, and each opens as a notebook."""

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
Names = dict[str, Any]


def loaded() -> ModuleType:
    """Return the script that runs the examples, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("render", ROOT / "gallery" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RENDER = loaded()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Names]]:
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # what a user has
    yield RENDER.run
    torch.set_default_dtype(torch.float64)
    plt.close("all")


Run = Callable[[str], Names]


# What each claims -------------------------------------------------------------------------------


def test_messy_table(run: Run) -> None:
    found = run("messy_table")
    assert 0.6 < found["complete"] < 0.7  # "a third of the table"
    kinds = found["model"].schema_
    assert kinds["price"].kind.resolution == 10
    assert kinds["km"].kind.resolution == 100
    assert kinds["repairs"].kind.atoms == (0,)
    prices, shares = found["compared"][:3], found["compared"][3:]
    assert (prices["model"] / prices["truth"] - 1).abs().max() < 0.1
    assert (shares["model"] - shares["truth"]).abs().max() < 0.08
    assert found["fuel"].idxmax() == "diesel"


def test_gaps_and_censoring(run: Run) -> None:
    found = run("gaps_and_censoring")
    errors = found["table"]
    assert errors["largest error, model"].max() < 0.1
    assert (errors["largest error, shortcut"] > 0.2).all()
    assert found["another"] == pytest.approx(found["exact"], abs=0.06)
    assert found["early"] > found["usual"] + 3  # "an early death points to heat"
    assert found["runs"].mean() > 0.6  # "most still run"


def test_risk_and_tails(run: Run) -> None:
    found = run("risk_and_tails")
    assert found["tau"] == pytest.approx(found["true_tau"], abs=0.03)
    common = found["levels"] >= 0.05
    assert np.abs(found["joint"] - found["true_joint"])[common].max() < 0.05
    assert (found["joint"] > 2 * found["levels"]).all()
    assert found["price"] == pytest.approx(found["fair"], rel=0.2)
    assert found["naive"] < 0.6 * found["fair"]  # "independence would miss half of it"
    assert (found["alarm"] > 2 * found["quiet"]).all()


def test_finding_causes(run: Run) -> None:
    found = run("finding_causes")
    assert found["alone"].pvalue < 1e-6
    assert found["through"].pvalue > 0.01
    assert set(found["informed"].directed) == set(found["truth"].edges)
    assert ("traffic", "delay") in found["blind"].directed
    assert ("distance", "delay") in found["blind"].directed
    assert {frozenset(edge) for edge in found["blind"].undirected} == {
        frozenset(("rain", "traffic"))
    }
    assert found["adjusted"] == pytest.approx(2, abs=0.25)
    assert found["spoiled"] < 1.7


def test_synthetic_data(run: Run) -> None:
    found = run("synthetic_data")
    drawn, report, broken = found["synthetic"], found["report"], found["broken"]
    assert (drawn["age"] % 1 == 0).all()
    assert np.allclose(drawn["bmi"] * 10, (drawn["bmi"] * 10).round())
    assert report.two_sample.auc < 0.65
    assert broken.summary["column_distance"] == 0  # "every column is now perfect"
    assert report.summary["pair_difference"] < 0.4 * broken.summary["pair_difference"]
    assert report.copying.duplicates == 0
    assert report.copying.pvalue > 0.01
    assert found["own_skill"] > found["real_skill"] - 0.1
    assert found["lost_skill"] < 0.1


def test_model_in_sql(run: Run) -> None:
    found = run("model_in_sql")
    assert found["right"] >= 0.85
    assert np.allclose(found["labels"].sum(axis=1), 1, atol=1e-4)
    assert found["filled"]["bottles"].sum() == len(found["wine"])
    assert list(found["filled"]["proline"].rank()) == [2, 3, 1]  # Barbera, Barolo, Grignolino
    assert 0.7 <= found["coverage"] <= 0.92
    assert (found["fan"]["low"] < found["fan"]["middle"]).all()
    assert found["odd"]["tail"].is_monotonic_increasing


# The form ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RENDER.EXAMPLES)
def test_examples_are_notebooks(name: str) -> None:
    notebook = jupytext.read(ROOT / "gallery" / f"{name}.py")
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert kinds[-1] == "code"
    assert notebook.cells[-1].source.endswith("\nfigure")  # the picture is what the cell shows
    again = jupytext.reads(jupytext.writes(notebook, fmt="ipynb"), fmt="ipynb")
    assert [cell.source for cell in again.cells] == [cell.source for cell in notebook.cells]


def test_the_page_shows_every_example() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert tuple(re.findall(r"images/gallery/(\w+)\.png", page)) == RENDER.EXAMPLES
    for name in RENDER.EXAMPLES:
        assert f"gallery/{name}.py" in page
        assert 0 < (RENDER.PICTURES / f"{name}.png").stat().st_size < 150_000
    scripts = {path.stem for path in (ROOT / "gallery").glob("*.py")} - {"render"}
    assert scripts == set(RENDER.EXAMPLES)
