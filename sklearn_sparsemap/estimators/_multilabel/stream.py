"""Learning from a stream: `partial_fit`, and the methods for partitions and shards of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..._core.validation import check_sample_weight
from ...training._minibatch import MinibatchOptimizer
from .._fitting import learn_batch, leaves_whole, warn_of_inference
from .data import leave_out_violations, read_constraints, read_known
from .threshold import RunningThreshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Self


class StreamMixin:
    """Training of `MultilabelLPSparseMAP` on parts of the samples."""

    @leaves_whole
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from a mini-batch: one pass over its samples, in their order.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_labels,), default=None
            All labels that can occur; for a 1-D `y` needed at the first call. For an indicator matrix they are
            optional, and name its columns.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit` does; also if the labels differ from those of the first call.
        """
        task, X = self._take_in(X, y, classes, sample_weight)
        if task is None:
            return self
        self._model = self._configure(self._optimizer, len(X), stream=True).model()
        self._tune_along(task, X)
        n_inexact = self._optimizer.unconverged
        self.loss_curve_.append(learn_batch(self, self._optimizer, task, X))
        warn_of_inference(self._optimizer.unconverged - n_inexact)
        return self

    def _take_in(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X.

        The task is None if no sample has a weight.
        """
        hidden = self._check_params()
        y, known = read_known(y)
        first = not hasattr(self, "_graph")
        if not first:
            self._check_whole()
        X, gold, classes, single = self._check_data(
            X, y, reset=first, classes=classes, partial=True, has_unknown=known is not None
        )
        weights = check_sample_weight(sample_weight, len(X))
        if first:
            graph = self._make_graph(classes, single, gold, weights)
        else:
            graph = self._graph
            given = [constraint for constraint, _ in read_constraints(self.constraints, classes)]
            if given != [constraint for constraint, _ in graph.constraints]:
                raise ValueError("constraints cannot change between calls of partial_fit; fit a clone")
        self._check_known(known, graph)
        X, gold, weights, known, n_violations = leave_out_violations(graph, X, gold, weights, known, partial=True)
        if first:
            rng = check_random_state(self.random_state)
            self._begin(graph, classes, single, 0)
            self._model = self._initial(X.values, hidden, rng)
            self._optimizer = self._running = self._sets = None
            self._draws = False
            self.n_iter_, self.loss_curve_ = 0, []
        elif self.loss != self._loss and "logistic" in (self.loss, self._loss):
            raise ValueError(f"loss={self.loss!r}, but the model was fitted with {self._loss!r}; fit a clone")
        elif (fitted := [c.shape[1] for c in self._model.coefs[:-1]]) != hidden:
            raise ValueError(f"hidden_layer_sizes differ from the fitted model's, {tuple(fitted)}; fit a clone")
        self._loss = self.loss
        self.n_violations_ += n_violations
        if not weights.any():
            return None, X
        if self._optimizer is None:
            self._optimizer = self._new_begin()
        return self._task(gold=gold, weights=weights, known=known), X

    def _new_begin(self):
        """Return an optimiser that starts from the current model."""
        return MinibatchOptimizer(self._model.copy(), check_random_state(self.random_state))

    def _took_state(self):
        self._model = self._optimizer.model()

    def _labels_in(self, y):
        """Return the labels that occur; None for an indicator matrix, which has a column for each label."""
        return None if sparse.issparse(y) or np.ndim(y) == 2 else set(np.asarray(y).tolist())

    def _ready(self, n_samples):
        self._model = self._configure(self._optimizer, n_samples).model()
        return self._optimizer

    def _configure_round(self, optimizer, task, n_samples, number):
        """Configure an optimiser for one of the rounds over all samples."""
        self._configure(optimizer, n_samples)

    def _begin_pass(self):
        self.n_violations_ = 0

    def _validation_score(self, X, y):
        task, X = self._held_out(X, y)
        return self._validate(self._model, X.values, task)

    def _held_out(self, X, y):
        y, known = read_known(y)
        X, gold, _, _ = self._check_data(X, y, reset=False, has_unknown=known is not None)
        return self._task(gold=gold, weights=np.ones(len(X)), known=known), X

    def _end_partitions(self, held):
        self.threshold_ = 0.5 if self.threshold == "auto" else float(self.threshold)
        if self._tunes_threshold(self._single):
            task, X = self._held_out(*held.read_first())
            tuning = self._new_tuning()
            self._tune(tuning, self._model, X.values, task, self._sets)
            self.threshold_, self._draws = tuning.best()

    def _tune_along(self, task, X):
        """Tune the threshold on samples of a stream before they are learned from."""
        if self.threshold != "auto":
            self.threshold_ = float(self.threshold)
        elif self._tunes_threshold(self._single):
            if self._running is None:
                self._running = RunningThreshold()
            for held in self._known_marginals(self._model, X.values, task):
                self._running.update(*held)
            self.threshold_ = self._running.threshold
