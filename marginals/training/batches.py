"""Training rows on the model's device: split, shuffled, batched and perturbed there."""

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.sample_weights import checked_weight

# Patterns of missing cells that training finds beforehand. Steps recorded on a GPU cannot count
# them; on a CPU, rows with one of a few patterns are evaluated like complete rows.
_MOST_PATTERNS = {"cpu": 32, "cuda": 256}

# Noise is less where others nearly determine a column: at most so many times the share of its
# deviation that they leave open. Rows that show it, and the least variance of a direction.
_OPEN, _LEAST_ROWS, _SMALLEST = 2.0, 30, 1e-8
# Share of a column's cells from which on noise moves its exact cells.
_LEAST_MOVED = 0.1


@dataclass(frozen=True)
class Rows:
    """Evidence with a weight per row, on the model's device."""

    evidence: Evidence
    weight: Tensor  # (N,)
    log_width: Tensor | None = None  # (N,), to be added to log values

    def __len__(self) -> int:
        return len(self.evidence)

    def take(self, index: Tensor) -> "Rows":
        """Return the rows at an index or mask."""
        width = None if self.log_width is None else self.log_width[index]
        return Rows(self.evidence.rows(index), self.weight[index], width)

    def settled(self, model: Density) -> "Rows":
        """Return the rows with cells in the form that the model evaluates fastest."""
        evidence, log_width = model.settled(self.evidence)
        if log_width is None:
            return self
        return Rows(_with_facts(evidence), self.weight, log_width)

    def with_distinct(self, most: int, still: Container[int]) -> "Rows":
        """Return the rows with the distinct cells of columns with at most `most` of them."""
        return dataclasses.replace(self, evidence=self.evidence.with_distinct(most, still))

    def add_width(self, log_value: Tensor) -> Tensor:
        """Add the log widths of cells that are points to log values (N,)."""
        return log_value if self.log_width is None else log_value + self.log_width.to(log_value)


def make_rows(evidence: Evidence, weight: Tensor | None, name: str) -> Rows:
    """Pair evidence with row weights, one by default; drop rows of weight zero."""
    if len(evidence) == 0:
        raise ValueError(f"Expected `{name}` to have at least one row; got none.")
    _, impossible = evidence.without_impossible()
    if impossible is not None:
        raise ValueError(
            f"Expected `{name}` to have cells that some value lies in; got an impossible cell in "
            f"row {int(impossible.nonzero()[0])}. Leave the row out."
        )
    evidence = _with_facts(evidence)
    if weight is None:
        return Rows(evidence, evidence.lower.new_ones(len(evidence)))
    called = "sample_weight" if name == "data" else f"{name}_weight"
    rows = Rows(evidence, checked_weight(weight, len(evidence), called, name).to(evidence.lower))
    used = rows.weight > 0
    return rows if bool(used.all()) else rows.take(used)


def _with_facts(evidence: Evidence) -> Evidence:
    return evidence.with_facts(_MOST_PATTERNS.get(evidence.lower.device.type, 0))


def split(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows | None]:
    """Hold out a random share of the rows; none if that would leave either side empty."""
    count = round(len(rows) * fraction)
    if count == 0 or count == len(rows):
        return rows, None
    order = _permutation(len(rows), seed, 0, rows.weight.device)
    return rows.take(order[count:]), rows.take(order[:count])


def sample(rows: Rows, most: int, seed: int) -> Rows:
    """Pick at most `most` random rows."""
    if len(rows) <= most:
        return rows
    return rows.take(_permutation(len(rows), seed, 0, rows.weight.device)[:most])


