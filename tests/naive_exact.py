"""Exact SparseMAP by enumeration: vertices, the quadratic programme over them, and the projector of the derivative."""

from functools import cached_property

import naive
import numpy as np
from registry import listed
from scipy.optimize import linprog

# What the reference's own duality gap must be: its marginals are then within 5e-7, the root of twice that.
CERTIFIED = 1e-13
# Reduced scores closer than this to the largest one belong to the face; those closer than the second are in doubt.
ON_FACE, NEAR_FACE = 1e-9, 1e-5


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

    def totals(self, values, mask):
        """Return the totals of all structures minus the best total, and that structure's total.

        Entries of `values` equal to `mask` are counted, not added: a mask of -1e14 would leave no digits of the rest.
        """
        masked = np.zeros(len(values), bool) if mask is None else values == mask
        rest, n_masked = self.counts @ np.where(masked, 0.0, values), self.counts @ masked
        self.fewest_masked = n_masked.min()
        if mask == -np.inf:
            rest[n_masked > 0] = -np.inf
        elif masked.any() and -mask > 4.0 * np.ptp(rest):
            # A structure with fewer masked parts is better by more than all other scores amount to.
            first = int(np.argmax(np.where(n_masked == n_masked.min(), rest, -np.inf)))
            return self._differences(rest, n_masked, mask, first)
        elif masked.any():
            return self._differences(rest, n_masked, mask, int(np.argmax(rest + n_masked * mask)))
        best = rest.max()
        return (rest - best if best > -np.inf else rest), best

    def _differences(self, rest, n_masked, mask, first):
        difference, more = rest - rest[first], n_masked != n_masked[first]
        with np.errstate(over="ignore"):
            difference[more] += (n_masked[more] - n_masked[first]) * mask
            return difference, rest[first] + (n_masked[first] * mask if n_masked[first] else 0.0)


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
        Whether every structure has a masked part.
    """

    def __init__(self, vertices, values, mask):
        self.vertices = vertices
        self.differences, self.best = vertices.totals(values, mask)
        self.is_forced = bool(vertices.fewest_masked > 0)
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
