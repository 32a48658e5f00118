"""A forest to start from, and the states that may matter.

Used by `solver.py`.
"""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.sparsemax import highest
from .forest import into, link, out_of, switch_on
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


@kernel
def _arc_of(n_states, slot, part):
    """Return the step, the first and the second state of an arc; see `_numerics/facets.py`."""
    return slot // n_states, slot % n_states, part % n_states


@kernel
def are_allowed(chain, slots, parts):
    """Return whether no arc of a solution, nor a node at its ends, is forbidden."""
    for r in range(slots.shape[0]):
        t, i, j = _arc_of(chain.n_states, slots[r], parts[r])
        gain = chain.gains[t * chain.stride + i * chain.width + j]
        if gain + chain.scores[t * chain.width + i] + chain.scores[(t + 1) * chain.width + j] == -np.inf:
            return False
    return True


@kernel
def link_arcs(chain, forest, slots, parts):
    """Fill an empty forest with the arcs of a solution; return their number."""
    width = chain.width
    n_arcs = 0
    while n_arcs < slots.shape[0] and slots[n_arcs] >= 0:
        t, i, j = _arc_of(chain.n_states, slots[n_arcs], parts[n_arcs])
        if not forest.on[t * width + i]:
            switch_on(chain, forest, t, i)
        if not forest.on[(t + 1) * width + j]:
            switch_on(chain, forest, t + 1, j)
        link(forest, into(width, t + 1) + j, out_of(width, t) + i)
        n_arcs += 1
    return n_arcs


@kernel
def planted_states(chain, forest):
    """Return the first candidates if the forest is that of similar scores: its states, or all if these are few."""
    candidates = all_states(chain.n_steps, chain.n_states)
    if chain.n_states > _FEW:
        for t in range(chain.n_steps):
            candidates.counts[t] = 0
            for i in range(chain.n_states):
                if forest.on[t * chain.width + i]:
                    candidates.states[t, candidates.counts[t]] = i
                    candidates.counts[t] += 1
    return candidates
