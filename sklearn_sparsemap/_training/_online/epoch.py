"""The loop over samples. An epoch is one compiled call for each thread. It is compiled for each store and type of the
weights, and calls the functions of a step rule, which are compiled by themselves.

Threads divide the columns, not the samples: each computes scores with the weights of its columns, and updates these
weights. So a weight stays in the caches of one core, is updated in the order of the samples, and does not depend on the
number of threads. Between scoring and updating, the threads divide the samples of a block among them; the scores of all
samples of a block are computed with the same weights.

Conventions
-----------
loss_of_target, oracle, solvers : compiled functions
    The loss of a sample; see `_data`. MAP oracle and solvers of the structure.
form : LossForm
    The loss; see losses/_kernel.py.
rows, targets : Rows, Targets
    Features and gold structures of all samples.
order : int64 array
    Indices of the samples to visit.
store, rule, steps
    See `dense` and `rule`. The store is updated.
memory : Memory
    Solutions of the samples, for warm starts.
team, part : Team, Part
    Shared arrays of the threads, and the part of this thread.
start, stop : int
    The range of `order` that is the current block.
moves : Moves
    Work arrays of this thread.

Used by `optimizer.py`.
"""

from numba import types

from ..._core.jit import INTS, ORACLE, entry
from ..._core.team import LINE, barrier_wait
from ..._numerics.competence import SOLVERS
from ...losses._kernel import LOSS_FORM, MEMORY
from .._data import LOSS_OF_TARGET, TARGETS
from .dense import DENSE, FRONT, PLACE, SINCE, STEP, STOP, Dense
from .pairs import PAIRS, Pairs
from .rule import MOVES, PART, ROWS_OF, RULE, TEAM, steps_type
from .rules import has_space, score_rows

# Flags at the beginning of the last line of signals: a thread has failed; the current block was not completed; the
# store has no space for the next block, or that block needs another solver.
FAILED, _ABANDONED, _PAUSED = 0, 1, 2


def _epoch(loss_of_target, oracle, solvers, form, rows, targets, order, store, rule, steps, memory, moves, team, part):
    """Visit the samples in this order, from position ``PLACE`` of the counters on.

    The store must have space for the first block. The epoch ends early if there is no space for the next block, or if a
    solver is to be compiled. ``PLACE`` is then the position of the next sample; at the end it is the number of samples.
    The arguments are described in the module.
    """
    me, n_threads, share = part.me, part.n_threads, part.share
    own, shared = team.counters[me], team.counters[0]
    end_of_signals = n_threads * LINE
    n_outputs, n_dense, n_pieces = store.n_outputs, store.n_dense, share.begins.shape[0] - 1
    n_additional = n_dense - n_outputs
    start, n = shared[PLACE], order.shape[0]
    own[STEP], own[SINCE] = shared[STEP], shared[SINCE]
    while start < n:
        # Several threads leave together after a barrier, because one that left alone would leave the others waiting.
        if n_threads == 1 and shared[STOP] != 0:
            break
        stop = min(start + part.batch_size, n)
        at = 0
        for number in range(start, stop):
            first_row = targets.row_ptr[order[number]]
            n_rows = targets.row_ptr[order[number] + 1] - first_row
            score_rows(store, rows, first_row, n_rows, share, team.scores[at * n_outputs :])
            at += n_rows
        if not barrier_wait(team.signals, me, n_threads):
            return
        # No thread creates weights before the next barrier. The weights of this block are created after it.
        later = stop + part.batch_size
        if me == 0 and not has_space(store, rows, targets, order, start, later, team.counters, n_threads):
            team.signals[end_of_signals + _PAUSED] = 1
        for a in range(n_additional):
            moves.additional[a] = store.values[n_outputs + a] + targets.mask[a]
        at = 0
        for number in range(start, stop):
            i, place = order[number], number - start
            n_scores = n_outputs * (targets.row_ptr[i + 1] - targets.row_ptr[i])
            if place % n_threads == me:
                scores, residual = team.scores[at : at + n_scores], team.residuals[at : at + n_scores]
                for piece in range(1, n_pieces):
                    first = at + piece * share.stride
                    for s in range(n_scores):
                        scores[s] += team.scores[first + s]
                additional_residual = team.additional[place * n_additional : (place + 1) * n_additional]
                for a in range(n_additional):
                    additional_residual[a] = 0.0
                loss, gap = loss_of_target(
                    oracle, solvers, form, targets, scores, moves.additional, rule.tol, memory, i, residual,
                    additional_residual,
                )  # fmt: skip
                team.losses[2 * place] = loss
                team.losses[2 * place + 1] = max(0.0, gap - form.temperature * rule.tol)
            at += n_scores
        if shared[STOP] != 0:
            # A stop interrupts inference, so solutions of this block may be inexact.
            team.signals[end_of_signals + _ABANDONED] = 1
        if memory.later[1] != 0:
            # Each thread has written this before the barrier, so all of them pause.
            team.signals[end_of_signals + _PAUSED] = 1
        if not barrier_wait(team.signals, me, n_threads):
            return
        if team.signals[end_of_signals + _ABANDONED] != 0:
            break
        steps.take(rule, store, rows, targets, order, team, part, start, stop, moves)
        start = stop
        if own[SINCE] >= rule.every:
            if not barrier_wait(team.signals, me, n_threads):
                return
            n_positions = shared[FRONT] - n_outputs
            first, last = n_positions * me // n_threads, n_positions * (me + 1) // n_threads
            steps.end(rule, store, own, n_outputs + first, n_outputs + last)
            if not barrier_wait(team.signals, me, n_threads):
                return
        if team.signals[end_of_signals + _PAUSED] != 0:
            break
    if me == 0:
        shared[PLACE] = start


# Compiled epochs by store and type of the weights, which is that of the features, too.
EPOCHS = {
    (store, dtype): entry(
        types.void(
            LOSS_OF_TARGET, ORACLE, SOLVERS, LOSS_FORM, rows, TARGETS, INTS, of_store[dtype], RULE,
            steps_type(of_store[dtype], rows), MEMORY, MOVES, TEAM, PART,
        )
    )(_epoch)
    for store, of_store in ((Dense, DENSE), (Pairs, PAIRS))
    for dtype, rows in ROWS_OF.items()
}  # fmt: skip
