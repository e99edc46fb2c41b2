"""How long queries take: one thread and several, alone and beside busy processes.

A default model of 20 columns of all kinds answers each question again and again. The settings take
turns, call by call, so that a change in the machine's speed affects all of them. The busy
processes run all the time, but are stopped while a setting without them is measured.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch

from marginals import MDMA
from marginals.explorer.session import Session
from studies.harness.available import check_choice
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import shown, table

Question = Callable[[MDMA, pd.DataFrame], Any]

VALUES = {"x0": 0.3, "city": "b", "n0": 3}
RANGES = {"x1": (0.0, None), "x2": (-1.0, 2.0), "n1": (1, 4)}
FIVE, EVENT = [0.05, 0.25, 0.5, 0.75, 0.95], {"x5": (0.0, None)}


def _first(evidence: dict[str, Any], count: int) -> dict[str, Any]:
    return dict(list(evidence.items())[:count])


def _given(name: str, evidence: dict[str, Any], count: int) -> dict[str, Question]:
    """Return the questions about one column given `count` values or ranges."""
    known = _first(evidence, count)
    words = f"given {count} {name}{'s' if count > 1 else ''}"
    return {
        f"prob {words}": lambda model, _: model.prob(EVENT, given=known),
        f"quantiles {words}": lambda model, _: model.ppf(FIVE, "x5", given=known),
        f"mean {words}": lambda model, _: model.mean("x5", given=known),
        f"sample 1000 {words}": lambda model, _: model.sample(1000, given=known, random_state=0),
    }


@lru_cache(maxsize=1)
def _session(model: MDMA) -> Session:
    return Session(model)


def _monitors(count: int, exact: bool) -> Question:
    """Return the request that follows a click on the explorer's page: all monitors, as JSON."""
    cells: dict[str, Any] = {}
    for name, low in (("x0", 0.3), ("x1", 0.0), ("x2", -1.0))[:count]:
        ends = {"is": "range", "low": low, "high": low + 1.0}
        cells[name] = {"is": "value", "value": low} if exact else ends
    return lambda model, _: json.dumps(_session(model).answer("monitors", {"evidence": cells}))


def _sweep(others: dict[str, Any]) -> Question:
    """Return the one request of a drag: all monitors for every value of a column, as JSON."""
    asked = {"column": "x0", "evidence": others}
    return lambda model, _: json.dumps(_session(model).answer("sweep", asked))


QUESTIONS: dict[str, Question] = {
    "explorer given 1 value": _monitors(1, exact=True),
    "explorer given 3 values": _monitors(3, exact=True),
    "explorer given 1 range": _monitors(1, exact=False),
    "explorer given 2 ranges": _monitors(2, exact=False),
    "explorer given 3 ranges": _monitors(3, exact=False),
    "explorer drag": _sweep({}),
    "explorer drag given 1 value": _sweep({"x1": {"is": "value", "value": 0.5}}),
    "explorer drag given 1 range": _sweep({"x1": {"is": "range", "low": 0.0, "high": 1.0}}),
    "prob": lambda model, _: model.prob(EVENT),
    "prob of 3 columns": lambda model, _: model.prob({**EVENT, "x6": (0, 2), "city": "a"}),
    "cdf of 2 columns": lambda model, _: model.cdf({"x5": 1.0, "x6": 0.5}),
    "density of 2 columns": lambda model, _: model.pdf({"x5": 1.0, "x6": 0.5}),
    "quantiles": lambda model, _: model.ppf(FIVE, "x5"),
    "mean": lambda model, _: model.mean("x5"),
    "sample 1000": lambda model, _: model.sample(1000, random_state=0),
    **{
        name: question
        for evidence, values in (("value", VALUES), ("range", RANGES))
        for count in (1, 2, 3)
        for name, question in _given(evidence, values, count).items()
    },
    "score many rows": lambda model, rows: model.score_samples(rows),
    "impute 1000 rows": lambda model, rows: model.impute(rows.iloc[:1000].mask(_holes(rows))),
}


