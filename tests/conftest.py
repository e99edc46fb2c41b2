"""What every test runs under: one thread, float64, a seed of its own, and no leaks of state."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.examples import share

torch.set_num_threads(1)

# Random examples are drawn from the test's own name: a failure comes back on every run.
settings.register_profile(
    "marginals", deadline=None, derandomize=True, database=None, max_examples=share(100)
)
settings.load_profile("marginals")


class GlobalState:
    """A plugin, not a fixture of this folder, so that the package's doctests are seeded too."""

    @pytest.fixture(autouse=True)
    def _global_torch_state(self, request: pytest.FixtureRequest) -> Iterator[None]:
        # Doctests show what a user sees, and a user has torch's own default.
        doctest = isinstance(request.node, pytest.DoctestItem)
        before = torch_state()
        torch.set_default_dtype(torch.float32 if doctest else torch.float64)
        during = torch_state()
        seed_everything(zlib.crc32(request.node.nodeid.encode()))
        yield
        after = torch_state()
        restore(before)
        assert after == during, f"The test left torch's global state as {after}, was {during}."


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(GlobalState(), "marginals-global-state")


def torch_state() -> dict[str, object]:
    return {
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "matmul": torch.get_float32_matmul_precision(),
        "device": str(torch.get_default_device()),
    }


def restore(state: dict[str, object]) -> None:
    torch.set_default_dtype(state["dtype"])
    torch.set_grad_enabled(state["grad"])
    torch.autograd.set_detect_anomaly(state["anomaly"])
    torch.use_deterministic_algorithms(state["deterministic"])
    torch.set_num_threads(state["threads"])
    torch.set_float32_matmul_precision(state["matmul"])
    if torch_state()["device"] != state["device"]:
        torch.set_default_device(state["device"])


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the legacy state is global: pin it too)
    random.seed(seed)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets."""
    folder = os.environ.get("MARGINALS_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip(f"No real data at {folder!r}: set MARGINALS_DATA to their folder.")
    return Path(folder)
