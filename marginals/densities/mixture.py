"""Mixtures of densities, themselves densities."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density, in_batches
from marginals.densities.univariates import UnivariateMixture
from marginals.densities.view import View
from marginals.numerics import draw_many, log_shares, logsumexp
from marginals.runtime.backend import QUERY, Backend


@final
class Mixture(Density):
    """A weighted mixture of densities over the same columns, with learnable weights.

    Args:
        members: the densities.
        weights: their weights, equal by default; only their proportions matter.
    """

    def __init__(self, members: Sequence[Density], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        if not members:
            raise ValueError("Expected `members` to hold at least one density; got none.")
        if len({member.categories for member in members}) > 1:
            raise ValueError(
                "Expected all `members` to have the same columns and categories; got "
                f"{[member.categories for member in members]}."
            )
        rows = [member.rows for member in members if isinstance(member, View)]
        if any(count != 1 for count in rows):
            raise ValueError(
                f"Expected views among `members` to be given one row of evidence; got {rows} rows. "
                "Condition the mixture instead."
            )
        self.members = nn.ModuleList(members)
        shares = torch.ones(len(members)) if weights is None else torch.tensor(list(weights))
        if len(shares) != len(members) or not bool(((shares > 0) & shares.isfinite()).all()):
            raise ValueError(
                f"Expected {len(members)} positive, finite `weights`; got {shares.tolist()}. Leave "
                "members of no weight out."
            )
        like = next(members[0].parameters(), shares)
        shares = shares.to(like.device, like.dtype)
        self.logits = nn.Parameter((shares / shares.sum()).log())

    @property
    def densities(self) -> list[Density]:
        """The members."""
        return [member for member in self.members if isinstance(member, Density)]

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return self.densities[0].columns

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        return self.densities[0].categories

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return {c: points for member in self.densities for c, points in member.atoms.items()}

    def log_weights(self) -> Tensor:
        """Return the log weights of the members, which sum to one."""
        return self.logits.log_softmax(-1)

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each row of checked evidence, (B,), all rows at once."""
        return logsumexp(self._log_joint(evidence, backend))

    def check_rows(self, evidence: Evidence) -> None:
        """Refuse rows whose value under some member has no closed form."""
        for member in self.densities:
            member.check_rows(evidence)

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log values of requested rows given their evidence, and of the evidence."""
        parts = [member.contract_given(requested, given, place) for member in self.densities]
        joint = torch.stack([part for _, part in parts], -1) + self.log_weights()  # (U, members)
        weights, log_given = log_shares(joint)
        weights = weights if place is None else weights[place]
        # A member that rules the evidence out has no conditional, and no weight.
        values = torch.stack([part for part, _ in parts], -1)  # (B, members)
        values = torch.where(weights > -torch.inf, values, 0.0)
        return logsumexp(values + weights), log_given

    def univariates(
        self, given: Any = None, columns: Sequence[int] | None = None
    ) -> UnivariateMixture:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        known = self.checked(given)
        parts = [member.univariates(known, columns) for member in self.densities]
        weights = self.log_weights()[:, None, None]
        values = torch.stack([part.log_evidence for part in parts]) + weights  # (members, B, n)
        discrete = [self.categories[c] is not None for c in parts[0].columns]
        return UnivariateMixture(parts, values, discrete)

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""
        with torch.no_grad():
            joint = in_batches(self._log_joint, given, self.rows_at_once())
            return draw_members(self.densities, joint, given, draws, generator)

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time."""
        return max(member.row_cost(given) for member in self.densities)

    def config(self) -> dict[str, Any]:
        """Return the number of members; a file stores each under its own name."""
        return {"members": len(self.members)}

    def _log_joint(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        values = [member.contract(evidence, backend) for member in self.densities]
        return torch.stack(values, -1) + self.log_weights()  # (B, members)


def draw_members(
    members: Sequence[Density],
    log_weights: Tensor,
    given: Evidence,
    draws: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Draw rows (B, S, D) given evidence, each from a member drawn by its row's weights.

    Args:
        members: the densities.
        log_weights: for each row of evidence, up to a constant, (B, members).
        given: B rows of checked, possible evidence.
        draws: the number of rows S for each.
        generator: source of randomness.
    """
    chosen = draw_many(log_weights, draws, generator)  # (B, S)
    parts, places = [], []
    for index, member in enumerate(members):
        places.append((chosen.flatten() == index).nonzero()[:, 0])
        parts.append(_draw_from(member, given, places[-1], draws, generator))
    back = torch.cat(places).argsort()
    return torch.cat(parts)[back].reshape(len(given), draws, members[0].columns)


def _draw_from(
    member: Density, given: Evidence, places: Tensor, draws: int, generator: torch.Generator | None
) -> Tensor:
    """Draw one row for each place (row b, draw s) assigned to this member, (count, D)."""
    if len(places) == 0:
        return given.lower.new_empty(0, member.columns)
    if len(given) == 1:
        return member.sample_rows(given, len(places), generator)[0]
    return member.sample_rows(given.rows(places // draws), 1, generator)[:, 0]
