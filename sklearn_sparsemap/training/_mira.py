"""1-best MIRA: the smallest change of the weights that mends a sample's worst mistake (Crammer and Singer 2003).

After each sample the weights move against the gradient of its hinge loss by ``min(C, loss / |gradient|^2)``, which is
as far as it takes to mend the worst mistake. There is no penalty and no step size; averaging does the regularising.
"""

import numpy as np
from numba import types

from .._jit import FLOATS, INTS, INTS_OUT, ORACLE, entry, kernel
from ..losses._kernel import LOSS_FORM, MEMORY
from ..solvers._polytope.protocol import SOLVER
from ._data import ROWS, TARGETS, loss_of_target
from ._online import ONLINE_STATE, STEP, STOP, OnlineOptimizer, score_rows


@kernel
def _gather_direction(state, rows, first_row, n_rows, residual, additional_residual, fit_intercept):
    """Sum the gradient with respect to the weights into `state`'s squares, zeros before; return its squared norm."""
    direction, dense = state.coef_squares, state.dense_squares
    n_outputs = direction.shape[1]
    norm_squared = 0.0
    for r in range(n_rows):
        for j in range(n_outputs):
            wrong = residual[r * n_outputs + j]
            if wrong != 0.0:
                for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
                    before, change = direction[rows.indices[at], j], wrong * rows.data[at]
                    direction[rows.indices[at], j] = before + change
                    norm_squared += change * (2.0 * before + change)
                if fit_intercept:
                    norm_squared += wrong * (2.0 * dense[j] + wrong)
                    dense[j] += wrong
    for a in range(additional_residual.shape[0]):
        dense[n_outputs + a] = additional_residual[a]
        norm_squared += additional_residual[a] ** 2
    return norm_squared


@kernel
def _move(w, sums, direction, j, step, step_number, average):
    """Go `step` against the gradient in one coordinate, and clear it."""
    delta = step * direction[j]
    w[j] -= delta
    if average:
        sums[j] -= (step_number - 1.0) * delta
    direction[j] = 0.0


@entry(types.float64(ORACLE, SOLVER, LOSS_FORM, ROWS, TARGETS, INTS, ONLINE_STATE, MEMORY, INTS_OUT, FLOATS))
def mira_epoch(oracle, solver, form, rows, targets, order, state, memory, counters, settings):
    """Visit the samples in this order, updating `state` in place; its squares are scratch space, zeros between samples.

    Parameters
    ----------
    counters : int array, see the places in _online.py
    settings : array (C, fit_intercept, average)

    Returns
    -------
    total : float
        Sum of the weighted losses, each before its update.
    """
    most, fit_intercept, average = settings[0], settings[1] != 0.0, settings[2] != 0.0
    coef, dense = state.coef, state.dense
    n_outputs = coef.shape[1]
    intercept, additional = dense[:n_outputs], dense[n_outputs:]
    additional_residual = np.empty(additional.shape[0])
    total = 0.0
    for place in range(order.shape[0]):
        if counters[STOP] != 0:
            break
        i = order[place]
        weight = targets.weights[i]
        step_number = float(counters[STEP] + 1)
        first_row, n_rows = targets.row_ptr[i], targets.row_ptr[i + 1] - targets.row_ptr[i]
        scores, residual = np.empty(n_rows * n_outputs), np.empty(n_rows * n_outputs)
        score_rows(rows, first_row, n_rows, coef, intercept, scores)
        additional_residual[:] = 0.0
        loss, _ = loss_of_target(
            oracle, solver, form, scores, additional, targets, i, 0.0, memory, residual, additional_residual
        )
        if counters[STOP] != 0:
            # Ended short of the solution.
            break
        counters[STEP] += 1
        total += weight * loss
        if loss == 0.0 or weight == 0.0:
            continue
        for a in range(additional_residual.shape[0]):
            additional_residual[a] /= weight
        norm_squared = _gather_direction(state, rows, first_row, n_rows, residual, additional_residual, fit_intercept)
        # Features that cannot tell the structures apart leave nothing to move.
        step = min(most * weight, loss / norm_squared) if norm_squared > 1e-12 else 0.0
        for r in range(n_rows):
            for j in range(n_outputs):
                if residual[r * n_outputs + j] != 0.0:
                    for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
                        f = rows.indices[at]
                        sums = state.coef_sums[f] if average else coef[f]
                        _move(coef[f], sums, state.coef_squares[f], j, step, step_number, average)
        for j in range(dense.shape[0]):
            _move(dense, state.dense_sums, state.dense_squares, j, step, step_number, average)
    return total


class MiraOptimizer(OnlineOptimizer):
    """1-best MIRA over a linear model, for the structured hinge loss; used like `OnlineOptimizer`."""

    _first_square = 0.0

    def configure(self, *, C, fit_intercept):
        """Set what may change between epochs."""
        self.alpha = 0.0
        self.settings = np.array([C, fit_intercept, self.average], np.float64)

    def _visit(self, inference, form, rows, targets, order, memory):
        return mira_epoch(
            *inference, form, rows, targets, order, self.state, memory, self.counters, self.settings
        )
