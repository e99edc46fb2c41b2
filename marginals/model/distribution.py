"""A density as a `torch.distributions.Distribution`."""

from typing import Any, final

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from marginals.model.density import Density
from marginals.model.evidence import Evidence
from marginals.model.view import View


@final
class DensityDistribution(Distribution):
    """A density with torch's interface: batch shape () or (B,) for B rows of evidence.

    The event is a row of D columns, or a number if there is one column.

    Args:
        density: the density, or a view of it given evidence.
        validate_args: check arguments, as in torch.

    >>> from marginals.model.build import build
    >>> d = build(torch.randn(50, 2), width=4).distribution({0: 0.5})
    >>> d.icdf(torch.tensor(0.5)).shape, d.rsample((3,)).shape
    (torch.Size([]), torch.Size([3]))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012 (torch's signature)

    def __init__(self, density: Density, validate_args: bool | None = None) -> None:
        self.density = density
        rows = density.rows if isinstance(density, View) else 1
        batch = torch.Size() if rows == 1 else torch.Size((rows,))
        event = torch.Size() if density.columns == 1 else torch.Size((density.columns,))
        super().__init__(batch, event, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether samples carry gradients: if every column is continuous."""
        return all(count is None for count in self.density.categories)

    @constraints.dependent_property
    def support(self) -> Any:
        """Real numbers, and for categorical columns their codes."""
        each = [
            constraints.real if count is None else constraints.integer_interval(0, count - 1)
            for count in self.density.categories
        ]
        if len(each) == 1:
            return each[0]
        if all(constraint is constraints.real for constraint in each):
            return constraints.real_vector
        return constraints.independent(constraints.stack(each, dim=-1), 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "DensityDistribution":
        """Return the same distribution with a larger batch."""
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        if len(shape) != 1 or self.batch_shape != torch.Size():
            raise NotImplementedError(
                f"Expected to expand batch shape () to (B,); got {tuple(self.batch_shape)} to "
                f"{tuple(shape)}."
            )
        view = self.density if isinstance(self.density, View) else None
        base = self.density if view is None else view.base
        kept = range(base.columns) if view is None else view.kept
        given = (Evidence.nothing() if view is None else view.given).expand(shape[0])
        return DensityDistribution(View(base, kept, given), self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self._query(self.density.logpdf, value)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the joint CDF."""
        if self._validate_args:
            self._validate_sample(value)
        return self._query(self.density.logcdf, value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of a univariate distribution."""
        if self.density.columns != 1:
            raise NotImplementedError(
                "Expected one column for `icdf`; got "
                f"{self.density.columns}. Take a marginal of one column."
            )
        shape = torch.broadcast_shapes(value.shape, self.batch_shape)
        u = value.expand(shape).reshape(-1, *self.batch_shape or (1,), 1)
        return self.density.univariates().ppf(u).reshape(shape)

    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Draw samples (*sample_shape, *batch_shape, *event_shape)."""
        shape = torch.Size(sample_shape)
        with torch.no_grad():
            rows = self.density.sample_rows(self._rows(), shape.numel(), generator)  # (B, S, D)
        return rows.transpose(0, 1).reshape(self._extended_shape(shape))

    def rsample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        r"""Draw samples whose gradients follow the parameters, by implicit reparametrisation.

        Each column in turn is moved such that its conditional CDF, given the columns before it,
        stays what it was: :math:`dx_j = -dF(x_j | x_{<j}) / p(x_j | x_{<j})`.
        """
        if not self.has_rsample:
            raise NotImplementedError("Expected continuous columns for `rsample`; got categories.")
        x = self.sample(sample_shape, generator)
        flat = x.reshape(-1, *self.batch_shape or (1,), self.density.columns)
        draws, rows, columns = flat.shape
        moved: list[Tensor] = []
        for column in range(columns):
            own = flat[..., column].reshape(-1, 1)
            if moved:
                before = torch.stack(moved, -1).reshape(draws * rows, column)
            else:
                before = own[:, :0]
            known = Evidence.exact(before, range(column))
            at = self._tiled(draws).univariates(known, [column]).evaluate(own)
            change = -at.log_cdf.exp() / at.log_density.detach().exp()
            moved.append((own + change - change.detach()).reshape(draws, rows))
        return torch.stack(moved, -1).reshape(x.shape)

    def _tiled(self, draws: int) -> Density:
        """Repeat the evidence of a batch once per draw, draws first."""
        if not isinstance(self.density, View) or self.density.rows == 1:
            return self.density
        index = torch.arange(self.density.rows).repeat(draws)
        view = self.density
        return View(view.base, view.kept, view.given.rows(index.to(view.given.lower.device)))

    def _rows(self) -> Evidence:
        return self.density.checked(Evidence.nothing())

    def _query(self, query: Any, value: Tensor) -> Tensor:
        """Ask for values (..., B, D), rows of one batch element at a time aligned to evidence."""
        events = value[..., None] if self.density.columns == 1 else value
        shape = torch.broadcast_shapes(events.shape[:-1], self.batch_shape)
        events = events.expand(*shape, self.density.columns)
        if self.batch_shape == torch.Size() or events.ndim <= 2:
            return query(events).reshape(shape)
        draws = shape[:-1].numel()
        tiled = self._tiled(draws)
        return getattr(tiled, query.__name__)(events.reshape(-1, events.shape[-1])).reshape(shape)
