"""The abstract density: every query, written once in terms of the log value of evidence."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence, as_evidence
from marginals.densities.univariates import Univariates
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.memory import floats_at_once

if TYPE_CHECKING:
    from marginals.densities.torch_distribution import DensityDistribution
    from marginals.densities.view import View

# Floats that a batch of rows may hold at a time on a CPU.
_CPU_FLOATS = 1 << 23
# Fewer questions than this do not pay for looking whether they share their evidence.
_SHARED_ROWS = 8


class Density(nn.Module, ABC):
    """A joint distribution of D columns that can be asked anything.

    A query gives each cell an exact value, an interval or nothing. To add a density, answer the
    abstract methods; all queries below, the views and the tasks then work with it.
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
        """By column, the points that have a mass of their own."""
        return {}

    @abstractmethod
    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of evidence, (B,), in one go; `backend` says how."""

    @abstractmethod
    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        """Return p(x_j | what is known of the other columns) for columns j, all by default."""

    @abstractmethod
    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of evidence, (B, S, D)."""

    @abstractmethod
    def row_cost(self) -> int:
        """Return the number of floats that the contraction of one row holds at a time."""

    def check_rows(self, evidence: Evidence) -> None:
        """Refuse rows whose value has no closed form; a density that answers all refuses none."""

    # Every query ------------------------------------------------------------------------------

    def log_value(self, evidence: Any) -> Tensor:
        """Return the log density of the exact cells and probability of the others, (B,)."""
        # A column that is missing everywhere is one not asked about: the same sums, to the bit.
        evidence = self.checked(evidence).known().promised()
        return self.contract_all(evidence)

    def contract_all(self, evidence: Evidence) -> Tensor:
        """Return the log value of each row of evidence, (B,), in batches."""
        backend = QUERY.for_query()
        return in_batches(lambda part: self.contract(part, backend), evidence, self.rows_at_once())

    def logpdf(self, x: Tensor, columns: Sequence[int] | None = None, given: Any = None) -> Tensor:
        """Return the log density of `columns` (all by default) at `x` (..., n), given evidence.

        A NaN in `x` marginalises its cell.
        """
        flat, shape = self._flat(x, columns)
        return _shaped(self._conditional(Evidence.exact(flat, columns), given), shape)

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
        absent = low.isnan() | high.isnan()
        empty = (low >= high) & ~absent
        if bool((low > high).any()):
            Evidence.interval(low, high, columns)  # raises, naming the cell
        # A box without width has no mass: the point itself would be read as an exact value.
        low, high = torch.where(empty, -torch.inf, low), torch.where(empty, torch.inf, high)
        box = Evidence.interval(low, high, columns)
        out = self._conditional(box, given)
        return _shaped(torch.where(empty.any(-1).to(out.device), -torch.inf, out), shape)

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
        known = self.checked(Evidence.nothing() if given is None else given)
        self.check_columns([column])
        if column in known.columns:
            raise ValueError(
                f"Expected `column` and `given` to be disjoint; got column {column} in both. "
                "Leave it out of `given`."
            )
        self._value_of_given(known)
        level = u if isinstance(u, Tensor) else torch.as_tensor(u, dtype=torch.float64)
        levels = level.to(known.lower.device)
        levels = levels.to(torch.promote_types(levels.dtype, known.lower.dtype))

        def solve(part: Evidence) -> Tensor:
            grid = levels.reshape(-1, 1, 1).expand(-1, len(part), 1)
            return self.univariates(part, [column]).ppf(grid)[..., 0].T  # (B, Q)

        size = max(1, self.rows_at_once() // max(1, levels.numel()))
        out = in_batches(solve, known, size)
        return out.reshape(levels.shape if len(known) == 1 else (len(known), *levels.shape))

    def sample(
        self, draws: int, given: Any = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw complete rows: (S, D) for none or one row of evidence, (B, S, D) for B rows."""
        if draws < 0:
            raise ValueError(f"Expected `draws` to be at least 0; got {draws}.")
        known = self.checked(Evidence.nothing() if given is None else given)
        self._value_of_given(known)
        out = self.sample_rows(known, draws, generator)
        return out[0] if len(known) == 1 else out

    # Views ------------------------------------------------------------------------------------

    def marginal(self, columns: Sequence[int]) -> "View":
        """Return the distribution of some columns, which are then called 0, 1, ..."""
        from marginals.densities.view import View

        return View(self, columns)

    def condition(self, given: Any) -> "View":
        """Return the distribution of the other columns given evidence, then called 0, 1, ..."""
        from marginals.densities.view import View

        known = as_evidence(given)
        rest = [c for c in range(self.columns) if c not in known.columns]
        return View(self, rest, known)

    def distribution(self, given: Any = None) -> "DensityDistribution":
        """Return a `torch.distributions.Distribution` of the columns that are not given."""
        from marginals.densities.torch_distribution import DensityDistribution

        return DensityDistribution(self if given is None else self.condition(given))

    # Parts ------------------------------------------------------------------------------------

    def checked(self, evidence: Any) -> Evidence:
        """Check that the evidence speaks of this density's columns, and bring it to its device."""
        known = as_evidence(evidence)
        self.check_columns(known.columns)
        self._check_categories(known)
        parameter = next(self.parameters(), None)
        if parameter is None:
            return known
        # Never narrower than the model: samples and quantiles come back in this dtype.
        dtype = torch.promote_types(known.lower.dtype, parameter.dtype)
        return known.to(parameter.device, dtype)

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

    def _check_categories(self, known: Evidence) -> None:
        categories = self.categories  # read once: it asks every column
        for column in known.sets:
            count = categories[column]
            if count is None:
                raise ValueError(
                    f"Expected a number or an interval for continuous column {column}; got a set."
                )
            if known.sets[column].shape[-1] > count:
                raise ValueError(
                    f"Expected codes 0..{count - 1} for column {column}; got a set with code "
                    f"{known.sets[column].shape[-1] - 1}."
                )
        for position, column in enumerate(known.columns):
            count = categories[column]
            if count is not None:
                _check_codes(known.lower[:, position], known.upper[:, position], column, count)

    def rows_at_once(self) -> int:
        """Return how many rows are contracted at a time, by the memory they take."""
        parameter = next(self.parameters(), None)
        device = torch.device("cpu") if parameter is None else parameter.device
        return max(1, floats_at_once(device, _CPU_FLOATS) // max(1, self.row_cost()))

    def log_value_beside(self, asked: Evidence, known: Evidence, place: Tensor) -> Tensor:
        """Return the log value of each row of `asked` together with row `place[b]` of `known`.

        A density that can reuse its work on what is known overrides this.
        """
        return self.log_value(asked.join(known.rows(place)))

    def _conditional(self, of: Evidence, given: Any) -> Tensor:
        if given is None:
            return self.log_value(of)
        asked, known = self.checked(of), self.checked(given)
        asked.check_joins(known)
        shared = self._shared(asked, known)
        if shared is None:
            base = self._value_of_given(known)
            return self.log_value(asked.join(known)) - base
        few, place = shared
        base = self._value_of_given(few, place)
        return self.log_value_beside(asked, few, place) - base[place]

    def _shared(self, asked: Evidence, known: Evidence) -> tuple[Evidence, Tensor] | None:
        """Return the different rows of what is known and their places, if they are few."""
        if not known.columns or len(asked) < _SHARED_ROWS:
            return None
        if len(known) == 1:
            place = torch.zeros(len(asked), dtype=torch.long, device=known.lower.device)
            return known, place
        if len(known) != len(asked):
            return None
        return known.distinct(min(len(known) // 4, self.rows_at_once()))

    def _value_of_given(self, known: Evidence, place: Tensor | None = None) -> Tensor:
        """Return the log value of what is given; `place` says where its rows come from."""
        if not known.columns:
            return known.lower.new_zeros(len(known))
        value = self.log_value(known)
        impossible = ~(value > -torch.inf)
        if bool(impossible.any()):
            rows = impossible if place is None else impossible[place]
            raise ValueError(
                "Expected `given` to have positive probability; got none in row "
                f"{int(rows.nonzero()[0])}. Condition on an event that can happen."
            )
        return value


def in_batches(function: Callable[[Evidence], Tensor], evidence: Evidence, size: int) -> Tensor:
    """Apply a function of evidence to batches of its rows, and put the answers together."""
    if len(evidence) <= size:
        return function(evidence)
    return torch.cat([function(part) for part in evidence.batches(size)])


def _check_codes(lower: Tensor, upper: Tensor, column: int, count: int) -> None:
    """Refuse an exact value that is no code of its categorical column."""
    code = lower.round().clamp(0, count - 1)
    wrong = (lower == upper) & (lower != code)
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
    """Give answers the shape of the question; one row asked of B rows of evidence has B answers."""
    return out.reshape(shape) if out.numel() == shape.numel() else out
