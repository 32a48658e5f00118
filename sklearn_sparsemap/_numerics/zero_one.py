"""The best 0-1 assignments under linear constraints: depth-first branch and bound in exact arithmetic.

The objective is a sum of scores of variables and of pairs of literals. The constraints are whole numbers, whose sums
are exact (`_core/whole_rows.py`). A pair of literals p and q with a positive score c is worth at most
``alpha p + (c - alpha) q``, one with a negative score at most ``-alpha (p + q - 1)``, for any alpha between 0 and
abs(c). With multipliers mu of the constraints, the value of each feasible assignment u is therefore at most

    constant + reduced.u,    reduced = scores - A'mu + terms of pairs.

The bound of a node is the maximum of this over its free variables (Lagrangean relaxation). For the multipliers of the
linear relaxation it is the value of the relaxation. Reduced scores are rounded up, and their sums have twice the digits
of a float, so rounding does not make the bound too small.

A node fixes a variable, and then all variables that the constraints decide, or whose other value costs more than is
left to gain (reduced-cost fixing; Balas and Zemel: An Algorithm for Large Zero-One Knapsack Problems, 1980).

Used by `inference`, `structures` and `zero_one_search.py`.
"""

from collections import namedtuple
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_2D,
    FLOATS_2D_OUT,
    FLOATS_OUT,
    INTS,
    INTS_2D,
    INTS_OUT,
    PARTS_2D_OUT,
    by_address,
    copy_into,
    entry,
    kernel,
    new_floats,
    new_ints,
    readonly,
)
from .._core.threads import ends_at, interruptible

FREE = -1
UNLIMITED = 2**62  # operations
# Entries of `counts`, the results of a search.
N_FOUND, IS_COMPLETE, N_OPERATIONS = 0, 1, 2
# Assignments whose value exceeds that of a known one by less than this fraction of it are not searched for.
_TOL = 1e-10
_EPS = 2.0**-52
_SWEEPS = 3  # sweeps of coordinate descent on the multipliers; larger: better bounds, at the cost of a sort per row

# A program: rows as in `WholeRows`; `scores`; pairs by the variables and signs of their ends, and their scores;
# `fixed`, the values of fixed variables, and FREE for the others; `start`, an assignment that is tried first; and
# `multipliers`, first of the rows (positive for the upper bound, negative for the lower one), then alpha of the pairs.
ZeroOne = namedtuple(
    "ZeroOne",
    [
        *("ptr", "variables", "coefs", "low", "high", "scores"),
        *("pair_ends", "pair_signs", "pair_scores", "fixed", "start", "multipliers"),
    ],
)
_TYPES = [INTS, INTS, INTS, INTS, INTS, FLOATS, INTS_2D, FLOATS_2D, FLOATS, INTS, INTS, FLOATS]
_DTYPES = [np.int64 if kind in (INTS, INTS_2D) else np.float64 for kind in _TYPES]
ZERO_ONE = by_address(_TYPES, ZeroOne)

# Entries of `State.sizes`: variables on the trail, saved reduced scores, rows in the queue, operations, and the place
# in `order` before which no variable is free.
_TRAIL, _SAVED, _QUEUE, _OPERATIONS, _FIRST = 0, 1, 2, 3, 4
State = namedtuple(
    "State",
    [
        *("col_ptr", "col_rows", "col_coefs", "slot_ptr", "slots", "largest", "least", "most"),
        *("value", "reduced", "bound", "trail", "saved", "saved_scores", "queue", "queued", "sizes", "order"),
    ],
)


@kernel
def _add(total, x):
    """Add a number to a sum of two floats, a sum and its rounding error."""
    s = total[0] + x
    back = s - total[0]
    total[1] += (total[0] - (s - back)) + (x - back)
    total[0] = s


@kernel
def _positive(x):
    return x if x > 0.0 else 0.0


@kernel
def _heap_sort(keys, order, n):
    """Sort the first `n` entries of `order` by descending keys."""
    for i in range(n):
        order[i] = i
    start, end = n // 2, n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            order[0], order[end] = order[end], order[0]
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and keys[order[child + 1]] < keys[order[child]]:
                child += 1
            if keys[order[root]] <= keys[order[child]]:
                break
            order[root], order[child] = order[child], order[root]
            root = child


