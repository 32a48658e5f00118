"""The second phase: the weights of the selected groups are learned again, without a penalty."""

import numpy as np
from scipy import sparse

from ...._core.ragged import RaggedArray
from ....penalties import Groups
from ....training._online.dense import SINCE
from ....training._online.groups import GroupOptimizer
from ....training._online.pairs import COUNT
from ..._fitting import visits, warn_of_inference, warn_user

# The value of `debias` that is not the name of a loss.
MIRA = "mira"


class DebiasingMixin:
    """The end of the first phase of `GroupLassoPerceptron`, and the second phase."""

    def _select(self, optimizer):
        """Shrink one last time, so that the budget holds."""
        self._shrink_to_budget(optimizer)
        if self._exceeds(optimizer):
            warn_user(
                "the budget is exceeded: groups of weight 0 are never discarded, such as those of a single feature "
                "with group_weights='log2'; use 'sqrt' or 'uniform'"
            )
        if not optimizer.alive_groups().any():
            warn_user(
                "no group of features has survived: the strength is too high, or the budget is smaller than each group "
                "or (of nested or overlapping groups) than what dies together; raise the budget or shrink_every, or "
                "lower alpha"
            )

    def _shrink_to_budget(self, optimizer):
        """Shrink for the samples since the last shrinkage and, even if there are none, if the budget is exceeded.

        That can happen after a shrinkage by a frozen strength, in an edited model, or with a smaller budget than
        before.
        """
        if self._exceeds(optimizer):
            optimizer.counters[SINCE] = max(1, optimizer.counters[SINCE])
        optimizer.shrink()

    def _run_epochs(self, optimizer, visit, loss, n_samples, n_epochs, monitor):
        """Visit all samples `n_epochs` times to minimise this loss."""
        monitor.follow(optimizer, loss)
        for number in range(n_epochs):
            mean_loss = visit()
            if number + 1 == self.freeze_after and optimizer is monitor.first:
                self._configure(optimizer, n_samples, frozen=float(optimizer.sigma[0]))
            if monitor.iteration(mean_loss):
                break

    def _learn_anew(self, first, task, X, rng, monitor):
        """Learn the weights of the features that an optimiser has kept, without a penalty."""
        optimizer = self._debiasing_optimizer(first, len(X))
        task, X = self._debiasing_data(optimizer.columns, task, X)
        visit = visits(self, optimizer, task, X, rng, remember=False)
        self._run_epochs(optimizer, visit, task.loss, len(X), self.debias_max_iter, monitor)
        return optimizer

    def _debiasing_optimizer(self, first, n_samples):
        """Return an optimiser that learns the weights of the kept features from zero."""
        kept = first.alive()[first.source.atom_of]
        if self.budget_weights is not None:
            # Only weights of these features counted towards the budget.
            kept &= first.store.features[:, COUNT] != 0
        kept = np.flatnonzero(kept)
        n_outputs = first.n_outputs
        return self._optimizer_of_columns(kept, n_outputs, first.store.n_dense - n_outputs, n_samples)

    def _optimizer_of_columns(self, columns, n_outputs, n_additional, n_samples):
        optimizer = GroupOptimizer(
            Groups.partition(np.zeros(len(columns), np.int64), names=["selected"]),
            np.zeros(1),
            n_outputs,
            n_additional,
            average=self.average,
            mira=self.debias == MIRA,
            columns=columns,
        )
        self._configure(optimizer, n_samples, selects=False)
        return optimizer

    def _debiasing_data(self, columns, task, X):
        """Return samples with only these features, and their task with the loss of the second phase."""
        features = X.values[:, columns]
        if not sparse.issparse(features):
            features = np.ascontiguousarray(features)
        loss = "hinge" if self.debias == MIRA else self.debias
        return task.under(loss, self.temperature), RaggedArray(features, X.indptr)

    def _end_fit(self, monitor):
        monitor.is_complete = True
        self._take(monitor)
        warn_of_inference(monitor.optimizer.unconverged)
        monitor.progress.end(lambda: monitor.attributes(self._model))
        return self
