"""L-BFGS over all samples, also with unknown labels.

Used by `estimators`, `estimators/_multilabel`, `estimators/_structured` and `boosting.py`.
"""

import numpy as np
from scipy import sparse

from ..._training._columns import find_scaled_duplicates
from ..._training._objective import BatchObjective
from ..._training._online.optimizer import OnlineOptimizer
from ..._training._quasi_newton.descent import minimize_lbfgs
from ...losses._recipes import TRAINED
from .epochs import ONLINE_TOL
from .learner import Learner

# Epochs of AdaGrad before L-BFGS, and their step size.
_WARM_UP_EPOCHS, _WARM_UP_STEP = 3, 0.1
# Duality gap of inference at kinks, as a fraction of the tolerance of L-BFGS.
_ACCURACY = 1e-4
# Features tell little if the warm-up leaves more than this fraction of the loss.
_UNINFORMED = 0.1
# Ratio of the scales of two columns from which a warning names them.
_UNEQUAL = 100.0
# Maximum number of linearisations of the loss of samples with unknown labels.
_MAX_ROUNDS = 10


class LBFGSLearner(Learner):
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

    watches_loss = False

    def __init__(self, task, X, model, expand=None, *, alpha, tol, max_iter, n_jobs, fit_intercept=True):
        if task.has_kinks:
            # The objective is minimised to a fraction of tol, and near a kink exact inference is slow.
            task = task.copy()
            task.accuracy = max(task.accuracy, _ACCURACY * tol)
        self.task, self.X = task, X
        self.expand = super().expand if expand is None else expand
        self.alpha, self.tol, self.max_iter, self.n_jobs = alpha, tol, max_iter, n_jobs
        self.fit_intercept = fit_intercept
        # The current model, in merged columns if there are any.
        self._model, self._merged, self._is_stopped, self.losses = model, None, False, []

    @property
    def has_started(self):
        return bool(self.losses)

    def model(self):
        return self._model if self._merged is None else self._merged.inverse_transform(self._model)

    def restart(self, alpha):
        self._model = self.model()
        self._merged = None
        self.alpha = alpha
        self.losses = []

    def run(self, on_iteration, task=None, max_iter=None):
        """Minimise the loss of a task from the current model; by default the learner's task, after a warm-up."""
        is_first = task is None
        if is_first:
            task = self.task
            max_iter = self.max_iter
        X, merged = self.X.values, None
        # Without a penalty, the weights of equal columns need not be equal.
        if self.alpha > 0.0 and sparse.issparse(X):
            merged = find_scaled_duplicates(X, task.n_outputs)
        if merged is not None:
            X = merged.X
        objective = BatchObjective(
            task, X, self._model, alpha=self.alpha, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs
        )
        by_bundle = False
        if is_first and task.sequential and task.has_kinks and not self._model.additional.any():
            start = self._model
            self._model = self._warmed_up()
            by_bundle = objective.has_few_weights and self._is_uninformed(start, objective, merged)
            if by_bundle:
                self._model = start
        if is_first and task.is_expectation and not objective.pack(self._model).any():
            self._model = self._of_likelihood()

        def after_iteration(model, loss):
            self._model, self._merged = model, merged
            self.losses.append(loss)
            self._is_stopped = on_iteration(loss)
            return self._is_stopped

        # No name holds the start, so that its memory is freed in training.
        model, loss, message = minimize_lbfgs(
            objective,
            self.model() if merged is None else merged.transform(self.model()),
            max_iter=max_iter,
            tol=self.tol,
            after_iteration=after_iteration,
            by_bundle=by_bundle,
        )
        self._model, self._merged, self.unconverged = model, merged, objective.unconverged
        if not self.losses or not np.isfinite(loss):
            # The start was optimal, or training diverged.
            after_iteration(model, loss)
        if message:
            message = f"L-BFGS did not converge ({message}); raise max_iter, raise alpha{scaling_advice(self.X.values)}"
        return message

    def _warmed_up(self):
        """Return the model after a few epochs of AdaGrad, with fixed parameters.

        At zero weights all structures tie. There the loss has its sharpest kink, at which the negative gradient need
        not be a descent direction, and solutions near it have the largest supports. A few epochs leave this region at
        little cost.
        """
        optimizer = OnlineOptimizer(self._model, average=True)
        optimizer.configure(alpha=self.alpha, eta0=_WARM_UP_STEP, tol=ONLINE_TOL, fit_intercept=self.fit_intercept)
        epoch = self.task.epochs(optimizer, self.X, remember=False)
        for _ in range(_WARM_UP_EPOCHS):
            epoch(np.arange(len(self.X)))
        return optimizer.model()

    def _of_likelihood(self):
        """Return the model of the loss crf with the same parameters, from which the expected cost is minimised.

        At zero weights all structures are as likely, and there the expected cost leads to a worse local minimum.
        """
        likely = self.task.under("crf", self.task.temperature)
        learner = type(self)(
            likely, self.X, self._model, alpha=self.alpha, tol=self.tol, max_iter=self.max_iter, n_jobs=self.n_jobs,
            fit_intercept=self.fit_intercept,
        )  # fmt: skip
        learner.run(lambda loss: False)
        return learner.model()

    def _is_uninformed(self, start, objective, merged):
        """Tell whether the epochs since a start have left much of the loss, because features tell little.

        Then the minimum is near kinks, and the bundle method reaches it fastest from the start.
        """
        models = start, self._model
        if merged is not None:
            models = [merged.transform(model) for model in models]
        before, after = (objective.loss_gradient(objective.pack(model))[0] for model in models)
        return bool(after > _UNINFORMED * before)


def scaling_advice(X):
    """Return the end of a warning: the columns of X with the largest and the smallest values, if these differ a lot."""
    is_sparse = sparse.issparse(X)
    if is_sparse:
        # The arrays may belong to the user.
        magnitudes = sparse.csr_array((np.abs(X.data), X.indices, X.indptr), X.shape).max(axis=0).toarray().ravel()
    else:
        magnitudes = np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0))
    used = np.flatnonzero(magnitudes)
    if not len(used):
        return " or scale the features"
    low = used[np.argmin(magnitudes[used])]
    high = used[np.argmax(magnitudes[used])]
    if magnitudes[high] < _UNEQUAL * magnitudes[low]:
        return " or scale the features"
    scaler = "StandardScaler(with_mean=False)" if is_sparse else "StandardScaler()"
    return (
        f", or scale the features: the largest absolute value is {magnitudes[low]:.3g} in column {low} of X, and "
        f"{magnitudes[high]:.3g} in column {high}; sklearn.preprocessing.{scaler} before the model gives all columns "
        "the same scale"
    )


class PartialLBFGSLearner(LBFGSLearner):
    """L-BFGS on samples with unknown labels, a `PartialTask`.

    A smooth loss is minimised once. Otherwise, convex upper bounds of the loss are minimised after that, one after the
    other.
    """

    def run(self, on_iteration):
        message = super().run(on_iteration)
        if TRAINED[self.task.loss].argmax == "gibbs":
            return message
        for _ in range(_MAX_ROUNDS):
            left = self.max_iter - len(self.losses)
            best = self.losses[-1]
            if left < 1 or self._is_stopped:
                break
            model = self.model()
            scores = model.scores(self.X.values, self.n_jobs)
            message = super().run(on_iteration, self.task.linearized(scores, model.additional, self.n_jobs), left)
            if best - self.losses[-1] <= self.tol * max(1.0, abs(best)):
                break
        return message
