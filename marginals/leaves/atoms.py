"""Leaves with atoms: a density plus points of positive mass, as in zero-inflated columns."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.leaves.categorical import pick, with_prior_row
from marginals.leaves.family import ContinuousLeaves, LeafEvaluation, LeafFamily, has_exact
from marginals.leaves.neural import NeuralLeaves
from marginals.leaves.shared import SharedLeaves
from marginals.numerics import draw, invert_monotone, log_matmul, logsumexp, select
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.derived import Derived

# Floats held at a time by intervals of all components, of which each cell needs one.
_MOST_NUMBERS = 1 << 22

CONTINUOUS: dict[str, Callable[..., ContinuousLeaves]] = {
    "neural": NeuralLeaves,
    "shared": SharedLeaves,
}


@final
class AtomLeaves(LeafFamily):
    """Leaves that put mass on given points of each column, and the rest on a continuous leaf.

    The value of an exact cell is the mass if it equals an atom, in the precision of the evidence,
    and the density otherwise.

    Args:
        atoms: the atoms of each column.
        width: the number of components M.
        inner: kind and options of the continuous family, neural leaves by default.

    >>> leaves = AtomLeaves([(0.0,)], width=2)
    >>> leaves.evaluate(torch.tensor([[0.0]]), [0]).log_density.exp().sum() > 0
    tensor(True)
    """

    kind = "atoms"
    discrete = True  # quantiles have no gradient at an atom
    absent: Tensor

    def __init__(
        self,
        atoms: Sequence[Sequence[float]],
        width: int,
        inner: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.atoms = tuple(tuple(sorted(map(float, points))) for points in atoms)
        options = {**(inner or {"kind": "neural"}), "columns": len(self.atoms), "width": width}
        self.inner: ContinuousLeaves = CONTINUOUS[options.pop("kind")](**options)
        most = max(len(points) for points in self.atoms)
        # One logit per atom, then one for the continuous part.
        self.logits = nn.Parameter(torch.zeros(len(self.atoms), width, most + 1))
        counts = torch.tensor([len(points) for points in self.atoms])
        absent = torch.arange(most + 1) >= counts[:, None]
        absent[:, -1] = False
        self.register_buffer("absent", absent, persistent=False)  # (D, A + 1)
        self.middle = torch.zeros(len(self.atoms))  # median of the continuous part
        self._masses = Derived()

    @property
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""
        return self.inner.size

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""
        return {
            "atoms": [list(points) for points in self.atoms],
            "width": self.size[1],
            "inner": {"kind": self.inner.kind, **self.inner.config()},
        }

    def log_values(self, cells: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""
        columns = cells.columns
        lower, upper = cells.by_column()
        value = None
        if has_exact(lower, upper, backend) or not cells.has_intervals:
            density = self.inner.log_values(Evidence(columns, cells.upper, cells.upper), backend)
            value = self._exact(upper, density, columns)
        if cells.has_intervals:
            inside = self._within(lower, upper, columns)
            smooth = self._log_mass(columns)[..., -1][:, None]
            smooth = smooth + self.inner.log_interval(lower, upper, columns)
            mass = torch.logaddexp(smooth, self._sum_atoms(inside, columns, backend.host_free))
            value = mass if value is None else torch.where((lower < upper)[..., None], mass, value)
            # The whole line is certain, not a sum that rounds to one.
            everything = (lower == -torch.inf) & (upper == torch.inf)
            value = torch.where(everything[..., None], 0.0, value)
        assert value is not None
        return torch.where(upper.isnan()[..., None], 0.0, value)

    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log density (at an atom, mass) at `x` (n, B)."""
        at = self.inner.evaluate(x, columns)
        smooth = self._log_mass(columns)[..., -1][:, None]
        below = self._sum_atoms(self._points(columns, x) <= x[..., None], columns)
        above = self._sum_atoms(self._points(columns, x) > x[..., None], columns)
        return LeafEvaluation(
            torch.logaddexp(smooth + at.log_cdf, below),
            torch.logaddexp(smooth + at.log_sf, above),
            self._exact(x, at.log_density, columns),
        )

    @torch.no_grad()
    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return the smallest x (n, B, Q) at which mixtures with weights (n, B, M) reach u."""
        shape = log_u.shape
        weights = log_weights.repeat_interleave(shape[-1], 1)  # (n, B Q, M)
        # In float64, so that a quantile at an atom equals it to the last digit.
        target = (log_u.double() - log_1mu.double()).flatten(1)

        def at(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            leaf = self.evaluate(x, columns)
            parts = (leaf.log_cdf, leaf.log_sf, leaf.log_density)
            log_cdf, log_sf, log_density = (logsumexp(weights + part) for part in parts)
            return log_cdf, log_sf, log_density

        def logit_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            log_cdf, log_sf, log_density = at(x)
            return log_cdf - log_sf, (log_density - log_cdf - log_sf).exp()

        low, high = self._bracket(target, weights, columns)
        # Where u falls into the jump at an atom, the quantile is the atom: a bracket of one point,
        # which bisection would only creep up to.
        for points in self._points(columns, low).unbind(-1):
            atom = points.expand(low.shape)
            log_cdf, log_sf, log_jump = at(torch.nan_to_num(atom))
            before = torch.logaddexp(log_sf, log_jump)
            reached = log_cdf - log_sf >= target
            jumped = before > log_1mu.flatten(1)
            inside = atom.isfinite() & reached & jumped
            low, high = torch.where(inside, atom, low), torch.where(inside, atom, high)
        x = invert_monotone(logit_and_slope, target, low, high)
        return x.reshape(shape)

    def rough_invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return points (n, B, Q) near the quantiles of the continuous part."""
        return self.inner.rough_invert(log_u, log_1mu, log_weights, columns)

    def tails(
        self, x: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density (at an atom, mass) of mixtures, (n, Q, B)."""
        log_mass = self._log_mass(columns)
        smooth = log_weights + log_mass[..., -1][:, None]
        below, above, density = self.inner.tails(x, smooth, columns)
        shares = log_weights.exp()
        mass = (shares @ log_mass[..., :-1].exp().to(shares))[:, None]  # (n, 1, B, A)
        points = self._points(columns, x)[:, None]  # (n, 1, 1, A)
        passed, hit = points <= x[..., None], points == x[..., None]
        below, above = below + (passed * mass).sum(-1), above + (~passed * mass).sum(-1)
        return below, above, torch.where(hit.any(-1), (hit * mass).sum(-1), density)

    @torch.no_grad()
    def bracket(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return ends (n, B, Q) between which quantiles at finite levels lie."""
        target = (log_u.double() - log_1mu.double()).flatten(1)
        weights = log_weights.repeat_interleave(log_u.shape[-1], 1)
        low, high = self._bracket(target, weights, columns)
        return low.reshape(log_u.shape), high.reshape(log_u.shape)

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor], Tensor], columns: Sequence[int]) -> Tensor:
        """Return E f(X) under each leaf, (n, M): a sum over atoms and the inner leaf's integral."""
        mass = self._log_mass(columns).exp()  # (n, M, A + 1)
        points = self._points(columns, mass)[:, 0]  # (n, A)
        at_atoms = torch.where(points.isnan(), 0.0, function(torch.nan_to_num(points)))
        inside = mass[..., -1] * self.inner.expect(function, columns)
        return inside + (mass[..., :-1] * at_atoms[:, None]).sum(-1)

    def sample(
        self, components: Tensor, cells: Evidence, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i within the cell of each row, (n, B)."""
        columns = cells.columns
        lower, upper = cells.by_column()
        free = lower.isnan() | (lower == upper)
        low, high = torch.where(free, -torch.inf, lower), torch.where(free, torch.inf, upper)
        rows = torch.arange(len(columns), device=lower.device)[:, None]
        log_mass = self._log_mass(columns)[rows, components]  # (n, B, A + 1)
        smooth = log_mass[..., -1:]
        if cells.has_intervals:  # otherwise every continuous leaf counts whole
            smooth = smooth + self._log_smooth(low, high, components, columns)
        inside = torch.where(self._within(low, high, columns), log_mass[..., :-1], -torch.inf)
        choice = draw(torch.cat([inside, smooth], -1), generator)
        smooth_draw = self.inner.sample(components, cells, generator)
        points = self._points(columns, lower).expand(*lower.shape, -1)
        atom = points.gather(2, choice.clamp_max(points.shape[-1] - 1)[..., None])[..., 0]
        drawn = torch.where(choice < points.shape[-1], atom, smooth_draw)
        return torch.where(lower == upper, lower, drawn)

    @torch.no_grad()
    def scale_to(self, data: Tensor) -> None:
        """Take scales from the values off the atoms, and masses from the counts."""
        columns = range(len(data))
        hit = self._points(columns, data) == data[..., None]  # (D, N, A)
        rest = torch.where(hit.any(-1), torch.nan, data)
        self.inner.scale_to(rest)
        self.middle = torch.nan_to_num(rest.nanmedian(1).values)  # (D,)
        counts = torch.cat([hit.sum(1), rest.isfinite().sum(1)[:, None]], 1) + 1.0
        self.logits.copy_(counts.log()[:, None].expand(self.logits.shape))

    @torch.no_grad()
    def start(self, rows: Tensor, generator: torch.Generator | None = None) -> None:
        """Move component k towards the atom, or a kernel on the value, in `rows` (D, M)."""
        hit = self._points(range(len(rows)), rows) == rows[..., None]  # (D, M, A)
        kernel = torch.cat([hit, ~hit.any(-1, keepdim=True)], -1)
        mass = 0.5 * self._log_mass(range(len(rows))).exp() + 0.5 * kernel
        self.logits.copy_(torch.where(self.absent[:, None], 0.0, mass.log()))
        middle = self.middle[:, None].to(rows)
        self.inner.start(torch.where(hit.any(-1), middle, rows), generator)

    @property
    def has_closed_form_start(self) -> bool:
        """Whether the continuous part has one."""
        return self.inner.has_closed_form_start

    @torch.no_grad()
    def start_weighted(
        self, data: Tensor, shares: Tensor, columns: Sequence[int] | None = None
    ) -> None:
        """Count atoms and other values of data (n, N), weighted by shares (N, M)."""
        at = list(range(len(data)) if columns is None else columns)
        hit = self._points(at, data) == data[..., None]  # (n, N, A)
        rest = torch.where(hit.any(-1), torch.nan, data)
        kinds = torch.cat([hit, rest.isfinite()[..., None]], -1)  # (n, N, A + 1)
        counts = torch.einsum("dna,nm->dma", kinds.to(shares), shares)
        self.logits[at] = with_prior_row(counts, self.absent[at][:, None]).to(self.logits)
        self.inner.start_weighted(rest, shares, at)

    def apart(self, data: Tensor) -> tuple[Tensor, Tensor]:
        """Return the atom of each cell (N, D), A_j if it is at none, and the cells off the atoms.

        Both are (N, D), NaN where missing; cells at atoms are missing in the second.
        """
        hit = self._points(range(data.shape[1]), data.T) == data.T[..., None]  # (D, N, A)
        counts = torch.tensor([len(points) for points in self.atoms]).to(data)[:, None]
        code = torch.where(hit.any(-1), hit.int().argmax(-1).to(data), counts).T
        rest = torch.where(hit.any(-1).T, torch.nan, data)
        return torch.where(data.isnan(), torch.nan, code), rest

    @torch.no_grad()
    def set_masses(
        self, log_masses: Sequence[Tensor], columns: Sequence[int] | None = None
    ) -> None:
        """Set the log masses (M, A_j + 1) of columns' atoms and, last, of the other values."""
        at = range(len(log_masses)) if columns is None else columns
        for column, found in zip(at, log_masses, strict=True):
            self.logits[column, :, : found.shape[1] - 1] = found[:, :-1].to(self.logits)
            self.logits[column, :, -1] = found[:, -1].to(self.logits)

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Start the continuous part as the paper does; the masses stay as they are."""
        self.inner.start_as_paper(generator)

    def row_cost(self) -> int:
        """Return the number of floats that evaluating all columns of one row holds at a time."""
        columns, width = self.size
        return self.inner.row_cost() + columns * 4 * width

    # Parts ------------------------------------------------------------------------------------

    def _log_mass(self, columns: Sequence[int]) -> Tensor:
        """Return the log masses of the atoms and, last, of the continuous part, (n, M, A + 1)."""

        def make(some: Sequence[int]) -> Tensor:
            absent = select(self.absent, some)[:, None]
            logits = select(self.logits, some).masked_fill(absent, -torch.inf)
            return logits.log_softmax(-1)

        return self._masses.of_columns(columns, self.size[0], (self.logits,), make, select)

    def _points(self, columns: Sequence[int], like: Tensor) -> Tensor:
        """Return the atoms (n, 1, A), NaN where a column has fewer."""
        most = self.logits.shape[-1] - 1
        rows = tuple((*self.atoms[c], *(torch.nan,) * (most - len(self.atoms[c]))) for c in columns)
        return _constant(rows, like.dtype, like.device)[:, None]

    def _log_smooth(
        self, low: Tensor, high: Tensor, components: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return the chosen continuous leaves' log probability of intervals (n, N), (n, N, 1)."""
        size = max(1, _MOST_NUMBERS // self.inner.row_cost())
        sides = (part.split(size, 1) for part in (low, high, components))
        parts = [
            self.inner.log_interval(below, above, columns).gather(2, chosen[..., None])
            for below, above, chosen in zip(*sides, strict=True)
        ]
        return torch.cat(parts, 1)

    def _within(self, lower: Tensor, upper: Tensor, columns: Sequence[int]) -> Tensor:
        points = self._points(columns, lower)
        return (points > lower[..., None]) & (points <= upper[..., None])  # (n, B, A)

    def _sum_atoms(self, chosen: Tensor, columns: Sequence[int], host_free: bool = False) -> Tensor:
        """Sum the masses of the chosen atoms (n, B, A), (n, B, M)."""
        log_mass = self._log_mass(columns)[..., :-1]
        if not host_free and bool((chosen.sum(-1) <= 1).all()):  # nothing to sum
            mass = pick(log_mass, chosen.to(torch.uint8).argmax(-1))
            return torch.where(chosen.any(-1)[..., None], mass, -torch.inf)
        log_mask = torch.where(chosen, 0.0, -torch.inf).to(log_mass.dtype)
        return log_matmul(log_mask, log_mass, host_free=host_free)

    def _exact(self, x: Tensor, log_density: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the mass at atoms and the continuous part's share of the density elsewhere."""
        hit = self._points(columns, x) == x[..., None]  # (n, B, A)
        any_hit = hit.any(-1)
        # The continuous part comes after all atoms.
        which = torch.where(any_hit, hit.to(torch.uint8).argmax(-1), hit.shape[-1])
        mass = pick(self._log_mass(columns), which)
        return mass + torch.where(any_hit[..., None], 0.0, log_density)

    def _bracket(
        self, target: Tensor, weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Bracket quantiles: below all atoms and leaves' quantiles, and above them."""
        low, high = self.inner.bracket_logits(target, weights, columns)
        points = self._points(columns, low)
        first = points.nan_to_num(nan=torch.inf).amin(-1)
        last = points.nan_to_num(nan=-torch.inf).amax(-1)
        return low.minimum(first.nextafter(torch.full_like(first, -torch.inf))), high.maximum(last)


@lru_cache(maxsize=256)
def _constant(
    rows: tuple[tuple[float, ...], ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):  # it serves training too
        return torch.tensor(rows, dtype=dtype, device=device)
