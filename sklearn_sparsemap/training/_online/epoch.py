"""The loop over samples: a whole epoch is one compiled call, for each step rule with each store that it goes with."""

from collections import namedtuple

import numpy as np
from numba import types

from ..._jit import FLOATS_OUT, INTS, INTS_OUT, ORACLE, entry
from ...losses._kernel import LOSS_FORM, MEMORY, is_inexact, loss_of_sample
from ...solvers._polytope.protocol import SOLVER
from .._data import ROWS, TARGETS, target_of
from .dense import DENSE, PLACE, SINCE, STEP, STOP, TOP, UNCONVERGED, Dense
from .pairs import PAIRS, Pairs
from .rules import ADAGRAD, MIRA, AdaGrad, Mira, Sample, end_sample, new_moves, score_rows, space, take_step
from .shrinkage import GRADIENT, Gradient

# How far an epoch is: the counters (see dense.py), and in total[0] the weighted losses, each before its update.
Progress = namedtuple("Progress", ["counters", "total"])
_PROGRESS = types.NamedTuple([INTS_OUT, FLOATS_OUT], Progress)


def _epoch(oracle, solver, form, rows, targets, order, store, rule, memory, progress):
    """Visit the samples in this order, from place ``counters[PLACE]`` of `progress` on, updating `store`.

    That place is then where the store had no space for another sample; the number of samples at the end.
    """
    counters, total = progress.counters, progress.total
    n_outputs, n_dense = store.n_outputs, store.n_dense
    additional = store.values[n_outputs:n_dense]
    additional_residual = np.empty(n_dense - n_outputs)
    moves = new_moves(rows, n_outputs, n_dense - n_outputs)
    start = counters[PLACE]
    counters[PLACE] = order.shape[0]
    for number in range(start, order.shape[0]):
        if counters[STOP] != 0:
            return
        i = order[number]
        first_row, n_rows = targets.row_ptr[i], targets.row_ptr[i + 1] - targets.row_ptr[i]
        wanted = space(store) * (rows.indptr[first_row + n_rows] - rows.indptr[first_row])
        if counters[TOP] + wanted > store.values.shape[0]:
            counters[PLACE] = number
            return
        scores, residual = np.empty(n_rows * n_outputs), np.empty(n_rows * n_outputs)
        score_rows(store, rows, first_row, n_rows, scores)
        additional_residual[:] = 0.0
        target = target_of(targets, i, scores, additional)
        loss, gap = loss_of_sample(oracle, solver, form, target, rule.tol, memory, i, residual, additional_residual)
        if counters[STOP] != 0:
            # Ended short of the solution.
            return
        counters[STEP] += 1
        counters[SINCE] += 1
        counters[UNCONVERGED] += is_inexact(loss, gap)
        total[0] += target.weight * loss
        if target.weight != 0.0:
            sample = Sample(first_row, n_rows, target.weight, loss, residual, additional_residual)
            take_step(rule, store, counters, rows, sample, moves)
        if counters[SINCE] >= rule.every:
            end_sample(rule, store, counters)


def _entry_of(store, rule):
    return entry(types.void(ORACLE, SOLVER, LOSS_FORM, ROWS, TARGETS, INTS, store, rule, MEMORY, _PROGRESS))(_epoch)


EPOCHS = {
    (Dense, AdaGrad): _entry_of(DENSE, ADAGRAD),
    (Dense, Mira): _entry_of(DENSE, MIRA),
    (Pairs, AdaGrad): _entry_of(PAIRS, ADAGRAD),
    (Pairs, Mira): _entry_of(PAIRS, MIRA),
    (Pairs, Gradient): _entry_of(PAIRS, GRADIENT),
}
