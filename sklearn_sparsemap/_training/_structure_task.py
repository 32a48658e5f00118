"""The tasks of samples of one structure: structures of parts, sequences of labels, and one label each.

Used by `estimators` and `_partial_task.py`.
"""

from collections import namedtuple
from functools import cached_property, partial
from itertools import accumulate, pairwise
from math import prod

import numpy as np
from numba import types

from .._core.errors import SampleError
from .._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, ORACLE, by_address, copy_into, entry, readonly
from .._core.offsets import offsets, padded_rows, ragged_indices, split_flat
from .._core.ragged import RaggedArray
from .._core.threads import cut_evenly, over_ranges
from .._numerics.competence import READY, SOLVERS
from .._numerics.loops import GAP, OBJECTIVE, Problems, take_problems
from ..inference import sparsemap
from ..inference._batch import argmax_problems, decode_problems, map_problems, marginal_problems
from ..inference._n_best import n_best_of_problems
from ..losses._fenchel_young import Inference, loss_form
from ..losses._kernel import LOSS_FORM, MEMORY, is_inexact, new_memory
from ..losses._recipes import TRAINED
from ._data import LOSS_OF_TARGET, LOSSES_OF_TARGETS, TARGETS, Targets, encode_gold
from ._task import Task, agreement_of

# Maximum number of ranges of samples. It is fixed, so that sums do not depend on the number of threads.
_N_RANGES = 64
# Number of parts in a call on a single thread. A call takes some 100 us, and Ctrl-C ends a running call.
_COST_PER_CALL = 2**20
_N_BATCH_RANGES = 8  # maximum number of ranges of the samples of a mini-batch, fixed for the same reason
# Steps of a sequence, and of a stretch of one label, that count as one sample or label; larger values give recordings a
# stronger penalty.
_LONG, _STEADY = 32, 4
_ONLY = readonly([0], np.int64)  # the index of a single sample
UNKNOWN = -2  # the code of an unknown label
_WARM_START_BYTES = 512 * 2**20  # memory limit of warm starts; without one, inference starts from zero


_OUT = types.Tuple([FLOATS_OUT, FLOATS_2D_OUT])


# Samples whose losses are computed: their indices; sample k has the scores from score_ptr[k] to score_ptr[k + 1]; range
# r has the samples from cuts[r] to cuts[r + 1]; and the duality gap of inference.
Chosen = namedtuple("Chosen", ["samples", "score_ptr", "cuts", "gap"])
_CHOSEN = by_address([INTS, INTS, INTS, types.float64], Chosen)


@entry(types.void(LOSS_OF_TARGET, ORACLE, SOLVERS, LOSS_FORM, FLOATS, TARGETS, MEMORY, _CHOSEN, _OUT))
def _residuals_of_ranges(loss_of_target, oracle, solvers, form, additional, targets, memory, chosen, out):
    """Compute the weighted losses of ranges of samples, and their gradients.

    A limit of 0 in the memory stops the call, and so does a sample for which a solver should be compiled; results are
    then incomplete.

    Parameters
    ----------
    loss_of_target : compiled function
    oracle, solvers, form, memory
        As in `loss_of_sample`.
    additional : array of shape (n_additional,)
        With the mask.
    targets : Targets
        Of all samples.
    chosen : Chosen
    out : tuple of arrays
        The scores of the chosen samples, one after the other, which are overwritten with the gradients with respect to
        them; and an array of shape (n_ranges, 2 + n_additional), to which is added, for each range, the weighted loss,
        the number of samples whose inference did not converge, and the gradient with respect to the additional scores.
    """
    residuals, sums = out
    for r in range(chosen.cuts.shape[0] - 1):
        own = sums[r]
        for k in range(chosen.cuts[r], chosen.cuts[r + 1]):
            if memory.limit[0] == 0 or memory.later[1] != 0:
                return
            i = chosen.samples[k]
            first, last = chosen.score_ptr[k], chosen.score_ptr[k + 1]
            residual = residuals[first:last]
            scores = np.empty(last - first)
            copy_into(scores, residual)
            loss, gap = loss_of_target(
                oracle, solvers, form, targets, scores, additional, chosen.gap, memory, i, residual, own[2:]
            )
            weight = targets.weights[i]
            for j in range(residual.shape[0]):
                residual[j] *= weight
            own[0] += weight * loss
            # Only the excess over the accepted gap counts.
            own[1] += is_inexact(loss, max(0.0, gap - form.temperature * chosen.gap))


