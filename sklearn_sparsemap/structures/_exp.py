"""Exponentials of many numbers at once.

Used by `structures/_chain`, `structures/_sequence_budget` and `structures/_tree`.
"""

import numpy as np

from .._core.jit import kernel

# 2^52 + 2^51: adding it rounds a number of moderate size to an integer, which is then in the lowest bits.
_ROUNDING = 6755399441055744.0
_EXPONENT_BIAS, _MANTISSA_BITS = 1023, 52
# log 2 in two parts, the first of few bits.
_LOG2_HIGH, _LOG2_LOW, _PER_LOG2 = 6.93145751953125e-1, 1.42860682030941723212e-6, 1.4426950408889634
# Results below the smallest normal number are 0.
_LOWEST = -708.0


@kernel
def exponentiate(values, scratch):
    """Replace numbers up to 700 by their exponentials, to 2 units in the last place; below -708 the result is 0.

    All loops use vector instructions, unlike calls of a library. With x = k log 2 + r, the exponential is 2^k times the
    Taylor series of r; 2^k is composed from its bits.

    `scratch` needs at least one entry; it is fastest with as many as `values` has.
    """
    size = scratch.shape[0]
    for first in range(0, values.shape[0], size):
        own = values[first : min(first + size, values.shape[0])]
        bits = scratch.view(np.int64)
        for i in range(own.shape[0]):
            scratch[i] = own[i] * _PER_LOG2 + _ROUNDING
        for i in range(own.shape[0]):
            k = scratch[i] - _ROUNDING
            r = (own[i] - k * _LOG2_HIGH) - k * _LOG2_LOW
            p = 1.0 / 6227020800.0
            p = p * r + 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            p = p * r + 1.0
            own[i] = p if own[i] > _LOWEST else 0.0
            bits[i] = (bits[i] + _EXPONENT_BIAS) << _MANTISSA_BITS
        for i in range(own.shape[0]):
            # If p was set to 0 because the result underflows, the scale in `scratch` may be NaN or infinite.
            own[i] = own[i] * scratch[i] if own[i] > 0.0 else 0.0
