"""Data sets are cut as they are said to be, and published splits follow their rules."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from studies.anomalies import FILES
from studies.data import density, tables
from studies.data.density import FOLDS, Split, dequantised, folds, splits
from studies.harness.available import Unavailable
from studies.harness.config import load
from studies.harness.study import Context, find
from studies.imputation import hidden
from studies.prediction import make_task
from studies.synthesis import cut, with_gaps


def normal_rows(count: int, columns: int = 2) -> density.Rows:
    return np.random.default_rng(0).normal(size=(count, columns))


def test_folds_share_no_row_and_are_standardised_by_their_training_rows() -> None:
    rows = 5 + 3 * normal_rows(103)
    parted = folds("iris", rows)
    assert len(parted) == FOLDS
    assert sum(len(split.test) for split in parted) == len(rows)
    for split in parted:
        seen = np.concatenate([split.train, split.val])
        np.testing.assert_allclose(seen.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(seen.std(0), 1)
        assert len(np.unique(np.concatenate([seen, split.test]), axis=0)) == len(rows)
    again = folds("iris", rows)
    assert all((a.val == b.val).all() for a, b in zip(parted, again, strict=True))


def test_dequantising_moves_only_the_last_column_by_half_a_step_at_most() -> None:
    step = 0.25
    rows = np.round(normal_rows(4000) / step) * step
    before = Split("power", None, rows[:2000], rows[2000:3000], rows[3000:])
    after = dequantised(before)
    for part in ("train", "val", "test"):
        moved = getattr(after, part) - getattr(before, part)
        assert (moved[:, 0] == 0).all()
        assert np.abs(moved[:, 1]).max() <= step / 2
        assert moved[:, 1].std() == pytest.approx(step / math.sqrt(12), rel=0.1)


def test_what_is_missing_or_unknown_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MARGINALS_DATA", raising=False)
    with pytest.raises(SystemExit, match=r"Expected `sets` to be among power, .* got 'gras'"):
        splits("gras", Context("cpu"))
    with pytest.raises(Unavailable, match="Give it with --data or in the environment"):
        splits("gas", Context("cpu"))
    with pytest.raises(Unavailable, match=r"Expected the file density/gas.npz"):
        splits("gas", Context("cpu", str(tmp_path)))
    with pytest.raises(SystemExit, match="Expected `tables` to be among"):
        tables.read_table("no", Context("cpu"))


@pytest.mark.data
def test_files_of_the_configs_are_there(data_dir: Path) -> None:
    context = Context("cpu", str(data_dir))
    for name in load(find("anomalies"), "full").settings.sets:
        assert (data_dir / "adbench" / f"{FILES[name]}.npz").exists()
    for name in load(find("imputation"), "full").settings.tables:
        if name != "concrete":  # needs xlrd
            assert tables.complete_table(name, context, 50).notna().all(axis=None)


# Published splits -------------------------------------------------------------------------------


def test_power_is_standardised_and_cut_in_tenths(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", 5 + 100 * normal_rows(1000, 8))
    train, val, test = density.power(tmp_path / "data.npy")
    assert [len(part) for part in (train, val, test)] == [810, 90, 100]
    assert train.shape[1] == 6
    seen = np.concatenate([train, val])
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(seen.std(0), 1)


def test_gas_loses_columns_that_repeat_others(tmp_path: Path) -> None:
    a, b = normal_rows(500).T
    frame = pd.DataFrame({"Time": a, "Meth": a, "Eth": b, "s1": a, "s2": b, "s3": a + 0.01 * b})
    frame.to_pickle(tmp_path / "g.pickle")
    train, _, _ = density.gas(tmp_path / "g.pickle")
    assert train.shape == (405, 2)
    assert np.corrcoef(train[:, 0], b[:405])[0, 1] > 0.99  # s1 went, s2 came first


def test_hepmass_keeps_the_signal_without_its_lattices(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"label": np.tile([0.0, 1.0], 100), "a": rng.normal(size=200)})
    frame["lattice"] = rng.integers(0, 3, 200).astype(float)
    frame["b"] = rng.normal(size=200)
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.assign(more=1.0).to_csv(tmp_path / "test.csv", index=False)
    train, val, test = density.hepmass(tmp_path / "train.csv", tmp_path / "test.csv")
    assert (train.shape, val.shape, test.shape) == ((90, 2), (10, 2), (100, 2))


def test_original_files_come_before_the_prepared_one_and_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context("cpu", str(tmp_path))
    (tmp_path / "density").mkdir()
    parts = {part: np.zeros((4, 43), np.float32) for part in ("train", "val", "test")}
    np.savez(tmp_path / "density" / "miniboone.npz", **parts)  # type: ignore[arg-type]
    split, original = density.split_of("miniboone", context)
    assert (len(split.train), original) == (4, False)
    (tmp_path / "miniboone").mkdir()
    np.save(tmp_path / "miniboone" / "data.npy", normal_rows(200, 43))
    with pytest.raises(SystemExit, match="Expected the original files of miniboone"):
        density.split_of("miniboone", context)
    monkeypatch.setattr(density, "SHAPES", {"miniboone": density.Shape(162, 18, 20, 43)})
    split, original = density.split_of("miniboone", context)
    assert (len(split.train), original) == (162, True)


# Hidden cells -----------------------------------------------------------------------------------


def wide(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(rows, 6)), columns=list("abcdef"))
    return numbers.assign(word=rng.choice(["x", "y", "z"], rows))


def test_cells_are_hidden_by_themselves() -> None:
    mask = hidden(wide(), "mcar", 0.3, seed=0)
    np.testing.assert_allclose(mask.mean(0), 0.3, atol=5 * math.sqrt(0.21 / 4000))
    assert abs(np.corrcoef(mask.T)[np.triu_indices(7, 1)]).max() < 5 / math.sqrt(4000)


def test_cells_are_hidden_by_columns_that_stay() -> None:
    frame = wide()
    mask = hidden(frame, "mar", 0.5, seed=0)
    stay = ~mask.any(0)
    assert stay.sum() == 2
    np.testing.assert_allclose(mask[:, ~stay].mean(0), 0.5, atol=5 * math.sqrt(0.25 / 4000))
    again = hidden(frame.assign(**dict.fromkeys(frame.columns[~stay], 0.0)), "mar", 0.5, seed=0)
    # What is hidden does not depend on the cells that may be.
    assert (again[:, ~stay] == mask[:, ~stay]).mean() > 0.999


def test_a_column_keeps_two_values() -> None:
    few = pd.DataFrame({"a": [0.0] * 30 + [1.0], "b": np.arange(31.0)})
    for seed in range(5):
        mask = hidden(few, "mcar", 0.9, seed)
        assert few["a"][~mask[:, 0]].nunique() == 2


def test_the_same_rows_are_predicted_with_and_without_gaps() -> None:
    whole, gaps = (
        make_task("breast-cancer", Context("cpu"), share, seed=1, rows=2000) for share in (0.0, 0.3)
    )
    assert whole.y_test.equals(gaps.y_test)
    assert not whole.x.isna().any(axis=None)
    assert gaps.x.isna().mean(axis=None) == pytest.approx(0.3, abs=0.05)


def test_tables_are_cut_and_gaps_are_put_back() -> None:
    frame = wide(300)
    frame.loc[::7, "a"] = np.nan
    fitted, unseen = cut(frame, 0)
    assert (len(fitted), len(unseen)) == (210, 90)
    drawn = with_gaps(fitted.fillna(0.0), fitted, 1)
    assert drawn["a"].isna().mean() == pytest.approx(fitted["a"].isna().mean(), abs=0.06)
    assert drawn["b"].notna().all()