class _StructureBatch:
    """A mini-batch of the samples of a `StructureTask`; see `Task.batches`.

    Parameters
    ----------
    task : StructureTask
    given : tuple
        Targets and memory of all samples.
    samples : int array
        Indices of the samples.
    lengths : int array
        Their numbers of rows.
    gap : float
    """

    def __init__(self, task, given, samples, lengths, gap):
        self.task, self.given, self.samples, self.lengths, self.gap = task, given, samples, lengths, gap

    def loss_gradient(self, scores, additional, n_jobs, mean=True):
        """Return what `Task.loss_gradient` returns, with the gradient of the weighted mean."""
        task = self.task
        targets, memory = self.given
        n = len(self.samples)
        n_ranges = min(n, _N_BATCH_RANGES)
        chosen = Chosen(
            readonly(self.samples, np.int64),
            offsets(self.lengths * task.n_outputs),
            readonly(np.arange(n_ranges + 1) * n // n_ranges, np.int64),
            self.gap,
        )
        loss, residuals, additional, n_inexact = task.loss_gradient(
            scores, additional, n_jobs, samples=(targets, memory, chosen)
        )
        factor = 1.0 / targets.weights[self.samples].sum()
        residuals *= factor
        return loss, residuals, factor * additional, n_inexact


class StructureTask(Task):
    """Samples of one structure that is not made of labels; the base class of tasks with labels.

    Properties that depend on the loss or on the selection of samples are cached under names with an underscore, which
    `Task.copy` drops. `layout` is kept, and `take` replaces it. `estimators/_structured` also calls `under`, and sets
    `step_weights`.

    Parameters
    ----------
    structure : Structure
    X : RaggedArray
        Features. Only the numbers of rows, and `shapes` if known, are used here.
    n_outputs : int
        Number of scores of a row: one for each label, or a single one.
    """

    sequential = True
    # Weights of all rows, relative to those of their samples; None if all are 1. See `_data.Targets`.
    step_weights = None
    # The task over all structures, which predicts, if the loss is over some of them (`InEstimators.for_training`).
    whole = None
    # Whether `loss_gradient` overwrites the scores of all samples, a C-contiguous array, with the residuals.
    overwrites_scores = True

    def __init__(self, structure, X, n_outputs):
        self.structure, self.n_outputs, self.row_ptr, self.grids = structure, n_outputs, X.indptr, X.grids
        self.additional_shapes = structure.learned_shapes(n_outputs)
        self.n_additional = sum(map(prod, self.additional_shapes.values()))
        self.varies = not structure.fixed_size
        self.repeats = structure.repeats

    @cached_property
    def layout(self):
        """The results of `Structure.dims` and `Structure.layout` for all samples, and the shapes of their scores.

        A ValueError names the first sample whose shape is invalid for the structure.
        """
        if len(self.grids) == 1:
            sizes, first, which = self.grids, _ONLY, _ONLY
        else:
            sizes, first, which = np.unique(self.grids, axis=0, return_index=True, return_inverse=True)
        layouts = []
        for size, i in zip(sizes.tolist(), first.tolist()):
            try:
                shape = self.structure.scores_shape(tuple(size), self.n_outputs)
                layouts.append((shape, *self.structure.layout(shape, self.additional_shapes)))
            except ValueError as error:
                raise SampleError("X", i, f": {error}") from error
        which, shapes, dims, sizes = which.ravel(), *zip(*layouts)
        if len(set(map(len, dims))) > 1:
            dims = padded_rows(dims)
        dims, sizes = (readonly(np.array(a, np.int64)[which], np.int64) for a in (dims, sizes))
        return dims, sizes, [shapes[k] for k in which.tolist()]

    def learn(self, gold, weights, loss, temperature=1.0, cost=None):
        """Set gold structures and a loss; return the task.

        Parameters
        ----------
        gold : sequence
            The gold structure of each sample, in the form in which `structure` decodes.
        weights : array of shape (n_samples,)
        loss, temperature, cost
            As in `FenchelYoungLoss`.
        """
        self._set_loss(loss, temperature, cost)
        self.gold = encode_gold(self.structure, self.layout, self.n_outputs, gold)
        self.weights = weights
        return self

    def under(self, loss, temperature, cost=None):
        """Return a task with a different loss."""
        found = self.copy()
        found._set_loss(loss, temperature, cost)
        return found

    def _set_loss(self, loss, temperature, cost):
        self.loss = loss
        self.temperature = temperature
        self.inference = Inference(self.structure, loss)
        self.is_expectation = self.inference.is_expectation
        self.form = loss_form(self.structure, loss, temperature, cost, self.n_outputs)

    @property
    def row_weights(self):
        weights = super().row_weights
        return weights if self.step_weights is None else weights * self.step_weights

    def n_wrong(self, scored, n_jobs):
        if self.loss == "perceptron" and self.step_weights is None:
            return super().n_wrong(scored, n_jobs)
        # The losses with a margin also count structures that are right, but not by the margin.
        task = self.under("perceptron", 1.0)
        task.step_weights = None
        return task.n_wrong(scored, n_jobs)

    def smoothness(self):
        if self.is_expectation:
            return None
        n_samples = len(self.row_ptr) - 1
        largest = 1.0
        if TRAINED[self.loss].argmax == "gibbs":
            # The covariance of the parts is at most the squared norm of a structure.
            largest = self.layout[1][:, 0].astype(np.float64) ** (2 if self.structure.repeats else 1)
        return np.broadcast_to(largest / self.temperature, n_samples)

    def take(self, samples):
        found = super().take(samples)
        dims, sizes, shapes = self.layout
        found.layout = *(readonly(a[samples], np.int64) for a in (dims, sizes)), [shapes[i] for i in samples]
        slots, additional = (RaggedArray(*pair)[samples] for pair in (self.gold[:2], self.gold[2:]))
        arrays = slots.values, slots.indptr, additional.values, additional.indptr
        found.gold = type(self.gold)(*map(readonly, arrays, [np.int32, np.int64] * 2))
        if self.whole is not None:
            found.whole = self.whole.take(samples)
        if self.step_weights is not None:
            found.step_weights = RaggedArray(self.step_weights, self.row_ptr)[samples].values
        return found

    def gold_rows(self):
        slots, slot_ptr, *_ = self.gold
        parts = slots + np.repeat(self.row_ptr[:-1] * self.n_outputs, np.diff(slot_ptr))
        counts = np.bincount(parts[slots >= 0], minlength=self.row_ptr[-1] * self.n_outputs)
        return counts.astype(np.float64).reshape(-1, self.n_outputs), self.structure.labelled

    @property
    def targets(self):
        """The targets, in the form that kernels take."""
        dims, sizes, _ = self.layout
        mask = readonly(np.zeros(self.n_additional) + self.mask)
        steps = readonly(np.zeros(0) if self.step_weights is None else self.step_weights)
        return Targets(readonly(self.row_ptr, np.int64), dims, sizes, self.gold, readonly(self.weights), mask, steps)

    def epochs(self, optimizer, X, remember=True):
        if optimizer.by_batches:
            task = self.copy()
            task._is_remembered = remember
            return super(StructureTask, task).epochs(optimizer, X)
        memory = new_memory(self.layout[1], _WARM_START_BYTES if remember and self.form.quadratic else 0)
        rows = optimizer.rows_of(X.values)
        return partial(optimizer.epoch, self.inference, self.form, rows, self.targets, memory=memory)

    # Whether the batches of this task may warm start from solutions of earlier ones.
    _is_remembered = False

    @cached_property
    def _of_batches(self):
        """The targets and the memory of all samples, for mini-batches."""
        remembers = self._is_remembered and self.form.quadratic
        return self.targets, new_memory(self.layout[1], _WARM_START_BYTES if remembers else 0)

    def batches(self, X, order, batch_size, gap):
        begins = self.row_ptr[:-1]
        lengths = np.diff(self.row_ptr)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            if self.weights[chosen].any():
                own = lengths[chosen]
                rows = X.values[ragged_indices(begins[chosen], own)]
                yield _StructureBatch(self, self._of_batches, chosen, own, gap), rows

    @cached_property
    def _of_all_samples(self):
        """Arguments of kernels that are the same in each call of `loss_gradient`."""
        memory = new_memory(self.layout[1], _WARM_START_BYTES if self.form.quadratic else 0)
        samples = readonly(np.arange(len(self.row_ptr) - 1), np.int64)
        score_ptr = readonly(self.row_ptr * self.n_outputs, np.int64)
        cuts = readonly(cut_evenly(np.diff(self.row_ptr), _N_RANGES), np.int64)
        return self.targets, memory, Chosen(samples, score_ptr, cuts, self.accuracy)

    def loss_gradient(self, scores, additional, n_jobs, *, samples=None):
        """Compute the weighted losses and their gradients; see `Task`.

        `samples` are the targets and the memory of all samples, and the `Chosen` ones, by default all.
        """
        targets, memory, chosen = self._of_all_samples if samples is None else samples
        if samples is None:
            # Learners may have set another accuracy since the last call.
            chosen = chosen._replace(gap=self.accuracy)
        is_free = samples is None and self.overwrites_scores
        residuals = scores if is_free else np.array(scores, np.float64, order="C")
        out = residuals.reshape(-1)
        additional = readonly(additional + targets.mask)
        _, solvers = self.inference.arguments
        before = None if solvers.readiness == READY else residuals.copy()
        cuts = chosen.cuts
        while True:
            sums = np.zeros((len(cuts) - 1, 2 + len(additional)))
            over_ranges(
                lambda start, stop, sums=sums: _residuals_of_ranges(
                    LOSSES_OF_TARGETS[self.is_expectation], *self.inference.arguments, self.form, additional, targets,
                    memory, chosen._replace(cuts=cuts[start : stop + 1]), (out, sums[start:stop]),
                ),
                np.diff(chosen.score_ptr[cuts]),
                n_jobs,
                _COST_PER_CALL,
                limit=memory.limit,
            )  # fmt: skip
            if not memory.later[1]:
                break
            # Again from the start, so that no warm start depends on the order in which threads stopped.
            self.inference.prepare(memory)
            memory.counts[chosen.samples] = 0
            residuals[...] = before
        return sums[:, 0].sum(), residuals, sums[:, 2:].sum(axis=0), int(sums[:, 1].sum())

    def _problems(self, scores, additional):
        n = len(self.row_ptr) - 1
        dims, sizes, _ = self.layout
        return Problems(
            readonly(scores.ravel()),
            readonly(self.row_ptr * self.n_outputs, np.int64),
            readonly(additional),
            readonly(np.zeros(n), np.int64),
            readonly(np.full(n, len(additional)), np.int64),
            dims,
            sizes,
        )

    def _best(self, scores, additional, n_jobs):
        """Return the best structure of each sample, as `structure` decodes it: sequence."""
        if self.whole is not None:
            return self.whole._best(scores, additional, n_jobs)
        problems = self._problems(scores, additional)
        slots, slot_ptr, _ = map_problems(self.structure, problems, n_jobs=n_jobs)
        return decode_problems(self.structure, problems, slots, slot_ptr)

    def predict(self, scores, additional, n_jobs):
        found = self._best(scores, additional, n_jobs)
        return np.array(list(found)) if self.structure.in_estimators.predicts_arrays else object_array(found)

    def n_best(self, scores, additional, k, n_jobs, chosen=None):
        problems = self._problems(scores, additional)
        if chosen is not None and len(chosen) < len(problems.sizes):
            problems = take_problems(problems, np.asarray(chosen))
        return n_best_of_problems(self.structure, problems, k, n_jobs)

    def parts(self, gold):
        possible, allowed = self._possible(gold)
        slots, slot_ptr, joint, joint_ptr = encode_gold(self.structure, self.layout, self.n_outputs, allowed)
        pairs = zip(np.split(slots, slot_ptr[1:-1]), np.split(joint, joint_ptr[1:-1]))
        return [parts if is_possible else None for parts, is_possible in zip(pairs, possible)]

    def _possible(self, gold):
        """Return whether the model can predict each structure, and structures that it can predict, for `encode_gold`.

        The latter are `gold`, with some structure in place of those that the model cannot predict.
        """
        structure = self.structure
        form = structure.in_estimators
        return [not form.misfits(structure, own) for own in gold], [form.repair(structure, own) for own in gold]

    def encode(self, i, structures):
        return self.structure.in_estimators.encode_all(self.structure, structures, self.layout[0][i])

    def values(self, i, scores, additional, structures):
        pairs = self.structure.in_estimators.encode_all(self.structure, structures, self.layout[0][i])
        if len({(len(unary), len(joint)) for unary, joint in pairs}) == 1:
            unary = np.array([parts[0] for parts in pairs])
            joint = np.array([parts[1] for parts in pairs])
            if np.minimum.reduce(unary, None, initial=0) == np.minimum.reduce(joint, None, initial=0) == 0:
                return np.add.reduce(scores[unary], 1) + np.add.reduce(additional[joint], 1)
        return [self.value(i, scores, additional, parts) for parts in pairs]

    def difference(self, first, second):
        (dims,), _, (shape,) = self.layout
        kinds = zip(self.structure.encode(first, dims), self.structure.encode(second, dims))
        return [
            np.subtract(*(np.bincount(slots[slots >= 0], minlength=size) for slots in kind))
            for kind, size in zip(kinds, (prod(shape), self.n_additional))
        ]

    def describe(self, part, labels):
        output = part % self.n_outputs
        if labels is not None:
            return labels[output]
        shape = self.layout[2][0]
        if len(shape) == 1:
            return None
        return output if self.n_outputs > 1 else str([int(i) for i in np.unravel_index(part, shape)])

    def marginals(self, scores, additional, n_jobs):
        problems = self._problems(scores, additional)
        if TRAINED[self.loss].argmax == "gibbs":
            marginals, _, _ = marginal_problems(self.structure, problems, n_jobs=n_jobs)
            return marginals.reshape(scores.shape), None, None
        marginals, statistics, _ = argmax_problems(self.structure, problems, n_jobs=n_jobs)
        return marginals.reshape(scores.shape), statistics[:, GAP], statistics[:, OBJECTIVE]

    def distributions(self, scores, additional, n_jobs):
        given = split_flat(additional, self.additional_shapes)
        results = sparsemap(self.structure, list(self.in_shapes(scores)), n_jobs=n_jobs, **given)
        return results.distributions(), results.gap, results.objective

    def likely_spans(self, scores, additional, reader, thresholds, wanted, n_jobs):
        """List the spans of at least some probability; see `Structure.likely_spans`."""
        problems = self._problems(scores, additional)
        return self.structure.likely_spans(problems, reader, thresholds, wanted, n_jobs)

    def log_partitions(self, scores, additional, n_jobs):
        return marginal_problems(self.structure, self._problems(scores, additional), n_jobs=n_jobs)[1]

    def maxima(self, scores, additional, n_jobs):
        return map_problems(self.structure, self._problems(scores, additional), n_jobs=n_jobs)[2]

    def in_shapes(self, values):
        """Split values for the scores of all samples into arrays in the shapes of the scores."""
        flat = values.ravel()
        shapes = self.layout[2]
        ends = [0, *accumulate(map(prod, shapes))]
        return object_array([flat[i:j].reshape(shape) for (i, j), shape in zip(pairwise(ends), shapes)])

    def agreement(self, gold, predicted, weights):
        if self.whole is not None:
            return self.whole.agreement(gold, predicted, weights)
        counts = []
        for i, (own, found, dims) in enumerate(zip(gold, predicted, self.layout[0])):
            try:
                counts.append(self.structure.agreement(own, found, dims))
            except ValueError as error:
                raise SampleError("y", i, f": {error}") from error
        return agreement_of(counts, weights)


class LabelledTask(StructureTask):
    """Samples of a structure that is made of labels. Gold are their codes, and `UNKNOWN` for an unknown label."""

    def agreement(self, gold, predicted, weights):
        codes = gold.values if isinstance(gold, RaggedArray) else gold
        known = codes != UNKNOWN
        if not known.any():
            raise ValueError("all labels of y are None; at least one must be known")
        weights = np.repeat(weights, np.diff(self.row_ptr))
        weights = (weights if self.step_weights is None else weights * self.step_weights)[known]
        if not weights.any():
            raise ValueError("all known labels of y have the weight 0; at least one must have a positive weight")
        # One label is gold, and one is predicted.
        return 2.0 * float(weights @ (predicted[known] == codes[known])), 2.0 * float(weights.sum())


class SequenceTask(LabelledTask):
    """Samples with a label for each row."""

    def learn(self, gold, weights, loss, temperature=1.0, cost=None):
        """Set gold label sequences, a RaggedArray of codes, and a loss; return the task.

        The labels of a recording stay for many steps, each of which tells little, so transitions decide. A document
        that joins many sentences is as long, but its labels change as often as theirs: it needs their penalty. So the
        `length_factor` depends on both.
        """
        super().learn(gold, weights, loss, temperature, cost)
        # Sums of weights near the largest number would overflow.
        relative = weights / max(weights.max(initial=0.0), np.finfo(float).tiny)
        n_steps = float(relative @ np.diff(self.row_ptr))
        n_samples = float(relative.sum())
        if n_steps <= _LONG * n_samples:
            self.length_factor = 1.0
            return self
        starts = np.diff(gold.values, prepend=gold.values[:1]) != 0
        starts[self.row_ptr[:-1]] = True
        n_stretches = float(relative @ np.add.reduceat(starts, self.row_ptr[:-1], dtype=np.int64))
        self.length_factor = max(1.0, min(n_steps / (_LONG * n_samples), n_steps / (_STEADY * n_stretches)))
        return self

    def predict(self, scores, additional, n_jobs):
        return np.concatenate(self._best(scores, additional, n_jobs))

    def _possible(self, gold):
        return np.minimum.reduceat(gold, self.row_ptr[:-1]) >= 0, RaggedArray(np.maximum(gold, 0), self.row_ptr)


class SingleLabelTask(LabelledTask):
    """Samples of a single row with a single label."""

    is_flat = True

    def predict(self, scores, additional, n_jobs):
        return scores.argmax(axis=1)

    def _possible(self, gold):
        return gold >= 0, np.maximum(gold, 0)

    def in_shapes(self, values):
        return values.reshape(-1, self.n_outputs)


def object_array(samples):
    """Return samples as a 1-D object array, even if all have the same shape."""
    array = np.empty(len(samples), dtype=object)
    for i, sample in enumerate(samples):
        array[i] = sample
    return array
