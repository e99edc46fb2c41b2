r"""Gaussians whose correlation is a few common factors plus a unique variance of each column.

In component k the scores are :math:`s_j = L_{kj} f + \sqrt{d_{kj}}\,e_j` with f and e standard
normal, so that :math:`R = \mathrm{diag}(d) + L L^\top`. Given the observed columns E, the factors
are normal with precision :math:`A = I + \sum_{j \in E} L_j^\top L_j / d_j` and mean
:math:`A^{-1} \sum_{j \in E} L_j^\top s_j / d_j`: every answer needs only r x r systems.

    evidence   log_density, posterior_of_factors        answers   conditional, sample

Shapes: scores (B, K, J), loadings (K, J, r), unique (K, J), mask (B, J) true where observed, or
(1, J) if all rows share it; P distinct rows of the mask. Scores that are not observed are ignored.

A and its Cholesky factor are float64: they are small, and a unique variance of 1e-3 gives a
condition number too large for float32.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from marginals.numerics.gaussians import log_density_of_patterns, whitening
from marginals.numerics.matmul import exact_matmul

# Elements of the matrices that `sample` gathers at once, one matrix per draw; bounds its memory.
_GATHERED_ELEMENTS = 1 << 24
# Up to this many columns, rows of one pattern are whitened by one matrix per component.
_DENSE_COLUMNS = 64
# Up to this many columns their own matrices are fast, however few the factors.
_SMALL_COLUMNS = 8


@final
@dataclass(frozen=True)
class FactorPosterior:
    """The factors given the observed scores of each row.

    Args:
        mean: the posterior mean f*, (B, K, r), in the dtype of the scores.
        cholesky: lower factors of the precision A of each pattern, (P, K, r, r), float64.
        patterns: the distinct rows of the mask, (P, J).
        index: the pattern of each row, (B,).
    """

    mean: Tensor
    cholesky: Tensor
    patterns: Tensor
    index: Tensor


def log_density(
    scores: Tensor,
    loadings: Tensor,
    unique: Tensor,
    mask: Tensor,
    known: Tensor | None = None,
    *,
    host_free: bool = False,
) -> Tensor:
    r"""Compute :math:`\log N(s_E; 0, R_{EE})` of the observed columns E of each row, (B, K).

    The quadratic form is :math:`\sum_E (s_j - L_j f^*)^2 / d_j + |f^*|^2`, the minimum over f: it
    cannot be negative, and an error of f* enters it squared.

    Args:
        scores, loadings, unique, mask: see the module.
        known: a promise that the mask has no other rows, (P, J).
        host_free: never branch on numbers of the device.

    >>> L = torch.tensor([[[0.6], [0.8]]]); s = torch.tensor([[[0.3, torch.nan]]])
    >>> log_density(s, L, 1 - L.square().sum(-1), torch.tensor([[True, False]]))
    tensor([[-0.9639]])
    """
    patterns, index = _patterns(mask, len(scores), known, host_free)
    if len(patterns) == 1 and scores.shape[2] <= _DENSE_COLUMNS:
        return _dense_log_density(scores, loadings, unique, patterns, host_free)
    if has_small_columns(*loadings.shape[1:]):
        covariance = _covariance(loadings.double(), unique.double())
        return log_density_of_patterns(
            _observed(scores, mask), covariance, patterns, index, host_free=host_free
        )
    posterior = _posterior(scores, loadings, unique, mask, patterns, index, host_free)
    residual = _observed(scores, mask) - _columns_of(posterior.mean, loadings)  # (B, K, J)
    terms = torch.where(mask[:, None], residual.square() / unique, 0.0)
    quadratic = terms.sum(-1) + posterior.mean.square().sum(-1)  # (B, K)
    log_scale = _log_scale(posterior, unique).to(scores.dtype)  # (P, K)
    return -0.5 * quadratic - log_scale[posterior.index]


def has_small_columns(columns: int, rank: int) -> bool:
    """Return whether the columns' own matrices cost less than the systems of the factors."""
    return columns <= max(rank, _SMALL_COLUMNS)


