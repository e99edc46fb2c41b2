"""The abstract density: every query, written once in terms of the log value of evidence."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence, as_evidence
from marginals.densities.univariates import Univariates
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.memory import floats_at_once, kept_memory
from marginals.runtime.query_batches import map_batches
from marginals.runtime.threads import answering

if TYPE_CHECKING:
    from marginals.densities.torch_distribution import DensityDistribution
    from marginals.densities.view import View

Answer = TypeVar("Answer")

# Floats that a batch of rows may hold at a time on a CPU.
_CPU_FLOATS = 1 << 23
# With fewer rows the fixed cost of a batch is noticeable: they may hold four times as many floats.
_FEW_ROWS = 2048
# With fewer requested rows, looking for repeated rows of evidence does not pay.
_SHARED_ROWS = 8


class Density(nn.Module, ABC):
    """A joint distribution of D columns that answers every query.

    Each cell of a query is an exact value, an interval, a set or missing. To add a density,
    implement the abstract methods; all queries below, views and tasks then work with it.

    The methods share their arguments. `x`, `lower` and `upper` are tensors (..., n) with a value
    for each of the `columns`, all by default. `given` is evidence or a dict by column. `evidence`
    and `requested` are rows of `Evidence`. `column` is a position, `draws` a number of rows,
    `generator` a source of random numbers, and `backend` selects the implementation.
    """

    @property
    @abstractmethod
    def columns(self) -> int:
        """Number of columns D."""

    @property
    @abstractmethod
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return {}

    @abstractmethod
    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of validated evidence, (B,), all rows at once."""

    @abstractmethod
    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""

    @abstractmethod
    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of validated, possible evidence, (B, S, D)."""

    @abstractmethod
    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row of this evidence keeps in memory."""

    def check_rows(self, evidence: Evidence) -> None:
        """Reject rows whose value has no closed form; the default accepts all rows."""

    def settled(self, evidence: Evidence) -> tuple[Evidence, Tensor | None]:
        """Return checked evidence in the form that is evaluated fastest, for use in many batches.

        Returns:
            The evidence, and what is to be added to its log values, (B,) or None for nothing.
        """
        return evidence, None

    def companions(self, column: int) -> tuple[int, ...]:
        """Return the further columns that `settled` adds for a column; by default none."""
        return ()

    # Every query ------------------------------------------------------------------------------

    def log_value(self, evidence: Any) -> Tensor:
        """Return the log joint value, (B,): density in exact cells, probability in the others."""
        cells = self.checked(evidence)
        with answering():
            known, impossible = cells.without_impossible()
            # A column that is missing in all rows is left out: the same sums, to the bit.
            value = self.contract_all(known.observed())
        return value if impossible is None else value.masked_fill(impossible, -torch.inf)

    def log_conditional(self, requested: Any, given: Any = None) -> Tensor:
        """Return the log value of requested cells given evidence, (B,); reject impossible `given`.

        A single row, requested or given, is broadcast to any number of rows.
        """
        asked, known = self.checked(requested), self.checked(given)
        asked.check_joins(known)
        if not known.columns:
            return self.log_value(asked if len(known) == 1 else asked.join(known))
        with answering():
            asked, impossible = asked.without_impossible()
            rows, place = self._shared(asked, known)
            value, log_given = self.contract_given(asked, rows, place)
            refuse_impossible(log_given, place)
        return value if impossible is None else value.masked_fill(impossible, -torch.inf)

    def log_gain(self, evidence: Any, hidden: Tensor) -> Tensor:
        """Return the log value of hidden cells (B, n) of evidence given its other cells, (B,).

        Each row may hide other columns. The result is the difference of two log values.
        """
        cells = self.checked(evidence)
        return self.log_value(cells) - self.log_value(cells.hide(hidden))

    def logpdf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the log density of `columns` (all by default) at `x` (..., n), given evidence.

        A NaN in `x` marginalises its cell.
        """
        flat, shape = self._flat(x, columns)
        return _shaped(self.log_conditional(Evidence.exact(flat, columns), given), shape)

    def logcdf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the log of P(every X_j <= x_j), (...)."""
        x = _numbers(x)
        return self.logprob(torch.full_like(x, -torch.inf), x, columns, given)

    def logsf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the log of P(every X_j > x_j), (...)."""
        x = _numbers(x)
        return self.logprob(x, torch.full_like(x, torch.inf), columns, given)

    def logprob(
        self,
        lower: Tensor,
        upper: Tensor,
        columns: Sequence[int] | None = None,
        given: Any = None,
    ) -> Tensor:
        """Return the log of P(every lower_j < X_j <= upper_j) for bounds (..., n)."""
        lower, upper = torch.broadcast_tensors(_numbers(lower), _numbers(upper))
        (low, shape), (high, _) = self._flat(lower, columns), self._flat(upper, columns)
        # A box without width is no exact value here: it has no mass.
        empty = low == high
        low, high = torch.where(empty, -torch.inf, low), torch.where(empty, torch.inf, high)
        box = Evidence.interval(low, high, columns).with_impossible(empty)
        # Rounding may take a probability past one.
        return _shaped(self.log_conditional(box, given).clamp_max(0.0), shape)

    def pdf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the density; see `logpdf`."""
        return self.logpdf(x, columns, given).exp()

    def cdf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the joint CDF; see `logcdf`."""
        return self.logcdf(x, columns, given).exp()

    def sf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the joint survival function; see `logsf`."""
        return self.logsf(x, columns, given).exp()

    def prob(
        self,
        lower: Tensor,
        upper: Tensor,
        columns: Sequence[int] | None = None,
        given: Any = None,
    ) -> Tensor:
        """Return the probability of boxes; see `logprob`."""
        return self.logprob(lower, upper, columns, given).exp()

    def ppf(self, u: Tensor | float, column: int, given: Any = None) -> Tensor:
        """Return the quantiles of one column at levels `u` (...), given evidence.

        One row of evidence gives the shape of `u`; B rows give (B, ...).
        """
        known = self.checked(given)
        self.check_columns([column])
        if column in known.columns:
            raise ValueError(
                f"Expected `column` and `given` to be disjoint; got column {column} in both. "
                "Leave it out of `given`."
            )
        level = u if isinstance(u, Tensor) else torch.as_tensor(u, dtype=torch.float64)
        levels = level.to(known.lower.device)
        levels = levels.to(torch.promote_types(levels.dtype, known.lower.dtype))

        def quantiles(part: Univariates) -> Tensor:
            grid = levels.reshape(-1, 1, 1).expand(-1, len(part.log_evidence), 1)
            return part.ppf(grid)[..., 0].T  # (B, Q)

        size = max(1, self.rows_at_once(known) // max(1, levels.numel()))
        parts = self.map_univariates(quantiles, known, [column], size)
        shape = levels.shape if len(known) == 1 else (len(known), *levels.shape)
        return torch.cat(parts).reshape(shape)

    def sample(
        self, draws: int, given: Any = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw complete rows: (S, D) for none or one row of evidence, (B, S, D) for B rows."""
        if draws < 0:
            raise ValueError(f"Expected `draws` to be at least 0; got {draws}.")
        known = self.checked(given)
        with answering():
            self.check_possible(known)
            out = self.sample_rows(known, draws, generator)
        return out[0] if len(known) == 1 else out

    # Views ------------------------------------------------------------------------------------

    def marginal(self, columns: Sequence[int]) -> "View":
        """Return the distribution of some columns, renumbered 0, 1, ..."""
        from marginals.densities.view import View

        return View(self, columns)

    def condition(self, given: Any) -> "View":
        """Return the distribution of the other columns given evidence, renumbered 0, 1, ..."""
        from marginals.densities.view import View

        known = self.checked(given)
        rest = [c for c in range(self.columns) if c not in known.columns]
        view = View(self, rest, known)
        view.base.check_possible(view.given)
        return view

    def distribution(self, given: Any = None) -> "DensityDistribution":
        """Return a `torch.distributions.Distribution` of the columns that are not given."""
        from marginals.densities.torch_distribution import DensityDistribution

        return DensityDistribution(self if given is None else self.condition(given))

    # Parts ------------------------------------------------------------------------------------

    def checked(self, evidence: Any) -> Evidence:
        """Check evidence (None gives nothing) and bring it to this density's device.

        Evidence that has passed says so in `Evidence.valid_for`, and is not checked again.
        """
        known = Evidence.nothing() if evidence is None else as_evidence(evidence)
        categories = self.categories
        if known.valid_for != categories:
            self.check_columns(known.columns)
            _check_categories(known, categories)
            known = replace(known, valid_for=categories)
        parameter = next(self.parameters(), None)
        if parameter is None:
            return known
        # Never narrower than the model: samples and quantiles come back in this dtype.
        dtype = torch.promote_types(known.lower.dtype, parameter.dtype)
        return known.to(parameter.device, dtype)

    def check_possible(self, given: Evidence) -> None:
        """Refuse checked evidence of probability zero."""
        if given.columns:
            refuse_impossible(self.log_value(given))

    def check_columns(self, columns: Sequence[int]) -> None:
        """Refuse columns that this density does not have."""
        for column in columns:
            if not 0 <= column < self.columns:
                raise ValueError(
                    f"Expected columns between 0 and {self.columns - 1}; got {column}."
                )

    def _flat(self, x: Tensor, columns: Sequence[int] | None) -> tuple[Tensor, torch.Size]:
        """View (..., n) as rows, where n must be all columns unless they are named."""
        x = _numbers(x)
        if x.ndim == 0:
            raise ValueError("Expected an array whose last dim runs over columns; got a scalar.")
        if columns is None and x.shape[-1] != self.columns:
            raise ValueError(
                f"Expected values for all {self.columns} columns; got {x.shape[-1]}. Say which "
                "with `columns`."
            )
        return x.reshape(-1, x.shape[-1]), x.shape[:-1]

    def rows_at_once(self, given: Evidence | None = None) -> int:
        """Return how many rows are held at a time, by the memory that univariates given such take.

        Without evidence, or for evidence without ranges, it is what their contraction takes.
        """
        device, cost = self._device(), max(1, self.row_cost(given))
        few = min(_FEW_ROWS * cost, 4 * _CPU_FLOATS)
        return max(1, floats_at_once(device, max(few, _CPU_FLOATS)) // cost)

    def map_univariates(
        self,
        function: Callable[[Univariates], Answer],
        given: Evidence,
        columns: Sequence[int],
        size: int | None = None,
    ) -> list[Answer]:
        """Apply a function to `univariates` of batches; refuse evidence of probability zero.

        Args:
            function: of the univariates of a batch; without gradients it may run in any thread.
            given: checked rows about other columns.
            columns: the columns of the univariates.
            size: the most rows of a batch; None for `rows_at_once`.
        """
        rows = self.rows_at_once(given) if size is None else size

        def answer(numbered: tuple[int, Evidence]) -> Answer:
            found = self.univariates(numbered[1], columns)
            refuse_impossible(found.log_evidence[:, 0], first=numbered[0] * rows)
            return function(found)

        return map_batches(answer, enumerate(given.batches(rows)), self._device())

    def contract_all(self, evidence: Evidence) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), in batches."""
        backend = QUERY.for_query()
        return in_batches(lambda part: self.contract(part, backend), evidence, self.rows_at_once())

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log value of each requested row given its evidence, and that of the evidence.

        A density that can reuse its work on the evidence overrides this.

        Args:
            requested: B checked rows without impossible cells.
            given: U checked rows about other columns.
            place: the row of `given` for each requested row, (B,); None if they go together.

        Returns:
            (B,), arbitrary where the evidence is impossible, and (U,).
        """
        log_given = self.log_value(given)
        if place is None:
            return self.log_value(requested.join(given)) - log_given, log_given
        return self.log_value(requested.join(given.rows(place))) - log_given[place], log_given

    def _device(self) -> torch.device:
        parameter = next(self.parameters(), None)
        return torch.device("cpu") if parameter is None else parameter.device

    def _shared(self, requested: Evidence, given: Evidence) -> tuple[Evidence, Tensor | None]:
        """Return the distinct rows of evidence and their places, if they are few."""
        if len(given) == 1:
            device = given.lower.device
            return given, torch.zeros(len(requested), dtype=torch.long, device=device)
        if len(requested) < _SHARED_ROWS or len(given) != len(requested):
            return given, None
        return given.distinct(min(len(given) // 4, self.rows_at_once())) or (given, None)


def refuse_impossible(log_given: Tensor, place: Tensor | None = None, first: int = 0) -> None:
    """Raise if some evidence has log value -inf.

    Args:
        log_given: of each row of evidence, (U,).
        place: the row of evidence of each requested row, if they differ.
        first: the number of the first row.
    """
    impossible = ~(log_given > -torch.inf)
    if bool(impossible.any()):
        rows = impossible if place is None else impossible[place]
        raise ValueError(
            "Expected `given` to have positive probability; got none in row "
            f"{first + int(rows.nonzero()[0])}. Condition on an event that can happen."
        )


def in_batches(function: Callable[[Evidence], Tensor], evidence: Evidence, size: int) -> Tensor:
    """Apply a function of evidence to batches of at most `size` rows, and join the results."""
    device = evidence.lower.device
    # Contractions free and take large blocks; sampling does not, and gains nothing from it.
    with kept_memory(device.type == "cpu" and len(evidence) > size):
        found = map_batches(function, evidence.batches(size), device)
    return found[0] if len(found) == 1 else torch.cat(found)


def _check_categories(known: Evidence, categories: Sequence[int | None]) -> None:
    """Refuse sets and exact values that are no codes of their column."""
    for column, mask in known.sets.items():
        count = categories[column]
        if count is None:
            raise ValueError(
                f"Expected a number or an interval for continuous column {column}; got a set."
            )
        if mask.shape[-1] > count:
            raise ValueError(
                f"Expected codes 0..{count - 1} for column {column}; got a set with code "
                f"{mask.shape[-1] - 1}."
            )
    for position, column in enumerate(known.columns):
        count = categories[column]
        if count is None:
            continue
        lower, upper = known.lower[:, position], known.upper[:, position]
        wrong = (lower == upper) & (lower != lower.round().clamp(0, count - 1))
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            raise ValueError(
                f"Expected codes 0..{count - 1} in categorical column {column}; got "
                f"{float(lower[row]):g} in row {row}."
            )


def _numbers(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"Expected a torch.Tensor; got {type(x).__name__}.")
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())


def _shaped(out: Tensor, shape: torch.Size) -> Tensor:
    """Shape the results like the query; one row given B rows of evidence has B results."""
    return out.reshape(shape) if out.numel() == shape.numel() else out
