"""Slow, obvious twins of what solves SparseMAP by facets: sorting, enumeration of all sets, dense matrices."""

from itertools import combinations

import numpy as np
from scipy.optimize import linprog


def sparsemax(scores):
    """Project onto the simplex by sorting."""
    ordered = np.sort(scores)[::-1]
    totals = np.cumsum(ordered) - 1.0
    size = np.flatnonzero(ordered * np.arange(1, len(scores) + 1) > totals)[-1] + 1
    return np.maximum(scores - totals[size - 1] / size, 0.0)


def least_inflow(u):
    """Return the least weight of arcs that enter a set of words from outside, over all sets; u as in `separation`."""
    n = len(u)
    least = np.inf
    for size in range(1, n + 1):
        for words in combinations(range(1, n + 1), size):
            outside = [h for h in range(n + 1) if h not in words]
            least = min(least, u[np.array(words) - 1][:, outside].sum())
    return least


def potentials_matrix(weight, on, n_centred):
    """Return the dense matrix of the potentials of a flow: for each step those into its nodes, then those out of them.

    `weight` is a list of matrices, `on` one of vectors, because steps may have different numbers of states.
    """
    places = iter(np.split(np.arange(2 * sum(map(len, on))), np.cumsum(np.repeat([len(o) for o in on], 2))[:-1]))
    ends = [(next(places), next(places)) for _ in on]
    used = np.concatenate(sum(ends, ()))[len(on[0]) : -len(on[-1])]
    matrix = np.zeros((2 * sum(map(len, on)),) * 2)
    for t in range(len(on)):
        response = np.diag(on[t])
        if t < n_centred:
            response = response - np.outer(on[t], on[t]) / on[t].sum()
        for rows in ends[t]:
            for columns in ends[t]:
                matrix[np.ix_(rows, columns)] += response
    for t, between in enumerate(weight):
        for i, leave in enumerate(ends[t][1]):
            for j, enter in enumerate(ends[t + 1][0]):
                pair = np.ix_([leave, enter], [leave, enter])
                matrix[pair] += between[i, j]
    # Nothing flows into the first step, nor out of the last.
    return matrix[np.ix_(used, used)]


def projector(equations, free):
    """Return the matrix that projects onto the directions that are zero where not `free` and keep all equations."""
    rows = np.atleast_2d(np.asarray(equations, float)) * free
    return np.diag(free.astype(float)) - np.linalg.pinv(rows, rcond=1e-9) @ rows


def strictness_of_tree(scores, u, single_root):
    """Return how strictly the best multipliers hold the marginals `u` of a tree, at most 1; 0 at a kink.

    That is the largest number that all tight sets can have as their multiplier, and all arcs without weight can be
    below the thresholds of their words, found by a linear program over all sets. `scores` as those of trees.
    """
    n = len(u[0])
    sets = [s for size in range(2, n + 1) for s in combinations(range(1, n + 1), size)]
    sets = [s for s in sets if u[list(s)][:, np.array(s) - 1].sum() >= len(s) - 1.0 - 1e-9]
    is_free = [single_root and len(s) == n for s in sets]
    equations, inequalities = [], []
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h == m or scores[h, m - 1] == -np.inf:
                continue
            row = np.zeros(n + len(sets) + 2)
            row[m - 1] = 1.0
            row[n : n + len(sets)] = [h in s and m in s for s in sets]
            row[-1] = scores[h, m - 1] - u[h, m - 1]
            if u[h, m - 1] <= 1e-12:
                row[-2] = -1.0
            (equations if u[h, m - 1] > 1e-12 else inequalities).append(row)
    for a in np.flatnonzero(~np.array(is_free, bool)):
        row = np.zeros(n + len(sets) + 2)
        row[n + a], row[-2] = 1.0, -1.0
        inequalities.append(row)
    bounds = [(None, None)] * n + [(None if free else 0.0, None) for free in is_free] + [(0.0, 1.0)]
    equations, inequalities = np.array(equations), np.array(inequalities).reshape(-1, len(bounds) + 1)
    cost = np.zeros(len(bounds))
    cost[-1] = -1.0
    found = linprog(
        cost, -inequalities[:, :-1], -inequalities[:, -1], equations[:, :-1], equations[:, -1], bounds,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return -found.fun if found.status == 0 else None
