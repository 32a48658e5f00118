"""Streams: `GroupLassoPerceptron` learns from mini-batches and partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ....training._curve import Course, mean_of
from ..._fitting import keep_if, learn_batch, leaves_whole, relative, warn_of_inference
from ..._progress import Progress
from ..unfit import fit_trees
from .debiasing import MIRA
from .monitor import PairMonitor, final_state, wide_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self


class StreamMixin:
    """All training of `GroupLassoPerceptron` except `fit`."""

    def _learn_partitions(self, source, classes, n_samples, held, rng):
        self._take_first(source, classes)
        first, selects, loss = self._optimizer, self._selects, self.loss
        self._configure(first, n_samples)
        debiases = selects and self.debias is not None
        n_epochs = self.max_iter + debiases * self.debias_max_iter
        monitor = PairMonitor(self, first, Progress(self, source.source, None, n_epochs))
        keep_if(self, lambda: first.n_steps > 0 and not monitor.diverged, lambda: self._take(monitor))
        self._run_epochs(first, lambda: source.visit(self, first, rng), loss, n_samples, self.max_iter, monitor)
        self._configure(first, n_samples)
        if selects:
            self._select(first)
        if debiases and not monitor.stopped:
            last = self._debiasing_optimizer(first, n_samples)

            def debiasing_data(task, X):
                return self._debiasing_data(last.columns, task, X)

            loss = "hinge" if self.debias == MIRA else self.debias
            visit = partial(source.visit, self, last, rng, debiasing_data)
            self._run_epochs(last, visit, loss, n_samples, self.debias_max_iter, monitor)
        return self._end_fit(monitor)

    @leaves_whole
    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | NDArray[Any] | None = None) -> Self:
        """Learn online from a mini-batch: one pass over its samples, in their order, with shrinkage but no debiasing.

        The step size decreases as ``eta0 / sqrt(t / shrink_every)`` with the number t of samples. The budget holds for
        the weights after each shrinkage; between two shrinkages other groups may come up, and compete.
        `selected_groups_` are those that the last shrinkage has kept. `finalize` ends the stream with a shrinkage and,
        given samples, debiasing. After `fit` or `finalize`, training continues from their model.

        Parameters
        ----------
        X, y
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur; needed at the first call if structures are made of labels.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As in `fit`; also at the first call without `classes`, and for a label that is not among them.
        """
        task, X = self._take_in(X, y, classes)
        if task is None:
            return self
        self._configure(self._optimizer, self.shrink_every)
        n_inexact = self._optimizer.unconverged
        self._losses.note(learn_batch(self, self._optimizer, task, X))
        warn_of_inference(self._optimizer.unconverged - n_inexact)
        return self

    def _take_in(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X.

        The task is None if no sample is left; then nothing has changed.
        """
        first, structure, classes, X, task = self._check_stream(X, y, classes, sample_weight)
        if task is None:
            return None, X
        if first:
            groups, group_weights = self._make_groups(X)
            optimizer = self._new_optimizer(groups, group_weights, task.n_outputs, task.n_additional)
            self._begin(structure, classes, groups, group_weights, optimizer)
            self.n_iter_, self._losses = 0, Course(mean_of)
        elif self._optimizer is None:
            self._begin(structure, classes, self.groups_, self.group_weights_, self._new_begin())
        self._check_budget(self.groups_)
        if self._optimizer.average != self.average:
            raise ValueError("average cannot change between calls of partial_fit; fit a clone")
        self._loss = self.loss
        # From now on the optimiser has the weights, even if training is interrupted.
        self._model = None
        return task, X

    @leaves_whole
    def finalize(self, X: Any = None, y: Any = None) -> Self:
        """End a stream of `partial_fit`: shrink for the samples since the last shrinkage, and debias.

        A stream stores no samples, so debiasing needs some: the last ones, or any of the same kind. Without them, the
        weights remain as the shrinkage leaves them. After `fit`, only debiasing has an effect.

        Parameters
        ----------
        X, y
            As in `fit`. By default, only shrink.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not as described; the message names the sample.
        sklearn.exceptions.NotFittedError
            If there is no model yet.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_sparsemap import GroupLassoPerceptron
        >>> X = np.random.default_rng(0).normal(size=(90, 6))
        >>> y = X[:, 2] + X[:, 3] > 0
        >>> model = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], budget=1)
        >>> for start in range(0, 90, 30):
        ...     model = model.partial_fit(X[start : start + 30], y[start : start + 30], classes=[False, True])
        >>> model.finalize(X, y).selected_groups_
        array([1])
        """
        structure = self._check_params()
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("finalize takes both X and y, or none of them")
        self._check_same_structure(structure)
        self._check_whole()
        self._check_budget(self.groups_)
        classes = self.classes_ if structure.labelled else None
        if X is not None:
            X, codes, _ = self._check_data(structure, X, y, reset=False, classes=classes)
            weights = self._sample_weights(X, codes, classes, None)
            X, codes, weights = fit_trees(self.unfit, structure, X, codes, weights)
            task = self._check_task(self._training_task(structure, X, codes, classes, relative(weights)))
        first = self._optimizer
        if first is None:
            first = self._new_begin()
        exceeds = self._exceeds(first)
        if self._selects and (self._optimizer is not None or exceeds):
            self._configure(first, self.shrink_every)
            # The shrinkage is kept even if the following steps fail.
            keep_if(self, lambda: True)
            self._model, self._optimizer = None, first
            self._select(first)
        last, loss = first, self._latest_loss
        if X is not None and self._selects and self.debias is not None:
            monitor = PairMonitor(self, first, None)
            last = self._learn_anew(first, task, X, check_random_state(self.random_state), monitor)
            loss = monitor.loss
            warn_of_inference(last.unconverged)
        final = final_state(first, last, loss)
        if self._final is not None and not exceeds:
            final |= {name: self._final[name] for name in ("norms", "sigma", "curve")}
        self._model = wide_model(last, self.n_features_in_, self.budget_weights)
        self._final, self._optimizer = final, None
        return self

    def _exceeds(self, optimizer):
        """Tell whether an optimiser exceeds the budget."""
        if self.budget is not None:
            return optimizer.alive_groups().sum() > self.budget
        return self.budget_weights is not None and optimizer.n_held > self.budget_weights

    def _new_begin(self):
        """Return an optimiser that starts from the current model."""
        n_features, n_outputs, n_additional = self._model.sizes
        optimizer = self._new_optimizer(self.groups_._check(n_features), self.group_weights_, n_outputs, n_additional)
        optimizer.load(self._model, self._final["shrunk"])
        return optimizer
