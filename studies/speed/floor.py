r"""The least time of a training step: what must be computed and moved, at the machine's rates.

Rates are measured on the spot. What is counted, for B rows, D columns, M components and leaves of L
hidden layers of r units:

- Products of the tree, 2 B M^2 operations each: one for the values, two for the gradients, in each
  of its D - 2 inner nodes below the root. On a GPU they may be rounded to TF32, as is usual for
  training; on a CPU they are float32.
- Arithmetic of the leaves, B D M times the multiply-adds of one: r + (L - 1) r^2 + r for the value
  and as many for the slope, each once forward, once more when the backward pass computes them again
  instead of reading them, and twice for the gradients. float32.
- Special functions, B D M times: a tanh for each hidden unit and an exponential and two logarithms
  for the log density, once forward and once again. On a GPU 16 per processor and cycle, on a CPU as
  fast as the faster of torch's tanh and exp on numbers in the cache.
- Memory: each parameter is read forward and backward, its gradient is written and read (it is
  clipped by the norm of all), and AdamW reads and writes the weight and two moments: 10 floats. The
  values of leaves and of inner nodes are written and read, and so are their gradients: 4 floats.

The four follow one another here. A step that overlapped them perfectly would take as long as the
longest (`overlapped`); none can take less than that at these rates.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import torch

from studies.speed.shapes import Shape

FLOATS_PER_PARAMETER = 10
FLOATS_PER_VALUE = 4
BYTES = 4
SPECIAL_PER_CYCLE = 16  # of a multiprocessor
FASTEST_CLOCK = 2.0e9  # in cycles per second; a faster clock only lowers the floor


@final
@dataclass(frozen=True)
class Rates:
    """What a machine does in a second.

    Args:
        product: operations of matrix products as training may round them, a multiply-add being two.
        float32: operations of float32 arithmetic.
        special: exponentials, logarithms or hyperbolic tangents.
        memory: bytes read or written.
        rounded: how `product` rounds.
        bfloat16: operations of products of bfloat16, for comparison; None on a CPU.
    """

    product: float
    float32: float
    special: float
    memory: float
    rounded: str
    bfloat16: float | None = None

    def numbers(self) -> dict[str, Any]:
        """Return the rates as JSON."""
        return asdict(self)


@final
@dataclass(frozen=True)
class Floor:
    """The seconds of the parts of a step."""

    products: float
    arithmetic: float
    special: float
    memory: float

    @property
    def seconds(self) -> float:
        """One part after the other."""
        return self.products + self.arithmetic + self.special + self.memory

    @property
    def overlapped(self) -> float:
        """All parts at once."""
        return max(self.products, self.arithmetic, self.special, self.memory)

    def numbers(self) -> dict[str, float]:
        """Return the parts in milliseconds, as JSON."""
        parts = {**asdict(self), "overlapped": self.overlapped, "all": self.seconds}
        return {name: round(1000 * seconds, 5) for name, seconds in parts.items()}


def floor(shape: Shape, rates: Rates) -> Floor:
    """Return the least time of a training step of our model.

    >>> floor(Shape(2, 10), Rates(1, 1, 1, 1, "float32")).products  # no node below the root
    0.0
    """
    inner = max(0, shape.columns - 2)
    leaves = shape.batch * shape.columns * shape.width
    r, deeper = shape.hidden, shape.depth - 1
    multiply_adds = 2 * (r + deeper * r * r + r)
    products = 3 * 2 * shape.batch * shape.width**2 * inner
    arithmetic = leaves * 2 * multiply_adds * 4
    special = leaves * 2 * (shape.depth * r + 3)
    values = leaves + shape.batch * shape.width * inner
    moved = BYTES * (FLOATS_PER_PARAMETER * parameters(shape) + FLOATS_PER_VALUE * values)
    return Floor(
        products / rates.product,
        arithmetic / rates.float32,
        special / rates.special,
        moved / rates.memory,
    )


def parameters(shape: Shape) -> int:
    """Return the number of parameters: weights, biases and gates of leaves, and of the tree.

    >>> parameters(Shape(6, 100))
    47900
    """
    r, deeper = shape.hidden, shape.depth - 1
    leaf = 3 * r + deeper * (r * r + 2 * r) + r + 1
    tree = max(0, shape.columns - 2) * shape.width**2 + shape.width
    return shape.columns * shape.width * leaf + tree


def measure_rates(device: str, size: int | None = None) -> Rates:
    """Measure the rates of a device with products of `size` x `size` matrices."""
    if device == "cuda":
        return _gpu_rates(size or 8192)
    return _cpu_rates(size or 1536)


def _gpu_rates(size: int) -> Rates:
    with _rounding("ieee"):
        plain = _product_rate("cuda", size, torch.float32)
    with _rounding("tf32"):
        rounded = _product_rate("cuda", size, torch.float32)
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    return Rates(
        product=rounded,
        float32=plain,
        special=SPECIAL_PER_CYCLE * processors * FASTEST_CLOCK,
        memory=_copy_rate("cuda", 1 << 28),
        rounded="tf32",
        bfloat16=_product_rate("cuda", size, torch.bfloat16),
    )


@contextmanager
def _rounding(how: Literal["ieee", "tf32"]) -> Iterator[None]:
    """Let products on a GPU be exact or rounded, by the switch that this torch has."""
    backend: Any = torch.backends.cuda.matmul
    newer = hasattr(backend, "fp32_precision")
    name, wanted = ("fp32_precision", how) if newer else ("allow_tf32", how == "tf32")
    before = getattr(backend, name)
    setattr(backend, name, wanted)
    try:
        yield
    finally:
        setattr(backend, name, before)


def _cpu_rates(size: int) -> Rates:
    rate = _product_rate("cpu", size, torch.float32)
    return Rates(rate, rate, _special_rate(), _copy_rate("cpu", 1 << 25), "float32")


def _special_rate() -> float:
    """Return the rate of all threads, from that of one: on so few numbers they would wait."""
    threads = torch.get_num_threads()
    x = torch.randn(1 << 14)  # stays in the cache
    torch.set_num_threads(1)
    try:
        seconds = min(_fastest(lambda f=f: f(x), "cpu", 50) for f in (torch.tanh, torch.exp))
    finally:
        torch.set_num_threads(threads)
    return threads * len(x) / seconds


def _product_rate(device: str, size: int, dtype: torch.dtype) -> float:
    a = torch.randn(size, size, device=device, dtype=dtype)
    return 2 * size**3 / _fastest(lambda: a @ a, device, 10)


def _copy_rate(device: str, floats: int) -> float:
    source = torch.zeros(floats, device=device)
    target = torch.empty_like(source)
    return 2 * BYTES * floats / _fastest(lambda: target.copy_(source), device, 10)


def _fastest(work: Callable[[], object], device: str, repeats: int) -> float:
    """Return the seconds of the fastest of some runs: a floor wants the machine at its best."""
    work()
    found = []
    for _ in range(repeats):
        synchronise(device)
        started = time.perf_counter()
        work()
        synchronise(device)
        found.append(time.perf_counter() - started)
    return min(found)


def synchronise(device: str) -> None:
    """Wait for a GPU."""
    if device == "cuda":
        torch.cuda.synchronize()
