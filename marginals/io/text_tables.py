"""CSV and TSV as pandas types, which do not change between batches, with ISO 8601 dates."""

import contextlib
import csv
import io
import re
import warnings
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import IO, Any

import pandas as pd

from marginals.io.safe_files import FileError
from marginals.io.text_dialect import Dialect, Layout

Dtypes = Mapping[str, Any] | None

# Later versions always return the double that is nearest to the text.
_VERSION = tuple(map(int, pd.__version__.split(".")[:2]))
_EXACT: dict[str, Any] = {} if _VERSION >= (3, 1) else {"float_precision": "round_trip"}
_ISO_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d:?\d\d)?)?", re.ASCII
)


def read_text(
    source: IO[bytes],
    dialect: Dialect,
    names: Sequence[str],
    dtypes: Dtypes,
    rows: int | None = None,
    columns: Collection[str] | None = None,
) -> pd.DataFrame:
    """Read a whole table, or its first rows, or some of its columns."""
    some = None if columns is None else [name for name in names if name in columns]
    with warnings.catch_warnings():
        # Else pandas drops the last cells of rows that are longer than the header.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        options = _options(dialect, names, dtypes)
        try:
            frame = pd.read_csv(source, nrows=rows, usecols=some, **options)
        except pd.errors.ParserWarning as error:
            raise FileError(
                f"Expected {len(names)} cells in each row, as in the header; got more. Quote "
                f"cells that hold the separator {dialect.separator!r}, or name every column in the "
                "header."
            ) from error
    return _typed(frame, dtypes)


def raw_batches(
    source: IO[bytes], layout: Layout, rows: int
) -> Generator[pd.DataFrame, None, None]:
    """Read a table in batches, every cell as the text in the file."""
    options = _options(layout.dialect, layout.names, None)
    options |= {"dtype": str, "na_filter": False}
    with pd.read_csv(source, chunksize=rows, **options) as chunks:
        yield from chunks


def retyped(raw: pd.DataFrame, dialect: Dialect, dtypes: Dtypes) -> pd.DataFrame:
    """Return the table that a file with these cells, given as text, would hold."""
    # An empty cell in a table of one column would be an empty line, which pandas skips.
    quoting = csv.QUOTE_ALL if len(raw.columns) == 1 else csv.QUOTE_MINIMAL
    content = raw.to_csv(index=False, quoting=quoting, sep=dialect.separator).encode()
    return read_text(io.BytesIO(content), dialect, list(raw.columns), dtypes)


def is_text(column: Any) -> bool:
    """Say whether a column holds text rather than numbers or times."""
    observed = column.dropna()
    return len(observed) > 0 and pd.api.types.infer_dtype(observed) == "string"


def _options(dialect: Dialect, names: Sequence[str], dtypes: Dtypes) -> dict[str, Any]:
    types = {c: str if _is_time(dtype) else dtype for c, dtype in (dtypes or {}).items()}
    return _EXACT | {
        "sep": dialect.separator,
        "decimal": dialect.decimal,
        "header": 0,
        "names": list(names),
        "index_col": False,  # else the first cell of rows that are longer than the header
        "encoding": "utf-8-sig",  # spreadsheets write a byte order mark before the first name
        "low_memory": False,  # else pandas infers types piece by piece, and mixes them
        "dtype": {c: dtype for c, dtype in types.items() if c in names},
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
            # Times in several zones have no common type: they stay text. pandas before 3 warns of
            # them and returns objects.
            with contextlib.suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                times = pd.to_datetime(column, format="ISO8601")
                frame[name] = column if times.dtype == object else times
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
