"""Flat training data: gold structures, features and weights of samples for kernels.

Used by `_training/_online`, `_adam.py`, `_columns.py`, `_objective.py`, `_scores.py`, `_structure_task.py` and
`score_models.py`.
"""

from collections import namedtuple
from itertools import pairwise

import numpy as np
from numba import types
from scipy import sparse

from .._core.errors import SampleError
from .._core.jit import (
    FLOATS,
    FLOATS_32,
    FLOATS_OUT,
    INTS,
    INTS_2D,
    INTS_2D_OUT,
    ORACLE,
    PARTS,
    Entry,
    FirstClass,
    by_address,
    copy_into,
    entry,
    kernel,
    new_floats,
    readonly,
)
from .._core.offsets import size_of
from .._core.ragged import RaggedArray
from .._numerics.competence import SOLVERS
from .._numerics.loops import Problems, map_range
from ..losses._expected_cost import expected_cost_of_sample
from ..losses._kernel import GOLD, LOSS_FORM, MEMORY, Gold, Target, join_gold, loss_of_sample

# The training samples of a structure, for kernels. Sample i has rows row_ptr[i]..row_ptr[i + 1] of the features and of
# the scores. `gold`, `dims` and `sizes` describe its structure (see structures/_base.py); `weights` are the sample
# weights. `mask` is added to the additional scores. `step_weights` are the weights of all rows, relative to those of
# their samples; empty if all are 1.
Targets = namedtuple("Targets", ["row_ptr", "dims", "sizes", "gold", "weights", "mask", "step_weights"])
TARGETS = by_address([INTS, INTS_2D, INTS_2D, GOLD, FLOATS, FLOATS, FLOATS], Targets)

# Features as CSR rows. For kernels that support it, rows without data are rows of ones.
Rows = namedtuple("Rows", ["data", "indices", "indptr"])
ROWS = by_address([FLOATS, PARTS, INTS], Rows)
# Rows of float32, for weights of float32.
ROWS_32 = by_address([FLOATS_32, PARTS, INTS], Rows)

# Number of entries that `all_ones` compares at once.
_PIECE = 2**16
# Maximum number of scores in a block of gold structures that the oracle checks: 32 MiB.
_BLOCK = 2**22
# Maximum number of parts of an invalid gold structure in a message.
_SHOWN = 12


_LOSS_SIGNATURE = types.UniTuple(types.float64, 2)(
    ORACLE, SOLVERS, LOSS_FORM, TARGETS, FLOATS, FLOATS, types.float64, MEMORY, types.int64, FLOATS_OUT, FLOATS_OUT
)
LOSS_OF_TARGET = FirstClass(_LOSS_SIGNATURE)


@kernel
def _heavier(step_weights, least):
    """Return the smallest weight above `least`; infinity if there is none."""
    found = np.inf
    for weight in step_weights:
        if least < weight < found:
            found = weight
    return found


@kernel
def _fix_lighter(scores, gold_slots, step_weights, least):
    """Forbid all labels except gold in the steps whose weight is below `least`."""
    n_labels = scores.shape[0] // step_weights.shape[0]
    for part in gold_slots:
        row = part // n_labels
        if part >= 0 and step_weights[row] < least:
            for other in range(row * n_labels, (row + 1) * n_labels):
                if other != part:
                    scores[other] = -np.inf


@kernel
def _loss_of_steps(
    oracle, solvers, form, target, step_weights, tol, memory, i, residual, additional_residual
):  # fmt: skip
    """Compute the loss of a sample whose steps have weights, and its gradient; see `loss_of_sample`.

    For each distinct weight, in ascending order, the steps of less weight are fixed to their gold labels. The loss is
    the sum of the losses of these problems, each multiplied by the difference of the weight from the previous one. The
    gap is the mean with these factors, because it is compared with the tolerance of a single inference.
    """
    n = residual.shape[0]
    scores = new_floats(n)
    own = new_floats(n)
    copy_into(scores, target.scores)
    for j in range(n):
        residual[j] = 0.0
    loss = 0.0
    gap = 0.0
    least = 0.0
    level = _heavier(step_weights, 0.0)
    while level < np.inf:
        _fix_lighter(scores, target.gold_slots, step_weights, level)
        factor = level - least
        # Read-only, as in `_loss_of_target`: for writable scores Numba would compile the loss once more.
        fixed = target.scores
        if factor > 0.0:
            fixed = scores
        part = Target(
            fixed,
            target.additional,
            target.dims,
            target.sizes,
            target.gold_slots,
            target.gold_additional,
            target.weight * factor,
        )
        # Solutions of the first problem are warm starts of the next visit. Later problems forbid some of their parts.
        place = i if least == 0.0 else -1
        its_loss, its_gap = loss_of_sample(
            oracle, solvers, form, part, tol, memory, place, own, additional_residual
        )  # fmt: skip
        loss += factor * its_loss
        gap += factor * its_gap
        for j in range(n):
            residual[j] += factor * own[j]
        least = level
        level = _heavier(step_weights, level)
    # At the end, `least` is the largest weight, the sum of all factors.
    return loss, gap / least


