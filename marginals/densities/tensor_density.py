"""The paper's model: leaves contracted with a tensor."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density, in_batches
from marginals.densities.univariates import LeafMixtures
from marginals.leaves import Leaves
from marginals.numerics import index_of, log_shares, logsumexp, select, spawn
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.memory import floats_at_once
from marginals.runtime.query_batches import map_batches
from marginals.tensors import ComponentTensor
from marginals.tensors.component_tensor import LeafValues

Answer = Callable[[Evidence, Tensor | None], Tensor]

# Leaf values below this make sums whose rounding in float32 shows in the fourth digit of a weight.
_FAR = -1024.0
# Floats that a batch of draws may hold at a time on a CPU.
_CPU_FLOATS = 1 << 24


class LeafDensity(Density):
    """A density over the columns of its leaves.

    Args:
        leaves: the univariate families of all columns.
    """

    def __init__(self, leaves: Leaves) -> None:
        super().__init__()
        self.leaves = leaves

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return self.leaves.columns

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        return self.leaves.categories

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return self.leaves.atoms


@final
class TensorDensity(LeafDensity):
    r"""The marginalizable density :math:`F(x) = \langle A, \prod_j \varphi_{k_j j}(x_j) \rangle`.

    Args:
        leaves: the univariate families of all columns.
        tensor: the weights over their components.

    >>> from marginals.leaves import NeuralLeaves
    >>> from marginals.tensors import CPTensor
    >>> model = TensorDensity(Leaves([NeuralLeaves(2, 8)], [(0, 1)]), CPTensor(2, 8))
    >>> model.logpdf(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    def __init__(self, leaves: Leaves, tensor: ComponentTensor) -> None:
        super().__init__(leaves)
        if (leaves.columns, leaves.width) != tensor.size:
            raise ValueError(
                "Expected leaves and tensor to have the same columns and width; got "
                f"{(leaves.columns, leaves.width)} and {tensor.size}."
            )
        self.tensor = tensor

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        if not evidence.columns:
            return self._zeros(len(evidence))
        return self.tensor.log_value(self._values(evidence, evidence.columns, backend), backend)

    def contract_all(self, evidence: Evidence) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), in batches."""
        if len(evidence) == 1:
            return self.contract(evidence)
        backend = QUERY.for_query()
        size = self._rows_of(len(evidence.columns))
        return in_batches(lambda part: self.contract(part, backend), evidence, size)

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log value of each requested row given its evidence, and that of the evidence.

        The evidence is contracted once, up to the nodes above a requested column.
        """
        asked, known = requested.observed(), given.observed()
        if not asked.columns or not known.columns:
            return super().contract_given(asked, known, place)
        condition = self._condition_one if len(asked.columns) == 1 else self._condition_some
        if place is not None:
            answer, log_given, held = condition(asked.columns, known)
            size = self._rows_of(held)
            parts = zip(asked.batches(size), place.split(size), strict=True)
            found = map_batches(lambda part: answer(*part), parts, place.device)
            return torch.cat(found), log_given
        asked = asked.expand(len(known))

        def of_pair(pair: tuple[Evidence, Evidence]) -> tuple[Tensor, Tensor]:
            answer, log_given, _ = condition(pair[0].columns, pair[1])
            return answer(pair[0], None), log_given

        size = self._rows_of(len(asked.columns) + len(known.columns))
        pairs = zip(asked.batches(size), known.batches(size), strict=True)
        answers = map_batches(of_pair, pairs, known.lower.device)
        values, totals = zip(*answers, strict=True)
        return torch.cat(values), torch.cat(totals)

    def _condition_one(self, columns: Sequence[int], known: Evidence) -> tuple[Answer, Tensor, int]:
        """Return the conditional of one column, a mixture of its leaves with weights by row.

        Also return the log value of the evidence and the number of columns that a row holds.
        """
        values = _steady(self._values(known, (*known.columns, *columns)))
        weights, log_given = log_shares(
            self.tensor.log_outside(values)[values.columns.index(columns[0])]
        )  # (U, M), (U,)

        def answer(part: Evidence, rows: Tensor | None) -> Tensor:
            own = weights if rows is None else weights[rows]
            return logsumexp(self._values(part, columns).log_values[0] + own)

        return answer, log_given, 1

    def _condition_some(
        self, columns: Sequence[int], known: Evidence
    ) -> tuple[Answer, Tensor, int]:
        """Return the conditional of several columns, given the condensed evidence.

        Also return the log value of the evidence and the number of columns that a row holds.
        """
        fixed = self.tensor.condense(_steady(self._values(known, known.columns)), columns)
        log_given = self.tensor.log_value(fixed)
        backend = QUERY.for_query()
        blank = fixed.log_values.new_zeros(len(columns), *fixed.log_values.shape[1:])

        def answer(part: Evidence, rows: Tensor | None) -> Tensor:
            own = self._values(part, columns)
            base = LeafValues(own.columns + fixed.columns, torch.cat([blank, fixed.log_values]))
            none = own.log_values.new_zeros(len(fixed.columns), *own.log_values.shape[1:])
            every = torch.cat([own.log_values, none]).to(blank.dtype)
            return self.tensor.log_ratio(base, every, rows, backend)

        return answer, log_given, len(columns) + len(fixed.columns)

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> LeafMixtures:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        known = self.checked(given)
        asked = tuple(range(self.columns)) if columns is None else tuple(columns)
        self.check_columns(asked)
        values = _steady(self._values(known, sorted({*known.columns, *asked})))
        outside = self.tensor.log_outside(values)
        place = {column: i for i, column in enumerate(values.columns)}
        return LeafMixtures(self.leaves, asked, select(outside, [place[c] for c in asked]))

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        with torch.no_grad():
            if len(given) == 1:  # one pass up serves the components of all draws
                return self._sample_some(given, draws, generator)
            return sample_in_batches(self._sample_some, given, draws, self.draw_cost(), generator)

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time, given such evidence."""
        return self.leaves.row_cost()

    def config(self) -> dict[str, Any]:
        """Return the configuration that rebuilds the model, as JSON."""
        return {
            "leaves": self.leaves.config(),
            "tensor": {"kind": self.tensor.kind, **self.tensor.config()},
        }

    def _values(
        self, evidence: Evidence, columns: Sequence[int], backend: Backend = QUERY
    ) -> LeafValues:
        """Evaluate the leaves of the evidence; its other columns are missing, with log value 0."""
        order = self.tensor.order(columns)
        known = [c for c in order if c in evidence.columns]
        if not known:
            zeros = self._zeros(len(order), len(evidence), self.leaves.width)
            return LeafValues(order, zeros)
        values = self.leaves.log_values(evidence.select(known), backend)
        if len(known) < len(order):
            index = [i for i, c in enumerate(order) if c in evidence.columns]
            zeros = values.new_zeros(len(order), *values.shape[1:])
            values = zeros.index_copy(0, index_of(index, values.device), values)
        return LeafValues(order, values)

    def _sample_some(
        self, given: Evidence, draws: int, generator: torch.Generator | None
    ) -> Tensor:
        """Draw components down the tensor, then one leaf per cell, (B, S, D)."""
        values = self._values(given, range(self.columns))
        components = self.tensor.sample(values, draws, generator)  # (D, B, S)
        cells = given.select(values.columns)
        # The draws for a single row are not yet in batches.
        device = components.device
        most = draws_per_batch(device, self._leaf_cost())
        batches = components.split(most if len(given) == 1 else max(1, draws), 2)
        own = spawn(generator, len(batches), device)

        def leaves(job: tuple[Tensor, torch.Generator | None]) -> Tensor:
            return self.leaves.sample(job[0].flatten(1), cells.repeat(job[0].shape[2]), job[1])

        parts = map_batches(leaves, zip(batches, own, strict=True), device)
        drawn = parts[0] if len(parts) == 1 else torch.cat(parts, 1)  # (D, B S)
        back = sorted(range(self.columns), key=values.columns.__getitem__)
        return select(drawn, back).T.reshape(len(given), draws, self.columns)

    def _rows_of(self, columns: int) -> int:
        """Return how many rows with this number of columns are contracted at a time."""
        return self.rows_at_once() * self.columns // min(max(1, columns), self.columns)

    def draw_cost(self) -> int:
        """Return the number of floats that one draw for one row holds at a time."""
        return self.tensor.draw_cost() + self._leaf_cost()

    def _leaf_cost(self) -> int:
        # Inversion holds about twenty numbers per hidden unit of the chosen leaves; a draw from
        # categories, eight for each.
        codes = sum(count or 0 for count in self.categories)
        return max(1, 20 * self.leaves.row_cost() // self.leaves.width + 8 * codes)

    def _zeros(self, *shape: int) -> Tensor:
        parameter = next(self.parameters())
        return parameter.new_zeros(*shape)


def _steady(values: LeafValues) -> LeafValues:
    """Return values in float64 if they are so large that sums in float32 lose small differences.

    Far-out evidence makes them large, and the weights of components are differences of such sums.
    """
    found = values.log_values
    if not found.numel() or found.dtype == torch.float64:
        return values
    far = bool(found.detach().nan_to_num(neginf=0.0).amin() < _FAR)
    return LeafValues(values.columns, found.double()) if far else values


def sample_in_batches(
    sample: Any, given: Evidence, draws: int, cost: int, generator: torch.Generator | None
) -> Tensor:
    """Draw for batches of rows, and for one row in batches of draws, (B, S, D).

    The batches depend on the draws alone, not on the number of threads.
    """
    device = given.lower.device
    most = draws_per_batch(device, cost)
    if len(given) == 1:
        sizes = [most] * (draws // most) + ([draws % most] if draws % most or not draws else [])
        batches = [(given, size) for size in sizes]
    else:
        rows = max(1, most // max(1, draws))
        batches = [(part, draws) for part in given.batches(rows)]
    own = spawn(generator, len(batches), device)
    jobs = zip(batches, own, strict=True)
    found = map_batches(lambda job: sample(*job[0], job[1]), jobs, device)
    return torch.cat(found, dim=1 if len(given) == 1 else 0)


def draws_per_batch(device: torch.device, cost: int) -> int:
    """Return how many draws that hold `cost` floats each go into a batch."""
    return max(1, floats_at_once(device, _CPU_FLOATS) // cost)
