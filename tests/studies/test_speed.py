"""The study of speed: what it counts, what it times, and its tables."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from studies.harness.available import Unavailable
from studies.harness.config import load
from studies.harness.results import read
from studies.harness.study import Context, find
from studies.speed import run, steps_and_queries
from studies.speed.authors import Authors
from studies.speed.floor import Rates, floor, measure_rates, parameters
from studies.speed.report import figure, on_curve, tables
from studies.speed.shapes import MIDDLE, STEPS, Shape, curve_shapes, table
from studies.speed.timing import PeakMemory, answers_per_second, summary
from tests.studies.conftest import refused, works

TINY = Shape(4, 4, batch=20, rows=200)
ONE = Rates(1.0, 1.0, 1.0, 1.0, "float32")
SETTINGS = load(find("speed"), "tiny").settings
# What our runs need of the authors' package, and nothing of theirs.
STAND_IN = """
import torch

class MDMA(torch.nn.Module):
    def __init__(self, d, m, l, r, adaptive_coupling):
        super().__init__()
        self.sizes = (d, m, l, r, adaptive_coupling)
        self.mean = torch.nn.Parameter(torch.zeros(d))
        self.stabilised = []

    def log_density(self, x, inds=None):
        mean = self.mean if inds is None else self.mean[inds]
        return -((x - mean) ** 2).sum(-1) / 2

    def nll(self, x, stabilize=False):
        self.stabilised.append(stabilize)
        return -self.log_density(x).mean()

    def sample(self, n, cond_inds=None, cond_X=None):
        return torch.zeros(n, self.sizes[0])

    def sample_autoregressive(self, n, batch_size):
        raise MemoryError("too much")

    def condCDF(self, k, before, inds):
        return lambda x: torch.sigmoid(x.flatten())
"""
HELPERS = """
def invert(f, level, lb, ub):
    return f(level)
