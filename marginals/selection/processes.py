"""Members fitted in several processes on a CPU, of which this process is one."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from marginals.runtime.threads import one_thread
from marginals.selection.ensemble import Job, Member, fit_member

# Seconds that every member has.
LEAST_SECONDS = 0.5


class Pool(Protocol):
    """Processes elsewhere that fit members, such as the workers of a cluster."""

    @property
    def count(self) -> int:
        """How many members are fitted at a time."""
        ...

    def fit(self, jobs: Sequence[Job], device: str) -> Iterable[Member | None]:
        """Fit members, and return them in the order of the jobs; None for those that failed."""
        ...


def fit_in_processes(jobs: Sequence[Job], count: int, device: str) -> Iterator[Member | None]:
    """Fit members `count` at a time, each on one thread.

    Every `count`-th member is fitted here, where nothing has to start. The others end by the same
    time of the clock. A process that is killed, as by lack of memory, loses its member.
    """
    ends = ends_of(jobs, count)
    pool = get_reusable_executor(max_workers=count - 1)
    others = {
        i: pool.submit(fit_by, job, device, ends[i]) for i, job in enumerate(jobs) if i % count
    }
    try:
        mine = [fit_by(jobs[i], device, ends[i]) for i in range(0, len(jobs), count)]
        yield from (_result(others[i]) if i % count else mine.pop(0) for i in range(len(jobs)))
    finally:
        # Left to the end of the program, they would be reported as leaks.
        pool.shutdown(kill_workers=True)


def ends_of(jobs: Sequence[Job], count: int) -> list[float]:
    """Return by when each member must be fitted, if every process takes its own in turn."""
    start = time.time()
    return [
        start + sum(j.recipe.fit["max_seconds"] for j in jobs[i % count : i + 1 : count])
        for i in range(len(jobs))
    ]


def fit_by(job: Job, device: str, end: float) -> Member | None:
    """Fit a member by a time of the clock, which a process that starts late keeps too."""
    left = max(LEAST_SECONDS, end - time.time())
    seconds = min(job.recipe.fit["max_seconds"], left)
    with one_thread():
        return fit_member(replace(job, recipe=job.recipe.fitting(max_seconds=seconds)), device)


def _result(future: Any) -> Member | None:
    try:
        member: Member | None = future.result()
    except TerminatedWorkerError:
        return None
    return member