def batch_at(rows: Rows, step: int, size: int, seed: int, orders: dict[int, Tensor]) -> Tensor:
    """Return the indices of a step's rows, which depend on seed and step alone.

    `orders` caches the permutation of the current epoch.
    """
    size = min(size, len(rows))
    epoch, place = divmod(step, len(rows) // size)
    if epoch not in orders:
        orders.clear()
        orders[epoch] = _permutation(len(rows), seed, epoch + 1, rows.weight.device)
    return orders[epoch][place * size : (place + 1) * size]


@final
@dataclass(frozen=True)
class Noise:
    """Gaussian noise on exact cells that are not atoms.

    Args:
        scale: Standard deviation for each column, (n,).
        atoms: Atoms of each column, (n, A), padded with NaN; None if no column has any.
    """

    scale: Tensor
    atoms: Tensor | None = None

    def __len__(self) -> int:
        return len(self.scale)

    def draw(self, rows: int, seed: int, step: int) -> Tensor:
        """Draw the noise for a step, (B, n), which depends on seed and step alone."""
        generator = seeded(self.scale.device, seed, step, 2)
        shape, like = (rows, len(self.scale)), self.scale
        return like * torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)

    def still(self, known: Evidence) -> list[int]:
        """Return the columns in which noise moves no cell."""
        moving = (self.moves(known) & (self.scale > 0)).any(0).tolist()
        return [c for c, some in zip(known.columns, moving, strict=True) if not some]

    def without_rare(self, known: Evidence) -> "Noise":
        """Leave columns alone of which noise would move few cells, such as most lattices."""
        share = self.moves(known).float().mean(0)
        return dataclasses.replace(self, scale=self.scale * (share >= _LEAST_MOVED))

    def moves(self, known: Evidence) -> Tensor:
        """Return a mask (B, n) of the cells that noise moves: exact ones, except atoms."""
        exact = known.lower == known.upper
        return exact if self.atoms is None else exact & ~_at(known.lower, self.atoms)


def moved(batch: Rows, noise: Noise, change: Tensor) -> Rows:
    """Add drawn noise (B, n) to the exact cells."""
    known = batch.evidence
    lower = torch.where(noise.moves(known), known.lower + change, known.lower)
    upper = lower
    if known.has_intervals:
        upper = torch.where(known.lower == known.upper, lower, known.upper)
    return dataclasses.replace(batch, evidence=dataclasses.replace(known, lower=lower, upper=upper))


def make_noise(
    evidence: Evidence,
    categories: Sequence[int | None],
    atoms: Mapping[int, Sequence[float]],
    share: float,
) -> Noise:
    """Scale the noise to a share of each column's standard deviation; none for categories."""
    x = evidence.midpoints(atoms)
    points = [atoms.get(c, ()) for c in evidence.columns]
    most = max(map(len, points), default=0)
    padded = None
    if most:
        rows = [[*row, *[torch.nan] * (most - len(row))] for row in points]
        padded = torch.tensor(rows, dtype=x.dtype, device=x.device)
        x = torch.where(_at(x, padded), torch.nan, x)
    spread = (x - x.nanmean(0)).square().nanmean(0).sqrt()
    spread = torch.where(spread.isfinite(), spread, 0.0)
    # Columns beyond the table's are marks of atoms, which are categories.
    continuous = [c < len(categories) and categories[c] is None for c in evidence.columns]
    numbers = torch.tensor(continuous, device=spread.device)
    scale = spread * numbers
    scale[numbers] *= (_OPEN * open_deviations(x[:, numbers])).clamp(max=1.0).to(scale)
    noise = Noise(share * scale, padded)
    return noise.without_rare(evidence)


def open_deviations(x: Tensor) -> Tensor:
    """Return the deviation of each column of x (N, n) given the others, relative to its own, (n,).

    It is that of normal columns with the same correlations, by rows without gaps; 1 if these are
    few.

    >>> a = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    >>> open_deviations(torch.stack([a, a + 0.1 * a.flip(0), a.roll(1)], 1)).round(decimals=1)
    tensor([0.1000, 0.1000, 1.0000], dtype=torch.float64)
    """
    known = x[~x.isnan().any(1)].double()
    if x.shape[1] < 2 or len(known) < _LEAST_ROWS + 2 * x.shape[1]:
        return x.new_ones(x.shape[1]).double()
    correlation = torch.nan_to_num(torch.corrcoef(known.T))
    values, vectors = torch.linalg.eigh(correlation)
    return (vectors.square() / values.clamp_min(_SMALLEST)).sum(1).rsqrt().clamp(max=1.0)


def _at(x: Tensor, atoms: Tensor) -> Tensor:
    """Return a mask of the cells (B, n) that are among their column's atoms (n, A)."""
    return (x[..., None] == atoms).any(-1)


def seeded(device: torch.device, *numbers: int) -> torch.Generator:
    """Return a generator whose seed mixes the numbers."""
    seed = 0
    for number in numbers:
        # A 62-bit linear congruential step keeps neighbouring numbers far apart.
        seed = ((seed ^ number) * 6364136223846793005 + 1442695040888963407) % (1 << 62)
    return torch.Generator(device).manual_seed(seed)


def _permutation(count: int, seed: int, epoch: int, device: torch.device) -> Tensor:
    return torch.randperm(count, generator=seeded(device, seed, epoch, 1), device=device)
