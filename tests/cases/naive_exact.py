"""Exact SparseMAP and LP-SparseMAP: vertices, the quadratic program over them, the projector of the derivative."""

from functools import cached_property
from itertools import product

import naive
import numpy as np
from naive_graphs import Case, polytopes
from registry import listed
from scipy.linalg import qr
from scipy.optimize import linprog

# Largest duality gap of the reference: its marginals are then within 5e-7, the root of twice that.
CERTIFIED = 1e-13
# Reduced scores closer than this to the largest one belong to the face; those closer than the second are in doubt.
ON_FACE, NEAR_FACE = 1e-9, 1e-5
# Scores below this one are masks.
HUGE = -1e8


class Vertices:
    """All structures of a problem of one shape, as counts of parts.

    Parameters
    ----------
    structures : list
        As `listed` gives them.
    unary : array of shape (n_structures, n_parts)
    additional : array of shape (n_structures, n_additional)
        Joined in the order in which the additional scores are given.
    """

    def __init__(self, structures, unary, additional):
        self.index = {listed(structure): i for i, structure in enumerate(structures)}
        self.unary, self.additional = unary, additional
        self.counts = np.hstack([unary, additional])
        self.largest_norm = (unary**2).sum(axis=1).max()

    def compare(self, values):
        """Compare the totals of all structures with the best one's.

        Masks, scores below `HUGE`, are counted and not added: a mask of -1e14 would leave no digits of the rest. Each
        must outweigh all scores above it: the best structures have as few as possible of the largest mask, then of the
        next one.

        Returns
        -------
        difference : array
            Of the totals from the best one; -inf for structures that are forbidden or have other masks.
        best : float
            The best total, -inf if all structures are forbidden.
        is_forced : bool
            Whether every structure that is allowed has a mask.
        """
        masks = np.unique(values[(values < HUGE) & (values > -np.inf)])
        rest = self.counts @ np.where(values < HUGE, 0.0, values)
        rest[self.counts[:, np.isneginf(values)].any(axis=1)] = -np.inf
        n_masked = np.array([self.counts @ (values == mask) for mask in masks]).reshape(len(masks), len(rest))
        allowed = rest > -np.inf
        if not allowed.any():
            return rest, -np.inf, False
        best = allowed
        for own in n_masked:
            best = best & (own == own[best].min())
        first = int(np.argmax(np.where(best, rest, -np.inf)))
        difference = np.where(best, rest - rest[first], -np.inf)
        with np.errstate(over="ignore"):
            total = rest[first] + sum(own[first] * mask for own, mask in zip(n_masked, masks))
        return difference, total, bool((n_masked.sum(axis=0) > 0)[allowed].all())


