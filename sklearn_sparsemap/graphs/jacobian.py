"""Products with the Jacobians of all samples of one graph, inside one compiled call a thread."""

import warnings
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.jit import readonly
from .._core.threads import over_ranges
from ..numerics.solver import MOST_STRUCTURE_CALLS
from .choice import structure_solvers
from .faces import LEAST_SNAP, SNAP, Faces, Optima, find_faces_range, support_of_structure
from .projection import Products, project_range, pull_back_range
from .tables.derivative import tables_products_range


def has_converged(objective, gap, residual, tol):
    """Tell whether solutions are as exact as `tol` asks: numbers, or arrays with one entry a sample."""
    return (residual <= tol) & (gap <= tol * np.maximum(1.0, np.abs(objective)))


def _with_structures(layout):
    """Return what kernels take of a graph that has structures: arrays, oracles, solvers."""
    return layout.arrays, layout.all_oracles(layout.oracles[0]), structure_solvers(layout)


class GraphJacobian:
    """The Jacobians of the marginals of samples of one graph, with respect to scores and additional scores.

    Parameters
    ----------
    problems : GraphProblems
    solutions : GraphSolutions
    again : callable or None
        ``again(problems, solutions, tol, n_jobs)`` solves more exactly from where solutions ended. None takes them as
        they are, and does not warn of what is inexact.
    n_jobs : int or None
    """

    def __init__(self, problems, solutions, again, n_jobs=None):
        self._problems, self._solutions, self._again, self._n_jobs = problems, solutions, again, n_jobs
        self._found = None

    @cached_property
    def _exact(self):
        """Solutions that are exact to rounding, for faces are to be told apart; and how exact marginals are."""
        problems, solutions, sizes = self._problems, self._solutions, self._problems.sizes()
        # Scores that are all zero have no size.
        snaps = np.maximum(SNAP * np.minimum(np.where(sizes > 0.0, sizes, 1.0), 1.0), LEAST_SNAP)
        tols = 0.1 * snaps
        inexact = ~has_converged(*solutions.statistics[:, :3].T, tols)
        if self._again is not None and inexact.any():
            solutions = type(solutions)(*(array.copy() for array in solutions))
            for tol in np.unique(tols[inexact]):
                rows = np.flatnonzero(inexact & (tols == tol))
                solutions.put(rows, self._again(problems.take(rows), solutions.take(rows), tol, self._n_jobs))
        return solutions, snaps

    def _optima(self):
        # Made anew each time, for arrays that went through pickle are writable.
        return _optima_of(self._problems, *self._exact)

    def _over_samples(self, function, limits=None):
        n = len(self._problems.scores)
        return over_ranges(function, np.full(n, len(self._problems.layout.arrays.links)), self._n_jobs, limit=limits)

    def _faces(self, directions):
        """Return the faces of all structures, completed along these directions if they are not known yet."""
        layout, n = self._problems.layout, len(directions)
        if self._found is None and not len(layout.arrays.structures):
            none = np.zeros(0)
            self._found = none, none, none, none, np.zeros((n, 0)), np.zeros((n, 0)), np.zeros((1, 4))
        if self._found is None:
            own, optima, limits = _with_structures(layout), self._optima(), np.array([0, MOST_STRUCTURE_CALLS])
            pools = self._over_samples(
                lambda start, stop: find_faces_range(*own, optima, directions, limits, start, stop), limits
            )
            before = np.zeros(4, np.int64)
            for pool in pools:
                pool[-1][:] += before
                before += [len(array) for array in pool[:4]]
            # The end of the last sample's entries.
            pools[-1] = (*pools[-1][:-1], np.vstack([pools[-1][-1], before]))
            self._found = tuple(np.concatenate(parts) for parts in zip(*pools))
        kinds = np.int32, np.int32, np.float64, np.float64, np.int64, np.int64, np.int64
        return Faces(*map(readonly, self._found, kinds))

    def vjp(self, directions, average=False, tol=1e-12, max_iter=10_000):
        """Multiply directions, one row a sample, with the Jacobians; see `LPSparseMAPResult.vjp`.

        Returns
        -------
        w, joint : arrays with one row a sample
            How the marginals of the variables and those of the additional scores change.
        """
        n, n_additional = len(directions), self._problems.layout.n_additional
        if self._problems.layout.tables is not None and not average:
            return self._products_of_tables(directions, np.zeros(self._shape_of_joint), tol, max_iter)
        faces, optima = self._faces(readonly(directions)), self._optima()
        out = Products(np.array(directions), np.zeros((n, n_additional)), np.zeros(n, np.int64))
        arrays, limits = self._problems.layout.arrays, np.array([max_iter])
        self._over_samples(
            lambda start, stop: project_range(arrays, optima, faces, average, tol, limits, start, stop, out), limits
        )
        self._warn(out.n_iter, max_iter)
        return out.marginals, out.joint

    def _warn(self, n_iter, max_iter):
        if self._again is not None and (n_iter >= max_iter).any():
            warnings.warn(
                f"the derivative did not converge in max_iter={max_iter} iterations; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _products_of_tables(self, directions, changes, tol=1e-12, max_iter=10_000):
        """Multiply directions and changes with the Jacobians where there is nothing but tables."""
        tables, optima, limits = self._problems.layout.tables, self._optima(), np.array([max_iter])
        out = Products(np.empty(directions.shape), np.empty(changes.shape), np.zeros(len(directions), np.int64))
        own = readonly(directions), readonly(changes), tol
        self._over_samples(
            lambda start, stop: tables_products_range(tables, optima, *own, limits, start, stop, out), limits
        )
        self._warn(out.n_iter, max_iter)
        return out.marginals, out.joint

    def jvp(self, directions, changes):
        """Return how the marginals change along directions of the scores and changes of the additional scores."""
        return self.products(directions, changes)[0]

    def products(self, directions, changes):
        """Return how the marginals and the additional marginals change along directions and changes, as `vjp` does.

        Over scores and additional scores together the Jacobian is symmetric: this is its product with a vector.
        """
        directions = np.array(directions)
        if self._problems.layout.tables is not None:
            return self._products_of_tables(directions, np.broadcast_to(changes, self._shape_of_joint))
        if changes.any():
            faces, optima = self._faces(readonly(directions)), self._optima()
            arrays, changes = self._problems.layout.arrays, readonly(np.broadcast_to(changes, self._shape_of_joint))
            self._over_samples(
                lambda start, stop: pull_back_range(arrays, optima, faces, changes, start, stop, directions)
            )
        return self.vjp(directions)

    @property
    def _shape_of_joint(self):
        return len(self._problems.scores), self._problems.layout.n_additional


def _optima_of(problems, solutions, snaps):
    arrays = problems.scores, problems.additional, solutions.marginals, solutions.links, solutions.joint, snaps
    return Optima(*map(readonly, arrays))


def structures_of(problem, solution, f):
    """Return the structures that factor `f` selects in a sample: list of (structure, probability)."""
    layout, limits = problem.layout, np.array([0, MOST_STRUCTURE_CALLS])
    arrays, optima = layout.arrays, _optima_of(problem, solution, np.zeros(1))
    place = int(np.searchsorted(arrays.structures, f))
    slots, weights = support_of_structure(*_with_structures(layout), optima, 0, place, limits)
    dims, structure = arrays.dims[arrays.dims_ptr[f] : arrays.dims_ptr[f + 1]], layout.graph.factor_of(f).structure
    order = [s for s in np.argsort(-weights, kind="stable") if weights[s] > 1e-12]
    return [(structure.decode(slots[s], dims), float(weights[s])) for s in order]
