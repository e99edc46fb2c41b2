"""Elementary functions and memory access for Triton kernels.

On CUDA they use assembly where that runs or compiles faster. tanh h is 1 - 2 / (1 + e^2h), accurate
to 3e-7, by the hardware's own power of two and reciprocal.
"""

import math
import os

import torch
import triton
import triton.language as tl

_LOG_2 = tl.constexpr(math.log(2.0))
_INVERSE_LOG_2 = tl.constexpr(1 / math.log(2.0))
# The interpreter and other vendors' GPUs do not accept CUDA assembly.
ASSEMBLY = tl.constexpr(
    torch.version.hip is None and os.environ.get("TRITON_INTERPRET", "0") in ("", "0")
)


@triton.jit
def log1p(x):
    """Return log(1 + x) for 0 <= x <= 1, corrected for the rounding of 1 + x."""
    y = 1.0 + x
    none = y == 1.0
    return tl.where(none, x, tl.log(y) * (x / tl.where(none, 1.0, y - 1.0)))


@triton.jit
def log_softplus(raw, BETA: tl.constexpr, LOG_BETA: tl.constexpr):
    """Return the log of the softplus with a given beta, finite for finite input."""
    scaled = raw * BETA
    far = scaled < -20.0
    near = tl.where(far, 0.0, scaled)
    soft = tl.maximum(near, 0.0) + log1p(tl.exp(-tl.abs(near)))
    return tl.where(far, scaled, tl.log(soft)) - LOG_BETA


@triton.jit
def reciprocal(x):
    """Return 1 / x to one unit in the last place, five times as fast as a division."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            "rcp.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:  # noqa: RET505
        return 1.0 / x


@triton.jit
def _exp2(x):
    """Return 2^x to 2 units in the last place; below 2^-126 it is 0."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:  # noqa: RET505
        return tl.exp2(tl.minimum(x, 126.0))  # the interpreter warns of an overflow


@triton.jit
def fast_log(x):
    """Return log x with an absolute or relative error of 2e-7, whichever is larger."""
    if ASSEMBLY:
        return _LOG_2 * tl.inline_asm_elementwise(
            "lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:  # noqa: RET505
        return tl.log(x)


@triton.jit
def log_logistic(z):
    """Return log(sigmoid(z) sigmoid(-z)), to 4e-7."""
    away = tl.abs(z)
    return -away - 2.0 * fast_log(1.0 + _exp2(away * (-_INVERSE_LOG_2)))


@triton.jit
def tanh(x):
    # The power may overflow: 1 / inf = 0 is right.
    return 1.0 - 2.0 * reciprocal(1.0 + _exp2(x * (2.0 * _INVERSE_LOG_2)))


@triton.jit
def minus_tanh(x):
    """Return x - tanh(x) to full relative precision, by its series near 0."""
    near = tl.abs(x) < 0.5
    y = tl.where(near, x, 0.0)
    q = y * y
    series = 6404582.0 / 10854718875.0 - q * (443861162.0 / 1856156927625.0)
    series = -929569.0 / 638512875.0 + q * series
    series = 21844.0 / 6081075.0 + q * series
    series = -1382.0 / 155925.0 + q * series
    series = 62.0 / 2835.0 + q * series
    series = -17.0 / 315.0 + q * series
    series = 2.0 / 15.0 + q * series
    series = 1.0 / 3.0 - q * series
    return tl.where(near, series * q * y, x - tanh(x))


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - log1p(tl.exp(-tl.abs(x)))


@triton.jit
def sigmoid(x):
    e = tl.exp(-tl.abs(x))
    return tl.where(x < 0, e, 1.0) / (1.0 + e)


@triton.jit
def load_lanes(pointer):
    """Load numbers in assembly, because each plain load costs the compiler seconds.

    Its coalescing pass follows every load and store through the whole kernel.
    """
    if ASSEMBLY:
        at = pointer.to(tl.int64)
        return tl.inline_asm_elementwise(
            "ld.global.nc.f32 $0, [$1];", "=f,l", [at], dtype=tl.float32, is_pure=True, pack=1
        )
    else:  # noqa: RET505 - the compiler drops the branch that is not taken
        return tl.load(pointer)


@triton.jit
def store_lanes(pointer, value, inside):
    """Store numbers; see `load_lanes`."""
    if ASSEMBLY:
        tl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.s32 p, $3, 0; @p st.global.f32 [$1], $2; mov.u32 $0, 0; }",
            "=r,l,f,r",
            [pointer.to(tl.int64), value, inside.to(tl.int32)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    else:
        tl.store(pointer, value, mask=inside)