class Optimum:
    """The exact solution of one problem.

    Attributes
    ----------
    marginals : array of shape (n_parts,)
    value : float
        Of the objective; -inf if every structure is forbidden.
    gap : float
        Duality gap of the marginals themselves, over all structures.
    is_forced : bool
        Whether every structure that is allowed has a mask.
    """

    def __init__(self, vertices, values):
        self.vertices = vertices
        self.differences, self.best, self.is_forced = vertices.compare(values)
        self.is_feasible = bool(np.isfinite(self.differences).any())
        if not self.is_feasible:
            return
        # A structure in the support has the largest reduced score, so its total is at most the largest squared norm
        # below the best one: scalar products of structures lie between zero and that.
        kept = np.flatnonzero(self.differences >= -vertices.largest_norm)
        points, theta = vertices.unary[kept], self.differences[kept]
        self.marginals, weights = naive.solve_qp(points.T, theta)
        used = np.flatnonzero(weights)
        self.reduced = np.where(np.isneginf(self.differences), -np.inf, self.differences)
        self.reduced = self.reduced - vertices.unary @ self.marginals
        self.gap = self.reduced.max() - self.reduced[kept[used]] @ weights[used]
        self.value = self.best + theta[used] @ weights[used] - 0.5 * self.marginals @ self.marginals

    @property
    def is_certified(self):
        return self.gap <= CERTIFIED

    @cached_property
    def projector(self):
        """The Jacobian of the marginals with respect to the unary scores; None at a kink, or near one.

        The face has all structures of the largest reduced score. If the marginals lie in its interior, they move with
        the scores as their projection onto the directions within the face.
        """
        below = self.reduced.max() - self.reduced
        on_face = below <= ON_FACE
        if ((below > ON_FACE) & (below < NEAR_FACE)).any():
            return None
        points = self.vertices.unary[on_face]
        k = len(points)
        if k > 1 and not self._is_inside(points):
            return None
        directions = points[1:] - points[0]
        if k == 1:
            return np.zeros((points.shape[1], points.shape[1]))
        _, singular, rows = np.linalg.svd(directions, full_matrices=False)
        rows = rows[singular > 1e-9]
        return rows.T @ rows

    def _is_inside(self, points):
        """Tell whether the marginals are a mixture of all points, each with some weight."""
        k = len(points)
        A = np.vstack([points.T, np.ones(k)])
        # Weights are w + t: as large a t as possible.
        A = np.hstack([A, A.sum(axis=1, keepdims=True)])
        found = linprog(
            np.append(np.zeros(k), -1.0), A_eq=A, b_eq=np.append(self.marginals, 1.0), bounds=(0, None), method="highs"
        )
        return found.status == 0 and -found.fun > 1e-6 / k


class LocalPolytope:
    """Marginals of a factor graph that satisfy each factor, as ``T x`` with ``A x = b, x >= 0``.

    Entries of x are weights of the vertices of each factor; for knapsacks the variables, what is left of each to one,
    and what is left of the budget.

    Parameters
    ----------
    graph : FactorGraph
        With one array of variables.
    shape : tuple of int
        Of the variables.
    split : callable
        From flat additional scores to what `lp_sparsemap` takes.
    n_additional : int
    """

    def __init__(self, graph, shape, split, n_additional):
        n = int(np.prod(shape))
        none = np.zeros(n_additional)
        factors = polytopes(Case(graph, np.zeros(shape), split(none)))
        slopes = [polytopes(Case(graph, np.zeros(shape), split(one))) for one in np.eye(n_additional)]
        touched = {int(i) for variables, *_ in factors for i in variables}
        factors += [([i], np.array([[0.0], [1.0]]), np.zeros(2), None) for i in range(n) if i not in touched]
        blocks, rows, b, at = [], [], [], 0
        for f, (variables, vertices, _, row) in enumerate(factors):
            if row is not None:
                costs, bound = row
                k = len(variables)
                width = 2 * k + 1
                marginals = np.eye(k, width)
                rows += [(at, np.eye(k, width) + np.eye(k, width, k), np.ones(k))]
                # A slack of either sign of scale one.
                rows += [(at, np.append(costs, np.append(np.zeros(k), 1.0))[None], np.array([bound]))]
                slope = np.zeros((width, n_additional))
            else:
                width, marginals = len(vertices), np.asarray(vertices, float).T
                rows += [(at, np.ones((1, width)), np.ones(1))]
                slope = np.zeros((width, n_additional))
                if slopes and f < len(slopes[0]):
                    slope = np.array([own[f][2] for own in slopes]).T
            blocks.append((at, width, np.asarray(variables, int), marginals, slope))
            at += width
        self.n, self.width = n, at
        self.T, self.slope = np.zeros((n, at)), np.zeros((at, n_additional))
        A = [self._placed(start, block) for start, block, _ in rows]
        b = [right for *_, right in rows]
        seen = np.zeros(n, bool)
        # Whether an entry of x stands for a part: it must be zero if the part is forbidden.
        self.parts = np.zeros((at, n + n_additional), bool)
        for start, width, variables, marginals, slope in blocks:
            self.slope[start : start + width] = slope
            self.parts[start : start + width, n:] = slope != 0.0
            for variable, row in zip(variables, marginals):
                own = self._placed(start, row[None])[0]
                self.parts[:, variable] |= own > 0
                if seen[variable]:
                    A.append((own - self.T[variable])[None])
                    b.append(np.zeros(1))
                else:
                    self.T[variable], seen[variable] = own, True
        self.A, self.b = np.vstack(A), np.concatenate(b)
        self.assignments = self._assignments(factors)
        self._possible = {}

    def possible(self, kept):
        """Return which entries of x can be positive if only those `kept` may be; none if there is no solution."""
        key = kept.tobytes()
        if key not in self._possible:
            k, m = int(kept.sum()), len(self.A)
            # Entries x = t + s, multiples of a solution: t is one if there is any with the entry above zero.
            A = np.hstack([self.A[:, kept], self.A[:, kept], -self.b[:, None]])
            bounds = [(0, 1)] * k + [(0, None)] * k + [(1, None)]
            cost = np.concatenate([-np.ones(k), np.zeros(k + 1)])
            found = linprog(cost, A_eq=A, b_eq=np.zeros(m), bounds=bounds, method="highs")
            out = np.zeros(len(kept), bool)
            if found.status == 0:
                out[np.flatnonzero(kept)] = found.x[:k] > 0.5
            self._possible[key] = out
        return self._possible[key]

    def _placed(self, start, block):
        out = np.zeros((len(block), self.width))
        out[:, start : start + block.shape[1]] = block
        return out

    def _assignments(self, factors):
        """Return all 0-1 assignments that satisfy every factor, as rows of the parts that they use."""
        U = np.array(list(product([0.0, 1.0], repeat=self.n)))
        additional = np.zeros((len(U), self.slope.shape[1]), bool)
        start = 0
        for variables, vertices, _, row in factors:
            own = U[:, variables]
            if row is not None:
                keep, width = own @ row[0] <= row[1] + 1e-12, 2 * len(variables) + 1
            else:
                which = (own[:, None] == vertices).all(axis=2)
                keep, width = which.any(axis=1), len(vertices)
                additional |= (which @ (self.slope[start : start + width] != 0.0)) > 0
            U, additional, start = U[keep], additional[keep], start + width
        return np.hstack([U > 0, additional])


