"""A classifier or regressor of scikit-learn as a score model.

Its scores for its own training rows are too certain. So it is fitted to parts of the samples first, and scores the
others. On these scores a scale, a bias for each output and the additional scores of the structure are learned with the
loss of the estimator. A fit to all rows then computes the scores of new samples.

Used by `estimators/_multilabel` and `estimators/_structured`.
"""

import numpy as np

from ..._core.folds import folds_of_rows
from ..._core.row_scores import RowEstimator, out_of_fold_scores
from ..._training._bundle import minimize_bundle
from ..._training._classifier_model import ClassifierModel, ScaleObjective
from ..._training._quasi_newton.descent import minimize_lbfgs
from ...losses._recipes import TRAINED
from .._failures import warn_user
from .._monitor import report
from .learner import Learner
from .score_model import new_learner

# Maximum number of folds.
_N_FOLDS = 5
# Usual strength of the penalty of additional scores, as a fraction of that of other score models, which have far more
# weights. Larger values make transitions weaker. With 1, letters lose 0.4 of 89.4 points.
_PENALTY = 0.1
# Largest entry of the gradient at the end, and maximum number of iterations.
_TOL, _MAX_ITER = 1e-3, 500
# Duality gap of inference at kinks, as a fraction of the tolerance.
_ACCURACY = 1e-4
# Maximum number of linearisations of the loss of samples with unknown labels.
_MAX_ROUNDS = 10


def fit_out_of_fold(classifier, estimator, task, X, rng):
    """Fit a classifier to the rows of samples, and compute scores of the rows by fits that have not seen them.

    Parameters
    ----------
    classifier : estimator
        A classifier or regressor; in a `FrozenEstimator`, it is not fitted, and its scores are taken as they are.
    estimator : estimator
        The parameters `n_jobs` and `verbose` are used, and the attribute `classes_`, if it has one label an output.
    task : Task
    X : RaggedArray
    rng : RandomState
        Gives the seeds of clones.

    Returns
    -------
    scores : array of shape (n_rows, n_outputs)
        The scores of all rows by fits to other samples.
    model : ClassifierModel
        The scores of a fit to all rows, with a scale of 1, and biases and additional scores of 0.

    Raises
    ------
    ValueError
        If the classifier raises an error, or all samples have a row in common, so that there are no folds.
    """
    gold, single = task.gold_rows()
    weights = task.row_weights
    rows = RowEstimator(classifier, _labels_of(estimator, task.n_outputs), single, rng, estimator.n_jobs)
    if not rows.takes_weights and not rows.is_frozen and len(np.unique(weights[weights > 0.0])) > 1:
        warn_user(
            f"{type(classifier).__name__} takes no sample_weight, so it learns from all rows alike; weights of samples "
            "and of classes apply to the scale, the biases and the additional scores only"
        )
    if rows.is_frozen:
        fitted = rows.fit(X.values, gold, weights)
        scores = fitted.scores(X.values)
    else:
        folds = folds_of_rows(task.row_ptr, X.values, gold, _N_FOLDS, weights)
        if not folds:
            raise ValueError(
                f"score_model={classifier!r} needs at least two different samples, each of which is scored by a fit to "
                f"the others; got n_samples={len(X)}. Give more samples, or pass a fitted model as a FrozenEstimator"
            )
        scores = out_of_fold_scores(
            rows, X.values, gold, weights, folds, lambda k: report(estimator, "scores out of fold", k, len(folds))
        )
        fitted = rows.fit(X.values, gold, weights)
    n_outputs = task.n_outputs
    return scores, ClassifierModel(fitted, 1.0, np.zeros(n_outputs), np.zeros(task.n_additional), X.values.shape[1])


def _labels_of(estimator, n_outputs):
    """Return the names of the outputs: the labels, or their numbers."""
    classes = getattr(estimator, "classes_", None)
    return np.arange(n_outputs) if classes is None or len(classes) != n_outputs else np.asarray(classes)


