"""Files survive kills, and refuse damage wherever it is."""

import errno
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from marginals.io import container, safe_files
from marginals.io.container import BLANK, DIGEST, FORMAT_VERSION, PREFIX, digest, read, write
from marginals.io.safe_files import FileError
from tests.examples import examples

DTYPES = [torch.uint8, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float32]
SHAPES = [(), (0,), (1,), (3, 0, 2), (5, 7)]


SHARED = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}


def small(path: Path, kind: str = "model", **header: object) -> bytes:
    write(path, {"x": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)}, header, kind)
    return path.read_bytes()


def refused(path: Path, content: bytes, match: str = "Expected `path` to be a marginals") -> None:
    path.write_bytes(content)
    with pytest.raises(FileError, match=match):
        read(path, "model")


def sealed(content: bytes) -> bytes:
    """Give any bytes of sufficient length a right digest."""
    return content[: DIGEST.start] + digest(content) + content[DIGEST.stop :]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small(tmp_path_factory.mktemp("good") / "f", names=list("abc"))


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@examples(50, **SHARED)
@given(st.dictionaries(st.text(), JSON), st.sets(st.sampled_from(["sha256", "0" * 64, 'q"', "ü"])))
def test_any_json_header_comes_back(tmp_path: Path, header: dict, names: set[str]) -> None:
    write(tmp_path / "f", {name: torch.ones(2) for name in names}, header, "0" * 64)
    back, found = read(tmp_path / "f", "0" * 64)
    assert (set(back), found) == (names, header)


def test_same_content_same_bytes(tmp_path: Path) -> None:
    assert len({small(tmp_path / name, a=1) for name in "abcdef"}) == 1


def test_other_programs_can_open_it(tmp_path: Path) -> None:
    small(tmp_path / "f", a=1)
    with safetensors.safe_open(tmp_path / "f", "pt") as file:
        (metadata,) = (json.loads(text) for text in file.metadata().values())
        assert torch.equal(file.get_tensor("x"), torch.arange(6.0).reshape(2, 3))
    assert len(metadata.pop("sha256")) == 64
    assert isinstance(metadata.pop("library"), str)
    assert metadata == {"kind": "model", "version": FORMAT_VERSION, "header": {"a": 1}}


def test_version_of_a_library_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise container.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(container.importlib.metadata, "version", absent)
    assert rb"\"library\": \"0\"" in small(tmp_path / "f")


# What is refused ------------------------------------------------------------------------------


def test_every_bit_and_every_truncation(tmp_path: Path, good: bytes) -> None:
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 1 << at % 8
        refused(tmp_path / "f", bytes(damaged))
        refused(tmp_path / "f", good[:at], "damaged|empty")


@examples(300, **SHARED)
@given(st.data())
def test_edits_are_refused(tmp_path: Path, good: bytes, data: st.DataObject) -> None:
    start, end, to = (data.draw(st.integers(0, len(good))) for _ in range(3))
    start, end = sorted((start, end))
    moved = good[:start] + good[end:]
    edits = st.sampled_from(
        [
            good[:start] + bytes(end - start) + good[end:],
            good[start:] + good[:start],
            moved[:to] + good[start:end] + moved[to:],
            good[:start] + data.draw(st.binary(max_size=20)) + good[end:],
        ]
    )
    damaged = data.draw(edits)
    if damaged != good:
        refused(tmp_path / "f", damaged)


@examples(300, **SHARED)
@given(st.binary(max_size=400), st.booleans(), st.booleans())
def test_any_bytes(tmp_path: Path, tail: bytes, ours: bool, right: bool) -> None:
    content = tail
    if ours:
        content = (len(tail) % 64 + 90).to_bytes(8, "little") + PREFIX + BLANK + tail
    refused(tmp_path / "f", sealed(content) if ours and right else content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b"\0", "not a marginals file"),
        (b"age,income\n40,50000\n", "not a marginals file"),
        (pickle.dumps({"a": 1}), "a pickle, which marginals never reads"),
        (b"PK\x03\x04" + bytes(200), "a zip archive, such as `torch.save` writes"),
        (safetensors.torch.save({"x": torch.ones(3)}), "a safetensors file of another program"),
        (safetensors.torch.save({}, {"marginals": "{}"}), "a safetensors file of another program"),
        (b"\xff" * 8 + b'{"a": 1}', "not a marginals file"),
        (b"\xff" * 7 + b"\x7f" + PREFIX + BLANK + b'"}}', "damaged"),
        (
            safetensors.torch.save({}, {"sha256": "0" * 64}),
            r"an older marginals \(file version 1; this one reads 2\)\. Fit and save it again",
        ),
    ],
    ids=["empty", "byte", "text", "pickle", "zip", "other", "alike", "huge", "huge ours", "old"],
)
def test_other_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    refused(tmp_path / "f", content, message)