class GraphOptimum:
    """The exact solution of LP-SparseMAP for one sample; attributes as those of `Optimum`.

    Parameters
    ----------
    polytope : LocalPolytope
    values : array
        Of the variables and the additional scores. Parts with scores below `HUGE` count as forbidden: some assignment
        must have none of them, and the multipliers of the factors must be far smaller.
    """

    is_forced = False

    def __init__(self, polytope, values):
        forbidden = values < HUGE
        kept = ~polytope.parts[:, forbidden].any(axis=1)
        kept = polytope.possible(kept)
        self.is_feasible = bool(kept.any())
        if not self.is_feasible:
            return
        values = np.where(forbidden, 0.0, values)
        c = polytope.T.T @ values[: polytope.n] + polytope.slope @ values[polytope.n :]
        A, T, c = polytope.A[:, kept], polytope.T[:, kept], c[kept]
        self.x, self.z, self.gap = solve_local(A, polytope.b, T, c)
        self.marginals = T @ self.x
        self.value = c @ self.x - 0.5 * self.marginals @ self.marginals
        self._A, self._T = A, T

    @property
    def is_certified(self):
        return self.gap <= CERTIFIED

    @cached_property
    def projector(self):
        """The Jacobian of the marginals with respect to the scores of the variables; None at or near a kink."""
        free = self.z < NEAR_FACE
        if (free & (self.x < NEAR_FACE)).any() or (self.z[free] > ON_FACE).any():
            return None
        A, T = self._A[:, free], self._T[:, free]
        _, singular, rows = np.linalg.svd(A)
        null = rows[(singular > 1e-9).sum() :]
        directions = T @ null.T
        U, singular, _ = np.linalg.svd(directions, full_matrices=False)
        U = U[:, singular > 1e-9]
        return U @ U.T


