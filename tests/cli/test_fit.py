"""`fit` and `info`."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from marginals.cli.specs import parse_setting, parse_spec
from marginals.columns import Categorical, Continuous, Integer
from marginals.language import QueryError
from tests.cli.conftest import COLUMNS, FIT, Run


def test_fit_tells_what_it_did(folder: Path, model: Any) -> None:
    told = (folder / "fit.txt").read_text()
    assert told.startswith("Fitted 300 rows of 5 columns in ")
    assert f"wrote {folder}/model.mdma" in told
    assert list(model.schema_.names) == COLUMNS
    kinds = {column.name: type(column.kind) for column in model.schema_}
    assert kinds == {
        "age": Integer,
        "income": Continuous,
        "city": Categorical,
        "rain": Continuous,
        "day": Continuous,
    }
    assert model.schema_["rain"].kind.atoms == (0,)


def test_fit_with_everything(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "m.mdma")
    options = ["-o", path, "--seed", "3", "--max-seconds", "0.2", "--set", "tensor=cp", *FIT]
    kinds = ["-c", "age=integer(lower=0)", "-c", "city=categorical"]
    done = run("fit", "data.parquet", *options, *kinds, "--validation", "data.csv", "--json")
    facts = json.loads(done.stdout)
    assert facts["output"] == path
    assert (facts["rows"], facts["columns"]) == (300, 5)
    assert isinstance(facts["validation_log_density"], float)
    shown = json.loads(run("info", path, "--json").stdout)
    assert "(cp)" in shown["family"]
    assert shown["schema"][0]["values"] == "lower=0"


def test_codes_stay_text(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "codes.csv"
    table.write_text("code,x\n" + "007,1.5\n12,2.5\n" * 20)
    run("fit", str(table), "-o", f"{tmp_path}/m", "-c", "code=categorical", "--set", "max_steps=2")
    (column, _) = json.loads(run("info", f"{tmp_path}/m", "--json").stdout)["schema"]
    assert column["values"] == "2: 007, 12"
    assert len(run("score", f"{tmp_path}/m", str(table)).stdout.split()) == 41


def test_fit_from_a_pipe(run: Run, folder: Path, tmp_path: Path) -> None:
    data = (folder / "data.parquet").read_bytes()
    run("fit", "-", "--format", "parquet", "-o", f"{tmp_path}/m", *FIT, stdin=data)
    assert (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.csv"], "no such file"),
        (["data.xlsx"], ".csv, .tsv, .parquet"),
        (["data.csv", "--ignore", "ID"], "Did you mean 'id'?"),
        (
            ["data.csv", "-c", "age=whole"],
            "Known: 'continuous', 'integer', 'discrete', 'categorical'",
        ),
        (["data.csv", "-c", "agee=integer"], "agee"),
        (["data.csv", "--set", "learning_rat=1"], "Did you mean 'learning_rate'?"),
        (["data.csv", "--set", "width=3"], "to name a setting"),
        (["data.csv", "--validation", "absent.csv"], "no such file"),
        (["absent.csv", "-o", "absent/model.mdma"], "folder that exists"),  # before anything else
    ],
)
def test_mistakes(run: Run, arguments: list[str], words: str) -> None:
    output = [] if "-o" in arguments else ["-o", "other.mdma"]
    done = run("fit", *arguments, *output, code=1)
    assert done.stderr.startswith("Error: Expected")
    assert words in done.stderr
    assert done.stdout == ""


def test_a_folder_without_write_permission_is_refused_before_the_fit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    done = run("fit", "absent.csv", "-o", "m.mdma", code=1)
    assert "Expected --output to be in a folder that you may write to" in done.stderr


def test_info(run: Run) -> None:
    lines = [line.split("\t") for line in run("info", "model.mdma").stdout.splitlines()]
    assert lines[:2] == [["fact", "value"], ["model", "MDMA"]]
    rows = [line for line in lines if len(line) > 4]
    assert [row[0] for row in rows] == ["column", *COLUMNS]
    assert rows[4][3] == "lower=0, atoms=(0,)"
    facts = json.loads(run("info", "model.mdma", "--json").stdout)
    assert facts["parameters"] > 0
    assert [row[1] for row in rows[1:]] == [column["kind"] for column in facts["schema"]]
    assert "no such file" in run("info", "absent.mdma", code=1).stderr
    assert "not a marginals file" in run("info", "data.csv", code=1).stderr


SPECS = {
    "age=integer": ("age", Integer()),
    "age = integer ( lower = 0 , upper = 120 )": ("age", Integer(lower=0, upper=120)),
    "`home town`=categorical": ("home town", Categorical()),
    '"x"=categorical(categories={low, 2, true})': ("x", Categorical(["low", 2, True])),
    "price=continuous(lower=0,resolution=0.01)": (
        "price",
        Continuous(lower=0, resolution=0.01),
    ),
    "rain=continuous(atoms={0, 2.5})": ("rain", Continuous(atoms=(0, 2.5))),
    "day=continuous(lower=2024-01-01, resolution='1 day')": (
        "day",
        Continuous(lower=pd.Timestamp("2024-01-01"), resolution=pd.Timedelta(days=1)),
    ),
    "took=continuous(lower='0 days')": ("took", Continuous(lower=pd.Timedelta(0))),
}


@pytest.mark.parametrize("text", SPECS)
def test_specs(text: str) -> None:
    assert parse_spec(text) == SPECS[text]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0),
        ("age", 3),
        ("3=integer", 0),
        ("age=integer(upperr=3)", 12),
        ("age=integer(lower)", 17),
        ("age=integer(lower=)", 18),
        ("age=integer(lower=0 upper=1)", 20),
        ("age=integer(lower=0", 19),
        ("x=continuous(atoms=0)", 19),
        ("x=categorical(categories={a)", 27),
        ("age=integer, b=integer", 11),
    ],
)
def test_wrong_specs(text: str, at: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse_spec(text)
    assert caught.value.position == at


def test_settings() -> None:
    assert parse_setting("noise=0.1") == ("noise", 0.1)
    with pytest.raises(QueryError, match="name of a setting"):
        parse_setting("1=2")
    with pytest.raises(QueryError, match="end of the text"):
        parse_setting("a=1 2")
