"""Tables and the picture of what was measured, machine by machine."""

from statistics import fmean
from typing import Any

from studies.harness.drawing import legend, open_frame, panels
from studies.harness.study import Arrays, Paper, Record, Records
from studies.harness.text import pick, spread, table
from studies.speed.shapes import SAMPLING_FASTER, STEPS, Shape

LABELS = {
    "ours": "ours",
    "eager": "ours, not compiled",
    "authors": "authors' code",
    "nsf": "zuko NSF",
    "einet": "spflow Einet",
    "vine": "pyvinecopulib",
}
AXES = {"width": "width M", "columns": "columns D", "batch": "batch", "rows": "rows of the table"}
PICTURE = "![Seconds of a training step by width, columns, batch and rows](images/speed.png)"


def tables(records: Records, paper: Paper) -> str:
    """Return all tables, machine by machine."""
    parts = [PICTURE] if any(r["part"] == "scaling" for r in records) else []
    for machine in machines(records):
        own = pick(records, machine=machine)
        parts.append(f"## {machine}")
        for part in (_rates, _steps, _quality, _queries, _fits, _scaling):
            parts += part(own)
    return "\n\n".join(parts)


def machines(records: Records) -> list[str]:
    """Return the machines, those with a GPU first."""
    found = sorted({(r["device"] == "cpu", r["machine"]) for r in records})
    return [machine for _, machine in found]


def figure(x: float | None) -> str:
    """Write a number with three digits, and thousands apart.

    >>> figure(0.01234), figure(12.345), figure(1234567.0), figure(None)
    ('0.0123', '12.3', '1,230,000', '')
    """
    if x is None:
        return ""
    short = float(f"{x:.3g}")
    return f"{short:,.0f}" if abs(short) >= 1000 else f"{short:g}"


def _found(records: Records, part: str) -> list[Record]:
    return pick(records, part=part)


