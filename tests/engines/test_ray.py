"""Ray gives what the local engine gives, row for row, also if a worker dies in the middle."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from marginals import MDMA, load
from marginals.cli import app
from marginals.engines import ArrowFunction, Impute, local_engine, model_columns, ray_engine
from marginals.engines.row_jobs import draw_counts, drawn_batch

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray itself

WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster on this machine, with as many worker processes as cores."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(num_cpus=WORKERS, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _float32() -> Iterator[None]:
    """What workers have, as users do."""
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(torch.float64)


@dataclass(frozen=True)
class DiesOnce:
    """Fill missing cells, but kill the worker in the middle of the first piece that it meets."""

    marker: str
    copies, copied = 2, None

    def on(self, model: Any) -> Any:
        work = Impute("draw", draws=2).on(model)

        def dying(rows: Any, frame: Any, seed: int) -> Iterator[Any]:
            for part in work(rows, frame, seed):
                if frame.index[0] > 0 and not os.path.exists(self.marker):
                    Path(self.marker).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield part

        return dying


@pytest.mark.usefixtures("cluster")
def test_a_dead_worker_loses_and_doubles_nothing(folder: Path, tmp_path: Path) -> None:
    marker, out = str(tmp_path / "died"), str(tmp_path / "out")
    path = str(folder / "model.mdma")
    function = ArrowFunction(path, DiesOnce(marker), seed=4, most_rows=40)
    count = ray_engine.run(function, folder / "parts", out, workers=WORKERS)
    assert os.path.exists(marker)
    found = pq.read_table(out)
    assert count == found.num_rows == 2 * 240
    local = ArrowFunction(path, Impute("draw", draws=2), seed=4, most_rows=40)
    parts = [p.table for _, each in local_engine.run(local, folder / "parts") for p in each]
    wanted = pa.concat_tables(parts).to_pandas()
    pd.testing.assert_frame_equal(found.to_pandas(), wanted, check_exact=True)
    assert found.column("row").to_pylist()[:40] == [*range(20), *range(20)]
    with pytest.raises(ValueError, match="to hold no table"):
        ray_engine.run(function, folder / "parts", out)


def in_this_process(work: Any, count: int, output: str, *_: Any) -> int:
    """Run the pieces one after the other: each start of Ray's workers takes many seconds."""
    Path(output).mkdir()
    return sum(work(number) for number in range(count))


def test_commands(
    folder: Path, model: MDMA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_columns, "ROWS", 64)
    monkeypatch.setattr(ray_engine, "_run", in_this_process)
    path, ray = str(folder / "model.mdma"), ["--engine", "ray", "--workers", "1"]

    def run(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == code, done.output
        return done

    run("sample", path, "100", "--seed", "3", "-o", f"{tmp_path}/drawn", *ray)
    drawn = pq.read_table(f"{tmp_path}/drawn").to_pandas()
    counts = draw_counts(100, 64)
    assert counts == [64, 36]
    for number, part in enumerate((drawn[:64], drawn[64:])):
        wanted = drawn_batch(model, counts[number], None, 3, number)
        assert part["income"].tolist() == wanted["income"].tolist()
    monkeypatch.chdir(folder)
    words = ["score", "model.mdma", "parts", "--keep", "name"]
    done = run(*words, "-o", f"{tmp_path}/scores", *ray)
    assert "Wrote 240 rows" in done.stderr
    run(*words, "-o", f"{tmp_path}/scores.parquet")
    found = pq.read_table(f"{tmp_path}/scores")
    assert found.equals(pq.read_table(f"{tmp_path}/scores.parquet"))
    assert "-o" in run(*words, *ray, code=2).stderr


@pytest.mark.usefixtures("cluster")
def test_workers_fit_the_members_of_a_mixture(folder: Path, tmp_path: Path) -> None:
    words = ["fit", str(folder / "parts"), "-o", str(tmp_path / "m.mdma"), "--engine", "ray"]
    words += ["--max-seconds", "2", "--ignore", "name", "--buffer", "100", "--workers", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    model = load(tmp_path / "m.mdma")
    assert isinstance(model, MDMA)
    assert model.rows_ == 240
    assert len(model.members_) > 1
