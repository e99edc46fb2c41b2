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


def damaged(good: bytes) -> Iterator[bytes]:
    """Flip bits, cut, append, and overwrite with random bytes; the start of the file most often."""
    rng = random.Random(0)
    for place in [*range(120), *(rng.randrange(len(good)) for _ in range(200))]:
        yield good[:place] + bytes([good[place] ^ 1 << rng.randrange(8)]) + good[place + 1 :]
        yield good[:place]
        yield good[:place] + rng.randbytes(50) + good[place + 50 :]
        yield rng.randbytes(place)
    yield good + b"\0"
    yield good * 2


def test_damage_is_refused(saved: bytes, tmp_path: Path) -> None:
    for content in damaged(saved):
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(FileError, match="Expected `path`"):
            load(tmp_path / "m")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "m")
    with pytest.raises(FileError):
        load(tmp_path / "m")


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


@pytest.fixture
def stored(saved: bytes, tmp_path: Path) -> tuple[Any, dict[str, Any]]:
    """The tensors and the header."""
    (tmp_path / "m").write_bytes(saved)
    return container.read(tmp_path / "m", "model")


def test_a_changed_schema_is_one_or_none(stored: tuple[Any, dict[str, Any]]) -> None:
    schema = stored[1]["extra"]["schema"]
    for path in places(schema):
        for wrong in WRONG:
            with contextlib.suppress(Refused):
                found = answer(Schema.from_dict, changed(schema, path, wrong))
                assert found.to_dict()  # another schema, but a whole one
                assert str(found)
    assert Schema.from_dict(schema).names == tuple(make_frame().columns)


@pytest.mark.parametrize("field", ["location", "scale", "reference", "grain", "dtype", "name"])
def test_numbers_and_names_of_a_schema_are_checked(
    stored: tuple[Any, dict[str, Any]], field: str
) -> None:
    wrong = [None, float("nan"), [], {}, *(["share"] if field == "name" else [])]  # there already
    for value in wrong:
        content = changed(stored[1]["extra"]["schema"], ("columns", 0, field), value)
        with pytest.raises(ValueError, match="Expected a schema"):
            Schema.from_dict(content)


def test_changed_content_is_refused(stored: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    tensors, header = stored
    absent = [(part,) for part in ("schema", "params", "result", "declared", "tree", "kind")]
    for path in [*absent, ("schema", "columns", 0)]:  # the last: fewer columns than the density
        content = changed(header, ("extra", *path), "absent")
        container.write(tmp_path / "m", tensors, content, "model")
        with pytest.raises(FileError):
            load(tmp_path / "m")