@kernel
def _target_of(targets, scores, additional, i):
    """Return the `Target` of sample `i`, and the weights of its steps, which may be empty."""
    gold = targets.gold
    target = Target(
        scores,
        additional,
        targets.dims[i],
        targets.sizes[i],
        gold.slots[gold.slot_ptr[i] : gold.slot_ptr[i + 1]],
        gold.additional[gold.additional_ptr[i] : gold.additional_ptr[i + 1]],
        targets.weights[i],
    )
    step_weights = targets.step_weights
    if step_weights.shape[0]:
        step_weights = step_weights[targets.row_ptr[i] : targets.row_ptr[i + 1]]
    return target, step_weights


def _loss_of_target(oracle, solvers, form, targets, scores, additional, tol, memory, i, residual, additional_residual):
    """Compute the loss of sample `i` and its gradient for its scores; see `loss_of_sample`.

    `additional` includes the mask. All training kernels call this function, which is compiled once.
    """
    target, step_weights = _target_of(targets, scores, additional, i)
    if step_weights.shape[0]:
        return _loss_of_steps(
            oracle, solvers, form, target, step_weights, tol, memory, i, residual, additional_residual
        )  # fmt: skip
    return loss_of_sample(oracle, solvers, form, target, tol, memory, i, residual, additional_residual)


def _expected_cost_of_target(
    oracle, solvers, form, targets, scores, additional, tol, memory, i, residual, additional_residual
):
    """Compute the expected cost of sample `i` and its gradient; see `_loss_of_target`."""
    target, step_weights = _target_of(targets, scores, additional, i)
    return expected_cost_of_sample(oracle, form, target, step_weights, residual, additional_residual), 0.0


# The compiled loss of a target, by `Inference.is_expectation`.
LOSSES_OF_TARGETS = {
    False: Entry(_loss_of_target, _LOSS_SIGNATURE),
    True: Entry(_expected_cost_of_target, _LOSS_SIGNATURE),
}


