"""Columns that nearly determine each other, such as the start and the end of a trip."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA
from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import uniform_lattice
from marginals.columns.encoding import encode
from marginals.columns.inference import infer
from marginals.densities.build import build
from marginals.densities.em_start import is_sharp
from marginals.tensors.couplings import LEAST, Couplings


def trips(rows: int = 3000) -> pd.DataFrame:
    """Return pick-ups over a month, and drop-offs 1 to 60 minutes later."""
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 31 * 86_400, rows), "s")
    seconds = np.clip(np.rint(60 * rng.lognormal(2.4, 0.7, rows)), 60, 3600)
    distance = np.round(seconds / 60 * rng.uniform(0.1, 0.4, rows), 2)
    end = start + pd.to_timedelta(seconds, "s")
    return pd.DataFrame({"pickup": start, "dropoff": end, "distance": distance})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return trips()


def test_the_end_of_a_trip_is_known_to_minutes_from_its_start(table: pd.DataFrame) -> None:
    model = MDMA(effort="fast", max_seconds=2, random_state=0).fit(table)
    some = table.iloc[:20]
    low, high = model.interval("dropoff", 0.9, given=some[["pickup"]])
    seconds = (table.dropoff - table.pickup).dt.total_seconds()
    first, last = seconds.quantile([0.05, 0.95])
    for ends, true in ((low, first), (high, last)):
        after = (pd.Series(ends) - some.pickup.reset_index(drop=True)).dt.total_seconds()
        assert (after - true).abs().max() < 300
    drawn = model.sample(4000, random_state=0)
    assert (drawn.dropoff < drawn.pickup).mean() < 0.03


def test_float32_carries_the_least_unique_variance(table: pd.DataFrame) -> None:
    schema = infer(table)
    evidence = encode(schema, table).evidence
    options = {"tensor": "copula", "width": 4, "rank": 2, "init": "em", **schema.build_options}
    model = build(evidence, **options)
    least = model.couplings.least
    assert least.tolist() == pytest.approx([1e-9, 1e-9, LEAST])  # distances are coarse near 0
    exact = copy.deepcopy(model).double()
    some = evidence.rows(slice(0, 500))
    found, expected = (m.log_value(some).double() for m in (model, exact))
    assert (found - expected).abs().max() < 0.02
    assert (found - expected).abs().median() < 1e-3


def test_sharp_columns_are_noticed() -> None:
    x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert not is_sharp(x)
    near = x[:, :1] + 0.01 * x[:, 1:2]
    assert is_sharp(torch.cat([x, near], 1))
    assert not is_sharp(x[:, :1])
    assert not is_sharp(torch.full((5, 2), torch.nan))


def test_the_start_keeps_sharp_directions() -> None:
    x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.stack([x[:, 0], x[:, 0] + 0.001 * x[:, 1]], 1)
    steps = {c: lambda low, high: None for c in (0, 1)}
    blurred = build(y, tensor="copula", width=1, rank=1, init="em", lattices=steps)
    lattices = {c: uniform_lattice(1e-4) for c in (0, 1)}
    sharp = build(y, tensor="copula", width=1, rank=1, init="em", lattices=lattices)
    widths = [
        float(m.univariates(Evidence.exact(y[:1, :1], [0]), [1]).log_width.exp().detach()[0, 0, 0])
        for m in (blurred, sharp)
    ]
    assert widths[0] > 0.01
    assert widths[1] == pytest.approx(0.001, rel=0.1)


def test_least_unique_variances_are_kept_in_files() -> None:
    couplings = Couplings(2, 3, least=[1e-9, 1e-4])
    assert Couplings(**couplings.config()).config() == couplings.config()
    with pytest.raises(ValueError, match="least"):
        Couplings(2, 3, least=[1e-9])
