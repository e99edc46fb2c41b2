"""The speed benchmark: what it counts, what it times, and its page."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.pages import tables_of
from benchmarks.records import joined, merged, read
from benchmarks.speed import ours
from benchmarks.speed.floor import Rates, floor, measure_rates, parameters
from benchmarks.speed.jobs import Job, job_of, records
from benchmarks.speed.record import KEY
from benchmarks.speed.report import figure, on_curve, tables
from benchmarks.speed.run import main
from benchmarks.speed.shapes import MIDDLE, STEPS, Shape, curve_shapes, table
from benchmarks.speed.timing import PeakMemory, answers_per_second, summary

ROOT = Path(__file__).parents[1]
TINY = Shape(4, 4, batch=20, rows=200)
ONE = Rates(1.0, 1.0, 1.0, 1.0, "float32")
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


# What is counted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [TINY, Shape(7, 5, 3, 4), Shape(2, 6)])
def test_the_floor_counts_the_parameters_of_our_model(shape: Shape) -> None:
    model = ours.made(shape, table(50, shape.columns, "cpu"))
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


# What is timed ------------------------------------------------------------------------------------


def test_a_step_is_timed_between_evaluations() -> None:
    found = ours.measure_step(TINY, "cpu", block_s=0.01, blocks=3, compiled=False)
    assert found["blocks"] == 3
    assert 0 < found["step_ms_least"] <= found["step_ms"] <= found["step_ms_most"]
    assert found["rows_per_s"] == pytest.approx(20_000 / found["step_ms"], rel=0.01)
    assert found["first_step_s"] > 0


def test_the_median_of_blocks_counts() -> None:
    found = summary([0.1, 0.3, 0.2], 7, 50)
    assert (found["step_ms"], found["step_ms_most"], found["rows_per_s"]) == (200, 300, 250)


def test_questions_are_asked_of_as_many_rows_as_there_is_time_for() -> None:
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
    options = {"block_s": 0.01, "blocks": 2}
    job = Job("steps", "authors", "cpu", Shape(4, 7, 3, 5, 20, 200), str(authors), options)
    (found,) = records(job)
    assert found["parameters"] == 4
    assert found["step_ms"] > 0
    made = sys.modules["benchmarks.speed.reference"].Authors(authors, job.shape, "cpu")
    assert made.model.sizes == (4, 7, 4, 5, False)  # they count the output layer as one
    made.train(table(200, 4, "cpu"), 20, 8)
    assert made.model.stabilised == [True] * 5 + [False] * 3


def test_a_question_that_fails_does_not_end_the_others(authors: Path) -> None:
    options = {"most": 30, "seconds": 0.01, "trained": 1}
    found = list(records(Job("queries", "authors", "cpu", TINY, str(authors), options)))
    failed = [r["what"] for r in found if "error" in r]
    assert failed == ["sample, autoregressive"]
    assert len(found) == 7


def test_a_fresh_process_is_told_what_to_measure() -> None:
    job = Job("steps", "ours", "cpu", TINY, None, {"block_s": 0.01, "blocks": 1})
    assert job_of(job.to_json()) == job


def test_a_wrong_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"Expected `--reference` to be the folder .* got"):
        main(["run", "--reference", str(tmp_path), "--out", str(tmp_path / "x.json")])


# The report ---------------------------------------------------------------------------------------


def test_from_command_to_picture(
    tmp_path: Path, authors: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    for package in ("zuko", "zuko.flows", "spflow", "pyvinecopulib"):
        monkeypatch.setitem(sys.modules, package, None)  # as if they were not installed
    out = tmp_path / "speed.json"
    words = ["run", "--smoke", "--device", "cpu", "--out", str(out), "--only"]
    main([*words, "steps", "queries", "scaling", "--reference", str(authors)])
    told = capsys.readouterr().out
    assert "queries nsf (4, 4, 1x3, 20) skipped" in told
    main([*words, "fits"])
    found = read(out)
    assert {r["part"] for r in found} == {"rates", "steps", "queries", "scaling", "fits"}
    assert {"command", "commit", "date", "versions", "torch"} <= set(found[0])
    assert str(tmp_path) not in out.read_text()
    main([*words, "steps"])
    assert len(read(out)) == len(found)  # replaced, not added
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    page.write_text((ROOT / "docs" / "speed.md").read_text())
    main(["report", str(out), "--out", str(page), "--picture", str(picture)])
    text = tables_of(page.read_text())
    assert "| 4, 4, 1x3, 20 |" in text
    assert "- queries authors' code (4, 4, 1x3, 20) sample, autoregressive: MemoryError" in text
    assert picture.stat().st_size > 1000


def step(shape: Shape, who: str, ms: float, part: str = "steps", **more: Any) -> dict[str, Any]:
    about = {"part": part, "who": who, "device": "cpu", "case": shape.name, **shape.numbers()}
    origin = {"date": "2026-01-01", "commit": "x", "torch": "2", "command": "c", "threads": 2}
    return {**about, "step_ms": ms, "floor_ms": {"all": 0.1}, "gpu": "none", **origin, **more}


def test_a_report_compares_with_the_targets() -> None:
    shape = STEPS["cpu"][0].shape
    both = [step(shape, "ours", 5.0, peak_mib=10.0), step(shape, "authors", 60.0, peak_mib=80.0)]
    text = tables(both)
    assert "| 6, 100, 1x3, 500 | 5 | 60 | 12 | 8 | 0.1 |  | 10 | 80 | 0.125 |" in text
    assert tables([]) == "Nothing has been measured yet."
    assert [r["step_ms"] for r in merged([*both, step(shape, "ours", 4.0)], KEY)] == [4.0, 60.0]
    assert figure(0.0123456) == "0.0123"


def test_ways_are_compared_at_the_score_that_all_reached() -> None:
    way = {"part": "fits", "what": "way", "limit_s": 9.0}
    slow = step(TINY, "nsf", 0.0, **way, way=[[1.0, -5.0], [6.0, 2.0]])
    fast = step(TINY, "ours", 0.0, **way, way=[[1.0, 1.0], [2.0, 2.5], [3.0, 4.0]])
    text = tables([slow, fast])
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
    json.dumps(scaled)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_everything_runs_on_a_gpu(tmp_path: Path) -> None:
    main(["run", "--smoke", "--device", "cuda", "--out", str(tmp_path / "speed.json")])
    assert not [r for r in read(tmp_path / "speed.json") if "error" in r]


# The page -----------------------------------------------------------------------------------------


def test_the_tables_are_those_of_the_result_files() -> None:
    files = sorted((ROOT / "benchmarks" / "results").glob("speed_*.json"))
    assert tables_of((ROOT / "docs" / "speed.md").read_text()) == tables(joined(files, KEY))