def solve_local(A, b, T, c):
    """Maximise ``c.x - 1/2 |T x|^2`` over ``A x = b, x >= 0``; return x, its reduced costs and its duality gap.

    First a linear program by HiGHS: its multipliers take the large part out of `c`, so that the digits of the
    regulariser are left. Then a primal-dual interior point, and Newton steps on the support that it has found.
    """
    _, R, order = qr(A.T, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(R)) > 1e-10 * np.abs(R[0, 0])).sum())
    A, b = A[order[:rank]], b[order[:rank]]
    c = c + A.T @ linprog(-c, A_eq=A, b_eq=b, bounds=(0, None), method="highs-ds").eqlin.marginals
    # Entries far from the support stay so, whatever the regulariser does; the last steps take `c` as it is.
    x, y, z = _interior_point(A, b, T, np.maximum(c, -1e3))
    # The large part of these multipliers, too, goes into `c`.
    c, best = c - A.T @ y, None
    for threshold in (1.0, 1e-2, 1e2, 1e-4, 1e4):
        free = x > threshold * z
        for _ in range(30):
            candidate = _polished(A, b, T, c, x, free)
            if best is None or candidate[2] < best[2]:
                best = candidate
            if best[2] <= CERTIFIED:
                return best
            # Let go of the entry that is most wrong.
            negative = np.minimum(candidate[0], 0.0) + np.where(free, 0.0, np.minimum(candidate[1], 0.0))
            free = free.copy()
            free[np.argmin(negative)] ^= True
    return best


def _interior_point(A, b, T, c):
    Q, (m, n) = T.T @ T, A.shape
    x, y, z = np.ones(n), np.zeros(m), np.maximum(1.0, -c)
    for _ in range(100):
        dual, primal = z - Q @ x + c - A.T @ y, b - A @ x
        mu = x @ z / n
        if mu < 1e-14:
            break
        K = np.block([[Q + np.diag(z / x), A.T], [A, np.zeros((m, m))]])

        def direction(complement):
            d = np.linalg.solve(K, np.concatenate([dual + complement / x, primal]))
            return d[:n], d[n:], (complement - z * d[:n]) / x

        def longest(v, d):
            return min(1.0, (0.9995 * v[d < 0] / -d[d < 0]).min(initial=np.inf))

        try:
            dx, dy, dz = direction(-x * z)
        except np.linalg.LinAlgError:
            # Near the end the numbers on the diagonal are too far apart.
            break
        after = (x + longest(x, dx) * dx) @ (z + longest(z, dz) * dz) / n
        dx, dy, dz = direction(mu * (after / mu) ** 3 - x * z - dx * dz)
        step = min(longest(x, dx), longest(z, dz))
        if not np.isfinite(step * (np.abs(dx).max() + np.abs(dz).max())):
            break
        x, y, z = x + step * dx, y + step * dy, z + step * dz
    return x, y, z


def _polished(A, b, T, c, x, free):
    """Solve the optimality conditions with `x` zero where it is not `free`; return x, reduced costs and the gap."""
    m, k = len(A), int(free.sum())
    A_free, T_free = A[:, free], T[:, free]
    K = np.block([[T_free.T @ T_free, A_free.T], [A_free, np.zeros((m, m))]])
    inverse = np.linalg.pinv(K, rcond=1e-12, hermitian=True)
    own = np.concatenate([x[free], np.zeros(m)])
    for _ in range(4):
        own = own + inverse @ (np.concatenate([c[free], b]) - K @ own)
    x = np.zeros(len(x))
    x[free], y = own[:k], own[k:]
    z = T.T @ (T @ x) + A.T @ y - c
    infeasible = max(np.abs(A @ x - b).max(), -x.min(), 0.0)
    # A multiplier that is negative by rounding counts with the most that its entry can be, about one.
    gap = np.abs(z * x).sum() + np.maximum(-z, 0.0).sum() + 1e-2 * infeasible
    return x, z, gap
