"""The door of the queries: tables under models, where column names become positions."""

from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from marginals.cells import Evidence
from marginals.columns import Schema, decode, encode
from marginals.densities import Density
from marginals.queries.positions import Parts, draws_of


def places(schema: Schema, columns: Any) -> tuple[int, ...]:
    """Return the positions of one column or several; None is no column."""
    return () if columns is None else schema.positions(columns)


def random_of(random_state: Any) -> np.random.RandomState:
    """Return NumPy's generator for scikit-learn's `random_state`: an integer, a generator or None.

    >>> random_of(0).randint(100) == random_of(np.random.RandomState(0)).randint(100)
    True
    """
    if isinstance(random_state, Integral):  # importing scikit-learn takes longer than most queries
        return np.random.RandomState(int(random_state))
    from sklearn.utils import check_random_state

    random: np.random.RandomState = check_random_state(random_state)
    return random


def seed_of(random_state: Any) -> int:
    """Return a seed drawn from scikit-learn's `random_state`."""
    return int(random_of(random_state).randint(np.iinfo(np.int32).max))


class NamedRows(ABC):
    """Rows of a table, each judged by a model of its columns."""

    @abstractmethod
    def _columns(self) -> Schema:
        """Return the schema of the columns."""

    @abstractmethod
    def _averaged(self, data: Any, samples: int, random_state: Any) -> Parts:
        """Return the rows that information is averaged over, each under its density."""

    @abstractmethod
    def _tested(self, data: Any) -> Parts:
        """Return the rows that independence is tested at, each under its density."""


class NamedModel(NamedRows):
    """One model of a table."""

    @abstractmethod
    def _parts(self) -> tuple[Density, Schema]:
        """Return the density on the model's scale and the schema of its columns."""

    @abstractmethod
    def _kind(self) -> str:
        """Return the type of the fitted table and of samples: "frame", "array" or "tensor"."""

    def _fitted_rows(self) -> Evidence | None:
        """Return the training rows, if the model still holds them."""
        return None

    def _columns(self) -> Schema:
        return self._parts()[1]

    def _averaged(self, data: Any, samples: int, random_state: Any) -> Parts:
        density, schema = self._parts()
        table = self._drawn(samples, random_state) if data is None else data
        return [(density, encode(schema, table).evidence)]

    def _tested(self, data: Any) -> Parts:
        density, schema = self._parts()
        rows = self._fitted_rows() if data is None else encode(schema, data).evidence
        if rows is None:
            raise ValueError(
                "Expected `data`, rows to test on: views and loaded models do not hold the rows "
                "that were fitted. Give a table."
            )
        return [(density, rows)]

    def _drawn(self, samples: int, random_state: Any) -> pd.DataFrame:
        """Draw a table: its integers and rounded numbers are cells that have a mass."""
        density, schema = self._parts()
        ((_, rows),) = draws_of(density, samples, seed_of(random_state))
        return decode(schema, rows.lower)