def test_a_large_file_of_another_program_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as file:
        file.truncate(1 << 38)  # a hole: more than any memory, and no disk
    with pytest.raises(FileError, match="not a marginals file"):
        read(tmp_path / "f", "model")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        read(tmp_path / "f", "model")
    with pytest.raises(FileError, match="a folder"):
        read(tmp_path, "model")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        read(tmp_path / "pipe", "model")


def test_other_kind(tmp_path: Path) -> None:
    small(tmp_path / "f", kind="checkpoint")
    with pytest.raises(FileError, match=r"to be a marginals model; got .*, a marginals checkpoint"):
        read(tmp_path / "f", "model")
    read(tmp_path / "f", "checkpoint")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (FORMAT_VERSION + 1, r"a newer marginals \(file version 3; .*\)\. Upgrade marginals"),
        (FORMAT_VERSION - 1, r"an older marginals \(file version 1; .*\)\. Fit and save it again"),
        (0, "an older marginals"),
        ("one", "which marginals did not write"),
        (None, "which marginals did not write"),
    ],
)
def test_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, message: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT_VERSION", version)
        content = bytearray(small(tmp_path / "f", kind="checkpoint"))
    for kind in ("checkpoint", "model"):
        with pytest.raises(FileError, match=message):
            read(tmp_path / "f", kind)
    content[-1] ^= 1
    refused(tmp_path / "f", bytes(content), "damaged")  # a damaged file's version is not believed


X = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def forged(table: dict[str, Any], metadata: Any = None, **changes: Any) -> bytes:
    """Write a file by hand, with a right digest."""
    usual = {"kind": "model", "version": FORMAT_VERSION, "library": "0", "header": {}}
    own = json.dumps({"sha256": BLANK.decode(), **usual, **changes})
    content = {"__metadata__": {"marginals": own, **(metadata or {})}, **table}
    text = json.dumps(content, separators=(",", ":")).encode()
    return sealed(len(text).to_bytes(8, "little") + text + bytes(8))


def test_the_forger_could_have_been_honest(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(forged({"x": X}))
    assert torch.equal(read(tmp_path / "f", "model")[0]["x"], torch.zeros(2, dtype=torch.float32))


@pytest.mark.parametrize(
    "content",
    [
        *(forged({"x": X}, header=header) for header in (1, "{", None, [1])),
        *(forged({"x": X}, kind=kind) for kind in (["model"], None)),
        forged({"x": X}, {"more": 3}),
        *(forged({"x": {**X, "dtype": dtype}}) for dtype in ("F99", "F8_E8M0")),
        *(forged({"x": {**X, "shape": shape}}) for shape in ([3], [-2], [1 << 62, 8])),
        *(forged({"x": {**X, "data_offsets": ends}}) for ends in ([0, 1 << 60], [4, 8])),
        *(forged(table) for table in ({"x": X, "y": X}, {"x": 1}, {})),
        sealed(forged({"x": X}).replace(b"header", b"footer")),
    ],
)
def test_a_right_digest_is_no_proof(tmp_path: Path, content: bytes) -> None:
    refused(tmp_path / "f", content, "which marginals did not write")


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


def test_folders_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    small(tmp_path / "f")


def test_targets_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IsADirectoryError, match="Name a file in it"):
        small(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Create .*absent.* first"):
        small(tmp_path / "absent" / "f")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="a folder that you may write to"):
        small(tmp_path / "f")
    assert not list(tmp_path.iterdir())


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


def test_abandoned_partial_files_are_removed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead, alive = child.pid, os.getppid()
    here, away, token = safe_files._host(), "0" * 8, "0123456789abcdef"
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
    old = time.time() - 2 * safe_files.ABANDONED_SECONDS
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
from tests.examples import examples

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
