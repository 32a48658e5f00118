"""The k best derivations of a dynamic program: a best-first search over deviations from the best derivation.

The MAP oracle of a dynamic program fills a table with the score of the best derivation of each node. A structure
describes the hyperarcs: `entering` lists those that enter a node, with the best score of the node by each of them. The
best derivation takes the best hyperarc everywhere. Every other one is given by its *deviations*: the nodes at which it
takes another hyperarc. Its parent is the derivation without the last deviation, in the order in which nodes are
visited. The table has the best way to continue after a deviation. So the score of a candidate is known without a
search, and each further structure costs one walk over its own nodes. For paths, deviations are the sidetracks of [1]_.
The lazy algorithm of [2]_ keeps a list of the best derivations of each node that it visits. This search keeps none, so
its memory does not grow with the number of nodes times k.

References
----------
.. [1] Eppstein. Finding the k Shortest Paths. SIAM Journal on Computing, 1998.
.. [2] Huang and Chiang. Better k-best Parsing. IWPT 2005.

Used by `structures` and `inside_outside.py`.
"""

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_OUT,
    INTS,
    INTS_2D_OUT,
    INTS_OUT,
    ORACLE,
    Entry,
    FirstClass,
    entry,
    kernel,
    new_constants,
    new_floats,
    new_ints,
    new_parts,
)
from .best_first import (
    FIRST_ROWS,
    LISTS,
    N_LEFT,
    choices_of,
    keep,
    new_lists,
    new_queue,
    pop,
    push,
)
from .loops import PROBLEMS, pour

# The signature of `entering`: int64(scores, additional, dims, work, node, arcs, totals).
#
# `work` is that of the oracle, after its call. SINK is the final node, all others are positive ints. The function
# returns the number of hyperarcs that enter `node`; a node without any is a source. For each of them it writes the best
# score of the node by this hyperarc, up to a number that is the same for all of them, and a row of `arcs`: up to two
# tails (or NONE), and the parts of the hyperarc. There are COUNT of them. The first one is PART, in the slot SLOT, and
# each next one is STEP parts later, in the next slot. A derivation has no node twice, except sources. For marginals,
# rows also have up to two additional parts (or NONE), and scores are exact; see `inside_outside.py`.
ENTERING_SIGNATURE = types.int64(FLOATS, FLOATS, INTS, FLOATS_OUT, types.int64, INTS_2D_OUT, FLOATS_OUT)
ENTERING = FirstClass(ENTERING_SIGNATURE)
SINK, NONE = 0, -1
TAIL, OTHER, SLOT, PART, COUNT, STEP, ADDITIONAL, OTHER_ADDITIONAL = range(8)


def entering_arcs(function):
    """Make a module-level function the description of a dynamic program; see `ENTERING_SIGNATURE`."""
    return Entry(function, ENTERING_SIGNATURE)


@kernel
def put_arc(arcs, n, tail, other, slot, part):
    """Write row n of `arcs`, a hyperarc with one part, or without parts if `slot` is NONE."""
    arcs[n, TAIL], arcs[n, OTHER], arcs[n, SLOT], arcs[n, PART] = tail, other, slot, part
    arcs[n, COUNT] = slot != NONE
    arcs[n, STEP] = 0
    arcs[n, ADDITIONAL] = arcs[n, OTHER_ADDITIONAL] = NONE


@kernel
def new_space(n_entries):
    """Return the last two arguments of `entering`, and a stack, given the number of parts and entries of the table."""
    # No node has more entering hyperarcs, and no derivation more nodes.
    n = n_entries + 2
    return np.empty((n, 8), np.int64), new_floats(n), new_ints(n)


@kernel
def follow(arcs, a, stack, depth, slots):
    """Write the parts of a hyperarc, and push its tails; return the depth of the stack."""
    for column in range(TAIL, SLOT):
        if arcs[a, column] != NONE:
            stack[depth] = arcs[a, column]
            depth += 1
    for c in range(arcs[a, COUNT]):
        slots[arcs[a, SLOT] + c] = arcs[a, PART] + c * arcs[a, STEP]
    return depth


@kernel
def _best_arc(totals, n):
    best = np.int64(0)
    for a in range(1, n):
        best = a if totals[a] > totals[best] else best
    return best


@kernel
def _walk(entering, problem, space, deviations, value, number, needed, queue, slots):
    """Write the parts of a derivation, and push the derivations with one more deviation; return the queue.

    Parameters
    ----------
    entering : see `ENTERING_SIGNATURE`
    problem : tuple
        The first four arguments of `entering`.
    space : tuple of arrays
        See `new_space`.
    deviations : int array
        The nodes and the hyperarcs taken there; see `choices_of`.
    value : float
        The score of the derivation.
    number : int
        The number of better derivations.
    needed : int
        The number of further derivations that are needed.
    queue : tuple of arrays
        See `best_first.py`.
    slots : int32 array
        Gets the parts.
    """
    scores, additional, dims, work = problem
    arcs, totals, stack = space
    values, rows = queue
    depth = np.int64(1)
    at = np.int64(0)
    stack[0] = SINK
    for s in range(slots.shape[0]):
        slots[s] = -1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        n = entering(scores, additional, dims, work, node, arcs, totals)
        taken = _best_arc(totals, n)
        if at < deviations.shape[0]:
            if deviations[at] == node:
                taken = deviations[at + 1]
                at += 2
        elif needed > 0:
            for a in range(n):
                total = value + (totals[a] - totals[taken])
                if a != taken and total > values[0]:
                    values, rows = push(values, rows, needed, total, number, node, a)
        if n > 0:
            depth = follow(arcs, taken, stack, depth, slots)
    return values, rows


@entry(LISTS(ORACLE, ENTERING, PROBLEMS, INTS, INTS_OUT, types.int64, types.int64))
def best_derivations(oracle, entering, problems, limit, counts, start, stop):
    """Find the k best structures of problems start..stop.

    Parameters
    ----------
    oracle : MAP oracle
    entering : see `ENTERING_SIGNATURE`
    problems : Problems
    limit : int array of shape (1,)
        k; the search ends soon if it is set to zero.
    counts : int array of shape (n_problems,)
        Gets the number of structures of each problem.
    start, stop : int

    Returns
    -------
    slots, values : arrays
        Those of all structures, one after the other.
    """
    lists = new_lists()
    candidate = new_ints(np.int64(3))
    for i in range(start, stop):
        scores = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        work = new_constants(problems.sizes[i, 2], 0.0)
        slots = new_parts(problems.sizes[i, 0])
        problem = scores, additional, problems.dims[i], work
        space = new_space(scores.shape[0] + work.shape[0])
        best = oracle(scores, additional, problems.dims[i], work, slots, new_parts(problems.sizes[i, 1]))
        queue = new_queue(np.int64(FIRST_ROWS), -np.inf)
        found = new_ints(np.int64(48))
        n = np.int64(0)
        if best > -np.inf:
            queue = push(queue[0], queue[1], limit[0], best, np.int64(-1), np.int64(-1), np.int64(-1))
        while n < limit[0] and queue[1][0, N_LEFT] > 0:
            value = pop(queue[0], queue[1], candidate)
            needed = limit[0] - n - 1
            queue = _walk(entering, problem, space, choices_of(found, candidate), value, n, needed, queue, slots)
            found, _ = pour(found, 3 * n, candidate)
            lists = keep(lists, slots, value)
            n = n + 1
        counts[i] = n
    return lists[0][: lists[2]], lists[1][: lists[3]]
