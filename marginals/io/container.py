"""One file of tensors and a JSON header: replaced atomically, and checked on reading.

The file is a safetensors file, which any program with that library can open. Its only metadata
entry, "marginals", is JSON that starts with the SHA-256 of all other bytes. The digest's position
does not depend on the content, so it is checked before anything else in the file is trusted.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import stat
import textwrap
from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from marginals.io.addresses import is_address, read_bytes
from marginals.io.safe_files import FileError, Path, replacing

__all__ = ["FORMAT_VERSION", "read", "write"]

FORMAT_VERSION = 2

# How a file starts after the eight bytes that hold the length of its header.
PREFIX = b'{"__metadata__":{"marginals":"{\\"sha256\\": \\"'
DIGEST = slice(8 + len(PREFIX), 8 + len(PREFIX) + 64)
BLANK = b"0" * 64  # stands for the digest while the digest is computed

_VERSION_1 = b'{"__metadata__":{"sha256":"'
_LONGEST_HEADER = 100_000_000  # bytes; the safetensors library reads no more


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any], kind: str) -> None:
    """Write tensors and a header to a file, atomically. The same content gives the same bytes.

    Args:
        path: The file, replaced if it exists. A symbolic link is followed.
        tensors: The tensors by name, of any dtype, shape and device.
        header: Whatever else belongs to them, as JSON.
        kind: What the file is, such as "model"; `read` expects the same.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers")
    ...     write(path, {"x": torch.arange(3)}, {"name": "some numbers"}, kind="example")
    ...     read(path, kind="example")
    ({'x': tensor([0, 1, 2])}, {'name': 'some numbers'})
    """
    content = safetensors.torch.save(
        {name: _plain(name, tensor) for name, tensor in tensors.items()},
        {"marginals": _metadata(header, kind)},
    )
    length = int.from_bytes(content[:8], "little")
    if length > _LONGEST_HEADER:
        raise ValueError(
            f"Expected `header` to take at most {_LONGEST_HEADER} bytes as JSON; got {length}. "
            "Put large values into tensors."
        )
    assert content[8:].startswith(PREFIX)
    view = memoryview(content)
    with replacing(path) as file:
        file.writelines([view[: DIGEST.start], digest(content), view[DIGEST.stop :]])


def read(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the header that `write` wrote. Nothing in a file is ever executed.

    Raises `FileError` if the file is anything else, and `OSError` if it cannot be read.

    Args:
        path: The file, or an address that pyarrow can open, such as "s3://bucket/model.mdma".
        kind: What the file should be, such as "model".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read(folder, kind="model")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    marginals.io.safe_files.FileError: Expected `path` to be a marginals model; got ...
    """
    name = os.fspath(path)
    content = _read_bytes(name, kind)
    try:
        end = 8 + int.from_bytes(content[:8], "little")
        metadata = json.loads(json.loads(content[8:end])["__metadata__"]["marginals"])
        _check_version(name, kind, metadata["version"])
        if metadata["kind"] != kind:
            raise _refusal(name, kind, f"a marginals {textwrap.shorten(metadata['kind'], 40)}")
        return safetensors.torch.load(content), dict(metadata["header"])
    except FileError:
        raise
    except Exception as error:
        # The digest is right, but anyone can compute one: the content may still be anything.
        cause = textwrap.shorten(f"{type(error).__name__}: {error}", 200)
        raise _refusal(name, kind, f"which marginals did not write ({cause})") from error


def digest(content: bytes) -> bytes:
    """Return the SHA-256 of a file's bytes, with a blank in place of its own digest."""
    view = memoryview(content)
    sha256 = hashlib.sha256(view[: DIGEST.start])
    sha256.update(BLANK)
    sha256.update(view[DIGEST.stop :])
    return sha256.hexdigest().encode()


# Writing --------------------------------------------------------------------------------------


def _plain(name: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor) or name == "__metadata__":
        raise TypeError(
            "Expected `tensors` to hold tensors under names other than '__metadata__'; got "
            f"{type(tensor).__name__} under {name!r}. Put other values into the header."
        )
    # A copy, since safetensors refuses tensors that share memory.
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)


def _metadata(header: Mapping[str, Any], kind: str) -> str:
    own = {"sha256": BLANK.decode(), "kind": kind, "version": FORMAT_VERSION}
    try:
        return json.dumps({**own, "library": _library_version(), "header": dict(header)})
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"Expected `header` to be JSON; got a value that is not ({error}). "
            "Use numbers, strings, lists and dicts."
        ) from error


def _library_version() -> str:
    try:
        return importlib.metadata.version("marginals")
    except importlib.metadata.PackageNotFoundError:
        return "0"


# Reading --------------------------------------------------------------------------------------


def _read_bytes(name: str, kind: str) -> bytes:
    """Read a file and check its digest; of a file that is not ours, read only the beginning."""
    if is_address(name):
        content = read_bytes(name)
        _check_start(name, kind, content[: DIGEST.stop], len(content))
    else:
        size = _size(name, kind)
        with open(name, "rb") as file:
            start = file.read(DIGEST.stop)
            _check_start(name, kind, start, size)
            content = start + file.read()
    if content[DIGEST] != digest(content):
        raise _refusal(
            name,
            kind,
            "which is damaged or cut short: its content does not match its checksum",
            "Copy it again from where it was saved, or save it again.",
        )
    return content


def _size(name: str, kind: str) -> int:
    try:
        found = os.stat(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Expected `path` to be a marginals {kind}; got {name!r}, which does not exist. "
            "Check the path."
        ) from error
    if stat.S_ISDIR(found.st_mode):
        raise _refusal(name, kind, "a folder", "Name the file in it.")
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(name, kind, "which is not a regular file")
    return found.st_size


def _check_start(name: str, kind: str, start: bytes, size: int) -> None:
    """Refuse a file by its first bytes, and say what it looks like."""
    own = start[8 : DIGEST.start]
    if len(start) > 8 and (own == PREFIX or (size < DIGEST.stop and PREFIX.startswith(own))):
        return  # ours; a file that was cut short fails the check of its digest
    if own.startswith(_VERSION_1):
        _check_version(name, kind, 1)
    if not start:
        found = "an empty file"
    elif own.startswith(b"{") and int.from_bytes(start[:8], "little") <= size - 8:
        found = "a safetensors file of another program"
    elif start.startswith(b"PK\x03\x04"):
        found = "a zip archive, such as `torch.save` writes"
    elif re.match(rb"\x80[\x02-\x05]", start):
        found = "a pickle, which marginals never reads"
    else:
        found = "which is not a marginals file, or is damaged at its beginning"
    raise _refusal(name, kind, found)


def _check_version(name: str, kind: str, version: int) -> None:
    if version == FORMAT_VERSION:
        return
    age = "a newer" if version > FORMAT_VERSION else "an older"
    raise _refusal(
        name,
        kind,
        f"written by {age} marginals (file version {version}; this one reads {FORMAT_VERSION})",
        "Upgrade marginals." if version > FORMAT_VERSION else "Fit and save it again.",
    )


def _refusal(name: str, kind: str, found: str, remedy: str | None = None) -> FileError:
    remedy = remedy or f"Give a file that marginals saved as a {kind}."
    return FileError(f"Expected `path` to be a marginals {kind}; got {name!r}, {found}. {remedy}")