def encode_gold(structure, layout, n_outputs, codes):
    """Encode the gold structures of samples.

    Parameters
    ----------
    structure : Structure
    layout : tuple
        See `StructureTask`.
    n_outputs : int
    codes : sequence
        The gold structure of each sample, in the form in which `structure` decodes.

    Returns
    -------
    gold : Gold

    Raises
    ------
    ValueError
        If a gold structure is invalid; the message names the first one. If `encode` is not strict, the oracle checks
        the gold structures.
    """
    dims, sizes, shapes = layout
    n = len(dims)
    if structure.is_flat:
        # Codes are parts, so millions of labels need no loop.
        none = np.zeros(n + 1)
        return Gold(
            readonly(codes, np.int32),
            readonly(np.arange(n + 1), np.int64),
            readonly(none[:0], np.int32),
            readonly(none, np.int64),
        )
    if isinstance(codes, RaggedArray):
        codes = [codes.values[first:last] for first, last in pairwise(codes.indptr.tolist())]
    encoded = []
    for i, gold in enumerate(codes):
        try:
            encoded.append(structure.encode(gold, dims[i]))
        except ValueError as error:
            raise SampleError("y", i, f": {error}") from error
    gold = join_gold(encoded)
    if not structure.strict_encode:
        n_additional = size_of(structure.learned_shapes(n_outputs))
        n_parts = np.array([int(np.prod(shape)) for shape in shapes])
        # The queries of the oracle are dense score arrays. Blocks of samples limit their memory.
        block = max(1, _BLOCK // (int(n_parts.max()) + n_additional))
        for start in range(0, n, block):
            rows = slice(start, start + block)
            found = is_structure(structure.oracle, dims[rows], sizes[rows], n_parts[rows], n_additional, encoded[rows])
            if not found.all():
                i = start + int(np.argmin(found))
                parts = encoded[i][0][encoded[i][0] >= 0].tolist()
                more = ", ..." if len(parts) > _SHOWN else ""
                raise SampleError(
                    "y",
                    i,
                    f" is no structure: with high scores for its parts [{', '.join(map(str, parts[:_SHOWN]))}{more}] "
                    "and low scores for all others, the MAP oracle finds another structure. Correct y, leave the "
                    "sample out, or correct encode; if y is valid, the oracle does not find the maximum: "
                    "sklearn_sparsemap.testing.check_structure shows where, given all structures of a small problem",
                )
    return gold


def is_structure(oracle, dims, sizes, n_parts, n_additional, encoded):
    """Tell which sets of parts are structures, by one call of the oracle for each.

    The score of a part is 1 if it is in the set, else -1, so a set that is a structure is the best one. Additional
    scores have the same signs, and are so small that they only break ties between structures with the same parts.

    Parameters
    ----------
    oracle : compiled function
    dims, sizes : int arrays with one row for each sample
    n_parts : int array of shape (n_samples,)
    n_additional : int
    encoded : list of (slots, additional_slots)

    Returns
    -------
    found : bool array of shape (n_samples,)
    """
    n = len(encoded)
    small = 0.5 / (1.0 + sizes[:, 1].max())
    score_ptr = np.concatenate([[0], np.cumsum(n_parts)])
    scores = np.full(score_ptr[-1], -1.0)
    additional = np.full((n, n_additional), -small)
    own_values = np.empty(n)
    for i, (slots, additional_slots) in enumerate(encoded):
        own = slots[slots >= 0]
        own_additional = additional_slots[additional_slots >= 0]
        scores[score_ptr[i] + own] = 1.0
        additional[i, own_additional] = small
        own_values[i] = len(own) + small * len(own_additional)
    ends = np.arange(n + 1) * n_additional
    problems = Problems(
        readonly(scores),
        readonly(score_ptr, np.int64),
        readonly(additional.ravel()),
        readonly(ends[:-1], np.int64),
        readonly(ends[1:], np.int64),
        readonly(dims, np.int64),
        readonly(sizes, np.int64),
    )
    slot_ptr = readonly(np.concatenate([[0], np.cumsum(sizes[:, 0])]), np.int64)
    slots = np.empty(slot_ptr[-1], np.int32)
    values = np.empty(n)
    map_range(oracle, problems, 0, n, slot_ptr, slots, values)
    return values > own_values - 0.5 * small


def make_rows(X, dtype=np.float64, *, lean=False):
    """Return features as CSR rows for the kernels; zeros of dense features are omitted.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
    dtype : dtype, default=np.float64
        Type of the values.
    lean : bool, default=False
        Whether to save memory and time: features that are all one have no data.
    """
    X = sparse.csr_array(X)
    if not X.has_canonical_format:
        # Online learners update weights once for each entry, so duplicates must be summed.
        X = X.copy()
        X.sum_duplicates()
    data = X.data
    if lean and all_ones(data):
        data = np.empty(0)
    return Rows(readonly(data, dtype), readonly(X.indices, np.int32), readonly(X.indptr, np.int64))


def all_ones(data):
    """Tell whether all entries of an array are ones, in blocks, which saves memory and often time."""
    return all((data[start : start + _PIECE] == 1.0).all() for start in range(0, len(data), _PIECE))


@entry(types.void(PARTS, INTS, INTS, INTS_2D_OUT))
def _cut_rows(indices, indptr, cuts, begins):
    """Write to `begins`, for each cut and row, the place of the first entry whose column is at or after the cut."""
    for r in range(indptr.shape[0] - 1):
        at = indptr[r]
        for c in range(cuts.shape[0]):
            while at < indptr[r + 1] and indices[at] < cuts[c]:
                at += 1
            begins[c, r] = at


def begins_of_pieces(rows, cuts):
    """Return the beginning of each row's entries, for each piece of the columns, and their end.

    Parameters
    ----------
    rows : Rows
    cuts : int sequence
        The beginnings of all pieces except the first, in order.

    Returns
    -------
    begins : int array of shape (len(cuts) + 2, n_rows)
        Read-only.
    """
    begins = np.empty((len(cuts) + 2, len(rows.indptr) - 1), np.int64)
    begins[0], begins[-1] = rows.indptr[:-1], rows.indptr[1:]
    if len(cuts):
        _cut_rows(rows.indices, rows.indptr, readonly(cuts, np.int64), begins[1:-1])
    return readonly(begins, np.int64)


def __getattr__(name):
    """Return a class that pickles of earlier versions look for here."""
    if name == "LinearModel":
        from .score_models import LinearModel

        return LinearModel
    raise AttributeError(name)
