"""The picture of a report on synthetic rows."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from marginals.plotting import plot_synthesis
from marginals.synthesis import synthesis_report


def rows(seed: int, columns: int = 3) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    names = [f"column_{i}" for i in range(columns)]
    frame = pd.DataFrame(random.normal(size=(80, columns)), columns=names)
    return frame.assign(kind=random.choice(["a", "b"], size=80))


def test_the_four_panels() -> None:
    report = synthesis_report(rows(0), rows(1), rows(2))
    figure = plot_synthesis(report)
    figure.draw_without_rendering()
    columns, pairs, told, copies = figure.axes
    assert len(columns.patches) == 4
    assert len(pairs.collections[0].get_offsets()) == 6
    assert told.get_ylim()[0] < 0.5 < told.get_ylim()[1]
    assert [text.get_text() for text in copies.get_legend().get_texts()] == ["holdout", "synthetic"]


def test_many_columns_and_tables_without_pairs() -> None:
    many = plot_synthesis(synthesis_report(rows(0, 30), rows(1, 30)))
    assert len(many.axes[0].patches) == 20
    single = [rows(seed)[["kind"]] for seed in (0, 1)]
    plot_synthesis(synthesis_report(*single)).draw_without_rendering()
