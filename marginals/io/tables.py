"""Tables in files: CSV, TSV, Parquet and Arrow, whole or in batches, by the file's suffix.

The path "-" is standard input or output. Reading in batches and writing with `Writer` take memory
for one batch (of Parquet, for one row group), whatever the size of the file; `sample` takes it for
a number of random rows.
"""

from marginals.io.row_sampling import Sample, sample
from marginals.io.table_formats import FORMATS, FrameError, Path, format_of
from marginals.io.table_reading import batches, count, names, read
from marginals.io.table_writing import Writer, write

__all__ = [
    "FORMATS",
    "FrameError",
    "Path",
    "Sample",
    "Writer",
    "batches",
    "count",
    "format_of",
    "names",
    "read",
    "sample",
    "write",
]
