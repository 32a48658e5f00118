"""The exact objective of a linear model over all samples, with its gradient, and products of the features for them.

Conventions
-----------
rows : Rows
    Features.
coef, intercept, residuals : flat float64 arrays
    Weights of features, intercepts, and the gradient with respect to the scores, row by row.
width : int
    Number of outputs.
begins, ends : int64 arrays of shape (n_rows,)
    The entries of each row in a range of columns, whose first one is `column`.
start, stop : int
    The range of rows, or of pieces, of a call.
out : float64 array
    Output.
table : float64 array of shape (n_pieces, n_columns)
    Output: partial sums, one row for each piece.

Used by `_training/_group_lasso` and `estimators`.
"""

from itertools import pairwise

import numpy as np
from joblib import effective_n_jobs
from numba import types
from scipy import sparse

from .._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, entry, kernel, readonly
from .._core.threads import cut_evenly, over_ranges
from .._numerics.cholesky import add_scaled, dot
from ._data import ROWS, begins_of_pieces, make_rows
from ._quasi_newton.pieces import PIECE, add_two, over_pieces
from .score_models import LinearModel

# Maximum number of ranges of rows.
_N_RANGES = 64
# Number of scores of a block of samples, which limits the memory for scores and residuals, and the maximum number of
# blocks that are taken together, because they need little memory.
_BLOCK, _FEW_BLOCKS = 2**18, 16
# Maximum number of weights for the bundle method from the start. It needs fewer evaluations than L-BFGS, but each step
# compares all earlier gradients.
_FEW_WEIGHTS = 1000
# Least curvature of a weight, relative to that of an intercept, because features that are zero have none; and the
# largest, because squares can overflow.
_FLATTEST, _STEEPEST = 1e-8, 1e100
# Number of multiplications in a call on a single thread, and minimum number for several threads.
_COST_PER_CALL, _MANY = 2**22, 2**17


@kernel(fast_sums=True)
def _sum(data, indices, coef):
    """Return the sum of some entries of `coef`, each times its value in `data`."""
    total = 0.0
    # Unsigned indices tell Numba that columns are not negative.
    for k in range(indices.shape[0]):
        total += data[k] * coef[np.uint32(indices[k])]
    return total


@kernel
def _add_each(data, indices, column, value, out):
    """Add `value`, times the values in `data`, to some entries of `out`."""
    for k in range(indices.shape[0]):
        out[np.uint32(indices[k] - column)] += data[k] * value


@entry(types.void(ROWS, FLOATS, FLOATS, types.int64, types.int64, FLOATS_OUT))
def scores_of_rows(rows, coef, intercept, start, stop, out):
    """Fill rows start..stop of `out` with ``rows @ coef + intercept``. The arguments are described in the module.

    `coef` and `out` are flat, with one column for each intercept.
    """
    width = intercept.shape[0]
    for i in range(start, stop):
        own, first, last = out[i * width : (i + 1) * width], rows.indptr[i], rows.indptr[i + 1]
        if width == 1:
            own[0] = intercept[0] + _sum(rows.data[first:last], rows.indices[first:last], coef)
            continue
        for j in range(width):
            own[j] = intercept[j]
        for k in range(first, last - 1, 2):
            a, b = rows.indices[k] * width, rows.indices[k + 1] * width
            add_two(own, rows.data[k], coef[a : a + width], rows.data[k + 1], coef[b : b + width])
        if (last - first) % 2:
            a = rows.indices[last - 1] * width
            add_scaled(own, rows.data[last - 1], coef[a : a + width])


@entry(types.void(ROWS, INTS, INTS, types.int64, FLOATS, types.int64, FLOATS_OUT))
def transposed_product(rows, begins, ends, column, residuals, width, out):
    """Add the part of ``rows.T @ residuals`` that begins at `column` to `out`. See the module for the arguments.

    The entries begins[i]..ends[i] of row i belong to this part. `residuals` and `out` are flat, with `width` columns.
    The loop runs over rows, because frequent features stay in the processor's cache.
    """
    for i in range(begins.shape[0]):
        own = residuals[i * width : (i + 1) * width]
        first, last = begins[i], ends[i]
        if width == 1:
            _add_each(rows.data[first:last], rows.indices[first:last], column, own[0], out)
        else:
            for k in range(first, last):
                a = (rows.indices[k] - column) * width
                add_scaled(out[a : a + width], rows.data[k], own)


@entry(types.void(types.float64, types.float64, FLOATS, FLOATS_OUT, types.int64, types.int64, FLOATS_2D_OUT))
def penalise_range(factor, alpha, coef, out, start, stop, table):
    """Replace pieces of `out` by ``factor * out + alpha * coef``; write sums of the squares of `coef` to `table`.

    Parameters
    ----------
    factor, alpha : float
    coef, out : arrays of shape (n,)
    start, stop, table
        The range of pieces, and the output; see the module.
    """
    for p in range(start, stop):
        first = p * PIECE
        last = min((p + 1) * PIECE, coef.shape[0])
        for i in range(first, last):
            out[i] = factor * out[i] + alpha * coef[i]
        table[p, 0] = dot(coef[first:last], coef[first:last])


