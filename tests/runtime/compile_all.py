"""Compile every kernel for a GPU, which needs none; run by `test_compile.py` in its own process.

The interpreter is more lenient than the compiler, and a process has one or the other.
"""

from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from marginals.runtime.kernels import leaf_inversion_triton as inversion_triton
from marginals.runtime.kernels import leaf_values_triton as leaves_triton
from marginals.runtime.kernels import tree_contraction_triton as tree_triton

HOPPER = GPUTarget("cuda", 90, 32)
CONSTANTS: dict[str, Any] = {
    **{"R": 3, "DEPTH": 1, "INTERVALS": True, "LANES": 128, "BOUNDED": True, "STEPS": 64},
    **{"WIDTH": 100, "MOST": 2, "SOFTPLUS": True},
}
INDICES = {"columns_at": "*i64", "components_at": "*i64", "children": "*i32"}
ARRAYS = {"leaves", "nodes", "peaks", "terms", "log_root", "out", "by_leaf", "by_term"}


def kind_of(name: str) -> str:
    if name in CONSTANTS:
        return "constexpr"
    if name in INDICES:
        return INDICES[name]
    if name.endswith("_at") or name in ARRAYS:
        return "*fp32"
    return "fp32" if name == "least" else "i32"


def kernels(module: ModuleType) -> list[Any]:
    """Functions of a module whose first argument is an array; the others are their parts."""
    found = [f for f in vars(module).values() if isinstance(f, triton.runtime.jit.JITFunction)]
    own = [f for f in found if f.fn.__module__ == module.__name__]
    return [f for f in own if kind_of(f.arg_names[0]).startswith("*fp")]


def main() -> None:
    for module in (leaves_triton, inversion_triton, tree_triton):
        for kernel in kernels(module):
            names = kernel.arg_names
            constants = {(i,): CONSTANTS[n] for i, n in enumerate(names) if n in CONSTANTS}
            source = ASTSource(kernel, {n: kind_of(n) for n in names}, constants)
            triton.compile(source, target=HOPPER, options={"num_warps": 4})
            print(kernel.__name__)


if __name__ == "__main__":
    main()
