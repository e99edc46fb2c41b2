"""A core install fits, answers, saves, loads and runs commands; an absent extra is named."""

import json
from pathlib import Path

import pytest

from tests.package.environment import Environment, project

# What each optional feature needs, and how a user comes to it.
FEATURES = {
    "plot": ["marginals.plotting.pairs(model)", "marginals.plotting.missingness(table)"],
    "causal": [
        "marginals.causal_graph(model)",
        "marginals.causal.register_causal_learn()",
    ],
    "explore": ["model.explore(table)"],
    "sql": ["marginals.sql.register(None, model, 'm')"],
    "arrow": [
        "marginals.engines.ArrowFunction(model, marginals.engines.Score())(None)",
        "marginals.engines.fit_stream(marginals.MDMA(), 'table.parquet')",
    ],
}
COMMANDS = {
    "plot": [
        ["plot", "model.mdma", "-o", "x.png"],
        ["check", "model.mdma", "table.csv", "--plot", "x.png"],
        ["causal", "table.csv", "-o", "x.png"],
    ],
    "causal": [["causal", "table.csv"]],
    "explore": [["explore", "model.mdma"]],
    "sql": [["sql", "model.mdma", "SELECT 1"]],
    "arrow": [
        ["score", "model.mdma", "table.parquet"],
        ["sample", "model.mdma", "2", "-o", "x.parquet"],
    ],
    "ray": [["score", "model.mdma", "table.parquet", "--engine", "ray", "-o", "scores"]],
}

WORKING = (
    ["--version"],
    ["info", "own.mdma"],
    ["query", "own.mdma", "P(y > 0 | c = a)"],
    ["score", "own.mdma", "table.csv", "-o", "scores.csv"],
    ["impute", "own.mdma", "table.csv", "-o", "filled.csv"],
    ["sample", "own.mdma", "3", "-o", "rows.csv"],
)

FIT = """
import numpy as np, pandas as pd, marginals
from marginals import MDMA, MDMAImputer

rng = np.random.default_rng(0)
x = rng.normal(size=120)
table = pd.DataFrame({
    "x": x, "y": x + rng.normal(size=120), "n": rng.poisson(3, 120), "c": np.where(x > 0, "a", "b")
})
table.loc[::7, "y"] = np.nan
table.to_csv("table.csv", index=False)
model = MDMA(tensor="ht", width=4, max_seconds=1, random_state=0).fit(table)
assert 0 < model.prob({"y": (0, None)}, given={"c": "a"}) < 1
assert model.impute(table).notna().all().all()
assert len(model.sample(5, random_state=0)) == 5
assert MDMAImputer(model).fit(table).transform(table).shape == (120, 4)
model.save("model.mdma")
again = marginals.load("model.mdma")
assert np.array_equal(again.score_samples(table), model.score_samples(table))
assert marginals.__version__ == "VERSION"
"""


@pytest.fixture(scope="module")
def folder(core: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fitted model and its table, both made by the core install."""
    where = tmp_path_factory.mktemp("work")
    (where / "fit.py").write_text(FIT.replace("VERSION", project()["version"]))
    assert core.run("python", "-W", "error", "fit.py", cwd=where) == ""
    (where / "table.parquet").write_bytes(b"PAR1")
    return where


def test_commands_run_without_extras(core: Environment, folder: Path) -> None:
    core.run(
        *("marginals", "fit", "table.csv", "-o", "own.mdma", "--width", "4"),
        *("--set", "max_steps=20"),
        cwd=folder,
    )
    results = invoked(core, folder, list(WORKING))
    assert [code for code, _ in results] == [0] * len(WORKING), results
    assert (folder / "filled.csv").read_text().count("\n") == 121
    assert results[0][1].strip() == project()["version"]


def test_every_feature_names_its_extra(core: Environment, folder: Path) -> None:
    calls = [(extra, call) for extra, found in FEATURES.items() for call in found]
    code = (
        "import pandas as pd, marginals\n"
        "table, model = pd.read_csv('table.csv'), marginals.load('model.mdma')\n"
        f"for extra, call in {calls!r}:\n"
        "    try:\n        eval(call)\n"
        "    except ImportError as error:\n        print(extra, call, error, sep='|')\n"
        "    else:\n        print(extra, call, 'no error', sep='|')\n"
    )
    lines = core.run("python", "-c", code, cwd=folder).splitlines()
    assert len(lines) == len(calls)
    for line in lines:
        extra, _, message = line.split("|")
        assert message.startswith("Expected `"), line
        assert message.endswith(f'Run: pip install "marginals[{extra}]".'), line


def test_every_command_names_its_extra(core: Environment, folder: Path) -> None:
    cases = [(extra, words) for extra, found in COMMANDS.items() for words in found]
    results = invoked(core, folder, [words for _, words in cases])
    for (extra, words), (code, output) in zip(cases, results, strict=True):
        assert code == 1, (words, output)
        assert output.startswith("Error: Expected `"), (words, output)
        assert f'Run: pip install "marginals[{extra}]".' in output, (words, output)


def invoked(core: Environment, folder: Path, commands: list[list[str]]) -> list[tuple[int, str]]:
    """Run commands in one process of the environment, since importing torch takes seconds."""
    code = (
        "import json\nfrom typer.testing import CliRunner\nfrom marginals.cli import app\n"
        f"found = [CliRunner().invoke(app, words) for words in {commands!r}]\n"
        "print(json.dumps([(done.exit_code, done.output) for done in found]))\n"
    )
    (line,) = core.run("python", "-c", code, cwd=folder).splitlines()
    return [(int(code), str(output)) for code, output in json.loads(line)]


def test_every_extra_of_users_is_covered() -> None:
    extras = set(project()["optional-dependencies"]) - {"dev", "docs", "experiments"}
    assert set(FEATURES) | set(COMMANDS) == extras
