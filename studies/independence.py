"""Level and power of tests of conditional independence."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from studies.data.density import Rows
from studies.harness.available import check_choice
from studies.harness.drawing import legend, open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, ranges, shown, table
from studies.models.testers import METHODS

# Mechanisms -------------------------------------------------------------------------------------


class Parts(NamedTuple):
    """What rows are made of: the noise of X, and X, Y and Z as they are under independence."""

    noise: Rows
    x: Rows
    y: Rows
    z: Any


def _linear(n: int, rng: np.random.Generator) -> Parts:
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, z + e, f - z, z)


def _nonlinear(n: int, rng: np.random.Generator) -> Parts:
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, np.sin(2 * z) + 0.5 * e, z**2 + 0.5 * f, z)


def _alike(n: int, rng: np.random.Generator) -> Parts:
    """Bend both sides alike: what a fit misses of one it misses of the other."""
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, z**2 + 0.5 * e, z**2 + 0.5 * f, z)


def _heteroscedastic(n: int, rng: np.random.Generator) -> Parts:
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, np.exp(0.7 * z) * e, z + (0.3 + np.abs(z)) * f, z)


def _heavy_tailed(n: int, rng: np.random.Generator) -> Parts:
    z, (e, f) = rng.normal(size=n), rng.standard_t(2, size=(2, n))
    return Parts(e, z + e, np.tanh(2 * z) + 0.5 * f, z)


def _discrete(n: int, rng: np.random.Generator) -> Parts:
    """Give Z four categories, which move the mean of both and the spread of Y."""
    z, (e, f) = rng.integers(4, size=n), rng.normal(size=(2, n))
    y = np.array([0.0, 2.0, -1.0, 1.0])[z] + (1 + z / 3) * f
    return Parts(e, z + e, y, np.array(list("abcd"))[z])


NULL: dict[str, Callable[[int, np.random.Generator], Parts]] = {
    "linear": _linear,
    "nonlinear": _nonlinear,
    "alike": _alike,
    "heteroscedastic": _heteroscedastic,
    "heavy-tailed": _heavy_tailed,
    "discrete Z": _discrete,
}
# What Y takes from the noise of X: a dependence that all tests should see, and one without
# correlation that only some can see.
STRENGTH = 0.15
ALTERNATIVES: dict[str, Callable[[Rows, Rows, float], Rows]] = {
    "additive": lambda e, y, s: y + STRENGTH * s * e,
    "even": lambda e, y, s: y + STRENGTH * s * (np.abs(e) - np.abs(e).mean()) * 2,
}


def draw_rows(mechanism: str, kind: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Make rows in which x and y are independent given z ("null"), or an alternative."""
    parts = NULL[check_choice("`mechanisms`", mechanism, NULL)](n, rng)
    y = parts.y
    if kind != "null":
        scale = np.subtract(*np.quantile(parts.y, [0.75, 0.25])) / 1.35
        y = ALTERNATIVES[check_choice("`kinds`", kind, ALTERNATIVES)](parts.noise, y, scale)
    return pd.DataFrame({"x": parts.x, "y": y, "z": parts.z})


# Running ----------------------------------------------------------------------------------------


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Repeat one test on rows of one mechanism; count rejections at 0.05 and 0.01."""
    test = METHODS[check_choice("`methods`", job["method"], METHODS)]
    found: dict[str, list[float]] = {}
    started = time.process_time()
    for repetition in range(settings.repetitions):
        rng = np.random.default_rng([seed, job["n"], repetition])
        rows = draw_rows(job["mechanism"], job["kind"], job["n"], rng)
        for name, pvalue in test(rows, seed + repetition).items():
            found.setdefault(name, []).append(pvalue)
    seconds = (time.process_time() - started) / settings.repetitions
    return {
        "repetitions": settings.repetitions,
        "cpu_seconds": round(seconds, 4),
        "rejected": {
            name: {str(level): float(np.mean(np.array(values) < level)) for level in (0.05, 0.01)}
            for name, values in found.items()
        },
        "quantiles": {
            name: np.quantile(values, np.arange(1, 10) / 10).round(4).tolist()
            for name, values in found.items()
        },
    }


# Tables -----------------------------------------------------------------------------------------


def pooled(records: Records) -> list[Record]:
    """Return one record for the repetitions of all seeds: means, weighted by repetitions."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        key = tuple(record[name] for name in ("kind", "n", "mechanism", "method"))
        groups.setdefault(key, []).append(record)
    return [_pool(group) for group in groups.values()]


def _pool(group: Sequence[Record]) -> Record:
    counts = [record["repetitions"] for record in group]

    def mean(values: Sequence[float]) -> float:
        return float(np.average(values, weights=counts))

    rejected = {
        name: {level: mean([r["rejected"][name][level] for r in group]) for level in shares}
        for name, shares in group[0]["rejected"].items()
        if all(name in r["rejected"] for r in group)
    }
    seconds = mean([record["cpu_seconds"] for record in group])
    whole = {"repetitions": sum(counts), "cpu_seconds": seconds, "rejected": rejected}
    return {**group[0], **whole}


BAND = (0.03, 0.07)
DEFAULT = "marginals"
STYLES = {
    **{DEFAULT: ("P", "#000000")},
    **{"marginals, q=1": ("o", "#0072B2"), "marginals, q=2": ("s", "#56B4E9")},
    **{"marginals, q=3": ("^", "#009E73"), "Fisher z": ("v", "#E69F00")},
    **{"GCM": ("D", "#D55E00"), "KCI": ("X", "#CC79A7")},
}


