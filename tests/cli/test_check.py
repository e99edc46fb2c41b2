"""`marginals check`: the report as text, JSON and a picture."""

import json

import pytest

from tests.cli.conftest import COLUMNS, Run


def test_report_as_text_json_and_picture(run: Run, tmp_path: object) -> None:
    pytest.importorskip("matplotlib")
    files = f"{tmp_path}/report.json", f"{tmp_path}/report.png"
    few = ["--questions", "20"]
    done = run("check", "model.mdma", "data.csv", "-o", files[0], "--plot", files[1], *few)
    assert "columns to look at first" in done.stdout
    assert "columns that the model does not have were left out: id" in done.stdout
    with open(files[0], encoding="utf-8") as file:
        report = json.load(file)
    assert {line["column"] for line in report["margins"]} == set(COLUMNS)
    assert report["checked"] == report["rows_in_file"] == 300
    assert "rain >= 0" in {line["rule"] for line in report["rules"]}
    with open(files[1], "rb") as picture:
        assert picture.read(4) == b"\x89PNG"
    again = json.loads(run("check", "model.mdma", "data.parquet", *few, "--json").stdout)
    assert again["questions"] == report["questions"]
    some = json.loads(run("check", "model.mdma", "data.arrow", "--rows", "50", "--json").stdout)
    assert (some["checked"], some["rows_in_file"]) == (50, 300)


def test_a_target_that_cannot_be_written_is_refused_first(run: Run) -> None:
    done = run("check", "absent.mdma", "data.csv", "--plot", "no/folder/report.png", code=1)
    assert "--plot" in done.output
