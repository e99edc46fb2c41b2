"""Measure how fast the library is, beside the authors' code and other packages.

`run` writes a result file after each measurement; `report` makes the page and the picture of them.
"""

import argparse
import datetime
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.pages import command
from benchmarks.records import Record, merged, origin, read, write
from benchmarks.speed import reference, report
from benchmarks.speed.floor import Rates, floor, measure_rates
from benchmarks.speed.jobs import Job, records, tell
from benchmarks.speed.peers import PEERS
from benchmarks.speed.record import KEY, PACKAGES
from benchmarks.speed.shapes import ASKED, ASKED_ROWS, MIDDLE, STEPS, Shape, curve_shapes

PARTS = ("steps", "queries", "fits", "scaling")
FITS = ("default", "wide", "way")  # the kinds of fits, which can be asked for one by one
RESULTS = Path(__file__).parents[1] / "results"
# Seconds that one call of a question may take.
QUESTION_S = {"cpu": 10.0, "cuda": 6.0}
# Seconds on the way to a score.
WAY_S = {"cpu": 60.0, "cuda": 20.0}
WAY_WIDTH = {"cpu": 100, "cuda": 500}
SMOKE = Shape(4, 4, batch=20, rows=200)


def main(words: Sequence[str] | None = None) -> None:
    """Run the measurements, or `report` what was measured."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["report"]:
        report.main(words[1:])
    elif words[:1] == ["job"]:
        tell(words[1])
    else:
        _run(words)


def _run(words: Sequence[str]) -> None:
    asked = _parser().parse_args(words)
    if asked.reference is not None:
        asked.reference = str(Path(asked.reference).resolve())
        reference.imported(Path(asked.reference))  # a wrong folder shows early
    out = Path(asked.out) if asked.out else default_file(asked.device)
    every = read(out) if out.exists() else []
    started = time.perf_counter()
    about = {"command": command("benchmarks.speed", _without_folders(words))}
    print(f"results go to {out}", flush=True)
    rates = _rates(asked)
    whole = {"part": "rates", "who": "machine", "device": asked.device, "case": "rates"}
    every = merged([*every, {**whole, **rates.numbers(), **about, **origin(PACKAGES)}], KEY)
    for job in jobs(asked):
        if time.perf_counter() - started > asked.seconds:
            print(f"{_name(job)} skipped: out of time", flush=True)
            continue
        for record in _measured(job):
            if job.part in ("steps", "scaling"):
                record["floor_ms"] = floor(job.shape, rates).numbers()
            if job.part == "scaling":
                record["around"] = (SMOKE if asked.smoke else MIDDLE[job.device]).numbers()
            if job.who == "authors":
                record["reference"] = reference.fingerprint(Path(job.reference or ""))
            every = merged([*every, {**record, **about, **origin(PACKAGES)}], KEY)
            write(out, every)
            spent = time.perf_counter() - started
            print(f"{spent:6.1f} s  {line(record)}", flush=True)


def _measured(job: Job) -> Iterator[Record]:
    try:
        yield from records(job)
    except ImportError as cause:
        print(f"{_name(job)} skipped: {cause}", flush=True)
    except Exception as cause:
        # One failure, as of memory, must not end the run; it is shown in the table.
        traceback.print_exc()
        told = {"what": job.options["what"]} if "what" in job.options else {}
        yield {**job.about, **told, "error": f"{type(cause).__name__}: {cause}"[:300]}
    finally:
        if job.device == "cuda":
            torch.cuda.empty_cache()


def jobs(asked: argparse.Namespace) -> Iterator[Job]:
    """Yield what is to be measured, the parts in their order."""
    makers = {"steps": _steps, "queries": _queries, "scaling": _scaling}
    makers |= {"default": _default, "wide": _wide, "way": _way}
    for part in asked.only:
        for kind in FITS if part == "fits" else (part,):
            yield from makers[kind](asked)


def _both(asked: argparse.Namespace) -> tuple[str, ...]:
    return ("ours", "authors") if asked.reference else ("ours",)


def _steps(asked: argparse.Namespace) -> Iterator[Job]:
    shapes = [step.shape for step in STEPS[asked.device]]
    options: dict[str, Any] = {}
    if asked.smoke:
        shapes = [SMOKE]
        options = {"block_s": 0.01, "blocks": 2, "compiled": False}
    # On a CPU also as in a short fit, which is not compiled.
    eager = ("eager",) if asked.device == "cpu" else ()
    for shape in shapes:
        for who in (*_both(asked), *eager):
            # A GPU tells its peak at any time; a process must be fresh for it.
            fresh = asked.device == "cpu" and not asked.smoke
            yield Job("steps", who, asked.device, shape, asked.reference, options, fresh)


def _scaling(asked: argparse.Namespace) -> Iterator[Job]:
    options: dict[str, Any] = {"block_s": 0.3, "blocks": 3, "memory": False}
    shapes = curve_shapes(asked.device)
    if asked.smoke:
        options = {"block_s": 0.01, "blocks": 1, "memory": False, "compiled": False}
        shapes = [SMOKE, replace(SMOKE, width=8)]
    for shape in shapes:
        for who in _both(asked):
            yield Job("scaling", who, asked.device, shape, asked.reference, options)


def _queries(asked: argparse.Namespace) -> Iterator[Job]:
    shape, most, trained = ASKED[asked.device], ASKED_ROWS, 20
    seconds = QUESTION_S[asked.device]
    if asked.smoke:
        shape, most, trained, seconds = SMOKE, 50, 2, 0.05
    options = {"most": most, "seconds": seconds, "trained": trained}
    for who in (*_both(asked), *PEERS):
        yield Job("queries", who, asked.device, shape, asked.reference, options)


def _default(asked: argparse.Namespace) -> Iterator[Job]:
    gpu = asked.device == "cuda"
    shape = Shape(10, 0, rows=1_000_000 if gpu else 10_000)  # its width is the estimator's choice
    options: dict[str, Any] = {"what": "default", "target_s": 60.0 if gpu else 20.0}
    if asked.smoke:
        shape, options = replace(shape, rows=200), {**options, "width": 4, "max_steps": 5}
    yield Job("fits", "ours", asked.device, shape, None, options)


def _wide(asked: argparse.Namespace) -> Iterator[Job]:
    if asked.device == "cpu" and not asked.smoke and "wide" not in asked.only:
        return  # minutes; only if asked for
    shape = Shape(20, 4, rows=200, batch=50) if asked.smoke else Shape(1000, 128, rows=10_000)
    options = {"what": "wide", "steps": 5 if asked.smoke else 50}
    yield Job("fits", "ours", asked.device, shape, None, options)


def _way(asked: argparse.Namespace) -> Iterator[Job]:
    if asked.data is None:
        print("the way to a score skipped: it needs the folder of data sets, --data", flush=True)
        return
    # The rows are those of the file.
    shape = Shape(8, 4 if asked.smoke else WAY_WIDTH[asked.device], rows=0)
    seconds = 0.1 if asked.smoke else WAY_S[asked.device]
    options = {"what": "way", "data": asked.data, "seconds": seconds}
    for who in (*_both(asked), "nsf"):
        yield Job("fits", who, asked.device, shape, asked.reference, options)


def _rates(asked: argparse.Namespace) -> Rates:
    return measure_rates(asked.device, 64 if asked.smoke else None)


def default_file(device: str) -> Path:
    """Return the result file of this kind of machine and day."""
    kind = "cpu"
    if device == "cuda":
        kind = torch.cuda.get_device_name().lower().removeprefix("nvidia").strip().split()[0]
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return RESULTS / f"speed_{kind}_{day}.json"


def _without_folders(words: Sequence[str]) -> list[str]:
    told = list(words)
    for place, word in enumerate(words[:-1]):
        if word == "--reference":
            told[place + 1] = "REFERENCE"
    return told


def _name(job: Job) -> str:
    return f"{job.part} {job.who} ({job.shape.name})"


def line(record: Record) -> str:
    """Return a record as a line of progress."""
    start = f"{record['part']} {record['who']} ({record['case']})"
    start += f" {record['what']}" if "what" in record else ""
    if "error" in record:
        return f"{start}: failed, {record['error']}"
    if "step_ms" in record:
        memory = f", {record['peak_mib']} MiB" if "peak_mib" in record else ""
        return (
            f"{start}: {record['step_ms']} ms a step ({record['step_ms_least']} to "
            f"{record['step_ms_most']}), first {record['first_step_s']} s{memory}, floor "
            f"{record['floor_ms']['all']} ms"
        )
    if "answered" in record:
        return f"{start}: {record['answered']} rows in {record['seconds']} s"
    if "way" in record:
        return f"{start}: {max(score for _, score in record['way']):.3f} at best"
    return f"{start}: {record['seconds']} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        prog="python -m benchmarks.speed",
        epilog="`python -m benchmarks.speed report FILE...` prints the tables.",
    )
    parser.add_argument("command", choices=["run"])
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=(*PARTS, *FITS))
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"]
    )
    parser.add_argument("--reference", help="folder of the authors' code")
    parser.add_argument("--data", help="folder of data sets, for the way to a score")
    parser.add_argument("--out", help="result file, to which is added; default by machine and day")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start nothing new after this"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that all runs")
    return parser
