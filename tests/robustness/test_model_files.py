"""A damaged model file is refused as such: never another error, never another model."""

import contextlib
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, load
from marginals.columns import Schema
from marginals.io import container
from marginals.io.safe_files import FileError
from tests.queries.conftest import KINDS, make_frame
from tests.robustness.questions import Refused, answer


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("files") / "m.mdma"
    MDMA(columns=KINDS, width=3, max_steps=2, random_state=0).fit(make_frame()).save(path)
    return path.read_bytes()


def refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(FileError, match="Expected `path`"):
        load(path)


def test_flips(saved: bytes, tmp_path: Path) -> None:
    rng = random.Random(0)
    places = [*range(120), *(rng.randrange(len(saved)) for _ in range(400))]
    for place in places:
        data = bytearray(saved)
        data[place] ^= 1 << rng.randrange(8)
        refused(tmp_path / "m", bytes(data))


def test_cuts_and_additions(saved: bytes, tmp_path: Path) -> None:
    rng = random.Random(1)
    for end in [*range(100), *(rng.randrange(len(saved)) for _ in range(100))]:
        refused(tmp_path / "m", saved[:end])
    refused(tmp_path / "m", saved + b"\0")
    refused(tmp_path / "m", saved * 2)


def test_random_bytes(saved: bytes, tmp_path: Path) -> None:
    rng = random.Random(2)
    for _ in range(100):
        refused(tmp_path / "m", rng.randbytes(rng.randrange(2000)))
        start, size = rng.randrange(len(saved)), rng.randrange(1, 200)
        data = saved[:start] + rng.randbytes(size) + saved[start + size :]
        refused(tmp_path / "m", data)


def test_the_whole_file_is_the_model(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(saved)
    model = load(tmp_path / "m")
    assert isinstance(model, MDMA)
    assert np.isfinite(model.score_samples(make_frame())).all()


# Content that was changed by someone who computed the right checksum --------------------------

WRONG = ["absent", None, -1, 1e400, "?", [], {}, True]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, part in value.items() if isinstance(value, dict) else ():
        yield from places(part, (*path, key))


def changed(content: dict[str, Any], path: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    content = copy.deepcopy(content)
    at: Any = content
    for key in path[:-1]:
        at = at[key]
    if wrong == "absent":
        del at[path[-1]]
    else:
        at[path[-1]] = wrong
    return content


def stored_schema(saved: bytes, path: Path) -> tuple[Any, dict[str, Any]]:
    path.write_bytes(saved)
    tensors, header = container.read(path, "model")
    return tensors, header


def test_a_changed_schema_is_one_or_none(saved: bytes, tmp_path: Path) -> None:
    _, header = stored_schema(saved, tmp_path / "m")
    schema = header["extra"]["schema"]
    frame = make_frame()
    for path in places(schema):
        for wrong in WRONG:
            with contextlib.suppress(Refused):
                found = answer(Schema.from_dict, changed(schema, path, wrong))
                assert found.to_dict()  # another schema, but a whole one
                assert str(found)
    assert Schema.from_dict(schema).names == tuple(frame.columns)


@pytest.mark.parametrize("field", ["location", "scale", "reference", "grain", "dtype", "name"])
def test_numbers_of_a_schema_are_checked(saved: bytes, tmp_path: Path, field: str) -> None:
    _, header = stored_schema(saved, tmp_path / "m")
    for wrong in (None, float("nan"), [], {}):
        content = changed(header["extra"]["schema"], ("columns", 0, field), wrong)
        with pytest.raises(ValueError, match="Expected a schema"):
            Schema.from_dict(content)


def test_names_of_a_schema_differ(saved: bytes, tmp_path: Path) -> None:
    _, header = stored_schema(saved, tmp_path / "m")
    content = changed(header["extra"]["schema"], ("columns", 0, "name"), "share")
    with pytest.raises(ValueError, match="Expected a schema"):
        Schema.from_dict(content)


def test_changed_content_is_refused(saved: bytes, tmp_path: Path) -> None:
    tensors, header = stored_schema(saved, tmp_path / "m")
    for part in ("schema", "params", "result", "declared", "tree", "kind"):
        content = copy.deepcopy(header)
        del content["extra"][part]
        container.write(tmp_path / "m", tensors, content, "model")
        with pytest.raises(FileError):
            load(tmp_path / "m")
    content = copy.deepcopy(header)
    del content["extra"]["schema"]["columns"][0]  # fewer columns than the density has
    container.write(tmp_path / "m", tensors, content, "model")
    with pytest.raises(FileError):
        load(tmp_path / "m")


def test_a_frame_is_no_model(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "m")
    with pytest.raises(FileError):
        load(tmp_path / "m")
