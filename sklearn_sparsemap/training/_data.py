"""What the optimisers learn from and what they learn: flat training data, and the weights of a linear model."""

from collections import namedtuple

import numpy as np
from numba import types
from scipy import sparse

from .._jit import FLOATS, INTS, INTS_2D, PARTS, kernel, readonly
from ..losses._kernel import GOLD, INEXACT, Gold, join_gold, loss_of_sample
from ..structures import Simplex

# Sample i owns the rows row_ptr[i]..row_ptr[i + 1] of the features and as many rows of scores, one for each output;
# `gold`, `dims` and `sizes` describe its structure (see structures/_base.py); `weights` are the sample weights.
Targets = namedtuple("Targets", ["row_ptr", "dims", "sizes", "gold", "weights"])
TARGETS = types.NamedTuple([INTS, INTS_2D, INTS_2D, GOLD, FLOATS], Targets)

# Features as CSR rows.
Rows = namedtuple("Rows", ["data", "indices", "indptr"])
ROWS = types.NamedTuple([FLOATS, PARTS, INTS], Rows)


@kernel
def loss_of_target(
    oracle, solver, form, scores, additional, targets, i, tol, memory, residual, additional_residual
):
    """Compute the loss of sample `i` under its scores, and its gradient; see `loss_of_sample`.

    Returns
    -------
    loss : float
        Not weighted, while what is added to `additional_residual` is.
    inexact : bool
        Whether the inference ended so far from the optimum that it matters.
    """
    gold = targets.gold
    loss, gap = loss_of_sample(
        oracle,
        solver,
        form,
        scores,
        additional,
        targets.dims[i],
        targets.sizes[i],
        gold.slots[gold.slot_ptr[i] : gold.slot_ptr[i + 1]],
        gold.additional[gold.additional_ptr[i] : gold.additional_ptr[i + 1]],
        tol,
        memory,
        i,
        targets.weights[i],
        residual,
        additional_residual,
    )
    return loss, gap > INEXACT * (1.0 + abs(loss))


class LinearModel:
    """The weights of a linear model of scores.

    The scores of a sample with features X_i are ``X_i @ coef + intercept``; the additional scores are the same for
    all samples.

    Attributes
    ----------
    coef : array of shape (n_features, n_outputs)
    intercept : array of shape (n_outputs,)
    additional : array of shape (n_additional,)
        Flattened and joined as in structures/_base.py.
    """

    def __init__(self, coef, intercept, additional):
        self.coef, self.intercept, self.additional = coef, intercept, additional

    @classmethod
    def zeros(cls, n_features, n_outputs, n_additional):
        return cls(np.zeros((n_features, n_outputs)), np.zeros(n_outputs), np.zeros(n_additional))

    def copy(self):
        return LinearModel(self.coef.copy(), self.intercept.copy(), self.additional.copy())

    def penalty(self, alpha):
        """Return ``alpha/2 |w|^2`` over all weights but the intercept."""
        return 0.5 * alpha * (np.vdot(self.coef, self.coef) + np.vdot(self.additional, self.additional))


def linear_problems(structure, X, n_outputs):
    """Describe samples under a linear model.

    Parameters
    ----------
    structure : Structure
    X : RaggedArray
        Features. Only the numbers of rows, and `shapes` where they are known, matter here.
    n_outputs : int

    Returns
    -------
    dims, sizes : int64 arrays with one row a sample
        What `Structure.dims` and `Structure.layout` return.
    shapes : list of tuple
        Shapes of the samples' scores.

    Raises
    ------
    ValueError
        Naming the first sample that has no scores of such a structure.
    """
    given = structure.learned_shapes(n_outputs)
    kinds, first, which = np.unique(X.grids, axis=0, return_index=True, return_inverse=True)
    dims, sizes, shapes = [], [], []
    for kind, i in zip(kinds.tolist(), first.tolist()):
        try:
            shapes.append(structure.scores_shape(tuple(kind), n_outputs))
            dims.append(structure.dims(shapes[-1], given))
        except ValueError as error:
            raise ValueError(f"X[{i}]: {error}") from error
        sizes.append(structure.layout(dims[-1]))
    which = which.ravel()
    laid_out = (readonly(np.array(a, np.int64)[which], np.int64) for a in (dims, sizes))
    return *laid_out, [shapes[k] for k in which.tolist()]


def make_targets(structure, X, n_outputs, codes, weights):
    """Lay out the gold structures of many samples.

    Parameters
    ----------
    structure : Structure
    X : RaggedArray
    n_outputs : int
    codes : sequence
        The gold structure of each sample, in the form in which `structure` decodes.
    weights : array of shape (n_samples,)

    Raises
    ------
    ValueError
        Naming the first sample whose gold structure is none.
    """
    dims, sizes, _ = linear_problems(structure, X, n_outputs)
    if isinstance(structure, Simplex):
        # A label is its own part: no need to go through millions of them one by one.
        n, none = len(X), np.zeros(len(X) + 1)
        gold = Gold(
            readonly(codes, np.int32),
            readonly(np.arange(n + 1), np.int64),
            readonly(none[:0], np.int32),
            readonly(none, np.int64),
        )
        return Targets(readonly(X.indptr, np.int64), dims, sizes, gold, readonly(weights))
    encoded = []
    for i, gold in enumerate(codes):
        try:
            encoded.append(structure.encode(gold, dims[i]))
        except ValueError as error:
            raise ValueError(f"y[{i}]: {error}") from error
    return Targets(readonly(X.indptr, np.int64), dims, sizes, join_gold(encoded), readonly(weights))


def make_rows(X):
    """Return features as CSR rows for the kernels; zeros of dense features are left out."""
    X = sparse.csr_array(X)
    if not X.has_canonical_format:
        # Each entry takes a step of its own.
        X = X.copy()
        X.sum_duplicates()
    return Rows(readonly(X.data), readonly(X.indices, np.int32), readonly(X.indptr, np.int64))
