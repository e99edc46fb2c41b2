r"""The networks of the paper's leaves for Triton kernels, forward and backward.

Hidden units are tuples, which the compiler unrolls: depth and units are constants of a kernel.
Weights are relative to the largest of their layer, whose size is kept separately, because the slope
of a nearly flat network is a product of tiny numbers that would underflow.
"""

import math

import triton
import triton.language as tl

from marginals.runtime.kernels.elementary_triton import (
    load_lanes,
    log_sigmoid,
    log_softplus,
    minus_tanh,
    reciprocal,
    sigmoid,
    store_lanes,
    tanh,
)

BETA = tl.constexpr(10.0)  # of the weights' softplus, as in the paper
_LOG_BETA = tl.constexpr(math.log(10.0))


@triton.jit
def load_planes(pointer, first, COUNT: tl.constexpr, plane):
    """Load planes `first`, `first` + 1, ... of the lanes at `pointer`."""
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (load_lanes(pointer + (first + i) * plane),)
    return out


@triton.jit
def store_planes(pointer, first, COUNT: tl.constexpr, planes, plane, inside):
    """Undo `load_planes`."""
    for i in tl.static_range(COUNT):
        store_lanes(pointer + (first + i) * plane, planes[i], inside)


@triton.jit
def added(left, right, COUNT: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (left[i] + right[i],)
    return out


@triton.jit
def _log_weights(raw, COUNT: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (log_softplus(raw[i], BETA, _LOG_BETA),)
    return out


@triton.jit
def _largest(logs, FIRST: tl.constexpr, COUNT: tl.constexpr):
    top = logs[FIRST]
    for i in tl.static_range(1, COUNT):
        top = tl.maximum(top, logs[FIRST + i])
    return top


@triton.jit
def _largest_of_layers(logs, R: tl.constexpr, DEPTH: tl.constexpr):
    """Return the largest log weight of each layer."""
    tops = (_largest(logs, 0, R),)
    for layer in tl.static_range(1, DEPTH):
        tops = tops + (_largest(logs, R + (layer - 1) * R * R, R * R),)
    return tops + (_largest(logs, R + (DEPTH - 1) * R * R, R),)


@triton.jit
def _relative(logs, tops, R: tl.constexpr, DEPTH: tl.constexpr):
    """Return the weights relative to the largest of their layer."""
    out = ()
    for i in tl.static_range(R):
        out = out + (tl.exp(logs[i] - tops[0]),)
    for layer in tl.static_range(1, DEPTH):
        for i in tl.static_range(R * R):
            out = out + (tl.exp(logs[R + (layer - 1) * R * R + i] - tops[layer]),)
    for i in tl.static_range(R):
        out = out + (tl.exp(logs[R + (DEPTH - 1) * R * R + i] - tops[DEPTH]),)
    return out


@triton.jit
def _sizes(tops, DEPTH: tl.constexpr):
    out = ()
    for layer in tl.static_range(DEPTH + 1):
        out = out + (tl.exp(tops[layer]),)
    return out


@triton.jit
def _total(tops, DEPTH: tl.constexpr):
    total = tops[0]
    for layer in tl.static_range(1, DEPTH + 1):
        total += tops[layer]
    return total


@triton.jit
def _gates(raw, COUNT: tl.constexpr):
    """Return a and 1 + a without cancellation near -1."""
    gate = ()
    one_plus = ()
    for i in tl.static_range(COUNT):
        gate = gate + (tanh(raw[i]),)
        one_plus = one_plus + (2.0 * sigmoid(2.0 * raw[i]),)
    return gate, one_plus


@triton.jit
def constrained(planes_at, plane, R: tl.constexpr, DEPTH: tl.constexpr):
    """Load the parameters of the lanes at `planes_at` and constrain them.

    Returns log weights, weights relative to the largest of their layer, the layers' largest and
    their total logarithm, biases, gates a and 1 + a.
    """
    weights: tl.constexpr = 2 * R + (DEPTH - 1) * R * R
    units: tl.constexpr = DEPTH * R
    logs = _log_weights(load_planes(planes_at, 0, weights, plane), weights)
    tops = _largest_of_layers(logs, R, DEPTH)
    bias = load_planes(planes_at, weights, units + 1, plane)
    gate, one_plus = _gates(load_planes(planes_at, weights + units + 1, units, plane), units)
    size = _sizes(tops, DEPTH)
    return logs, _relative(logs, tops, R, DEPTH), size, _total(tops, DEPTH), bias, gate, one_plus


@triton.jit
def _mixed(weights, FIRST: tl.constexpr, units, FROM: tl.constexpr, R: tl.constexpr):
    total = weights[FIRST] * units[FROM]
    for s in tl.static_range(1, R):
        total += weights[FIRST + s] * units[FROM + s]
    return total


@triton.jit
def _mixed_back(weights, FIRST: tl.constexpr, STEP: tl.constexpr, units, R: tl.constexpr):
    total = weights[FIRST] * units[0]
    for r in tl.static_range(1, R):
        total += weights[FIRST + r * STEP] * units[r]
    return total


# An exact cell --------------------------------------------------------------------------------


@triton.jit
def walk(x, weight, size, bias, gate, one_plus, R: tl.constexpr, DEPTH: tl.constexpr):
    """Return z, its relative slope, and of all hidden units: values, tanh, slopes before, after."""
    values = ()
    tanhs = ()
    before = ()
    slopes = ()
    for layer in tl.static_range(DEPTH):
        for r in tl.static_range(R):
            if layer == 0:
                h = size[0] * weight[r] * x + bias[r]
                into = weight[r]
            else:
                h = size[layer] * _mixed(
                    weight, R + (layer - 1) * R * R + r * R, values, (layer - 1) * R, R
                )
                h += bias[layer * R + r]
                into = _mixed(weight, R + (layer - 1) * R * R + r * R, slopes, (layer - 1) * R, R)
            t = tanh(h)
            a = gate[layer * R + r]
            values = values + (h + a * t,)
            tanhs = tanhs + (t,)
            before = before + (into,)
            # 1 + a (1 - t^2), with both terms nonnegative when a is near -1.
            slopes = slopes + ((one_plus[layer * R + r] - a * t * t) * into,)
    last: tl.constexpr = R + (DEPTH - 1) * R * R
    z = size[DEPTH] * _mixed(weight, last, values, (DEPTH - 1) * R, R) + bias[DEPTH * R]
    return z, _mixed(weight, last, slopes, (DEPTH - 1) * R, R), values, tanhs, before, slopes


@triton.jit
def walk_back(grad, x, weight, size, bias, gate, one_plus, R: tl.constexpr, DEPTH: tl.constexpr):
    """Return the gradients of log weights (less the weight), biases and gates of one exact cell."""
    z, slope, values, tanhs, before, slopes = walk(x, weight, size, bias, gate, one_plus, R, DEPTH)
    by_z = -grad * tanh(0.5 * z)
    by_slope = grad * reciprocal(slope)
    last: tl.constexpr = R + (DEPTH - 1) * R * R
    by_value = ()
    by_after = ()
    by_weight = ()
    by_gate = ()
    by_bias = (by_z,)
    for s in tl.static_range(R):
        by_weight = by_weight + (
            size[DEPTH] * by_z * values[(DEPTH - 1) * R + s]
            + by_slope * slopes[(DEPTH - 1) * R + s],
        )
        by_value = by_value + (size[DEPTH] * weight[last + s] * by_z,)
        by_after = by_after + (weight[last + s] * by_slope,)
    for layer in tl.static_range(DEPTH - 1, -1, -1):
        by_h = ()
        by_before = ()
        gates = ()
        for r in tl.static_range(R):
            t = tanhs[layer * R + r]
            a = gate[layer * R + r]
            rest = 1.0 - t * t
            by_bend = by_after[r] * before[layer * R + r]
            gates = gates + (by_value[r] * t + by_bend * rest,)
            by_h = by_h + (by_value[r] + a * (by_value[r] - 2.0 * t * by_bend) * rest,)
            by_before = by_before + (by_after[r] * (one_plus[layer * R + r] - a * t * t),)
        by_gate = gates + by_gate
        by_bias = by_h + by_bias
        weights = ()
        for r in tl.static_range(R):
            if layer == 0:
                weights = weights + (size[0] * by_h[r] * x + by_before[r],)
            else:
                for s in tl.static_range(R):
                    by_one = (
                        size[layer] * by_h[r] * values[(layer - 1) * R + s]
                        + by_before[r] * slopes[(layer - 1) * R + s]
                    )
                    weights = weights + (by_one,)
        by_weight = weights + by_weight
        if layer > 0:
            by_value = ()
            by_after = ()
            for s in tl.static_range(R):
                by_value = by_value + (
                    size[layer] * _mixed_back(weight, R + (layer - 1) * R * R + s, R, by_h, R),
                )
                by_after = by_after + (
                    _mixed_back(weight, R + (layer - 1) * R * R + s, R, by_before, R),
                )
    return by_weight, by_bias, by_gate


# An interval ----------------------------------------------------------------------------------


@triton.jit
def walk_ends(
    start, end, length, weight, size, bias, gate, one_plus, R: tl.constexpr, DEPTH: tl.constexpr
):
    """Return z at both ends, their gap, and of all hidden units: ends, gaps and their tanh.

    The gap is propagated, not subtracted: tanh b - tanh a = tanh(b - a) (1 - tanh a tanh b).
    """
    lows = ()
    highs = ()
    gaps = ()
    t_lows = ()
    t_highs = ()
    t_gaps = ()
    for layer in tl.static_range(DEPTH):
        for r in tl.static_range(R):
            if layer == 0:
                w = size[0] * weight[r]
                low = w * start
                high = w * end
                gap = w * length
            else:
                low = size[layer] * _mixed(
                    weight, R + (layer - 1) * R * R + r * R, lows, (layer - 1) * R, R
                )
                high = size[layer] * _mixed(
                    weight, R + (layer - 1) * R * R + r * R, highs, (layer - 1) * R, R
                )
                gap = size[layer] * _mixed(
                    weight, R + (layer - 1) * R * R + r * R, gaps, (layer - 1) * R, R
                )
            low += bias[layer * R + r]
            high += bias[layer * R + r]
            a = gate[layer * R + r]
            t_low = tanh(low)
            t_high = tanh(high)
            rest = minus_tanh(gap)
            t_gap = gap - rest
            both = t_low * t_high
            lows = lows + (low + a * t_low,)
            highs = highs + (high + a * t_high,)
            # gap + a (tanh high - tanh low), in terms that keep their digits when a is near -1.
            bent = rest + t_gap * both + one_plus[layer * R + r] * t_gap * (1.0 - both)
            gaps = gaps + (bent,)
            t_lows = t_lows + (t_low,)
            t_highs = t_highs + (t_high,)
            t_gaps = t_gaps + (t_gap,)
    last: tl.constexpr = R + (DEPTH - 1) * R * R
    low = size[DEPTH] * _mixed(weight, last, lows, (DEPTH - 1) * R, R) + bias[DEPTH * R]
    high = size[DEPTH] * _mixed(weight, last, highs, (DEPTH - 1) * R, R) + bias[DEPTH * R]
    gap = size[DEPTH] * _mixed(weight, last, gaps, (DEPTH - 1) * R, R)
    return low, high, tl.maximum(gap, 0.0), lows, highs, gaps, t_lows, t_highs, t_gaps


@triton.jit
def walk_ends_back(
    grad, start, end, length, low_open, high_open,
    weight, size, bias, gate, one_plus, R: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Return the gradients of log weights (less the weight), biases and gates of one interval."""
    low, high, gap, lows, highs, gaps, t_lows, t_highs, t_gaps = walk_ends(
        start, end, length, weight, size, bias, gate, one_plus, R, DEPTH
    )
    by_low = tl.where(low_open, 0.0, -grad * sigmoid(low))
    by_high = tl.where(high_open, 0.0, grad * sigmoid(-high))
    half = 0.5 * gap - minus_tanh(0.5 * gap)
    by_gap = tl.where(low_open | high_open, 0.0, grad * (0.5 - 0.5 * half) / half)
    last: tl.constexpr = R + (DEPTH - 1) * R * R
    to_low = ()
    to_high = ()
    to_gap = ()
    by_weight = ()
    by_gate = ()
    by_bias = (by_low + by_high,)
    for s in tl.static_range(R):
        by_one = (
            by_low * lows[(DEPTH - 1) * R + s]
            + by_high * highs[(DEPTH - 1) * R + s]
            + by_gap * gaps[(DEPTH - 1) * R + s]
        )
        by_weight = by_weight + (size[DEPTH] * by_one,)
        w = size[DEPTH] * weight[last + s]
        to_low = to_low + (w * by_low,)
        to_high = to_high + (w * by_high,)
        to_gap = to_gap + (w * by_gap,)
    for layer in tl.static_range(DEPTH - 1, -1, -1):
        by_lows = ()
        by_highs = ()
        by_gaps = ()
        gates = ()
        for r in tl.static_range(R):
            a = gate[layer * R + r]
            t_low = t_lows[layer * R + r]
            t_high = t_highs[layer * R + r]
            t_gap = t_gaps[layer * R + r]
            both = t_low * t_high
            share = to_gap[r] * t_gap
            gates = gates + (to_low[r] * t_low + to_high[r] * t_high + share * (1.0 - both),)
            back_low = a * (to_low[r] - share * t_high) * (1.0 - t_low * t_low)
            back_high = a * (to_high[r] - share * t_low) * (1.0 - t_high * t_high)
            by_lows = by_lows + (to_low[r] + back_low,)
            by_highs = by_highs + (to_high[r] + back_high,)
            kept = both + one_plus[layer * R + r] * (1.0 - both)
            square = t_gap * t_gap
            by_gaps = by_gaps + (to_gap[r] * (square + (1.0 - square) * kept),)
        by_gate = gates + by_gate
        biases = ()
        weights = ()
        for r in tl.static_range(R):
            biases = biases + (by_lows[r] + by_highs[r],)
            if layer == 0:
                by_one = by_lows[r] * start + by_highs[r] * end + by_gaps[r] * length
                weights = weights + (size[0] * by_one,)
            else:
                for s in tl.static_range(R):
                    by_one = (
                        by_lows[r] * lows[(layer - 1) * R + s]
                        + by_highs[r] * highs[(layer - 1) * R + s]
                    )
                    weights = weights + (
                        size[layer] * (by_one + by_gaps[r] * gaps[(layer - 1) * R + s]),
                    )
        by_bias = biases + by_bias
        by_weight = weights + by_weight
        if layer > 0:
            to_low = ()
            to_high = ()
            to_gap = ()
            for s in tl.static_range(R):
                to_low = to_low + (
                    size[layer] * _mixed_back(weight, R + (layer - 1) * R * R + s, R, by_lows, R),
                )
                to_high = to_high + (
                    size[layer] * _mixed_back(weight, R + (layer - 1) * R * R + s, R, by_highs, R),
                )
                to_gap = to_gap + (
                    size[layer] * _mixed_back(weight, R + (layer - 1) * R * R + s, R, by_gaps, R),
                )
    return by_weight, by_bias, by_gate


@triton.jit
def log_mass(low, high, gap, low_open, high_open):
    """Return log(sigmoid(high) - sigmoid(low)) from both ends, their gap, and which are open."""
    half = 0.5 * gap - minus_tanh(0.5 * gap)
    # 1 - exp(-gap) = 2 t / (1 + t) with t = tanh(gap / 2)
    value = tl.where(low_open | high_open, 0.0, tl.log(2.0 * half / (1.0 + half)))
    value += tl.where(low_open, 0.0, log_sigmoid(-low))
    return value + tl.where(high_open, 0.0, log_sigmoid(high))
