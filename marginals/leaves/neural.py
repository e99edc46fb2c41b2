"""The paper's leaves: phi_kj = sigmoid of a small monotone network of its own."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marginals.cells import Cells, Truncation
from marginals.leaves.family import ContinuousLeaves, LeafEvaluation
from marginals.leaves.monotone import (
    Network,
    bracket,
    make_gate,
    make_layer,
    value,
    value_and_slope,
    values_and_gap,
)
from marginals.numerics import (
    index_of,
    invert_monotone,
    log_sigmoid_density,
    log_sigmoid_interval,
    logit_of_interval,
    logsumexp,
    select,
)
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.kernels import leaf_inversion, leaf_values, leaf_values_cpu

_BETA = 10.0  # of the weights' softplus, as in the paper


@final
class NeuralLeaves(ContinuousLeaves):
    r"""Univariate CDFs :math:`\varphi_{kj}(x) = \sigma(z_{kj}(x))` for D columns and M components.

    z is a network of `depth` hidden layers of `hidden` units with nonnegative weights and
    activations :math:`h + a \tanh h`, |a| < 1, of the column scaled to (x - location) / scale.

    Args:
        columns: the number of columns D.
        width: the number of components M.
        depth: the number of hidden layers, at least 1.
        hidden: the number of units R of each.

    >>> leaves = NeuralLeaves(columns=2, width=4)
    >>> out = leaves.evaluate(torch.zeros(2, 5), columns=[0, 1])
    >>> out.log_density.shape
    torch.Size([2, 5, 4])
    """

    kind = "neural"
    location: Tensor
    scale: Tensor

    def __init__(self, columns: int, width: int, depth: int = 1, hidden: int = 3) -> None:
        super().__init__()
        for name, number in [("columns", columns), ("width", width), ("depth", depth)]:
            if number < 1:
                raise ValueError(f"Expected `{name}` to be at least 1; got {number}.")
        if hidden < 1:
            raise ValueError(f"Expected `hidden` to be at least 1; got {hidden}.")
        self.depth, self.hidden = depth, hidden
        sizes = [1, *[hidden] * depth, 1]
        cells = (columns, width)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.zeros(out, into, *cells)) for into, out in itertools.pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n, *cells)) for n in sizes[1:])
        self.gates = nn.ParameterList(
            nn.Parameter(torch.zeros(hidden, *cells)) for _ in range(depth)
        )
        self.register_buffer("location", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        self.start_as_paper()

    @property
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""
        return self.biases[0].shape[1], self.biases[0].shape[2]

    def config(self) -> dict[str, Any]:
        """Return what `__init__` needs, as JSON."""
        columns, width = self.size
        return {"columns": columns, "width": width, "depth": self.depth, "hidden": self.hidden}

    def extra_repr(self) -> str:
        """Show the sizes."""
        return ", ".join(f"{key}={number}" for key, number in self.config().items())

    # Values -----------------------------------------------------------------------------------

    def log_values(self, cells: Cells, columns: Sequence[int], backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""
        value = self._by_kernel(cells, columns, backend)
        if value is not None:
            return value
        exact = self._log_density(cells.upper, columns)
        missing = cells.upper.isnan()[..., None]
        if cells.upper is cells.lower or not cells.intervals:
            return torch.where(missing, 0.0, exact)
        rows = cells.intervals
        chosen = [columns[i] for i in rows]
        lower, upper = select(cells.lower, rows), select(cells.upper, rows)
        mass = self.log_interval(lower, upper, chosen)
        mixed = torch.where((lower < upper)[..., None], mass, select(exact, rows))
        if len(rows) == len(columns):
            return torch.where(missing, 0.0, mixed)
        index = index_of(rows, exact.device)
        return torch.where(missing, 0.0, exact.index_copy(0, index, mixed))

    def _by_kernel(self, cells: Cells, columns: Sequence[int], backend: Backend) -> Tensor | None:
        """Return log values from a kernel with its own backward pass; None if none applies."""
        raw = (list(self.weights), list(self.biases), list(self.gates))
        upper = cells.upper
        lower = upper if cells.upper is cells.lower or not cells.intervals else cells.lower
        if upper.requires_grad or lower.requires_grad:
            return None
        if backend.fuses(self.biases[0]) and leaf_values.fits([p for parts in raw for p in parts]):
            place = index_of(columns, upper.device)
            return leaf_values.log_values(lower, upper, self.location, self.scale, place, *raw)
        if backend.precision is None or lower is not upper:
            return None
        return leaf_values_cpu.log_values(
            *(upper, self.location, self.scale, columns, *raw),
            host_free=backend.host_free,
            compiled=backend.compiled,
        )

    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log density at `x` (n, B)."""
        z, log_slope = self.value_and_slope(x[..., None], columns)
        log_cdf, log_sf = F.logsigmoid(z), F.logsigmoid(-z)
        return LeafEvaluation(log_cdf, log_sf, log_slope + log_cdf + log_sf)

    def value_and_slope(self, x: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return z and log z' at `x` (n, B, 1) or, a value per component, (n, B, M)."""
        location, scale = self._scaling(columns, x)
        inside = _finite((x - location) / scale).to(self._dtype)
        z, log_slope = value_and_slope(self._network(columns), inside)
        return torch.where(x.isinf(), x.to(z.dtype), z), log_slope - scale.log().to(z.dtype)

    def log_interval(self, lower: Tensor, upper: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log(phi(upper) - phi(lower)) for bounds (n, B), or (n, B, M) one per component.

        Cells whose bounds are not in order get an arbitrary finite number.
        """
        if lower.ndim == 2:
            lower, upper = lower[..., None], upper[..., None]
        location, scale = self._scaling(columns, lower)
        real = lower < upper
        # A bound at infinity is set aside and put back on the network's output.
        low_open, high_open = lower.isinf(), upper.isinf()
        start, end = (
            _finite((bound - location) / scale).to(self._dtype) for bound in (lower, upper)
        )
        width = _finite((upper - lower) / scale).to(self._dtype)
        width = torch.where(real & ~low_open & ~high_open, width, 1.0)
        low, high, gap = values_and_gap(self._network(columns), start, end, width)
        low = torch.where(low_open, -torch.inf, low)
        high = torch.where(high_open, torch.inf, high)
        gap = torch.where(low_open | high_open, torch.inf, gap)
        return log_sigmoid_interval(low, high, gap)

    def _log_density(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        return log_sigmoid_density(*self.value_and_slope(x[..., None], columns))

    # Quantiles and draws ----------------------------------------------------------------------

    @torch.no_grad()
    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return quantiles (n, B, Q) of mixtures of each column's leaves with weights (n, B, M)."""
        target = (log_u - log_1mu).flatten(1)  # (n, B Q), the logit of u
        weights = log_weights.repeat_interleave(log_u.shape[-1], 1)  # (n, B Q, M)
        network = self._network(columns)

        def logit_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            z, log_slope = value_and_slope(network, x[..., None])
            log_cdf = logsumexp(weights + F.logsigmoid(z))
            log_sf = logsumexp(weights + F.logsigmoid(-z))
            log_density = logsumexp(weights + log_sigmoid_density(z, log_slope))
            return log_cdf - log_sf, (log_density - log_cdf - log_sf).exp()

        x = invert_monotone(logit_and_slope, target, *_bracket_mixture(network, target, weights))
        location, scale = self._scaling(columns, x)
        # In float64: around a large offset float32 has few numbers.
        return (x.double() * scale + location).reshape(log_u.shape)

    def bracket(
        self, target: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Bracket, in the columns' units, where mixtures with weights (n, N, M) reach logits."""
        ends = _bracket_mixture(self._network(columns), target, log_weights)
        location, scale = self._scaling(columns, target)
        low, high = (end * scale + location for end in ends)
        return low, high

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor], Tensor], columns: Sequence[int]) -> Tensor:
        r"""Return E f(X) under each leaf, (n, M), by the trapezoidal rule in the logit of u.

        :math:`E f(X) = \int f(x(t))\, \sigma'(t)\, dt` with :math:`z(x(t)) = t`. The rule converges
        exponentially for smooth f: the relative error of the first two moments is below 1e-6 in
        float64 and 1e-4 in float32. The tails beyond |t| = 45 are left out, where
        :math:`\sigma'` is 1e-20. An expectation that does not exist, because f grows faster than
        the tail falls, is returned as infinite.
        """
        network = self._network(columns)
        t = torch.arange(-450, 451, dtype=self._dtype, device=self.location.device) * 0.1
        shape = (len(columns), len(t), self.size[1])
        target = t[:, None].expand(shape)

        def z_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            z, log_slope = value_and_slope(network, x)
            return z, log_slope.exp()

        x = invert_monotone(z_and_slope, target, *bracket(network, target))
        location, scale = self._scaling(columns, x)
        density = (F.logsigmoid(t) + F.logsigmoid(-t)).exp()[:, None]
        terms = function(x * scale + location) * density  # (n, T, M)
        total = terms.sum(1) * 0.1
        # What stands at the ends must be nothing beside the whole.
        ends = terms[:, [0, -1]].abs().amax(1)
        return torch.where(ends > 1e-3 * (1 + total.abs()), total.sign() * torch.inf, total)

    @torch.no_grad()
    def invert_chosen(
        self,
        log_u: Tensor,
        log_1mu: Tensor,
        components: Tensor,
        columns: Sequence[int],
        within: Truncation,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Invert one leaf per cell (n, N) at u, within its bounds."""
        levels = log_u.to(self._dtype), log_1mu.to(self._dtype)
        location, scale = (t.to(within.lower) for t in self._scaling(columns, within.lower))
        missing, exact = within.lower.isnan(), within.lower == within.upper
        ends: tuple[Tensor, Tensor, Tensor] | None = None
        if within.lower is not within.upper:
            lower = torch.where(missing | exact, -torch.inf, (within.lower - location) / scale)
            upper = torch.where(missing | exact, torch.inf, (within.upper - location) / scale)
            length = (upper - lower).to(self._dtype)
            ends = lower.to(self._dtype), upper.to(self._dtype), length
        x = self._fused_solution(levels, components, columns, ends, backend)
        if x is None:
            x = _solution(self._network(columns, components), levels, ends)
        # In the precision of the question: around a large offset float32 has few numbers.
        x = x.to(within.lower.dtype) * scale + location
        if ends is not None:
            least = within.lower.nextafter(torch.full_like(within.lower, torch.inf))
            x = torch.where(missing, x, x.clamp(least, within.upper))
        return torch.where(exact, within.lower, x)

    def _fused_solution(
        self,
        levels: tuple[Tensor, Tensor],
        components: Tensor,
        columns: Sequence[int],
        ends: tuple[Tensor, Tensor, Tensor] | None,
        backend: Backend,
    ) -> Tensor | None:
        """Return quantiles in units of the networks from the fused kernel, where it serves."""
        raw = [*self.weights, *self.biases, *self.gates]
        if not backend.fuses(self.biases[0]) or not leaf_values.fits(raw):
            return None
        place = index_of(columns, components.device)
        return leaf_inversion.invert_chosen(*levels, components, place, ends, raw, self.depth)

    # Starting points --------------------------------------------------------------------------

    @torch.no_grad()
    def scale_to(self, data: Tensor) -> None:
        """Take location and scale of each column from the data (D, N), NaN where missing."""
        location = torch.nan_to_num(data.nanmean(1))
        scale = (data - location[:, None]).square().nanmean(1).sqrt()
        self.location.copy_(location)
        # A constant or empty column has no scale of its own; its mean is off by rounding.
        rounding = 8 * torch.finfo(data.dtype).eps * location.abs()
        self.scale.copy_(torch.where(scale.isfinite() & (scale > rounding), scale, 1.0))

    @torch.no_grad()
    def start(
        self, rows: Tensor, generator: torch.Generator | None = None, bandwidth: float = 0.25
    ) -> None:
        """Put component k on the values `rows` (D, M) as a kernel of the given bandwidth.

        The bandwidth is that of a logistic density in units of the column's scale: the network
        starts as z = (x - row) / bandwidth, up to the noise that lets its units part.
        """
        centres = ((rows - self.location[:, None]) / self.scale[:, None]).to(self._dtype)
        # Every layer multiplies the slope by (units in) x (weight): share it out evenly.
        slope = (1 / bandwidth) ** (1 / len(self.weights))
        for weight in self.weights:
            weight.copy_(torch.as_tensor(_inverse_softplus(slope / weight.shape[1])))
            weight.add_(0.05 * _normal(weight, generator))
        for gate in self.gates:
            gate.copy_(0.25 * _normal(gate, generator))
        for bias in self.biases:
            bias.zero_()
        first = make_layer(self.weights[0], self.biases[0], _BETA).weight[:, 0]
        self.biases[0].copy_(0.5 * _normal(self.biases[0], generator) - first * centres)
        # Now move each leaf so that its median is the row's value again.
        columns = range(self.size[0])
        z = value(self._network(columns), centres[:, None])[:, 0]
        self.biases[-1][0].sub_(z)

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Set the parameters as the paper's appendix does: biases 0, the rest Gaussian.

        The raw weights have mean one, as in the code behind the paper's figures; its text says
        zero, with which the softplus leaves many networks flat.
        """
        for weight in self.weights:
            weight.copy_(1 + _normal(weight, generator) / math.sqrt(weight.shape[1]))
        for gate in self.gates:
            gate.copy_(_normal(gate, generator))
        for bias in self.biases:
            bias.zero_()

    def row_cost(self) -> int:
        """Return the number of floats that evaluating all columns of one row holds at a time."""
        columns, width = self.size
        return columns * width * (6 * self.hidden + 8)

    # Parts ------------------------------------------------------------------------------------

    @property
    def _dtype(self) -> torch.dtype:
        return self.biases[0].dtype

    def _scaling(self, columns: Sequence[int], x: Tensor) -> tuple[Tensor, Tensor]:
        shape = (-1, *[1] * (x.ndim - 1))
        location, scale = select(self.location, columns), select(self.scale, columns)
        return location.reshape(shape), scale.reshape(shape)

    def _network(self, columns: Sequence[int], components: Tensor | None = None) -> Network:
        """Constrain the parameters: all leaves (..., n, 1, M), or one per cell (..., n, N)."""
        every = list(columns) == list(range(self.size[0]))
        index = index_of(columns, self.location.device)

        def pick(raw: Tensor) -> Tensor:
            if components is None:
                return (raw if every else raw[..., index, :])[..., None, :]
            return raw[..., index[:, None], components]

        weights = [pick(raw) for raw in self.weights]
        biases = [pick(raw) for raw in self.biases]
        return Network(
            tuple(make_layer(w, b, _BETA) for w, b in zip(weights, biases, strict=True)),
            tuple(make_gate(pick(raw)) for raw in self.gates),
        )


def _solution(
    network: Network,
    levels: tuple[Tensor, Tensor],
    ends: tuple[Tensor, Tensor, Tensor] | None,
) -> Tensor:
    """Return where networks (..., n, N) reach log u and log(1 - u) between ends and their gap."""
    log_u, log_1mu = levels
    target = log_u - log_1mu
    if ends is not None:
        lower, upper, _ = ends
        low, high, gap = values_and_gap(network, *(_finite(t) for t in ends))
        low, high = (torch.where(t.isinf(), t, z) for t, z in ((lower, low), (upper, high)))
        gap = torch.where(lower.isinf() | upper.isinf(), torch.inf, gap)
        mass = log_sigmoid_interval(low, high, gap)
        parts = (F.logsigmoid(low), F.logsigmoid(-high), mass)
        target = logit_of_interval(*parts, log_u, log_1mu)

    def z_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_slope = value_and_slope(network, x)
        return z, log_slope.exp()

    return invert_monotone(z_and_slope, target, *bracket(network, target))


def _bracket_mixture(
    network: Network, target: Tensor, log_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Bracket quantiles (n, N) between those of the components that have any weight."""
    low, high = bracket(network, target[..., None])  # (n, N, M)
    alive = log_weights > -torch.inf
    low = torch.where(alive, low, torch.inf).amin(-1)
    high = torch.where(alive, high, -torch.inf).amax(-1)
    return low, high


def _finite(x: Tensor) -> Tensor:
    """Replace NaN and infinities by 0: their cells are decided elsewhere, with a clean gradient."""
    return torch.where(x.isfinite(), x, 0.0)


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def _inverse_softplus(y: float) -> float:
    return (_BETA * y + math.log(-math.expm1(-_BETA * y))) / _BETA
