"""AdaGrad: one sample at a time, sparse updates, averaged weights; a whole epoch is one compiled call.

The objective is ``mean loss + alpha/2 |w|^2``. A sample's loss moves only the weights of its features, and of the
outputs whose marginals are wrong: SparseMAP is exactly right on most samples after a few epochs, and then nothing
moves. The penalty is applied by a proximal step over all weights every few samples, so rarely that it costs a
fraction of the samples themselves.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, INTS_OUT, ORACLE, copy_into, entry, kernel
from .._threads import interruptible
from ..losses._kernel import LOSS_FORM, MEMORY
from ..solvers._polytope.protocol import SOLVER
from ._data import ROWS, TARGETS, LinearModel, loss_of_target

# Weights, sums of squared gradients, and sums for averaging (see `OnlineOptimizer.averaged`), for the features'
# weights (n_features, n_outputs) and for the dense ones: intercept, then additional scores.
OnlineState = namedtuple(
    "OnlineState", ["coef", "coef_squares", "coef_sums", "dense", "dense_squares", "dense_sums"]
)
ONLINE_STATE = types.NamedTuple([FLOATS_2D_OUT] * 3 + [FLOATS_OUT] * 3, OnlineState)

# Places of the counters that an epoch shares with its caller, who may set STOP from another thread.
STEP, SINCE_PENALTY, STOP, UNCONVERGED = range(4)
_N_COUNTERS = 4

# Residuals below this are the rounding of marginals that are right.
_NEGLIGIBLE = 1e-12
# A proximal step over all weights is taken when the samples since the last one had this many times as many weights.
_SAMPLES_PER_PENALTY = 4
# Keeps the first steps of a weight finite, and well below eta0 for gradients smaller than this one's square root.
_FIRST_SQUARE = 1e-6


@kernel
def _move(w, squares, sums, j, gradient, eta0, step_number, average):
    """Take one AdaGrad step in one coordinate."""
    squares[j] += gradient * gradient
    delta = eta0 * gradient / np.sqrt(squares[j])
    w[j] -= delta
    if average:
        sums[j] -= (step_number - 1.0) * delta


@kernel
def _shrink(w, squares, sums, first, rate, step_number, average):
    """Take the proximal step of the squared norm for w[first:], in the metric of the steps."""
    for j in range(first, w.shape[0]):
        if w[j] != 0.0:
            shrunk = w[j] / (1.0 + rate / np.sqrt(squares[j]))
            if average:
                sums[j] += step_number * (shrunk - w[j])
            w[j] = shrunk


@kernel
def score_rows(rows, first_row, n_rows, coef, intercept, scores):
    """Compute the scores of consecutive rows."""
    n_outputs = coef.shape[1]
    for r in range(n_rows):
        here = scores[r * n_outputs : (r + 1) * n_outputs]
        copy_into(here, intercept)
        for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
            value, w = rows.data[at], coef[rows.indices[at]]
            for j in range(n_outputs):
                here[j] += value * w[j]


@kernel
def _move_row(state, rows, row, residual, weight, wrong, eta0, step_number, fit_intercept, average):
    """Move the weights of one row's features, and the intercept, against the gradient of its scores."""
    n_wrong = 0
    for j in range(residual.shape[0]):
        if abs(residual[j]) > _NEGLIGIBLE:
            wrong[n_wrong] = j
            n_wrong += 1
    if n_wrong == 0:
        return
    for at in range(rows.indptr[row], rows.indptr[row + 1]):
        f, value = rows.indices[at], weight * rows.data[at]
        w, squares = state.coef[f], state.coef_squares[f]
        sums = state.coef_sums[f] if average else w
        for p in range(n_wrong):
            j = wrong[p]
            _move(w, squares, sums, j, value * residual[j], eta0, step_number, average)
    if fit_intercept:
        for p in range(n_wrong):
            j = wrong[p]
            gradient = weight * residual[j]
            _move(state.dense, state.dense_squares, state.dense_sums, j, gradient, eta0, step_number, average)


