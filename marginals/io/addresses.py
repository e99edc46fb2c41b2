"""Files on this machine or on any file system that pyarrow can reach, by their address.

An address such as "s3://bucket/folder", "gs://...", "hdfs://..." or "file:///..." names its file
system; anything else is a local path.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from marginals.io.arrow_tables import pyarrow
from marginals.io.safe_files import FileError, Path, replacing

# Suffixes of the files that count in a folder of tables; all others are ignored.
TABLE_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow"}


class TableFile(NamedTuple):
    """A file of a table, local or remote.

    Args:
        address: As the user would write it.
        kind: "parquet" or "arrow".
    """

    address: str
    kind: str


def is_address(path: Path) -> bool:
    """Say whether a path names its file system.

    >>> is_address("s3://bucket/model.mdma"), is_address("folder/model.mdma")
    (True, False)
    """
    return "://" in os.fspath(path)


def is_folder(path: Path) -> bool:
    """Say whether a path is a folder that exists, local or remote."""
    if not is_address(path):
        return os.path.isdir(path)
    return bool(_info(path).type == pyarrow("fs").FileType.Directory)


def read_bytes(address: str) -> bytes:
    """Read a whole file by its address."""
    with opened_address(address) as file:
        return bytes(file.read())


@contextlib.contextmanager
def opened_address(address: str) -> Iterator[Any]:
    """Open a file by its address, for random access."""
    system, path = _parts(address)
    if _info(address).type != pyarrow("fs").FileType.File:
        raise FileNotFoundError(
            f"Expected a file at {address!r}; there is none. Check the address."
        )
    with system.open_input_file(path) as file:
        yield file


def table_files(path: Path, kind: str | None = None) -> list[TableFile]:
    """Return the Parquet and Arrow files below a folder in the order of their names.

    Files and folders whose names start with "_" or "." are ignored, as other engines do.

    Args:
        path: A folder, or one file; local or remote.
        kind: "parquet" or "arrow", for one file without a suffix.
    """
    name = os.fspath(path)
    if not is_folder(name):
        kind = TABLE_SUFFIXES.get(os.path.splitext(name.lower())[1], kind)
        if kind not in TABLE_SUFFIXES.values():
            raise FileError(
                f"Expected {name!r} to be a folder, or a Parquet or Arrow file; got another name. "
                f"Name the file so that it ends in one of {', '.join(TABLE_SUFFIXES)}."
            )
        return [TableFile(name, str(kind))]
    system, base = _parts(name)
    prefix = name[: name.index("://") + 3] if is_address(name) else ""
    chosen = pyarrow("fs").FileSelector(base, recursive=True)
    found = []
    for info in system.get_file_info(chosen):
        kind = TABLE_SUFFIXES.get(os.path.splitext(info.path.lower())[1])
        inside = os.path.relpath(info.path, base).split("/")
        hidden = any(part.startswith(("_", ".")) for part in inside)
        if info.type == pyarrow("fs").FileType.File and kind and not hidden:
            found.append(TableFile(prefix + info.path, kind))
    if not found:
        raise IsADirectoryError(
            f"Expected {name!r} to be a table; it is a folder without Parquet or Arrow files. Name "
            f"a file, or a folder with files that end in one of {', '.join(TABLE_SUFFIXES)}."
        )
    return sorted(found)


def joined(folder: str, name: str) -> str:
    """Return the address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def make_folder(address: str) -> None:
    """Create a folder and those above it."""
    system, path = _parts(address)
    system.create_dir(path, recursive=True)


@contextlib.contextmanager
def writing_address(address: str) -> Iterator[IO[bytes]]:
    """Open a file that appears, whole, when the context ends without an error."""
    if not is_address(address):
        with replacing(address, "the output") as file:
            yield file
        return
    system, path = _parts(address)
    partial = f"{path}.partial"  # of a file system without renaming, the target itself is atomic
    with system.open_output_stream(partial) as file:
        yield file
    system.move(partial, path)


def _parts(address: Path) -> tuple[Any, str]:
    """Return the file system of an address and the path in it."""
    fs, name = pyarrow("fs"), os.fspath(address)
    if not is_address(name):
        return fs.LocalFileSystem(), os.path.abspath(name)
    try:
        return fs.FileSystem.from_uri(name)
    except (ValueError, OSError, NotImplementedError) as error:
        raise FileError(
            f"Expected {name!r} to be an address that pyarrow can open; it cannot ({error}). Use "
            "file://, s3://, gs://, abfs:// or hdfs://, or a local path."
        ) from error


def _info(address: Path) -> Any:
    system, path = _parts(address)
    return system.get_file_info(path)
