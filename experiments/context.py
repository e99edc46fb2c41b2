"""What an experiment is given besides its settings."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from benchmarks.data import data_folder


@final
@dataclass(frozen=True)
class Context:
    """Device, data and arrays of one run of an experiment with one seed.

    Args:
        device: "cpu" or "cuda".
        folder: of data sets as given by `--data`.
        arrays: what figures need besides the records; add to it by `keep`.
    """

    device: str
    folder: str | None = None
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    _made: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """The folder of data sets; an error that says what to do if there is none."""
        return data_folder(self.folder)

    def keep(self, name: str, values: Any, dtype: Any = np.float32) -> None:
        """Keep an array for the figures, written with the next record; float16 if it will do."""
        self.arrays[name] = np.asarray(values, dtype=dtype)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` returns; for the same key it is made once in a seed."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
