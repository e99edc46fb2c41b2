"""Members that are fitted in several processes."""

import time
from dataclasses import replace

import pytest
import torch

from marginals.cells import Evidence
from marginals.selection.ensemble import Job
from marginals.selection.processes import fit_in_processes
from marginals.selection.recipes import Recipe
from marginals.training.batches import make_rows


def jobs(seconds: float, steps: list[int]) -> list[Job]:
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    rows = make_rows(Evidence.exact(x), None, "data")
    settings = {"noise": 0.0, "max_seconds": seconds}
    return [
        Job(
            Recipe({"tensor": "cp", "width": 2, "seed": i}, {**settings, "max_steps": n}),
            rows,
            rows,
        )
        for i, n in enumerate(steps)
    ]


def test_members_come_in_order() -> None:
    found = list(fit_in_processes(jobs(20.0, [1, 2, 3]), 2, "cpu"))
    assert [member.result.steps for member in found if member is not None] == [1, 2, 3]


def test_all_end_by_one_time() -> None:
    start = time.time()
    found = list(fit_in_processes(jobs(1.5, [0, 0, 10**6, 10**6]), 2, "cpu"))
    assert time.time() - start < 30.0  # of a process that starts on a busy machine
    stopped = [member.result.stopped for member in found if member is not None]
    assert stopped == ["max_steps"] * 2 + ["max_seconds"] * 2


def test_an_interrupt_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("marginals.selection.processes.fit_by", stop)
    with pytest.raises(KeyboardInterrupt):
        list(fit_in_processes(jobs(1.0, [5]), 2, "cpu"))


def test_members_that_take_no_steps_have_a_share_of_the_time() -> None:
    trained, small = (job.share for job in jobs(1.0, [5, 0]))
    assert (trained, small < 0.5) == (1.0, True)
    wide = jobs(1.0, [0])[0]
    wide = replace(wide, recipe=wide.recipe.building(width=400, init="em"))
    assert wide.share == 1.0
