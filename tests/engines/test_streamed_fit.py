"""Fits of tables larger than memory: every row once an epoch, one process or several, resumed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from marginals import MDMA, load
from marginals.cli import app
from marginals.columns import infer
from marginals.engines import fit_stream
from marginals.engines.row_stream import RowStream
from marginals.io.row_groups import pieces

ROOT = Path(__file__).parents[2]


def make_table(rows: int = 1200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    frame = pd.DataFrame(
        {"x": x, "y": x + 0.5 * rng.normal(size=rows), "k": np.where(x > 0, "a", "b")}
    )
    frame.loc[rng.random(rows) < 0.1, "y"] = np.nan
    frame.loc[5, "x"], frame.loc[7, "k"] = 9.0, "rare"
    return frame


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    table = pa.Table.from_pandas(make_table(), preserve_index=False)
    for i in range(4):
        part = table.slice(300 * i, 300)
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=100)
    return folder


def stream(parts: Path, **options: Any) -> RowStream:
    schema = infer(pd.DataFrame({"x": make_table()["x"]}))
    settings: dict[str, Any] = {"batch": 50, "buffer": 250, "read_rows": 100, "seed": 1}
    return RowStream(schema, pieces(parts, 100), **{**settings, **options})


def test_an_epoch_has_every_row_once(parts: Path) -> None:
    rows = stream(parts)
    epochs = [torch.cat([rows(24 * e + s).evidence.lower for s in range(24)]) for e in range(2)]
    for epoch in epochs:
        assert len(epoch) == 1200
        assert len(epoch.unique()) == make_table()["x"].nunique()
    assert not torch.equal(*epochs)
    assert rows._held is not None
    assert len(rows._held[1]) <= 250  # the buffer
    again = stream(parts)(30).evidence.lower  # without the steps before
    torch.testing.assert_close(again, stream(parts)(30).evidence.lower)
    assert torch.equal(again, epochs[1][6 * 50 : 7 * 50])


def test_processes_share_the_rows(parts: Path) -> None:
    shares = [stream(parts, rank=r, world=2) for r in range(2)]
    every = torch.cat([share(s).evidence.lower for share in shares for s in range(12)])
    assert len(every.unique()) == make_table()["x"].nunique()
    skipping = stream(parts, skip=lambda numbers: numbers % 10 == 5)
    seen = torch.cat([skipping(s).evidence.lower for s in range(24)]).unique()
    assert len(seen) < 1150
    alone = stream(parts, rank=5, world=99)
    assert len(alone(0)) == 50


def test_streamed_models_are_like_others(parts: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"tensor": "ht", "width": 6, "max_steps": 150, "random_state": 0}
    whole = MDMA(**options).fit(make_table())
    path = tmp_path / "check"
    model = fit_stream(MDMA(**options), parts, buffer=300, sampled=200, checkpoint=path)
    assert model.rows_ == 1200
    assert set(model.schema_["k"].kind.categories) == {"a", "b", "rare"}  # of all rows
    assert model.score(make_table()) == pytest.approx(whole.score(make_table()), abs=0.15)
    assert path.exists()
    more = MDMA(**{**options, "max_steps": 160})
    assert fit_stream(more, parts, buffer=300, sampled=200, checkpoint=path).result_.resumed


def test_members_of_the_default_learn_from_the_stream(parts: Path) -> None:
    options: dict[str, Any] = {"max_seconds": 2.0, "n_jobs": 1, "random_state": 0}
    model = fit_stream(MDMA(**options), parts, buffer=300, sampled=200)
    assert model.rows_ == 1200
    assert len(model.members_) > 1
    # Mixtures without noise are fitted to the sample, by EM.
    assert sum(member["noise"] > 0 for member in model.members_) > 1
    assert all(member["steps"] > 0 for member in model.members_ if member["noise"] > 0)
    alone = MDMA(tensor="ht", width=6, max_steps=150, random_state=0).fit(make_table())
    assert model.score(make_table()) > alone.score(make_table()) - 0.15
    with pytest.raises(ValueError, match="mixture"):
        fit_stream(MDMA(), parts, checkpoint="check")
    with pytest.raises(ValueError, match="Did you mean 'k'"):
        fit_stream(MDMA(), parts, ignore=["kk"])


def test_tables_beyond_the_rows_in_memory_are_streamed(parts: Path, tmp_path: Path) -> None:
    words = ["fit", str(parts), "-o", str(tmp_path / "m.mdma"), "--json", "--set", "max_steps=3"]

    def fitted(*more: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*words, "--width", "2", *more])
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    assert fitted("--rows", "1000")["rows"] == 1200  # all rows, streamed
    assert fitted("--rows", "1000", "--no-stream")["rows"] == 1000  # a sample
    assert "processes" not in fitted()  # in memory
    done = CliRunner().invoke(app, [*words, "--rows", "9", "--validation", str(parts)])
    assert "--no-stream" in done.output


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


# One start of two processes, which takes seconds, tests three things: gradients, each process with
# half of a batch; a fit in which one is killed; and, after the restart, a mixture that they share.
PROGRAM = """
import os, sys, signal
from pathlib import Path
import torch
from marginals.training import ranks
from marginals.training.ranks import SharedContraction
from marginals.runtime.backend import QUERY
from marginals.training.fit import FitRun
from marginals import Evidence, build

ranks.join()
x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0)).double()
model = build(x, width=5, dtype=torch.float64, seed=0)
def gradients(contract, rows):
    model.zero_grad()
    (-contract(model.checked(Evidence.exact(rows)), QUERY).mean()).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])
alone = gradients(model.contract, x)
shared = gradients(SharedContraction(model), x[ranks.rank()::2])
error = float((alone - shared).abs().max() / alone.abs().max())
assert error < 1e-6, error
marker, step = Path(sys.argv[1]), FitRun.step
def dying(run):
    if ranks.rank() == 1 and run.state.step == 12 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    step(run)
FitRun.step = dying
from marginals.cli import app
folder = sys.argv[2]
if marker.exists():
    leave, ranks.leave = ranks.leave, lambda: None
    words = ["fit", folder, "--json", "-o", sys.argv[3] + ".mixture", "--max-seconds", "2"]
    app([*words, "--buffer", "300"], standalone_mode=False)
    ranks.leave = leave
app(["fit", folder, "-o", *sys.argv[3:]], standalone_mode=False)
"""


def test_processes_train_together_and_resume(parts: Path, tmp_path: Path) -> None:
    script, marker, out = tmp_path / "two.py", tmp_path / "died", tmp_path / "m.mdma"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "--max-restarts", "1", str(script), str(marker)]
    command += [str(parts), str(out), "--width", "6", "--set", "max_steps=60"]
    command += ["--set", "tensor=ht", "--checkpoint", str(tmp_path / "check"), "--buffer", "300"]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert marker.exists()
    model = load(out)
    assert isinstance(model, MDMA)
    assert model.result_.resumed
    options: dict[str, Any] = {"tensor": "ht", "width": 6, "max_steps": 60, "random_state": 0}
    alone = fit_stream(MDMA(**options), parts, buffer=300)
    assert model.score(make_table()) == pytest.approx(alone.score(make_table()), abs=0.1)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("{"))
    assert json.loads(line)["processes"] == 2
    mixture = load(f"{out}.mixture")
    assert isinstance(mixture, MDMA)
    assert len(mixture.members_) > 1
    assert mixture.score(make_table()) > -3
