"""Simplex: one of n choices, the structure of multiclass prediction."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.jit import as_oracle
from ..._numerics.sparsemax import highest
from .._base import InEstimators, Structure, as_ints, as_parts, solver_in_tensors
from .._sums import softmax
from .projection import PROJECTION


@as_oracle
def best_choice(scores, additional, dims, work, slots, additional_slots):
    """Return the choice of highest score; ties go to the first."""
    best = 0
    for i in range(scores.shape[0]):
        if scores[i] > scores[best]:
            best = i
    slots[0] = best
    return scores[best]


@as_oracle
def simplex_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the softmax; return the log of its normaliser."""
    n = scores.shape[0]
    top = highest(scores)
    if top == -np.inf:
        return top
    for i in range(n):
        work[i] = scores[i] - top
    return top + softmax(work[:n])


class Simplex(Structure):
    """One of n choices.

    SparseMAP over the simplex is sparsemax ([1]_, section 2), which has a closed form. Scores have shape (n,), and a
    structure is an int. See `Structure` for the conventions.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import Simplex
    >>> sparsemap(Simplex(), [1.0, 0.5, -2.0]).marginals.tolist()
    [0.75, 0.25, 0.0]
    """

    score_ndim = 1
    oracle = best_choice
    tensor_solver = solver_in_tensors(__package__)
    marginal_oracle = simplex_marginals
    polytope_solver = PROJECTION
    labelled = True
    strict_encode = True

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        return shape

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        return 1, 0, 0

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        return int(dims[0])

    def exclusive_parts(self, dims: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.arange(dims[0])[None]

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        choice = as_ints(structure, (), 0, dims[0] - 1, f"a choice is an int from 0 to {dims[0] - 1}")
        return as_parts([choice]), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return int(slots[0])

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        return (n_outputs,)


class RowChoice(Simplex):
    """One of the rows of a sample, such as the candidates of a question: `Simplex` in estimators, for such samples."""

    labelled = False
    fixed_size = True
    in_estimators = InEstimators(predicts_arrays=True)

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        return rows

    def forbidden_by(self, known: Sequence[Any], shape: tuple[int, ...]) -> NDArray[np.bool_]:
        n = shape[0]
        allowed = as_ints(known, (len(known),), 0, n - 1, f"the rows that may be chosen are ints from 0 to {n - 1}")
        forbidden = np.ones(n, bool)
        forbidden[allowed] = False
        return forbidden


Simplex.in_estimators = InEstimators(of_rows=RowChoice())
