"""Every kernel compiles for a GPU, which needs none; the interpreter is more lenient."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("triton")

CONSTANTS: dict[str, Any] = {
    **{"R": 3, "DEPTH": 1, "INTERVALS": True, "LANES": 128, "BOUNDED": True, "STEPS": 64},
    **{"WIDTH": 100, "MOST": 2, "SOFTPLUS": True},
}
INDICES = {"columns_at": "*i64", "components_at": "*i64", "children": "*i32"}
ARRAYS = {"leaves", "nodes", "peaks", "terms", "log_root", "out", "by_leaf", "by_term"}


@pytest.mark.slow
def test_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    """In another process, because a process either interprets or compiles."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    words = [sys.executable, "-W", "ignore", "-m", "tests.runtime.test_compile"]
    options: Any = {"cwd": Path(__file__).parents[2], "env": environment, "text": True}
    done = subprocess.run(words, capture_output=True, check=False, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {"_forward", "_backward", "_invert", "_open", "_root_back"} <= set(done.stdout.split())


def kind_of(name: str) -> str:
    if name in CONSTANTS:
        return "constexpr"
    if name in INDICES:
        return INDICES[name]
    if name.endswith("_at") or name in ARRAYS:
        return "*fp32"
    return "fp32" if name == "least" else "i32"


def kernels(module: ModuleType) -> list[Any]:
    """Return a module's functions whose first argument is an array; others are their parts."""
    from triton.runtime.jit import JITFunction

    found = [f for f in vars(module).values() if isinstance(f, JITFunction)]
    own = [f for f in found if f.fn.__module__ == module.__name__]
    return [f for f in own if kind_of(f.arg_names[0]).startswith("*fp")]


def compile_all() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from marginals.runtime.kernels import (
        leaf_inversion_triton,
        leaf_values_triton,
        tree_contraction_triton,
    )

    hopper = GPUTarget("cuda", 90, 32)
    for module in (leaf_values_triton, leaf_inversion_triton, tree_contraction_triton):
        for kernel in kernels(module):
            names = kernel.arg_names
            constants = {(i,): CONSTANTS[n] for i, n in enumerate(names) if n in CONSTANTS}
            source = ASTSource(kernel, {n: kind_of(n) for n in names}, constants)
            triton.compile(source, target=hopper, options={"num_warps": 4})
            print(kernel.__name__)


if __name__ == "__main__":
    compile_all()