def _dense_log_density(
    scores: Tensor, loadings: Tensor, unique: Tensor, pattern: Tensor, host_free: bool
) -> Tensor:
    """Return the log density of rows that all observe the same few columns, (B, K).

    With R = C C^T of each component, the quadratic form is |C^-1 s|^2: one product for all rows. A
    column that is not observed becomes independent and equal to its mean.
    """
    seen = pattern[0]
    free = torch.where(seen[:, None], loadings.double(), 0.0)
    covariance = _covariance(free, torch.where(seen, unique, 1.0).double())
    cholesky, inverse = whitening(covariance, host_free)
    known = torch.where(seen, scores, 0.0).transpose(0, 1)  # (K, B, J)
    white = exact_matmul(known, inverse.mT.to(scores.dtype))
    log_scale = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # (K,)
    log_scale = log_scale + 0.5 * math.log(2 * math.pi) * seen.sum()
    return (-0.5 * white.square().sum(-1) - log_scale.to(scores.dtype)[:, None]).T


@final
@dataclass(frozen=True)
class Whitening:
    r"""What maps complete rows of J columns to independent standard normals, for K components.

    Location and scale of the components are part of the matrix: one product with y serves all
    components, and its result is the only (B, K, J) tensor.

    Args:
        matrix: the weights of y and, last, of one more column of ones, (J + 1, K J).
        log_scale: half of the log determinant of each covariance times 2 pi, (K,).

    >>> L = torch.tensor([[[0.6], [0.8]]]); zero = torch.zeros(1, 2)
    >>> Whitening.of(zero, zero, L, 1 - L.square().sum(-1)).log_density(torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    """

    matrix: Tensor
    log_scale: Tensor

    @staticmethod
    def of(
        location: Tensor,
        log_scale: Tensor,
        loadings: Tensor,
        unique: Tensor,
        *,
        host_free: bool = False,
    ) -> "Whitening":
        """Make it from location and log scale (K, J), loadings (K, J, r) and unique (K, J)."""
        cholesky, inverse = whitening(_covariance(loadings.double(), unique.double()), host_free)
        columns = location.shape[1]
        matrix = inverse / log_scale.double().exp()[:, None]  # (K, J, J)
        shift = (matrix @ location.double()[..., None]).squeeze(-1)  # (K, J)
        both = torch.cat([matrix, -shift[..., None]], -1).to(location).reshape(-1, columns + 1)
        log_det = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1) + log_scale.double().sum(-1)
        return Whitening(both.mT, (log_det + 0.5 * columns * math.log(2 * math.pi)).to(location))

    def log_density(self, y: Tensor) -> Tensor:
        r"""Compute :math:`\log N(y; m_k, S_k R_k S_k)` of complete rows y (B, J), (B, K)."""
        ones = torch.cat([y, torch.ones_like(y[:, :1])], 1)
        white = exact_matmul(ones[None], self.matrix[None])[0]
        white = white.view(len(y), len(self.log_scale), -1)
        return -0.5 * white.square().sum(-1) - self.log_scale


def _covariance(loadings: Tensor, unique: Tensor) -> Tensor:
    """Return R = L L^T + d, (K, J, J)."""
    return exact_matmul(loadings, loadings.mT) + unique.diag_embed()


def posterior_of_factors(
    scores: Tensor, loadings: Tensor, unique: Tensor, mask: Tensor
) -> FactorPosterior:
    """Compute the factors' mean per row and precision per pattern of observed columns.

    >>> L = torch.tensor([[[0.6], [0.8]]]); s = torch.ones(1, 1, 2)
    >>> posterior_of_factors(s, L, 1 - L.square().sum(-1), torch.ones(1, 2).bool()).mean
    tensor([[[0.9459]]])
    """
    return _posterior(scores, loadings, unique, mask, *_patterns(mask, len(scores)))


def _posterior(
    scores: Tensor,
    loadings: Tensor,
    unique: Tensor,
    mask: Tensor,
    patterns: Tensor,
    index: Tensor,
    host_free: bool = False,
) -> FactorPosterior:
    precision = _precision(loadings, unique, patterns)  # (P, K, r, r)
    # The check needs the host and can be skipped: A is at least the identity.
    cholesky, _ = torch.linalg.cholesky_ex(precision, check_errors=not host_free)
    observed = _observed(scores, mask).transpose(0, 1)  # (K, B, J)
    evidence = exact_matmul(observed, loadings / unique[..., None])  # (K, B, r)
    mean = _solve(cholesky, index, evidence.double()).to(scores.dtype)
    return FactorPosterior(mean, cholesky, patterns, index)


