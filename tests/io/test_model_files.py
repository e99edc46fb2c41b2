"""A density comes back from its file as it was, and from nothing else."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from marginals.cells.evidence import Evidence
from marginals.densities.coupled import CoupledDensity
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nmdma import NMDMA
from marginals.densities.tensor_density import TensorDensity
from marginals.io import container
from marginals.io.model_files import (
    DENSITIES,
    TENSORS,
    FileError,
    describe,
    load,
    load_with_extra,
    rebuild,
    save,
)
from marginals.leaves import CategoricalLeaves, Leaves, NeuralLeaves
from marginals.structure import Tree
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor

TREE = Tree(((2, 0), 1))


def shaken(density: Density) -> Density:
    """Move every number off its start, where a wrong one might go unseen."""
    with torch.no_grad():
        for tensor in (*density.parameters(), *density.buffers()):
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor))
    return density


def continuous(tensor: ComponentTensor, **options: int) -> TensorDensity:
    columns, width = tensor.size
    return TensorDensity(
        Leaves([NeuralLeaves(columns, width, **options)], [range(columns)]), tensor
    )


def mixed(tensor: ComponentTensor) -> TensorDensity:
    families = [NeuralLeaves(2, tensor.size[1], depth=2), CategoricalLeaves([4], tensor.size[1])]
    return TensorDensity(Leaves(families, [(2, 0), (1,)]), tensor)


def mixture_of_mixtures() -> Mixture:
    inner = Mixture([mixed(CPTensor(3, 4)), mixed(FullTensor(3, 2))], [1.0, 5.0])
    deeper = Mixture([inner, mixed(HierarchicalTensor(TREE, 3, mera=True))])
    return Mixture([mixed(HierarchicalTensor(TREE, 5)), deeper], [0.1, 0.7])


def mixture_of_nmdma() -> Mixture:
    return Mixture([NMDMA(continuous(CPTensor(3, 2))), continuous(CPTensor(3, 3))])


MODELS: dict[str, Callable[[], Density]] = {
    "ht": lambda: continuous(HierarchicalTensor(TREE, 5), depth=2, hidden=4),
    "ht softplus": lambda: continuous(HierarchicalTensor(TREE, 5, parametrisation="softplus")),
    "mera": lambda: continuous(HierarchicalTensor(TREE, 4, mera=True)),
    "cp": lambda: continuous(CPTensor(3, 6)),
    "cp softplus": lambda: continuous(CPTensor(3, 6, "softplus")),
    "full": lambda: continuous(FullTensor(3, 3), hidden=1),
    "one column": lambda: continuous(HierarchicalTensor(Tree((0,)), 3)),
    "mixed ht": lambda: mixed(HierarchicalTensor(TREE, 5)),
    "mixed cp": lambda: mixed(CPTensor(3, 4)),
    "mixture of mixtures": mixture_of_mixtures,
    "nmdma": lambda: NMDMA(continuous(HierarchicalTensor(TREE, 5)), order=[1, 2, 0]),
    "mixture of nmdma": mixture_of_nmdma,
}


def values(density: Density) -> torch.Tensor:
    """Log values of rows that are the same for every copy of a density."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(50, density.columns, generator=generator, dtype=torch.float64)
    for column, count in enumerate(density.categories):
        if count is not None:
            x[:, column] = torch.randint(count, (50,), generator=generator)
    with torch.no_grad():
        return density.log_value(Evidence.exact(x))


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32 if x.dtype == torch.float32 else torch.int64)


def same(one: Density, other: Density) -> bool:
    return torch.equal(bits(values(one)), bits(values(other)))


@pytest.fixture
def model() -> Density:
    return shaken(mixture_of_mixtures())


# Round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_round_trip(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    density = shaken(MODELS[name]().to(dtype))
    save(density, tmp_path / "f")
    again = load(tmp_path / "f")
    assert type(again) is type(density)
    assert bool(values(density).isfinite().all())
    assert same(density, again)
    assert describe(again) == describe(density)
    for key, tensor in density.state_dict().items():
        assert again.state_dict()[key].dtype == tensor.dtype
        assert torch.equal(again.state_dict()[key], tensor)
    assert all(p.requires_grad and p.dtype == dtype for p in again.parameters())
    assert again.training


@pytest.mark.parametrize("name", MODELS)
def test_description_is_json_without_numbers_of_the_model(name: str) -> None:
    density = MODELS[name]()
    config = describe(density)
    assert json.loads(json.dumps(config)) == config
    assert describe(shaken(density)) == config
    assert describe(rebuild(config)) == config