def features_of(X, n_outputs, n_jobs):
    """Return `DenseFeatures` or `SparseFeatures`, which compute products of the features."""
    return (SparseFeatures if sparse.issparse(X) else DenseFeatures)(X, n_outputs, n_jobs)


class DenseFeatures:
    """Features as a dense array; BLAS computes the products.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    n_outputs : int
        Not used, like `n_jobs`.
    n_jobs : int or None
    """

    def __init__(self, X, n_outputs, n_jobs):
        self.X = X.astype(np.float64, copy=False)

    def scores(self, model):
        """Return the scores of all rows under a model."""
        scores = self.X @ model.coef
        scores += model.intercept
        return scores

    def squares(self, row_weights):
        """Return the weighted sum of the squares of each feature."""
        return row_weights @ np.square(self.X)

    def gradient(self, residuals, factor, alpha, coef, out):
        """Fill `out` with ``factor * X.T @ residuals + alpha * coef``; return the sum of the squares of `coef`."""
        np.matmul(self.X.T, residuals, out=out)
        out *= factor
        out += alpha * coef
        return float(np.vdot(coef, coef))


class SparseFeatures:
    """Features as CSR rows. In products with their transpose, each thread computes a range of columns.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
    n_outputs : int
        Number of columns of the weights.
    n_jobs : int or None
        Number of threads. Results do not depend on it: each entry of a product is a sum in a fixed order.
    rows : Rows, default=None
        A part of the rows, as a view. By default, all rows.
    """

    def __init__(self, X, n_outputs, n_jobs, rows=None):
        self.rows = rows = make_rows(X) if rows is None else rows
        first, last = rows.indptr[0], rows.indptr[-1]
        self.n_outputs = n_outputs
        self.n_jobs = n_jobs if n_outputs * (last - first) >= _MANY else 1
        self._row_cuts = cut_evenly(1.0 + np.diff(rows.indptr), _N_RANGES)
        self._row_costs = n_outputs * np.diff(rows.indptr[self._row_cuts])
        self._cuts = [0, X.shape[1]]
        n_parts = effective_n_jobs(self.n_jobs)
        if n_parts > 1:
            frequencies = np.bincount(rows.indices[first:last], minlength=X.shape[1])
            self._cuts = cut_evenly(1.0 + frequencies, n_parts).tolist()
        self._begins = begins_of_pieces(rows, self._cuts[1:-1])
        self._threads_of_weights = n_jobs

    def scores(self, model):
        """Return the scores of all rows under a model."""
        cuts = self._row_cuts
        coef = model.coef.ravel()
        intercept = readonly(model.intercept)
        scores = np.empty((cuts[-1], self.n_outputs))
        out = scores.reshape(-1)
        over_ranges(
            lambda start, stop: scores_of_rows(self.rows, coef, intercept, cuts[start], cuts[stop], out),
            self._row_costs,
            self.n_jobs,
            _COST_PER_CALL,
        )
        return scores

    def squares(self, row_weights):
        """Return the weighted sum of the squares of each feature."""
        rows, n_features = self.rows, self._cuts[-1]
        squares = np.repeat(row_weights, np.diff(rows.indptr)) * np.square(rows.data)
        return np.bincount(rows.indices, squares, n_features)

    def gradient(self, residuals, factor, alpha, coef, out, is_first=True, is_last=True):
        """Fill `out` with ``factor * X.T @ residuals + alpha * coef``; return the sum of the squares of `coef`.

        Products of blocks of rows are added up from the first block to the last one; the rest is done after that.
        """
        m = self.n_outputs
        cuts = self._cuts
        residuals = residuals.ravel()
        coef = coef.ravel()
        out = out.reshape(-1)
        if is_first:
            out[:] = 0.0
        over_ranges(
            lambda start, stop: [
                transposed_product(
                    self.rows, self._begins[c], self._begins[c + 1], cuts[c], residuals, m,
                    out[cuts[c] * m : cuts[c + 1] * m],
                )
                for c in range(start, stop)
            ],
            np.ones(len(cuts) - 1),
            self.n_jobs,
        )  # fmt: skip
        if not is_last:
            return 0.0
        table = over_pieces(len(coef), self._threads_of_weights, 1, penalise_range, factor, alpha, coef, out)
        return float(table.sum())


