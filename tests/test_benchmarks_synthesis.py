"""The benchmark of synthetic rows runs end to end, and its page says what was measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.pages import tables_of
from benchmarks.records import read
from benchmarks.synthesis.models import draw_copula, draw_independent
from benchmarks.synthesis.report import tables
from benchmarks.synthesis.run import main, measured
from benchmarks.synthesis.tables import FILES, cut, with_gaps

ROOT = Path(__file__).parents[1]


def people(rows: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(0)
    weight = random.normal(size=rows)
    frame = pd.DataFrame({"weight": weight, "size": weight + 0.3 * random.normal(size=rows)})
    frame["city"] = np.where(weight > 0, "Oslo", "Bergen")
    frame.loc[::7, "size"] = np.nan
    return frame


def test_tables_are_cut_and_gaps_are_put_back() -> None:
    fitted, unseen = cut(people(), 0)
    assert (len(fitted), len(unseen)) == (210, 90)
    drawn = with_gaps(fitted.fillna(0.0), fitted, 1)
    assert drawn["size"].isna().mean() == pytest.approx(fitted["size"].isna().mean(), abs=0.06)
    assert drawn["weight"].notna().all()


def test_baselines_keep_columns_and_the_copula_keeps_pairs() -> None:
    real = people()
    for draw, correlation in ((draw_independent, 0.0), (draw_copula, 0.95)):
        drawn = draw(real, 500, 0)
        assert set(drawn["city"]) == {"Oslo", "Bergen"}
        assert set(drawn["weight"]) <= set(real["weight"])
        assert drawn["weight"].corr(drawn["size"]) == pytest.approx(correlation, abs=0.12)


def test_our_model_is_measured() -> None:
    found = measured(people(), "marginals", 0, width=4, max_steps=30)
    assert found["rows"] == [210, 210]
    assert found["summary"]["duplicates"] == 0


def test_from_command_to_picture(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    people().to_csv(folder / f"{FILES['penguins']}.csv", index=False)
    out = tmp_path / "results.json"
    words = ["--data", str(tmp_path), "--out", str(out), "--tables", "penguins", "--seeds", "0"]
    main([*words, "--models", "independent"])
    main([*words, "--models", "independent", "holdout", "--append"])
    assert [r["model"] for r in read(out)] == ["independent", "holdout"]
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    page.write_text((ROOT / "docs" / "synthesis.md").read_text())
    main(["report", str(out), "--out", str(page), "--picture", str(picture)])
    assert "| penguins |" in tables_of(page.read_text())
    assert picture.stat().st_size > 1000
    with pytest.raises(SystemExit, match="Expected `--out` to be a new file"):
        main(words)


# The page -----------------------------------------------------------------------------------------


def committed() -> list[Any]:
    files = sorted((ROOT / "benchmarks" / "results").glob("synthesis_*.json"))
    return [record for file in files for record in read(file)]


def test_the_tables_are_those_of_the_result_files() -> None:
    assert tables_of((ROOT / "docs" / "synthesis.md").read_text()) == tables(committed())
