"""Sampling one column at a time, in any order: slow, an independent check of `Density.sample`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density


@torch.no_grad()
def sample_autoregressive(
    density: Density,
    draws: int,
    order: Sequence[int] | None = None,
    given: Any = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw rows by x_1 = F^-1(u_1), x_2 = F^-1(u_2 | x_1), ..., (S, D).

    A column given by an interval is drawn from its conditional within it.

    Args:
        density: any density with univariate conditionals.
        draws: the number of rows S.
        order: the columns without an exact value, in the order in which to draw them.
        given: one row of exact values and intervals.
        generator: source of the uniform numbers.

    >>> from marginals.densities.build import build
    >>> model = build(torch.randn(50, 3), width=4)
    >>> sample_autoregressive(model, 5, order=[2, 0, 1]).shape
    torch.Size([5, 3])
    """
    if draws < 0:
        raise ValueError(f"Expected `draws` to be at least 0; got {draws}.")
    known = density.checked(given)
    if len(known) != 1 or known.sets:
        raise ValueError(
            "Expected `given` to be one row of exact values and intervals; got "
            f"{known!r}. Use `density.sample`."
        )
    density.check_possible(known)
    absent = known.missing()[0].tolist()
    known = known.select([c for c, gone in zip(known.columns, absent, strict=True) if not gone])
    free = [c for c in range(density.columns) if c not in known.columns or c in known.intervals]
    chosen = free if order is None else list(order)
    if sorted(chosen) != free:
        raise ValueError(f"Expected `order` to hold the free columns {free}; got {chosen}.")
    known = known.expand(draws)
    for column in chosen:
        rest = known.without(column)
        conditional = density.univariates(rest, [column])
        log_u, log_1mu = _uniform(draws, known.lower.device, generator)
        if column in known.columns:
            cell = known.select([column])
            low, high = conditional.evaluate(cell.lower), conditional.evaluate(cell.upper)
            log_mass = density.log_value(known) - conditional.log_evidence[:, 0]
            log_u = torch.logaddexp(low.log_cdf, log_u + log_mass[:, None])
            log_1mu = torch.logaddexp(high.log_sf, log_1mu + log_mass[:, None])
        x = conditional.quantile(log_u, log_1mu)
        known = rest.join(Evidence.exact(x, [column]))
    return known.select(range(density.columns)).upper


def _uniform(
    draws: int, device: torch.device, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    u = torch.rand(draws, 1, dtype=torch.float64, device=device, generator=generator)
    u = u.clamp_min(torch.finfo(torch.float64).tiny)
    return u.log(), torch.log1p(-u)
