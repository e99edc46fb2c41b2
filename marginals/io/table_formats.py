"""Which format a file has, and what its errors are."""

import contextlib
import os
import zlib
from collections.abc import Generator, Iterator

import pandas as pd

Path = str | os.PathLike[str]
Frames = Generator[pd.DataFrame, None, None]

FORMATS = ("csv", "tsv", "parquet", "arrow")
SEPARATORS = {"csv": ",", "tsv": "\t"}
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


class FrameError(ValueError):
    """A file does not hold the table that it should, or cannot take it."""


def format_of(path: Path, format: str | None = None) -> str:
    """Return the format of a file: the one that is asked for, or what the suffix says.

    >>> format_of("data.csv.gz"), format_of("data.feather"), format_of("-")
    ('csv', 'arrow', 'csv')
    """
    if format is not None:
        if format not in FORMATS:
            raise FrameError(f"Expected the format to be one of {FORMATS}; got {format!r}.")
        return format
    name = os.fspath(path)
    if name == "-":
        return "csv"
    plain = name.lower()
    suffix = os.path.splitext(plain.removesuffix(".gz"))[1]
    kind = _SUFFIXES.get(suffix)
    if kind is None or (plain.endswith(".gz") and kind not in SEPARATORS):
        raise FrameError(
            f"Expected the name of a table to end in one of {', '.join(_SUFFIXES)}, .csv.gz or "
            f".tsv.gz; got {name!r}. Rename the file or choose a format of {', '.join(FORMATS)}."
        )
    return kind


def is_packed(path: Path) -> bool:
    """Say whether a file is compressed as a whole."""
    return os.fspath(path).lower().endswith(".gz")


@contextlib.contextmanager
def explained(path: Path, kind: str) -> Iterator[None]:
    """Say which file was at fault when a library only says why."""
    try:
        yield
    except FrameError:
        raise
    except (ValueError, TypeError, NotImplementedError, EOFError, zlib.error) as error:
        raise FrameError(
            f"Expected {os.fspath(path)!r} to be a table in the format {kind}; got otherwise "
            f"({error}). Check the file, or choose its format."
        ) from error
