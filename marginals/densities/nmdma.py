"""nMDMA: a triangular shift of the columns in front of the leaves, exactly normalised."""

from collections.abc import Sequence
from typing import Any, NoReturn, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.tensor_density import TensorDensity, sample_in_batches
from marginals.densities.univariates import Univariates
from marginals.leaves import NeuralLeaves
from marginals.numerics import log_sigmoid_density, select
from marginals.runtime.backend import QUERY, Backend
from marginals.tensors.component_tensor import LeafValues

_BETA = 10.0  # sharpness of the shift's softplus, as for the leaves' weights


@final
class NMDMA(Density):
    r"""The non-marginalizable variant: leaves of :math:`v_k = x + T_k \sigma(x)`.

    In a fixed column order, :math:`T_k \ge 0` is strictly upper triangular: each column is shifted
    by those after it. The rows of T differ by component but the order does not, so every product of
    leaves integrates to one, and so does the model.

    The model answers exactly: the density, the density of the last columns in the order, the
    probability of an interval of one column given exact values of all columns after it, and samples
    given exact values of the last columns. All other queries raise an error.

    Args:
        inner: the marginalizable model whose leaves are shifted; all columns continuous.
        order: the column order; 0..D-1 by default.
    """

    def __init__(self, inner: TensorDensity, order: Sequence[int] | None = None) -> None:
        super().__init__()
        kinds = [family.kind for family in inner.leaves]
        if kinds != [NeuralLeaves.kind]:
            raise ValueError(
                f"Expected neural leaves in all columns of nMDMA; got leaves of kinds {kinds}. Use "
                "a TensorDensity for mixed columns."
            )
        columns, width = inner.columns, inner.leaves.width
        chosen = tuple(range(columns)) if order is None else tuple(order)
        if sorted(chosen) != list(range(columns)):
            raise ValueError(f"Expected `order` to hold 0..{columns - 1} once each; got {chosen}.")
        self.inner, self.order = inner, chosen
        like = next(inner.parameters())
        # Softplus of -0.5 with beta 10 is 7e-4: training starts at the inner model.
        self.raw = nn.Parameter(like.new_full((columns, width, columns), -0.5))  # (D, M, D)
        rank = torch.tensor(chosen).argsort()
        self.register_buffer("after", rank[:, None] < rank, persistent=False)  # (D, D)

    after: Tensor

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return self.inner.columns

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column: all are continuous."""
        return self.inner.categories

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        if not backend.host_free:  # before a recorded step, `fit` checks all rows
            self.check_rows(evidence)
        return self.inner.tensor.log_value(self._values(evidence), backend)

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Raise: conditionals of single columns are lost."""
        _lost("univariate conditionals and quantiles")

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        self.check_rows(given)
        if given.has_intervals:
            _lost("sampling within intervals")
        with torch.no_grad():
            cost = self.inner.draw_cost() + self.columns * self.inner.leaves.width
            return sample_in_batches(self._sample_some, given, draws, cost, generator)

    def check_rows(self, evidence: Evidence) -> None:
        """Accept, in the column order: missing cells, then a cell of any kind, then exact ones."""
        lower, upper = evidence.select(self.order).by_column()  # (D, B)
        known, exact = ~upper.isnan(), lower == upper
        after_known = known.int().cumsum(0) - known.int() > 0
        lost = after_known & ~exact
        if bool(lost.any()):
            column = self.order[int(lost.nonzero()[0, 0])]
            _lost(f"evidence in which column {column} is not exact but one before it is known")

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time, given such evidence."""
        return self.inner.row_cost() + 4 * self.columns * self.inner.leaves.width

    def config(self) -> dict[str, Any]:
        """Return the configuration that rebuilds the model, as JSON."""
        return {"order": list(self.order)}

    # Parts ------------------------------------------------------------------------------------

    @property
    def _family(self) -> NeuralLeaves:
        family = self.inner.leaves.families[0]
        assert isinstance(family, NeuralLeaves)
        return family

    def _shift_weights(self) -> Tensor:
        return torch.where(self.after[:, None], F.softplus(self.raw, beta=_BETA), 0.0)  # (D, M, D)

    def _shift(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return T sigma(x) for some columns (n, B, M), from x (D, B) in the columns' own units."""
        family = self._family
        scaled = (x - family.location[:, None]) / family.scale[:, None]
        # A missing cell shifts only cells before it in the order, which are missing too. Its NaN
        # must not reach the sigmoid, whose gradient it would spoil.
        known = scaled.isfinite()
        squashed = torch.where(known, torch.sigmoid(torch.where(known, scaled, 0.0)), 0.0)
        squashed = squashed.to(self.raw.dtype)
        shift = squashed.T @ select(self._shift_weights(), columns).transpose(1, 2)
        return shift * select(family.scale, columns)[:, None, None]

    def _values(self, evidence: Evidence) -> LeafValues:
        """Evaluate the shifted leaves, (D, B, M)."""
        order = self.inner.tensor.order(range(self.columns))
        _, every = evidence.select(range(self.columns)).by_column()  # (D, B)
        shift = self._shift(every, order)
        lower, upper = (bound[..., None] for bound in evidence.select(order).by_column())
        value = log_sigmoid_density(*self._family.value_and_slope(upper + shift, order))
        if evidence.has_intervals:
            mass = self._family.log_interval(lower + shift, upper + shift, order)
            value = torch.where(lower < upper, mass, value)
        return LeafValues(order, torch.where(upper.isnan(), 0.0, value))

    def _sample_some(
        self, given: Evidence, draws: int, generator: torch.Generator | None
    ) -> Tensor:
        """Draw components, then columns from the last to the first, (B, S, D)."""
        values = self._values(given)
        components = self.inner.tensor.sample(values, draws, generator).flatten(1)
        place = {column: i for i, column in enumerate(values.columns)}
        x, _ = given.select(range(self.columns)).repeat(draws).by_column()  # (D, B S)
        for column in reversed(self.order):
            chosen = components[place[column]]
            shift = self._shift(x, [column])[0].gather(1, chosen[:, None])[:, 0]
            free = Evidence.nothing(x.shape[1], x).select([column])
            drawn = self._family.sample(chosen[None], free, generator)
            fresh = torch.where(x[column].isnan(), drawn[0] - shift, x[column])
            x = x.index_copy(0, torch.tensor([column], device=x.device), fresh[None])
        return x.T.reshape(len(given), draws, self.columns)


def _lost(what: str) -> NoReturn:
    raise ValueError(
        f"Expected a query that nMDMA can answer in closed form; got {what}. Use a TensorDensity "
        "(`marginals.build`), which answers every query."
    )
