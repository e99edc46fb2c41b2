"""Values kept from query to query never outlive the parameters they were made from."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from marginals.densities import Density
from marginals.runtime.derived import Derived
from tests.laws.registry import build, names


def _step(model: nn.Module) -> None:
    """Take an optimiser's step."""
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.AdamW(model.parameters(), lr=0.1).step()


def _load(model: nn.Module) -> None:
    other = copy.deepcopy(model)
    _step(other)
    model.load_state_dict(other.state_dict())


def _write_data(model: nn.Module) -> None:
    for p in model.parameters():
        p.data.add_(0.1)  # leaves version counters alone


def _write_memory(model: nn.Module) -> None:
    for p in model.parameters():
        p.detach().numpy()[...] += 0.1


def _convert(model: nn.Module) -> None:
    model.to(torch.float32)


@pytest.mark.parametrize("change", [_step, _load, _write_data, _write_memory, _convert])
def test_a_change_of_parameters_reaches_every_answer(change: Callable[[nn.Module], None]) -> None:
    for name in names("univariates"):
        model = build(name)
        _answers(model)  # fills what is kept
        change(model)
        fresh = build(name).to(next(model.parameters()).dtype)
        fresh.load_state_dict(model.state_dict())
        for found, expected in zip(_answers(model), _answers(fresh), strict=True):
            assert_close(found, expected, rtol=0, atol=0, msg=name)


@torch.no_grad()
def _answers(model: Density) -> list[Tensor]:
    """Return densities, conditionals and quantiles."""
    rows = torch.zeros(2, model.columns)
    parts = model.univariates(rows)
    grid = torch.zeros(3, 1, model.columns)
    found = parts.ppf(torch.full((2, 1), 0.3))
    return [model.logpdf(rows), parts.logpdf(rows), found, parts.cdf(grid)]


def test_nothing_is_kept_with_gradients() -> None:
    raw, made = torch.zeros(2, requires_grad=True), Derived()
    with torch.no_grad():
        made.get("exp", [raw], raw.exp)
    assert made.get("exp", [raw], raw.exp).requires_grad


def test_values_made_for_inference_serve_other_modes_too() -> None:
    raw, made = torch.zeros(2), Derived()
    with torch.inference_mode():
        kept = made.get("exp", [raw], raw.exp)
    assert not kept.is_inference()
    with torch.no_grad():
        assert made.get("exp", [raw], raw.exp) is kept


def test_a_copy_begins_with_nothing_kept() -> None:
    raw, made = torch.zeros(2), Derived()
    with torch.no_grad():
        made.get("view", [raw], lambda: raw[None])
        twin = copy.deepcopy(made)
        assert float(twin.get("view", [raw], lambda: raw + 1).sum()) == 2
