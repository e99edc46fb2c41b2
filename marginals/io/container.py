"""One file of tensors and a JSON header: written whole or not at all, and checked on reading.

The file is a safetensors file, which any program with that library can open. The first entry of its
metadata is the SHA-256 of all other bytes, at a place that does not depend on the content, so that
the check needs to trust nothing of a file before it has passed.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
import shutil
import stat
import textwrap
import time
from collections.abc import Iterable, Mapping
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

__all__ = ["FORMAT_VERSION", "FileError", "check_target", "read", "write"]

FORMAT_VERSION = 1

# The file's beginning: eight bytes for the length of the header, then the header, then the digest
# inside of it.
_PREFIX = b'{"__metadata__":{"sha256":"'
_DIGEST = slice(8 + len(_PREFIX), 8 + len(_PREFIX) + 64)
_BLANK = b"0" * 64  # stands for the digest while the digest is computed

_LONGEST_HEADER = 100_000_000  # bytes; the safetensors library refuses to read more

# A partial file is left behind by a killed process. Where its process cannot be looked up (another
# machine), it is taken for dead when it has not been written to for this many seconds.
_ABANDONED = 3600.0


class FileError(ValueError):
    """A file is not what it should be: damaged, of another program, kind or version."""


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    header: Mapping[str, Any],
    kind: str,
) -> None:
    r"""Writes tensors and a header to a file, atomically.

    Whenever the process is killed, `path` is either what it was before or the new file. The
    same content gives the same bytes.

    Arguments:
        path: The file, replaced if there is one. A symbolic link is followed.
        tensors: The tensors by name, of any dtype, shape and device.
        header: What stands beside them, as JSON.
        kind: What the file is, such as "model"; :func:`read` asks for it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "numbers")
        ...     write(path, {"x": torch.arange(3)}, {"name": "some numbers"}, kind="example")
        ...     read(path, kind="example")
        ({'x': tensor([0, 1, 2])}, {'name': 'some numbers'})
    """
    target = os.path.realpath(path)
    check_target(target)
    head, body = _serialise(tensors, _metadata(header, kind))
    _replace(target, [head, body])
    _remove_abandoned(target)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    r"""Reads the tensors and the header that :func:`write` wrote.

    Raises :class:`FileError` if the file is anything else, and :class:`OSError` if it cannot
    be read. Nothing in a file is ever executed.

    Arguments:
        path: The file.
        kind: What the file should be, such as "model".

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     read(folder, kind="model")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        marginals.io.container.FileError: Expected `path` to be a marginals model; got ...
    """
    name = os.fspath(path)
    data = _read_bytes(name, kind)
    try:
        metadata = _read_metadata(data)
        _check_version(name, kind, metadata["version"])
        _check_kind(name, kind, metadata["kind"])
        return safetensors.torch.load(data), _object(metadata["header"])
    except FileError:
        raise
    except Exception as error:
        # The digest is right, but anyone can compute one: the rest may still be anything.
        cause = textwrap.shorten(f"{type(error).__name__}: {error}", 200)
        raise _refusal(name, kind, f"which marginals did not write ({cause})") from error


# Writing --------------------------------------------------------------------------------------


def check_target(target: str, called: str = "`path`") -> None:
    """Refuses a file that cannot be written, by the name its user knows it under.

    Arguments:
        target: The absolute path.
        called: What the user calls it.
    """
    if os.path.isdir(target):
        raise IsADirectoryError(
            f"Expected {called} to be a file; got the folder {target!r}. Name a file in it."
        )
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"Expected {called} to be in a folder that exists; got {target!r}. "
            f"Create {folder!r} first."
        )


def _metadata(header: Mapping[str, Any], kind: str) -> dict[str, str]:
    try:
        text = json.dumps(dict(header))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"Expected `header` to be JSON; got a value that is not ({error}). "
            "Use numbers, strings, lists and dicts."
        ) from error
    return {
        "format": "marginals",
        "kind": kind,
        "version": str(FORMAT_VERSION),
        "library": _library_version(),
        "header": text,
    }


def _library_version() -> str:
    try:
        return importlib.metadata.version("marginals")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def _serialise(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> tuple[bytes, memoryview]:
    """Gives the file's bytes, its header with the digest apart from its data."""
    plain = safetensors.torch.save({name: _plain(name, t) for name, t in tensors.items()})
    end = 8 + int.from_bytes(plain[:8], "little")
    # The library writes the metadata in random order: its header is replaced by one of ours.
    table = json.loads(plain[8:end])
    head = _head({"__metadata__": {"sha256": _BLANK.decode(), **metadata}, **table})
    body = memoryview(plain)[end:]
    return head[: _DIGEST.start] + _digest([head, body]) + head[_DIGEST.stop :], body


def _plain(name: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor) or name == "__metadata__":
        raise TypeError(
            "Expected `tensors` to hold tensors under names other than '__metadata__'; got "
            f"{type(tensor).__name__} under {name!r}. Put other values into the header."
        )
    # A copy, since tensors that share memory are refused by the library.
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)


