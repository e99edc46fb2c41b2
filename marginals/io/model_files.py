"""Densities as files, and as the JSON that rebuilds them."""

import os
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from marginals.densities.coupled import CoupledDensity
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nmdma import NMDMA
from marginals.densities.tensor_density import TensorDensity
from marginals.densities.view import View
from marginals.io import container
from marginals.io.container import FileError
from marginals.leaves import Leaves
from marginals.structure import Tree
from marginals.tensors import ComponentTensor, CPTensor, FullTensor, HierarchicalTensor
from marginals.tensors.couplings import Couplings

__all__ = ["FileError", "describe", "load", "load_with_extra", "rebuild", "save"]

KIND = "model"  # of the file


def save(
    density: Density, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None
) -> None:
    r"""Saves a density to one safetensors file, written whole or not at all.

    Arguments:
        density: The density, on any device. A view is not saved, the density under it is.
        path: The file, replaced if there is one.
        extra: What is kept beside the density, as JSON.

    Example:
        >>> import tempfile
        >>> from marginals.leaves import NeuralLeaves
        >>> density = TensorDensity(Leaves([NeuralLeaves(2, 8)], [(0, 1)]), CPTensor(2, 8))
        >>> x = torch.randn(5, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(density, f"{folder}/model.mdma")
        ...     again = load(f"{folder}/model.mdma")
        >>> torch.equal(density.logpdf(x), again.logpdf(x))
        True
    """
    header = {"config": describe(density), "extra": dict(extra or {})}
    container.write(path, density.state_dict(), header, KIND)


def load(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Density:
    r"""Loads a density that :func:`save` saved.

    Nothing in the file is executed, and a file that is damaged or of another kind raises
    :class:`FileError`.

    Arguments:
        path: The file.
        device: Where the density is wanted.
    """
    return load_with_extra(path, device)[0]


def load_with_extra(
    path: str | os.PathLike[str], device: str | torch.device = "cpu"
) -> tuple[Density, dict[str, Any]]:
    r"""Loads a density and what was saved beside it; see :func:`load`.

    Arguments:
        path: The file.
        device: Where the density is wanted.
    """
    tensors, header = container.read(path, KIND)
    try:
        density = rebuild(header["config"])
        density.load_state_dict(tensors, strict=True)
        extra = dict(header["extra"])
    except Exception as error:
        # The content may be anything that has a right checksum, and fail anywhere.
        raise FileError(
            f"Expected `path` to hold a density and its parameters; got {os.fspath(path)!r}, whose "
            f"content does not fit together ({_short(error)}). Save the density again."
        ) from error
    return density.to(device), extra


# The configuration ----------------------------------------------------------------------------


def describe(density: Density) -> dict[str, Any]:
    r"""Returns what rebuilds a density but for its parameters, as JSON.

    Arguments:
        density: The density.

    Example:
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
    r"""Rebuilds the density that :func:`describe` described, with arbitrary parameters.

    The global random state is left alone. Raises :class:`ValueError` if the configuration
    is not one.

    Arguments:
        config: The configuration.

    Example:
        >>> from marginals.leaves import CategoricalLeaves
        >>> density = TensorDensity(Leaves([CategoricalLeaves([2], 4)], [(0,)]), CPTensor(1, 4))
        >>> describe(rebuild(describe(density))) == describe(density)
        True
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
    """How to describe a class of densities, and to rebuild one from its description."""

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
    own = {name: value for name, value in config.items() if name not in _COMMON}
    return DENSITIES[config["kind"]].rebuild(own)


_COMMON = ("kind", "dtype", "other_dtypes")


def _rebuild_tensor_density(config: Mapping[str, Any]) -> TensorDensity:
    return TensorDensity(Leaves.from_config(config["leaves"]), _rebuild_tensor(**config["tensor"]))


def _rebuild_copula(config: Mapping[str, Any]) -> CoupledDensity:
    couplings = Couplings(**config["couplings"])
    return CoupledDensity(Leaves.from_config(config["leaves"]), couplings)


def _rebuild_tensor(kind: str, **options: Any) -> ComponentTensor:
    if "tree" in options:
        options["tree"] = Tree.from_json(options["tree"])
    return TENSORS[kind](**options)


def _describe_mixture(mixture: Mixture) -> dict[str, Any]:
    return {"members": [_describe(member) for member in mixture.densities]}


def _rebuild_mixture(config: Mapping[str, Any]) -> Mixture:
    return Mixture([_rebuild(member) for member in config["members"]])


def _describe_nmdma(nmdma: NMDMA) -> dict[str, Any]:
    return {"inner": _describe(nmdma.inner), **nmdma.config()}


def _rebuild_nmdma(config: Mapping[str, Any]) -> NMDMA:
    options = {**config, "inner": _rebuild(config["inner"])}
    return NMDMA(**options)


TENSORS: dict[str, Callable[..., ComponentTensor]] = {
    "hierarchical": HierarchicalTensor,
    "cp": CPTensor,
    "full": FullTensor,
}

DENSITIES: dict[str, _Kind] = {
    "tensor": _Kind(TensorDensity, TensorDensity.config, _rebuild_tensor_density),
    "copula": _Kind(CoupledDensity, CoupledDensity.config, _rebuild_copula),
    "mixture": _Kind(Mixture, _describe_mixture, _rebuild_mixture),
    "nmdma": _Kind(NMDMA, _describe_nmdma, _rebuild_nmdma),
}

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


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
