"""Prices of the nodes of a chain: the reduced score, under ``scores - u``, of the best path through each.

For nodes with arcs, see `forest.py`, potentials stand for the best ways: if the flow is optimal, they are equal.

Used by `pivots.py`, `solver.py` and `start.py`.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, larger, largest, load, pick, spread, store
from ...._numerics.sparsemax import sparsemax
from .forest import into, out_of

# The first counts[t] entries of states[t] are the states of step t that may enter.
Candidates = namedtuple("Candidates", ["states", "counts"])
# Reduced scores of the best ways to and from each node (T P). ``before`` ends at a node and excludes it, ``ahead``
# includes it; ``after`` begins at a node and excludes it, ``behind`` includes it. For nodes with arcs, ``ahead`` and
# ``behind`` are potentials. ``best_arc`` is the largest reduced gain of an arc of each layer between nodes with arcs.
Prices = namedtuple("Prices", ["before", "ahead", "after", "behind", "best_arc"])


@kernel
def all_states(n_steps, n_states):
    """Return all states as candidates."""
    states = np.empty((n_steps, n_states), np.int64)
    counts = np.empty(n_steps, np.int64)
    for t in range(n_steps):
        counts[t] = n_states
        for i in range(n_states):
            states[t, i] = i
    return Candidates(states, counts)


@kernel
def new_prices(chain):
    """Allocate prices."""
    n = chain.n_steps * chain.width
    return Prices(np.empty(n), np.empty(n), np.zeros(n), np.empty(n), np.empty(chain.n_steps))


@kernel
def _respond(chain, forest, prices, t, share):
    """Move `u` of a step towards the projection of its prices with fixed other steps; `share` is the step size."""
    first, n_states = t * chain.width, chain.n_states
    wanted = np.empty(n_states)
    others = np.empty(n_states)
    for i in range(n_states):
        node = first + i
        others[i] = prices.before[node] + prices.after[node] + chain.scores[node]
    sparsemax(others, np.inf, wanted)
    for i in range(n_states):
        forest.u[first + i] += share * (wanted[i] - forest.u[first + i])


@kernel
def _split(chain, forest, candidates, t, with_arcs, without):
    """List the states of a step with arcs, and the candidates without; return both numbers.

    Parameters
    ----------
    chain : Chain
    forest : Forest
    candidates : Candidates
    t : int
        The step.
    with_arcs, without : int arrays
        Get the states.
    """
    first = t * chain.width
    n_with = np.int64(0)
    n_without = np.int64(0)
    for k in range(first, first + forest.n_on[t]):
        i = forest.states[k]
        if forest.on[first + i]:
            with_arcs[n_with] = i
            n_with += 1
    for k in range(candidates.counts[t]):
        i = candidates.states[t, k]
        if not forest.on[first + i]:
            without[n_without] = i
            n_without += 1
    return n_with, n_without


@kernel
def _raise_to_best(chain, table, first, states, n, prices, column, best):
    """Return the larger one of `best` and the best ways over the arcs from some states to four states.

    Parameters
    ----------
    chain : Chain
    table : int
        The beginning of the layer's arcs in the gains.
    first : int
        The first node of the earlier step.
    states : int array
        States of the earlier step, of which the first `n` are used.
    n : int
    prices : Prices
    column : int
        The first of the four states.
    best : four floats
    """
    for k in range(n):
        row = table + states[k] * chain.width + column
        best = larger(best, load(chain.gains, row) + pick(prices.ahead, first + states[k]))
    return best


@kernel
def price_forward(chain, forest, candidates, prices, share):
    """Compute the prices `before`, `ahead` and `best_arc`.

    Parameters
    ----------
    chain : Chain
    forest : Forest
    candidates : Candidates
    prices : Prices
    share : float
        Step size with which each step responds to the others in turn, see `_respond`; 0 for no responses.
    """
    width = chain.width
    known = np.empty(width)
    with_arcs = np.empty(width, np.int64)
    without = np.empty(width, np.int64)
    n_with = np.int64(0)
    n_without = np.int64(0)
    for t in range(chain.n_steps):
        first = t * width
        if t == 0:
            for k in range(width):
                prices.before[k] = -forest.potential[width + k]
        else:
            table, earlier = (t - 1) * chain.stride, first - width
            for p in range(0, width, WIDTH):
                best = spread(-np.inf)
                best = _raise_to_best(chain, table, earlier, with_arcs, n_with, prices, p, best)
                store(known, p, best)
                best = _raise_to_best(chain, table, earlier, without, n_without, prices, p, best)
                store(prices.before, first + p, best)
        if share > 0.0:
            _respond(chain, forest, prices, t, share)
        n_with, n_without = _split(chain, forest, candidates, t, with_arcs, without)
        top = -np.inf
        for k in range(n_with):
            i = with_arcs[k]
            prices.ahead[first + i] = forest.potential[out_of(width, t) + i]
            top = max(top, known[i] + forest.potential[into(width, t) + i])
        prices.best_arc[t] = top
        for k in range(n_without):
            node = first + without[k]
            prices.ahead[node] = prices.before[node] + (chain.scores[node] - forest.u[node])


@kernel
def price_backward(chain, forest, candidates, prices, share):
    """Compute the prices `after` and `behind`; see `price_forward`."""
    width = chain.width
    for t in range(chain.n_steps - 1, -1, -1):
        first = t * width
        for k in range(first, first + width):
            prices.behind[k] = -np.inf
        for k in range(candidates.counts[t]):
            i = candidates.states[t, k]
            if forest.on[first + i]:
                prices.behind[first + i] = forest.potential[into(width, t) + i]
                continue
            best = 0.0
            if t < chain.n_steps - 1:
                row = t * chain.stride + i * width
                most = spread(-np.inf)
                for p in range(0, width, WIDTH):
                    most = larger(most, load(chain.gains, row + p) + load(prices.behind, first + width + p))
                best = largest(most)
            prices.after[first + i] = best
        if share > 0.0:
            _respond(chain, forest, prices, t, share)
        for k in range(candidates.counts[t]):
            node = first + candidates.states[t, k]
            if not forest.on[node]:
                prices.behind[node] = prices.after[node] + (chain.scores[node] - forest.u[node])


@kernel
def price_of(chain, forest, prices, node):
    """Return the price of a node without arcs: the reduced score of the best path through it."""
    return prices.before[node] + prices.after[node] + (chain.scores[node] - forest.u[node])
