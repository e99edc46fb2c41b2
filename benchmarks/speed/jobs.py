"""One measurement each: what, of whom, on which device, of which size; and how it is done."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from benchmarks.speed import fits, ours, reference
from benchmarks.speed.peers import PEERS
from benchmarks.speed.shapes import Shape
from benchmarks.speed.timing import answers_per_second

Record = dict[str, Any]
MARK = "measured: "  # before the answer of a fresh process


@final
@dataclass(frozen=True)
class Job:
    """A measurement, which can be told to another process.

    Args:
        part: "steps", "scaling", "queries" or "fits".
        who: "ours", "authors" or a peer.
        device: "cpu" or "cuda".
        shape: sizes of the model.
        reference: the folder of the authors' code.
        options: of the measurement.
        fresh: do it in a new process, where nothing is warm and no memory is in use.
    """

    part: str
    who: str
    device: str
    shape: Shape
    reference: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    fresh: bool = False

    @property
    def about(self) -> Record:
        """What a record of it says first."""
        told = {"part": self.part, "who": self.who, "device": self.device, "case": self.shape.name}
        return {**told, **self.shape.numbers()}

    def to_json(self) -> str:
        """Return the job as text."""
        return json.dumps({**vars(self), "shape": self.shape.numbers()})


def job_of(text: str) -> Job:
    """Read a job."""
    told = json.loads(text)
    return Job(**{**told, "shape": Shape(**told["shape"]), "fresh": False})


def records(job: Job) -> Iterator[Record]:
    """Do a measurement; yield its records, one for most, one for each question of queries."""
    if job.fresh:
        yield from _elsewhere(job)
        return
    for found in MEASURED[job.part](job):
        yield {**job.about, **found}


def _elsewhere(job: Job) -> list[Record]:
    words = [sys.executable, "-m", "benchmarks.speed", "job", job.to_json()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    told = [line[len(MARK) :] for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not told:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1])
    return [json.loads(line) for line in told]


def tell(text: str) -> None:
    """Do a job in this process and print its records."""
    for record in records(job_of(text)):
        print(MARK + json.dumps(record), flush=True)


def _step(job: Job) -> Iterator[Record]:
    if job.who in ("ours", "eager"):
        options = {"compiled": job.who == "ours", **job.options}
        yield ours.measure_step(job.shape, job.device, **options)
    else:
        options = {name: option for name, option in job.options.items() if name != "compiled"}
        yield reference.measure_step(_folder(job), job.shape, job.device, **options)


def _queries(job: Job) -> Iterator[Record]:
    """Ask all questions; one that fails is told and the others go on."""
    options = dict(job.options)
    most, seconds, trained = (options[name] for name in ("most", "seconds", "trained"))
    asked: dict[str, Callable[[int], object]]
    if job.who == "ours":
        asked = {**ours.queries(job.shape, job.device, trained)}
    elif job.who == "authors":
        asked = reference.queries(_folder(job), job.shape, job.device, trained)
    else:
        asked = PEERS[job.who](job.shape, job.device)
    for what, ask in asked.items():
        try:
            found = answers_per_second(ask, most, job.device, seconds)
        except Exception as cause:
            found = {"error": f"{type(cause).__name__}: {cause}"[:300]}
        yield {"what": what, **found}


def _fits(job: Job) -> Iterator[Record]:
    options = dict(job.options)
    what = options.pop("what")
    if what == "default":
        found = fits.default(job.shape, job.device, **options)
    elif what == "wide":
        found = fits.wide(job.shape, job.device, **options)
    else:
        folder = None if job.reference is None else _folder(job)
        found = fits.course(job.who, job.shape, job.device, folder, **options)
    yield {"what": what, **found}


def _folder(job: Job) -> Path:
    if job.reference is None:
        raise ValueError("Expected the folder of the authors' code with `--reference`; got none.")
    return Path(job.reference)


MEASURED: dict[str, Callable[[Job], Iterator[Record]]] = {
    "steps": _step,
    "scaling": _step,
    "queries": _queries,
    "fits": _fits,
}
