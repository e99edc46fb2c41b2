"""What a command changes in rows that it read from a file; all the rest stays as it is stored."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, final

import pandas as pd

from marginals.io.safe_files import FileError


@final
@dataclass(frozen=True)
class Edit:
    """Changes to rows that are copied from one file to another.

    Args:
        keep: The columns to copy, in this order; by default all.
        fills: New values of copied cells, by column and row.
        before: New columns before the copied ones, by name.
        after: New columns after them.
    """

    keep: Sequence[str] | None = None
    fills: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    before: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    after: Mapping[str, Sequence[Any]] = field(default_factory=dict)


class StoredRows(Protocol):
    """Some of a table's rows as a file stores them: `TextRows` or `ArrowRows`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        ...

    def __len__(self) -> int: ...

    def frame(
        self, columns: Collection[str] | None = None, dtypes: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return some columns, by default all, as pandas holds them."""
        ...

    def converted(self, dtypes: Mapping[str, Any]) -> pd.DataFrame:
        """Return all columns for another format: from text those in `dtypes` typed."""
        ...

    def take(self, places: Sequence[int]) -> Self:
        """Return some rows."""
        ...

    def joined(self, other: Self) -> Self:
        """Return these rows and then others of the same file."""
        ...

    def edited(self, edit: Edit) -> Self:
        """Return the rows with some cells, or columns, changed."""
        ...


def check_distinct(names: Sequence[str]) -> None:
    """Refuse columns that share a name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FileError(
            f"Expected each column name once; got {', '.join(map(repr, twice))} more than once. "
            "Rename or remove the columns that share a name."
        )
