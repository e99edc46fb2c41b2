"""Files survive kills, and refuse damage wherever it is."""

import errno
import json
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marginals.io import container
from marginals.io.container import FileError, read, write

DTYPES = [torch.uint8, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float32]
SHAPES = [(), (0,), (1,), (3, 0, 2), (5, 7)]


def partials(folder: Path) -> list[Path]:
    return list(folder.glob(".*.partial"))


def small(path: Path, kind: str = "model", **header: object) -> bytes:
    write(path, {"x": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)}, header, kind)
    return path.read_bytes()


def sealed(data: bytes) -> bytes:
    """Give any bytes of sufficient length a right digest."""
    at = container._DIGEST
    digest = container._digest([data[: at.start], container._BLANK, data[at.stop :]])
    return data[: at.start] + digest + data[at.stop :]


# Round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
def test_every_dtype_and_shape_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {str(shape): (torch.randn(shape) * 5).to(dtype) for shape in SHAPES}
    write(tmp_path / "f", tensors, {}, "model")
    back, header = read(tmp_path / "f", "model")
    assert header == {}
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == dtype
        assert back[name].shape == tensor.shape
        assert torch.equal(back[name], tensor)


def test_special_floats_come_back_bit_for_bit(tmp_path: Path) -> None:
    x = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 5e-324])
    write(tmp_path / "f", {"x": x}, {}, "model")
    back = read(tmp_path / "f", "model")[0]["x"]
    assert torch.equal(back.view(torch.int64), x.view(torch.int64))


def test_views_shared_memory_and_gradients_are_plain_tensors(tmp_path: Path) -> None:
    x = torch.randn(4, 6, requires_grad=True)
    tensors = {"x": x, "same": x, "t": x.T, "part": x[1:, ::2], "wide": x[:, :1].expand(4, 9)}
    write(tmp_path / "f", tensors, {}, "model")
    back, _ = read(tmp_path / "f", "model")
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor)
        assert not back[name].requires_grad
    back["x"].add_(1.0)  # writable, and its own memory
    assert torch.equal(back["same"], x)


def test_no_tensors(tmp_path: Path) -> None:
    write(tmp_path / "f", {}, {"a": 1}, "model")
    assert read(tmp_path / "f", "model") == ({}, {"a": 1})


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_any_json_header_comes_back(tmp_path_factory: pytest.TempPathFactory, header: dict) -> None:
    path = tmp_path_factory.getbasetemp() / "json"
    write(path, {"0" * 64: torch.zeros(3)}, header, "model")
    assert read(path, "model")[1] == header


def test_names_like_our_own_do_not_confuse(tmp_path: Path) -> None:
    header = {"sha256": "0" * 64, "format": "other"}
    names = ["sha256", "0" * 64, 'quote"', "ü", ""]
    write(tmp_path / "f", {name: torch.ones(2) for name in names}, header, "0" * 64)
    back, found = read(tmp_path / "f", "0" * 64)
    assert set(back) == set(names)
    assert found == header


def test_same_content_same_bytes(tmp_path: Path) -> None:
    assert len({small(tmp_path / name, a=1) for name in "abcdef"}) == 1


def test_other_programs_can_open_it(tmp_path: Path) -> None:
    small(tmp_path / "f", a=1)
    with safetensors.safe_open(tmp_path / "f", "pt") as file:
        metadata = file.metadata()
        assert torch.equal(file.get_tensor("x"), torch.arange(6.0).reshape(2, 3))
    assert {**metadata, "sha256": ""} == {
        "format": "marginals",
        "kind": "model",
        "version": str(container.FORMAT_VERSION),
        "library": container._library_version(),
        "header": json.dumps({"a": 1}),
        "sha256": "",
    }


def test_version_of_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise container.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(container.importlib.metadata, "version", absent)
    assert container._library_version() == "0"


# What is refused ------------------------------------------------------------------------------


def flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.randrange(1, 20))


def zero(data: bytearray, rng: random.Random) -> None:
    at, size = rng.randrange(len(data)), rng.randrange(1, 200)
    data[at : at + size] = bytes(len(data[at : at + size]))


def swap(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(1, len(data))
    data[:] = data[at:] + data[:at]


def remove(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 20)]


