"""The linear relaxation of MAP by the proximal point method: LP-SparseMAP under large scores, again and again.

The quadratic term is centred at the last marginals. Each step then gets nearer to a solution of the linear programme,
and is one as soon as nothing moves that could go farther; which is soon, for the scores grow from step to step.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import kernel

# By how much scores grow in a step, and until when; and most steps.
_GROWTH, _MOST_GROWTH = 3.0, 1e6
MOST_STEPS = 50

# `centre` of the quadratic term; `growth` of the scores since the first step; `hidden` is what the quadratic term can
# hide of the linear programme's value, under the last scores. The last two are arrays of one number.
Proximal = namedtuple("Proximal", ["centre", "growth", "hidden"])


@kernel
def new_proximal(n):
    """Make the state for samples of `n` variables."""
    return Proximal(np.zeros(n), np.ones(1), np.zeros(1))


@kernel
def begin(proximal):
    """Begin with the first step of a sample, centred at zero."""
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
        Those of the step, centre included; changed in place.
    u : array of shape (n,)
        Its marginals.
    gap : float
        By how much these may be off the optimum of the step.
    goal : float
        How much of the linear programme's value may be hidden, under the scores of the first step.
    may_go_on : bool

    Returns
    -------
    factor : float
        By which all scores and multipliers grow; 0 if there is no other step.
    """
    centre, growth, hidden = proximal.centre, proximal.growth, gap
    for i in range(u.shape[0]):
        # The gradient of the quadratic term, times how far any other point is away.
        moved = u[i] - centre[i]
        hidden += moved * (1.0 - u[i]) if moved > 0.0 else -moved * u[i]
    proximal.hidden[0] = hidden / growth[0]
    if not may_go_on or hidden <= goal * growth[0]:
        return 0.0
    factor = _GROWTH if growth[0] < _MOST_GROWTH else 1.0
    for i in range(u.shape[0]):
        scores[i] = factor * (scores[i] - centre[i]) + u[i]
        centre[i] = u[i]
    growth[0] *= factor
    return factor
