r"""Many components from few factors: a latent-trait model with nodes in place of its integral.

Component k stands for a point :math:`f_k` of a space with r factors. There, a column of codes has
masses proportional to :math:`\exp(a_c + b_c^T f_k)`, and numbers are normal around
:math:`m + \Lambda f_k` with one covariance for all components. Hundreds of components then have as
few free numbers as a factor analysis: related answers, such as those of a survey, need many
components and have too few rows for a free table of probabilities in each.

What the factors say of a component is then its prior, worth some rows. Rounds of EM update it by
the rows of the component: the more rows there are, the less the factors matter.
"""

import math
import time
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from marginals.runtime.adamw import AdamW

# Steps of the optimiser, rows of each, and its rate, which falls to zero over the last 60 %.
_STEPS, _BATCH, _RATE, _ANNEALING = 400, 512, 0.03, 0.6
_LEAST_SECONDS = 0.1
# Variance added to the numbers given the factors, relative to theirs.
_RIDGE = 0.01
# Rounds of EM, and the rows at a time.
_ROUNDS, _BLOCK = 10, 2048
# Rows of each component that the factors are worth: of codes, one of these for each column, and of
# numbers, whose spread differs between components.
_CODE_ROWS, _NUMBER_ROWS = (1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0), 5.0
# Codes that tell where the factors are: the most frequent ones.
_MOST_CODES = 400


class NodeTable(NamedTuple):
    """Rows for a mixture over nodes.

    Args:
        codes: one column for each category of each column, 1 where a row has it, (N, V).
        counts: the number of categories of each column, V in all.
        numbers: numbers of about unit variance, (N, J), none of them missing.
        coupled: how many of the numbers, the first ones, may be correlated within components.
    """

    codes: Tensor
    counts: tuple[int, ...]
    numbers: Tensor
    coupled: int