class Objective:
    """An objective of a linear model, as a function of a flat vector: coef, intercept, additional scores.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    fit_intercept : bool
    n_jobs : int or None

    Attributes
    ----------
    shape : (int, int)
        Numbers of features and of outputs.
    n_coefs : int
        Number of weights of features, which are the first entries of a flat vector.
    unconverged : int
        Number of samples whose inference did not converge in the last evaluation.

    `_group_lasso/problem.py` extends it; other files there read `n_coefs` and `total_weight`, too.
    """

    def __init__(self, task, X, *, fit_intercept, n_jobs):
        self.task, self.fit_intercept, self.n_jobs = task, fit_intercept, n_jobs
        self.features = features_of(X, task.n_outputs, n_jobs)
        self.shape, self.n_coefs = (X.shape[1], task.n_outputs), X.shape[1] * task.n_outputs
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0

    def unpack(self, vector):
        """Return the model of a flat vector."""
        n, m = self.n_coefs, self.shape[1]
        return LinearModel(vector[:n].reshape(self.shape), vector[n : n + m], vector[n + m :])

    @staticmethod
    def pack(model):
        """Return the weights of a model as a flat vector."""
        return np.concatenate([model.coef.ravel(), model.intercept, model.additional])


class BatchObjective(Objective):
    """The training objective of a linear model, ``weighted mean loss + alpha/2 |w|^2``, with its gradient.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    template : LinearModel
        A model with the shapes of the result.
    alpha : float
    fit_intercept : bool
    n_jobs : int or None
    """

    def __init__(self, task, X, template, *, alpha, fit_intercept, n_jobs):
        super().__init__(task, X, fit_intercept=fit_intercept, n_jobs=n_jobs)
        self.alpha = alpha
        self.n_additional = len(template.additional)
        is_sparse = isinstance(self.features, SparseFeatures)
        self._blocks = [(task, self.features)]
        n_blocks = -(-int(task.row_ptr[-1]) * self.shape[1] // _BLOCK)
        if n_blocks > _FEW_BLOCKS and is_sparse and task.sequential and not task.form.quadratic:
            self._blocks = self._cut_samples(X, n_blocks)

    def _cut_samples(self, X, n_blocks):
        """Return tasks and features of blocks of samples.

        Tasks with warm starts are not cut, because the memory for these is limited for all samples together. Blocks are
        views of the features.
        """
        task, rows, row_ptr, blocks = self.task, self.features.rows, self.task.row_ptr, []
        for start, stop in pairwise(cut_evenly(np.diff(row_ptr), n_blocks).tolist()):
            # A matrix of SciPy would copy a small part of a large array.
            own = rows._replace(indptr=rows.indptr[row_ptr[start] : row_ptr[stop] + 1])
            blocks.append((task.take(np.arange(start, stop)), SparseFeatures(X, self.shape[1], self.n_jobs, own)))
        self.features = None
        return blocks

    @property
    def penalised(self):
        """Mask of the penalised weights in a flat vector: all except the intercept."""
        m = self.shape[1]
        return np.repeat([True, False, True], [self.n_coefs, m, self.n_additional])

    @property
    def has_few_weights(self):
        """Whether the bundle method compares gradients in less time than it saves by fewer evaluations."""
        return self.n_coefs + self.shape[1] + self.n_additional <= _FEW_WEIGHTS

    def curvatures(self):
        """Return bounds of the second derivatives of the loss in each weight, if its scores alone changed.

        Those of additional scores get the bound of the intercepts.
        """
        task = self.task
        smoothness = task.smoothness()
        rows = np.repeat(task.weights * (1.0 if smoothness is None else smoothness), np.diff(task.row_ptr))
        rows = rows / self.total_weight
        m = self.shape[1]
        with np.errstate(over="ignore"):
            of_features = np.repeat(self.features.squares(rows), m)
        bounds = np.concatenate([of_features, np.full(m + self.n_additional, rows.sum())])
        return np.clip(bounds, _FLATTEST * rows.sum(), _STEEPEST)

    def loss_gradient(self, vector, out=None):
        """Return the objective and its gradient at the model in a flat vector; the gradient is written to `out`."""
        model = self.unpack(vector)
        gradient = np.empty_like(vector) if out is None else out
        out = self.unpack(gradient)
        factor = 1.0 / self.total_weight
        loss, self.unconverged, out.intercept[:], out.additional[:] = 0.0, 0, 0.0, 0.0
        for k, (task, features) in enumerate(self._blocks):
            own, residuals, joined, n_inexact = task.loss_gradient(
                features.scores(model), model.additional, self.n_jobs
            )
            loss, self.unconverged = loss + own, self.unconverged + n_inexact
            out.intercept[:] += residuals.sum(axis=0) if self.fit_intercept else 0.0
            out.additional[:] += joined
            ends = (k == 0, k == len(self._blocks) - 1) if len(self._blocks) > 1 else ()
            squares = features.gradient(residuals, factor, self.alpha, model.coef, out.coef, *ends)
            # The scores of the next block use the memory.
            del residuals
        out.intercept[:] /= self.total_weight
        out.additional[:] = out.additional / self.total_weight + self.alpha * model.additional
        squares += float(model.additional @ model.additional)
        return loss / self.total_weight + 0.5 * self.alpha * squares, gradient
