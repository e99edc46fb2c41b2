"""`score`, `sample`, `impute` and `anomalies`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, MDMAOutlierDetector
from marginals.engines import model_columns
from marginals.io import tables
from tests.cli.conftest import COLUMNS, Run, make_table

FILES = ["data.csv", "data.parquet", "data.arrow"]


@pytest.fixture
def scores(model: Any) -> Any:
    return model.score_samples(make_table()[COLUMNS])


@pytest.fixture(params=[None, 70], ids=["one batch", "batches"])
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(model_columns, "ROWS", request.param)


# Scores ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("batch")
@pytest.mark.parametrize("name", FILES)
def test_scores_are_the_models(run: Run, scores: Any, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "scores.parquet")
    done = run("score", "model.mdma", name, "-o", path)
    assert done.stderr == f"Wrote 300 rows to {path}.\n"
    assert done.stdout == ""
    np.testing.assert_allclose(tables.read(path)["log_density"], scores, rtol=1e-5)


def test_scores_through_pipes(run: Run, folder: Path, scores: Any) -> None:
    for name, format in (("data.csv", []), ("data.parquet", ["--format", "parquet"])):
        data = (folder / name).read_bytes()
        done = run("score", "model.mdma", "-", "-o", f"{folder}/s.tsv", *format, stdin=data)
        assert done.stderr.startswith("Wrote 300 rows")
        found = tables.read(folder / "s.tsv")["log_density"]
        np.testing.assert_allclose(found, scores, rtol=1e-5)


def test_other_columns_and_json(run: Run, scores: Any, tmp_path: Path) -> None:
    lines = run("score", "model.mdma", "data.csv", "--keep", "id", "--keep", "city").stdout
    assert lines.splitlines()[0] == "id,city,log_density"
    assert lines.splitlines()[1].startswith("r0,")
    assert "--keep" in run("score", "model.mdma", "data.csv", "--keep", "x", code=1).stderr
    told = json.loads(run("score", "model.mdma", "data.csv", "--json").stdout)
    assert told["count"] == 300
    assert told["rows"][0]["log_density"] == pytest.approx(scores[0], rel=1e-5)
    path = str(tmp_path / "s.csv")
    told = json.loads(run("score", "model.mdma", "data.csv", "-o", path, "--json").stdout)
    assert told == {"count": 300, "output": path}


def test_absent_columns_are_marginalised(run: Run, model: Any, tmp_path: Path) -> None:
    part = make_table()[["income", "city"]]
    part.to_csv(tmp_path / "part.csv", index=False)
    run("score", "model.mdma", f"{tmp_path}/part.csv", "-o", f"{tmp_path}/s.csv")
    found = tables.read(tmp_path / "s.csv")["log_density"]
    np.testing.assert_allclose(found, model.score_samples(part), rtol=1e-5)


@pytest.mark.parametrize(
    ("content", "words"),
    [("a,b\n1,2\n", "columns of the model"), ("city,rain\nOslo,1\nParis,2\n", "Paris")],
)
def test_wrong_tables(run: Run, tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "wrong.csv").write_text(content)
    assert words in run("score", "model.mdma", f"{tmp_path}/wrong.csv", code=1).stderr


# Samples --------------------------------------------------------------------------------------


def test_samples_are_the_models(run: Run, model: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    run("sample", "model.mdma", "50", "--seed", "7", "-o", path)
    wanted = model.sample(50, random_state=7)
    pd.testing.assert_frame_equal(tables.read(path), wanted, check_dtype=False)


def test_samples_in_batches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_columns, "ROWS", 20)
    first, again = (run("sample", "model.mdma", "50").stdout.splitlines() for _ in range(2))
    assert first == again
    assert first[0] == ",".join(COLUMNS)
    assert len(set(first)) == 51  # no batch repeats another
    assert run("sample", "model.mdma", "0").stdout == ",".join(COLUMNS) + "\n"
    run("sample", "model.mdma", "-1", code=2)


def test_samples_given_evidence(run: Run) -> None:
    told = run("sample", "model.mdma", "30", "-g", "age = 40, city in {Oslo, 007}", "--json")
    rows = json.loads(told.stdout)["rows"]
    assert {row["age"] for row in rows} == {40}
    assert {row["city"] for row in rows} <= {"Oslo", "007"}
    done = run("sample", "model.mdma", "3", "--given", "age = ", code=1)
    assert "Expected a column or a value" in done.stderr


def test_samples_for_each_row(run: Run, model: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    given = make_table()[["age", "city"]]
    given.to_csv(tmp_path / "given.csv", index=False)
    run("sample", "model.mdma", "2", "--for-each", f"{tmp_path}/given.csv", "-o", path)
    found, wanted = tables.read(path), model.sample(2, given=given, random_state=0)
    assert found["row"].tolist() == wanted.index.tolist()
    assert found["income"].tolist() == wanted["income"].tolist()
    both = ["--for-each", "data.csv", "--given", "age = 40"]
    run("sample", "model.mdma", "2", *both, code=2)


# Imputation -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("batch")
@pytest.mark.parametrize(
    ("method", "name"), [*zip(["mean", "median", "mode"], FILES, strict=True), ("draw", "data.csv")]
)
def test_missing_cells_are_filled(run: Run, tmp_path: Path, method: str, name: str) -> None:
    table, path = make_table(), str(tmp_path / f"full.{name}")
    run("impute", "model.mdma", name, "--method", method, "-o", path)
    full = tables.read(path, dtypes={"city": str})
    assert list(full.columns) == list(table.columns)
    assert not full[COLUMNS].isna().any().any()
    for column in table.columns:
        observed = table[column].notna()
        assert (full[column][observed] == table[column][observed]).all()


def test_categories_not_seen_in_training(run: Run, tmp_path: Path) -> None:
    path, out = str(tmp_path / "rome.csv"), str(tmp_path / "full.csv")
    pd.DataFrame({"age": [30, None], "city": ["Rome", "Oslo"]}).to_csv(path, index=False)
    for command in ("score", "impute", "anomalies"):
        done = run(command, "model.mdma", path, code=1)
        assert "'Rome'" in done.stderr
        run(command, "model.mdma", path, "--handle-unknown", "missing")
    run("impute", "model.mdma", path, "--handle-unknown", "missing", "-o", out)
    full = pd.read_csv(out)
    assert full["city"].tolist() == ["Rome", "Oslo"]
    assert full["age"].notna().all()


def test_absent_columns_are_added_on_request(run: Run, tmp_path: Path) -> None:
    path, out = str(tmp_path / "few.csv"), str(tmp_path / "more.csv")
    pd.DataFrame({"age": [30, None], "city": ["Oslo", None]}).to_csv(path, index=False)
    run("impute", "model.mdma", path, "--column", "income", "--column", "age", "-o", out)
    full = pd.read_csv(out)
    assert list(full.columns) == ["age", "city", "income"]
    assert full.notna().to_numpy().tolist() == [[True, True, True], [True, False, True]]
    assert (full["age"] % 1 == 0).all()
    done = run("impute", "model.mdma", path, "--column", "incom", code=1)
    assert "Did you mean 'income'" in done.stderr


def test_draws(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "draws.parquet")
    options = ["--method", "draw", "--draws", "2", "-o", path]
    run("impute", "model.mdma", "data.csv", *options, "--seed", "1")
    full = tables.read(path)
    assert list(full.columns[:3]) == ["row", "draw", "id"]
    assert full.groupby("draw")["row"].nunique().tolist() == [300, 300]
    gaps = make_table()["income"].isna().to_numpy()
    first, second = (part["income"].to_numpy() for _, part in full.groupby("draw"))
    assert (first[~gaps] == second[~gaps]).all()
    assert (first[gaps] != second[gaps]).any()
    done = run("impute", "model.mdma", "data.csv", "--draws", "2", code=2)
    assert "draw" in done.stderr
    run("impute", "model.mdma", "data.csv", "--method", "guess", code=2)


def test_intervals(run: Run, model: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "ends.parquet")
    run(
        "impute", "model.mdma", "data.parquet", "--method", "interval", "--level", "0.8", "-o", path
    )
    found = tables.read(path)
    for line in model.impute_interval(make_table()[COLUMNS], 0.8).itertuples():
        assert found.loc[line.row, f"{line.column}_lower"] == line.lower
        assert found.loc[line.row, f"{line.column}_upper"] == line.upper


# Cells that are copied ------------------------------------------------------------------------

HEADER = ["code", "age", "income", "note", "city", "rain", "day"]
CELLS = [
    ["001", "40", "12345.10", '"a""b"', "007", "0", "2024-01-05"],
    ["NA", "", "2e4", "1.10", '"Oslo"', "0.100", "2024-02-05"],
    ["1.10", "41", "", "", "Bergen", "", "2024-03-05"],
    ["", "042", "20000.000000000000000001", "NA", "NA", "3", "NaN"],
    ['"7"', "43.0", "+23000", "null", "", "1.50", ""],
]
GAPS = {(1, 1), (2, 2), (2, 5), (3, 4), (3, 6), (4, 4), (4, 6)}


@pytest.mark.usefixtures("batch")
@pytest.mark.parametrize("method", ["mean", "draw"])
@pytest.mark.parametrize(("separator", "newline"), [(",", "\n"), (";", "\r\n"), ("\t", "\n")])
def test_observed_cells_keep_their_text(
    run: Run, tmp_path: Path, method: str, separator: str, newline: str
) -> None:
    lines = [separator.join(row) for row in [HEADER, *CELLS * 30]]
    (tmp_path / "t.csv").write_bytes(newline.join([*lines, ""]).encode())
    run("impute", "model.mdma", f"{tmp_path}/t.csv", "--method", method, "-o", f"{tmp_path}/u.csv")
    found = (tmp_path / "u.csv").read_bytes().decode().split(newline)
    assert len(found) == len(lines) + 1
    assert found[:2] == lines[:2]  # a row without gaps
    for number, (old, new) in enumerate(zip(lines[1:], found[1:], strict=False)):
        pairs = zip(old.split(separator), new.split(separator), strict=True)
        changed = {(number % 5, place) for place, (a, b) in enumerate(pairs) if a != b}
        assert changed == {gap for gap in GAPS if gap[0] == number % 5}
    whole = found[2].split(separator)[1]
    assert whole == str(int(whole))


def test_decimal_commas_stay(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id;age;income;rain\n01;40;12345,10;0\n02;41;;1,50\n")
    first, second = run("impute", "model.mdma", f"{tmp_path}/t.csv").stdout.splitlines()[1:]
    assert first == "01;40;12345,10;0"
    assert second.startswith("02;41;")
    assert second.endswith(";1,50")
    assert float(second.split(";")[2].replace(",", ".")) > 0
    lines = run("score", "model.mdma", f"{tmp_path}/t.csv", "--keep", "income").stdout.splitlines()
    assert lines[0] == "income;log_density"
    assert lines[1].startswith("12345,10;-")
    assert lines[1].count(",") == 2


@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_text_that_the_model_lacks_stays_text(run: Run, tmp_path: Path, suffix: str) -> None:
    lines = [",".join(row) for row in [HEADER, *CELLS]]
    (tmp_path / "t.csv").write_text("\n".join([*lines, ""]))
    path = f"{tmp_path}/u.parquet"
    out = ["-o", path] if suffix == "parquet" else ["--json"]
    done = run("impute", "model.mdma", f"{tmp_path}/t.csv", "--method", "median", *out)
    rows = (
        json.loads(done.stdout)["rows"]
        if suffix == "json"
        else tables.read(path).to_dict("records")
    )
    assert [row["code"] for row in rows] == ["001", "NA", "1.10", "", "7"]
    assert [row["note"] for row in rows] == ['a"b', "1.10", "", "NA", "null"]
    assert [row["age"] for i, row in enumerate(rows) if i != 1] == [40, 41, 42, 43]
    assert rows[3]["income"] == 20000.0
    assert rows[0]["city"] == "007"


def test_arrow_columns_that_the_model_lacks_stay(run: Run, tmp_path: Path) -> None:
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "age": pa.array([40, None], pa.int16()),
            "big": pa.array([2**60 + 1, None]),
            "price": pa.array([Decimal("1.10"), None]),
            "city": pa.array(["Oslo", None]).dictionary_encode(),
            "list": [[1, 2], None],
            "at": pa.array([1, None], pa.timestamp("ms", "Europe/Oslo")),
            "income": pa.array([10000.1, None]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    path = f"{tmp_path}/t.parquet"
    run("impute", "model.mdma", path, "-o", f"{tmp_path}/u.parquet")
    full = pq.read_table(tmp_path / "u.parquet")
    assert full.schema.equals(table.schema)
    assert full.slice(0, 1).to_pylist() == table.slice(0, 1).to_pylist()
    filled = full.to_pylist()[1]
    assert {name for name, value in filled.items() if value is None} == {
        "big",
        "price",
        "list",
        "at",
    }
    done = run("score", "model.mdma", path, "--keep", "list", "--keep", "price", "--json")
    (first, _) = json.loads(done.stdout)["rows"]
    assert (first["list"], first["price"]) == ([1, 2], "1.10")


def test_anomalies_show_the_texts_of_cells(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,age,income\n1,040,1.10\n2,41,NA\n")
    lines = run("anomalies", "model.mdma", f"{tmp_path}/t.csv").stdout.splitlines()
    assert {tuple(line.split("\t")[-2:]) for line in lines[1:]} == {("040", "1.10"), ("41", "NA")}


def test_equal_headers_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,income,age\n1,2,3\n")
    for command in ("score", "impute", "anomalies"):
        done = run(command, "model.mdma", f"{tmp_path}/t.csv", code=1)
        assert "'age' more than once" in done.stderr
    done = run("fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m.mdma", code=1)
    assert "'age' more than once" in done.stderr


# Anomalies ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("batch")
def test_anomalies(run: Run, model: MDMA, tmp_path: Path) -> None:
    table = make_table()
    table.loc[200, "income"] = 1e9
    table.to_csv(tmp_path / "odd.csv", index=False)
    found = run("anomalies", "model.mdma", f"{tmp_path}/odd.csv", "--top", "3", "--json")
    rows = json.loads(found.stdout)["anomalies"]
    assert len(rows) == 3
    assert rows[0]["row"] == 200
    assert rows[0]["cell"] == "income"
    assert rows[0]["tail"] < 0.01
    # Scores and cells are those of the estimator, compared with draws of the model.
    detector = MDMAOutlierDetector(model).fit(model.sample(2000, random_state=0))
    path = str(tmp_path / "scores.parquet")
    run("anomalies", "model.mdma", f"{tmp_path}/odd.csv", "--keep", "id", "-o", path)
    every = tables.read(path)
    assert every.columns.tolist() == ["id", "anomaly_score", "anomaly_cell", "anomaly_tail"]
    assert every.loc[200].tolist()[1:] == [rows[0]["score"], "income", rows[0]["tail"]]
    scores = detector.score_samples(table[COLUMNS])
    np.testing.assert_allclose([row["score"] for row in rows], np.sort(scores)[:3], rtol=1e-6)
    cells = detector.blame(table[COLUMNS]).iloc[[row["row"] for row in rows]]
    assert [row["cell"] for row in rows] == cells["column"].tolist()
    lines = run("anomalies", "model.mdma", f"{tmp_path}/odd.csv").stdout.splitlines()
    assert lines[0].split("\t") == ["row", "score", "cell", "tail", *COLUMNS]
    assert len(lines) == 21
