"""The whole distribution of a column with few values."""

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import Column, decode_column
from marginals.columns.axis import quiet
from marginals.columns.lattice_axis import LatticeAxis
from marginals.densities import Density, Univariates
from marginals.queries import requests
from marginals.queries.named_rows import NamedModel
from marginals.queries.value_masses import MOST_VALUES, value_masses


class Probabilities(NamedModel):
    """Probabilities of every value of a column, by column names."""

    def probabilities(self, column: Any, given: Any = None) -> Any:
        """Return the probability of each category, or of each integer or rounded number.

        Categories are in the order of the schema. For an integer or rounded column, the values are
        those between its extreme quantiles; all others have a total probability below 2e-10.

        Args:
            column: the column.
            given: evidence; None for none.

        Returns:
            A Series by value; for rows of evidence, a DataFrame with one row each.
        """
        density, schema = self._parts()
        position = schema.index(column)
        described = schema.columns[position]
        density, known = requests.conditioned(density, schema, given, [position])
        if described.listed is not None:
            points = torch.arange(len(described.listed), dtype=torch.float64)
            shares = log_probabilities(density, known, position, len(points)).exp()
        else:
            points, shares = _lattice(density, known, position, described)
        values = pd.Index(decode_column(schema, described.name, points), name=described.name)
        table = pd.DataFrame(shares.numpy(), columns=values)
        if requests.is_single(given):
            return table.iloc[0].rename(None)
        return table.set_axis(given.index) if isinstance(given, pd.DataFrame) else table


@torch.no_grad()
def log_probabilities(density: Density, known: Evidence, position: int, count: int) -> Tensor:
    """Return log P(code | row) of each code of a categorical column, (B, C), in one pass."""

    def of_codes(part: Univariates) -> Tensor:
        codes = torch.arange(count).to(part.log_evidence)
        return part.logpdf(codes[:, None, None])[..., 0].T.double().cpu()  # (B, C)

    parts = density.map_univariates(of_codes, density.checked(known), [position])
    # The shares sum to one only up to rounding in the model's dtype: normalise in float64.
    return torch.cat(parts).log_softmax(1)


@torch.no_grad()
def _lattice(
    density: Density, known: Evidence, position: int, column: Column
) -> tuple[Tensor, Tensor]:
    """Return the values of a lattice (V,) on the model's scale and probabilities (B, V)."""
    line = column.axis
    if not isinstance(line, LatticeAxis):
        raise TypeError(
            "Expected a categorical, integer or rounded column; got continuous column "
            f"{column.name!r}. Ask for `prob` of intervals, or `pdf`."
        )

    def of_values(part: Univariates) -> pd.DataFrame:
        masses = value_masses(part, line, precise=True)
        if masses is None:
            raise ValueError(
                f"Expected column {column.name!r} to have at most {MOST_VALUES} likely values; got "
                "more. Ask for `prob` of intervals."
            )
        with quiet():
            points = line.point(masses[0])  # the same for equal values of other batches
        return pd.DataFrame(masses[1].exp().T.numpy(), columns=points)

    found = density.map_univariates(of_values, density.checked(known), [position])
    table = pd.concat(found).fillna(0.0).sort_index(axis=1)
    table = table.loc[:, (table > 0).any()]
    shares = table.to_numpy(copy=True) / table.sum(axis=1).to_numpy()[:, None]
    return torch.tensor(table.columns.to_numpy()), torch.from_numpy(shares)