"""


@pytest.fixture
def authors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that looks like the authors' code."""
    package = tmp_path / "authors" / "mdma"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "models.py").write_text(STAND_IN)
    (package / "utils.py").write_text(HELPERS)
    for name in ("mdma", "mdma.models", "mdma.utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return package.parent


def job(part: str, who: str, shape: Shape = TINY, **more: Any) -> dict[str, Any]:
    return {"part": part, "who": who, "case": shape.name, **shape.numbers(), **more}


# What is counted --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [TINY, Shape(7, 5, 3, 4), Shape(2, 6)])
def test_the_floor_counts_the_parameters_of_our_model(shape: Shape) -> None:
    model = steps_and_queries.made(shape, table(50, shape.columns, "cpu"))
    assert parameters(shape) == sum(p.numel() for p in model.parameters())


def test_the_floor_grows_as_the_work_does() -> None:
    small, wide = floor(Shape(6, 100), ONE), floor(Shape(6, 200), ONE)
    assert wide.products == 4 * small.products
    assert wide.special == 2 * small.special
    assert small.products == 3 * 2 * 500 * 100**2 * 4
    assert small.overlapped == max(vars(small).values()) < small.seconds
    faster = floor(Shape(6, 100), Rates(2.0, 2.0, 2.0, 2.0, "float32"))
    assert faster.seconds == pytest.approx(small.seconds / 2)
    assert small.numbers()["all"] == pytest.approx(1000 * small.seconds)


def test_rates_are_measured() -> None:
    rates = measure_rates("cpu", 64)
    assert min(rates.product, rates.float32, rates.special, rates.memory) > 1e6
    assert rates.bfloat16 is None


# What is timed ----------------------------------------------------------------------------------


def test_a_step_is_timed_between_evaluations() -> None:
    found = steps_and_queries.measure_step(TINY, "cpu", block_s=0.01, blocks=3, compiled=False)
    assert found["blocks"] == 3
    assert 0 < found["step_ms_least"] <= found["step_ms"] <= found["step_ms_most"]
    assert found["rows_per_s"] == pytest.approx(20_000 / found["step_ms"], rel=0.01)
    assert found["first_step_s"] > 0


def test_the_median_of_blocks_counts() -> None:
    found = summary([0.1, 0.3, 0.2], 7, 50)
    assert (found["step_ms"], found["step_ms_most"], found["rows_per_s"]) == (200, 300, 250)


def test_queries_have_as_many_rows_as_there_is_time_for() -> None:
    asked: list[int] = []
    answers_per_second(asked.append, 50_000, "cpu", 10.0)
    assert sorted(set(asked)) == [1000, 10_000, 50_000]
    found = answers_per_second(lambda n: time.sleep(n / 50_000), 50_000, "cpu", 0.1)
    assert found["answered"] == 1000
    assert found["rows_per_s"] <= 50_000


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_peak_memory_is_what_a_step_adds() -> None:
    meter = PeakMemory("cpu")
    block = np.ones(1 << 23)  # 64 MiB
    del block
    found = meter.mib()
    assert found is not None
    assert 50 < found < 200


def test_the_authors_code_is_run_as_their_fit_runs_it(authors: Path) -> None:
    context, shape = Context("cpu", reference=str(authors)), Shape(4, 7, 3, 5, 20, 200)
    (found,) = run.measure(SETTINGS, 0, context, job("steps", "authors", shape))
    assert found["parameters"] == 4
    assert found["step_ms"] > 0
    assert {"floor_ms", "reference"} <= set(found)
    made = Authors(authors, shape, "cpu")
    assert made.model.sizes == (4, 7, 4, 5, False)  # they count the output layer as one
    made.train(table(200, 4, "cpu"), 20, 8)
    assert made.model.stabilised == [True] * 5 + [False] * 3
    with pytest.raises(Unavailable, match="give it with --reference"):
        run.measure(SETTINGS, 0, Context("cpu"), job("steps", "authors"))


def test_a_fresh_process_is_told_what_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process would be told is measured here."""
    said: list[str] = []

    def here(words: list[str], **_: Any) -> Any:
        assert words[1:3] == ["-m", "studies.speed"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("builtins.print", lambda text, flush: said.append(text))
            run.main(words[3])
        return type("Done", (), {"returncode": 0, "stdout": "\n".join(said), "stderr": ""})

    monkeypatch.setattr(run.subprocess, "run", here)
    (found,) = run._elsewhere(SETTINGS, Context("cpu"), job("steps", "eager"))
    assert found["step_ms"] > 0


def test_with_the_authors_code_a_query_that_fails_does_not_end_the_others(
    authors: Path, tmp_path: Path
) -> None:
    words = ["run", "speed", "--tiny", "--device", "cpu", "--output", tmp_path / "made"]
    words += ["--reference", authors, "--set", "parts=['queries', 'way']"]
    path = Path(works(*words).split()[-1])
    assert str(tmp_path) not in path.read_text()
    found = [r for r in read(path).records if r["who"] == "authors"]
    assert [r["what"] for r in found if "failure" in r] == ["sample, autoregressive"]
    assert len(found) == 8
    text = works("tables", "speed", "--results", tmp_path / "made")
    assert "sample, autoregressive, seed 0: MemoryError: too much" in text
    wrong = ["run", "speed", "--tiny", "--reference", tmp_path, "--output", tmp_path / "no"]
    assert "Expected `--reference` to be the folder" in refused(*wrong)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_everything_runs_on_a_gpu(tmp_path: Path) -> None:
    words = ["run", "speed", "--tiny", "--device", "cuda", "--output", tmp_path]
    assert len(read(Path(works(*words).split()[-1])).good) > 10


# Tables -----------------------------------------------------------------------------------------


def step(shape: Shape, who: str, ms: float, part: str = "steps", **more: Any) -> dict[str, Any]:
    about = {**job(part, who, shape), "device": "cpu", "machine": "CPU, 2 threads"}
    return {**about, "step_ms": ms, "floor_ms": {"all": 0.1}, **more}


def test_steps_are_compared_with_the_targets() -> None:
    shape = STEPS["cpu"][0].shape
    both = [step(shape, "ours", 5.0, peak_mib=10.0), step(shape, "authors", 60.0, peak_mib=80.0)]
    text = tables(both, {})
    assert "| 6, 100, 1x3, 500 | 5 | 60 | 12 | 8 | 0.1 |  | 10 | 80 | 0.125 |" in text
    assert figure(0.0123456) == "0.0123"


def test_ways_are_compared_at_the_score_that_all_reached() -> None:
    way = {"part": "fits", "what": "way", "limit_s": 9.0}
    slow = step(TINY, "nsf", 0.0, **way, way=[[1.0, -5.0], [6.0, 2.0]])
    fast = step(TINY, "ours", 0.0, **way, way=[[1.0, 1.0], [2.0, 2.5], [3.0, 4.0]])
    text = tables([slow, fast], {})
    assert "| gas, 9 s each | s to 2.00 nats per held-out row | best |" in text
    assert "| ours | 2 | 4.00 |\n| zuko NSF | 6 | 2.00 |" in text


def test_a_point_may_be_on_several_curves() -> None:
    shapes = curve_shapes("cpu")
    assert len(shapes) == len(set(shapes))
    around = MIDDLE["cpu"].numbers()
    scaled = [step(shape, "ours", 1.0, "scaling", around=around) for shape in shapes]
    for axis in ("width", "columns", "batch", "rows"):
        sizes = [r[axis] for r in on_curve(scaled, axis, "ours")]
        assert sizes == sorted(sizes)
        assert getattr(MIDDLE["cpu"], axis) in sizes
