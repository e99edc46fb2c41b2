"""Running a study: job by job, with resume; failures are recorded and tried again."""

import datetime
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from studies.harness.available import Unavailable
from studies.harness.config import Config, Size
from studies.harness.machine import describe_machine
from studies.harness.results import FOLDER, Results, check_settings, newest, read
from studies.harness.study import Context, Record, Study


def run(
    study: Study,
    size: Size,
    config: Config,
    *,
    command: str,
    device: str,
    data: str | None = None,
    reference: str | None = None,
    folder: Path = FOLDER,
    resume: bool = False,
    again: bool = False,
    seconds: float = float("inf"),
) -> Path:
    """Run a study for each seed, and return the result file, which is whole after each record.

    Args:
        study, size, config: What to run, at which size, with which settings and seeds.
        command: The command as the file tells it.
        device: "cpu" or "cuda".
        data, reference: Folders of data sets and of the authors' code.
        folder: Folder of the result file.
        resume: Add what the newest file lacks, and try its failures again.
        again: With `resume`, measure what is there again, and replace it.
        seconds: Start no further job after so many seconds.
    """
    results = _opened(study, size, folder, resume or again)
    settings = json.loads(json.dumps(vars(config.settings)))
    check_settings(study, results, settings)
    machine = describe_machine(device)
    results.runs.append({"command": command, "settings": settings, **machine})
    end = time.perf_counter() + seconds
    for seed in config.seeds:
        context = Context(device, data, reference, results.arrays)
        _run_seed(study, results, config.settings, seed, context, again, end)
    if not results.records:
        raise SystemExit("Expected something to measure; every job was skipped.")
    return results.path


def _run_seed(
    study: Study,
    results: Results,
    settings: Any,
    seed: int,
    context: Context,
    again: bool,
    end: float,
) -> None:
    jobs = list(study.all_jobs(settings, seed, context))
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = not sys.stderr.isatty()
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=hidden) as bar:
        task = bar.add_task(f"{study.name}, seed {seed}", total=len(jobs))
        for job in jobs:
            about = {"seed": seed, **job}
            same = [record for record in results.records if _is_of(record, about)]
            if again or not same or any("failure" in record for record in same):
                words = ", ".join(str(value) for value in job.values() if value is not None)
                bar.update(task, description=f"{study.name}, seed {seed}: {words}")
                late = time.perf_counter() > end
                told = "skipped: out of time"
                if not late:
                    told = _measure(study, results, settings, context, about, same)
                print(f"{study.name}, seed {seed}: {words}, {told}", file=sys.stderr, flush=True)
            bar.advance(task)


def _measure(
    study: Study,
    results: Results,
    settings: Any,
    context: Context,
    about: Record,
    same: list[Record],
) -> str:
    """Measure a job, replace its records in the file, and say how it went."""
    job = {name: value for name, value in about.items() if name != "seed"}
    started = time.perf_counter()
    try:
        found = study.measure(settings, about["seed"], context, job)
        figures = [found] if isinstance(found, dict) else list(found)
    except Unavailable as missing:
        return f"skipped: {missing}"
    except Exception as cause:  # one failure must not end a run of hours; the page shows it
        traceback.print_exc()
        figures = [{"failure": f"{type(cause).__name__}: {cause}"[:300]}]
    finally:
        if context.device == "cuda":
            torch.cuda.empty_cache()
    took = round(time.perf_counter() - started, 2)
    each_took = round(took / max(1, len(figures)), 2)  # so that the sum over records is right
    last = {"took_s": each_took, "run": len(results.runs) - 1}
    results.records = [record for record in results.records if record not in same]
    results.records += [{**about, **each, **last} for each in figures]
    results.write()
    errors = [each["failure"] for each in figures if "failure" in each]
    return f"failed: {errors[0]}" if errors else f"{took:.1f} s"


def _is_of(record: Record, about: Record) -> bool:
    return all(record.get(name) == value for name, value in about.items())


def _opened(study: Study, size: Size, folder: Path, resume: bool) -> Results:
    earlier = newest(study.name, folder, (size,)) if resume else None
    if earlier is not None:
        return read(earlier)
    date = datetime.datetime.now(datetime.UTC).date()
    path = folder / f"{study.name}_{size}_{date}.json"
    if path.exists():
        raise SystemExit(
            f"Expected no result file of today; got {path}. Give --resume to add what it lacks, "
            "another --output, or remove it."
        )
    return Results(path, study.name, size)
