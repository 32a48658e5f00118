"""Gibbs marginals and samples of dynamic programs, from the hyperarcs that `entering` lists; see `derivations.py`.

If the tables that `entering` reads hold log-sums in place of maxima, the hyperarcs that enter a node are the summands
of its entry. So a sample takes one of them in proportion to its exponential, and the marginals distribute the
probability of each node over them [1]_.

References
----------
.. [1] Eisner. Inside-Outside and Forward-Backward Algorithms Are Just Backprop. Workshop on Structured Prediction for
   NLP, 2016.

Used by `structures`.
"""

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_OUT,
    INTS,
    PARTS_2D_OUT,
    as_oracle,
    entry,
    kernel,
    new_floats,
)
from .derivations import (
    ADDITIONAL,
    COUNT,
    ENTERING,
    NONE,
    OTHER,
    OTHER_ADDITIONAL,
    PART,
    SINK,
    STEP,
    TAIL,
    follow,
    new_space,
)
from .draw import fill_random
from .sparsemax import highest


@kernel
def _exponentiate(totals):
    """Replace numbers by the exponentials of their differences from the largest one.

    Returns the logarithm of the sum of the exponentials of all, and the sum of the new numbers.
    """
    top = highest(totals)
    if top == -np.inf:
        return top, 1.0
    norm = 0.0
    for a in range(totals.shape[0]):
        totals[a] = np.exp(totals[a] - top)
        norm += totals[a]
    return top + np.log(norm), norm


@kernel
def _pass_on(arcs, a, probability, passed, marginals, expected):
    """Add the probability of a hyperarc to those of its tails, its parts and its additional parts."""
    for column in (TAIL, OTHER):
        if arcs[a, column] != NONE:
            passed[arcs[a, column]] += probability
    for c in range(arcs[a, COUNT]):
        marginals[arcs[a, PART] + c * arcs[a, STEP]] += probability
    for column in (ADDITIONAL, OTHER_ADDITIONAL):
        if arcs[a, column] != NONE:
            expected[arcs[a, column]] += probability


def marginals_by(name, entering, n_nodes_of):
    """Make the marginal oracle of a dynamic program.

    Its `work` is for the expectations, then the table that `entering` reads, with node k at ``k - 1``, and then one
    number more than there are nodes.

    Parameters
    ----------
    name : str
        The name of the oracle in the module of `entering`.
    entering : Entry
        See `ENTERING_SIGNATURE`. Tails have smaller numbers than heads, except the final node. Every other node with a
        derivation has hyperarcs.
    n_nodes_of : kernel
        ``n_nodes_of(dims)`` is the number of nodes without the final one.
    """
    ways = kernel(entering.__wrapped__)

    # A kernel of its own, because a function that makes arrays counts references.
    @kernel
    def sum_and_pass(problem, space, passed, marginals, expected):
        """Fill the table with log-sums, then distribute the probability of each node; return log Z."""
        scores, additional, dims, table = problem
        arcs, totals, _ = space
        n_nodes = passed.shape[0] - 1
        log_partition = -np.inf
        # Nodes 1 to n_nodes upwards, then the final node and the others downwards. One loop, so that `ways` is compiled
        # into it once.
        for k in range(2 * n_nodes + 1):
            is_inside = k < n_nodes
            node = k + 1 if is_inside else (2 * n_nodes + 1 - k) % (n_nodes + 1)
            if not (is_inside or passed[node] > 0.0):
                continue
            n = ways(scores, additional, dims, table, node, arcs, totals)
            total, norm = _exponentiate(totals[:n])
            if is_inside:
                table[node - 1] = total
                continue
            if node == SINK:
                log_partition = total
                if total == -np.inf:
                    break
            rate = passed[node] / norm
            for a in range(n):
                _pass_on(arcs, a, rate * totals[a], passed, marginals, expected)
        return log_partition

    def marginals_of(scores, additional, dims, work, slots, additional_slots):
        """Compute the probabilities of the parts and the expected counts of additional parts; return log Z."""
        n_parts = scores.shape[0]
        n_keys = n_parts + additional.shape[0]
        n_nodes = n_nodes_of(dims)
        work[:] = 0.0
        passed = work[n_keys + n_nodes : n_keys + 2 * n_nodes + 1]
        passed[SINK] = 1.0
        problem = scores, additional, dims, work[n_keys : n_keys + n_nodes]
        return sum_and_pass(problem, new_space(n_parts + n_nodes), passed, work[:n_parts], work[n_parts:n_keys])

    marginals_of.__name__ = name
    marginals_of.__module__ = entering.__module__
    return as_oracle(marginals_of)


@kernel
def _place_of(weights, total):
    """Return the first place at which the cumulative sum of weights exceeds `total`, or the last weight above 0."""
    place = np.int64(0)
    for a in range(weights.shape[0]):
        if weights[a] > 0.0:
            place = a
            total -= weights[a]
            if total < 0.0:
                break
    return place


@kernel
def _draw_derivation(entering, problem, space, seed, uniform, slots):
    """Draw a structure; return the next seed. `uniform` has space for a random number."""
    scores, additional, dims, table = problem
    arcs, totals, stack = space
    slots[:] = -1
    stack[0] = SINK
    depth = np.int64(1)
    while depth > 0:
        depth -= 1
        n = entering(scores, additional, dims, table, stack[depth], arcs, totals)
        if n > 0:
            _, norm = _exponentiate(totals[:n])
            seed = fill_random(seed, uniform)
            drawn = _place_of(totals[:n], norm * (uniform[0] + 0.5))
            depth = follow(arcs, drawn, stack, depth, slots)
    return seed


@entry(types.void(ENTERING, FLOATS, FLOATS, INTS, FLOATS_OUT, types.uint64, PARTS_2D_OUT))
def draw_derivations(entering, scores, additional, dims, table, seed, slots):
    """Draw structures from the Gibbs distribution, from the final node back.

    Parameters
    ----------
    entering : see `ENTERING_SIGNATURE`
    scores, additional, dims : arrays
        As of the oracle.
    table : array
        The `work` that `entering` reads, with log-sums.
    seed : uint64
        Not 0.
    slots : int32 array of shape (n_draws, n_slots)
        Gets the unary parts.
    """
    problem = scores, additional, dims, table
    space = new_space(scores.shape[0] + table.shape[0])
    uniform = new_floats(np.int64(1))
    for i in range(slots.shape[0]):
        seed = _draw_derivation(entering, problem, space, seed, uniform, slots[i])


@kernel
def _fill_sums(entering, scores, additional, dims, table, space):
    arcs, totals, _ = space
    for k in range(table.shape[0]):
        n = entering(scores, additional, dims, table, k + 1, arcs, totals)
        table[k], _ = _exponentiate(totals[:n])


@entry(types.void(ENTERING, FLOATS, FLOATS, INTS, FLOATS_OUT))
def fill_sums(entering, scores, additional, dims, table):
    """Fill in the log-sums of nodes 1 and on, each of which has larger numbers than its tails; see `marginals_by`."""
    _fill_sums(entering, scores, additional, dims, table, new_space(scores.shape[0] + table.shape[0]))
