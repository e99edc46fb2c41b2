"""What is measured of speed, and how: on this machine, next to the authors' code and others."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from studies.harness.available import check_choice
from studies.harness.study import Context, Record, Settings, Study
from studies.speed import authors, fits, report, steps_and_queries
from studies.speed.floor import Rates, floor, measure_rates
from studies.speed.shapes import ASKED, ASKED_ROWS, MIDDLE, STEPS, Shape, curve_shapes
from studies.speed.timing import answers_per_second

QUESTION_S = {"cpu": 10.0, "cuda": 6.0}  # seconds that one call of a query may take
WAY_S = {"cpu": 60.0, "cuda": 20.0}
WAY_WIDTH = {"cpu": 100, "cuda": 500}
SMOKE = Shape(4, 4, batch=20, rows=200)
MARK = "measured: "  # before the answer of a fresh process


# Jobs -------------------------------------------------------------------------------------------


def jobs(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Return the machine's rates, then the parts in their order."""
    if context.reference is not None:
        authors.imported(Path(context.reference))  # a wrong folder shows early
    device = context.device
    machine = torch.cuda.get_device_name() if device == "cuda" else _threads()
    for job in (_job("rates", "machine", None), *_parts(settings, context)):
        yield {**job, "device": device, "machine": machine}


def _threads() -> str:
    count = torch.get_num_threads()
    return f"CPU, {count} thread{'s' if count > 1 else ''}"


def _job(part: str, who: str, shape: Shape | None, case: str = "", **more: Any) -> Record:
    sizes = {} if shape is None else shape.numbers()
    name = case or ("rates" if shape is None else shape.name)
    return {"part": part, "who": who, "case": name, **sizes, **more}


def _parts(settings: Settings, context: Context) -> Iterator[Record]:
    device, smoke = context.device, settings.smoke
    both = ("ours", "authors") if context.reference else ("ours",)
    # On a CPU also as in a short fit, which is not compiled.
    eager = ("eager",) if device == "cpu" else ()
    for part in settings.parts:
        check_choice("`parts`", part, PARTS)
        if part == "steps":
            shapes = [SMOKE] if smoke else [step.shape for step in STEPS[device]]
            yield from (_job(part, who, s) for s in shapes for who in (*both, *eager))
        elif part == "scaling":
            shapes = [SMOKE, replace(SMOKE, width=8)] if smoke else curve_shapes(device)
            yield from (_job(part, who, shape) for shape in shapes for who in both)
        elif part == "queries":
            shape = SMOKE if smoke else ASKED[device]
            yield from (_job(part, who, shape) for who in (*both, *steps_and_queries.PEERS))
        elif part == "default":  # its width is the estimator's choice
            rows = 200 if smoke else 1_000_000 if device == "cuda" else 10_000
            yield _job("fits", "ours", Shape(10, 0, rows=rows), what=part)
        elif part == "wide":
            shape = Shape(20, 4, rows=200, batch=50) if smoke else Shape(1000, 128, rows=10_000)
            yield _job("fits", "ours", shape, what=part)
        elif part == "way":  # its rows are those of the file
            shape = Shape(4, 4, rows=0) if smoke else Shape(8, WAY_WIDTH[device], rows=0)
            yield from (_job("fits", who, shape, what=part) for who in (*both, "nsf"))
        else:
            for name in settings.quality_sets:
                for seed in settings.quality_seeds:
                    for variant in fits.VARIANTS:
                        yield _job(part, variant, None, name, what=f"seed {seed}")


PARTS = ("steps", "queries", "default", "wide", "way", "scaling", "quality")

# Measuring --------------------------------------------------------------------------------------


def measure(settings: Settings, seed: int, context: Context, job: Record) -> list[Record]:
    """Measure a job, in a fresh process where memory must be fresh; add the floor."""
    part, who = job["part"], job["who"]
    rates: Rates = context.once(
        "rates", lambda: measure_rates(context.device, 64 if settings.smoke else None)
    )
    if part == "rates":
        return [rates.numbers()]
    # A GPU tells its peak at any time; a process must be fresh for it.
    fresh = part == "steps" and context.device == "cpu" and not settings.smoke
    found = _elsewhere(settings, context, job) if fresh else _here(settings, context, job)
    if part in ("steps", "scaling"):
        least = floor(_shape(job), rates).numbers()
        found = [{**record, "floor_ms": least} for record in found]
    if part == "scaling":
        around = (SMOKE if settings.smoke else MIDDLE[context.device]).numbers()
        found = [{**record, "around": around} for record in found]
    if who == "authors":
        version = authors.fingerprint(Path(fits.reference_of(context)))
        found = [{**record, "reference": version} for record in found]
    return found