def _holes(rows: pd.DataFrame) -> Any:
    return np.random.default_rng(0).random((min(1000, len(rows)), rows.shape[1])) < 0.1


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Iterator[Record]:
    """Time one question in all settings, which take turns."""
    check_choice("`questions`", job["question"], QUESTIONS)
    frame = make_table(settings.rows, seed)
    model = context.once("model", lambda: fitted(settings, frame, seed))
    rows = pd.concat([frame] * -(-settings.scored // len(frame)), ignore_index=True)
    rows, ask = rows.iloc[: settings.scored], QUESTIONS[job["question"]]
    ways = list(product(settings.threads, (0, settings.busy)))
    before = torch.get_num_threads()
    try:
        with busy_processes(settings.busy) as resume:
            found = _in_turns(lambda: ask(model, rows), ways, resume, settings)
    finally:
        torch.set_num_threads(before)
    for (threads, busy), times in found.items():
        low, high = np.quantile(times, [0.5, 0.95]) * 1e3
        figures = {"median_ms": round(low, 3), "p95_ms": round(high, 3), "calls": len(times)}
        yield {"threads": threads, "busy": busy, **figures}


def _in_turns(
    ask: Callable[[], Any],
    ways: list[tuple[int, int]],
    resume: Callable[[bool], None],
    settings: Settings,
) -> dict[tuple[int, int], list[float]]:
    """Return seconds of calls by number of threads and of busy processes."""
    found: dict[tuple[int, int], list[float]] = {way: [] for way in ways}
    started = time.perf_counter()
    ask()  # what is made on first use does not count
    while len(found[ways[-1]]) < settings.calls:
        for threads, busy in ways:
            torch.set_num_threads(threads)
            resume(busy > 0)
            begun = time.perf_counter()
            ask()
            found[threads, busy].append(time.perf_counter() - begun)
        if time.perf_counter() - started > settings.seconds:
            break
    return found


@contextmanager
def busy_processes(count: int) -> Iterator[Callable[[bool], None]]:
    """Start processes that keep a core busy each; give a function to stop and resume them."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]

    def resume(on: bool) -> None:
        for process in processes:
            process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)

    try:
        yield resume
    finally:
        for process in processes:
            process.kill()
            process.wait()


def make_table(rows: int, seed: int) -> pd.DataFrame:
    """Return 20 columns that depend on four hidden ones: numbers, counts, prices, categories."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 4))
    numbers = hidden @ rng.normal(size=(4, 12)) + 0.5 * rng.normal(size=(rows, 12))
    found: dict[str, Any] = {f"x{i}": numbers[:, i] for i in range(10)}
    for place, name in enumerate(("city", "grade", "brand", "sort")):
        level = hidden[:, place] + 0.5 * rng.normal(size=rows)
        found[name] = np.array(list("abcd"))[np.digitize(level, [-0.7, 0.0, 0.7])]
    for place in range(3):
        found[f"n{place}"] = rng.poisson(np.exp(1 + 0.4 * hidden[:, place]))
    found["price"] = np.round(10 * np.exp(0.3 * numbers[:, 10]), 2)
    found["rain"] = np.where(rng.random(rows) < 0.3, 0.0, np.exp(0.3 * numbers[:, 11]))
    found["wild"] = hidden[:, 0] + rng.standard_t(4, size=rows)
    return pd.DataFrame(found)


def fitted(settings: Settings, frame: pd.DataFrame, seed: int) -> MDMA:
    limit = {"max_steps": settings.max_steps, "width": 2} if settings.max_steps else {}
    seconds = {"max_seconds": settings.fit_seconds}
    return MDMA(random_state=seed, progress=False, **seconds, **limit).fit(frame)


def tables(records: Records, paper: Paper) -> str:
    """Return a line for each question: median and 95th percentile of each setting."""
    ways = list(dict.fromkeys((r["threads"], r["busy"]) for r in records))
    found = {(r["question"], r["threads"], r["busy"]): r for r in records}
    lines = [
        [question, *(_cell(found.get((question, *way))) for way in ways)]
        for question in dict.fromkeys(r["question"] for r in records)
    ]
    head = ["milliseconds: median (95th percentile)", *(_words(*way) for way in ways)]
    return table(head, lines)


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    return f"{shown(record['median_ms'], 1)} ({shown(record['p95_ms'], 1)})"


def _words(threads: int, busy: int) -> str:
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    return f"{count}, beside {busy} busy processes" if busy else f"{count}, idle"


STUDIES = (
    Study(
        "latency",
        "Latency of queries",
        measure,
        tables,
        grid={"question": "questions"},
        key=("threads", "busy"),
        page=None,
    ),
)
