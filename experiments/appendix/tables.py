"""Couplings and tensors by held-out likelihood, and the speed of two ways to draw rows."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.appendix.run import STRUCTURES, WAYS
from experiments.markdown import spread, table
from experiments.registry import Record

COLUMNS = {
    "coupled": "HT, coupled by abs. correlation",
    "balanced": "HT, columns in their order",
    "random": "HT, random tree",
    "mera": "MERA, coupled by abs. correlation",
}
NAMES = {"components": "by components", "autoregressive": "autoregressive"}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return a table for each part that has numbers."""
    parts = []
    if fits := [r for r in records if r["part"] in ("marginals", "features")]:
        parts += ["The fits that are pictured, test log-likelihood in nats per row:", _fits(fits)]
    if fits := [r for r in records if r["part"] == "structures"]:
        told = (
            "Adaptive against naive coupling, and MERA against HT: test log-likelihood in nats per "
            f"row (mean over seeds, ± their standard deviation), {fits[0]['width']} components, "
            "normal leaves on a learned scale (steps; seconds of fitting):"
        )
        parts += [told, _structures(fits)]
    if times := [r for r in records if r["part"] == "sampling"]:
        told = (
            "Rows drawn in a second, and how many times faster the first way is: models of "
            f"{times[0]['width']} components, {times[0]['draws']:,} rows:"
        )
        parts += [told, _times(times)]
    return "\n\n".join(parts)


def _fits(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        start = record.get("start", "data")
        shown = [record["part"], record["set"].upper(), f"from {start}" if start == "data" else ""]
        shown[2] = shown[2] or "the paper's start"
        figures = [record["width"], record["steps"], f"{record['fit_s']:.0f}"]
        rows.append([*shown, *map(str, figures), f"{record['test']:.2f}"])
    return table(["figure", "set", "start", "components", "steps", "seconds", "test"], rows)


def _structures(records: Sequence[Record]) -> str:
    shown = [name for name in STRUCTURES if any(r["structure"] == name for r in records)]
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        own = [r for r in records if r["set"] == name]
        cells = [_cell([r for r in own if r["structure"] == each]) for each in shown]
        rows.append([f"{name.upper()}, d = {own[0]['columns']}", *cells])
    return table(["", *(COLUMNS[name] for name in shown)], rows)


def _cell(records: Sequence[Record]) -> str:
    if not records:
        return ""
    score = spread([r["test"] for r in records], 2)
    steps, seconds = (fmean(r[key] for r in records) for key in ("steps", "fit_s"))
    return f"{score} ({steps:.0f}; {seconds:.0f})"


def rate(records: Sequence[Record], columns: int, way: str) -> float | None:
    """Return rows drawn in a second, the median over seeds."""
    own = [r for r in records if (r["columns"], r["way"]) == (columns, way)]
    return sorted(r["draws"] / r["draw_s"] for r in own)[len(own) // 2] if own else None


def _times(records: Sequence[Record]) -> str:
    rows = []
    for columns in dict.fromkeys(r["columns"] for r in records):
        fast, slow = (rate(records, columns, way) for way in WAYS)
        times = f"{fast / slow:.0f}" if fast and slow else ""
        rows.append(
            [str(columns), *(f"{each:,.0f}" if each else "" for each in (fast, slow)), times]
        )
    return table(["columns", *(NAMES[way] for way in WAYS), "times faster"], rows)