class OutOfFoldLearner(Learner):
    """Scale, biases and additional scores of a classifier of rows, by L-BFGS or a bundle method.

    Parameters
    ----------
    task : Task
    scores : array of shape (n_rows, n_outputs)
        Scores of the rows by fits that have not seen them.
    model : ClassifierModel
        The start.
    alpha, tol : float
    max_iter : int
    n_jobs : int or None
    fit_intercept : bool
        Whether biases are learned.
    """

    watches_loss = False

    def __init__(self, task, scores, model, *, alpha, tol, max_iter, n_jobs, fit_intercept):
        if task.has_kinks:
            # Near a kink exact inference is slow.
            task = task.copy()
            task.accuracy = max(task.accuracy, _ACCURACY * tol)
        self.task, self.scores, self._model = task, scores, model
        self.alpha, self.tol, self.max_iter, self.n_jobs = alpha, tol, max_iter, n_jobs
        self.fit_intercept = fit_intercept
        self.losses, self._is_stopped = [], False

    @property
    def has_started(self):
        return bool(self.losses)

    def model(self):
        return self._model

    def restart(self, alpha):
        self.alpha = alpha
        self.losses = []

    def run(self, on_iteration):
        # The loss of the perceptron is proportional to the scores, so zeros would be best.
        learns_scale = self.task.loss != "perceptron"
        message = self._minimize(on_iteration, self.task, learns_scale)
        if self._model.scale < 0.0 and not self._is_stopped:
            # The scores contradict the labels by chance, as they do if features tell nothing.
            self._model = self._model.copy()
            self._model.scale = 0.0
            learns_scale = False
            message = self._minimize(on_iteration, self.task, learns_scale)
        if not hasattr(self.task, "linearized") or self.task.is_gibbs:
            return message
        # The loss of samples with unknown labels is not convex. Convex upper bounds are minimised, one after the other.
        for _ in range(_MAX_ROUNDS):
            best = self.losses[-1]
            if self._is_stopped or len(self.losses) >= self.max_iter:
                break
            model = self._model
            task = self.task.linearized(model.scaled(self.scores), model.additional, self.n_jobs)
            message = self._minimize(on_iteration, task, learns_scale)
            if best - self.losses[-1] <= self.tol * max(1.0, abs(best)):
                break
        return message

    def _minimize(self, on_iteration, task, learns_scale):
        """Minimise the loss of a task from the current model; return the reason for a failure."""
        objective = ScaleObjective(
            task, self.scores, alpha=self.alpha, learns_scale=learns_scale, fit_intercept=self.fit_intercept,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        n_before = len(self.losses)

        def after_iteration(model, loss):
            self._model = model
            self.losses.append(loss)
            self._is_stopped = on_iteration(loss)
            return self._is_stopped

        max_iter = max(1, self.max_iter - n_before)
        if not task.is_gibbs and TRAINED[task.loss].argmax == "map":
            # These losses have kinks everywhere.
            vector, loss, _, message = minimize_bundle(
                objective.loss_gradient, objective.pack(self._model), objective.penalised, alpha=self.alpha,
                tol=self.tol, gap=self.tol, most_calls=max_iter, metric=objective.curvatures(),
                after_step=lambda vector, loss: after_iteration(objective.unpack(vector.copy()), float(loss)),
            )  # fmt: skip
            model = objective.unpack(vector)
        else:
            model, loss, message = minimize_lbfgs(
                objective, self._model, max_iter=max_iter, tol=self.tol, after_iteration=after_iteration
            )
        self._model, self.unconverged = model, objective.unconverged
        if len(self.losses) == n_before or not np.isfinite(loss):
            # The start was optimal, or training diverged.
            after_iteration(model, loss)
        return message and f"the scale of the scores did not converge ({message}); raise max_iter or alpha"


@new_learner.register(object)
def learn_out_of_fold(description, estimator, task, X, rng):
    """Return the learner of any estimator of rows; see `new_learner`."""
    scores, model = fit_out_of_fold(description, estimator, task, X, rng)
    model.scale = getattr(task, "temperature", 1.0)
    if estimator.alpha is None:
        estimator.alpha_ *= _PENALTY
    return OutOfFoldLearner(
        task,
        scores,
        model,
        alpha=estimator.alpha_,
        tol=_TOL if estimator.tol is None else estimator.tol,
        max_iter=_MAX_ITER if estimator.max_iter is None else estimator.max_iter,
        n_jobs=estimator.n_jobs,
        fit_intercept=estimator.fit_intercept,
    )