def rejections(records: Records, kind: str, n: int) -> pd.DataFrame:
    """Return the share of rejections at 0.05, mechanisms by tests."""
    found = {
        (record["mechanism"], name): shares["0.05"]
        for record in records
        if (record["kind"], record["n"]) == (kind, n)
        for name, shares in record["rejected"].items()
    }
    frame = pd.Series(found, dtype=float).unstack() if found else pd.DataFrame(dtype=float)
    return frame.reindex(index=present(NULL, frame.index), columns=present(STYLES, frame.columns))


def outside(records: Records) -> list[str]:
    """Return the levels of ours that leave the band."""
    return [
        f"- {record['mechanism']}, {record['n']} rows, {name}: {shares['0.05']:.3f}"
        for record in _levels(records)
        for name, shares in _judged(record).items()
        if not BAND[0] <= shares["0.05"] <= BAND[1]
    ]


def _judged(record: Record) -> dict[str, Any]:
    """Return the rejections by the default test, or by all of ours where it was not measured."""
    found = record["rejected"]
    return {DEFAULT: found[DEFAULT]} if DEFAULT in found else found


def _levels(records: Records) -> list[Record]:
    return pick(records, kind="null", method="marginals")


def facts(records: Records) -> dict[str, str]:
    """Return how many levels of ours lie within the band."""
    records = pooled(records)
    count = sum(len(_judged(r)) for r in _levels(records))
    return {"levels": f"{count - len(outside(records))} of {count}"}


def tables(records: Records, paper: Paper) -> str:
    """Return how many levels of ours are right, then levels and powers by number of rows."""
    records = pooled(records)
    count, wrong = sum(len(_judged(r)) for r in _levels(records)), outside(records)
    head = f"Of {count} levels of ours {count - len(wrong)} lie within {BAND[0]} and {BAND[1]}."
    parts = ["## Summary", head + (" Outside:" if wrong else "")]
    parts += ["\n".join(wrong)] if wrong else []
    for kind in dict.fromkeys(record["kind"] for record in records):
        for n in sorted({record["n"] for record in records if record["kind"] == kind}):
            frame = rejections(records, kind, n)
            rows = [[str(name), *map(shown, row)] for name, row in frame.iterrows()]
            counts = [r["repetitions"] for r in records if (r["kind"], r["n"]) == (kind, n)]
            what = "Level" if kind == "null" else f"Power, {kind} dependence"
            parts += [
                f"### {what}, {n} rows",
                table(["", *frame.columns], rows),
                f"Rejections at 0.05 among {ranges(counts)} repetitions.",
            ]
    seconds: dict[tuple[int, str], list[float]] = {}
    for record in records:
        seconds.setdefault((record["n"], record["method"]), []).append(record["cpu_seconds"])
    told = [f"{m} at {n} rows {np.mean(each):.2g}" for (n, m), each in sorted(seconds.items())]
    parts.append(f"CPU seconds of a test, on one thread: {', '.join(told)}.")
    return "\n\n".join(parts)


# The picture ------------------------------------------------------------------------------------


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw the level by mechanism and number of rows, and the power by mechanism."""
    records = pooled(records)
    alternatives = [k for k in dict.fromkeys(r["kind"] for r in records) if k != "null"]
    figure, axes = panels(9.5, 3.4, 1 + len(alternatives))
    _draw_levels(axes[0, 0], records)
    for panel, kind in zip(axes[0, 1:], alternatives, strict=True):
        n = min(r["n"] for r in records if r["kind"] == kind)
        frame = rejections(records, kind, n)
        for name in frame.columns:
            marker, colour = STYLES[name]
            style = {"color": colour, "label": name, "ms": 5, "alpha": 0.8}
            panel.plot(frame[name], range(len(frame)), marker, **style)
        panel.set(xlim=(-0.03, 1.03), yticks=range(len(frame)), yticklabels=frame.index)
        panel.set_title(f"power, {kind} dependence, {n} rows", loc="left")
    for panel in axes[0]:
        panel.invert_yaxis()
        panel.tick_params(labelsize=7)
        panel.grid(axis="x", color="0.92")
        panel.set_axisbelow(True)
        open_frame(panel)
    legend(figure, axes[0, -1])
    return {"": figure}


def _draw_levels(axes: Any, records: Records) -> None:
    sizes = sorted({r["n"] for r in _levels(records)})
    axes.axvspan(*BAND, color="0.9")
    axes.axvline(0.05, color="0.5", lw=0.8)
    for place, n in enumerate(sizes):
        frame = rejections(records, "null", n).reindex(list(NULL))
        for name in [c for c in frame.columns if c.startswith("marginals")]:
            marker, colour = STYLES[name]
            heights = [i + 0.22 * (place - (len(sizes) - 1) / 2) for i in range(len(NULL))]
            axes.plot(frame[name], heights, marker, color=colour, ms=4, alpha=0.8)
    axes.set(yticks=range(len(NULL)), yticklabels=list(NULL), xlim=(0, 0.12))
    axes.set_title(f"level at 0.05, rows {', '.join(map(str, sizes))} from above", loc="left")


STUDIES = (
    Study(
        "independence",
        "Level and power of the test of independence",
        measure,
        tables,
        figures,
        facts,
        grid={"n": "sizes", "kind": "kinds", "mechanism": "mechanisms", "method": "methods"},
        parts=("repetitions",),
        page="independence_scoreboard",
    ),
)
