"""Working sets: for each step of a chain, the few states that may have weight."""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded
from .pricing import max_marginals, pass_backward, pass_forward

# The first counts[t] entries of states[t] are the states of step t, in ascending order. ``where`` (T, M) is the place
# of a state in its working set, or -1.
WorkingSets = namedtuple("WorkingSets", ["states", "counts", "where"])

# Sweeps that guess the first working sets, and the share of a response. More sweeps hardly improve the guess, and full
# responses end farther from the solution. Chosen by the time of random chains, as is the next one.
_SWEEPS, _SHARE = 3, 0.5
# difference of max-marginals; a state this close to the best of its step enters with the best
_NEAR = 0.2


@kernel
def new_sets(n_steps, n_states):
    """Allocate working sets."""
    shape = (n_steps, n_states)
    return WorkingSets(np.empty(shape, np.int64), np.empty(n_steps, np.int64), np.empty(shape, np.int64))


@kernel
def choose_states(is_in, sets):
    """Write the working sets from a mask (T, M)."""
    for t in range(is_in.shape[0]):
        count = 0
        for i in range(is_in.shape[1]):
            sets.where[t, i] = -1
            if is_in[t, i]:
                sets.states[t, count], sets.where[t, i] = i, count
                count += 1
        sets.counts[t] = count


@kernel
def next_part(counts, first):
    """Return the first step of the next part from step `first` on, and the step after its last; T for none.

    A part is a run of steps with several states.
    """
    n_steps = counts.shape[0]
    start = first
    while start < n_steps and counts[start] == 1:
        start += 1
    stop = start
    while stop < n_steps and counts[stop] > 1:
        stop += 1
    return start, stop


@kernel
def choose_with_padding(priced, is_in, sets):
    """Choose working sets from a mask, and fill the padding of steps with several states with their best other states.

    These cost little, and may be among those that have weight.
    """
    choose_states(is_in, sets)
    n_steps, n_states = is_in.shape
    for t in range(n_steps):
        if sets.counts[t] > 1:
            for _ in range(sets.counts[t], min(n_states, padded(sets.counts[t]))):
                best, best_state = -np.inf, np.int64(-1)
                for i in range(n_states):
                    if not is_in[t, i] and priced[t, i] > best:
                        best, best_state = priced[t, i], i
                if best_state >= 0:
                    is_in[t, best_state] = True
    choose_states(is_in, sets)


@kernel
def choose_first_states(nodes, u, additional, dims, before, after, sets):
    """Choose the first working sets by sweeps in which each step responds to the others; return if a path is allowed.

    The sweeps need not reach the solution. But the states to which they give weight, and those on the best paths, are
    nearly those of the solution.

    Parameters
    ----------
    nodes, u : arrays (T, P)
        Scores of the nodes, and zeros, which are restored.
    additional, dims
        As in a MAP oracle.
    before, after : arrays (T, M)
        Work arrays; `before` gets the max-marginals after the sweeps.
    sets : WorkingSets
        Gets the working sets.
    """
    n_steps, n_states = dims[0], dims[1]
    pass_forward(nodes, u, additional, dims, 0.0, before, after)
    feasible = False
    for i in range(n_states):
        feasible |= before[n_steps - 1, i] + nodes[n_steps - 1, i] > -np.inf
    if not feasible:
        return False
    for _ in range(_SWEEPS):
        pass_backward(nodes, u, additional, dims, _SHARE, before, after)
        pass_forward(nodes, u, additional, dims, _SHARE, before, after)
    best = max_marginals(nodes, u, additional, dims, before, after)
    is_in = np.zeros((n_steps, n_states), np.bool_)
    for t in range(n_steps):
        for i in range(n_states):
            is_in[t, i] = u[t, i] > 0.0 or before[t, i] >= best - _NEAR
            u[t, i] = 0.0
    choose_with_padding(before, is_in, sets)
    return True


@kernel
def _best_of_step(priced, where):
    """Return the best max-marginal of a step's working set, and that of all its other states."""
    known, missing = -np.inf, -np.inf
    for i in range(priced.shape[0]):
        if where[i] >= 0:
            known = max(known, priced[i])
        else:
            missing = max(missing, priced[i])
    return known, missing


@kernel
def let_states_enter(priced, u, tolerance, shrinks, sets, changed):
    """Change the working sets of all steps whose best state is missing; return whether there is such a step.

    Parameters
    ----------
    priced : array (T, M)
        Max-marginals under ``nodes - u``.
    u : array (T, P)
    tolerance : float
        The difference that rounding can explain.
    shrinks : bool
        Whether states leave that have no weight and are far below the best.
    sets : WorkingSets
    changed : bool array (T,)
        Gets the steps whose working sets have changed.
    """
    n_steps, n_states = priced.shape
    is_in, found = np.zeros((n_steps, n_states), np.bool_), False
    for t in range(n_steps):
        known, missing = _best_of_step(priced[t], sets.where[t])
        changed[t] = missing > known + tolerance
        found |= changed[t]
        for i in range(n_states):
            is_in[t, i] = sets.where[t, i] >= 0
            if changed[t]:
                is_near = priced[t, i] > known - _NEAR
                is_in[t, i] = is_near or (is_in[t, i] and (u[t, i] > 0.0 or not shrinks))
    if found:
        choose_with_padding(priced, is_in, sets)
    return found


@kernel
def has_tied_states(priced, tolerance, sets):
    """Tell whether a state outside of the working sets is on a path that ties with those with weight."""
    for t in range(priced.shape[0]):
        known, missing = _best_of_step(priced[t], sets.where[t])
        if missing >= known - tolerance:
            return True
    return False