@final
class FactorNodes(nn.Module):
    """The parameters of the mixture, started at the principal components of a table.

    Args:
        table: the rows.
        width: the number of components K.
        rank: the number of factors r.
        generator: source of the rows on whose scores the nodes start.
    """

    def __init__(self, table: NodeTable, width: int, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.counts, self.coupled = table.counts, table.coupled
        scores = principal_scores(table, rank)  # (N, r)
        rows = torch.randint(len(scores), (width,), generator=generator)
        seen = table.codes.sum(0)  # (V,)
        slopes = table.codes.T @ scores / (seen + 1)[:, None]
        loadings = table.numbers.T @ scores / len(scores)  # (J, r)
        rest = table.numbers - scores @ loadings.T
        covariance = rest.T @ rest / len(rest) + _RIDGE * torch.eye(rest.shape[1]).to(rest)
        root = torch.linalg.cholesky(covariance * self._within(covariance))
        whitening = torch.linalg.inv(root)  # (J, J), lower triangular
        self.raw = nn.Parameter(scores.new_zeros(width))
        self.nodes = nn.Parameter(scores[rows])
        self.base = nn.Parameter((seen + 1).log())
        self.slopes = nn.Parameter(slopes)
        self.centre = nn.Parameter(table.numbers.mean(0))
        self.loadings = nn.Parameter(loadings)
        self.sharpness = nn.Parameter(whitening.diagonal().log())
        self.mixing = nn.Parameter(whitening.tril(-1))

    def _within(self, like: Tensor) -> Tensor:
        """Return a mask (J, J) of the pairs of numbers that may be correlated."""
        mask = torch.eye(len(like)).to(like)
        mask[: self.coupled, : self.coupled] = 1.0
        return mask

    def log_masses(self) -> Tensor:
        """Return the log masses of the codes in each component, (K, V)."""
        logits = self.base + self.nodes @ self.slopes.T
        parts = logits.split(self.counts, 1)
        return torch.cat([part.log_softmax(1) for part in parts], 1) if parts else logits

    def means(self) -> Tensor:
        """Return the means of the numbers in each component, (K, J)."""
        return self.centre + self.nodes @ self.loadings.T

    def whitening(self) -> Tensor:
        """Return the lower triangular matrix (J, J) that whitens the numbers of a component."""
        mixing = (self.mixing * self._within(self.mixing)).tril(-1)
        return mixing + self.sharpness.exp().diag()

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """Return the log density of rows, but for a constant, (B,)."""
        value = codes @ self.log_masses().T + self.raw.log_softmax(0)  # (B, K)
        white = self.whitening()
        u, v = numbers @ white.T, self.means() @ white.T  # (B, J), (K, J)
        value = value + u @ v.T - 0.5 * v.square().sum(1)
        return value.logsumexp(1) - 0.5 * u.square().sum(1) + self.sharpness.sum()

    def penalty(self) -> Tensor:
        """Return minus the log prior, but for a constant.

        Slopes and nodes are standard normal. One more row has each code, so that rare ones keep
        some mass.
        """
        once = (self.raw.softmax(0) @ self.log_masses()).sum()
        return 0.5 * (self.slopes.square().sum() + self.nodes.square().sum()) - once


def principal_scores(table: NodeTable, rank: int) -> Tensor:
    """Return principal components of codes and numbers together, of unit variance, (N, r).

    Codes count as in a correspondence analysis: a category weighs as much as its variance.
    """
    share = table.codes.mean(0)
    kept = share.argsort(descending=True)[:_MOST_CODES]
    kept = kept[share[kept] > 0]
    share = share[kept]
    codes = (table.codes[:, kept] - share) / share.sqrt()
    both = torch.cat([codes, table.numbers - table.numbers.mean(0)], 1).double()
    values, vectors = torch.linalg.eigh(both.T @ both / len(both))
    found = (both @ vectors[:, -rank:]) / values[-rank:].clamp_min(1e-6).sqrt()
    missing = rank - found.shape[1]
    return torch.nn.functional.pad(found, (0, max(0, missing))).to(table.numbers)


@torch.enable_grad()
def fit_nodes(
    table: NodeTable, width: int, rank: int, seed: int, seconds: float | None = None
) -> FactorNodes:
    """Fit a mixture of `width` components over nodes of `rank` factors by stochastic gradients.

    With a time limit, the rate falls to zero by its end if there is no time for all steps.
    """
    begun, limit = time.monotonic(), math.inf if seconds is None else max(seconds, _LEAST_SECONDS)
    generator = torch.Generator().manual_seed(seed)
    model = FactorNodes(table, width, rank, generator)
    parameters = list(model.parameters())
    optimiser = AdamW(parameters, _RATE, [0.0] * len(parameters))
    rows = len(table.codes)
    for step in range(_STEPS):
        left = 1 - max(step / _STEPS, (time.monotonic() - begun) / limit)
        if left <= 0:
            break
        optimiser.set_rate(_RATE * min(1.0, left / _ANNEALING))
        index = torch.randint(rows, (min(rows, _BATCH),), generator=generator)
        loss = model.penalty() / rows - model(table.codes[index], table.numbers[index]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


class NodeComponents(NamedTuple):
    """Components as a mixture has them: weights (K,), log masses of codes (K, V), and numbers.

    Means and covariances are in float64: the covariance of a narrow component far from zero is a
    small difference of large squares.
    """

    weights: Tensor
    log_masses: Tensor
    means: Tensor  # (K, J)
    covariances: Tensor  # (K, J, J)

    def log_joint(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """Return the log density of rows with each component, but for a constant, (B, K)."""
        value = codes @ self.log_masses.T + self.weights.log()
        root = torch.linalg.cholesky(self.covariances)
        apart = (numbers[:, None] - self.means).permute(1, 2, 0)  # (K, J, B)
        white = torch.linalg.solve_triangular(root, apart, upper=False)
        scale = root.diagonal(dim1=-2, dim2=-1).log().sum(1)
        return value - 0.5 * white.square().sum(1).T - scale


@torch.no_grad()
def updated_components(
    nodes: FactorNodes, table: NodeTable, seconds: float | None = None
) -> NodeComponents:
    """Return the components of nodes, updated by their rows in a few rounds of EM.

    With a time limit, no round begins after it; one always runs.
    """
    until = math.inf if seconds is None else time.monotonic() + seconds
    root = torch.linalg.inv(nodes.whitening().double())
    covariance = (root @ root.T).expand(len(nodes.raw), -1, -1)
    means = nodes.means().double()
    prior = NodeComponents(nodes.raw.softmax(0), nodes.log_masses(), means, covariance)
    found = prior
    for _ in range(_ROUNDS):
        found = _round(found, prior, table)
        if time.monotonic() > until:
            break
    return found


def _round(now: NodeComponents, prior: NodeComponents, table: NodeTable) -> NodeComponents:
    """Take one step of EM, in which the prior is worth some rows of each component."""
    counts, first = torch.zeros_like(now.log_masses), torch.zeros_like(now.means)
    second, total = torch.zeros_like(now.covariances), torch.zeros_like(now.weights)
    blocks = zip(table.codes.split(_BLOCK), table.numbers.split(_BLOCK), strict=True)
    for codes, numbers in blocks:
        numbers = numbers.double()
        shares = now.log_joint(codes, numbers).softmax(1)  # (B, K)
        total += shares.sum(0)
        counts += shares.to(codes).T @ codes
        first += shares.T @ numbers
        second += torch.einsum("bk,bi,bj->kij", shares, numbers, numbers)
    rows = (total + _NUMBER_ROWS)[:, None]
    means = (first + _NUMBER_ROWS * prior.means) / rows
    # The prior's rows lie around its own mean.
    square = prior.covariances + _outer(prior.means)
    spread = (second + _NUMBER_ROWS * square) / rows[..., None] - _outer(means)
    mask = torch.eye(means.shape[1]).to(means)
    mask[: table.coupled, : table.coupled] = 1.0
    own = zip(counts.split(table.counts, 1), prior.log_masses.split(table.counts, 1), strict=True)
    parts = [updated_masses(count, log_mass.exp()) for count, log_mass in own]
    log_masses = torch.cat(parts, 1).log() if parts else counts
    return NodeComponents((total + 1) / (total + 1).sum(), log_masses, means, spread * mask)


def updated_masses(counts: Tensor, prior: Tensor, rows: float | None = None) -> Tensor:
    """Return the masses (K, C) of a column's codes from counts and a prior, such as the factors'.

    The prior is worth some rows, by default as many as the scatter of the components suggests.
    """
    masses = counts + (prior_rows(counts, prior) if rows is None else rows) * prior
    return masses / masses.sum(1, keepdim=True)


def prior_rows(counts: Tensor, prior: Tensor) -> float:
    """Return how many rows of each component the factors' masses of one column are worth.

    Masses of components scatter around those of the factors by a Dirichlet distribution. The number
    is the likeliest of a few: little where categories follow other columns closely, as a tip that
    is never paid in cash, and much where components have few rows for many categories.

    Args:
        counts: How often each component has each code, (K, C).
        prior: The masses by the factors, (K, C).

    >>> codes = torch.eye(2).repeat(50, 1)
    >>> prior_rows(100 * codes, torch.full_like(codes, 0.5))
    1.0
    """
    count, mass = counts.double(), prior.double()
    seen = (count > 0) & (mass > 0)
    count, mass, total = count[seen], mass[seen], count.sum(1)

    def log_likelihood(rows: Tensor) -> Tensor:
        cells = torch.lgamma(count + rows * mass) - torch.lgamma(rows * mass)
        return cells.sum() + (torch.lgamma(rows) - torch.lgamma(total + rows)).sum()

    values = [float(log_likelihood(rows)) for rows in torch.tensor(_CODE_ROWS).double()]
    return _CODE_ROWS[max(range(len(values)), key=values.__getitem__)]


def _outer(x: Tensor) -> Tensor:
    return x[:, :, None] * x[:, None]
