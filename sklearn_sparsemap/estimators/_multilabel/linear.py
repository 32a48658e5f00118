"""Linear scores of label sets by L-BFGS over all samples.

Used by `solvers.py`.
"""

from functools import partial

import numpy as np

from ..._training._network import NetworkModel
from ..._training.score_models import LinearModel
from .._learners.lbfgs import LBFGSLearner
from .._monitor import report
from .._strengths import PATH, choose_strength, has_stalled, total_variance, try_strengths
from .comparison import best_solver
from .cross_validation import CrossValidation

# Defaults of `tol`, the largest entry of the gradient at the end of L-BFGS, and of `max_iter`.
_LBFGS_TOL, _LBFGS_MAX_ITER = 1e-5, 1000
# Factor of the usual penalty: the variance of the features over the square root of the number of samples, as suggested
# by generalisation bounds. Cross-validation chooses a multiple of it.
_STRENGTH = 0.02
# In cross-validation, L-BFGS ends if the loss falls by less than `_CV_LOSS_TOL` times itself (see `has_stalled`), or
# if no entry of the gradient exceeds `_CV_GRADIENT_TOL`.
_CV_LOSS_TOL, _CV_GRADIENT_TOL = 1e-4, 1e-4
_ARRAYS = "coef", "intercept", "additional"


class LBFGSCrossValidation(CrossValidation):
    """Linear scores by L-BFGS over all samples, with a penalty that is chosen by cross-validation.

    The strength of the penalty, the calibration and the threshold are chosen by cross-validation, all with the same
    models of three to five folds. The fit starts from the mean of these models.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    inference : LabelInference
    X : RaggedArray
    task : LabelTask
    compares : bool, default=False
        Whether linear scores are compared with other score models.

    Attributes
    ----------
    alpha : float
        Strength of the penalty, set by `cross_validate`.
    n_products : int
        Number of products of features and weights that cross-validation has computed.
    """

    def __init__(self, estimator, inference, X, task, compares=False):
        super().__init__(estimator, inference, X, task)
        self.compares = compares
        self.n_products = 0
        self.tol = _LBFGS_TOL if estimator.tol is None else estimator.tol
        max_iter = _LBFGS_MAX_ITER if estimator.max_iter is None else estimator.max_iter
        self._new_learner = partial(LBFGSLearner, expand=_as_network, max_iter=max_iter, n_jobs=estimator.n_jobs)

    def cross_validate(self):
        """Choose the strength of the penalty, and calibrate the estimator; return the solver that trains.

        It is this one, unless another score model is better.
        """
        X, task = self.X, self.task
        alpha = self.estimator.alpha
        usual = _STRENGTH * total_variance(X.values, task.weights) / np.sqrt(task.weights.sum())
        start = LinearModel.zeros(X.values.shape[1], task.n_outputs, 0)
        self.alpha = usual if alpha == "auto" else alpha
        if self.folds:
            alphas = [usual * factor for factor in PATH] if alpha == "auto" else [alpha]
            parts = [(task.take(train), X[train], X[held]) for train, held in self.folds]
            models = [start] * len(parts)
            losses = []
            results = []
            for self.alpha in try_strengths(alphas, losses, results):
                loss, own = self._evaluate(parts, models, f"strength {len(losses) + 1} of at most {len(alphas)}")
                losses.append(loss)
                results.append(own)
            self.alpha, *_, (self.evidence, *arrays) = choose_strength(alphas, losses, results)
            start = LinearModel(*arrays)
            self.inference.calibrate(self.evidence, task)
        self.learner = self._new_learner(task, X, start, alpha=self.alpha, tol=self.tol)
        return best_solver(self) if self.compares and self.folds else self

    def _evaluate(self, parts, models, name):
        """Train the models of the folds with `alpha`, starting from those of the previous strength, which it replaces.

        Parameters
        ----------
        parts : list of (task, X, X of the held-out samples)
        models : list of LinearModel
        name : str
            Name of the strength in reports.

        Returns
        -------
        loss : float
            The log loss of the calibrated probabilities of the held-out samples.
        results : list of arrays
            The scores of the held-out samples, and the arrays of the mean of the models.
        """
        evidence = np.empty(self.task.gold.shape)
        for k, (part, features, held) in enumerate(parts):
            report(self.estimator, f"cross-validation, {name}, fold", k + 1, len(parts))
            tol = max(_CV_GRADIENT_TOL, self.tol)
            learner = self._new_learner(part, features, models[k], alpha=self.alpha, tol=tol)
            learner.run(partial(has_stalled, _CV_LOSS_TOL, learner.losses))
            self.n_products += len(learner.losses) * features.values.shape[0] * models[k].coef.size
            models[k] = learner.model()
            evidence[self.folds[k][1]] = self.inference.evidence(models[k], held.values)
        mean = (np.mean([getattr(model, name) for model in models], axis=0) for name in _ARRAYS)
        return self.inference.calibrate(evidence, self.task), [evidence, *mean]


def _as_network(model):
    """Return a linear model as a network without hidden layers."""
    return NetworkModel([model.coef.copy()], [model.intercept.copy()], np.zeros(0))
