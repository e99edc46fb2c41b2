"""A density comes back from its file as it was, and from nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from marginals.cells import Evidence
from marginals.densities import NMDMA, CoupledDensity, Density, Mixture, TensorDensity
from marginals.densities.nested_columns import NestedColumns
from marginals.io import container
from marginals.io.model_files import DENSITIES, TENSORS, describe, load_density, rebuild, save
from marginals.io.safe_files import FileError
from tests.laws.registry import REGISTRY, build


def with_nmdma(kind: str) -> Density:
    wrapped = NMDMA(build("ht balanced, 3 columns"), order=[1, 2, 0])
    return wrapped if kind == "nmdma" else Mixture([wrapped, build("mera, 3 columns")])


def made(name: str) -> Density:
    return build(name) if name in REGISTRY else with_nmdma(name)


# Views have no parameters of their own, and are not saved.
MODELS = [
    *(name for name in REGISTRY if "view" not in name),
    *("nmdma", "mixture of nmdma"),
]


@pytest.fixture
def model() -> Density:
    return build("nested mixture, 3 mixed columns")


def load(path: Path, **options: Any) -> Density:
    return load_density(path, **options)[0]


def values(density: Density) -> torch.Tensor:
    """Return the log values, bit for bit, of rows that are the same for each copy of a density."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(50, density.columns, generator=generator, dtype=torch.float64)
    for column, count in enumerate(density.categories):
        if count is not None:
            x[:, column] = torch.randint(count, (50,), generator=generator)
    for nesting in density.nestings if isinstance(density, NestedColumns) else ():
        x[:, nesting.column] = torch.tensor(nesting.codes).double()[x[:, nesting.source].long()]
    with torch.no_grad():
        found = density.log_value(Evidence.exact(x))
    assert bool(found.isfinite().all())
    return found.view(torch.int32 if found.dtype == torch.float32 else torch.int64)


def same(one: Density, other: Density) -> bool:
    return torch.equal(values(one), values(other))


# Round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_round_trip(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    density = made(name).to(dtype)
    save(density, tmp_path / "f")
    again = load(tmp_path / "f")
    assert type(again) is type(density)
    assert same(density, again)
    for key, tensor in density.state_dict().items():
        assert again.state_dict()[key].dtype == tensor.dtype
        assert torch.equal(again.state_dict()[key], tensor)
    assert all(p.requires_grad and p.dtype == dtype for p in again.parameters())
    assert again.training
    config = describe(density)
    assert config == describe(again) == describe(rebuild(config))  # without parameters
    assert json.loads(json.dumps(config)) == config


def test_registries_hold_every_kind() -> None:
    kinds = {name: kind.of for name, kind in DENSITIES.items()}
    assert kinds == {
        "tensor": TensorDensity,
        "copula": CoupledDensity,
        "mixture": Mixture,
        "nested": NestedColumns,
        "nmdma": NMDMA,
    }
    assert all(tensor.kind == name for name, tensor in TENSORS.items())


def test_each_tensor_keeps_its_dtype(tmp_path: Path) -> None:
    density = build("cp mixed columns, 3").float()
    density.leaves.families[0].double()
    save(density, tmp_path / "f")
    before, after = density.state_dict(), load(tmp_path / "f").state_dict()
    assert {k: t.dtype for k, t in after.items()} == {k: t.dtype for k, t in before.items()}
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_loaded_model_trains(tmp_path: Path, model: Density) -> None:
    save(model, tmp_path / "f")
    again = load(tmp_path / "f")
    again.log_value(Evidence.exact(torch.zeros(4, 3))).sum().backward()
    assert all(p.grad is not None for p in again.parameters())
    with torch.no_grad():
        next(again.parameters()).add_(1.0)
    assert same(load(tmp_path / "f"), model)  # the file is not mapped into the model


def test_extra_random_state_and_a_second_file(tmp_path: Path, model: Density) -> None:
    extra = {"columns": ["a", "ü"], "bounds": {"a": [None, 1.5]}}
    save(model, tmp_path / "f", extra=extra)
    before = torch.get_rng_state()
    again, found = load_density(tmp_path / "f")
    assert torch.equal(torch.get_rng_state(), before)
    assert found == extra
    save(again, tmp_path / "g", extra)
    assert (tmp_path / "f").read_bytes() == (tmp_path / "g").read_bytes()
    with pytest.raises(TypeError, match="to be JSON"):
        save(model, tmp_path / "f", extra={"a": model})
    assert same(load(tmp_path / "f"), model)
    save(model, tmp_path / "f")
    assert load_density(tmp_path / "f")[1] == {}