@kernel
def _crossing(keys, weights, n, slope):
    """Return the largest key up to which the weights of larger and equal keys sum to at least `slope`; else -inf.

    Both arrays are reordered (quickselect).
    """
    start = np.int64(0)
    stop = n
    before = 0.0
    while stop > start:
        first, last, middle = keys[start], keys[stop - 1], keys[(start + stop) // 2]
        pivot = max(min(first, last), min(max(first, last), middle))
        # Larger keys come first, then those that equal the pivot.
        above, place, below, more, same = start, start, stop, 0.0, 0.0
        while place < below:
            if keys[place] > pivot:
                more += weights[place]
                keys[place], keys[above] = keys[above], keys[place]
                weights[place], weights[above] = weights[above], weights[place]
                above, place = above + 1, place + 1
            elif keys[place] < pivot:
                below -= 1
                keys[place], keys[below] = keys[below], keys[place]
                weights[place], weights[below] = weights[below], weights[place]
            else:
                same += weights[place]
                place += 1
        if before + more >= slope:
            stop = above
        elif before + more + same >= slope:
            return pivot
        else:
            before += more + same
            start = below
    return -np.inf


@kernel
def _improve_multiplier(program, reduced, mu, r, keys, weights):
    """Minimise the bound over the multiplier of one row; return whether it and `reduced` have changed.

    The bound is a convex, piecewise linear function of the multiplier. Its breakpoints are those at which the reduced
    score of a variable is 0. The middle of the minimisers is taken, so that fewer reduced scores are 0.
    """
    start, stop = program.ptr[r], program.ptr[r + 1]
    has_low = program.low[r] > -UNLIMITED
    has_high = program.high[r] < UNLIMITED
    is_upper = has_high and (mu[r] > 0.0 or not has_low)
    slope = float(program.high[r] if is_upper else program.low[r])
    n = np.int64(0)
    for at in range(start, stop):
        i = program.variables[at]
        a = float(program.coefs[at])
        if program.fixed[i] != FREE:
            slope -= a * program.fixed[i]
        elif a != 0.0:
            keys[n] = reduced[i] / a + mu[r]
            weights[n] = abs(a)
            n += 1
            slope -= a if a < 0.0 else 0.0
    if n == 0 or slope < 0.0:
        return False
    high, low = np.inf, np.inf
    if slope > 0.0:
        high = low = _crossing(keys, weights, n, slope)
    total, below = 0.0, -np.inf
    for k in range(n):
        if keys[k] >= low:
            total += weights[k]
        else:
            below = max(below, keys[k])
    if total <= slope:
        low = below
    least = 0.0 if is_upper and program.low[r] != program.high[r] else -np.inf
    most = np.inf if is_upper or program.low[r] == program.high[r] else 0.0
    low = min(max(low, least), most)
    high = min(max(high, least), most)
    middle = low if high == np.inf else high if low == -np.inf else 0.5 * (low + high)
    change = middle - mu[r]
    if change == 0.0 or not abs(middle) < np.inf:
        return False
    mu[r] = middle
    for at in range(start, stop):
        reduced[program.variables[at]] -= change * float(program.coefs[at])
    return True


@kernel
def _reduced_scores(program, mu, errors, reduced, bound):
    """Set the reduced scores of all variables, rounded up, and the constant of the bound."""
    n, n_rows = program.scores.shape[0], program.low.shape[0]
    bound[0] = bound[1] = 0.0
    for i in range(n):
        reduced[i], errors[i] = program.scores[i], 0.0
    for r in range(n_rows):
        if mu[r] != 0.0:
            side = float(program.high[r] if mu[r] > 0.0 else program.low[r])
            product = mu[r] * side
            _add(bound, product + _EPS * abs(product))
            for at in range(program.ptr[r], program.ptr[r + 1]):
                i = program.variables[at]
                taken = mu[r] * float(program.coefs[at])
                errors[i] += abs(reduced[i]) + 2.0 * abs(taken)
                reduced[i] -= taken
    for e in range(program.pair_scores.shape[0]):
        c, alpha = program.pair_scores[e], mu[n_rows + e]
        for side in range(2):
            i = program.pair_ends[e, side]
            own = _own_part(c, alpha, side)
            if program.pair_signs[e, side] < 0.0:
                _add(bound, own)
                own = -own
            errors[i] += abs(reduced[i]) + abs(own)
            reduced[i] += own
        if c < 0.0:
            _add(bound, alpha)
    for i in range(n):
        reduced[i] += 2.0 * _EPS * errors[i]


@kernel
def _own_part(c, alpha, side):
    """Return the coefficient of a literal in the bound of its pair."""
    if c < 0.0:
        return -alpha
    return alpha if side == 0 else c - alpha + _EPS * c


@kernel
def _fix(program, state, mu, i, v):
    """Fix a free variable: change the bound, the sums of rows, and the reduced scores of its partners in pairs."""
    state.value[i] = v
    state.trail[state.sizes[_TRAIL]] = i
    state.sizes[_TRAIL] += 1
    own = state.reduced[i]
    if v == 1 and own < 0.0:
        _add(state.bound, own)
    if v == 0 and own > 0.0:
        _add(state.bound, -own)
    for at in range(state.col_ptr[i], state.col_ptr[i + 1]):
        r, a = state.col_rows[at], state.col_coefs[at]
        if (a > 0) == (v == 1):
            state.least[r] += abs(a)
        else:
            state.most[r] -= abs(a)
        if state.queued[r] == 0:
            state.queued[r] = 1
            state.queue[state.sizes[_QUEUE]] = r
            state.sizes[_QUEUE] += 1
    state.sizes[_OPERATIONS] += 1 + state.col_ptr[i + 1] - state.col_ptr[i] + state.slot_ptr[i + 1] - state.slot_ptr[i]
    n_rows = program.low.shape[0]
    for k in range(state.slot_ptr[i], state.slot_ptr[i + 1]):
        e, side = state.slots[k] // 2, state.slots[k] % 2
        j, c, alpha = program.pair_ends[e, 1 - side], program.pair_scores[e], mu[n_rows + e]
        if state.value[j] != FREE:
            continue
        # The pair's bound becomes its exact value, given this literal, as a function of the other one.
        is_on = (v == 1) == (program.pair_signs[e, side] > 0.0)
        part = _own_part(c, alpha, side)
        other = _own_part(c, alpha, 1 - side)
        if c > 0.0:
            change = part if is_on else -other
            if is_on:
                _add(state.bound, -part)
        else:
            change = c + alpha - _EPS * c if is_on else alpha
            if not is_on:
                _add(state.bound, -alpha)
        if program.pair_signs[e, 1 - side] < 0.0:
            _add(state.bound, change)
            change = -change
        before = state.reduced[j]
        state.saved[state.sizes[_SAVED]], state.saved_scores[state.sizes[_SAVED]] = j, before
        state.sizes[_SAVED] += 1
        state.reduced[j] = before + change + _EPS * (abs(before) + abs(change))
        _add(state.bound, -_positive(before))
        _add(state.bound, _positive(state.reduced[j]))


@kernel
def _undo(program, state, n_trail, n_saved, high, low):
    """Return to an earlier state."""
    while state.sizes[_TRAIL] > n_trail:
        state.sizes[_TRAIL] -= 1
        i = state.trail[state.sizes[_TRAIL]]
        for at in range(state.col_ptr[i], state.col_ptr[i + 1]):
            r, a = state.col_rows[at], state.col_coefs[at]
            if (a > 0) == (state.value[i] == 1):
                state.least[r] -= abs(a)
            else:
                state.most[r] += abs(a)
        state.value[i] = FREE
    while state.sizes[_SAVED] > n_saved:
        state.sizes[_SAVED] -= 1
        state.reduced[state.saved[state.sizes[_SAVED]]] = state.saved_scores[state.sizes[_SAVED]]
    state.bound[0], state.bound[1] = high, low
    for k in range(state.sizes[_QUEUE]):
        state.queued[state.queue[k]] = 0
    state.sizes[_QUEUE] = 0


@kernel
def _propagate(program, state, mu):
    """Fix the variables that single rows decide; return whether all rows can still be satisfied."""
    while state.sizes[_QUEUE] > 0:
        state.sizes[_QUEUE] -= 1
        r = state.queue[state.sizes[_QUEUE]]
        state.queued[r] = 0
        low, high = program.low[r], program.high[r]
        if state.most[r] < low or state.least[r] > high:
            return False
        if state.least[r] + state.largest[r] <= high and state.most[r] - state.largest[r] >= low:
            continue
        state.sizes[_OPERATIONS] += program.ptr[r + 1] - program.ptr[r]
        for at in range(program.ptr[r], program.ptr[r + 1]):
            i, a = program.variables[at], program.coefs[at]
            if state.value[i] != FREE:
                continue
            # One value of the variable makes the least sum larger by |a|, the other the largest sum smaller.
            is_up = state.least[r] + abs(a) > high
            is_down = state.most[r] - abs(a) < low
            if is_up and is_down:
                return False
            if is_up:
                _fix(program, state, mu, i, np.int64(0) if a > 0 else np.int64(1))
            if is_down:
                _fix(program, state, mu, i, np.int64(1) if a > 0 else np.int64(0))
    return True


@kernel
def _value_of(program, u, total):
    """Set `total` to the value of an assignment, a sum of two floats."""
    total[0] = total[1] = 0.0
    for i in range(u.shape[0]):
        if u[i] == 1:
            _add(total, program.scores[i])
    for e in range(program.pair_scores.shape[0]):
        first = (u[program.pair_ends[e, 0]] == 1) == (program.pair_signs[e, 0] > 0.0)
        second = (u[program.pair_ends[e, 1]] == 1) == (program.pair_signs[e, 1] > 0.0)
        if first and second:
            _add(total, program.pair_scores[e])
    # Renormalised, so that sums can be compared.
    high = total[0] + total[1]
    total[1] -= high - total[0]
    total[0] = high


@kernel
def _keep(program, u, best, values, counts, total):
    """Insert an assignment into the list of the best ones, unless it is there or not good enough."""
    _value_of(program, u, total)
    n, k = counts[N_FOUND], values.shape[0]
    for place in range(n):
        same = True
        for i in range(u.shape[0]):
            same = same and best[place, i] == u[i]
        if same:
            return
    place = n
    while place > 0 and (
        values[place - 1, 0] < total[0] or (values[place - 1, 0] == total[0] and values[place - 1, 1] < total[1])
    ):
        place -= 1
    if place == k:
        return
    for row in range(min(n, k - 1), place, -1):
        values[row, 0], values[row, 1] = values[row - 1, 0], values[row - 1, 1]
        for i in range(u.shape[0]):
            best[row, i] = best[row - 1, i]
    values[place, 0], values[place, 1] = total[0], total[1]
    for i in range(u.shape[0]):
        best[place, i] = u[i]
    counts[N_FOUND] = min(n + 1, k)


@kernel
def _new_state(program):
    """Return the state in which no variable is fixed; the bound and the reduced scores are not set."""
    n, n_rows, n_pairs = program.scores.shape[0], program.low.shape[0], program.pair_scores.shape[0]
    n_entries = program.variables.shape[0]
    state = State(
        new_ints(n + 1),
        new_ints(n_entries),
        new_ints(n_entries),
        new_ints(n + 1),
        new_ints(2 * n_pairs),
        new_ints(n_rows),
        new_ints(n_rows),
        new_ints(n_rows),
        new_ints(n),
        new_floats(n),
        new_floats(np.int64(2)),
        new_ints(n),
        new_ints(2 * n_pairs),
        new_floats(2 * n_pairs),
        new_ints(n_rows),
        new_ints(n_rows),
        new_ints(np.int64(5)),
        new_ints(n),
    )
    for k in range(5):
        state.sizes[k] = 0
    for i in range(n):
        state.value[i] = FREE
    for i in range(n + 1):
        state.col_ptr[i] = state.slot_ptr[i] = 0
    for at in range(n_entries):
        state.col_ptr[program.variables[at] + 1] += 1
    for e in range(n_pairs):
        for side in range(2):
            state.slot_ptr[program.pair_ends[e, side] + 1] += 1
    for i in range(n):
        state.col_ptr[i + 1] += state.col_ptr[i]
        state.slot_ptr[i + 1] += state.slot_ptr[i]
    for r in range(n_rows):
        state.largest[r] = state.least[r] = state.most[r] = 0
        state.queue[r], state.queued[r] = r, 1
        for at in range(program.ptr[r], program.ptr[r + 1]):
            i, a = program.variables[at], program.coefs[at]
            state.largest[r] = max(state.largest[r], abs(a))
            if a > 0:
                state.most[r] += a
            else:
                state.least[r] += a
            state.col_rows[state.col_ptr[i]], state.col_coefs[state.col_ptr[i]] = r, a
            state.col_ptr[i] += 1
    state.sizes[_QUEUE] = n_rows
    for e in range(n_pairs):
        for side in range(2):
            i = program.pair_ends[e, side]
            state.slots[state.slot_ptr[i]] = 2 * e + side
            state.slot_ptr[i] += 1
    for i in range(n, 0, -1):
        state.col_ptr[i], state.slot_ptr[i] = state.col_ptr[i - 1], state.slot_ptr[i - 1]
    state.col_ptr[0] = state.slot_ptr[0] = 0
    return state


@kernel
def _threshold(values, counts):
    """Return the value that a further assignment must exceed."""
    k = values.shape[0]
    if counts[N_FOUND] < k:
        return -np.inf
    return values[k - 1, 0] + _TOL * abs(values[k - 1, 0])


@kernel
def _decide(program, state, mu, values, counts):
    """Fix all variables that are decided; return the variable to branch on: -1 if all are fixed, -2 if none fits."""
    while True:
        if not _propagate(program, state, mu):
            return np.int64(-2)
        left = (state.bound[0] - _threshold(values, counts)) + state.bound[1]
        if left <= 0.0:
            return np.int64(-2)
        chosen, n_fixed = _fix_by_bound(program, state, mu, left)
        if n_fixed == 0:
            return chosen


@kernel
def _fix_by_bound(program, state, mu, left):
    """Fix all variables whose other value costs more than `left`.

    Returns
    -------
    chosen : int
        The free variable with the largest reduced score; -1 if there is none.
    n_fixed : int
    """
    chosen = np.int64(-1)
    size = -1.0
    n_fixed = 0
    n = state.value.shape[0]
    is_sorted = program.pair_scores.shape[0] == 0
    place = state.sizes[_FIRST] if is_sorted else np.int64(0)
    while place < n:
        i = state.order[place] if is_sorted else place
        state.sizes[_OPERATIONS] += 1
        if state.value[i] == FREE:
            own = abs(state.reduced[i])
            if own > left:
                _fix(program, state, mu, i, np.int64(1) if state.reduced[i] > 0.0 else np.int64(0))
                n_fixed += 1
            elif own > size:
                chosen, size = i, own
                if is_sorted:
                    break
        place += 1
    if is_sorted:
        state.sizes[_FIRST] = place
    return chosen, n_fixed


@entry(types.void(ZERO_ONE, INTS, PARTS_2D_OUT, FLOATS_2D_OUT, FLOATS_OUT, INTS_OUT, INTS_OUT))
def search_zero_one(program, limits, best, values, bound, fixed, counts):
    """Find the best assignments of a program.

    Parameters
    ----------
    program : ZeroOne
    limits : int array of shape (1,)
        Maximum number of operations; the search ends when it is set to 0.
    best : int array of shape (k, n_variables)
        Gets the best assignments, the best one first.
    values : float array of shape (k, 2)
        Gets their values, as sums of two floats.
    bound : float array of shape (2 + n_rows + n_pairs,)
        Gets an upper bound of the values of all assignments that are not in the list, the bound at the root, and then
        the multipliers.
    fixed : int array of shape (n_variables,)
        Gets the values that variables have in all assignments that are not in the list; FREE for the others.
    counts : int array of shape (3,)
        Gets the number of assignments, whether the search is complete, and the number of operations.
    """
    n, n_rows = program.scores.shape[0], program.low.shape[0]
    state = _new_state(program)
    total = new_floats(np.int64(2))
    mu = bound[2:]
    for r in range(mu.shape[0]):
        mu[r] = program.multipliers[r]
    counts[N_FOUND] = counts[IS_COMPLETE] = 0
    errors = new_floats(n)
    keys = new_floats(n)
    order = new_ints(n)
    _reduced_scores(program, mu, errors, state.reduced, state.bound)
    for _ in range(_SWEEPS if n_rows > 1 else 1):
        n_changed = 0
        for r in range(n_rows):
            if limits[0] > 0:
                n_changed += _improve_multiplier(program, state.reduced, mu, r, keys, errors)
        if n_changed == 0:
            break
    _reduced_scores(program, mu, errors, state.reduced, state.bound)
    _keep_if_feasible(program, program.start, best, values, counts, total)
    for i in range(n):
        _add(state.bound, _positive(state.reduced[i]))
    for i in range(n):
        if program.fixed[i] != FREE:
            _fix(program, state, mu, i, program.fixed[i])
    for i in range(n):
        keys[i] = abs(state.reduced[i])
        order[i] = program.fixed[i]
        if order[i] == FREE:
            order[i] = np.int64(1) if state.reduced[i] > 0.0 else np.int64(0)
    _keep_if_feasible(program, order, best, values, counts, total)
    bound[1] = state.bound[0] + _positive(state.bound[1])
    if bound[1] <= _threshold(values, counts):
        # The relaxation is integral.
        bound[0], counts[IS_COMPLETE] = -np.inf, 1
        copy_into(fixed, program.fixed)
        return
    _heap_sort(keys, state.order, n)
    variable = new_ints(n + 1)
    n_trail = new_ints(n + 1)
    n_saved = new_ints(n + 1)
    first = new_ints(n + 1)
    left = new_ints(n + 1)
    high = new_floats(n + 1)
    low = new_floats(n + 1)
    depth = np.int64(0)
    is_first = True
    bound[0] = -np.inf
    while True:
        i = _decide(program, state, mu, values, counts)
        if is_first:
            copy_into(fixed, state.value)
            is_first = False
        if i >= 0 and state.sizes[_OPERATIONS] >= limits[0]:
            bound[0] = state.bound[0] + _positive(state.bound[1])
            for d in range(depth):
                if left[d] >= 0:
                    bound[0] = max(bound[0], high[d] + _positive(low[d]))
            break
        if i >= 0:
            is_up = state.reduced[i] > 0.0 or (state.reduced[i] == 0.0 and program.start[i] == 1)
            variable[depth], n_trail[depth], n_saved[depth] = i, state.sizes[_TRAIL], state.sizes[_SAVED]
            high[depth] = state.bound[0]
            low[depth] = state.bound[1]
            left[depth] = 0 if is_up else 1
            first[depth] = state.sizes[_FIRST]
            depth += 1
            _fix(program, state, mu, i, np.int64(1) if is_up else np.int64(0))
            continue
        if i == -1:
            _keep(program, state.value, best, values, counts, total)
        while depth > 0 and left[depth - 1] < 0:
            depth -= 1
        if depth == 0:
            counts[IS_COMPLETE] = 1
            break
        d = depth - 1
        _undo(program, state, n_trail[d], n_saved[d], high[d], low[d])
        state.sizes[_FIRST] = first[d]
        v = left[d]
        left[d] = -1
        _fix(program, state, mu, variable[d], v)
    counts[N_OPERATIONS] = state.sizes[_OPERATIONS]


@kernel
def _keep_if_feasible(program, u, best, values, counts, total):
    """Keep an assignment if it agrees with the fixed variables and satisfies all rows."""
    for i in range(u.shape[0]):
        if u[i] < 0 or (program.fixed[i] != FREE and program.fixed[i] != u[i]):
            return
    for r in range(program.low.shape[0]):
        total_of_row = np.int64(0)
        for at in range(program.ptr[r], program.ptr[r + 1]):
            total_of_row += program.coefs[at] * u[program.variables[at]]
        if total_of_row < program.low[r] or total_of_row > program.high[r]:
            return
    _keep(program, u, best, values, counts, total)


class Found(NamedTuple):
    """The result of `best_zero_one`.

    Attributes
    ----------
    assignments : int array of shape (n_found, n_variables)
        The best one first.
    values : float array of shape (n_found,)
    is_complete : bool
        Whether no other assignment is better, and there are no others if fewer than `k` were found.
    bound : float
        Upper bound of the values of all assignments that are not in the list.
    root_bound : float
        The bound of all assignments for the multipliers.
    fixed : int array
        The values that variables have in all assignments that are not in the list; FREE for the others.
    multipliers : float array
        See `ZeroOne`; those of the search, with which another one can start.
    """

    assignments: np.ndarray
    values: np.ndarray
    is_complete: bool
    bound: float
    root_bound: float
    fixed: np.ndarray
    multipliers: np.ndarray


def best_zero_one(program, k=1, max_operations=UNLIMITED, deadline=None):
    """Find the `k` best assignments of a program; return `Found`.

    Parameters
    ----------
    program : ZeroOne
        Its arrays need not be those of kernels.
    k : int
    max_operations : int
        The search ends after about this number of operations, of a few nanoseconds each.
    deadline : float, default=None
        The `working_time` at which it ends.
    """
    program = ZeroOne(*map(readonly, program, _DTYPES))
    limits = np.array([min(max_operations, UNLIMITED)])
    n = len(program.scores)
    counts = np.zeros(3, np.int64)
    fixed = np.empty(n, np.int64)
    best = np.zeros((k, n), np.int32)
    values = np.zeros((k, 2))
    bound = np.zeros(2 + len(program.multipliers))
    with ends_at(deadline, limits):
        interruptible(
            partial(search_zero_one, program, limits, best, values, bound, fixed, counts), partial(limits.fill, 0)
        )
    found = int(counts[N_FOUND])
    return Found(
        best[:found],
        values[:found].sum(axis=1),
        bool(counts[IS_COMPLETE]),
        float(bound[0]),
        float(bound[1]),
        fixed,
        bound[2:],
    )
