"""Draws from many categorical distributions at once, and random numbers in kernels.

Used by `inference`, `face.py` and `inside_outside.py`.
"""

import numpy as np

from .._core.jit import kernel


def draw_rows(logits, rng):
    """Draw a column for each row, by the Gumbel-max trick."""
    with np.errstate(divide="ignore"):
        return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


@kernel
def fill_random(state, out):
    """Fill an array with random numbers from -0.5 to 0.5; return the next state."""
    for i in range(out.shape[0]):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        out[i] = float(state >> np.uint64(11)) / 9007199254740992.0 - 0.5
    return state