def test_default_dtype_does_not_matter(tmp_path: Path) -> None:
    density = build("nested mixture, 3 mixed columns").float()
    save(density, tmp_path / "f")
    torch.set_default_dtype(torch.float32)
    try:
        again = load(tmp_path / "f")
    finally:
        torch.set_default_dtype(torch.float64)
    assert same(load(tmp_path / "f"), density)
    assert same(again, density)


def test_device(tmp_path: Path, model: Density) -> None:
    save(model, tmp_path / "f")
    assert {p.device.type for p in load(tmp_path / "f", device="meta").parameters()} == {"meta"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_from_and_to_a_gpu(tmp_path: Path, model: Density) -> None:
    save(model.to("cuda"), tmp_path / "f")
    assert same(load(tmp_path / "f"), model.cpu())
    assert all(p.is_cuda for p in load(tmp_path / "f", device="cuda").parameters())


# What is refused ------------------------------------------------------------------------------


def test_a_view_is_not_saved(tmp_path: Path, model: Density) -> None:
    for view in (model.marginal([0]), model.condition({0: 0.5}), Mixture([model.marginal([0])])):
        with pytest.raises(TypeError, match="Save the density underneath"):
            save(view, tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_other_objects_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Expected a density among TensorDensity, CoupledDensity"):
        save(nn.Linear(1, 1), tmp_path / "f")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_parameters_must_be_finite(tmp_path: Path, model: Density, wrong: float) -> None:
    header = {"config": describe(model), "extra": {}}
    for name, tensor in model.state_dict().items():
        tensors = {key: value.clone() for key, value in model.state_dict().items()}
        tensors[name].view(-1)[tensor.numel() // 2] = wrong
        container.write(tmp_path / "f", tensors, header, "model")
        with pytest.raises(FileError, match=rf"finite parameters; got .* in \['{name}'\]"):
            load(tmp_path / "f")
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = wrong
    with pytest.raises(ValueError, match="whose parameters are finite"):
        save(model, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def changed(config: Any, path: list[Any], value: Any) -> Any:
    """Copy JSON with the value at a path replaced, or taken out if it is Ellipsis."""
    copy = json.loads(json.dumps(config))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


MISFITS: list[tuple[list[Any], Any]] = [
    (["config"], ...),
    (["config"], None),
    (["config"], []),
    (["config", "kind"], ...),
    (["config", "kind"], "flow"),
    (["config", "kind"], ["tensor"]),
    (["config", "dtype"], "int8"),
    (["config", "dtype"], ...),
    (["config", "other_dtypes"], {"absent": "float32"}),
    (["config", "other_dtypes"], 3),
    (["config", "tensor"], ...),
    (["config", "tensor", "kind"], "copula"),
    (["config", "tensor", "kind"], "cp"),
    (["config", "tensor", "width"], 6),
    (["config", "tensor", "width"], -1),
    (["config", "tensor", "width"], "5"),
    (["config", "tensor", "mera"], True),
    (["config", "tensor", "tree"], ...),
    (["config", "tensor", "tree"], "{}"),
    (["config", "tensor", "tree"], 3),
    (["config", "tensor", "surplus"], 3),
    (["config", "leaves", "families"], []),
    (["config", "leaves", "families", 0, "kind"], "spline"),
    (["config", "leaves", "families", 0, "hidden"], 7),
    (["config", "leaves", "families", 0, "width"], 7),
    (["config", "leaves", "families", 1, "categories"], [9]),
    (["config", "leaves", "columns"], [[0, 1], [1]]),
    (["config", "leaves"], 1.5),
    (["extra"], ...),
    (["extra"], 3),
]


@pytest.mark.parametrize(("path", "value"), MISFITS, ids=str)
def test_a_header_that_does_not_fit(tmp_path: Path, path: list[Any], value: Any) -> None:
    density = build("ht mixed columns, 3")
    header = {"config": describe(density), "extra": {}}
    container.write(tmp_path / "f", density.state_dict(), changed(header, path, value), "model")
    with pytest.raises(FileError, match="content does not fit together"):
        load(tmp_path / "f")


@pytest.mark.parametrize("members", [[], [3], None, {"a": 1}], ids=str)
def test_a_mixture_that_does_not_fit(model: Density, members: Any) -> None:
    config = {**describe(model), "members": members}
    with pytest.raises(ValueError, match="Expected `config` to be what `describe` returns"):
        rebuild(config)


def test_tensors_that_do_not_fit(tmp_path: Path, model: Density) -> None:
    header = {"config": describe(model), "extra": {}}
    state = model.state_dict()
    first = next(iter(state))
    wrong = [{}, {**state, "more": torch.zeros(1)}, {**state, first: torch.zeros(1, 9)}]
    for tensors in wrong:
        container.write(tmp_path / "f", tensors, header, "model")
        with pytest.raises(FileError, match="content does not fit together"):
            load(tmp_path / "f")
