"""A density as a `torch.distributions.Distribution`."""

from typing import Any, final

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.nmdma import NMDMA
from marginals.densities.view import View
from marginals.leaves import AtomLeaves


@final
class DensityDistribution(Distribution):
    """A density with torch's interface: batch shape () or (B,) for B rows of evidence.

    The event is a row of D columns, or a number if there is one column.

    Args:
        density: the density, or a view of it given evidence.
        validate_args: check arguments, as in torch.

    >>> from marginals.densities.build import build
    >>> d = build(torch.randn(50, 2), width=4).distribution({0: 0.5})
    >>> d.icdf(torch.tensor(0.5)).shape, d.rsample((3,)).shape
    (torch.Size([]), torch.Size([3]))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012 (torch's signature)

    def __init__(self, density: Density, validate_args: bool | None = None) -> None:
        self.density = density
        # Rows of evidence: one for each element of the batch, or one for all of them.
        self._rows = density.rows if isinstance(density, View) else 1
        batch = torch.Size() if self._rows == 1 else torch.Size((self._rows,))
        event = torch.Size() if density.columns == 1 else torch.Size((density.columns,))
        super().__init__(batch, event, validate_args=validate_args)

    def __repr__(self) -> str:
        batch, event = tuple(self.batch_shape), tuple(self.event_shape)
        return f"DensityDistribution(batch_shape={batch}, event_shape={event})"

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether samples carry gradients: not with categories or atoms, nor for nMDMA."""
        smooth = all(count is None for count in self.density.categories)
        rough = (AtomLeaves, NMDMA)
        return smooth and not any(isinstance(part, rough) for part in self.density.modules())

    @constraints.dependent_property
    def support(self) -> Any:
        """Real numbers, or the codes of categorical columns."""
        each = [
            constraints.real if count is None else constraints.integer_interval(0, count - 1)
            for count in self.density.categories
        ]
        if len(each) == 1:
            return each[0]
        if all(constraint is constraints.real for constraint in each):
            return constraints.real_vector
        return constraints.independent(constraints.cat(each, dim=-1), 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "DensityDistribution":
        """Return the same distribution with a larger batch."""
        shape = torch.Size(batch_shape)
        density = self.density
        if isinstance(density, View) and self._rows != 1:
            index = torch.arange(self._rows).reshape(self.batch_shape).expand(shape).flatten()
            density = _with_rows(density, index)
        larger = DensityDistribution(density, self._validate_args)
        larger._batch_shape = shape
        return larger

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self._query("logpdf", value)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the joint CDF."""
        if self._validate_args:
            self._validate_sample(value)
        return self._query("cdf", value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of a univariate distribution."""
        if self.density.columns != 1:
            raise NotImplementedError(
                "Expected one column for `icdf`; got "
                f"{self.density.columns}. Take a marginal of one column."
            )
        shape = torch.broadcast_shapes(value.shape, self.batch_shape)
        u = value.expand(shape).reshape(-1, self._rows, 1)
        return self.density.univariates().ppf(u).reshape(shape)

    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Draw samples (*sample_shape, *batch_shape, *event_shape)."""
        shape = self._extended_shape(torch.Size(sample_shape))
        draws = torch.Size(sample_shape).numel()
        if self._rows == 1:
            draws *= self.batch_shape.numel()
        with torch.no_grad():
            rows = self.density.sample_rows(self.density.checked(None), draws, generator)
        return rows.transpose(0, 1).reshape(shape)  # from (B, S, D)

    def rsample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        r"""Draw samples whose gradients follow the parameters, by implicit reparametrisation.

        Each column in turn moves such that its conditional CDF, given the columns before it, stays
        the same: :math:`dx_j = -dF(x_j | x_{<j}) / p(x_j | x_{<j})`.
        """
        if not self.has_rsample:
            raise NotImplementedError(
                "Expected a density with continuous columns and univariate conditionals for "
                "`rsample`; got categories, atoms or nMDMA. Use `sample`."
            )
        x = self.sample(sample_shape, generator)
        flat = x.reshape(-1, self.density.columns)
        density = self._tiled(len(flat))
        moved: list[Tensor] = []
        for column in range(self.density.columns):
            own = flat[:, [column]]
            before = torch.cat([own[:, :0], *moved], 1)
            known = Evidence.exact(before, range(column))
            at = density.univariates(known, [column]).evaluate(own)
            change = -at.log_cdf.exp() / at.log_density.detach().exp()
            moved.append(own + change - change.detach())
        return torch.cat(moved, 1).reshape(x.shape)

    def _query(self, query: str, value: Tensor) -> Tensor:
        """Query events, row by row, each given the evidence of its batch element."""
        columns = self.density.columns
        events = value[..., None] if columns == 1 else value
        shape = torch.broadcast_shapes(events.shape[:-1], self.batch_shape)
        flat = events.expand(*shape, columns).reshape(-1, columns)
        return getattr(self._tiled(len(flat)), query)(flat).reshape(shape)

    def _tiled(self, count: int) -> Density:
        """Repeat the evidence of the batch for `count` rows, one batch after the other."""
        if not isinstance(self.density, View) or self._rows in (1, count):
            return self.density
        return _with_rows(self.density, torch.arange(count) % self._rows)


def _with_rows(view: View, index: Tensor) -> View:
    return View(view.base, view.kept, view.given.rows(index.to(view.given.lower.device)))
