"""Rounds over shards: the methods of `GroupLassoPerceptron` for `ParameterMixing`."""

import numpy as np

from ....training._curve import Course, mean_of
from ....training._online.dense import SINCE
from .debiasing import MIRA
from .monitor import final_state, wide_model

# More samples than ever occur, so that the step size is constant.
_NO_PERIOD = 2**62


class RoundsMixin:
    """Training of an estimator in rounds, and loading of their results."""

    def _groups_optimizer(self, n_outputs, n_additional):
        return self._new_optimizer(self.groups_, self.group_weights_, n_outputs, n_additional)

    def _took_state(self):
        self._final = None

    def _configure_round(self, optimizer, task, n_samples, number):
        """Configure an optimiser for a round over all samples, with a constant step size."""
        selects = optimizer.columns is None
        is_frozen = selects and self.freeze_after is not None and number >= self.freeze_after
        frozen, eta0 = float(optimizer.sigma[0]) if is_frozen else None, self.eta0 / np.sqrt(number + 1.0)
        self._configure(optimizer, _NO_PERIOD, frozen=frozen, eta0=eta0, selects=selects)

    def _end_round(self, n_samples, number):
        """Shrink the mixture of several shards after a round, so that the budget holds."""
        optimizer = self._optimizer
        self._configure_round(optimizer, None, n_samples, number)
        if not self._selects:
            return
        # At least one sample, so that a shrinkage takes place and the budget holds.
        optimizer.counters[SINCE] = max(optimizer.counters[SINCE], not self.alpha)
        optimizer.shrink()
        if self._exceeds(optimizer):
            # This happens with a frozen strength.
            self._configure(optimizer, _NO_PERIOD)
            self._shrink_to_budget(optimizer)

    def _take_rounds(self, optimizers, losses, scores):
        first, last = optimizers[0], optimizers[-1]
        loss = self._loss
        if last is not first:
            loss = "hinge" if self.debias == MIRA else self.debias
        self._model = wide_model(last, self.n_features_in_, self.budget_weights)
        self._final = self._optimizer = None
        self._final = final_state(first, last, loss)
        self._losses = Course(mean_of)
        for entry in losses:
            self._losses.note(entry)
        self.validation_scores_, self.n_iter_ = scores, max(1, len(losses))
