"""Transforms to uniforms, kept from test to test."""

import math

import pytest
import torch

from marginals.cells.evidence import Evidence
from marginals.densities.build import build
from marginals.queries.independence import independence_test, independence_tests
from marginals.queries.uniforms import Uniforms, cell_ends
from tests.laws.registry import shake
from tests.queries.oracle import Gaussian, gaussian


class Counting(Gaussian):
    """Tells which univariates it was asked for."""

    def __init__(self, covariance: torch.Tensor) -> None:
        super().__init__(covariance)
        self.asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def univariates(self, given=None, columns=None):  # type: ignore[no-untyped-def]
        self.asked.append((tuple(columns), tuple(given.columns)))
        return super().univariates(given, columns)


def test_a_transform_is_made_once() -> None:
    density = Counting(gaussian(5).covariance)
    rows = density.sample(50)
    uniforms = Uniforms([(density, rows)])
    for x, y, given in [(0, 1, [2, 3]), (0, 4, [3, 2]), (1, 4, [2, 3]), (0, 1, [2, 3])]:
        (found,) = independence_tests(uniforms, x, y, given)
        alone = independence_test(Gaussian(density.covariance), x, y, given, rows)
        assert math.isclose(found.pvalue, alone.pvalue)
    assert density.asked == [((0, 1), (2, 3)), ((4,), (2, 3))]


def test_memory_is_bounded() -> None:
    density = Counting(gaussian(5).covariance)
    one = 50 * 8  # bytes of one column, whose cells have no mass
    uniforms = Uniforms([(density, density.sample(50))], kept_bytes=2 * one)
    for column in (0, 1, 0, 2, 0, 1):  # 1 goes when 2 comes: 0 was used since
        uniforms.ends([column], [4])
    assert [columns[0] for columns, _ in density.asked] == [0, 1, 2, 1]
    nothing = Uniforms([(density, density.sample(50))], kept_bytes=0)
    assert torch.equal(nothing.ends([0], [1]), nothing.ends([0], [1]))


def test_exact_values_have_one_end() -> None:
    density = gaussian(3)
    rows = density.sample(20)
    ends = cell_ends(density, density.checked(rows), [1], [0, 2])
    assert torch.equal(ends[..., 0], ends[..., 1])
    expected = density.univariates(Evidence.exact(rows[:, [0, 2]], [0, 2]), [1])
    torch.testing.assert_close(ends[:, 0, 0], expected.logcdf(rows[:, 1:2]).exp()[:, 0])


def test_missing_cells_have_none() -> None:
    data = torch.stack([torch.randint(3, (40,)), torch.randn(40), torch.randn(40)], 1)
    data[::3, 1] = 0.0
    model = build(data, width=3, categories={0: 3}, atoms={1: [0.0]}, dtype=torch.float64)
    shake(model)
    holes = data.clone()
    holes[::4, 0] = holes[1::4, 1] = math.nan
    ends = cell_ends(model, model.checked(holes), [0, 1], [2])
    assert torch.equal(ends.isnan().any(-1), holes[:, :2].isnan())
    whole = cell_ends(model, model.checked(data), [0, 1], [2])
    torch.testing.assert_close(ends, torch.where(ends.isnan(), torch.nan, whole), equal_nan=True)
    masses = whole[..., 1] - whole[..., 0]
    assert (masses[:, 0] > 0).all()
    assert torch.equal(masses[:, 1] > 1e-9, data[:, 1] == 0)
    holes[:, 0] = math.nan
    assert bool(cell_ends(model, model.checked(holes), [0], [2]).isnan().all())


def test_rows_of_several_parts_follow_each_other() -> None:
    one, other = gaussian(3, seed=1), gaussian(3, seed=2)
    rows = [one.sample(30), other.sample(20)]
    both = Uniforms(zip((one, other), rows, strict=True))
    each = [Uniforms([part]) for part in zip((one, other), rows, strict=True)]
    expected = torch.cat([part.ends([0, 1], [2]) for part in each])
    assert torch.equal(both.ends([0, 1], [2]), expected)
    (found,) = independence_tests(both, 0, 1, 2)
    assert found.n == 50
    assert both.known([0]).shape == (50, 1)


def test_errors_name_the_cause() -> None:
    with pytest.raises(ValueError, match="`parts` to hold a density"):
        Uniforms([])
    parts = [(gaussian(n), torch.zeros(5, n)) for n in (2, 3)]
    with pytest.raises(ValueError, match=r"same columns; got \[2, 3\] columns"):
        Uniforms(parts)


@pytest.mark.parametrize("most", [0, 32])
def test_rows_that_know_different_columns(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginals.queries import uniforms

    monkeypatch.setattr(uniforms, "_MOST_PATTERNS", most)
    density = gaussian(4)
    rows = density.sample(60)
    rows[torch.rand(60, 4) < 0.3] = math.nan
    found = cell_ends(density, density.checked(rows), [0, 3], [1, 2])
    for row, ends in zip(rows, found, strict=True):
        expected = cell_ends(density, density.checked(row[None]), [0, 3], [1, 2])[0]
        torch.testing.assert_close(ends, expected, equal_nan=True)
    assert torch.equal(found[..., 0].isnan(), rows[:, [0, 3]].isnan())
