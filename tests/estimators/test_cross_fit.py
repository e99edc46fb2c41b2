"""Cross-fitting: rows judged by models that were not fitted to them."""

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, CrossFit, Integer, cross_fit
from marginals.queries import pointwise_mutual_information


def chain(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """x and y depend on z alone; c is a category of it, k a count, and some cells are missing."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": z + rng.normal(size=n),
            "y": np.exp(2 * (z + rng.normal(size=n))),
            "z": z,
            "c": np.where(z > 0, "high", "low"),
            "k": rng.poisson(np.exp(z / 2)),
        },
        index=np.arange(n) + 7,
    )
    frame.loc[frame.index[::9], "x"] = np.nan
    return frame


@pytest.fixture(scope="module")
def folded() -> CrossFit:
    return cross_fit(chain(), columns={"k": Integer(lower=0)})


def test_dependence_is_seen_and_explained_away(folded: CrossFit) -> None:
    assert np.array_equal(np.sort(np.concatenate(folded.rows)), np.arange(400))
    assert [len(cells) for _, cells in folded.parts] == [80] * 5
    assert folded.independence_test("x", "y").pvalue < 1e-4
    assert folded.independence_test("x", "y", given="z").pvalue > 0.01
    assert folded.independence_test("x", "c").pvalue < 1e-4
    assert folded.independence_test("k", "x").pvalue < 0.01
    assert folded.independence_test("k", "x", given="z").pvalue > 0.01


def test_information_of_normal_columns() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(1000, 3))
    rows = np.column_stack([z[:, 0], 0.8 * z[:, 0] + 0.6 * z[:, 1], z[:, 2]])
    folded = cross_fit(np.sinh(3 * rows))  # heavy tails change nothing
    found = folded.mutual_information(0, 1, permutations=50)
    assert abs(found.value - -0.5 * np.log(1 - 0.8**2)) < 4 * found.stderr + 0.02
    assert found.pvalue == 1 / 51
    none = folded.mutual_information([0, 1], 2, permutations=50)
    assert abs(none.value) < 0.02
    assert none.pvalue is not None
    assert none.pvalue > 0.02
    matrix = folded.mutual_information_matrix()
    assert matrix.loc[0, 1] == pytest.approx(found.value, abs=1e-6)
    pointwise = folded.pointwise_mutual_information(0, 1)
    assert pointwise.mean() == pytest.approx(found.value, abs=1e-6)


def test_pointwise_information_is_in_the_order_of_the_table(folded: CrossFit) -> None:
    found = folded.pointwise_mutual_information("x", "y", given="z")
    for (density, cells), rows in zip(folded.parts, folded.rows, strict=True):
        part = pointwise_mutual_information([(density, cells)], 0, 1, 2).detach()
        # Differences of log densities in float32, whose rounding depends on the batch.
        np.testing.assert_allclose(found[rows], part, rtol=1e-6, atol=2e-6)


def test_overfitting_does_not_read_as_information() -> None:
    rows = np.random.default_rng(2).normal(size=(80, 2))
    wide = MDMA(tensor="cp", width=60, max_steps=300, noise=0.0, validation_fraction=0.0)
    model = wide.set_params(random_state=0).fit(rows)
    assert model.mutual_information(0, 1, data=rows).value > 0.1
    assert cross_fit(rows, wide, folds=4, scores=False).mutual_information(0, 1).value < 0.1
    frame = chain(200)[["x", "c"]]
    folded = cross_fit(frame, MDMA(width=4, max_steps=60, random_state=0), folds=2)
    assert folded.names == ["x", "c"]
    assert folded.mutual_information("x", "c").value > 0.1
    assert folded.total_correlation().value == folded.mutual_information("x", "c").value


def test_errors(folded: CrossFit) -> None:
    with pytest.raises(ValueError, match="`folds` to lie between 2 and the 400 rows"):
        cross_fit(chain(), folds=1)
    for query in (folded.mutual_information, folded.independence_test):
        with pytest.raises(ValueError, match="no `data` with cross-fitted models"):
            query("x", "y", data=chain())
    with pytest.raises(ValueError, match="got 'w'"):
        folded.independence_test("x", "w")
