"""Densities as files, and as the JSON that rebuilds them."""

import os
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nested_columns import NestedColumns, Nesting
from marginals.densities.nmdma import NMDMA
from marginals.densities.tensor_density import TensorDensity
from marginals.densities.view import View
from marginals.io import container
from marginals.io.safe_files import FileError, Path
from marginals.leaves import Leaves
from marginals.structure import Tree
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor
from marginals.tensors.couplings import Couplings

__all__ = ["describe", "load_density", "rebuild", "save"]

KIND = "model"  # of the file


def save(density: Density, path: Path, extra: Mapping[str, Any] | None = None) -> None:
    """Save a density to one safetensors file, written whole or not at all.

    Args:
        density: The density, on any device. A view cannot be saved; save its base density.
        path: The file, replaced if it exists.
        extra: JSON to store with the density.

    >>> import tempfile
    >>> from marginals.leaves import NeuralLeaves
    >>> density = TensorDensity(Leaves([NeuralLeaves(2, 8)], [(0, 1)]), CPTensor(2, 8))
    >>> x = torch.randn(5, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(density, f"{folder}/model.mdma")
    ...     again, _ = load_density(f"{folder}/model.mdma")
    >>> torch.equal(density.logpdf(x), again.logpdf(x))
    True
    """
    header = {"config": describe(density), "extra": dict(extra or {})}
    state = density.state_dict()
    if infinite := _not_finite(state):
        raise ValueError(
            f"Expected a density whose parameters are finite; got NaN or infinities in {infinite}. "
            "Fit it again, with a lower learning rate."
        )
    container.write(path, state, header, KIND)


def load_density(path: Path, device: str | torch.device = "cpu") -> tuple[Density, dict[str, Any]]:
    """Load a density and the JSON stored with it.

    Nothing in the file is executed. A file that is damaged, of another kind or version, or whose
    parameters are not finite raises `FileError`.

    Args:
        path: The file that `save` wrote.
        device: Where to put the density.
    """
    tensors, header = container.read(path, KIND)
    try:
        density = rebuild(header["config"])
        density.load_state_dict(tensors, strict=True)
        extra = dict(header["extra"])
    except Exception as error:
        # The content may be anything with a right checksum, and fail anywhere.
        raise FileError(
            f"Expected `path` to hold a density and its parameters; got {os.fspath(path)!r}, whose "
            f"content does not fit together ({_short(error)}). Save the density again."
        ) from error
    if infinite := _not_finite(tensors):
        raise FileError(
            f"Expected `path` to hold finite parameters; got {os.fspath(path)!r}, with NaN or "
            f"infinities in {infinite}. Fit and save the model again."
        )
    return density.to(device), extra


def _not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    floats = {name: t for name, t in tensors.items() if t.is_floating_point()}
    return [name for name, t in floats.items() if not bool(t.isfinite().all())][:3]


# The configuration ----------------------------------------------------------------------------


def describe(density: Density) -> dict[str, Any]:
    """Return the JSON that rebuilds a density, apart from its parameters.

    >>> from marginals.leaves import CategoricalLeaves
    >>> density = TensorDensity(Leaves([CategoricalLeaves([2], 4)], [(0,)]), CPTensor(1, 4))
    >>> describe(density)["tensor"]
    {'kind': 'cp', 'columns': 1, 'width': 4, 'parametrisation': 'softmax'}
    """
    config = _describe(density)
    main = next(density.parameters()).dtype
    floats = {name: t.dtype for name, t in density.state_dict().items() if t.is_floating_point()}
    others = {name: _name_of(dtype) for name, dtype in floats.items() if dtype != main}
    return {**config, "dtype": _name_of(main), "other_dtypes": others}


def rebuild(config: Mapping[str, Any]) -> Density:
    """Rebuild the density that `describe` described, with arbitrary parameters.

    The global random state is left alone. Raises `ValueError` if `config` is anything else.
    """
    try:
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            return _cast(_rebuild(config), config["dtype"], config["other_dtypes"])
    except Exception as error:
        # The configuration may be any JSON, and fail in any of the constructors.
        raise ValueError(
            "Expected `config` to be what `describe` returns; got something else "
            f"({_short(error)}). Describe the density again."
        ) from error


class _Kind(NamedTuple):
    """How to describe a class of densities, and how to rebuild one from its description."""

    of: type[Density]
    describe: Callable[[Any], dict[str, Any]]
    rebuild: Callable[[Mapping[str, Any]], Density]


def _describe(density: Density) -> dict[str, Any]:
    if isinstance(density, View):
        raise TypeError(
            "Expected a density with parameters of its own; got a view of one. Save the density "
            "underneath, `view.base`, and take the view again after loading."
        )
    for name, kind in DENSITIES.items():
        if isinstance(density, kind.of):
            return {"kind": name, **kind.describe(density)}
    known = ", ".join(kind.of.__name__ for kind in DENSITIES.values())
    raise TypeError(
        f"Expected a density among {known}; got {type(density).__name__}. List its class in "
        "`marginals/io/model_files.py` to save it."
    )


def _rebuild(config: Mapping[str, Any]) -> Density:
    common = ("kind", "dtype", "other_dtypes")
    own = {name: value for name, value in config.items() if name not in common}
    return DENSITIES[config["kind"]].rebuild(own)


def _rebuild_tensor(kind: str, **options: Any) -> ComponentTensor:
    if "tree" in options:
        options["tree"] = Tree.from_json(options["tree"])
    return TENSORS[kind](**options)


TENSORS: dict[str, Callable[..., ComponentTensor]] = {
    "hierarchical": HierarchicalTensor,
    "cp": CPTensor,
    "full": FullTensor,
}

DENSITIES: dict[str, _Kind] = {
    "tensor": _Kind(
        TensorDensity,
        TensorDensity.config,
        lambda c: TensorDensity(Leaves.from_config(c["leaves"]), _rebuild_tensor(**c["tensor"])),
    ),
    "copula": _Kind(
        CoupledDensity,
        CoupledDensity.config,
        lambda c: CoupledDensity(
            Leaves.from_config(c["leaves"]),
            Couplings(**c["couplings"]),
            CoupledLattices.from_config(c["lattices"]),
        ),
    ),
    "mixture": _Kind(
        Mixture,
        lambda mixture: {"members": [_describe(member) for member in mixture.densities]},
        lambda c: Mixture([_rebuild(member) for member in c["members"]]),
    ),
    "nested": _Kind(
        NestedColumns,
        lambda nested: {"inner": _describe(nested.inner), **nested.config()},
        lambda c: NestedColumns(
            _rebuild(c["inner"]),
            [Nesting(column, source, tuple(codes)) for column, source, codes in c["nestings"]],
            c["counts"],
        ),
    ),
    "nmdma": _Kind(
        NMDMA,
        lambda nmdma: {"inner": _describe(nmdma.inner), **nmdma.config()},
        lambda c: NMDMA(**{**c, "inner": _rebuild(c["inner"])}),
    ),
}

DTYPES = {_name: getattr(torch, _name) for _name in ("float16", "bfloat16", "float32", "float64")}


def _cast(density: Density, main: str, others: Mapping[str, str]) -> Density:
    density = density.to(DTYPES[main])
    state = density.state_dict(keep_vars=True)
    for name, dtype in others.items():
        state[name].data = state[name].data.to(DTYPES[dtype])
    return density


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _short(error: Exception) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", 300)
