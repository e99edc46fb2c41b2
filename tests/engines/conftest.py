"""One small model of a mixed table with gaps, in a file, and the table in a folder of parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Categorical

pa = pytest.importorskip("pyarrow")
ROWS = 240


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, ROWS)
    frame = pd.DataFrame(
        {
            "age": pd.array(age, "Int64"),
            "income": np.exp(5 + 0.02 * age + 0.3 * rng.normal(size=ROWS)),
            "city": rng.choice(["Oslo", "Bergen", "Rome"], ROWS),
            "grade": rng.choice([1.5, 2.5, 4.0], ROWS),
        }
    )
    for name in ("age", "income", "city"):
        frame.loc[rng.random(ROWS) < 0.15, name] = pd.NA if name == "age" else None
    return frame


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    return make_frame()


@pytest.fixture(scope="session")
def model(frame: pd.DataFrame) -> MDMA:
    kinds = {"city": Categorical(["Oslo", "Bergen", "Rome"])}
    return MDMA(width=6, max_steps=30, random_state=0, columns=kinds).fit(frame)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, model: MDMA, frame: pd.DataFrame) -> Path:
    """Write the model, and the table as files of several row groups, with a column of names."""
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("engines")
    model.save(folder / "model.mdma")
    parts = folder / "parts"
    parts.mkdir()
    table = named_table(frame)
    pq.write_table(table.slice(0, 100), parts / "a.parquet", row_group_size=30)
    pq.write_table(table.slice(100, 20), parts / "b.parquet")
    pq.write_table(table.slice(120), parts / "c.parquet", row_group_size=50)
    (parts / "_SUCCESS").write_text("")
    return folder


def named_table(frame: pd.DataFrame) -> Any:
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    return table.append_column("name", pa.array([f"r{i}" for i in range(table.num_rows)]))
