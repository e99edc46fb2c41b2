"""Tables of what was measured."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.pages import report
from benchmarks.records import Record, joined
from benchmarks.speed.record import KEY
from benchmarks.speed.shapes import SAMPLING_FASTER, STEPS, Shape

LABELS = {
    "ours": "ours",
    "eager": "ours, not compiled",
    "authors": "authors' code",
    "nsf": "zuko NSF",
    "einet": "spflow Einet",
    "vine": "pyvinecopulib",
}
AXES = {
    "width": "width M",
    "columns": "columns D",
    "batch": "batch",
    "rows": "rows of the table",
}
PICTURE = "![Seconds of a training step by width, columns, batch and rows](images/speed.png)"
NOTHING = "Nothing has been measured yet."


def tables(records: Sequence[Record]) -> str:
    """Return all tables as Markdown, machine by machine."""
    lines: list[str] = []
    if any(r["part"] == "scaling" for r in records):
        lines += [PICTURE, ""]
    for machine in machines(records):
        own = [r for r in records if machine_of(r) == machine]
        lines += [f"## {machine}", ""]
        for part in (_rates, _steps, _quality, _queries, _fits, _scaling, _failures, _origin):
            lines += part(own)
    return "\n".join(lines).strip("\n") or NOTHING


def machine_of(record: Record) -> str:
    """Return the machine on which a record was measured, as a heading."""
    if record["device"] == "cuda":
        return str(record["gpu"])
    return f"CPU, {record['threads']} thread{'s' if record['threads'] > 1 else ''}"


def machines(records: Sequence[Record]) -> list[str]:
    """Return the machines, those with a GPU first."""
    found = sorted({(r["device"] == "cpu", machine_of(r)) for r in records})
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


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _found(records: Sequence[Record], part: str) -> list[Record]:
    return [r for r in records if r["part"] == part and "error" not in r]


def _by_who(records: Sequence[Record], name: str) -> dict[str, dict[str, Record]]:
    """Return records by what they are of and by whom."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        found.setdefault(str(record[name]), {})[record["who"]] = record
    return found


def _rates(records: Sequence[Record]) -> list[str]:
    lines = []
    for r in _found(records, "rates"):
        more = "" if r["bfloat16"] is None else f" ({r['bfloat16'] / 1e12:.3g} in bfloat16)"
        lines += [
            f"Rates for the floors: products in {r['rounded']} {r['product'] / 1e12:.3g} "
            f"TFLOP/s{more}, float32 {r['float32'] / 1e12:.3g} TFLOP/s, special functions "
            f"{r['special'] / 1e9:.3g} G/s, memory {r['memory'] / 1e9:.3g} GB/s.",
            "",
        ]
    return lines


def _steps(records: Sequence[Record]) -> list[str]:
    found = _by_who(_found(records, "steps"), "case")
    if not found:
        return []
    head = [
        *("D, M, layers x units, batch", "ours, ms", "authors, ms", "times faster", "target"),
        *("floor, ms", "rows/s", "peak, MiB", "authors' peak", "share", "target"),
        *("first step, s", "authors' first", "not compiled, ms"),
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
    return ["### A training step", "", *_table(head, rows)]


def _quality(records: Sequence[Record]) -> list[str]:
    """Held-out likelihood by the way that steps are computed, mean and spread over seeds."""
    found = [r for r in _found(records, "quality") if "held_out" in r]
    if not found:
        return []
    sets = list(dict.fromkeys(r["case"] for r in found))
    rows = []
    for who in dict.fromkeys(r["who"] for r in found):
        own = [[r for r in found if r["who"] == who and r["case"] == name] for name in sets]
        scores = [[r["held_out"] for r in part] for part in own]
        seconds = fmean(r["seconds"] for part in own for r in part)
        cells = [f"{fmean(s):.3f} ± {stdev(s) if len(s) > 1 else 0.0:.3f}" for s in scores]
        rows.append([who, *cells, figure(seconds)])
    one = found[0]
    text = (
        f"Test log-likelihood after the same training, width {one['width']}: mean and standard "
        "deviation over seeds. Large batches have eight times the rows, an eighth of the steps, "
        "and the rate of `rate_for_batch`."
    )
    return [text, "", *_table(["steps", *sets, "seconds a fit"], rows), ""]


def _device(records: Sequence[Record]) -> str:
    return str(records[0]["device"])


def _ratio(above: Record, below: Record, name: str) -> float | None:
    if not above.get(name) or not below.get(name):
        return None
    return float(above[name]) / float(below[name])


def _queries(records: Sequence[Record]) -> list[str]:
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
    return [f"### Queries of a model of {sizes}", "", *_table(head, rows)]


def _answered(record: Record) -> str:
    """Tell a rate, and from how many rows it was taken."""
    return f"{figure(record['rows_per_s'])} ({figure(record['answered'])} rows)"


def _fits(records: Sequence[Record]) -> list[str]:
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
    if lines or ways:
        lines = ["### Fits", "", *lines, ""]
    return lines + _ways(ways)


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
    return _table(head, rows)


def on_curve(records: Sequence[Record], axis: str, who: str) -> list[Record]:
    """Return the records of one curve: all sizes but one as in the middle."""
    own = [r for r in _found(records, "scaling") if r["who"] == who]
    curve = [r for r in own if all(r[n] == r["around"][n] for n in r["around"] if n != axis)]
    return sorted(curve, key=lambda r: int(r[axis]))


def _scaling(records: Sequence[Record]) -> list[str]:
    if not _found(records, "scaling"):
        return []
    middle = Shape(**_found(records, "scaling")[0]["around"])
    lines = ["### Scaling", "", f"Around {middle.name} and {middle.rows:,} rows:"]
    rows = []
    for axis in AXES:
        theirs = {r[axis]: r for r in on_curve(records, axis, "authors")}
        for r in on_curve(records, axis, "ours"):
            other = theirs.get(r[axis], {})
            cells = [r["step_ms"], other.get("step_ms"), r["floor_ms"]["all"]]
            faster = figure(_ratio(other, r, "step_ms"))
            rows.append([AXES[axis], f"{r[axis]:,}", *map(figure, cells), faster])
    head = ["varied", "size", "ours, ms", "authors, ms", "floor, ms", "times faster"]
    return [*lines, "", *_table(head, rows)]


def _failures(records: Sequence[Record]) -> list[str]:
    failed = [r for r in records if "error" in r]
    lines = []
    for r in failed:
        what = f" {r['what']}" if "what" in r else ""
        lines.append(f"- {r['part']} {LABELS[r['who']]} ({r['case']}){what}: {r['error']}")
    return ["Failed:", "", *lines, ""] if failed else []


def _origin(records: Sequence[Record]) -> list[str]:
    found = {f"{r['date'][:10]}, commit {r['commit']}, torch {r['torch']}" for r in records}
    told = {r["command"] for r in records}
    lines = ["Measured: " + "; ".join(sorted(found)) + ". Commands:", ""]
    return [*lines, *(f"- `{words}`" for words in sorted(told)), ""]


def main(words: Sequence[str]) -> None:
    """Print the tables, or write them into a page; draw the picture."""

    def draw(records: Sequence[Record], path: Path) -> None:
        from benchmarks.speed.picture import draw as drawn  # needs matplotlib

        drawn(records, path)

    report("benchmarks.speed", words, partial(joined, names=KEY), tables, draw)