def _by_who(records: Records, name: str) -> dict[str, dict[str, Record]]:
    """Return records by what they are of and by whom."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        found.setdefault(str(record[name]), {})[record["who"]] = record
    return found


def _rates(records: Records) -> list[str]:
    lines = []
    for r in _found(records, "rates"):
        more = "" if r["bfloat16"] is None else f" ({r['bfloat16'] / 1e12:.3g} in bfloat16)"
        lines.append(
            f"Rates for the floors: products in {r['rounded']} {r['product'] / 1e12:.3g} "
            f"TFLOP/s{more}, float32 {r['float32'] / 1e12:.3g} TFLOP/s, special functions "
            f"{r['special'] / 1e9:.3g} G/s, memory {r['memory'] / 1e9:.3g} GB/s."
        )
    return lines


def _steps(records: Records) -> list[str]:
    found = _by_who(_found(records, "steps"), "case")
    if not found:
        return []
    head = [
        *("D, M, layers x units, batch", "ours, ms", "authors, ms", "times faster", "target"),
        *("floor, ms", "rows/s", "peak, MiB", "authors' peak, MiB", "ratio", "target"),
        *("first step, s", "authors' first, s", "not compiled, ms"),
    ]
    rows = []
    for case, by in found.items():
        ours, theirs = by.get("ours", {}), by.get("authors", {})
        target = next((s for s in STEPS[_device(records)] if s.shape.name == case), None)
        rows.append(
            [
                case,
                figure(ours.get("step_ms")),
                figure(theirs.get("step_ms")),
                figure(_ratio(theirs, ours, "step_ms")),
                figure(target and target.faster),
                figure((ours or theirs)["floor_ms"]["all"]),
                figure(ours.get("rows_per_s")),
                figure(ours.get("peak_mib")),
                figure(theirs.get("peak_mib")),
                figure(_ratio(ours, theirs, "peak_mib")),
                figure(target and target.memory),
                figure(ours.get("first_step_s")),
                figure(theirs.get("first_step_s")),
                figure(by.get("eager", {}).get("step_ms")),
            ]
        )
    return ["### Training steps", table(head, rows)]


def _quality(records: Records) -> list[str]:
    """Return held-out likelihood by the way that steps are computed."""
    found = _found(records, "quality")
    if not found:
        return []
    sets = list(dict.fromkeys(r["case"] for r in found))
    rows = []
    for who in dict.fromkeys(r["who"] for r in found):
        own = [pick(found, who=who, case=name) for name in sets]
        cells = [spread([r["held_out"] for r in part]) for part in own]
        seconds = fmean(r["seconds"] for part in own for r in part)
        rows.append([who, *cells, figure(seconds)])
    text = (
        f"Test log-likelihood after the same training, width {found[0]['width']}: mean and "
        "standard deviation over seeds. Large batches have eight times the rows, an eighth of the "
        "steps, and the learning rate of `rate_for_batch`."
    )
    return [text, table(["steps", *sets, "seconds per fit"], rows)]


def _device(records: Records) -> str:
    return str(records[0]["device"])


def _ratio(above: Record, below: Record, name: str) -> float | None:
    if not above.get(name) or not below.get(name):
        return None
    return float(above[name]) / float(below[name])


def _queries(records: Records) -> list[str]:
    found = _by_who(_found(records, "queries"), "what")
    if not found:
        return []
    present = [who for who in LABELS if any(who in by for by in found.values())]
    rows = []
    for what, by in found.items():
        cells = [_answered(by[who]) if who in by else "" for who in present]
        faster = _ratio(by.get("ours", {}), by.get("authors", {}), "rows_per_s")
        target = SAMPLING_FASTER.get(_device(records)) if what == "sample" else None
        rows.append([what, *cells, figure(faster), figure(target)])
    (shape,) = {r["case"] for r in _found(records, "queries") if r["who"] in ("ours", "authors")}
    head = ["rows per second", *(LABELS[who] for who in present), "times faster", "target"]
    sizes = ", ".join(shape.split(", ")[:3])
    return [f"### Queries of a model with D, M, layers x units = {sizes}", table(head, rows)]


def _answered(record: Record) -> str:
    """Tell a rate, and from how many rows it was taken."""
    return f"{figure(record['rows_per_s'])} ({figure(record['answered'])} rows)"


def _fits(records: Records) -> list[str]:
    found = _found(records, "fits")
    lines: list[str] = []
    for r in (r for r in found if r["what"] == "default"):
        lines.append(
            f"- `MDMA().fit` of {r['rows']:,} x {r['columns']}: {figure(r['seconds'])} s (target "
            f"{figure(r['target_s'])} s), {r['held_out']:.3f} nats per held-out row."
        )
    for r in (r for r in found if r["what"] == "wide"):
        lines.append(
            f"- {r['columns']:,} columns, width {r['width']}: {r['steps']} steps in "
            f"{figure(r['seconds'])} s, held-out loss {r['loss_before']:.1f} to "
            f"{r['loss_after']:.1f}, peak {figure(r['peak_mib'])} MiB."
        )
    ways = {r["who"]: r for r in found if r["what"] == "way"}
    parts = ["### Fits"] if lines or ways else []
    return [*parts, *(["\n".join(lines)] if lines else []), *_ways(ways)]


def _ways(ways: dict[str, Record]) -> list[str]:
    """Tell when each reached the best held-out score that all of them reached."""
    if len(ways) < 2:
        return []
    best = {who: max(score for _, score in r["way"]) for who, r in ways.items()}
    common = min(best.values())
    rows = [
        [
            LABELS[who],
            figure(next(t for t, score in ways[who]["way"] if score >= common)),
            f"{best[who]:.2f}",
        ]
        for who in LABELS
        if who in ways
    ]
    limit = figure(next(iter(ways.values()))["limit_s"])
    head = [f"gas, {limit} s each", f"s to {common:.2f} nats per held-out row", "best"]
    return [table(head, rows)]


def on_curve(records: Records, axis: str, who: str) -> list[Record]:
    """Return the records of one curve: all sizes but one as in the middle."""
    own = [r for r in _found(records, "scaling") if r["who"] == who]
    curve = [r for r in own if all(r[n] == r["around"][n] for n in r["around"] if n != axis)]
    return sorted(curve, key=lambda r: int(r[axis]))


def _scaling(records: Records) -> list[str]:
    if not _found(records, "scaling"):
        return []
    middle = Shape(**_found(records, "scaling")[0]["around"])
    rows = []
    for axis in AXES:
        theirs = {r[axis]: r for r in on_curve(records, axis, "authors")}
        for r in on_curve(records, axis, "ours"):
            other = theirs.get(r[axis], {})
            cells = [r["step_ms"], other.get("step_ms"), r["floor_ms"]["all"]]
            faster = figure(_ratio(other, r, "step_ms"))
            rows.append([AXES[axis], f"{r[axis]:,}", *map(figure, cells), faster])
    head = ["varied", "size", "ours, ms", "authors, ms", "floor, ms", "times faster"]
    around = f"Around {middle.name} and {middle.rows:,} rows:"
    return ["### Scaling", around, table(head, rows)]


# The picture ------------------------------------------------------------------------------------

# Shapes and colours that also differ in grey and for the colour-blind.
MARKS = {"ours": ("o", "#0072B2"), "authors": ("s", "#D55E00")}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw the time of a step by size: a row for each machine, a panel for each size varied."""
    scaled = _found(records, "scaling")
    names = machines(scaled)
    if not names:
        return {}
    height = 0.6 + 2.3 * len(names)
    figure, axes = panels(9.0, height, len(AXES), len(names), sharey="row")
    for row, name in zip(axes, names, strict=True):
        own = pick(scaled, machine=name)
        for panel, axis in zip(row, AXES, strict=True):
            _curves(panel, own, axis)
        row[0].set_title(name, loc="left")
        row[0].set_ylabel("training step, ms")
    legend(figure, axes[0, 0])
    return {"": figure}


def _curves(panel: Any, records: Records, axis: str) -> None:
    for who, (mark, colour) in MARKS.items():
        curve = on_curve(records, axis, who)
        x, y = [r[axis] for r in curve], [r["step_ms"] for r in curve]
        panel.plot(x, y, marker=mark, color=colour, ms=4, lw=1.0, label=LABELS[who])
    curve = on_curve(records, axis, "ours")
    x, y = [r[axis] for r in curve], [r["floor_ms"]["all"] for r in curve]
    panel.plot(x, y, color="0.4", lw=1.0, ls="--", label="floor")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(x, [_short(size) for size in x])
    panel.minorticks_off()
    panel.set_xlabel(AXES[axis])
    panel.grid(color="0.92", lw=0.6)
    panel.set_axisbelow(True)
    open_frame(panel)


def _short(size: int) -> str:
    """Write a size in few letters.

    >>> _short(512), _short(8000), _short(10_000_000)
    ('512', '8k', '10M')
    """
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
