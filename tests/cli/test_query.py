"""`query`, `mi`, `independence`, `plot` and `demo`."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marginals.cli import output
from tests.cli.conftest import COLUMNS, Run

QUERIES = {
    "P(income > 20000, 20 <= age < 30 | city in {Oslo, Bergen})": lambda m: m.prob(
        {"income": (20000, None), "age": (19, 29)}, given={"city": {"Oslo", "Bergen"}}
    ),
    "P(rain = 0)": lambda m: m.prob({"rain": 0}),
    "P(rain <= 0 | rain >= 0)": lambda m: m.prob({"rain": 0}),
    "P(age = 40 | city = 007)": lambda m: m.prob({"age": 40}, given={"city": "007"}),
    "p(income = 20000 | age = 40)": lambda m: m.pdf({"income": 20000}, given={"age": 40}),
    "E[income | age = 40]": lambda m: m.mean("income", given={"age": 40}),
    "SD[income]": lambda m: m.std("income"),
    "Q[0.9](income | age = 40)": lambda m: m.ppf(0.9, "income", given={"age": 40}),
}


def test_answers_are_the_models(run: Run, model: Any) -> None:
    wanted = [float(ask(model)) for ask in QUERIES.values()]
    lines = run("query", "model.mdma", *QUERIES).stdout.splitlines()
    assert [float(line) for line in lines] == pytest.approx(wanted, rel=1e-6)
    answers = json.loads(run("query", "model.mdma", *QUERIES, "--json").stdout)["answers"]
    assert [a["query"] for a in answers] == list(QUERIES)
    assert [a["value"] for a in answers] == pytest.approx(wanted, rel=1e-6)


def test_lines_of_answers(run: Run) -> None:
    asked = ["P(rain >= 0)", "P(rain > 0)", "P(rain = 0)", "Q[0.05, 0.5, 0.95](income)", "E[day]"]
    *masses, quantiles, day = run("query", "model.mdma", *asked).stdout.splitlines()
    whole, above, atom = map(float, masses)
    assert whole == pytest.approx(1)
    assert above + atom == pytest.approx(1)
    assert 0.1 < atom < 0.9
    values = [float(cell) for cell in quantiles.split("\t")]
    assert values == sorted(values)
    assert len(values) == 3
    assert day.startswith("2024-")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("P(age > 30", "Expected ')'"),
        ("P(agee > 30)", "Did you mean 'age'?"),
        ("P(city = Olso)", "Did you mean 'Oslo'?"),
        ("P(income = 3)", "small p"),
        ("E[city]", "categorical"),
        ("E[age | age = 3]", "only P"),
        ("Q[0.5](day | day2 = 1)", "Did you mean 'day'"),
    ],
)
def test_mistakes_show_the_place(run: Run, query: str, words: str) -> None:
    done = run("query", "model.mdma", query, code=1)
    message, shown, caret = done.stderr.rstrip("\n").split("\n")
    assert message.startswith("Error: Expected")
    assert words in message
    assert shown.strip() == query
    assert caret.strip() == "^"
    assert done.stdout == ""
    if words == "Expected ')'":  # shown before the model is read
        assert words in run("query", "absent.mdma", query, code=1).stderr


def test_a_table_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.print_table(["query", "answer"], [["E[x]", 1 / 3], ["Q", [0.25, None]]])
    shown = capsys.readouterr().out
    assert "E[x]" in shown
    assert "0.333333" in shown
    assert "0.25, " in shown
    assert "│" in shown


def test_json_has_no_odd_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    odd = {"a": np.nan, "b": [np.inf, -np.inf], "c": np.float32(1), "d": np.datetime64("NaT")}
    output.print_json(odd)
    told = json.loads(capsys.readouterr().out)
    assert told == {"a": None, "b": ["inf", "-inf"], "c": 1.0, "d": None}


# Dependence, pictures ---------------------------------------------------------------------------


def test_dependence(run: Run) -> None:
    done = run("mi", "model.mdma", "age", "income,city", "--given", "rain", "--json")
    told = json.loads(done.stdout)
    assert told["stderr"] >= 0
    assert told["given"] == ["rain"]
    done = run("independence", "model.mdma", "data.csv", "age", "income", "-g", "rain", "--json")
    told = json.loads(done.stdout)
    assert 0 <= told["pvalue"] <= 1
    assert told["rows"] > 1
    assert run("mi", "model.mdma", "age", "income").stdout.startswith("a\tb\tgiven\tvalue")
    assert "Did you mean 'age'" in run("mi", "model.mdma", "agee", "income", code=1).stderr


def test_plot_without_plotting(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("plot", "model.mdma", "-o", "x.png", code=1)
    assert 'pip install "marginals[plot]"' in done.stderr


def test_plot(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def pairs(model: Any, columns: Any, data: Any = None) -> Any:
        import matplotlib.pyplot as plt

        asked.append((columns, data))
        figure, axes = plt.subplots(1, 2)
        plt.close(figure)
        return axes

    monkeypatch.setitem(sys.modules, "marginals.plotting", types.SimpleNamespace(pairs=pairs))
    path = str(tmp_path / "pairs.png")
    assert run("plot", "model.mdma", "-o", path).stderr == f"Drew {path}.\n"
    done = run(
        "plot", "model.mdma", "--pairs", "age, city", "--data", "data.csv", "-o", path, "--json"
    )
    assert json.loads(done.stdout) == {"output": path, "columns": ["age", "city"]}
    assert [columns for columns, _ in asked] == [None, ["age", "city"]]
    assert set(COLUMNS) <= set(asked[1][1].columns)
    assert Path(path).stat().st_size > 0
    assert "folder that exists" in run("plot", "absent.mdma", "-o", "no/x.png", code=1).stderr


def test_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def tour() -> None:
        print("a tour")

    monkeypatch.setitem(sys.modules, "marginals.cli.demo", types.SimpleNamespace(main=tour))
    assert run("demo").stdout == "a tour\n"


def test_sql(run: Run, model: Any) -> None:
    pytest.importorskip("duckdb")
    found = run("sql", "model.mdma", "SELECT model_prob('income > 20000 | age = 40')").stdout
    wanted = model.prob({"income": (20000, None)}, given={"age": 40})
    assert float(found.splitlines()[1]) == pytest.approx(wanted, rel=1e-5)
    text = "SELECT id, m_tail(t) p FROM 'data.parquet' t ORDER BY p LIMIT 3"
    done = run("sql", "model.mdma", text, "--name", "m", "--ignore", "id", "--json")
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 3
    assert rows[0]["p"] <= rows[2]["p"]
    run("sql", "model.mdma", "FROM model_sample(4)", "-o", "drawn.csv")
    assert "'id'" in run("sql", "model.mdma", text.replace("m_", "model_"), code=1).stderr
    assert "Error" in run("sql", "model.mdma", "SELEC 1", code=1).stderr
