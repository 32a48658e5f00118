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


def flow_on_arcs(scores, gains, arcs, total):
    """Return the best flow through nodes (T, M) and along `arcs`, triples of a step and two states; of any sign.

    It maximises ``scores . u + gains . v - |u|^2 / 2``; `total` units flow through each step.
    """
    n_steps, n_states = scores.shape
    into, out_of = np.zeros((2, n_steps, n_states, len(arcs)))
    for a, (t, i, j) in enumerate(arcs):
        out_of[t, i, a] = into[t + 1, j, a] = 1.0
    through = np.concatenate([out_of[:1], into[1:]]).reshape(-1, len(arcs))
    # As much flow leaves an inner node as enters it.
    equations = np.concatenate([(into - out_of)[1:-1].reshape(-1, len(arcs)), out_of[0].sum(axis=0)[None]])
    wanted = np.append(np.zeros(len(equations) - 1), total)
    linear = through.T @ scores.ravel() + [gains[arc] for arc in arcs]
    matrix = np.block([[through.T @ through, equations.T], [equations, np.zeros((len(equations),) * 2)]])
    flow = np.linalg.lstsq(matrix, np.append(linear, wanted), rcond=1e-12)[0][: len(arcs)]
    return (through @ flow).reshape(scores.shape), flow


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