def _head(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data start aligned
    if len(text) > _LONGEST_HEADER:
        raise ValueError(
            f"Expected `header` to take at most {_LONGEST_HEADER} bytes as JSON; got {len(text)}. "
            "Put large values into tensors."
        )
    assert text.startswith(_PREFIX)
    return len(text).to_bytes(8, "little") + text


def _digest(parts: Iterable[bytes | memoryview]) -> bytes:
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(part)
    return sha256.hexdigest().encode()


def _replace(target: str, parts: Iterable[bytes | memoryview]) -> None:
    folder, name = os.path.split(target)
    partial = os.path.join(folder, _partial_name(name))
    try:
        with open(partial, "xb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # nothing to keep, or not ours to set
            shutil.copymode(target, partial)
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Makes the renaming last through a power failure, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Partial files --------------------------------------------------------------------------------


def _partial_name(name: str) -> str:
    return f"{_partial_start(name)}{_host()}-{os.getpid()}-{secrets.token_hex(8)}.partial"


def _partial_start(name: str) -> str:
    return f".{name[:48]}."  # cut so that the whole stays a legal name


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _remove_abandoned(target: str) -> None:
    """Removes the partial files that killed processes left behind for this target.

    Another process may be writing the same target at this moment: its file stays.
    """
    folder, name = os.path.split(target)
    form = re.compile(
        re.escape(_partial_start(name)) + r"([0-9a-f]{8})-(\d{1,9})-[0-9a-f]{16}\.partial"
    )
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = form.fullmatch(entry.name)
            if found and _is_abandoned(entry, found[1], int(found[2])):
                with contextlib.suppress(OSError):
                    os.remove(entry.path)


def _is_abandoned(entry: os.DirEntry[str], host: str, process: int) -> bool:
    if host == _host() and not _is_running(process):
        return True
    try:
        return time.time() - entry.stat().st_mtime > _ABANDONED
    except OSError:  # gone meanwhile
        return False


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is not a question but a signal
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


# Reading --------------------------------------------------------------------------------------


def _refusal(name: str, kind: str, found: str, remedy: str | None = None) -> FileError:
    remedy = remedy or f"Give a file that marginals saved as a {kind}."
    return FileError(f"Expected `path` to be a marginals {kind}; got {name!r}, {found}. {remedy}")


def _read_bytes(name: str, kind: str) -> bytes:
    """Reads a file and checks its digest; of a file that is not ours, reads the beginning only."""
    size = _size(name, kind)
    with open(name, "rb") as file:
        start = file.read(_DIGEST.stop)
        _check_start(name, kind, start, size)
        file.seek(0)
        data = file.read()
    view = memoryview(data)
    digest = _digest([view[: _DIGEST.start], _BLANK, view[_DIGEST.stop :]])
    if data[_DIGEST] != digest:
        raise _damaged(name, kind)
    return data


def _size(name: str, kind: str) -> int:
    try:
        found = os.stat(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Expected `path` to be a marginals {kind}; got {name!r}, which does not exist. "
            "Check the path."
        ) from error
    if stat.S_ISDIR(found.st_mode):
        raise _refusal(name, kind, "a directory", "Name the file in it.")
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(name, kind, "which is not a regular file")
    return found.st_size


def _check_start(name: str, kind: str, start: bytes, size: int) -> None:
    if not start:
        raise _refusal(name, kind, "an empty file")
    if len(start) <= 8 or not _agree(start[8:], _PREFIX):
        raise _refusal(name, kind, _foreign(start, size))
    if len(start) < _DIGEST.stop:
        raise _damaged(name, kind)


def _agree(some: bytes, other: bytes) -> bool:
    return some.startswith(other) or other.startswith(some)


def _foreign(start: bytes, size: int) -> str:
    length = int.from_bytes(start[:8], "little")
    if start[8:9] == b"{" and length <= size - 8:
        return "a safetensors file of another program"
    if start.startswith(b"PK\x03\x04"):
        return "a zip archive, such as `torch.save` writes"
    if re.match(rb"\x80[\x02-\x05]", start):
        return "a pickle, which marginals never reads"
    return "which is not a file of marginals, or damaged at its beginning"


def _damaged(name: str, kind: str) -> FileError:
    return _refusal(
        name,
        kind,
        "which is damaged or cut short: its content does not match its checksum",
        "Copy it again from where it was saved, or save it again.",
    )


def _read_metadata(data: bytes) -> dict[str, Any]:
    end = 8 + int.from_bytes(data[:8], "little")
    metadata = _object(data[8:end])["__metadata__"]
    if metadata["format"] != "marginals":
        raise ValueError("the format is not 'marginals'")
    return dict(metadata)


def _object(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def _check_version(name: str, kind: str, version: str) -> None:
    if int(version) > FORMAT_VERSION:
        raise _refusal(
            name,
            kind,
            f"written by a newer marginals (file version {int(version)}, this reads "
            f"{FORMAT_VERSION})",
            "Upgrade marginals.",
        )
    if int(version) < 1:
        raise ValueError("the file version is below 1")


def _check_kind(name: str, kind: str, found: str) -> None:
    if found != kind:
        raise _refusal(name, kind, f"a marginals {textwrap.shorten(found, 40)}")
