"""A plain quadratic program over listed structures, which shares nothing with the solvers that it judges."""

import numpy as np


def solve_qp(M, theta):
    """Maximise ``theta.y - 1/2 |M'y|^2`` over the simplex, for the rows of M; the plain active set, dense.

    Each round solves the optimality conditions on the support by least squares. They are symmetric, so the residual is
    in their null space: moving along it changes no marginal, and improves the objective.
    """
    support, y = [int(np.argmax(theta))], np.ones(1)
    tolerance = 1e-11 * (1.0 + np.abs(theta).max() + M.shape[1])
    while True:
        k = len(support)
        conditions = np.ones((k + 1, k + 1))
        conditions[:k, :k] = M[support] @ M[support].T
        conditions[k, k] = 0.0
        wanted = np.append(theta[support], 1.0)
        z = np.linalg.lstsq(conditions, wanted, rcond=1e-11)[0]
        left_over = wanted - conditions @ z
        if np.abs(left_over).max() > tolerance:
            direction, longest = left_over[:k], np.inf
        else:
            direction, longest = z[:k] - y, 1.0
        steps = np.full(k, np.inf)
        shrinking = direction < -1e-14 * (1.0 + np.abs(direction).max())
        steps[shrinking] = y[shrinking] / -direction[shrinking]
        first = int(np.argmin(steps))
        if steps[first] < longest:
            y = np.maximum(y + steps[first] * direction, 0.0)
            y = np.delete(y, first)
            del support[first]
            continue
        y = np.maximum(y + longest * direction, 0.0)
        reduced = theta - M @ (y @ M[support])
        best = int(np.argmax(reduced))
        if reduced[best] - reduced[support] @ y <= tolerance or best in support:
            solution = np.zeros(len(theta))
            solution[support] = y / y.sum()
            return solution
        support.append(best)
        y = np.append(y, 0.0)
