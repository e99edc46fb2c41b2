"""Which columns and atoms copula members take."""

import torch

from marginals.cells import Evidence
from marginals.cells.lattice_table import uniform_lattice
from marginals.selection.coupling import copula_options


def with_atoms(shares: list[float]) -> Evidence:
    """Columns of normals with these shares of zeros."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, len(shares), generator=generator)
    at = torch.rand(1000, len(shares), generator=generator) < torch.tensor(shares)
    return Evidence.exact(torch.where(at, 0.0, x))


def chosen(data: Evidence, **options: object) -> dict[str, object]:
    return copula_options(data, {"categories": {}, "atoms": {}, **options})


def test_columns_at_atoms_are_coupled_while_their_patterns_are_few() -> None:
    data = with_atoms([0.0, 0.3, 0.4, 0.2, 0.1])
    found = chosen(data, atoms=dict.fromkeys((1, 2, 3, 4), (0.0,)))
    assert found["coupled"] == (0, 1, 2, 3)  # eight patterns; the rarest atom comes last


def test_a_list_of_atoms_stays_loose() -> None:
    data = with_atoms([0.0, 0.3])
    assert chosen(data, atoms={1: (0.0, 1.0, 2.0, 3.0)})["coupled"] == (0,)


def test_atoms_of_lattices_that_are_rare_or_have_many_patterns_are_cells_like_others() -> None:
    x = with_atoms([0.002, 0.3]).lower.div(0.01).floor().mul(0.01)
    data = Evidence.interval(x, x + 0.01)
    lattices = {c: uniform_lattice(0.01) for c in (0, 1)}
    found = chosen(data, atoms={0: (0.005,), 1: (0.005,)}, lattices=lattices)
    assert set(found["atoms"]) == {1}
    assert 0 in found["coupled"]


def test_rare_atoms_count_while_there_are_few_patterns() -> None:
    x = with_atoms([0.05, 0.3]).lower.div(0.01).floor().mul(0.01)
    lattices = {c: uniform_lattice(0.01) for c in (0, 1)}
    found = chosen(
        Evidence.interval(x, x + 0.01), atoms={0: (0.005,), 1: (0.005,)}, lattices=lattices
    )
    assert set(found["atoms"]) == {0, 1}
    assert found["coupled"] == (0, 1)
