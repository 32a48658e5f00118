"""Step rules: the update of the weights after each sample, by AdaGrad, MIRA, or gradient descent.

AdaGrad minimises ``mean loss + alpha/2 |w|^2``. A step for a sample changes only the weights of its features, for
outputs whose marginals differ from gold. After a few epochs, the marginals of SparseMAP equal gold for most samples,
which then need no update. The penalty is applied by a proximal step over all weights, so rarely that it takes a
fraction of the time of the samples.

1-best MIRA is the smallest change of the weights that corrects the worst mistake on a sample (Crammer and Singer 2003):
a step against the gradient of the hinge loss, of length ``min(C, loss / |gradient|^2)``. It has no penalty and no
learning rate; averaging regularises.

Conventions
-----------
rule : Rule
store, counters, rows
    See `dense`.
sample : Sample
    The sample of the step, with its residuals.
moves : Moves
    Work arrays for the updates of a row.
r : int
    Index of a row of the sample; the row after the last one is for the additional scores.
values, sums, squares : arrays
    Arrays of the store.
first, stop : int
    The range of places that `_penalise` updates.

Used by `_training`, `epoch.py`, `groups.py` and `optimizer.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS, INTS_OUT, Entry, by_type, entry, kernel
from ...losses._kernel import is_inexact
from .dense import (
    DENSE,
    FADED,
    SINCE,
    STEP,
    UNCONVERGED,
    Dense,
    add_at,
    clock_after,
    dense_has_space,
    locate_dense,
    score_dense,
)
from .pairs import PAIRS, Pairs, locate_pairs, move_pairs, pairs_have_space
from .rule import ROWS_OF, RULE, Steps, end_signature, take_signature
from .scores import score_pairs
from .shrinkage import SHRINKAGES, record, step_size

# The input of a rule for a sample: its rows of features, its loss, and the gradients. `share` are the columns whose
# weights this thread updates; the thread with the first columns also updates intercepts and additional scores.
# `multiplicity` is empty, or the number of equal columns that each column represents. The weight of such a column is
# the sum of the weights of these columns.
Sample = namedtuple(
    "Sample",
    ["first_row", "n_rows", "weight", "loss", "residual", "additional_residual", "share", "multiplicity"],
)

_NEGLIGIBLE = 1e-12  # smaller residuals are rounding errors of marginals that equal gold

locate = by_type({Dense: locate_dense, Pairs: locate_pairs})
score_rows = by_type({Dense: score_dense, Pairs: score_pairs})
has_space = by_type({Dense: dense_has_space, Pairs: pairs_have_space})


@kernel
def _gather(rule, store, counters, rows, sample, r, moves):
    """Write the moves for row `r` of a sample. The arguments are described in the module.

    The intercept is an additional feature -1 with value 1, and so is the only feature of the additional scores.

    Returns
    -------
    n_features, n_wrong : int
        Numbers of features, and of outputs with nonzero residuals. ``moves.indices[p * n_features + k]`` is the place
        for the p-th of these outputs and feature k.
    """
    begins = sample.share.begins
    is_first = sample.share.first == 0
    if r < sample.n_rows:
        residual, offset = sample.residual[r * store.n_outputs : (r + 1) * store.n_outputs], 0
    elif is_first:
        residual, offset = sample.additional_residual, store.n_outputs
    else:
        return 0, 0
    n, n_wrong = 0, 0
    for j in range(residual.shape[0]):
        if abs(residual[j]) > _NEGLIGIBLE:
            moves.outputs[n_wrong], moves.residuals[n_wrong] = j, residual[j]
            n_wrong += 1
    if n_wrong == 0:
        return 0, 0
    has_constant = int(rule.fit_intercept and is_first)
    if r < sample.n_rows:
        row = sample.first_row + r
        has_data = rows.data.shape[0] != 0
        has_times = sample.multiplicity.shape[0] != 0
        for at in range(begins[sample.share.first, row], begins[sample.share.last, row]):
            value = np.float64(rows.data[at]) if has_data else 1.0
            if value != 0.0:
                moves.features[n], moves.values[n] = rows.indices[at], value
                moves.times[n] = sample.multiplicity[rows.indices[at]] if has_times else 1.0
                n += 1
        locate(store, counters, moves.features[:n], moves.outputs[:n_wrong], n + has_constant, moves.indices)
    else:
        has_constant = 1
    if has_constant:
        moves.features[n], moves.values[n], moves.times[n] = -1, 1.0, 1.0
        for p in range(n_wrong):
            moves.indices[p * (n + 1) + n] = offset + moves.outputs[p]
    return n + has_constant, n_wrong


@kernel
def _move_by_adagrad(values, sums, squares, index, gradient, rate, clock, faded):
    """Take a step of AdaGrad for a single weight; `rate` is its step size, and `clock` the one before the step."""
    squares[index] += gradient * gradient * faded
    add_at(values, sums, index, -rate * gradient / np.sqrt(squares[index] / faded), clock)


@kernel
def _step_adagrad(rule, store, counters, rows, sample, moves):
    """Take the step of AdaGrad for a sample. The arguments are described in the module."""
    values, sums, squares = store.values, store.sums, store.state
    faded = store.pace[FADED]
    clock = clock_after(store.pace, counters[STEP] - 1)
    for r in range(sample.n_rows + 1):
        n, n_wrong = _gather(rule, store, counters, rows, sample, r, moves)
        # The gradient of the additional scores includes the sample's weight.
        weight = sample.weight if r < sample.n_rows else 1.0
        for p in range(n_wrong):
            for k in range(n):
                place = moves.indices[p * n + k]
                gradient = weight * moves.values[k] * moves.residuals[p]
                _move_by_adagrad(values, sums, squares, place, gradient, moves.times[k] * rule.eta0, clock, faded)


@kernel
def _step_gradient(rule, store, counters, rows, sample, moves):
    """Take a gradient step for a sample. The arguments are described in the module."""
    eta = step_size(rule, store.pace, counters[STEP])
    clock = clock_after(store.pace, counters[STEP] - 1)
    for r in range(sample.n_rows + 1):
        n, n_wrong = _gather(rule, store, counters, rows, sample, r, moves)
        factor = -eta * (sample.weight if r < sample.n_rows else 1.0)
        residuals = moves.residuals[:n_wrong]
        move_pairs(store, moves.features[:n], moves.values, residuals, moves.indices, factor, clock)


@kernel
def _step_mira(rule, store, counters, rows, sample, moves):
    """Take the step of MIRA for a sample. The arguments are described in the module."""
    if not sample.loss > 0.0:
        return
    values, sums, direction, norm_squared = store.values, store.sums, store.state, 0.0
    clock = clock_after(store.pace, counters[STEP] - 1)
    for j in range(sample.additional_residual.shape[0]):
        sample.additional_residual[j] /= sample.weight
    for r in range(sample.n_rows + 1):
        n, n_wrong = _gather(rule, store, counters, rows, sample, r, moves)
        for p in range(n_wrong):
            for k in range(n):
                place = moves.indices[p * n + k]
                before, change = direction[place], moves.residuals[p] * moves.values[k]
                direction[place] = before + change
                norm_squared += moves.times[k] * change * (2.0 * before + change)
    # The gradient is zero if the features do not distinguish the structures.
    length = min(rule.C * sample.weight, sample.loss / norm_squared) if norm_squared > 1e-12 else 0.0
    for r in range(sample.n_rows + 1):
        n, n_wrong = _gather(rule, store, counters, rows, sample, r, moves)
        for p in range(n_wrong):
            for k in range(n):
                place = moves.indices[p * n + k]
                add_at(values, sums, place, -length * moves.times[k] * direction[place], clock)
                direction[place] = 0.0


def _penalise(rule, store, counters, first, stop):
    """Take a proximal step for the squared norm of the weights in a range of places, in the metric of AdaGrad."""
    rate = rule.eta0 * rule.alpha * counters[SINCE]
    faded = store.pace[FADED]
    clock = clock_after(store.pace, counters[STEP])
    counters[SINCE] = 0
    for place in range(first, stop):
        w = store.values[place]
        if w != 0.0:
            shrunk = w / (1.0 + rate / np.sqrt(store.state[place] / faded))
            if store.sums.shape[0]:
                store.sums[place] += clock * (shrunk - w)
            store.values[place] = shrunk


def _block_of(take_step):
    """Return the kernel that takes the steps of a block; `take_step` is the kernel for a sample."""

    @kernel
    def take_block(rule, store, rows, targets, order, team, part, start, stop, moves):
        """Count the samples of a block, and take the step of each; their losses and residuals are in `team`."""
        own, n_outputs, n_additional, at = team.counters[part.me], store.n_outputs, store.n_dense - store.n_outputs, 0
        for number in range(start, stop):
            i, place = order[number], number - start
            n_rows, weight = targets.row_ptr[i + 1] - targets.row_ptr[i], targets.weights[i]
            loss, gap = team.losses[2 * place], team.losses[2 * place + 1]
            own[STEP] += 1
            own[SINCE] += 1
            if part.me == 0:
                own[UNCONVERGED] += is_inexact(loss, gap)
                team.total[0] += weight * loss
            if weight != 0.0:
                residual = team.residuals[at : at + n_outputs * n_rows]
                additional_residual = team.additional[place * n_additional : (place + 1) * n_additional]
                sample = Sample(
                    targets.row_ptr[i],
                    n_rows,
                    weight,
                    loss,
                    residual,
                    additional_residual,
                    part.share,
                    team.multiplicity,
                )
                take_step(rule, store, own, rows, sample, moves)
            at += n_outputs * n_rows

    return take_block


_adagrad_block, _mira_block, _gradient_block = map(_block_of, (_step_adagrad, _step_mira, _step_gradient))


def _take_adagrad_steps(rule, store, rows, targets, order, team, part, start, stop, moves):
    _adagrad_block(rule, store, rows, targets, order, team, part, start, stop, moves)


def _take_mira_steps(rule, store, rows, targets, order, team, part, start, stop, moves):
    _mira_block(rule, store, rows, targets, order, team, part, start, stop, moves)


def _take_gradient_steps(rule, store, rows, targets, order, team, part, start, stop, moves):
    _gradient_block(rule, store, rows, targets, order, team, part, start, stop, moves)


def _record(rule, store, counters, first, stop):
    """Record the number of weights."""
    counters[SINCE] = 0
    record(rule, counters)


_FUNCTIONS = {"adagrad": (_take_adagrad_steps, _penalise), "mira": (_take_mira_steps, _record)}
# Functions of AdaGrad and MIRA by store and type of the weights, and of gradient steps over groups of features by
# whether shrinkages are deferred.
STEPS = {
    (name, store, dtype): Steps(
        Entry(take, take_signature(of_store[dtype], rows)), Entry(end, end_signature(of_store[dtype]))
    )
    for name, (take, end) in _FUNCTIONS.items()
    for store, of_store in ((Dense, DENSE), (Pairs, PAIRS))
    for dtype, rows in ROWS_OF.items()
}
_take_gradient_steps = Entry(_take_gradient_steps, take_signature(PAIRS["float64"], ROWS_OF["float64"]))
GRADIENT_STEPS = {defers: Steps(_take_gradient_steps, end) for defers, end in SHRINKAGES.items()}


_penalise_now = kernel(_penalise)


def _step_batch(rule, store, counters, gradient):
    """Take a step of AdaGrad for all weights, given the gradient of a mini-batch, then the step of the penalty."""
    step = counters[STEP] + 1
    faded = store.pace[FADED]
    clock = clock_after(store.pace, counters[STEP])
    for place in range(gradient.shape[0]):
        _move_by_adagrad(store.values, store.sums, store.state, place, gradient[place], rule.eta0, clock, faded)
    # The penalty belongs to the same step.
    counters[SINCE] = 1
    _penalise_now(rule, store, counters, store.n_outputs, gradient.shape[0])
    counters[STEP] = step


# Steps by the type of the weights.
STEPS_OF_BATCHES = {
    dtype: entry(types.void(RULE, store, INTS_OUT, FLOATS))(_step_batch) for dtype, store in DENSE.items()
}
