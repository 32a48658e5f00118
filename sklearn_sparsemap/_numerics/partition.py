"""The k best structures by a partition, for any MAP oracle (Lawler 1972; Murty 1968 for matchings).

The structures below the best one of a set are divided into sets: for each of its parts that is not required, those
that have the parts before it, and lack it. If the number of parts varies, also those that have all of its parts and a
further one. The oracle finds the best structure of each set, by scores that require and forbid parts. A candidate is
the number of a set below a structure of the list, from which its required and forbidden parts follow. So only the
structures of the list are kept.

Used by `structures`.
"""

import numpy as np
from numba import types

from .._core.jit import INTS, INTS_OUT, ORACLE, copy_into, entry, kernel, new_constants, new_floats, new_ints, new_parts
from .best_first import FIRST_ROWS, LISTS, N_LEFT, PARENT, choices_of, keep, new_lists, new_queue, pop, push
from .loops import PROBLEMS, pour

_FREE, _REQUIRED, _FORBIDDEN = 0, 1, 2


@kernel
def _bonus(scores, additional, n_additional_slots):
    """Return a number that exceeds any difference of the scores of two structures."""
    total, highest = 0.0, 0.0
    for score in scores:
        total += abs(score) if score > -np.inf else 0.0
    for score in additional:
        highest = max(highest, abs(score)) if score > -np.inf else highest
    return 1.0 + 2.0 * (total + max(n_additional_slots, 1) * highest)


@kernel
def _decide_part(part_scores, state, choice_of, part, is_required, bonus):
    """Forbid a part, or require it: by forbidding the others at its place or, without places, by a bonus."""
    state[part] = _REQUIRED if is_required else _FORBIDDEN
    if not is_required:
        part_scores[part] = -np.inf
    elif choice_of[part] < 0:
        part_scores[part] += bonus
    else:
        for other in range(part_scores.shape[0]):
            if choice_of[other] == choice_of[part] and other != part:
                part_scores[other] = -np.inf


@kernel
def _free_parts(slots, state, order, fixed_size):
    """Write the parts that number the sets below a structure: its free parts and, if the number varies, the others.

    Return the number of its free parts, and the number of all.
    """
    n = np.int64(0)
    for s in range(slots.shape[0]):
        if slots[s] >= 0 and state[slots[s]] == _FREE:
            order[n] = slots[s]
            n += 1
    n_inside = n
    for p in range(n_inside):
        state[order[p]] = _REQUIRED
    for part in range(0 if fixed_size else state.shape[0]):
        if state[part] == _FREE:
            order[n] = part
            n += 1
    for p in range(n_inside):
        state[order[p]] = _FREE
    return n_inside, n


@kernel
def _enter_set(choices, all_slots, n_slots, problem, fixed_size, bonus):
    """Change the scores to those of the set that the choices of `choices_of` lead to."""
    scores, _, _, _, choice_of, own, state, order = problem
    copy_into(own, scores)
    for part in range(state.shape[0]):
        state[part] = _FREE
    for c in range(0, choices.shape[0], 2):
        chosen, at = choices[c], choices[c + 1] * n_slots
        n_inside, _ = _free_parts(all_slots[at : at + n_slots], state, order, fixed_size)
        for p in range(chosen + 1):
            _decide_part(own, state, choice_of, order[p], (p < n_inside) == (p < chosen), bonus)


@kernel
def _best_of_set(oracle, problem, slots, additional_slots, bonus):
    """Find the best structure of a set; return its score, -inf if the set is empty."""
    scores, additional, dims, work, _, own, state, _ = problem
    value = oracle(own, additional, dims, work, slots, additional_slots)
    n_required = np.int64(0)
    total = 0.0
    if value == -np.inf:
        return value
    for part in range(state.shape[0]):
        n_required += state[part] == _REQUIRED
    n_missing = n_required
    for part in slots:
        if part >= 0:
            total += scores[part]
            n_missing -= state[part] == _REQUIRED
    # With bonuses, the oracle returns a structure even for an empty set; it then lacks a required part.
    if n_missing > 0:
        return -np.inf
    return value - bonus * n_required if additional.shape[0] else total


@kernel
def _push_sets(oracle, problem, slots, additional_slots, fixed_size, bonus, number, limit, queue):
    """Push the best structures of the sets below a structure; return the queue."""
    _, _, _, _, choice_of, own, state, order = problem
    values, rows = queue
    tried = new_parts(slots.shape[0])
    n_inside, n = _free_parts(slots, state, order, fixed_size)
    for p in range(n):
        kept = own[order[p]]
        _decide_part(own, state, choice_of, order[p], p >= n_inside, bonus)
        value = _best_of_set(oracle, problem, tried, additional_slots, bonus)
        needed = limit[0] - number - 1
        if value > values[0] and needed > 0:
            values, rows = push(values, rows, needed, value, number, p, number)
        own[order[p]] = kept
        _decide_part(own, state, choice_of, order[p], p < n_inside, bonus)
    return values, rows


@entry(LISTS(ORACLE, PROBLEMS, INTS, types.boolean, INTS, INTS_OUT, types.int64, types.int64))
def best_by_partition(oracle, problems, choice_of, fixed_size, limit, counts, start, stop):
    """Find the k best structures of problems start..stop.

    Parameters
    ----------
    oracle : MAP oracle
    problems : Problems
    choice_of : int array, like ``problems.scores``
        The choice that each part belongs to, or -1; see `Structure.exclusive_parts`.
    fixed_size : bool
        Whether all structures of a problem have the same number of parts.
    limit, counts, start, stop
        As in `derivations.best_derivations`.

    Returns
    -------
    slots, values : arrays
        Those of all structures, one after the other.
    """
    lists = new_lists()
    candidate = new_ints(np.int64(3))
    for i in range(start, stop):
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        scores, n_parts, n_slots = problems.scores[first:last], last - first, problems.sizes[i, 0]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        work = new_constants(problems.sizes[i, 2], 0.0)
        additional_slots = new_parts(problems.sizes[i, 1])
        space = new_floats(n_parts), new_ints(n_parts), new_ints(n_parts)
        problem = (scores, additional, problems.dims[i], work, choice_of[first:last], *space)
        bonus = _bonus(scores, additional, problems.sizes[i, 1]) if choice_of[first] < 0 else 0.0
        queue = new_queue(np.int64(FIRST_ROWS), -np.inf)
        found = new_ints(np.int64(48))
        slots = new_parts(n_slots)
        candidate[PARENT] = -1
        n = np.int64(0)
        at = lists[2]
        _enter_set(choices_of(found, candidate), slots, n_slots, problem, fixed_size, bonus)
        best = _best_of_set(oracle, problem, slots, additional_slots, bonus)
        if best > -np.inf:
            queue = push(queue[0], queue[1], limit[0], best, np.int64(-1), np.int64(-1), np.int64(-1))
        while n < limit[0] and queue[1][0, N_LEFT] > 0:
            value = pop(queue[0], queue[1], candidate)
            _enter_set(choices_of(found, candidate), lists[0][at:], n_slots, problem, fixed_size, bonus)
            _best_of_set(oracle, problem, slots, additional_slots, bonus)
            lists = keep(lists, slots, value)
            found, _ = pour(found, 3 * n, candidate)
            if n + 1 < limit[0]:
                queue = _push_sets(oracle, problem, slots, additional_slots, fixed_size, bonus, n, limit, queue)
            n += 1
        counts[i] = n
    return lists[0][: lists[2]], lists[1][: lists[3]]
