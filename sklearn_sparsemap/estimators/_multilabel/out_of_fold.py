"""Any classifier as the score model of label sets, with scores of training samples by fits to other samples.

Used by `solvers.py`.
"""

from sklearn.utils import check_random_state

from .._learners.out_of_fold import OutOfFoldLearner, fit_out_of_fold
from .cross_validation import CrossValidation, GivenScores

# Largest entry of the gradient of the loss in the scale of the scores, the biases and the edge scores; number of
# iterations.
_TOL, _MAX_ITER = 1e-4, 500


class OutOfFoldTraining(CrossValidation):
    """A classifier or regressor of scikit-learn that scores the labels.

    On out-of-fold scores, a scale, biases and the scores of edges are learned, probabilities are calibrated, and rule
    and threshold are chosen. Another fit, to all samples, scores new ones.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    inference : LabelInference
    X : RaggedArray
    task : LabelTask
    description : estimator
    """

    def __init__(self, estimator, inference, X, task, description):
        super().__init__(estimator, inference, X, task)
        self._description = description

    def cross_validate(self):
        """Fit the classifier to all samples and to folds; return this solver."""
        estimator = self.estimator
        rng = check_random_state(estimator.random_state)
        scores, model = fit_out_of_fold(self._description, estimator, self.task, self.X, rng)
        self.learner = OutOfFoldLearner(
            self.task,
            scores,
            model,
            alpha=estimator.edge_alpha,
            tol=_TOL if estimator.tol is None else estimator.tol,
            max_iter=_MAX_ITER if estimator.max_iter is None else estimator.max_iter,
            n_jobs=estimator.n_jobs,
            fit_intercept=True,
        )
        return self

    def finish(self, model):
        """Calibrate the estimator, and choose rule and threshold of the fitted model."""
        given = GivenScores(model.additional)
        self.evidence = self.inference.evidence(given, model.scaled(self.learner.scores))
        self.inference.calibrate(self.evidence, self.task)
        super().finish(model)
