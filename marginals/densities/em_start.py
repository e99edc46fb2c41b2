"""Start copula components from a mixture fitted by EM on the learned scale.

EM finds clusters in a hundredth of the time that gradients need. With one factor less than columns
the components are those of the mixture; with fewer factors they keep the strongest directions.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from marginals.densities.coupled import CoupledDensity
from marginals.densities.stepwise_em import MixedRows, StepwiseEM, floored
from marginals.leaves import AtomLeaves, CategoricalLeaves, LeafFamily, SharedLeaves
from marginals.runtime.threads import threads_for

# Deviation that each column has at least within a component, on the learned scale, so that a
# component of few rows does not collapse on them; and its share of what the other columns leave
# open, which is less where columns nearly determine each other.
_FLOOR, _OPEN = 0.01, 0.2
_LEAST_FLOOR = 1e-6
# Directions with variances between these are sharp.
_SHARPEST, _SHARP = 1e-12, 0.01
# Nats that columns say about each other, by their correlations, beyond what a tree of few leaves
# holds; rows that show it.
_DEPENDENT, _MOST_CORRELATED = 2.0, 20_000
# Directions with less variance than this, relative to the columns', are lost in training's noise.
_BLURRED = 0.005
# The kurtosis of a uniform margin is 1.8, that of a normal one 3. Columns with a correlation above
# this nearly equal each other.
_FLAT, _NEARLY_EQUAL, _LEAST_FLAT_ROWS = 2.2, 0.999, 100
_ROUNDS = 10
# Fits to the likelier rows, each of which chooses them anew.
_TRIMS = 2
# Rows whose posteriors start the columns that are not coupled.
_MOST_SHARES = 20_000
# A column that is not coupled is a list of values if at least this share of its rows is at atoms.
_LISTED = 0.5


@torch.no_grad()
def start_by_em(
    model: CoupledDensity,
    x: Tensor,
    seed: int = 0,
    scales: bool = False,
    trim: float = 0.0,
    seconds: float | None = None,
) -> None:
    """Set all parameters of a model for data `x` (N, D), NaN where missing.

    Missing numbers are filled by regression on the others, with noise. Numbers that are not
    coupled take part in EM as if they were. EM starts from rows, or with `scales` from components
    with one centre and growing spread, which find joint tails; it leaves out the share `trim` of
    rows that it finds least likely. It stops after the seconds.
    """
    generator = torch.Generator().manual_seed(seed)
    x = model.lattices.atoms.apart(x[torch.randperm(len(x), generator=generator)])
    for family, owned in zip(model.leaves, model.leaves.owned, strict=True):
        family.scale_to(x[:, list(owned)].T)
        if isinstance(family, SharedLeaves):
            # Without noise: columns that nearly equal each other must have the same scale.
            family.learned.start(noise=0.0)
            if scales:  # compress the middle, so that tails are long on this scale
                family.learned.gate.fill_(-1.1)
    rows = _mixed_rows(model, x, generator)  # the coupled columns first
    noise = rows.points.new_zeros(rows.points.shape[1])
    noise[: len(model.coupled)] = lattice_noise(model)
    floors = (noise + least_deviations(rows.points).square()).sqrt()
    width, diagonal = model.couplings.size[1], model.couplings.rank == 0
    # If there are more components than rows, the components repeat.
    stretch = None if diagonal else sharp_stretch(rows.points)
    em = StepwiseEM(rows, min(width, len(rows)), floors, diagonal, stretch, seed)
    with threads_for(len(rows) * width):
        each = None if seconds is None else seconds / (1 + _TRIMS * bool(trim))
        mixture = em.fit(em.growing() if scales else None, each)
        for _ in range(_TRIMS if trim else 0):
            likely = em.log_likelihood(mixture)
            kept = likely >= likely.quantile(trim)
            mixture = em.on(kept).fit(mixture, each)
    order = torch.arange(width) % em.width
    shares = em.shares(mixture, _MOST_SHARES)[:, order]  # (N, K)
    tables = iter(mixture.tables[:, order].split(list(rows.categories)))
    for family, owned in list(zip(model.leaves, model.leaves.owned, strict=True))[1:]:
        family.start_weighted(x[: len(shares), list(owned)].T, shares)
        _set_tables(family, x[:, list(owned)], tables)
    coupled = len(model.coupled)
    covariance = mixture.covariances[order, :coupled, :coupled]
    set_coupled(model, mixture.weights[order], mixture.means[order, :coupled], covariance)


def set_coupled(
    model: CoupledDensity, weights: Tensor, location: Tensor, covariance: Tensor
) -> None:
    """Set weights (K,), locations (K, J) and covariances (K, J, J) of the coupled columns.

    The noise that lattices add is taken off the covariances.
    """
    first = model.leaves.families[0]
    assert isinstance(first, SharedLeaves)
    noise = lattice_noise(model)
    covariance = floored(covariance, (noise + _LEAST_FLOOR**2).sqrt()) - noise.diag()
    scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    first.set_components(location.T, scale.T)
    model.couplings.start_as(weights, covariance / (scale[:, :, None] * scale[:, None]))


def lattice_noise(model: CoupledDensity) -> Tensor:
    """Return the variance of the noise that lattices add to the coupled columns, (J,)."""
    first = model.leaves.families[0]
    assert isinstance(first, SharedLeaves)
    return (2 * model.lattices.log_floor(first, model.coupled)).exp().double()


def is_sharp(x: Tensor) -> bool:
    """Return whether some columns of x (N, J), NaN where missing, nearly determine each other.

    Training blurs them by its noise; components started by EM do not.
    """
    variances = _directions(x)
    return variances is not None and bool(variances[0] < _BLURRED)


def flat_column(x: Tensor) -> int | None:
    """Return the flattest column of x (N, J), NaN where missing, that another one nearly equals.

    Such are the times at which trips start and end. On normal scores their difference would
    stretch, so that they keep their own scale, on which one normal component is no flat margin.
    """
    known = x[~x.isnan().any(1)].double()
    if x.shape[1] < 2 or len(known) < _LEAST_FLAT_ROWS:
        return None
    centred = known - known.mean(0)
    peaked = centred.pow(4).mean(0) / centred.square().mean(0).square()
    near = torch.nan_to_num(torch.corrcoef(known.T)).fill_diagonal_(0.0).amax(1) > _NEARLY_EQUAL
    flat = torch.where(near & peaked.isfinite(), peaked, torch.inf)
    return int(flat.argmin()) if float(flat.min()) < _FLAT else None


def is_dependent(x: Tensor) -> bool:
    """Return whether columns of x (N, J), NaN where missing, say much about each other.

    The total correlation is that of normal columns with the same rank correlations.
    """
    some = x[:_MOST_CORRELATED]
    ranks = some.argsort(0).argsort(0).to(torch.double)
    variances = _directions(torch.where(some.isnan(), torch.nan, ranks))
    if variances is None:
        return False
    return float(-0.5 * variances.clamp_min(_LEAST_FLOOR).log().sum()) > _DEPENDENT


def _directions(x: Tensor) -> Tensor | None:
    """Return the eigenvalues of the correlation of rows without gaps; None if they are few."""
    known = x[~x.isnan().any(1)].double()
    if x.shape[1] < 2 or len(known) <= 2 * x.shape[1]:
        return None
    return torch.linalg.eigvalsh(torch.nan_to_num(torch.corrcoef(known.T)))


def sharp_stretch(points: Tensor) -> Tensor:
    """Return the matrix (P, P) that stretches sharp directions of points (N, P) to unit variance.

    Such is the difference of two columns that nearly equal each other.
    """
    eye = torch.eye(points.shape[1], dtype=points.dtype)
    values, vectors = torch.linalg.eigh(torch.cov(points.T).reshape(eye.shape))
    sharp = (values < _SHARP) & (values > _SHARPEST)
    if not bool(sharp.any()):
        return eye
    factor = torch.where(sharp, values.clamp_min(_SHARPEST).rsqrt(), 1.0)
    return vectors * factor @ vectors.T


def least_deviations(points: Tensor) -> Tensor:
    """Return the least deviation of each column of points (N, P) within a component, (P,)."""
    columns = points.shape[1]
    covariance = torch.cov(points.T).reshape(columns, columns)
    values, vectors = torch.linalg.eigh(covariance)
    # A column that others determine exactly has nothing left open.
    precision = (vectors.square() / values.clamp_min(_LEAST_FLOOR**2)).sum(1)
    return (_OPEN * precision.rsqrt()).clamp(_LEAST_FLOOR, _FLOOR)


def _mixed_rows(model: CoupledDensity, x: Tensor, generator: torch.Generator) -> MixedRows:
    """Return rows (N, D) as numbers on their scales, without gaps, and categories."""
    numbers, codes, categories = [], [], []
    for family, owned in zip(model.leaves, model.leaves.owned, strict=True):
        own = x[:, list(owned)]
        if isinstance(family, CategoricalLeaves):
            if not family.common:
                codes.append(torch.where(own.isnan(), -1.0, own).long())
                categories += list(family.categories)
        elif isinstance(family, AtomLeaves):
            listed = listed_columns(family, own)
            code = family.apart(own)[0][:, listed]
            codes.append(torch.where(code.isnan(), -1.0, code).long())
            categories += [len(family.atoms[c]) + 1 for c in listed]
            numbers.append(_standardised(own[:, [c for c in range(len(owned)) if c not in listed]]))
        elif isinstance(family, SharedLeaves):
            on_scale = family.scale(own.T, range(len(owned)))[0].T.double()
            numbers.append(torch.where(own.isnan(), torch.nan, on_scale))
        else:
            numbers.append(_standardised(own))
    code = torch.cat(codes, 1) if codes else torch.zeros(len(x), 0, dtype=torch.long)
    return MixedRows(filled_by_regression(torch.cat(numbers, 1), generator), code, categories)


def _standardised(own: Tensor) -> Tensor:
    """Return columns (N, n) with mean 0 and deviation 1."""
    middle = own.nanmean(0)
    spread = (own - middle).square().nanmean(0).sqrt()
    return (own - middle) / torch.where(spread > 0, spread, 1.0)


def listed_columns(family: AtomLeaves, own: Tensor) -> list[int]:
    """Return the columns of data (N, n) whose atoms EM counts as categories, and no number."""
    code = family.apart(own)[0]
    last = torch.tensor([len(points) for points in family.atoms]).to(code)
    at = (code < last).sum(0) >= _LISTED * (~code.isnan()).sum(0)
    return at.nonzero()[:, 0].tolist()


def _set_tables(family: LeafFamily, own: Tensor, tables: Iterator[Tensor]) -> None:
    """Set the masses of categories and atoms that EM has found, the next (C_j, K) of each column.

    Args:
        family: the leaves of some columns.
        own: the data of these columns, (N, n).
        tables: log probabilities in the order of `_mixed_rows`.
    """
    if isinstance(family, CategoricalLeaves) and not family.common:
        family.set_masses([next(tables).T for _ in family.categories])
    elif isinstance(family, AtomLeaves):
        listed = listed_columns(family, own)
        family.set_masses([next(tables).T for _ in listed], listed)


def filled_by_regression(points: Tensor, generator: torch.Generator) -> Tensor:
    """Fill missing cells by regression on all others, with noise of the residual's size."""
    absent = points.isnan()
    if not bool(absent.any()):
        return points
    middle = torch.nan_to_num(points.nanmean(0))
    out = torch.where(absent, middle, points)
    for _ in range(_ROUNDS):
        centred = out - out.mean(0)
        eye = torch.eye(points.shape[1], dtype=points.dtype)
        precision = torch.linalg.inv(centred.T @ centred / len(out) + 0.05 * eye)
        regressed = out - centred @ precision / precision.diagonal()
        out = torch.where(absent, 0.5 * out + 0.5 * regressed, out)  # damped against oscillation
    noise = torch.randn(points.shape, generator=generator, dtype=points.dtype)
    return torch.where(absent, out + noise * precision.diagonal().rsqrt(), out)
