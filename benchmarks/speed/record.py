"""What a record of speed is of."""

from collections.abc import Iterable
from typing import Any

from benchmarks.records import Record

KEY = ("part", "who", "device", "gpu", "case", "rows", "what")


def key(record: Record) -> tuple[Any, ...]:
    """Return what a record is of; a later record of the same replaces it."""
    return tuple(record.get(name) for name in KEY)


def merged(records: Iterable[Record]) -> list[Record]:
    """Keep the last record of each measurement."""
    return list({key(record): record for record in records}.values())
