"""The task of a structure made of labels, some of which are unknown.

The known labels restrict the marginal polytope to a face, whose vertices are the completions. The loss is the
regularised maximum over the polytope minus the regularised maximum over this face. For crf it is the negative
log-probability of all completions together. Both terms are losses with the same completion as gold structure; the
scores of the second one forbid parts that contradict the known labels. So both are computed by `StructureTask`.

The expected cost does not need completions: it is that of the known labels.

The other losses are differences of convex functions. L-BFGS minimises them directly. If there are kinks, the second
term is linearised, and the remaining convex loss is minimised, repeatedly (the convex-concave procedure).

Reference: Yuille and Rangarajan, The Concave-Convex Procedure. Neural Computation 15, 2003.

Used by `estimators`.
"""

import numpy as np

from .._core.errors import SampleError
from .._core.offsets import ragged_indices, split_flat
from .._core.ragged import RaggedArray
from ..inference import map_inference
from ._structure_task import UNKNOWN, SequenceTask, StructureTask
from ._task import Task


class PartialTask(SequenceTask):
    """Samples with a label for each row, some of which are unknown."""

    # Kernels of online learning need a gold structure, so mini-batches are used, which need only losses and gradients.
    sequential = has_kinks = overwrites_scores = False
    epochs, batches = Task.epochs, Task.batches

    def learn(self, gold, weights, loss, temperature=1.0, cost=None):
        """Set a loss, and gold: the codes of the labels, or `UNKNOWN`. Return the task."""
        self.codes = gold.values
        return super().learn(RaggedArray(self._complete(gold), gold.indptr), weights, loss, temperature, cost)

    def _set_loss(self, loss, temperature, cost):
        super()._set_loss(loss, temperature, cost)
        # In the expected cost, unknown labels cost nothing.
        self.step_weights = (self.codes != UNKNOWN).astype(np.float64) if self.is_expectation else None

    def _complete(self, gold):
        """Return the codes of a structure for each sample that agrees with the known labels: a completion."""
        codes = gold.values.copy()
        known = np.flatnonzero(gold.values != UNKNOWN)
        additional = split_flat(np.zeros(self.n_additional) + self.mask, self.additional_shapes)
        allowed = np.zeros((len(codes), self.n_outputs))
        allowed[known] = -np.inf
        allowed[known, codes[known]] = 0.0
        for i in np.flatnonzero(np.add.reduceat(codes == UNKNOWN, gold.indptr[:-1])):
            rows = slice(gold.indptr[i], gold.indptr[i + 1])
            try:
                codes[rows] = map_inference(self.structure, allowed[rows], **additional).structure
            except ValueError as error:
                # Shapes were checked before, so known labels, and the mask, leave no structure.
                raise SampleError(
                    "y",
                    i,
                    "no structure agrees with the known labels of ",
                    "; correct them, write None for more of them, or relax the structure or its constraints",
                ) from error
        return codes

    def take(self, samples):
        found = super().take(samples)
        found.codes = RaggedArray(self.codes, self.row_ptr)[samples].values
        return found

    def gold_rows(self):
        gold, single = super().gold_rows()
        gold[self._unknown] = np.nan
        return gold, single

    @property
    def _unknown(self):
        return self.codes == UNKNOWN

    def completions(self, scores, additional, n_jobs):
        """Compute the second term and its gradient, as `Task.loss_gradient` does.

        Returns
        -------
        rows : int array
            Rows of the samples that have unknown labels; the gradient is zero in all others.
        loss, residuals, joined, n_inexact
        """
        if getattr(self, "_restricted", None) is None:
            some = np.flatnonzero(np.add.reduceat(self._unknown, self.row_ptr[:-1]))
            task = StructureTask.take(self, some) if len(some) else None
            rows = ragged_indices(self.row_ptr[some], np.diff(self.row_ptr)[some])
            self._restricted = task, rows, rows[self.codes[rows] != UNKNOWN]
        task, rows, known = self._restricted
        if task is None:
            return rows, 0.0, scores[:0], np.zeros(len(additional)), 0
        allowed = scores.copy()
        allowed[known] = -np.inf
        allowed[known, self.codes[known]] = scores[known, self.codes[known]]
        return rows, *StructureTask.loss_gradient(task, allowed[rows], additional, n_jobs)

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        loss, residuals, joined, n_inexact = super().loss_gradient(scores, additional, n_jobs)
        if not self.is_expectation:
            rows, own_loss, own_residuals, own_joined, own_inexact = self.completions(scores, additional, n_jobs)
            loss -= own_loss
            residuals[rows] -= own_residuals
            joined = joined - own_joined
            n_inexact += own_inexact
        if mean:
            total = self.weights.sum()
            residuals, joined = residuals / total, joined / total
        return loss, residuals, joined, n_inexact

    def linearized(self, scores, additional, n_jobs):
        """Return a task with a convex loss, which is an upper bound of the loss and equal to it at these scores.

        `PartialLBFGSLearner` (`estimators/_learners/lbfgs.py`) calls it.
        """
        found = self.copy()
        found.__class__ = _LinearTask
        found.tangent = scores, additional, self.completions(scores, additional, n_jobs)
        return found


class _LinearTask(PartialTask):
    """A `PartialTask` with the second term of the loss linearised at some scores."""

    has_kinks = Task.has_kinks

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        loss, residuals, joined, n_inexact = StructureTask.loss_gradient(self, scores, additional, n_jobs)
        at, additional_at, (rows, own_loss, slope, additional_slope, own_inexact) = self.tangent
        own_loss = own_loss + np.vdot(scores[rows] - at[rows], slope) + (additional - additional_at) @ additional_slope
        residuals[rows] -= slope
        return loss - own_loss, residuals, joined - additional_slope, n_inexact + own_inexact
