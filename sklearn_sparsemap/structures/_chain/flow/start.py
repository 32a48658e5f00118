"""A forest to start from, and the states that may matter."""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.sparsemax import highest
from .pivots import enter
from .pricing import all_states, price_backward, price_forward, price_of

# Sweeps that guess the solution, and the step size of a response. More sweeps hardly improve the guess, and full
# responses end farther from the solution. Chosen by the time of random chains, as are the next two.
_SWEEPS, _SHARE = 2, 0.5
# difference of prices; a state this close to the best path is a candidate, and may be in the first forest
_NEAR = 0.2
# number of states up to which all are candidates
_FEW = 8


@kernel
def sweep(chain, forest, prices):
    """Guess the flow through the nodes by sweeps in which each step responds to the others.

    Returns the reduced score of the best path, -inf if none is allowed. The sweeps need not reach the solution. But the
    states to which they give weight are nearly those of the solution.
    """
    every = all_states(chain.n_steps, chain.n_states)
    price_forward(chain, forest, every, prices, 0.0)
    last = (chain.n_steps - 1) * chain.width
    if highest(prices.ahead[last : last + chain.n_states]) == -np.inf:
        return -np.inf
    for _ in range(_SWEEPS):
        price_backward(chain, forest, every, prices, _SHARE)
        price_forward(chain, forest, every, prices, _SHARE)
    price_backward(chain, forest, every, prices, 0.0)
    return highest(prices.behind[: chain.n_states])


@kernel
def add_candidates(chain, forest, prices, best, candidates):
    """Add to the candidates all states whose price is near that of the best path."""
    for t in range(chain.n_steps):
        is_in = np.zeros(chain.n_states, np.bool_)
        for k in range(candidates.counts[t]):
            is_in[candidates.states[t, k]] = True
        for i in range(chain.n_states):
            node = t * chain.width + i
            if not (is_in[i] or forest.on[node]) and price_of(chain, forest, prices, node) >= best - _NEAR:
                candidates.states[t, candidates.counts[t]] = i
                candidates.counts[t] += 1


@kernel
def first_candidates(chain, forest, prices, best):
    """Return the first candidates, after sweeps with the reduced score `best` of the best path."""
    candidates = all_states(chain.n_steps, chain.n_states)
    if chain.n_states > _FEW:
        for t in range(chain.n_steps):
            candidates.counts[t] = 0
        add_candidates(chain, forest, prices, best, candidates)
    return candidates


@kernel
def plant(chain, forest, candidates, prices, best):
    """Fill the forest with the candidates that have weight, each with the best path through it."""
    for t in range(chain.n_steps):
        for k in range(candidates.counts[t]):
            i = candidates.states[t, k]
            node = t * chain.width + i
            is_near = not forest.on[node] and price_of(chain, forest, prices, node) >= best - _NEAR
            if is_near and forest.u[node] > 0.0:
                enter(chain, forest, candidates, prices, t, i)
    for node in range(forest.u.shape[0]):
        forest.u[node] = 0.0
