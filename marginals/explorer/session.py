"""What the explorer answers: from the JSON of a request to that of a reply, without any web."""

import copy
import io
import math
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import pandas as pd
import torch

from marginals.columns import Schema, decode
from marginals.densities import Density
from marginals.densities.box_error import relative_error
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.coupled_nodes import ROUGH
from marginals.explorer import pairs, rows, target
from marginals.explorer.data_rows import DataRows
from marginals.explorer.evidence_json import (
    Given,
    RequestError,
    conditioned,
    given_of,
    is_density,
)
from marginals.explorer.monitor_axis import Floats, axes_of
from marginals.explorer.monitors import Monitor, monitors, refuse_impossible
from marginals.explorer.question_text import texts, typed
from marginals.explorer.sweep import sweep
from marginals.queries.outside_data import outside_columns
from marginals.queries.positions import seeded

# While dragging, a range on a lattice with more points counts as continuous: within 1e-4.
_MOST_POINTS = 16
_MOST_DRAWS = 10_000
_TARGET_DRAWS = 5_000
_MOST_TEXT = 20_000

Answer = dict[str, Any]


@final
class Session:
    """A model to explore, and perhaps a table beside it.

    Args:
        model: a fitted `MDMA`, or a view of one.
        data: rows to compare with, a DataFrame with some of the model's columns.
        path: of the model's file, for the questions that are copied.

    >>> from marginals import MDMA
    >>> frame = pd.DataFrame({"age": [30, 40, 50, 60] * 10, "city": list("abab") * 10})
    >>> session = Session(MDMA(width=4, max_steps=20, random_state=0).fit(frame))
    >>> found = session.answer("monitors", {"evidence": {"city": {"is": "value", "value": "a"}}})
    >>> list(found["columns"])
    ['age']
    """

    def __init__(
        self, model: Any, data: pd.DataFrame | None = None, path: str = "model.mdma"
    ) -> None:
        schema = getattr(model, "schema_", None)
        if not isinstance(schema, Schema):
            raise TypeError(
                "Expected `model` to be a fitted MDMA or a view of one; got "
                f"{type(model).__name__} without a schema. Call `fit` first."
            )
        if getattr(model.module_, "rows", 1) > 1:
            raise ValueError(
                f"Expected a view given at most one row of evidence; got {model.module_.rows}. "
                "Condition on one row at a time."
            )
        self.schema = schema.reading("error")
        self.density: Density = copy.deepcopy(model.module_).requires_grad_(False)
        self.rough = copy.deepcopy(self.density)
        for part in self.rough.modules():
            if isinstance(part, CoupledLattices):
                part.most_points = _MOST_POINTS
            elif isinstance(part, CoupledDensity):
                part.resolution = ROUGH
        self.path = path
        self.axes = axes_of(self.density, self.schema)
        self.by_id = {axis.id: axis.position for axis in self.axes}
        self.prior = self._monitors(Given(), range(len(self.axes))).monitors
        self.data = None
        if data is not None:
            self.data = DataRows(data, self.schema.reading("missing"), self.axes)
        self._answers: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "table": self._table,
            "monitors": lambda asked: self._free_monitors(asked, fine=False),
            "exact": lambda asked: self._free_monitors(asked, fine=True),
            "own": self._own_monitors,
            "sweep": self._sweep,
            "data": self._data,
            "target": self._target,
            "pair": self._pair,
            "row": self._row,
            "data_row": self._data_row,
            "paste": self._paste,
            "sample": self._sample,
            "texts": self._texts,
            "typed": self._typed,
        }

    @property
    def quick(self) -> frozenset[str]:
        """The requests that are answered at once, and must not wait for others."""
        return frozenset({"table", "monitors", "data", "texts", "typed", "data_row"})

    def answer(self, name: Any, arguments: Any) -> Answer:
        """Answer a request; a `RequestError` says what was wrong with it."""
        if not isinstance(name, str) or name not in self._answers:
            raise RequestError(f"Expected a known request; got {str(name)[:40]!r}.")
        if not isinstance(arguments, Mapping):
            raise RequestError("Expected the arguments of a request as an object.")
        try:
            with torch.inference_mode():
                return self._answers[name](arguments)
        except RequestError:
            raise
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            # The library's refusals, which say what was expected.
            raise RequestError(str(error).splitlines()[0][:500] or type(error).__name__) from error

    # Monitors ---------------------------------------------------------------------------------

    def _table(self, _: Mapping[str, Any]) -> Answer:
        return {
            "columns": [axis.describe() for axis in self.axes],
            "monitors": {a.id: self.prior[a.position].to_json() for a in self.axes},
            "model": self.path,
            "rows": None if self.data is None else len(self.data),
        }

    def _free_monitors(self, asked: Mapping[str, Any], fine: bool) -> Answer:
        """Return monitors of the columns without evidence, and the evidence's probability.

        Args:
            asked: the evidence and perhaps the columns.
            fine: as Python answers, to all digits; else in the time of a frame or two of a drag.
        """
        given = self._given(asked)
        if not given.positions:
            found = {a.id: self.prior[a.position].to_json() for a in self.axes}
            return {"columns": found, "evidence": {"log": 0.0, "density": False, "error": 0.0}}
        shown = self._monitors(given, self._free(given, asked.get("columns")), fine)
        density = self.density if fine else self.rough
        far = outside_columns(density, self.schema, shown.hard, alternatives=True)
        evidence = {
            "log": _finite(shown.log_evidence),
            "density": is_density(self.schema, given),
            "error": relative_error(density, density.checked(shown.hard)),
            "outside": [str(name) for name in far],
        }
        decimals = 7 if fine else 5
        found = {self.axes[i].id: m.to_json(decimals) for i, m in shown.monitors.items()}
        return {"columns": found, "evidence": evidence}

    def _own_monitors(self, asked: Mapping[str, Any]) -> Answer:
        """Return monitors of the columns with evidence, given the evidence on the others."""
        given = self._given(asked)
        found = {
            self.axes[i].id: self._monitor(given.without(i), i).to_json() for i in given.positions
        }
        return {"columns": found}

    def _sweep(self, asked: Mapping[str, Any]) -> Answer:
        """Return monitors for every value of one column given the others, for a drag on it."""
        moved = self._column(asked.get("column"))
        given = self._given(asked).without(moved)
        if given.soft:
            raise RequestError("Expected no soft evidence on columns other than the dragged one.")
        free = [i for i in self._free(given, asked.get("columns")) if i != moved]
        if not free:
            return {"columns": {}}
        return sweep(self.rough, self.schema, self.axes, given, moved, free)

    def _monitors(self, given: Given, positions: Any, fine: bool = True) -> Any:
        density = self.density if fine else self.rough
        return monitors(density, self.schema, self.axes, given, list(positions), fine)

    def _monitor(self, given: Given, position: int) -> Monitor:
        if not given.positions:
            return self.prior[position]
        found: Monitor = self._monitors(given, [position]).monitors[position]
        return found

    # Data -------------------------------------------------------------------------------------

    def _data(self, asked: Mapping[str, Any]) -> Answer:
        return self._rows().shares(self._given(asked))

    def _data_row(self, asked: Mapping[str, Any]) -> Answer:
        return {"cells": self._rows().row(_whole(asked.get("row"), "row"))}

    def _rows(self) -> DataRows:
        if self.data is None:
            raise RequestError("Expected a table beside the model; got none. Start with --data.")
        return self.data

    # Target -----------------------------------------------------------------------------------

    def _target(self, asked: Mapping[str, Any]) -> Answer:
        """Return columns by their information about a target, and what moved the target."""
        position = self._column(asked.get("target"))
        given = self._given(asked).without(position)
        found = target.ranking(self.axes, self._draws(given, _TARGET_DRAWS, 0), position, given)
        axis = self.axes[position]
        now = self._monitor(given, position)
        bar = int(np.argmax(now.masses)) if axis.kind == "bars" else None
        summary = target.summary_of(axis, bar)
        shares, before, after = target.contributions(
            given, lambda part: summary(self._monitor(part, position))
        )
        what = "median" if axis.kind == "curve" else "mean"
        if axis.family == "category":
            what = f"P({axis.labels[bar or 0]})"
        found["contributions"] = [{"id": self.axes[i].id, "by": by} for i, by in shares]
        return {**found, "of": what, "before": before, "after": after}

    def _draws(self, given: Given, count: int, seed: int) -> Floats:
        """Draw rows (N, D) given evidence, on the model's scale."""
        state = conditioned(self.density, self.schema, given)
        generator = seeded(self.density, seed)
        if not given.soft:
            drawn = state.density.sample(count, state.rows, generator)
            return np.asarray(drawn.double().cpu().numpy())
        log_rows = state.density.log_value(state.rows).double().cpu()
        refuse_impossible(log_rows)
        counts = np.random.default_rng(seed).multinomial(count, state.weights(log_rows).numpy())
        parts = [
            state.density.sample(int(n), state.rows.rows(torch.tensor([row])), generator)
            for row, n in enumerate(counts)
            if n
        ]
        drawn = torch.cat(parts)[torch.randperm(count, generator=generator)]
        return np.asarray(drawn.double().cpu().numpy())

    # Pairs and rows -----------------------------------------------------------------------------

    def _pair(self, asked: Mapping[str, Any]) -> Answer:
        x, y = self._column(asked.get("x")), self._column(asked.get("y"))
        if x == y:
            raise RequestError("Expected two different columns for a pair. Choose another.")
        given = self._given(asked).without(x).without(y)
        found = pairs.joint_masses(self.density, self.schema, self.axes, given, x, y)
        found["points"] = [] if self.data is None else self.data.points(given, x, y)
        return found

    def _row(self, asked: Mapping[str, Any]) -> Answer:
        return rows.explained(self.density, self.schema, self.axes, asked.get("cells"))

    def _paste(self, asked: Mapping[str, Any]) -> Answer:
        return {"cells": rows.pasted(self.schema, self.axes, _text(asked.get("text")))}

    def _sample(self, asked: Mapping[str, Any]) -> Answer:
        """Draw rows that agree with the evidence, as CSV."""
        count = _whole(asked.get("count"), "count")
        if not 1 <= count <= _MOST_DRAWS:
            raise RequestError(f"Expected `count` between 1 and {_MOST_DRAWS}; got {count}.")
        drawn = self._draws(self._given(asked), count, _whole(asked.get("seed", 0), "seed"))
        frame = decode(self.schema, torch.from_numpy(drawn))
        text = io.StringIO()
        frame.to_csv(text, index=False)
        return {"csv": text.getvalue(), "count": count}

    # Words ------------------------------------------------------------------------------------

    def _texts(self, asked: Mapping[str, Any]) -> Answer:
        wanted = asked.get("target")
        position = None if wanted is None else self._column(wanted)
        return dict(texts(self.schema, self.axes, self._given(asked), position, self.path))

    def _typed(self, asked: Mapping[str, Any]) -> Answer:
        axis = self.axes[self._column(asked.get("column"))]
        return {"cell": typed(self.schema, axis, _text(asked.get("text")))}

    # Parts ------------------------------------------------------------------------------------

    def _given(self, asked: Mapping[str, Any]) -> Given:
        return given_of(asked.get("evidence", {}), self.axes)

    def _free(self, given: Given, wanted: Any) -> list[int]:
        """Return the columns without evidence: all, or those that a drag has in sight."""
        if wanted is None:
            wanted = list(self.by_id)
        if not isinstance(wanted, list) or len(wanted) > len(self.axes):
            raise RequestError("Expected `columns` to be a list of columns.")
        positions = sorted({self._column(name) for name in wanted})
        return [i for i in positions if i not in given.positions]

    def _column(self, name: Any) -> int:
        if not isinstance(name, str) or name not in self.by_id:
            raise RequestError(f"Expected a column of the model; got {str(name)[:60]!r}.")
        return self.by_id[name]


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**53:
        raise RequestError(f"Expected `{name}` to be a whole number; got {str(value)[:40]}.")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise RequestError(f"Expected text of at most {_MOST_TEXT} characters.")
    return value


def _finite(value: float) -> float:
    return value if math.isfinite(value) else -1e308
