"""The stated relative error of the value of evidence: that of boxes of coupled columns."""

import torch

from marginals.cells.evidence import Evidence
from marginals.densities.coupled import CoupledDensity
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nested_columns import NestedColumns
from marginals.densities.union import GivenUnion
from marginals.densities.view import View

# Of one row: two ranges take quadrature, more quasi-Monte Carlo with this tolerance.
_PAIR, _MORE = 1e-10, 2e-3


@torch.no_grad()
def relative_error(density: Density, evidence: Evidence) -> float:
    """Return a bound on the relative error of the probability of evidence; 0 for closed forms.

    That of a mixture is the largest of its members. Rounding in the model's dtype is not included.

    Args:
        density: the density.
        evidence: checked rows, of which the largest error counts.

    >>> from marginals.densities.build import build
    >>> model = build(torch.randn(50, 4), tensor="copula", width=2)
    >>> relative_error(model, Evidence.of({0: (0.0, None), 1: (0.0, None), 2: (0.0, None)}))
    0.002
    >>> relative_error(model, Evidence.of({0: (0.0, None), 1: 0.5}))
    0.0
    """
    if isinstance(density, View | GivenUnion):
        return relative_error(density.base, evidence)
    if isinstance(density, Mixture):
        return max(relative_error(member, evidence) for member in density.densities)
    if isinstance(density, NestedColumns):
        return relative_error(density.inner, density.folded(density.checked(evidence))[0])
    if not isinstance(density, CoupledDensity):
        return 0.0
    found = density.lattices.settle(density.checked(evidence)).evidence
    cells = found.select([c for c in found.columns if c in density.coupled])
    ranges = (cells.lower < cells.upper).sum(1) if cells.columns else torch.zeros(1)
    count = int(ranges.max()) if len(ranges) else 0
    return 0.0 if count < 2 else _PAIR if count == 2 else _MORE
