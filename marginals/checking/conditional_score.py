"""The score of answers: observed cells are hidden, requested from the model and compared."""

import time
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
import torch

from marginals.cells import Evidence
from marginals.checking.hidden_cells import Flags, hidden_cells
from marginals.checking.known_cells import comparable, known_cells, known_values
from marginals.columns import Categorical, Column, Schema
from marginals.columns.axis import quiet
from marginals.columns.cell_reading import numbers
from marginals.densities import Density, Univariates
from marginals.densities.univariate_cells import log_cells
from marginals.numerics.scoring_rules import brier_score, mass_crps, quantile_crps
from marginals.queries.imputation import Imputation
from marginals.queries.named_rows import seed_of
from marginals.queries.value_masses import numbers_at, value_masses
from marginals.synthesis.comparable_cells import Floats
from marginals.synthesis.json_records import plain_record, records

# Equally spaced levels whose quantiles give the CRPS; 0.05 and 0.95 are among them.
_LEVELS = (torch.arange(50, dtype=torch.float64) + 0.5) / 50
_CENTRAL = (0.05, 0.95)
_SCORES = ("crps", "coverage", "log_loss", "brier", "accuracy", "log_score")


@final
@dataclass(frozen=True)
class ConditionalScore:
    """Hold the scores of a model's answers for hidden cells; `print` shows them as text.

    Args:
        columns: one line per column: its number of hidden `cells`; for numbers and times the
            `crps`, in the column's standard deviations, and the `coverage` of the central 90 %
            interval; for categories the `log_loss`, the `brier` score and the `accuracy` of the
            most likely one; and the `log_score`, the mean of log p(cell | observed cells of its
            row). Values on a lattice, atoms and categories count by their mass, other numbers by
            their density per standard deviation.
        log_scores: log p(hidden cells | observed cells) of each scored row, for all of its hidden
            cells together, in the same units.
        rows: number of rows in the table.
        hidden: which cells of the scored rows were hidden, (rows, columns).
        patterns: where the hidden cells come from: "the table's gaps", "the training rows' gaps",
            "random" or "columns".
        seconds: time taken.
        notes: what was skipped, and why.
    """

    columns: pd.DataFrame
    log_scores: Floats
    rows: int
    hidden: Flags
    patterns: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, float]:
        """Return the means over all hidden cells, and the mean joint `log_score` of a row."""
        weights = self.columns["cells"].to_numpy(dtype=np.float64)
        found: dict[str, float] = {"cells": int(weights.sum()), "rows": len(self.hidden)}
        for name in _SCORES[:-1]:
            values = self.columns[name].to_numpy(dtype=np.float64)
            own = np.isfinite(values) | np.isinf(values)
            if own.any():
                found[name] = float(np.average(values[own], weights=weights[own]))
        return {**found, "log_score": float(self.log_scores.mean())}

    def to_dict(self) -> dict[str, Any]:
        """Return everything except single rows as plain types, for JSON."""
        return {
            **{"rows": self.rows, "patterns": self.patterns},
            **{"seconds": round(self.seconds, 3), "notes": list(self.notes)},
            "summary": plain_record(self.summary),
            "columns": records(self.columns.reset_index()),
        }

    def __str__(self) -> str:
        lines = [self._head(), self.columns.to_string(float_format="%.3f", na_rep="")]
        return "\n\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        table = self.columns.to_html(float_format="%.3f", na_rep="")
        notes = "".join(f"<p>Note: {note}</p>" for note in self.notes)
        return f"<p>{self._head()}</p>{table}{notes}"

    def _head(self) -> str:
        total = self.summary
        means = [f"{name} {total[name]:.3f}" for name in _SCORES if name in total]
        return (
            f"{total['cells']} cells hidden in {len(self.hidden)} of {self.rows} rows "
            f"({self.patterns}), in {self.seconds:.1f} s: {', '.join(means)}"
        )


def score_conditional(
    model: Any,
    x: Any,
    *,
    columns: Any = None,
    gaps: Evidence | None = None,
    rows: int = 1000,
    random_state: Any = 0,
) -> ConditionalScore:
    """Hide observed cells of a table and score a model's answers; see `MDMA.score_conditional`.

    Args:
        model: a fitted model, or a marginal or conditional of one.
        x: a table with some of the model's columns; other columns are ignored.
        columns: the columns to hide in every row; None imitates the pattern of gaps.
        gaps: rows whose gaps to imitate if the table has none.
        rows: the most rows to score; a larger table is sampled.
        random_state: seed for rows and cells.
    """
    started = time.perf_counter()
    random = np.random.default_rng(seed_of(random_state))
    density, schema = model.module_, model.schema_
    every, notes = comparable(schema, x)
    every = known_values(schema, every)
    some = np.sort(random.permutation(len(every))[:rows])
    frame = every.iloc[some].reset_index(drop=True)
    cells = known_cells(density, schema, frame)
    observed = ~cells.missing().cpu().numpy()
    absent = every.isna().to_numpy()
    if columns is not None:
        positions = schema.positions(columns)
        asked = np.array([c in positions for c in cells.columns])
        hidden, origin = observed & asked, "columns"
    elif absent.any():
        hidden, origin = hidden_cells(observed, absent, random), "the table's gaps"
    elif gaps is not None and bool(gaps.missing().any()):
        fallen = gaps.select(cells.columns).missing().cpu().numpy()
        hidden, origin = hidden_cells(observed, fallen, random), "the training rows' gaps"
    else:
        hidden, origin = hidden_cells(observed, None, random), "random"
    if not hidden.any():
        raise ValueError(
            "Expected the table to have observed cells in the columns to hide; got none. Give rows "
            "in which they are known."
        )
    kept = hidden.any(1)
    held = _Held(density, schema, frame[kept].reset_index(drop=True), cells, hidden, every)
    return ConditionalScore(
        held.by_column(),
        held.by_row(),
        len(every),
        hidden[kept],
        origin,
        time.perf_counter() - started,
        tuple(notes),
    )


