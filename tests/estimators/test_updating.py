"""A model goes on with new rows, and does not forget the old ones unless told to."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Mixture, load


def table(rows: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1, rows)
    frame = pd.DataFrame(
        {
            "x": x,
            "n": rng.poisson(np.exp(0.3 * np.clip(x, -3, 3))),
            "city": np.where(rng.random(rows) < 0.5, "a", "b"),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "x"] = np.nan
    return frame


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("update") / "m.mdma"
    options: dict[str, Any] = {"max_steps": 60, "random_state": 0}
    tree = MDMA(tensor="ht", width=4, **options).fit(table(600, 0))
    other = MDMA(tensor="copula", width=2, **options).fit(table(600, 0))
    tree.module_ = Mixture([tree.module_, other.module_])
    tree.save(path)
    return path


def test_new_rows_are_learned_and_old_ones_kept(saved: Path) -> None:
    model = load(saved)
    assert isinstance(model, MDMA)
    new, old = table(600, 1, shift=3.0), table(300, 2)
    later = table(300, 3, shift=3.0)
    before, before_old = model.score(later), model.score(old)
    found = model.update(new, max_steps=100)
    assert found.after > found.before + 0.3
    assert model.score(later) > before + 0.3
    assert model.score(old) > before_old - 1.0  # half of the mass is elsewhere now: log 2, and more
    assert model.rows_ == 1200
    assert "before" in str(found)
    assert abs(found.before - before) < 0.5


def test_old_rows_can_be_forgotten(saved: Path) -> None:
    kept, forgot = load(saved), load(saved)
    new, later = table(400, 1, shift=3.0), table(300, 3, shift=3.0)
    options: dict[str, Any] = {"max_steps": 60, "random_state": 0}
    kept.update(new, weight=0.05, **options)
    forgot.update(new, old_rows=0, **options)
    assert forgot.score(later) > kept.score(later) + 0.1
    assert kept.score(table(300, 2)) > forgot.score(table(300, 2)) + 0.1


def test_training_rows_are_used_where_the_model_holds_them() -> None:
    model = MDMA(tensor="ht", width=3, max_steps=30, random_state=0).fit(table(300, 0))
    before = model.score(table(300, 0))
    model.update(table(50, 1)[["x", "city"]], max_steps=20)
    assert abs(model.score(table(300, 0)) - before) < 0.5
    with pytest.raises(ValueError, match="without rows"):
        model.update(table(10, 1).head(0))
    with pytest.raises(ValueError, match="'c'"):
        model.update(pd.DataFrame({"city": ["c"]}))


def test_command(saved: Path, tmp_path: Path) -> None:
    import json

    from typer.testing import CliRunner

    from marginals.cli import app

    table(400, 5).to_csv(tmp_path / "old.csv", index=False)
    table(400, 1, shift=2.0).assign(id=1).to_csv(tmp_path / "new.csv", index=False)
    words = ["update", str(saved), f"{tmp_path}/new.csv", "--old", f"{tmp_path}/old.csv", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert set(told) == {"drift"}
    assert told["drift"]["drifted"][0] == "x"
    assert "city" not in told["drift"]["drifted"]
    out = f"{tmp_path}/new.mdma"
    done = CliRunner().invoke(app, [*words[:3], "-o", out, "--max-steps", "40"])
    assert done.exit_code == 0, done.output
    assert "Drift" in done.stderr
    assert "after" in done.stderr
    assert load(out).rows_ == 1000
