"""The linear relaxation of MAP by the proximal point method: a sequence of LP-SparseMAP problems.

The quadratic term is centred at the marginals of the last step. The steps converge to a solution of the linear
program, and reach it after few steps, because the scores grow from step to step.

Used by `_graphs/tables`, `batch.py` and `small.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import kernel

_GROWTH = 3.0  # factor of the scores from step to step; larger ones need fewer, harder steps
_MAX_GROWTH = 1e6  # the scores grow to at most about this multiple; beyond it, rounding errors dominate
MAX_STEPS = 50  # maximum number of steps

# `centre` of the quadratic term; `growth` of the scores since the first step; `hidden` is a bound of the suboptimality
# in the linear program, under the scores of the first step. The last two are arrays of one number.
Proximal = namedtuple("Proximal", ["centre", "growth", "hidden"])


@kernel
def new_proximal(n):
    """Return the state for samples of `n` variables."""
    return Proximal(np.zeros(n), np.ones(1), np.zeros(1))


@kernel
def begin(proximal):
    """Reset the state for a new sample, with the centre at zero."""
    proximal.centre[:] = 0.0
    proximal.growth[0], proximal.hidden[0] = 1.0, 0.0


@kernel
def grow(array, factor):
    """Multiply an array by a factor."""
    for k in range(array.shape[0]):
        array[k] *= factor


@kernel
def next_step(proximal, scores, u, gap, goal, may_go_on):
    """Compare a step's marginals with the centre; set centre and scores of the next step.

    Parameters
    ----------
    proximal : Proximal
    scores : array of shape (n,)
        The scores of this step, including the centre; changed in place.
    u : array of shape (n,)
        The marginals of this step.
    gap : float
        The duality gap of this step.
    goal : float
        Suboptimality in the linear program, under the scores of the first step, that is small enough.
    may_go_on : bool
        Whether another step is allowed.

    Returns
    -------
    factor : float
        Factor of all scores and multipliers in the next step; 0 if there is none.
    """
    centre, growth, hidden = proximal.centre, proximal.growth, gap
    for i in range(u.shape[0]):
        # The largest change of the linear objective that the gradient of the quadratic term can balance.
        moved = u[i] - centre[i]
        hidden += moved * (1.0 - u[i]) if moved > 0.0 else -moved * u[i]
    proximal.hidden[0] = hidden / growth[0]
    if not may_go_on or hidden <= goal * growth[0]:
        return 0.0
    factor = _GROWTH if growth[0] < _MAX_GROWTH else 1.0
    for i in range(u.shape[0]):
        scores[i] = factor * (scores[i] - centre[i]) + u[i]
        centre[i] = u[i]
    growth[0] *= factor
    return factor
