"""The paper's leaves: phi_kj is the sigmoid of its own small monotone network."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.leaves.family import (
    ContinuousLeaves,
    LeafEvaluation,
    check_positive,
    integral,
    location_and_scale,
    normal_like,
)
from marginals.leaves.monotone import (
    Network,
    bracket,
    finite,
    inverse_softplus,
    make_gate,
    make_layer,
    refined,
    solve,
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

_BETA = 10.0  # sharpness of the weights' softplus, as in the paper


@final
class NeuralLeaves(ContinuousLeaves):
    r"""Univariate CDFs :math:`\varphi_{kj}(x) = \sigma(z_{kj}(x))` for D columns and M components.

    z is a network of `depth` hidden layers of `hidden` units with nonnegative weights and
    activations :math:`h + a \tanh h`, |a| < 1, of the column scaled to (x - location) / scale.

    Args:
        columns: the number of columns D.
        width: the number of components M.
        depth: the number of hidden layers, at least 1.
        hidden: the number of units R in each layer.

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
        check_positive(columns=columns, width=width, depth=depth, hidden=hidden)
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
        """Return the arguments of `__init__`, as JSON."""
        columns, width = self.size
        return {"columns": columns, "width": width, "depth": self.depth, "hidden": self.hidden}

    # Values -----------------------------------------------------------------------------------

    def log_values(self, cells: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""
        value = self._by_kernel(cells, backend)
        return super().log_values(cells, backend) if value is None else value

    def _by_kernel(self, cells: Evidence, backend: Backend) -> Tensor | None:
        """Return log values from a kernel with its own backward pass; None if none applies."""
        raw = (list(self.weights), list(self.biases), list(self.gates))
        lower, upper = cells.by_column()
        if upper.requires_grad or lower.requires_grad:
            return None
        if backend.fuses(self.biases[0]) and leaf_values.fits([p for parts in raw for p in parts]):
            place = index_of(cells.columns, upper.device)
            lower = lower if cells.has_intervals else upper
            return leaf_values.log_values(lower, upper, self.location, self.scale, place, *raw)
        if backend.precision is None or cells.has_intervals:
            return None
        return leaf_values_cpu.log_values(
            *(upper, self.location, self.scale, cells.columns, *raw),
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
        inside = finite((x - location) / scale).to(self._dtype)
        z, log_slope = value_and_slope(self._network(columns), inside)
        return torch.where(x.isinf(), x.to(z.dtype), z), log_slope - scale.log().to(z.dtype)

    def log_interval(self, lower: Tensor, upper: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log(phi(upper) - phi(lower)) for bounds (n, B), or (n, B, M) one per component."""
        if lower.ndim == 2:
            lower, upper = lower[..., None], upper[..., None]
        location, scale = self._scaling(columns, lower)
        real = lower < upper
        # Infinite bounds are replaced here and put back into the network's output.
        low_open, high_open = lower.isinf(), upper.isinf()
        start, end = (
            finite((bound - location) / scale).to(self._dtype) for bound in (lower, upper)
        )
        width = finite((upper - lower) / scale).to(self._dtype)
        width = torch.where(real & ~low_open & ~high_open, width, 1.0)
        low, high, gap = values_and_gap(self._network(columns), start, end, width)
        low = torch.where(low_open, -torch.inf, low)
        high = torch.where(high_open, torch.inf, high)
        gap = torch.where(low_open | high_open, torch.inf, gap)
        return log_sigmoid_interval(low, high, gap)

    def log_density(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return log phi'(x) for `x` (n, B), (n, B, M)."""
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

    def bracket_logits(
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
        float64 (1e-4 where a single unit bends sharply) and 1e-4 in float32. The tails beyond
        |t| = 45, where :math:`\sigma'` is 1e-20, are left out. If f grows faster than the tail
        falls, the expectation is infinite.
        """
        network = self._network(columns)
        t = torch.arange(-450, 451, dtype=self._dtype, device=self.location.device) * 0.1
        shape = (len(columns), len(t), self.size[1])
        target = t[:, None].expand(shape)

        x = solve(network, target)
        location, scale = self._scaling(columns, x)
        density = (F.logsigmoid(t) + F.logsigmoid(-t)).exp()[:, None]
        return integral(function(x * scale + location) * density, 0.1)  # of terms (n, T, M)

    def quantiles_of_chosen(
        self,
        levels: tuple[Tensor, Tensor],
        components: Tensor,
        columns: Sequence[int],
        dtype: torch.dtype,
        bounds: tuple[Tensor, Tensor] | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Return quantiles of one leaf per cell (n, B), truncated to bounds (n, B) if given."""
        location, scale = (t.to(dtype) for t in self._scaling(columns, components))
        ends: tuple[Tensor, Tensor, Tensor] | None = None
        if bounds is not None:
            lower, upper = ((bound - location) / scale for bound in bounds)
            ends = lower, upper, upper - lower
        wide = torch.promote_types(dtype, self._dtype)
        x = self._fused_solution(levels, components, columns, ends, backend)
        if x is None or wide != self._dtype:
            network = self._network(columns, components)
            target = _targets(network.to(wide), _cast(levels, wide), _cast(ends, wide))
            x = (
                solve(network, target)
                if x is None
                else refined(network.to(wide), target, x.to(wide))
            )
        return x.to(dtype) * scale + location

    def _fused_solution(
        self,
        levels: tuple[Tensor, Tensor],
        components: Tensor,
        columns: Sequence[int],
        ends: tuple[Tensor, Tensor, Tensor] | None,
        backend: Backend,
    ) -> Tensor | None:
        """Return quantiles in units of the networks from the fused kernel, if it applies."""
        raw = [*self.weights, *self.biases, *self.gates]
        if not backend.fuses(self.biases[0]) or not leaf_values.fits(raw):
            return None
        place = index_of(columns, components.device)
        log_u, log_1mu = _cast(levels, self._dtype)
        own = _cast(ends, self._dtype)
        return leaf_inversion.invert_chosen(log_u, log_1mu, components, place, own, raw, self.depth)

    # Starting points --------------------------------------------------------------------------

    @torch.no_grad()
    def scale_to(self, data: Tensor) -> None:
        """Take location and scale of each column from the data (D, N), NaN where missing."""
        location, scale = location_and_scale(data)
        self.location.copy_(location)
        self.scale.copy_(scale)

    @property
    def has_closed_form_start(self) -> bool:
        """Networks have none."""
        return False

    @torch.no_grad()
    def start(
        self, rows: Tensor, generator: torch.Generator | None = None, bandwidth: float = 0.25
    ) -> None:
        """Set component k to a kernel of the given bandwidth on the values `rows` (D, M).

        The bandwidth is that of a logistic density in units of the column's scale: the network
        starts as z = (x - row) / bandwidth, plus noise that makes its units differ.
        """
        centres = ((rows - self.location[:, None]) / self.scale[:, None]).to(self._dtype)
        # Every layer multiplies the slope by (units in) x (weight): split it evenly.
        slope = (1 / bandwidth) ** (1 / len(self.weights))
        for weight in self.weights:
            weight.copy_(torch.as_tensor(inverse_softplus(slope / weight.shape[1], _BETA)))
            weight.add_(0.05 * normal_like(weight, generator))
        for gate in self.gates:
            gate.copy_(0.25 * normal_like(gate, generator))
        for bias in self.biases:
            bias.zero_()
        first = make_layer(self.weights[0], self.biases[0], _BETA).weight[:, 0]
        self.biases[0].copy_(0.5 * normal_like(self.biases[0], generator) - first * centres)
        # Shift each leaf so that its median is the row's value.
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
            weight.copy_(1 + normal_like(weight, generator) / math.sqrt(weight.shape[1]))
        for gate in self.gates:
            gate.copy_(normal_like(gate, generator))
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


def _cast(parts: tuple[Tensor, ...] | None, dtype: torch.dtype) -> Any:
    return None if parts is None else tuple(part.to(dtype) for part in parts)


def _targets(
    network: Network,
    levels: tuple[Tensor, Tensor],
    ends: tuple[Tensor, Tensor, Tensor] | None,
) -> Tensor:
    """Return the values of networks (..., n, N) at log u and log(1 - u), truncated to the ends."""
    log_u, log_1mu = levels
    if ends is None:
        return log_u - log_1mu
    lower, upper, _ = ends
    low, high, gap = values_and_gap(network, *(finite(t) for t in ends))
    low, high = (torch.where(t.isinf(), t, z) for t, z in ((lower, low), (upper, high)))
    gap = torch.where(lower.isinf() | upper.isinf(), torch.inf, gap)
    mass = log_sigmoid_interval(low, high, gap)
    return logit_of_interval(F.logsigmoid(low), F.logsigmoid(-high), mass, log_u, log_1mu)


def _bracket_mixture(
    network: Network, target: Tensor, log_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Bracket quantiles (n, N) between those of the components with positive weight."""
    low, high = bracket(network, target[..., None])  # (n, N, M)
    alive = log_weights > -torch.inf
    low = torch.where(alive, low, torch.inf).amin(-1)
    high = torch.where(alive, high, -torch.inf).amax(-1)
    return low, high
