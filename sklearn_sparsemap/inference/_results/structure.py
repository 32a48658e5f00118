"""Results of inference in structures for one sample.

Used by `inference` and `structure_batch.py`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..._core.annotations import Any, ArrayLike, NDArray
from ..._core.html import N_ROWS, as_html, attributes, short, table
from ..._core.jit import readonly
from ..._core.validation import check_numbers
from ..._numerics.active_set import active_set
from ..._numerics.backward import Products
from ..._numerics.face import Direction, complete_face
from ..._numerics.loops import GAP, N_ITER, OBJECTIVE
from ..._numerics.solver import AIM
from ..._numerics.support import EPS
from .._batch import default_max_iter
from .products import make_directions, make_supports, multiply
from .solutions import SparseMAPSolutions, most_probable_first

S = TypeVar("S")  # the type of a structure


class MAPResult(NamedTuple, Generic[S]):
    """The structure with the highest score.

    Attributes
    ----------
    structure : object
        The structure, in the form that its class documents.
    value : float
        Its total score.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> result = map_inference(Simplex(), [0.5, 1.0, 0.0])
    >>> result.structure, result.value
    (1, 1.0)
    """

    structure: S
    value: float


class MarginalResult(NamedTuple):
    """The marginals of a Gibbs distribution.

    Attributes
    ----------
    marginals : ndarray, shape of scores
        Probability of each part.
    additional_marginals : dict of str -> ndarray
        Expected counts of the additional parts, for each given additional score, in its shape.
    log_partition : float
        Logarithm of the sum of exp(score) over all structures.

    Examples
    --------
    >>> from sklearn_sparsemap import marginal_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> result = marginal_inference(Simplex(), [0.0, 0.0])
    >>> result.marginals.tolist(), round(result.log_partition, 3)
    ([0.5, 0.5], 0.693)
    """

    marginals: NDArray[np.float64]
    additional_marginals: dict[str, NDArray[np.float64]]
    log_partition: float


class SparseMAPResult(SparseMAPSolutions):
    """The solution of a SparseMAP problem.

    The problem is defined in [1]_, section 3.

    Attributes
    ----------
    marginals : ndarray, shape of scores
        Probability of each part, exactly 0 for parts of no structure in the support.
    additional_marginals : dict of str -> ndarray
        Expected counts of the additional parts, for each given additional score, in its shape. They may not be unique,
        because they are not regularised.
    structures : list
        The support: the structures of the mixture, most probable first.
    weights : ndarray of shape (n_structures,)
        Probabilities of the structures.
    objective : float
        ``scores.marginals + additional.additional_marginals - 1/2 |marginals|^2``.
    gap : float
        Duality gap: an upper bound of the optimal objective minus the objective. It bounds the error of the marginals:
        ``|marginals - optimum|^2 <= 2 gap``.
    n_iter : int
        Number of calls of the MAP oracle; 1 for a closed form.
    converged : bool
        Whether the gap is within the requested tolerance, or within rounding.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import Simplex
    >>> result = sparsemap(Simplex(), [0.5, 1.0, -1.0])
    >>> result.marginals.tolist(), result.structures, result.weights.tolist()
    ([0.25, 0.75, 0.0], [1, 0], [0.75, 0.25])
    >>> result.vjp([1.0, 0.0, 0.0])["scores"].tolist()
    [0.5, -0.5, 0.0]
    >>> result.converged, result.gap < 1e-9
    (True, True)
    """

    _face = None  # structures that span the face of the solution, after the first product

    @cached_property
    def marginals(self) -> NDArray[np.float64]:
        return self._flat.reshape(self._batch.shape)

    @property
    def objective(self) -> float:
        return float(self._statistics[0, OBJECTIVE])

    @property
    def gap(self) -> float:
        return float(self._statistics[0, GAP])

    @property
    def n_iter(self) -> int:
        return int(self._statistics[0, N_ITER])

    @cached_property
    def converged(self) -> bool:
        return self.gap <= self._tol or self.gap <= self._rounding()

    def _rounding(self):
        """Return the gap that rounding alone can cause; larger than `rounding_of_gap`, at which solvers stop.

        Sums of n terms lose up to n / 2 units in their last place.
        """
        problem, u = self._batch, self._flat
        if self._by_facets[0]:
            # Forbidden parts, with scores of -inf, have no weight.
            here = u > 0.0
            expected = self.additional_flat
            there = expected > 0.0
            size = np.abs(problem.scores[here]) @ u[here] + np.abs(problem.additional[there]) @ expected[there]
        else:
            pairs = zip(self.support[:2], (problem.scores, problem.additional))
            # The index -1 of an empty slot takes the appended zero.
            size = sum(np.append(np.abs(scores), 0.0)[slots].sum(axis=1) for slots, scores in pairs).max()
        # Only marginals of parts that repeat can be larger than 1.
        size += 1.0 + max(problem.sizes[0], u @ u)
        return EPS * size * max(32.0, 0.5 * min(problem.sizes[0], problem.n_parts))

    @cached_property
    def support(self):
        """Slots, additional slots and weights of the solver's structures, including negligible ones; a row for each."""
        p, slots, additional_slots, weights = self._batch, self._slots, self._additional_slots, self._weights
        structure, by_facets, sizes = p.structure, self._by_facets[0], p.sizes
        if by_facets and structure.polytope_solver.paths is not None:
            # The paths are those of the flow of the additional marginals, with which another support may disagree.
            paths, weights = structure.polytope_solver.paths(
                p.dims, readonly(self._flat), slots, additional_slots, weights
            )
            encoded = structure.in_estimators.encode_all(structure, paths, p.dims)
            slots, additional_slots = (np.array(parts) for parts in zip(*encoded))
        elif by_facets:
            limit = np.array([default_max_iter(p.n_parts) if self._max_iter is None else self._max_iter])
            none = np.empty((0, 0), np.int32)
            slots, additional_slots, weights, *_ = active_set(
                structure.oracle, p.scores, p.additional, p.dims, sizes, AIM * self._tol, self._tol, limit,
                none, none, np.empty(0), np.empty(p.n_parts),
            )  # fmt: skip
        return slots.reshape(len(weights), sizes[0]), additional_slots.reshape(len(weights), sizes[1]), weights

    def _supports(self, chosen):
        return [self.support]

    @cached_property
    def _order(self):
        """Indices of the structures with positive weight, most probable first."""
        weights = self.support[2]
        return most_probable_first(weights, [len(weights)])[0]

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        return self.support[2][self._order]

    @cached_property
    def structures(self) -> list[Any]:
        return self._batch.structure.decode_stack(self.support[0][self._order], self._batch.dims)

    @property
    def additional_marginals(self) -> dict[str, NDArray[np.float64]]:
        return self._batch.split_additional(self.additional_flat)

    def _products(self, unary, additional):
        """Multiply a direction with the Jacobian of the marginals and of the additional marginals."""
        if self._face is not None:
            # An earlier direction has completed the support.
            directions = make_directions(unary, additional, self._extra_ptr)
            return multiply(self._batch.problems, self._face, directions)
        if self.knows_face() or (self._by_facets[0] and self._without_ties()[0]):
            # No support needs to be completed.
            return self.products(unary, additional)
        p = self._batch
        direction = Direction(readonly(unary), readonly(np.zeros(len(additional))), False)
        out = Products(np.empty(len(unary)), np.empty(len(additional)))
        slots, additional_slots = complete_face(
            p.structure.oracle, p.scores, p.additional, p.dims, p.sizes, readonly(self._flat),
            tuple(self.support[:2]), direction, readonly(additional), tuple(out),
        )  # fmt: skip
        self._face = make_supports(slots, additional_slots, np.array([len(slots)]), p.problems.sizes)
        return out

    def _gradients(self, products):
        unary, additional = products
        return {"scores": unary.reshape(self._batch.shape), **self._batch.split_additional(additional)}

    def _directions(self, scores, additional):
        unary = np.zeros(self._batch.n_parts) if scores is None else self._batch.as_scores("scores", scores)
        return unary, self._batch.join_additional(additional)

    def vjp(self, v: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Multiply a vector with the Jacobian of the marginals (reverse mode).

        The first call completes the face of the solution by some calls of the oracle; later calls reuse it. Time and
        memory are quadratic in the number of affinely independent structures on the face. In general there are few, but
        very many if all scores are equal.

        Parameters
        ----------
        v : array-like, shape of scores
            Gradient of some loss with respect to the marginals.

        Returns
        -------
        gradients : dict of str -> ndarray
            The gradients with respect to ``"scores"`` and to each given additional score, in their shapes.
        """
        return self._gradients(self._products(self._batch.as_scores("v", v), np.zeros(self._extra_ptr[-1])))

    def jvp(self, scores: ArrayLike | None = None, **additional: ArrayLike) -> NDArray[np.float64]:
        """Compute the directional derivative of the marginals (forward mode).

        Parameters
        ----------
        scores : array-like, shape of scores, default=None
            Direction of the scores. Default: zero.
        **additional : array-like
            Directions of the additional scores, by name. Default: zero.

        Returns
        -------
        derivative : ndarray, shape of scores
        """
        return self._products(*self._directions(scores, additional))[0].reshape(self._batch.shape)

    def weights_vjp(self, v: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Multiply a vector with the Jacobian of the weights of the structures (reverse mode).

        The support is held fixed. It does not change for small changes of the scores, except at a kink.

        Parameters
        ----------
        v : array-like of shape (n_structures,)
            Gradient of some loss with respect to `weights`.

        Returns
        -------
        gradients : dict of str -> ndarray
            As `vjp` returns.

        Raises
        ------
        ValueError
            If the weights are not unique, because the structures of the support are affinely dependent. This never
            happens with ``solver="active_set"``.
        """
        v = check_numbers(v, "v")
        if v.shape != self.weights.shape:
            raise ValueError(f"v has shape {v.shape}, but there are {len(self.weights)} structures")
        return self._gradients(self.weight_products(v))

    def weights_jvp(self, scores: ArrayLike | None = None, **additional: ArrayLike) -> NDArray[np.float64]:
        """Compute the directional derivative of the weights of the structures (forward mode).

        Parameters
        ----------
        scores : array-like, shape of scores, default=None
            Direction of the scores. Default: zero.
        **additional : array-like
            Directions of the additional scores, by name. Default: zero.

        Returns
        -------
        derivative : ndarray of shape (n_structures,)
            Its entries sum to zero.

        Raises
        ------
        ValueError
            As in `weights_vjp`.
        """
        direction, extra = self._directions(scores, additional)
        # Each structure has a row of the Jacobian.
        rows = map(self.weight_products, np.eye(len(self.weights)))
        return np.array([unary @ direction + joint @ extra for unary, joint in rows])

    def __repr__(self):
        structures = f"n_structures={len(self.weights)}, " if self._knows_structures() else ""
        return (
            f"SparseMAPResult({structures}objective={self.objective:.6g}, "
            f"gap={self.gap:.2g}, n_iter={self.n_iter}, converged={self.converged})"
        )

    def _repr_html_(self):
        tables = [attributes(self, "objective", "gap", "n_iter", "converged")]
        if self._knows_structures():
            pairs = zip(self.weights[:N_ROWS], map(short, self.structures))
            tables.append(table(("weight", "structure"), list(pairs), len(self.weights)))
        return as_html("SparseMAPResult", *tables)

    def _knows_structures(self):
        # Structures of a solution by facets are computed on demand.
        return not self._by_facets[0] or "support" in vars(self)