@entry(
    types.float64(
        ORACLE, SOLVER, LOSS_FORM, ROWS, TARGETS, INTS, ONLINE_STATE, MEMORY, INTS_OUT, types.int64, FLOATS
    )
)
def adagrad_epoch(oracle, solver, form, rows, targets, order, state, memory, counters, penalty_every, settings):
    """Visit the samples in this order, updating `state` in place.

    Parameters
    ----------
    counters : int array, see the places above
    penalty_every : int
        Samples between two proximal steps.
    settings : array (alpha, eta0, tol, fit_intercept, average)

    Returns
    -------
    total : float
        Sum of the weighted losses, each before its update.
    """
    alpha, eta0, tol = settings[0], settings[1], settings[2]
    fit_intercept, average = settings[3] != 0.0, settings[4] != 0.0
    coef, dense = state.coef, state.dense
    n_outputs = coef.shape[1]
    intercept, additional = dense[:n_outputs], dense[n_outputs:]
    additional_residual = np.empty(additional.shape[0])
    wrong = np.empty(n_outputs, np.int64)
    total = 0.0
    for place in range(order.shape[0]):
        if counters[STOP] != 0:
            break
        i = order[place]
        weight = targets.weights[i]
        step_number = float(counters[STEP] + 1)
        first_row, n_rows = targets.row_ptr[i], targets.row_ptr[i + 1] - targets.row_ptr[i]
        scores = np.empty(n_rows * n_outputs)
        residual = np.empty(n_rows * n_outputs)
        score_rows(rows, first_row, n_rows, coef, intercept, scores)
        additional_residual[:] = 0.0
        loss, inexact = loss_of_target(
            oracle, solver, form, scores, additional, targets, i, tol, memory, residual, additional_residual
        )
        if counters[STOP] != 0:
            # Ended short of the solution.
            break
        counters[STEP] += 1
        counters[SINCE_PENALTY] += 1
        total += weight * loss
        counters[UNCONVERGED] += inexact
        for r in range(n_rows):
            of_row = residual[r * n_outputs : (r + 1) * n_outputs]
            _move_row(state, rows, first_row + r, of_row, weight, wrong, eta0, step_number, fit_intercept, average)
        for j in range(additional_residual.shape[0]):
            gradient = additional_residual[j]
            if abs(gradient) > _NEGLIGIBLE:
                p = n_outputs + j
                _move(dense, state.dense_squares, state.dense_sums, p, gradient, eta0, step_number, average)
        if alpha > 0.0 and counters[SINCE_PENALTY] >= penalty_every:
            rate = eta0 * alpha * counters[SINCE_PENALTY]
            for f in range(coef.shape[0]):
                sums = state.coef_sums[f] if average else coef[f]
                _shrink(coef[f], state.coef_squares[f], sums, 0, rate, step_number, average)
            _shrink(dense, state.dense_squares, state.dense_sums, n_outputs, rate, step_number, average)
            counters[SINCE_PENALTY] = 0
    return total


def stop_epoch(counters, place, memory):
    """Tell a kernel in another thread to end its epoch: first what it does with a solution, then its inference."""
    counters[place] = 1
    memory.limit[:] = 0


class OnlineOptimizer:
    """AdaGrad over a linear model; holds what it needs to go on with the next epoch or mini-batch.

    Parameters
    ----------
    model : LinearModel
        Where to start. Its `coef` becomes the optimiser's own.
    average : bool
        Whether `model` returns the average of the weights after each step.
    """

    def __init__(self, model, *, average):
        coef = model.coef
        dense = np.concatenate([model.intercept, model.additional]).astype(np.float64)
        self.n_outputs = coef.shape[1]
        self.average = average
        self.counters = np.zeros(_N_COUNTERS, np.int64)
        self.state = OnlineState(
            coef,
            np.full(coef.shape, self._first_square),
            np.zeros(coef.shape if average else (0, self.n_outputs)),
            dense,
            np.full(dense.shape, self._first_square),
            np.zeros(dense.shape),
        )

    _first_square = _FIRST_SQUARE

    def configure(self, *, alpha, eta0, tol, fit_intercept):
        """Set what may change between epochs."""
        self.alpha = alpha
        self.settings = np.array([alpha, eta0, tol, fit_intercept, self.average], np.float64)

    def epoch(self, inference, form, rows, targets, order, memory):
        """Visit the samples in this order; return the sum of their weighted losses.

        Ctrl-C takes effect at once; the present sample is then left out.
        """
        if not self.counters.flags.writeable:
            # Loaded from a memory map.
            self.state, self.counters = OnlineState(*(a.copy() for a in self.state)), self.counters.copy()
        self.counters[STOP] = 0
        return interruptible(
            lambda: self._visit(inference, form, rows, targets, order, memory),
            lambda: stop_epoch(self.counters, STOP, memory),
        )

    @property
    def n_steps(self):
        """How many samples were visited."""
        return int(self.counters[STEP])

    @property
    def unconverged(self):
        """For how many of them inference did not converge."""
        return int(self.counters[UNCONVERGED])

    def _visit(self, inference, form, rows, targets, order, memory):
        per_sample = max(1, len(rows.data) // max(1, len(targets.weights)))
        # All proximal steps together cost a fraction of what the samples cost.
        penalty_every = max(1, _SAMPLES_PER_PENALTY * len(self.state.coef) // per_sample)
        return adagrad_epoch(
            *inference, form, rows, targets, order, self.state, memory, self.counters, penalty_every, self.settings
        )

    def penalty(self):
        """Return ``alpha/2 |w|^2`` at the last weights."""
        s = self.state
        return LinearModel(s.coef, None, s.dense[self.n_outputs :]).penalty(self.alpha)

    def model(self):
        """Return the weights learned so far: averaged over all steps if asked for, else the last ones.

        Each sum holds (t - 1) times the change made at step t, so the average of the weights after each of T steps
        is the last weights less sum / T.
        """
        s, n, steps = self.state, self.n_outputs, max(1, int(self.counters[STEP]))
        if not self.average:
            return LinearModel(s.coef.copy(), s.dense[:n].copy(), s.dense[n:].copy())
        coef = s.coef_sums / -steps
        coef += s.coef
        dense = s.dense - s.dense_sums / steps
        return LinearModel(coef, dense[:n], dense[n:])
