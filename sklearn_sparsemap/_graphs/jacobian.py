"""Products with the Jacobians of many samples of one graph, by one compiled call per thread.

Used by `inference`.
"""

import warnings
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.jit import readonly
from .._core.threads import over_ranges
from .._numerics.solver import MAX_STRUCTURE_CALLS
from .choice import structure_solvers
from .faces import MIN_SNAP, SNAP, Faces, Optima, find_faces_range, support_of_structure
from .projection import Products, project_range, pull_back_range, small_project_range
from .tables.derivative import tables_products_range


def has_converged(objective, gap, residual, tol):
    """Return whether residual and relative gap are at most `tol`, for numbers or arrays with one entry a sample."""
    return (residual <= tol) & (gap <= tol * np.maximum(1.0, np.abs(objective)))


def _with_structures(layout):
    """Return the arguments of kernels for a graph with structures: arrays, oracles, solvers."""
    return layout.arrays, layout.all_oracles(layout.oracles[0]), structure_solvers(layout)


class GraphJacobian:
    """The Jacobians of the marginals of samples of one graph, with respect to scores and additional scores.

    Parameters
    ----------
    problems : GraphBatch
    solutions : GraphSolutions
    again : callable or None
        ``again(problems, solutions, tol, n_jobs)`` continues to solve with a smaller tolerance. None uses the solutions
        as they are, without warnings if they are inexact.
    n_jobs : int or None
    """

    def __init__(self, problems, solutions, again, n_jobs=None):
        self._problems, self._solutions, self._again, self._n_jobs = problems, solutions, again, n_jobs
        self._face_arrays = None

    @cached_property
    def _exact(self):
        """Solutions exact enough to identify their faces, and the error of their marginals, one number a sample."""
        problems = self._problems
        solutions = self._solutions
        sizes = self._problems.sizes()
        # If all scores are zero, the tolerance is absolute.
        snaps = np.maximum(SNAP * np.minimum(np.where(sizes > 0.0, sizes, 1.0), 1.0), MIN_SNAP)
        tols = 0.1 * snaps
        inexact = ~has_converged(*solutions.statistics[:, :3].T, tols)
        if self._again is not None and inexact.any():
            solutions = type(solutions)(*(array.copy() for array in solutions))
            for tol in np.unique(tols[inexact]):
                rows = np.flatnonzero(inexact & (tols == tol))
                solutions.put(rows, self._again(problems.take(rows), solutions.take(rows), tol, self._n_jobs))
        return solutions, snaps

    def _optima(self):
        # Not stored, because arrays are writable after pickling.
        return _optima_of(self._problems, *self._exact)

    def _over_samples(self, function, limits=None):
        n = len(self._problems.scores)
        return over_ranges(function, np.full(n, len(self._problems.layout.arrays.links)), self._n_jobs, limit=limits)

    def _faces(self, directions):
        """Return the faces of all structures; the first call completes them along these directions."""
        layout = self._problems.layout
        n = len(directions)
        if self._face_arrays is None and not len(layout.arrays.structures):
            none = np.zeros(0)
            self._face_arrays = none, none, none, none, np.zeros((n, 0)), np.zeros((n, 0)), np.zeros((1, 4))
        if self._face_arrays is None:
            arguments = _with_structures(layout)
            optima = self._optima()
            limits = np.array([0, MAX_STRUCTURE_CALLS])
            pools = self._over_samples(
                lambda start, stop: find_faces_range(*arguments, optima, directions, limits, start, stop), limits
            )
            before = np.zeros(4, np.int64)
            for pool in pools:
                pool[-1][:] += before
                before += [len(array) for array in pool[:4]]
            # The last row of `starts` has the ends of the last face.
            pools[-1] = (*pools[-1][:-1], np.vstack([pools[-1][-1], before]))
            self._face_arrays = tuple(np.concatenate(parts) for parts in zip(*pools))
        kinds = np.int32, np.int32, np.float64, np.float64, np.int64, np.int64, np.int64
        return Faces(*map(readonly, self._face_arrays, kinds))

    def products(self, directions, changes=None, *, average=False, tol=1e-12, max_iter=10_000):
        """Multiply directions with the Jacobians, which are symmetric over scores and additional scores together.

        Parameters
        ----------
        directions : array of shape (n_samples, n_variables)
            Directions of the scores.
        changes : array of shape (n_samples, n_additional) or (1, n_additional), default=None
            Directions of the additional scores. None is zero.
        average : bool, default=False
            Whether to use the iteration of Niculae and Martins 2020, algorithm 2, in place of conjugate gradients.
        tol, max_iter
            Relative tolerance and maximum number of iterations of the method.

        Returns
        -------
        w, joint : arrays with one row a sample
            Derivatives of the marginals of the variables and of the additional scores.
        """
        layout = self._problems.layout
        n = len(directions)
        shape = (n, layout.n_additional)
        limits = np.array([max_iter])
        if changes is not None:
            changes = readonly(np.broadcast_to(changes, shape)) if changes.any() else None
        out = Products(np.array(directions), np.zeros(shape), np.zeros(n, np.int64))
        directions = readonly(directions)
        if layout.tables is not None and not average:
            tables = layout.tables
            optima = self._optima()
            changes = readonly(np.zeros(shape)) if changes is None else changes
            self._over_samples(
                lambda start, stop: tables_products_range(
                    tables, optima, directions, changes, tol, limits, start, stop, out
                ),
                limits,
            )
        elif layout.small is not None and layout.small[1] is None and not average:
            arrays = layout.small[0]
            optima = self._optima()
            self._over_samples(
                lambda start, stop: small_project_range(arrays, optima, tol, limits, start, stop, out), limits
            )
        else:
            arrays = layout.arrays
            faces = self._faces(directions)
            optima = self._optima()
            if changes is not None:
                self._over_samples(
                    lambda start, stop: pull_back_range(arrays, optima, faces, changes, start, stop, out.marginals)
                )
            self._over_samples(
                lambda start, stop: project_range(arrays, optima, faces, average, tol, limits, start, stop, out), limits
            )
        if self._again is not None and (out.n_iter >= max_iter).any():
            warnings.warn(
                f"the derivative did not converge in max_iter={max_iter} iterations; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return out.marginals, out.joint


def _optima_of(problems, solutions, snaps):
    arrays = problems.scores, problems.additional, solutions.marginals, solutions.links, solutions.joint, snaps
    return Optima(*map(readonly, arrays))


def structures_of(problem, solution, f):
    """Return the structures that factor `f` selects in a sample: list of (structure, probability)."""
    layout = problem.layout
    limits = np.array([0, MAX_STRUCTURE_CALLS])
    arrays = layout.arrays
    optima = _optima_of(problem, solution, np.zeros(1))
    index = int(np.searchsorted(arrays.structures, f))
    slots, weights = support_of_structure(*_with_structures(layout), optima, 0, index, limits)
    dims = arrays.dims[arrays.dims_ptr[f] : arrays.dims_ptr[f + 1]]
    structure = layout.factor_of(f).structure
    order = [s for s in np.argsort(-weights, kind="stable") if weights[s] > 1e-12]
    return [(structure.decode(slots[s], dims), float(weights[s])) for s in order]
