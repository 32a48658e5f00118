"""The best assignment of a graph of logic factors and pairs, by a mixed-integer program with a time limit."""

import warnings

import numpy as np
from scipy import optimize, sparse
from sklearn.exceptions import ConvergenceWarning

from ..._core.highs import milp
from ..._core.jit import working_time
from ...graphs.arrays import FORBIDDEN
from .branch import MAX_NODES

# Largest violation of a row by an assignment. Entries of rows are integers.
_TOL = 1e-6
_MIN_TIME = 1e-3  # seconds; with less time left, no search begins


def assign_exactly(problem, start, known, deadline=None):
    """Find the best assignment of a graph without structures.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    start : float array of shape (n_variables,)
        0 and 1: the values of known variables, and a possible result if time runs out.
    known : bool array of shape (n_variables,)
        Mask of the variables that are fixed.
    deadline : float or None
        The `working_time` at which the search ends.

    Returns
    -------
    u, joint : arrays
        The assignment, and which pairs are on.
    value, bound : float
        The score of the assignment, and an upper bound of the scores of all assignments. They are equal if the search
        is complete. Both are -inf if there is no assignment.
    """
    arrays, forbidden = problem.layout.arrays, problem.scores[0] < 0.5 * FORBIDDEN
    free, start = ~(known | forbidden), np.where(forbidden, 0.0, start)
    ends, signs, off = arrays.pair_ends, arrays.pair_signs, 0.5 * (1.0 - arrays.pair_signs)
    pair_places = arrays.additional_ptr[arrays.pairs]
    scores, pair_scores = np.where(free, problem.scores[0], 0.0), problem.additional[0][pair_places]
    used = np.flatnonzero(pair_scores)
    # A pair with a fixed variable adds its score to that of the other variable, or nothing.
    for end, other in ((0, 1), (1, 0)):
        chosen = used[free[ends[used, end]] & ~free[ends[used, other]]]
        is_on = off[chosen, other] + signs[chosen, other] * start[ends[chosen, other]]
        np.add.at(scores, ends[chosen, end], signs[chosen, end] * pair_scores[chosen] * is_on)
    used = used[free[ends[used]].all(axis=1)]
    n, m, s = len(scores), len(used), pair_scores[used]
    up, down = np.flatnonzero(s > 0), np.flatnonzero(s <= 0)
    # A pair with a positive score is on only if both literals are on, a pair with a negative score if both are on.
    blocks = [_rows(n + m, (n + up, 1.0), (ends[used[up], c], -signs[used[up], c])) for c in (0, 1)]
    both = [(ends[used[down], c], signs[used[down], c]) for c in (0, 1)]
    blocks.append(_rows(n + m, *both, (n + down, -1.0)))
    rows = sparse.csr_array((arrays.row_coefs, arrays.row_vars, arrays.row_ptr), shape=(len(arrays.row_bounds), n))
    blocks.append(sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], n + m)))
    row_low = np.where(arrays.row_low < 0.0, arrays.row_bounds, -np.inf)
    row_high = np.where(arrays.row_high > 0.0, arrays.row_bounds, np.inf)
    low = np.concatenate([np.full(2 * len(up) + len(down), -np.inf), row_low])
    high = np.concatenate([*(off[used[up], c] for c in (0, 1)), 1.0 - off[used[down]].sum(axis=1), row_high])
    rules = optimize.LinearConstraint(sparse.vstack(blocks, format="csr"), low, high) if len(low) else ()
    # The solver's tolerances are absolute.
    unit = max(np.abs(scores).max(initial=0.0), np.abs(s).max(initial=0.0)) or 1.0

    def satisfies(u):
        sums = rows @ u
        return ((sums <= row_high + _TOL) & (sums >= row_low - _TOL)).all()

    def joint_of(u):
        joint = np.zeros(problem.layout.n_additional)
        joint[pair_places] = (off + signs * u[ends]).prod(axis=1)
        return joint

    def value_of(u):
        return problem.values(u[None], joint_of(u)[None])[0]

    def solve(pair_weights, limit):
        return milp(
            -np.concatenate([scores, pair_weights]) / unit,
            integrality=np.concatenate([np.ones(n), np.zeros(m)]),
            bounds=optimize.Bounds(
                np.concatenate([np.where(free, 0.0, start), np.zeros(m)]),
                np.concatenate([np.where(free, 1.0, start), np.ones(m)]),
            ),
            constraints=rules,
            options={"mip_rel_gap": 0.0} | ({} if limit is None else {"time_limit": limit}),
        )

    left = None if deadline is None else deadline - working_time()
    # Status 1 of scipy's milp means that a limit was reached.
    status, assignments, least = 1, [], None
    if left is None or left > _MIN_TIME:
        result = solve(s, left)
        status, assignments, least = result.status, _assignment_of(result, n), result.get("mip_dual_bound")
    if status != 1 and assignments:
        value = value_of(assignments[0])
        return assignments[0], joint_of(assignments[0]), value, value
    if status == 1:
        if satisfies(start):
            assignments.append(start)
        if not assignments:
            # Without scores of pairs, finding a feasible assignment is fast.
            assignments = _assignment_of(solve(np.zeros(m), None), n)
    if not assignments:
        return start, joint_of(start), -np.inf, -np.inf
    u = max(assignments, key=value_of)
    u = _climb(u, scores, (ends[used], signs[used], s), free, satisfies)
    # The program omits scores of fixed variables and their pairs, which are the same for all its assignments.
    rest = value_of(u) - scores @ u - s @ (off[used] + signs[used] * u[ends[used]]).prod(axis=1)
    bound = np.maximum(scores, 0.0).sum() + np.maximum(s, 0.0).sum()
    bound = rest + (bound if least is None else min(bound, -unit * least))
    return u, joint_of(u), value_of(u), max(bound, value_of(u))


