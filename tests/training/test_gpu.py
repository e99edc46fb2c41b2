"""On a GPU the data are on the model's device, and steps do not wait for the host."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from marginals import Density, Evidence, FitConfig, build, fit
from marginals.densities.nmdma import NMDMA
from marginals.runtime.backend import QUERY, Backend
from marginals.training.batches import make_rows
from marginals.training.fit import FitRun
from marginals.training.graphed import GraphedStep
from tests.training.helpers import boxes, loss_of, losses, rows, same, small, weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no CUDA device."),
]
SETTINGS = {"batch_size": 20, "evaluate_every": 5, "noise": 0.1, "averaging": 0.5}


class Bell(Density):
    """The smallest model that can be trained, so that only the fit itself could wait."""

    columns, categories = 2, (None, None)
    univariates = sample_rows = None

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(2, device="cuda"))

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        return -(evidence.upper.float().nan_to_num() - self.mean).square().sum(1)

    def row_cost(self, given: Evidence | None = None) -> int:
        return 2


@pytest.fixture
def _no_waiting() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("_no_waiting")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_steps_of_a_fit_do_not_wait_for_the_device() -> None:
    model = Bell()
    train = make_rows(model.checked(boxes(rows(100))), None, "data")
    run = FitRun(model, train, None, FitConfig(**SETTINGS))
    run.step()
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(12):  # into the third epoch
        run.step()


def test_a_fit_moves_the_data_to_the_model() -> None:
    x = rows(100)
    model, twin = small(x).cuda(), small(x).cuda()
    weight = torch.rand(100)
    result = fit(model, boxes(x), max_steps=20, sample_weight=weight, **SETTINGS)
    there = boxes(x).to("cuda")
    again = fit(twin, there, max_steps=20, sample_weight=weight.cuda(), **SETTINGS)
    assert losses(result) == losses(again)
    assert {p.device.type for p in model.parameters()} == {"cuda"}


def test_a_fit_on_the_device_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    x = rows(100)
    settings = {**SETTINGS, "checkpoint": tmp_path / "fit"}
    fit(small(x).cuda(), x, max_steps=7, **settings)
    resumed, whole = small(x).cuda(), small(x).cuda()
    result = fit(resumed, x, max_steps=20, **settings)
    assert result.resumed
    assert losses(result) == losses(fit(whole, x, max_steps=20, **SETTINGS))
    assert same(weights(resumed), weights(whole))


def test_the_device_learns_what_the_cpu_learns() -> None:
    x = rows(500)
    settings = {"batch_size": 500, "validation_fraction": 0.0, "max_steps": 20, "products": "full"}
    on_cpu, on_gpu = small(x), small(x).cuda()
    for model in (on_cpu, on_gpu):
        fit(model, x, **settings)
    assert loss_of(on_gpu, x) == pytest.approx(loss_of(on_cpu, x), abs=1e-4)


@pytest.mark.parametrize("products", ["full", "tf32", "bf16x3"])
@pytest.mark.parametrize("tensor", ["ht", "copula", "nmdma"])
def test_recorded_steps_are_the_same_steps(
    tensor: str, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(200, 3, device="cuda", dtype=torch.float32)
    x[::3, 0] = torch.nan  # the first column, which nMDMA can miss too
    settings = {"max_steps": 40, "batch_size": 50, "evaluate_every": 10, "noise": 0.01}
    recordings, record = [], FitRun.record

    def watched(self: FitRun, size: int) -> GraphedStep | None:
        recordings.append(record(self, size))
        return recordings[-1]

    found = []
    for recorder in (watched, lambda self, size: None):
        monkeypatch.setattr(FitRun, "record", recorder)
        inner = build(x, tensor="ht" if tensor == "nmdma" else tensor, width=4, seed=0)
        model = NMDMA(inner).cuda() if tensor == "nmdma" else inner
        result = fit(model, x, products=products, **settings)
        found.append([record.validation_loss for record in result.history])
    assert [step is not None for step in recordings] == [True]
    assert found[0] == pytest.approx(found[1], abs=1e-3)
