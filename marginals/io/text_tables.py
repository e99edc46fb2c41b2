"""CSV and TSV by pandas, with types that do not change between batches, and ISO 8601 dates."""

import contextlib
import csv
import io
import re
from collections.abc import Generator, Mapping
from typing import IO, Any, final

import pandas as pd

from marginals.io.safe_files import FileError

Dtypes = Mapping[str, Any] | None

SEPARATORS = {"csv": ",", "tsv": "\t"}
_ISO_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d:?\d\d)?)?", re.ASCII
)


def read_text(
    source: IO[bytes], kind: str, dtypes: Dtypes, rows: int | None = None
) -> pd.DataFrame:
    """Read a whole table, or its first rows."""
    return _typed(pd.read_csv(source, nrows=rows, **_options(kind, dtypes)), dtypes)


def text_batches(
    source: IO[bytes], kind: str, dtypes: Dtypes, rows: int
) -> Generator[pd.DataFrame, None, None]:
    """Read a table in batches."""
    with pd.read_csv(source, chunksize=rows, **_options(kind, dtypes)) as chunks:
        for chunk in chunks:
            yield _typed(chunk, dtypes)


def raw_batches(source: IO[bytes], kind: str, rows: int) -> Generator[pd.DataFrame, None, None]:
    """Read a table in batches, every cell as the text in the file."""
    options = {**_options(kind, None), "dtype": str, "na_filter": False}
    with pd.read_csv(source, chunksize=rows, **options) as chunks:
        yield from chunks


def retyped(raw: pd.DataFrame, dtypes: Dtypes) -> pd.DataFrame:
    """Return the table that a file with these cells, given as text, would hold."""
    # An empty cell in a table of one column would be an empty line, which pandas skips.
    quoting = csv.QUOTE_ALL if len(raw.columns) == 1 else csv.QUOTE_MINIMAL
    content = raw.to_csv(index=False, quoting=quoting).encode()
    return read_text(io.BytesIO(content), "csv", dtypes)


def is_text(column: Any) -> bool:
    """Say whether a column holds text rather than numbers or times."""
    observed = column.dropna()
    return len(observed) > 0 and pd.api.types.infer_dtype(observed) == "string"


@final
class TextSink:
    """Write a table in parts to an open text file."""

    def __init__(self, file: Any, kind: str) -> None:
        self.file = file
        self.separator = SEPARATORS[kind]
        self.header = True

    def append(self, frame: pd.DataFrame) -> None:
        """Write rows."""
        frame.to_csv(
            self.file, sep=self.separator, header=self.header, index=False, lineterminator="\n"
        )
        self.header = False

    def close(self) -> None:
        """Write what is buffered."""
        self.file.flush()


def _options(kind: str, dtypes: Dtypes) -> dict[str, Any]:
    return {
        "sep": SEPARATORS[kind],
        "encoding": "utf-8-sig",  # spreadsheets write a byte order mark before the first name
        "low_memory": False,  # else pandas infers types piece by piece, and mixes them
        "dtype": {c: str if _is_time(dtype) else dtype for c, dtype in (dtypes or {}).items()},
    }


def _typed(frame: pd.DataFrame, dtypes: Dtypes) -> pd.DataFrame:
    """Convert times where `dtypes` says so, columns of ISO dates, and booleans with gaps."""
    for name in frame.columns:
        column = frame[name]
        wanted = (dtypes or {}).get(name)
        if wanted is not None:
            if _is_time(wanted):
                frame[name] = _as_time(column, pd.api.types.pandas_dtype(wanted))
        elif _is_dates(column):
            # Times in several zones have no common type: they stay text.
            with contextlib.suppress(ValueError):
                frame[name] = pd.to_datetime(column, format="ISO8601")
        elif column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) == "boolean":
            frame[name] = column.astype("boolean")
    return frame


def _is_time(dtype: Any) -> bool:
    return getattr(pd.api.types.pandas_dtype(dtype), "kind", "") in ("m", "M")


def _is_dates(column: Any) -> bool:
    if not (column.dtype == object or pd.api.types.is_string_dtype(column)):
        return False
    observed = column.dropna()
    # The first value settles most columns that hold other text.
    return len(observed) > 0 and _is_date(observed.iloc[0]) and all(map(_is_date, observed))


def _is_date(text: Any) -> bool:
    return isinstance(text, str) and _ISO_DATE.fullmatch(text) is not None


def _as_time(column: Any, dtype: Any) -> Any:
    try:
        if dtype.kind == "m":
            return pd.to_timedelta(column).astype(dtype)
        zone = getattr(dtype, "tz", None)
        times = pd.to_datetime(column, format="ISO8601", utc=zone is not None)
        return (times if zone is None else times.dt.tz_convert(zone)).astype(dtype)
    except (ValueError, TypeError) as error:
        raise FileError(
            f"Expected column {column.name!r} to hold times in ISO 8601; got otherwise ({error})."
        ) from error