def conditional(
    scores: Tensor, loadings: Tensor, unique: Tensor, mask: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Compute the mean and variance of columns given the *other* observed columns, (n, B, K) each.

    A column that is not observed has mean :math:`L_j f^*` and variance :math:`d_j + v_j` with
    :math:`v_j = L_j A^{-1} L_j^\top`. An observed column is removed from its own evidence without
    a second posterior: with :math:`h = v_j / d_j`, the variance is :math:`d_j / (1 - h)` and the
    mean :math:`s_j - (s_j - L_j f^*) / (1 - h)`. This runs in float64, because h may be near 1.

    >>> L = torch.tensor([[[0.6], [0.8]]]); s = torch.tensor([[[1.0, torch.nan]]])
    >>> conditional(s, L, 1 - L.square().sum(-1), ~s[0].isnan(), torch.tensor([1]))
    (tensor([[[0.4800]]]), tensor([[[0.7696]]]))
    """
    dtype = scores.dtype
    scores, loadings, unique = scores.double(), loadings.double(), unique.double()
    posterior = posterior_of_factors(scores, loadings, unique, mask)
    chosen, own = loadings[:, columns], unique[:, columns]  # (K, n, r), (K, n)
    fitted = _columns_of(posterior.mean, chosen)  # (B, K, n)
    spread = _spread(posterior.cholesky, chosen)[posterior.index]  # (B, K, n)
    known = mask[:, None, columns]  # (B, 1, n)
    kept = 1 - torch.where(known, spread / own, 0.0)  # 1 - h
    observed = _observed(scores, mask)[..., columns]
    mean = torch.where(known, observed - (observed - fitted) / kept, fitted)
    variance = torch.where(known, own / kept, own + spread)
    return mean.permute(2, 0, 1).to(dtype), variance.permute(2, 0, 1).to(dtype)


def sample(
    scores: Tensor,
    loadings: Tensor,
    unique: Tensor,
    mask: Tensor,
    components: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw the scores of all columns given the observed ones, (B, S, J).

    Args:
        scores, loadings, unique, mask: see the module.
        components: the component of each draw, (B, S).
        generator: source of the draws.

    Returns:
        Draws from the component's conditional; observed columns keep that component's scores.

    >>> L = torch.tensor([[[0.6], [0.8]]]); s = torch.tensor([[[1.0, torch.nan]]])
    >>> d = 1 - L.square().sum(-1)
    >>> sample(s, L, d, ~s[0].isnan(), torch.zeros(1, 3, dtype=torch.long))[..., 0]
    tensor([[1., 1., 1.]])
    """
    return sample_with_means(scores, loadings, unique, mask, components, generator)[0]


def sample_with_means(
    scores: Tensor,
    loadings: Tensor,
    unique: Tensor,
    mask: Tensor,
    components: Tensor,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what `sample` does and the means of all columns given the drawn factors, (B, S, J).

    Given the factors, columns are independent with their unique variances. A mask of one row
    stands for all rows.
    """
    posterior = posterior_of_factors(scores, loadings, unique, mask)
    rows = torch.arange(len(components), device=components.device)
    rows = rows[:, None].expand_as(components).flatten()  # (B * S,)
    chosen = components.flatten()
    rank, width = loadings.shape[2], loadings.shape[1]
    noise = torch.randn(
        (len(rows), rank + width), dtype=scores.dtype, device=scores.device, generator=generator
    )
    size = max(1, _GATHERED_ELEMENTS // max(1, rank * (rank + width)))
    parts = [
        _draws(posterior, loadings, row, component, part)
        for row, component, part in zip(
            rows.split(size), chosen.split(size), noise.split(size), strict=True
        )
    ]
    fitted = torch.cat(parts)  # (B * S, J)
    drawn = fitted + unique[chosen].sqrt() * noise[:, rank:]
    known = _observed(scores, mask)[rows, chosen]
    drawn = torch.where(mask.expand(len(components), -1)[rows], known, drawn)
    return drawn.view(*components.shape, width), fitted.view(*components.shape, width)


def _draws(
    posterior: FactorPosterior,
    loadings: Tensor,
    row: Tensor,
    component: Tensor,
    noise: Tensor,
) -> Tensor:
    """Draw factors of the given rows and components; return the means of all columns, (N, J)."""
    common = noise[:, : loadings.shape[2]]
    factor = posterior.cholesky[posterior.index[row], component]  # (N, r, r)
    # With A = C C^T, the deviation C^-T e has covariance A^-1.
    deviation = torch.linalg.solve_triangular(
        factor.transpose(1, 2), common.double()[..., None], upper=True
    )
    factors = posterior.mean[row, component][..., None] + deviation.to(noise.dtype)  # (N, r, 1)
    return exact_matmul(loadings[component], factors).squeeze(-1)  # (N, J)


def _patterns(
    mask: Tensor, rows: int, known: Tensor | None = None, host_free: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of a mask, or those promised, and the index of each row."""
    if len(mask) == 1:
        return mask, torch.zeros(rows, dtype=torch.long, device=mask.device)
    if host_free:
        # The host does not learn how many are distinct: use those promised, or one per row.
        if known is None or len(known) >= rows:
            return mask, torch.arange(rows, device=mask.device)
        return known, (mask[:, None] == known).all(-1).int().argmax(1)
    if bool((mask == mask[:1]).all()):
        return mask[:1], torch.zeros(rows, dtype=torch.long, device=mask.device)
    patterns, index = torch.unique(mask, dim=0, return_inverse=True)
    return patterns, index


def _observed(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask[:, None], scores, 0.0)


def _precision(loadings: Tensor, unique: Tensor, patterns: Tensor) -> Tensor:
    """Return A for each pattern, (P, K, r, r), in float64."""
    count, (components, width, rank) = len(patterns), loadings.shape
    loadings, observed = loadings.double(), patterns.double()
    eye = torch.eye(rank, dtype=torch.float64, device=loadings.device)
    scaled = loadings / unique.double()[..., None]
    if count <= rank:
        left = (observed[:, None, :, None] * scaled).transpose(2, 3)  # (P, K, r, J)
        return eye + left @ loadings
    # With many patterns, one product with the r x r matrices of the columns is cheaper.
    squares = (scaled[..., None] * loadings[..., None, :]).transpose(0, 1)  # (J, K, r, r)
    total = observed @ squares.reshape(width, -1)
    return eye + total.view(count, components, rank, rank)


def _solve(cholesky: Tensor, index: Tensor, right: Tensor) -> Tensor:
    """Solve A x = b for each row with the factor of its pattern: (K, B, r) to (B, K, r)."""
    if len(cholesky) == 1:
        # One factor per component, with the rows as its right-hand sides.
        return _solve_both(cholesky[0], right.transpose(1, 2)).permute(2, 0, 1)
    return _solve_both(cholesky[index], right.transpose(0, 1)[..., None]).squeeze(-1)


def _solve_both(cholesky: Tensor, right: Tensor) -> Tensor:
    half = torch.linalg.solve_triangular(cholesky, right, upper=False)
    return torch.linalg.solve_triangular(cholesky.mT, half, upper=True)


def _columns_of(factors: Tensor, loadings: Tensor) -> Tensor:
    """Return L f, (B, K, r) and (K, n, r) to (B, K, n)."""
    return exact_matmul(factors.transpose(0, 1), loadings.transpose(1, 2)).transpose(0, 1)


def _spread(cholesky: Tensor, loadings: Tensor) -> Tensor:
    """Return L_j A^-1 L_j^T for each pattern and column, (P, K, n), in float64."""
    inverse = torch.cholesky_inverse(cholesky).transpose(0, 1).flatten(2)  # (K, P, r * r)
    squares = (loadings[..., None] * loadings[..., None, :]).flatten(2)  # (K, n, r * r)
    return (inverse @ squares.transpose(1, 2)).transpose(0, 1)


def _log_scale(posterior: FactorPosterior, unique: Tensor) -> Tensor:
    """Return half of the log determinant of 2 pi R_EE for each pattern, (P, K), in float64."""
    observed = posterior.patterns.double()
    log_common = posterior.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_unique = observed @ (unique.double().log() + math.log(2 * math.pi)).T
    return log_common + 0.5 * log_unique