def _shape(job: Record) -> Shape:
    return Shape(**{name: job[name] for name in Shape.__dataclass_fields__})


def _here(settings: Settings, context: Context, job: Record) -> list[Record]:
    return list(_MEASURES[job["part"]](settings, context, job))


def _elsewhere(settings: Settings, context: Context, job: Record) -> list[Record]:
    """Measure in a new process, where nothing is warm and no memory is in use."""
    told: Record = {"settings": vars(settings), "device": context.device, "job": job}
    told |= {"reference": context.reference, "threads": torch.get_num_threads()}
    words = [sys.executable, "-m", "studies.speed", json.dumps(told)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = [line[len(MARK) :] for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not found:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1])
    return [json.loads(line) for line in found]


def main(text: str) -> None:
    """Measure a job for another process, and print its records."""
    told = json.loads(text)
    torch.set_num_threads(told["threads"])
    settings = Settings(**told["settings"])
    context = Context(told["device"], reference=told["reference"])
    for record in _here(settings, context, told["job"]):
        print(MARK + json.dumps(record), flush=True)


def _step(settings: Settings, context: Context, job: Record) -> Iterator[Record]:
    options: dict[str, Any] = {}
    if job["part"] == "scaling":
        options = {"block_s": 0.3, "blocks": 3, "memory": False}
    if settings.smoke:
        options |= {"block_s": 0.01, "blocks": 2}
    shape, device = _shape(job), context.device
    if job["who"] == "authors":
        folder = Path(fits.reference_of(context))
        yield authors.measure_step(folder, shape, device, **options)
    else:
        options["compiled"] = job["who"] == "ours" and not settings.smoke
        yield steps_and_queries.measure_step(shape, device, **options)


def _queries(settings: Settings, context: Context, job: Record) -> Iterator[Record]:
    """Make all queries; one that fails is recorded and the others go on."""
    who, shape, device = job["who"], _shape(job), context.device
    most, trained = (50, 2) if settings.smoke else (ASKED_ROWS, 20)
    seconds = 0.05 if settings.smoke else QUESTION_S[device]
    if who == "ours":
        asked = steps_and_queries.queries(shape, device, trained)
    elif who == "authors":
        asked = authors.queries(Path(fits.reference_of(context)), shape, device, trained)
    else:
        asked = steps_and_queries.PEERS[who](shape, device)
    for what, ask in asked.items():
        try:
            found = answers_per_second(ask, most, device, seconds)
        except Exception as cause:
            found = {"failure": f"{type(cause).__name__}: {cause}"[:300]}
        yield {"what": what, **found}


def _fits(settings: Settings, context: Context, job: Record) -> Iterator[Record]:
    what, shape, device, smoke = job["what"], _shape(job), context.device, settings.smoke
    if what == "default":
        tiny = {"width": 4, "max_steps": 5} if smoke else {}
        yield fits.default(shape, device, target_s=60.0 if device == "cuda" else 20.0, **tiny)
    elif what == "wide":
        yield fits.wide(shape, device, steps=5 if smoke else 50)
    else:
        seconds = 0.1 if smoke else WAY_S[device]
        yield fits.way(job["who"], shape, context, data=settings.way_set, seconds=seconds)


def _quality(settings: Settings, context: Context, job: Record) -> Iterator[Record]:
    seed = int(job["what"].removeprefix("seed "))
    sizes = (settings.quality_width, settings.quality_steps)
    yield fits.quality(job["who"], job["case"], seed, context, *sizes)


_MEASURES: dict[str, Callable[[Settings, Context, Record], Iterator[Record]]] = {
    "steps": _step,
    "scaling": _step,
    "queries": _queries,
    "fits": _fits,
    "quality": _quality,
}

STUDY = Study(
    "speed",
    "Speed",
    measure,
    report.tables,
    report.figures,
    jobs=jobs,
    key=("part", "who", "machine", "case", "rows", "what"),
    parts=("parts", "quality_sets", "quality_seeds"),
    page="speed",
)