@pytest.mark.parametrize("damage", [flip, truncate, insert, zero, swap, remove])
def test_damage_is_refused(
    tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    good = small(tmp_path / "f", names=list("abc"))
    rng = random.Random(damage.__name__)
    for _ in range(200):
        data = bytearray(good)
        damage(data, rng)
        if data == good:  # zeros over zeros
            continue
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(FileError, match="Expected `path` to be a marginals model; got"):
            read(tmp_path / "f", "model")


def test_every_bit_is_covered(tmp_path: Path) -> None:
    good = small(tmp_path / "f")
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << at % 8
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(FileError):
            read(tmp_path / "f", "model")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    good = small(tmp_path / "f")
    for size in range(len(good)):
        (tmp_path / "f").write_bytes(good[:size])
        with pytest.raises(FileError, match=r"damaged|empty"):
            read(tmp_path / "f", "model")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b"\0", "not a file of marginals"),
        (b"age,income\n40,50000\n", "not a file of marginals"),
        (pickle.dumps({"a": 1}), "a pickle, which marginals never reads"),
        (b"PK\x03\x04" + bytes(200), "a zip archive"),
        (safetensors.torch.save({"x": torch.ones(3)}), "a safetensors file of another program"),
        (
            safetensors.torch.save({}, {"format": "marginals", "sha256": "0" * 64, "a": "b"}),
            "a safetensors file of another|damaged",  # the library's order is random
        ),
        (b"\xff" * 8 + b'{"a": 1}', "not a file of marginals"),
        (b"\xff" * 7 + b"\x7f" + container._PREFIX + b"0" * 64 + b'"}}', "damaged"),
    ],
    ids=["empty", "byte", "text", "pickle", "zip", "foreign", "rewritten", "huge", "huge ours"],
)
def test_other_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "f", "model")


def test_a_large_file_of_another_program_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as file:
        file.truncate(1 << 38)  # a hole: more than any memory, and no disk
    with pytest.raises(FileError, match="not a file of marginals"):
        read(tmp_path / "f", "model")


def test_a_file_of_torch_is_named(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(3)}, tmp_path / "f")
    with pytest.raises(FileError, match=r"zip archive, such as `torch\.save` writes"):
        read(tmp_path / "f", "model")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        read(tmp_path / "f", "model")
    with pytest.raises(FileError, match="a directory"):
        read(tmp_path, "model")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        read(tmp_path / "pipe", "model")


def test_other_kind(tmp_path: Path) -> None:
    small(tmp_path / "f", kind="checkpoint")
    with pytest.raises(FileError, match=r"to be a marginals model; got .*, a marginals checkpoint"):
        read(tmp_path / "f", "model")
    read(tmp_path / "f", "checkpoint")


def test_newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT_VERSION", 2)
        data = bytearray(small(tmp_path / "f", kind="checkpoint"))
    newer = r"written by a newer marginals \(file version 2, this reads 1\)\. Upgrade marginals"
    for kind in ("checkpoint", "model"):
        with pytest.raises(FileError, match=newer):
            read(tmp_path / "f", kind)
    data[-1] ^= 1
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(FileError, match="damaged"):  # a damaged file's version is not believed
        read(tmp_path / "f", "checkpoint")


@pytest.mark.parametrize("version", ["0", "-1", "", "one", "9" * 5000])
def test_impossible_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT_VERSION", version)
        small(tmp_path / "f")
    with pytest.raises(FileError, match="which marginals did not write"):
        read(tmp_path / "f", "model")


@settings(max_examples=300)
@given(st.binary(max_size=400), st.booleans(), st.booleans())
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, ours: bool, right: bool
) -> None:
    data = tail
    if ours:
        data = (len(tail) % 64 + 90).to_bytes(8, "little") + container._PREFIX + b"0" * 64 + tail
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(sealed(data) if ours and right else data)
    with pytest.raises(FileError):
        read(path, "model")


def metadata(**changes: object) -> dict[str, object]:
    usual = {"format": "marginals", "kind": "model", "version": "1", "library": "0", "header": "{}"}
    return {"sha256": "0" * 64, **usual, **changes}


X = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        {"__metadata__": metadata(header="[1]"), "x": X},
        {"__metadata__": metadata(header="{"), "x": X},
        {"__metadata__": metadata(header="[" * 100_000), "x": X},
        {"__metadata__": metadata(header=None), "x": X},
        {"__metadata__": metadata(format="other"), "x": X},
        {"__metadata__": metadata(kind=["model"]), "x": X},
        {"__metadata__": metadata(version=None), "x": X},
        {"__metadata__": {"sha256": "0" * 64}, "x": X},
        {"__metadata__": metadata(), "x": {**X, "dtype": "F99"}},
        {"__metadata__": metadata(), "x": {**X, "dtype": "F8_E8M0"}},
        {"__metadata__": metadata(), "x": {**X, "shape": [3]}},
        {"__metadata__": metadata(), "x": {**X, "shape": [-2]}},
        {"__metadata__": metadata(), "x": {**X, "shape": [1 << 62, 8]}},
        {"__metadata__": metadata(), "x": {**X, "data_offsets": [0, 1 << 60]}},
        {"__metadata__": metadata(), "x": {**X, "data_offsets": [4, 8]}},
        {"__metadata__": metadata(), "x": X, "y": X},
        {"__metadata__": metadata(), "x": 1},
        {"__metadata__": metadata()},
    ],
)
def test_a_right_digest_is_no_proof(tmp_path: Path, content: dict) -> None:
    (tmp_path / "f").write_bytes(sealed(container._head(content) + bytes(8)))
    with pytest.raises(FileError, match="which marginals did not write"):
        read(tmp_path / "f", "model")


