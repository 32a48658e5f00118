"""What inference in a factor graph returns."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._jit import readonly
from ...graphs._arrays import FORBIDDEN
from .._polytope.active_set import active_set
from .._polytope.batch import Problems, sparsemap_range
from .._polytope.face import FACE_TOLERANCE, Face, complete_face
from .._polytope.protocol import AIM, MOST_STRUCTURE_CALLS, STRUCTURE_TOL
from .faces import Faces, project_on_faces, pull_back_pairs
from .rows import force_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

# Marginals as close as this to 0 or 1 count as such.
_INTEGRAL = 1e-6
# Derivatives look for faces. A marginal as close to a bound as this lies on it, and a structure whose reduced cost is
# this small is in the face, both relative to the scores where these are small; solutions are made ten times as exact
# before. No solution is exact beyond rounding.
_SNAP, _LEAST_SNAP, _LEAST_TOLERANCE = 1e-9, 1e-13, 1e-12


def has_converged(objective, gap, residual, tol):
    """Tell whether solutions are as exact as `tol` asks: numbers, or arrays with one entry a sample."""
    return (residual <= tol) & (gap <= tol * np.maximum(1.0, np.abs(objective)))


class LPSparseMAPResult:
    """The solution of LP-SparseMAP for one sample (L 3).

    Attributes
    ----------
    marginals : ndarray, shape of the variables; or dict of str -> ndarray
        One array if the graph has one array of variables, else by name.
    additional_marginals : dict
        By the name of the factor: for pairs an array, the probability that both are on; for structures a dict of
        arrays, the expected counts. One of possibly several optimal ones.
    objective : float
        ``scores.marginals + additional.additional_marginals - 1/2 |marginals|^2``.
    gap : float
        Distance of the dual's value from the objective, never negative. It bounds what is missing to the optimum as
        far as the marginals satisfy the factors, which the residual tells.
    residual : float
        Largest difference between a marginal and what one of its factors makes of it: how far the marginals are from
        satisfying all factors.
    n_iter : int
        Sweeps and Newton steps.
    converged : bool
        Whether residual and gap (relative to the objective, where that is above 1) are within the tolerance.
    integral : bool
        Whether all marginals are 0 or 1 up to 1e-6.
    """

    def __init__(self, problem, solution, tol, again):
        # Both are batches of one sample; `again` solves such a problem from such a solution more exactly.
        self._problem, self._solution, self._again = problem, solution, again
        self._layout, self._scores, self._additional = problem.layout, problem.scores[0], problem.additional[0]
        self._u, self._joint, self._multipliers, self._links, statistics = (array[0] for array in solution)
        self._sharp = None
        self._joined = self._faces = None
        self.objective, self.gap, self.residual = statistics[:3].tolist()
        self.n_iter = int(statistics[3])
        self.converged = bool(has_converged(self.objective, self.gap, self.residual, tol))

    @property
    def marginals(self) -> Any:
        return self._layout.shape_variables(self._u)

    @property
    def additional_marginals(self) -> dict[str, Any]:
        return self._layout.shape_additional(self._joint)

    @property
    def integral(self) -> bool:
        return bool((np.minimum(self._u, 1.0 - self._u) <= _INTEGRAL).all())

    @property
    def structures(self) -> dict[str, list[tuple[Any, float]]]:
        """For each named structure factor, its selected structures: dict of str -> list of (structure, probability)."""
        return {
            self._layout.graph.factor_of(f).name: self._supports(f)[2]
            for f in self._layout.arrays.structures
            if self._layout.graph.factor_of(f).name is not None
        }

    def vjp(
        self, v: Any, *, method: Literal["cg", "average"] = "cg", tol: float = 1e-12, max_iter: int = 10_000
    ) -> dict[str, Any]:
        """Multiply a vector with the Jacobian of the marginals (reverse mode).

        Parameters
        ----------
        v : array-like or dict, like `marginals`
            Gradient of some loss with respect to the marginals. Arrays that a dict leaves out are zero.
        method : {"cg", "average"}, default="cg"
            Conjugate gradients, or the iteration of L Alg. 2.
        tol : float, default=1e-12
            Relative tolerance of the method.
        max_iter : int, default=10_000
            Most iterations of the method.

        Returns
        -------
        gradients : dict
            ``"scores"``, like the marginals, and ``"additional"``, like the additional scores.
        """
        if method not in ("cg", "average"):
            raise ValueError(f"method={method!r} is not one of 'cg', 'average'")
        if not (tol > 0 and max_iter >= 1):
            raise ValueError(f"tol and max_iter must be positive; got {tol!r} and {max_iter!r}")
        v = self._layout.join_variables(v, "v")
        here = self._sharpened()
        w, joint = here._project(v, method == "average", tol, max_iter)
        return {"scores": self._layout.shape_variables(w), "additional": self._layout.sum_additional(joint)}

    def jvp(self, scores: Any = None, additional: Mapping[str, Any] | None = None) -> Any:
        """Directional derivative of the marginals (forward mode).

        Parameters
        ----------
        scores : array-like or dict, like `marginals`, default=None
            Direction in which the scores change; None is zero.
        additional : dict, default=None
            Directions of the additional scores, by name.

        Returns
        -------
        derivative : like `marginals`
        """
        here = self._sharpened()
        direction = np.zeros(len(self._u)) if scores is None else self._layout.join_variables(scores, "scores").copy()
        here._pull_back(self._layout.join_additional(additional or {}), direction)
        w, _ = here._project(direction, False, 1e-12, 10_000)
        return self._layout.shape_variables(w)

    def _sharpened(self):
        """Return this result, or one that is solved to rounding, for faces are to be told apart."""
        if self._sharp is None:
            self._sharp, tol = self, 0.1 * self._snap
            if not (self.residual <= tol and self.gap <= tol * max(1.0, abs(self.objective))):
                solution = self._again(self._problem, self._solution, tol)
                self._sharp = LPSparseMAPResult(self._problem, solution, tol, self._again)
                self._sharp._sharp = self._sharp
        return self._sharp

    def _literals(self, f):
        """Return links, signs, marginals and scores of the literals of a factor."""
        arrays = self._layout.arrays
        links = slice(arrays.link_ptr[f], arrays.link_ptr[f + 1])
        variables, signs = arrays.links[links], arrays.signs[links]
        u, z = self._u[variables], self._u[variables] + self._links[links]
        p, z = np.where(signs > 0, u, 1 - u), np.where(signs > 0, z, 1 - z)
        z[self._scores[variables] < 0.5 * FORBIDDEN] = -np.inf
        forced = (z == -np.inf) & (signs < 0)
        if forced.any():
            z[forced] = np.inf
            own = self._additional[arrays.additional_ptr[f] : arrays.additional_ptr[f + 1]]
            force_parts.py_func(z, own, arrays.sizes[f])
        return variables, signs, p, z

    def _supports(self, f):
        """Solve SparseMAP of a structure factor anew; return its problem, its support and the decoded structures."""
        arrays, structure = self._layout.arrays, self._layout.graph.factor_of(f).structure
        _, _, _, z = self._literals(f)
        own = slice(arrays.additional_ptr[f], arrays.additional_ptr[f + 1])
        dims = readonly(arrays.dims[arrays.dims_ptr[f] : arrays.dims_ptr[f + 1]], np.int64)
        sizes = readonly(arrays.sizes[f], np.int64)
        problem = Problems(
            readonly(z),
            readonly([0, len(z)], np.int64),
            readonly(self._additional[own]),
            readonly([0], np.int64),
            readonly([own.stop - own.start], np.int64),
            readonly(dims[None], np.int64),
            readonly(sizes[None], np.int64),
        )
        p, statistics = np.empty(len(z)), np.empty((1, 4))
        limit = np.array([MOST_STRUCTURE_CALLS])
        slots, extra, weights = sparsemap_range(
            structure.oracle, active_set, problem, 0, 1, AIM * STRUCTURE_TOL, STRUCTURE_TOL, limit, p, statistics
        )
        slots, extra = slots.reshape(len(weights), -1), extra.reshape(len(weights), -1)
        order = np.argsort(-weights, kind="stable")
        decoded = [(structure.decode(slots[s], dims), float(weights[s])) for s in order if weights[s] > 1e-12]
        return (problem, dims, sizes, p), (slots, extra), decoded

    @property
    def _snap(self):
        """How close to a bound a marginal must be to lie on it."""
        allowed = self._scores[self._scores > 0.5 * FORBIDDEN]
        finite = self._additional[np.isfinite(self._additional)]
        size = max(np.abs(allowed).max(initial=0.0), np.abs(finite).max(initial=0.0))
        # Scores that are all zero have no size.
        return max(_SNAP * min(size or 1.0, 1.0), _LEAST_SNAP)

    def _find_faces(self, direction):
        """Complete the faces of the structures, and lay them out for the kernels."""
        arrays = self._layout.arrays
        self._faces = {}
        for f in arrays.structures:
            variables, signs, _, _ = self._literals(f)
            (problem, dims, sizes, p), (slots, extra), _ = self._supports(f)
            spanning = complete_face(
                self._layout.graph.factor_of(f).structure.oracle,
                problem.scores,
                problem.additional,
                dims,
                sizes,
                readonly(p),
                slots,
                extra,
                readonly(signs * direction[variables]),
                max(FACE_TOLERANCE * self._snap / _SNAP, _LEAST_TOLERANCE),
            )
            self._faces[f] = Face(*spanning, len(p), len(problem.additional))
        faces = list(self._faces.values())
        self._joined = Faces(
            np.concatenate([np.zeros(0, np.int32), *(face.slots.ravel() for face in faces)]),
            np.concatenate([np.zeros(0), *(face.factor.ravel() for face in faces)]),
            np.concatenate([np.zeros(0), *(face.ones for face in faces)]),
            np.array([len(face.slots) for face in faces], np.int64),
        )

    def _project(self, direction, average, tol, max_iter):
        """Return the projection of a direction, and how the additional marginals change along it."""
        arrays = self._layout.arrays
        if self._joined is None:
            self._find_faces(direction)
        # Arrays that went through pickle are writable.
        faces = Faces(*(readonly(array, array.dtype) for array in self._joined))
        w, change = np.empty(len(self._u)), np.zeros(len(arrays.kinds))
        n_iter = project_on_faces(
            arrays, self._additional, readonly(self._u), faces, self._snap, readonly(direction), average, tol, max_iter,
            w, change,
        )  # fmt: skip
        if n_iter >= max_iter:
            warnings.warn(
                f"the derivative did not converge in max_iter={max_iter} iterations; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        w[self._scores < 0.5 * FORBIDDEN] = 0.0
        joint = np.zeros(self._layout.n_additional)
        joint[arrays.additional_ptr[arrays.pairs]] = change[arrays.pairs]
        for f, face in self._faces.items():
            variables, signs, _, _ = self._literals(f)
            own = slice(arrays.additional_ptr[f], arrays.additional_ptr[f + 1])
            joint[own] = face.spread(face.products(signs * w[variables]))[1]
        return w, joint

    def _pull_back(self, changes, direction):
        """Add to `direction` the scores that move the marginals as changes of the additional scores do."""
        if not changes.any():
            return
        arrays = self._layout.arrays
        if self._joined is None:
            self._find_faces(direction)
        pull_back_pairs(arrays, self._additional, readonly(self._u), self._snap, readonly(changes), direction)
        for f, face in self._faces.items():
            own = changes[arrays.additional_ptr[f] : arrays.additional_ptr[f + 1]]
            if own.any():
                variables, signs, p, _ = self._literals(f)
                direction[variables] += signs * face.spread(face.products(np.zeros(len(p)), own))[0]

    def __repr__(self):
        return (
            f"LPSparseMAPResult(objective={self.objective:.6g}, gap={self.gap:.2g}, residual={self.residual:.2g}, "
            f"n_iter={self.n_iter}, integral={self.integral}, converged={self.converged})"
        )