@final
class _Held:
    """Rows with hidden cells, and what they are under a model."""

    def __init__(
        self,
        density: Density,
        schema: Schema,
        frame: pd.DataFrame,
        cells: Evidence,
        hidden: Flags,
        every: pd.DataFrame,
    ) -> None:
        kept = torch.from_numpy(hidden.any(1))
        self.density, self.schema, self.frame = density, schema, frame
        self.hidden = hidden[hidden.any(1)]
        self.cells = cells.rows(kept.to(cells.lower.device))
        self.spread = {name: _spread(schema[name], every[name]) for name in frame.columns}
        self.log_slope = self._log_slopes()  # (B, n)

    def by_column(self) -> pd.DataFrame:
        """Return the mean scores of each column."""
        found: dict[Any, list[pd.DataFrame]] = {}
        holes = self.frame.mask(self.hidden)
        asked = Imputation(self.density, self.schema, holes, only=self.hidden)
        for place, column, at, parts in asked.conditionals():
            index = torch.from_numpy(at).to(self.cells.lower.device)
            cell = self.cells.select([self.cells.columns[place]]).rows(index)
            log_score = log_cells(parts, cell)[:, 0].double().cpu().numpy()
            scores = self._scores(parts, column, at)
            scores["log_score"] = log_score + self.log_slope[at, place]
            found.setdefault(column.name, []).append(pd.DataFrame(scores))
        lines = []
        for name in [name for name in self.frame.columns if name in found]:
            frame = pd.concat(found[name])
            lines.append({"column": name, "cells": len(frame), **frame.mean()})
        return pd.DataFrame(lines).set_index("column").reindex(columns=["cells", *_SCORES])

    def by_row(self) -> Floats:
        """Return the log density of each row's hidden cells given its observed ones, (B,)."""
        gone = torch.from_numpy(self.hidden).to(self.cells.lower.device)
        with torch.no_grad():
            value = self.density.log_gain(self.cells, gone).double().cpu().numpy()
        return np.asarray(value + np.where(self.hidden, self.log_slope, 0.0).sum(1))

    def _scores(self, parts: Univariates, column: Column, at: Any) -> dict[str, Any]:
        truth = torch.from_numpy(numbers(column, self.frame[column.name].iloc[at]))
        if isinstance(column.kind, Categorical):
            codes = torch.arange(len(column.listed or ()), dtype=torch.float64)
            shares = parts.logpdf(codes[:, None, None].to(parts.log_evidence))[..., 0].double()
            log_mass, code = shares.cpu().log_softmax(0), truth.long()
            return {
                "log_loss": -log_mass.gather(0, code[None])[0].numpy(),
                "brier": brier_score(log_mass.exp(), code).numpy(),
                "accuracy": (log_mass.argmax(0) == code).double().numpy(),
            }
        line, spread = column.axis, self.spread[column.name]
        masses = value_masses(parts, line)
        if masses is not None:
            values, mass = torch.from_numpy(masses[0]), masses[1].softmax(0)
            below, up_to = (
                (mass * side(values[:, None], truth)).sum(0) for side in (torch.lt, torch.le)
            )
            crps = mass_crps(values, mass, truth)
            inside = (below < _CENTRAL[1]) & (up_to >= _CENTRAL[0])
        else:
            found = numbers_at(line, parts.ppf(_LEVELS[:, None, None])[..., 0])  # (Q, B)
            crps = quantile_crps(found, _LEVELS, truth)
            low, high = (found[(_LEVELS - level).abs().argmin()] for level in _CENTRAL)
            inside = (low <= truth) & (truth <= high)
        return {"crps": (crps / spread).numpy(), "coverage": inside.double().numpy()}

    def _log_slopes(self) -> Floats:
        """Return what brings log values to the units of the report, (B, n)."""
        slopes = []
        for name in self.frame.columns:
            line = self.schema[name].axis
            values = numbers(self.schema[name], self.frame[name])
            with quiet():
                slope = line.exact(values).log_slope
                per_spread = np.where(line.has_mass(values), 0.0, np.log(self.spread[name]))
            slopes.append(np.where(np.isnan(values), 0.0, slope + per_spread))
        return np.stack(slopes, 1)


def _spread(column: Column, series: Any) -> float:
    """Return the standard deviation of a column's numbers; one for categories and constants."""
    if isinstance(column.kind, Categorical):
        return 1.0
    return float(np.nanstd(numbers(column, series))) or 1.0