def _climb(u, scores, pairs, free, satisfies):
    """Flip one free variable at a time while the score rises (local search); return the assignment."""
    (ends, signs, s), n, u = pairs, len(u), u.copy()
    for _ in range(n * n):
        on = 0.5 * (1.0 - signs) + signs * u[ends]
        fields = scores.copy()
        for end, other in ((0, 1), (1, 0)):
            fields += np.bincount(ends[:, end], signs[:, end] * s * on[:, other], n)
        gains = np.where(free, np.where(u > 0.5, -fields, fields), 0.0)
        least = 1e-12 * np.abs(fields).max(initial=0.0)
        for i in np.argsort(-gains)[: np.count_nonzero(gains > least)]:
            u[i] = 1.0 - u[i]
            if satisfies(u):
                break
            u[i] = 1.0 - u[i]
        else:
            break
    return u


def _assignment_of(result, n):
    """Return a list with the values of `n` variables in the program's solution; empty if there is no solution."""
    return [] if result.x is None else [(result.x[:n] > 0.5).astype(np.float64)]


def _rows(n_columns, *entries):
    """Make sparse rows with one entry from each pair of columns and values."""
    n = len(entries[0][0])
    columns = np.concatenate([columns for columns, _ in entries])
    values = np.concatenate([np.broadcast_to(value, n) for _, value in entries])
    return sparse.csr_array((values, (np.tile(np.arange(n), len(entries)), columns)), shape=(n, n_columns))


def warn_of_time_limit(late, time_limit):
    """Warn of samples whose search is not complete; `late` maps their indices to the possible loss."""
    if not late:
        return
    samples, gap = sorted(late), max(late.values())
    which = ", ".join(map(str, samples[:5])) + (", ..." if len(samples) > 5 else "")
    loss = f"the scores of the assignments found are at most {gap:.3g} below the best"
    if gap == np.inf:
        loss = (
            "for at least one, no assignment was found (its value is -inf), or how far it is from the best is unknown, "
            "because not even the relaxation was solved"
        )
    if time_limit is None:
        end, remedy = "did not solve all relaxations", "scale the scores to similar sizes"
    else:
        end = f"ended after {MAX_NODES} relaxations, or at map_time_limit={time_limit:g} seconds"
        remedy = "raise map_time_limit, or set it to None for an unlimited search"
    warnings.warn(
        f"the search for the best assignment {end} for {len(samples)} samples ({which}): {loss}; {remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )
