"""Online learning with groups that are shrunk, and MIRA, over weights that exist only where they were updated
(Martins et al. 2011, section 3).

One kernel call is one pass over samples. After each sample the weights move against the gradient of its loss: by a
step size that falls from epoch to epoch, or as far as MIRA goes. Every so many samples all groups are shrunk: with a
fixed strength, or with the one that leaves as many groups as the budget allows.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, INTS_2D_OUT, INTS_OUT, ORACLE, copy_into, entry, kernel
from ...losses._kernel import LOSS_FORM, MEMORY
from ...penalties._budget import budget_rule, count_survivors
from ...penalties._shrink import shrink
from ...solvers._polytope.protocol import SOLVER
from .._data import ROWS, TARGETS, loss_of_target
from .store import (
    ATOM,
    COUNT,
    GROUP_ARRAYS,
    HEAD,
    HELD,
    N_RECORDS,
    N_SHRINKAGES,
    SINCE_SHRINK,
    STEP,
    STOP,
    STORE,
    TOP,
    UNCONVERGED,
    block_of,
    find_pair,
    make_pair,
    measure_cancelled,
    most_space,
    move_pair,
    scale_atoms,
    scale_until,
)

# Residuals below this are the rounding of marginals that are right.
_NEGLIGIBLE = 1e-12
_TOL = 1e-8
# By how much the weights of groups are made to differ, relatively, where these are tied.
_TIE_BREAK = 1e-9
# The step size is eta0 / sqrt(ceil(step / period)). MIRA's longest step, the budget and the frozen strength are -1
# where there are none.
Settings = namedtuple(
    "Settings", ["eta0", "period", "mira", "shrink_every", "budget", "alpha", "frozen", "fit_intercept", "n_outputs"]
)
SETTINGS = types.NamedTuple(
    [types.float64] * 3 + [types.int64] * 2 + [types.float64] * 2 + [types.boolean, types.int64], Settings
)


@kernel
def step_size(settings, step):
    """Return the step size of a step, counted from 1."""
    return settings.eta0 / np.sqrt(np.ceil(step / settings.period))



@kernel(fast_sums=True)
def _add_row(here, values, start, factor):
    """Add a multiple of a dense block to scores."""
    for j in range(here.shape[0]):
        here[j] += factor * values[start + j]


@kernel
def score_pairs(store, rows, first_row, n_rows, scores):
    """Compute the scores of consecutive rows.

    Nearly all time goes into fetching what lies anywhere in memory. So each kind of fetch has a loop of its own over
    the entries of a row, without branches, in which many fetches are under way at a time.
    """
    n_outputs, most = store.n_outputs, 0
    for r in range(first_row, first_row + n_rows):
        most = max(most, rows.indptr[r + 1] - rows.indptr[r])
    starts, counts, outputs = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    factors, values = np.empty(most), np.empty(most)
    for r in range(n_rows):
        here = scores[r * n_outputs : (r + 1) * n_outputs]
        copy_into(here, store.dense[:n_outputs])
        first, n = rows.indptr[first_row + r], 0
        for at in range(first, rows.indptr[first_row + r + 1]):
            of_feature = store.features[rows.indices[at]]
            starts[n], counts[n] = of_feature[HEAD], of_feature[COUNT]
            factors[n] = rows.data[at] * store.scale[of_feature[ATOM]]
            n += of_feature[COUNT] != 0
        for k in range(n):
            outputs[k], values[k] = store.outputs[starts[k]], store.values[starts[k]]
        for k in range(n):
            if counts[k] < 0:
                _add_row(here, store.values, starts[k], factors[k])
            else:
                here[outputs[k]] += factors[k] * values[k]
                for place in range(starts[k] + 1, starts[k] + counts[k]):
                    here[store.outputs[place]] += factors[k] * store.values[place]


@kernel
def _move_dense(store, j, delta, step):
    store.dense[j] += delta
    store.dense_sums[j] += (step - 1.0) * delta


@kernel
def _take_step(store, counters, settings, rows, first_row, n_rows, residual, additional_residual, weight):
    """Move all weights against the gradient of one sample."""
    n_outputs, step = settings.n_outputs, counters[STEP]
    eta = step_size(settings, step)
    for r in range(n_rows):
        for j in range(n_outputs):
            wrong = residual[r * n_outputs + j]
            if abs(wrong) <= _NEGLIGIBLE:
                continue
            for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
                f = rows.indices[at]
                if rows.data[at] == 0.0:
                    continue
                place = make_pair(store, counters, f, j)
                move_pair(store, place, store.features[f, ATOM], -eta * weight * wrong * rows.data[at], step)
            if settings.fit_intercept:
                _move_dense(store, j, -eta * weight * wrong, step)
    for j in range(additional_residual.shape[0]):
        if abs(additional_residual[j]) > _NEGLIGIBLE:
            # Weighted already.
            _move_dense(store, n_outputs + j, -eta * additional_residual[j], step)


@kernel
def _gather_direction(store, counters, settings, rows, first_row, n_rows, residual, additional_residual):
    """Sum the gradient with respect to the weights into the directions; return its squared norm."""
    n_outputs, norm_squared = settings.n_outputs, 0.0
    for r in range(n_rows):
        for j in range(n_outputs):
            wrong = residual[r * n_outputs + j]
            if wrong == 0.0:
                continue
            for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
                f = rows.indices[at]
                if rows.data[at] == 0.0:
                    continue
                place = make_pair(store, counters, f, j)
                before, change = store.direction[place], wrong * rows.data[at]
                store.direction[place] = before + change
                norm_squared += change * (2.0 * before + change)
            if settings.fit_intercept:
                norm_squared += wrong * (2.0 * store.dense_direction[j] + wrong)
                store.dense_direction[j] += wrong
    for j in range(additional_residual.shape[0]):
        store.dense_direction[n_outputs + j] = additional_residual[j]
        norm_squared += additional_residual[j] ** 2
    return norm_squared


@kernel
def _take_mira_step(store, counters, settings, rows, first_row, n_rows, residual, length):
    """Go `length` against the gathered direction, and clear it."""
    n_outputs, step = settings.n_outputs, counters[STEP]
    for r in range(n_rows):
        for j in range(n_outputs):
            if residual[r * n_outputs + j] == 0.0:
                continue
            for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
                f = rows.indices[at]
                place = find_pair(store, f, j)
                if place >= 0 and store.direction[place] != 0.0:
                    move_pair(store, place, store.features[f, ATOM], -length * store.direction[place], step)
                    store.direction[place] = 0.0
    for j in range(store.dense.shape[0]):
        if store.dense_direction[j] != 0.0:
            _move_dense(store, j, -length * store.dense_direction[j], step)
            store.dense_direction[j] = 0.0


@kernel
def _record(counters, curve):
    """Note how many weights are held."""
    n = counters[N_RECORDS]
    if n < curve.shape[0]:
        curve[n, 0] = counters[STEP]
        curve[n, 1] = counters[HELD]
        counters[N_RECORDS] += 1


@kernel
def shrink_groups(store, groups, counters, curve, settings, sigma):
    """Shrink all groups for the samples since this was last done; write the strength to ``sigma[0]``, if there is any.

    It is in the unit of the objective: the step of the proximal operator is the step size times the number of samples.
    """
    rate = step_size(settings, counters[STEP]) * counters[SINCE_SHRINK]
    counters[SINCE_SHRINK] = 0
    _record(counters, curve)
    measure_cancelled(store)
    weights, order, indptr, atoms = groups
    factors = np.empty(store.rho.shape[0])
    if settings.budget >= 0 and settings.frozen < 0.0:
        ratios, left = np.empty(weights.shape[0]), np.empty(store.rho.shape[0])
        strength = budget_rule(store.rho, weights, order, indptr, atoms, settings.budget, ratios, factors, left)
        survivors = count_survivors(store.rho, strength, weights, order, indptr, atoms, factors, left)
        if strength > 0.0 and survivors < settings.budget:
            # Groups that are tied at the edge would all die. The first ones stay.
            weights = weights * (1.0 + _TIE_BREAK * np.arange(weights.shape[0]) / weights.shape[0])
            strength = budget_rule(store.rho, weights, order, indptr, atoms, settings.budget, ratios, factors, left)
    else:
        strength = rate * (settings.frozen if settings.budget >= 0 else settings.alpha)
    if strength > 0.0:
        sigma[0] = strength / rate
        shrink(store.rho, strength, weights, order, indptr, atoms, factors)
        scale_atoms(store, counters, factors)
        _record(counters, curve)
    counters[N_SHRINKAGES] += 1
    for atom in range(store.kept.shape[0]):
        store.kept[atom] = store.first_active[atom] >= 0 and store.rho[atom] > 0.0


@entry(types.void(STORE, GROUP_ARRAYS, INTS_OUT, INTS_2D_OUT, SETTINGS, FLOATS_OUT))
def shrink_now(store, groups, counters, curve, settings, sigma):
    """`shrink_groups`, for Python."""
    if counters[SINCE_SHRINK] > 0:
        shrink_groups(store, groups, counters, curve, settings, sigma)


@entry(
    types.int64(
        ORACLE, SOLVER, LOSS_FORM, ROWS, TARGETS, INTS, types.int64, STORE, GROUP_ARRAYS, MEMORY, INTS_OUT,
        INTS_2D_OUT, SETTINGS, FLOATS_OUT, FLOATS_OUT,
    )
)  # fmt: skip
def pair_epoch(
    oracle, solver, form, rows, targets, order, first, store, groups, memory, counters, curve, settings, sigma, total
):
    """Visit samples in this order, from place `first` on, updating the store.

    Parameters
    ----------
    sigma, total : arrays of shape (1,)
        The last strength; and the weighted losses, each before its update, are added to `total`.

    Returns
    -------
    place : int
        Where the arena had no space for another sample; the number of samples at the end.
    """
    n_outputs = settings.n_outputs
    shrinks = settings.budget >= 0 or settings.alpha > 0.0
    additional = store.dense[n_outputs:]
    additional_residual = np.empty(additional.shape[0])
    space = most_space(n_outputs)
    for number in range(first, order.shape[0]):
        if counters[STOP] != 0:
            return order.shape[0]
        i = order[number]
        first_row, n_rows = targets.row_ptr[i], targets.row_ptr[i + 1] - targets.row_ptr[i]
        if counters[TOP] + space * (rows.indptr[first_row + n_rows] - rows.indptr[first_row]) > store.values.shape[0]:
            return number
        weight = targets.weights[i]
        scores, residual = np.empty(n_rows * n_outputs), np.empty(n_rows * n_outputs)
        score_pairs(store, rows, first_row, n_rows, scores)
        additional_residual[:] = 0.0
        loss, inexact = loss_of_target(
            oracle, solver, form, scores, additional, targets, i, _TOL, memory, residual, additional_residual
        )
        if counters[STOP] != 0:
            # Ended short of the solution.
            return order.shape[0]
        counters[STEP] += 1
        counters[SINCE_SHRINK] += 1
        total[0] += weight * loss
        counters[UNCONVERGED] += inexact
        if weight == 0.0:
            pass
        elif settings.mira < 0.0:
            _take_step(store, counters, settings, rows, first_row, n_rows, residual, additional_residual, weight)
        elif loss > 0.0:
            for j in range(additional_residual.shape[0]):
                additional_residual[j] /= weight
            norm_squared = _gather_direction(
                store, counters, settings, rows, first_row, n_rows, residual, additional_residual
            )
            # Features that cannot tell the structures apart leave nothing to move.
            length = min(settings.mira * weight, loss / norm_squared) if norm_squared > 1e-12 else 0.0
            _take_mira_step(store, counters, settings, rows, first_row, n_rows, residual, length)
        if counters[SINCE_SHRINK] >= settings.shrink_every:
            if shrinks:
                shrink_groups(store, groups, counters, curve, settings, sigma)
            else:
                counters[SINCE_SHRINK] = 0
                _record(counters, curve)
    return order.shape[0]


@entry(types.void(STORE, INTS_OUT, types.boolean, INTS_OUT, INTS_OUT, FLOATS_OUT))
def read_pairs(store, counters, average, indptr, outputs, weights):
    """Write all weights as CSR rows, one for each feature; averaged over the steps if asked for."""
    step = counters[STEP]
    at = 0
    for f in range(store.features.shape[0]):
        indptr[f] = at
        if store.features[f, COUNT] == 0:
            continue
        atom = store.features[f, ATOM]
        so_far = scale_until(store, atom, step)
        start, stop = block_of(store, f)
        for place in range(start, stop):
            weight = store.values[place] * store.scale[atom]
            if average and step > 0:
                weight = (store.values[place] * so_far - store.sums[place]) / step
            if weight != 0.0:
                outputs[at] = place - start if store.features[f, COUNT] < 0 else store.outputs[place]
                weights[at] = weight
                at += 1
    indptr[store.features.shape[0]] = at


@entry(types.void(ROWS, ROWS, types.int64, types.int64, FLOATS_2D_OUT))
def add_sparse_scores(rows, coef, start, stop, scores):
    """Add to `scores`, for rows `start` to `stop`, the products of features and sparse weights, both in CSR rows."""
    for r in range(start, stop):
        for at in range(rows.indptr[r], rows.indptr[r + 1]):
            f, value = rows.indices[at], rows.data[at]
            for place in range(coef.indptr[f], coef.indptr[f + 1]):
                scores[r, coef.indices[place]] += value * coef.data[place]


@entry(types.void(STORE, INTS_OUT, INTS, INTS, FLOATS))
def load_pairs(store, counters, indptr, outputs, weights):
    """Put the weights of CSR rows, one for each feature, into an empty store that has the space."""
    for f in range(store.features.shape[0]):
        for at in range(indptr[f], indptr[f + 1]):
            place = make_pair(store, counters, f, outputs[at])
            move_pair(store, place, store.features[f, ATOM], weights[at], 1)