def test_registries_hold_every_kind() -> None:
    assert set(DENSITIES) == {"tensor", "copula", "mixture", "nmdma"}
    classes = {TensorDensity, CoupledDensity, Mixture, NMDMA}
    assert {kind.of for kind in DENSITIES.values()} == classes
    assert all(tensor.kind == name for name, tensor in TENSORS.items())


def test_a_second_file_is_the_same(tmp_path: Path, model: Density) -> None:
    save(model, tmp_path / "a", extra={"n": 1})
    again, extra = load_with_extra(tmp_path / "a")
    save(again, tmp_path / "b", extra)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_each_tensor_keeps_its_dtype(tmp_path: Path) -> None:
    density = shaken(mixed(CPTensor(3, 4)).float())
    density.leaves.families[0].double()
    save(density, tmp_path / "f")
    again = load(tmp_path / "f")
    before, after = density.state_dict(), again.state_dict()
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


def test_extra(tmp_path: Path, model: Density) -> None:
    extra = {"columns": ["a", "ü"], "bounds": {"a": [None, 1.5]}}
    save(model, tmp_path / "f", extra=extra)
    assert load_with_extra(tmp_path / "f")[1] == extra
    save(model, tmp_path / "f")
    assert load_with_extra(tmp_path / "f")[1] == {}
    with pytest.raises(TypeError, match="to be JSON"):
        save(model, tmp_path / "f", extra={"a": model})
    assert same(load(tmp_path / "f"), model)


def test_loading_leaves_global_state_alone(tmp_path: Path, model: Density) -> None:
    save(model, tmp_path / "f")
    before = torch.get_rng_state()
    load(tmp_path / "f")
    assert torch.equal(torch.get_rng_state(), before)


def test_default_dtype_does_not_matter(tmp_path: Path) -> None:
    density = shaken(mixture_of_mixtures().float())
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
    assert all(p.is_cuda for p in load(tmp_path / "f", "cuda").parameters())


# What is refused ------------------------------------------------------------------------------


def test_a_view_is_not_saved(tmp_path: Path, model: Density) -> None:
    for view in (model.marginal([0]), model.condition({0: 0.5}), Mixture([model.marginal([0])])):
        with pytest.raises(TypeError, match="Save the density underneath"):
            save(view, tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_other_objects_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Expected a density among TensorDensity, CoupledDensity"):
        save(nn.Linear(1, 1), tmp_path / "f")  # type: ignore[arg-type]


def damage(data: bytearray, rng: random.Random) -> None:
    at, size = rng.randrange(len(data)), rng.randrange(1, 300)
    match rng.randrange(5):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            del data[at:]
        case 2:
            data[at:at] = rng.randbytes(size)
        case 3:
            data[at : at + size] = bytes(len(data[at : at + size]))
        case 4:
            data[:] = data[len(data) // 2 :] + data[: len(data) // 2]


def test_damaged_copies_are_refused(tmp_path: Path, model: Density) -> None:
    save(model, tmp_path / "f")
    good = (tmp_path / "f").read_bytes()
    rng = random.Random(0)
    tried = 0
    while tried < 200:
        data = bytearray(good)
        damage(data, rng)
        if data == good:  # zeros over zeros
            continue
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(FileError):
            load(tmp_path / "f")
        tried += 1


def test_a_checkpoint_is_not_a_model(tmp_path: Path, model: Density) -> None:
    header = {"config": describe(model), "extra": {}}
    container.write(tmp_path / "f", model.state_dict(), header, "checkpoint")
    with pytest.raises(FileError, match=r"to be a marginals model; got .*, a marginals checkpoint"):
        load(tmp_path / "f")


def test_a_newer_file(tmp_path: Path, model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT_VERSION", 2)
        save(model, tmp_path / "f")
    with pytest.raises(FileError, match="newer marginals"):
        load(tmp_path / "f")


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
    density = mixed(HierarchicalTensor(TREE, 5))
    header = {"config": describe(density), "extra": {}}
    container.write(tmp_path / "f", density.state_dict(), changed(header, path, value), "model")
    with pytest.raises(FileError, match="content does not fit together"):
        load(tmp_path / "f")


@pytest.mark.parametrize("members", [[], [3], None, {"a": 1}], ids=str)
def test_a_mixture_that_does_not_fit(members: Any) -> None:
    config = {**describe(mixture_of_mixtures()), "members": members}
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