def test_the_forger_could_have_been_honest(tmp_path: Path) -> None:
    content = {"__metadata__": metadata(), "x": X}
    (tmp_path / "f").write_bytes(sealed(container._head(content) + bytes(8)))
    assert torch.equal(read(tmp_path / "f", "model")[0]["x"], torch.zeros(2, dtype=torch.float32))


@pytest.mark.parametrize("header", [{"a": {1, 2}}, {"a": b"c"}, {(1, 2): 3}], ids=str)
def test_header_must_be_json(tmp_path: Path, header: dict) -> None:
    with pytest.raises(TypeError, match="Expected `header` to be JSON"):
        write(tmp_path / "f", {}, header, "model")
    assert not list(tmp_path.iterdir())


def test_tensors_must_be_tensors(tmp_path: Path) -> None:
    for tensors in ({"x": 1.0}, {"__metadata__": torch.zeros(1)}):
        with pytest.raises(TypeError, match="Expected `tensors` to hold tensors"):
            write(tmp_path / "f", tensors, {}, "model")


def test_header_too_long_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_LONGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="at most 1000 bytes as JSON"):
        write(tmp_path / "f", {}, {"a": "b" * 1000}, "model")


# Writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=repr)
def test_a_failed_write_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    good = small(tmp_path / "f")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(type(error)):
            small(tmp_path / "f", other=1)
    assert (tmp_path / "f").read_bytes() == good
    assert os.listdir(tmp_path) == ["f"]


def test_directories_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    small(tmp_path / "f")


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="Name a file in it"):
        small(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Create .*absent.* first"):
        small(tmp_path / "absent" / "f")


def test_relative_paths_links_and_long_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small(Path("f"))
    (tmp_path / "link").symlink_to("f")
    small(tmp_path / "link", a=2)
    assert (tmp_path / "link").is_symlink()
    assert read("f", "model")[1] == {"a": 2}
    for name in ("x" * 255, "ü" * 127, "[a-z]*.mdma", ".hidden", "a b"):
        small(tmp_path / name)
        read(name, "model")


def test_permissions(tmp_path: Path) -> None:
    small(tmp_path / "f")
    (tmp_path / "plain").touch()
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "f").chmod(0o600)
    small(tmp_path / "f")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_abandoned_partial_files_are_removed(tmp_path: Path) -> None:
    here, away, token = container._host(), "0" * 8, "0123456789abcdef"
    dead, alive = dead_process(), os.getppid()
    removed = [f".f.{here}-{dead}-{token}.partial", f".f.{away}-{alive}-{token}.partial"]
    kept = [
        f".f.{here}-{alive}-{token}.partial",  # being written now
        f".f.{away}-{dead}-{token}.partial",  # on another machine, perhaps
        f".g.{here}-{dead}-{token}.partial",  # of another target
        f".f.{here}-{dead}.partial",
        "f.partial",
    ]
    for name in [*removed, *kept]:
        (tmp_path / name).touch()
    old = time.time() - 2 * container._ABANDONED
    os.utime(tmp_path / removed[1], (old, old))
    small(tmp_path / "f")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "f"])


def test_threads_write_the_same_file(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for _ in range(20):
            write(tmp_path / "f", {"x": torch.full((1000,), number)}, {}, "model")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (tmp_path / "f").exists():
            assert len(read(tmp_path / "f", "model")[0]["x"].unique()) == 1
    assert os.listdir(tmp_path) == ["f"]


# A process that imports once, then over and over forks a writer and kills it at a random moment.
KILLER = """
import os, random, signal, sys, time
import torch
from marginals.io.container import read, write

torch.set_num_threads(1)  # a fork has none of its parent's threads, and would wait for them
path, rounds = sys.argv[1], int(sys.argv[2])
states = [{"x": torch.full((50_000,), number)} for number in (1, 2)]
write(path, states[0], {"number": 1}, "model")
rng, caught = random.Random(0), 0
for _ in range(rounds):
    writer = os.fork()
    while not writer:
        for number, state in enumerate(states, 1):
            write(path, state, {"number": number}, "model")
    time.sleep(rng.uniform(0.02, 0.1))
    os.kill(writer, signal.SIGKILL)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL
    tensors, header = read(path, "model")
    assert header["number"] in (1, 2)
    assert torch.equal(tensors["x"], states[header["number"] - 1]["x"])
    caught += any(name.endswith(".partial") for name in os.listdir(os.path.dirname(path)))
write(path, states[0], {"number": 1}, "model")
print("caught", caught)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLER), str(tmp_path / "f"), "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    # Most of the time goes into writing, so that the kills did fall into it.
    assert int(done.stdout.split()[-1]) > 0
    assert os.listdir(tmp_path) == ["f"]  # the next write cleaned up
