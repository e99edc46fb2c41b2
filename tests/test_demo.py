"""The tour runs from start to end, says what it promises, and draws its picture."""

from pathlib import Path

import numpy as np
import pytest

from marginals import MDMA
from marginals.cli import demo


@pytest.fixture(scope="module")
def data() -> demo.Wine:
    return demo.load(seed=0)


@pytest.fixture(scope="module")
def model(data: demo.Wine) -> MDMA:
    return MDMA(width=8, max_steps=100, random_state=0).fit(data.train)


def cells(table: object) -> list[list[str]]:
    """The rows of a rich table."""
    return list(map(list, zip(*(column._cells for column in table.columns), strict=True)))


def test_tour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(tmp_path / "new", max_steps=50)
    out, err = capsys.readouterr()
    assert err == "", "no progress bar away from a terminal"
    assert max(map(len, out.replace(str(tmp_path), "").splitlines())) <= 80
    for told in ("Gaussian mixture", "KDE", "P(proline > 1000", "Q[0.05", "truth", "surprise"):
        assert told in out
    picture = tmp_path / "new" / demo.PICTURE
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size > 20_000
    assert "marginals explore" in out
    assert (tmp_path / "new" / demo.MODEL).exists()
    assert (tmp_path / "new" / demo.ROWS).exists()


def test_hidden_cells_are_missing_and_the_others_unchanged(data: demo.Wine) -> None:
    hidden = data.train.isna().to_numpy()
    assert 0.1 < hidden.mean() < 0.2
    assert not data.truth.isna().to_numpy().any()
    assert not data.test.isna().to_numpy().any()
    same = (data.train == data.truth).fillna(False).to_numpy()
    assert np.array_equal(same, ~hidden)
    assert not set(data.train.index) & set(data.test.index)
    assert list(data.train.dtypes) == list(data.test.dtypes)


def test_peers_are_scored_in_the_units_of_the_columns(data: demo.Wine) -> None:
    """A kernel density of stretched columns is that of the columns, less the log of the stretch."""
    train, test = (frame[demo.MEASURED].astype(float) for frame in (data.truth, data.test))
    search = demo.GridSearchCV(demo.KernelDensity(), {"bandwidth": [0.5]})
    before = demo._standardised(search, train, test)
    after = demo._standardised(search, train * 10 + 3, test * 10 + 3)
    assert np.allclose(before - after, len(demo.MEASURED) * np.log(10))


def test_surprise_names_the_cell_that_was_spoilt(data: demo.Wine, model: MDMA) -> None:
    test = data.test.copy()
    spoilt = int(test.index[7])
    test.loc[spoilt, "hue"] = 4.0
    table = demo.surprise(model, data.train, test)
    assert table.columns[0].header == f"row {spoilt}"
    assert cells(table)[0][:2] == ["hue", "4"]


def test_filled_shows_the_gaps_of_one_row(data: demo.Wine, model: MDMA) -> None:
    rows = cells(demo.filled(model, data))
    assert len(rows) == int(data.train.isna().sum(axis=1).max())
    assert all(all(row) for row in rows)
