"""Slow, obvious twins of the penalties: features and lists of columns, no atoms."""

import numpy as np


def prox_groups(weights, groups, radii):
    """Prox of ``sum_g radii[g] |w_g|`` by coordinate ascent on one dual vector a group; returns it and its gap."""
    # The error of the solution is the root of that of the values: 1e-8 in double precision.
    weights = np.asarray(weights, np.longdouble)
    least = 10 * max(np.finfo(np.longdouble).eps, 1e-19) * max(1.0, (weights**2).sum())
    duals = np.zeros((len(groups), *weights.shape), np.longdouble)
    for sweep in range(200000):
        # Large groups first, unlike the package.
        for g in sorted(range(len(groups)), key=lambda g: -len(groups[g])):
            duals[g] = 0.0
            rest = (weights - duals.sum(axis=0))[groups[g]]
            norm = np.linalg.norm(rest)
            duals[g][groups[g]] = rest if norm <= radii[g] else rest * radii[g] / norm
        if sweep % 20 == 19:
            solution = weights - duals.sum(axis=0)
            for g, columns in enumerate(groups):
                if np.linalg.norm(duals[g]) < radii[g] * (1 - 1e-10):
                    solution[columns] = 0.0
            value = 0.5 * ((solution - weights) ** 2).sum() + penalty_value(solution, groups, radii)
            gap = value - 0.5 * (weights**2).sum() + 0.5 * ((weights - duals.sum(axis=0)) ** 2).sum()
            if gap < least:
                return solution.astype(float), float(gap)
    raise AssertionError(f"no solution: {gap}")


def penalty_value(weights, groups, radii):
    return sum(radius * np.linalg.norm(weights[columns]) for columns, radius in zip(groups, radii))


def shrink_in_order(weights, groups, radii):
    """Shrink one group after another, in the order given."""
    weights = np.array(weights, float)
    for columns, radius in zip(groups, radii):
        norm = np.linalg.norm(weights[columns])
        if radius > 0 and norm > 0:
            weights[columns] *= max(0.0, 1 - radius / norm)
    return weights


def count_alive(weights, groups):
    return sum(bool(np.any(weights[columns])) for columns in groups)


def columns_of(groups):
    """The columns of each group of a `Groups`."""
    bounds = groups.group_indptr
    return [
        np.flatnonzero(np.isin(groups.atom_of, groups.group_atoms[bounds[g] : bounds[g + 1]]))
        for g in range(groups.n_groups)
    ]


def template_precedes(a, b, coarser):
    """Whether template a is coarser than b or the same, of lists of (offset, field), one field a position."""
    finer = dict(b)
    return all(o in finer and (f == finer[o] or (f, finer[o]) in coarser) for o, f in a)
