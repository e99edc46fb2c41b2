"""Published splits by their rules, and tables that name what they compare."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.density import EXPERIMENT, published
from experiments.density.run import FLOOR, floored


def test_the_floor_of_the_authors() -> None:
    scores = np.array([-1.0, -1000.0, -np.inf, np.nan])
    assert floored(scores) == pytest.approx((-1 + 3 * FLOOR) / 4)


def test_power_is_standardised_and_cut_in_tenths(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", 5 + 100 * rng.normal(size=(1000, 8)))
    train, val, test = published.power(tmp_path / "data.npy")
    assert [len(part) for part in (train, val, test)] == [810, 90, 100]
    assert train.shape[1] == 6
    seen = np.concatenate([train, val])
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(seen.std(0), 1)


def test_gas_loses_columns_that_repeat_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 500))
    frame = pd.DataFrame({"Time": a, "Meth": a, "Eth": b, "s1": a, "s2": b, "s3": a + 0.01 * b})
    frame.to_pickle(tmp_path / "g.pickle")
    train, _, _ = published.gas(tmp_path / "g.pickle")
    assert train.shape == (405, 2)
    assert np.corrcoef(train[:, 0], b[:405])[0, 1] > 0.99  # s1 went, s2 came first


def test_hepmass_keeps_the_signal_without_its_lattices(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "label": np.tile([0.0, 1.0], 100),
        "a": rng.normal(size=200),
        "lattice": rng.integers(0, 3, 200).astype(float),
        "b": rng.normal(size=200),
    }
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.assign(more=1.0).to_csv(tmp_path / "test.csv", index=False)
    train, val, test = published.hepmass(tmp_path / "train.csv", tmp_path / "test.csv")
    assert (train.shape, val.shape, test.shape) == ((90, 2), (10, 2), (100, 2))


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.random.default_rng(0).normal(size=(100, 43)))
    with pytest.raises(SystemExit, match="Expected the original files of miniboone"):
        published.published("miniboone", [tmp_path / "data.npy"])


def test_original_files_come_before_the_prepared_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "density").mkdir()
    parts = {part: np.zeros((4, 43), np.float32) for part in ("train", "val", "test")}
    np.savez(tmp_path / "density" / "miniboone.npz", **parts)  # type: ignore[arg-type]
    split, original = published.split_of("miniboone", lambda: tmp_path)
    assert (len(split.train), original) == (4, False)
    (tmp_path / "miniboone").mkdir()
    np.save(tmp_path / "miniboone" / "data.npy", np.random.default_rng(0).normal(size=(200, 43)))
    shapes = {"miniboone": published.Shape(162, 18, 20, 43)}
    monkeypatch.setattr(published, "SHAPES", shapes)
    split, original = published.split_of("miniboone", lambda: tmp_path)
    assert (len(split.train), original) == (162, True)


def record(**values: Any) -> dict[str, Any]:
    return {
        **{"seed": 0, "set": "miniboone", "model": "paper", "test_mean": -30.0},
        **{"test_min": -300.0, "test_floored": -29.5, "rows_minus_inf": 0, "train_rows": 4123},
        **{"partial_rows": 5339, "published_split": False, "fit_s": 8.0, "fitted": {"steps": 9}},
        **values,
    }


def test_the_table_names_rows_floor_and_published_figures() -> None:
    records = [
        record(),
        record(seed=1, test_mean=-32.0),
        record(model="nmdma", test_mean=-math.inf, rows_minus_inf=2, partial_rows=0),
    ]
    paper = {
        "train_rows": {"miniboone": 29_556, "power": 1_659_917},
        "published": {"miniboone": {"MDMA": "-29.0"}, "power": {"MDMA": "0.57"}},
        "same_test_rows": ["miniboone"],
    }
    records.append(record(set="power", test_mean=0.5))
    text = EXPERIMENT.tables(records, paper)
    assert "| MINIBOONE | -31.00 ± 1.41 | -inf [2] | 4,123 | 5,339 |" in text
    assert "| MINIBOONE | -29.50 (-300) | -29.50 (-300) |" in text
    assert "| MDMA | -29.0 | 29,556 |" in text
    assert "| here: paper's MDMA | -31.00 ± 1.41 | 4,123 and 5,339 with gaps |" in text
    assert "0.57" not in text  # other test rows
    assert "benchmarks" not in text


def test_benchmarks_fill_in_what_was_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        {**record(set=name, test_mean=mean), "device": "cpu"}
        for name, mean in (("gas", 77.0), ("power", 88.0))
    ]
    module = sys.modules["experiments.density.tables"]
    monkeypatch.setattr(module, "elsewhere", lambda paper, names: found)
    here = [record(set="gas"), record(set="power", model="ht")]
    text = EXPERIMENT.tables(here, {"benchmarks": []})
    assert "77.00" not in text
    assert "| POWER | 88.00 |" in text


def test_a_likelihood_of_zero_is_marked_in_the_figure() -> None:
    pytest.importorskip("matplotlib")
    records = [record(), record(model="vine", test_mean=-math.inf)]
    axes = EXPERIMENT.figures(records, {})["scores"].axes[0]
    assert [text.get_text() for text in axes.texts] == [r"$-\infty$"]
