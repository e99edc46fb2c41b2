"""CSV and TSV: types that are stable over batches, and dates that are dates."""

import contextlib
import csv
import io
import re
from collections.abc import Mapping
from typing import IO, Any

import pandas as pd

from marginals.io.table_formats import SEPARATORS, FrameError, Frames

Dtypes = Mapping[str, Any] | None

_ISO_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d:?\d\d)?)?", re.ASCII
)


def read_text(
    source: IO[bytes], kind: str, dtypes: Dtypes, rows: int | None = None
) -> pd.DataFrame:
    """Read a whole table, or its first rows."""
    return _typed(pd.read_csv(source, nrows=rows, **_options(kind, dtypes)), dtypes)


def text_batches(source: IO[bytes], kind: str, dtypes: Dtypes, rows: int) -> Frames:
    """Read a table in batches."""
    with pd.read_csv(source, chunksize=rows, **_options(kind, dtypes)) as chunks:
        for chunk in chunks:
            yield _typed(chunk, dtypes)


def raw_batches(source: IO[bytes], kind: str, rows: int) -> Frames:
    """Read a table in batches of text as it stands in the file."""
    options = {**_options(kind, None), "dtype": str, "na_filter": False}
    with pd.read_csv(source, chunksize=rows, **options) as chunks:
        yield from chunks


def retyped(raw: pd.DataFrame, dtypes: Dtypes) -> pd.DataFrame:
    """Return the table that a file with these cells, read as text, would hold."""
    # A cell that is empty in the only column of a table would be a line without any.
    quoting = csv.QUOTE_ALL if len(raw.columns) == 1 else csv.QUOTE_MINIMAL
    content = raw.to_csv(index=False, quoting=quoting).encode()
    return read_text(io.BytesIO(content), "csv", dtypes)


def is_text(column: Any) -> bool:
    """Say whether a column holds text, and neither numbers nor times."""
    known = column.dropna()
    return len(known) > 0 and pd.api.types.infer_dtype(known) == "string"


def _options(kind: str, dtypes: Dtypes) -> dict[str, Any]:
    return {
        "sep": SEPARATORS[kind],
        "encoding": "utf-8-sig",  # spreadsheets put a mark before the first name
        "low_memory": False,  # otherwise the types of a long file are guessed in pieces, and mixed
        "dtype": {c: str if _is_time(dtype) else dtype for c, dtype in (dtypes or {}).items()},
    }


def _typed(frame: pd.DataFrame, dtypes: Dtypes) -> pd.DataFrame:
    """Turn text into dates where `dtypes` says so or all of it is dates, and truths into bools."""
    for name in frame.columns:
        column = frame[name]
        wanted = (dtypes or {}).get(name)
        if wanted is not None:
            if _is_time(wanted):
                frame[name] = _as_time(column, pd.api.types.pandas_dtype(wanted))
        elif _is_dates(column):
            # Times of several zones have no common type: they stay text.
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
    known = column.dropna()
    # The first value tells most columns that are not.
    return len(known) > 0 and _is_date(known.iloc[0]) and all(map(_is_date, known))


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
        raise FrameError(
            f"Expected column {column.name!r} to hold times in ISO 8601; got otherwise ({error})."
        ) from error
