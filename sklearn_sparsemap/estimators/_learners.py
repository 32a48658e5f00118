"""Learners: L-BFGS over all samples, and epochs of an online optimiser. A fit is a learner and its monitor."""

import numpy as np

from ..losses import LOSSES
from ..training._columns import Merging
from ..training._lbfgs import minimize_lbfgs
from ..training._objective import BatchObjective
from ..training._online.optimizer import OnlineOptimizer
from ..training._scores import linear_scores

# Smallest duality gap at which inference in online training ends: the largest error of a loss.
ONLINE_TOL = 1e-8
# Epochs of AdaGrad before L-BFGS, and their step size.
_WARM_UP_EPOCHS, _WARM_UP_STEP = 3, 0.1
# Maximum number of linearisations of the loss of samples with unknown labels.
_MOST_ROUNDS = 10


class Learner:
    """Training of a model in steps. A subclass has `run`, `model` and `begun`.

    Attributes
    ----------
    begun : bool
        Whether there is a model to keep if training ends now.
    unconverged : int
        Number of samples whose inference did not converge.
    columns : Columns or None
        The merged columns of its models, if any.
    step_name : str
        Name of a step in progress messages.
    """

    columns, unconverged = None, 0
    step_name = "iteration"

    def run(self, watch):
        """Take all steps. After each, call `watch` with the loss, and stop if it returns True.

        Returns
        -------
        message : str
            The reason why training did not converge; empty if it converged.
        """
        raise NotImplementedError

    def model(self):
        """Return the current model, in the learner's own form."""
        raise NotImplementedError

    def expand(self, model):
        """Convert a model from the learner's form to the user's columns and type."""
        return model

    def keep(self, monitor):
        """Store the progress in the estimator if training is interrupted."""
        monitor.take()


class Epochs(Learner):
    """Epochs of an online optimiser.

    Parameters
    ----------
    optimizer : optimizer
    visit : callable
        Visits all samples, and returns their mean loss.
    max_iter : int
    columns : Columns, default=None
        The merged columns of the optimiser's weights.
    sparse_coef : bool, default=False
        Whether the user's model has sparse `coef`, if columns are merged.
    is_enough : bool, default=False
        Whether training has converged after `max_iter` epochs, because this number was chosen on held-out samples.
    """

    step_name = "epoch"

    def __init__(self, optimizer, visit, max_iter, columns=None, sparse_coef=False, is_enough=False):
        self.optimizer, self.visit, self.max_iter, self.is_enough = optimizer, visit, max_iter, is_enough
        self.columns, self.sparse_coef = columns, sparse_coef

    @property
    def begun(self):
        return self.optimizer.n_steps > 0

    @property
    def unconverged(self):
        return self.optimizer.unconverged

    def run(self, watch):
        for _ in range(self.max_iter):
            if watch(self.visit() + self.optimizer.penalty()):
                return ""
        if self.is_enough:
            return ""
        name = self.optimizer.name
        return f"{name} was still improving after max_iter={self.max_iter} epochs; raise max_iter or tol"

    def model(self):
        return self.optimizer.model()

    def expand(self, model):
        return model if self.columns is None else self.columns.expand(model, sparse_coef=self.sparse_coef)


class Batch(Learner):
    """L-BFGS on the objective over all samples.

    Parameters
    ----------
    task : Task
    X : RaggedArray
    model : LinearModel
        The start, in float64.
    expand : callable, default=None
        Converts a `LinearModel` to the user's form. By default, that is the same.
    alpha, tol : float
    max_iter : int
    n_jobs : int or None
    fit_intercept : bool, default=True
    """

    def __init__(self, task, X, model, expand=None, *, alpha, tol, max_iter, n_jobs, fit_intercept=True):
        self.task, self.X = task, X
        self.expand = super().expand if expand is None else expand
        self.alpha, self.tol, self.max_iter, self.n_jobs = alpha, tol, max_iter, n_jobs
        self.fit_intercept = fit_intercept
        self._model, self._merging, self.losses = model, None, []

    @property
    def begun(self):
        return bool(self.losses)

    def model(self):
        return self._model if self._merging is None else self._merging.expand(self._model)

    def _warm_up(self):
        """Run a few epochs of AdaGrad, with fixed parameters.

        At zero weights all structures tie. There the loss has its sharpest kink, at which the negative gradient need
        not be a descent direction, and solutions near it have the largest supports. A few epochs leave this region at
        little cost.
        """
        optimizer = OnlineOptimizer(self._model.copy(), average=True)
        optimizer.configure(alpha=self.alpha, eta0=_WARM_UP_STEP, tol=ONLINE_TOL, fit_intercept=self.fit_intercept)
        epoch = self.task.epochs(optimizer, self.X, remember=False)
        for _ in range(_WARM_UP_EPOCHS):
            epoch(np.arange(len(self.X)))
        self._model = optimizer.model()

    def run(self, watch, task=None, max_iter=None):
        """Minimise the loss of a task from the current model; by default the learner's task, after a warm-up."""
        if task is None:
            task, max_iter = self.task, self.max_iter
            if task.sequential and task.has_kinks and not self._model.additional.any():
                self._warm_up()
        merging = Merging(self.X.values, task.n_outputs, penalised=self.alpha > 0.0)
        start = merging.shrink(self.model())
        objective = BatchObjective(
            task, merging.X, start, alpha=self.alpha, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs
        )

        def after_iteration(model, loss):
            self._model, self._merging = model, merging
            self.losses.append(loss)
            return watch(loss)

        model, loss, message = minimize_lbfgs(
            objective, start, max_iter=max_iter, tol=self.tol, after_iteration=after_iteration
        )
        self._model, self._merging, self.unconverged = model, merging, objective.unconverged
        if not self.losses or not np.isfinite(loss):
            # The start was optimal, or training diverged.
            after_iteration(model, loss)
        if message:
            message = f"L-BFGS did not converge ({message}); raise max_iter, raise alpha or scale the features"
        return message


class PartialBatch(Batch):
    """L-BFGS on samples with unknown labels, a `PartialTask`.

    A smooth loss is minimised once. Otherwise, convex upper bounds of the loss are minimised after that, one after the
    other.
    """

    def run(self, watch):
        message = super().run(watch)
        if LOSSES[self.task.loss].argmax == "gibbs":
            return message
        for _ in range(_MOST_ROUNDS):
            left, best = self.max_iter - len(self.losses), self.losses[-1]
            if left < 1:
                break
            model = self.model()
            scores = linear_scores(self.X.values, model, self.n_jobs)
            message = super().run(watch, self.task.made_linear(scores, model.additional, self.n_jobs), left)
            if best - self.losses[-1] <= self.tol * max(1.0, abs(best)):
                break
        return message
