"""Training on samples with unknown labels."""

from ...losses import LOSSES
from .._fitting import fit_lbfgs

# Maximum number of linearisations of the second term of the loss.
_MOST_ROUNDS = 10


def check_partial(loss):
    """Raise ValueError for a loss that does not support unknown labels."""
    if LOSSES[loss].margin:
        raise ValueError(
            f"y has labels of None, against which loss={loss!r} knows no cost; use 'sparsemap', 'perceptron' or 'crf'"
        )


def fit_partial(estimator, task, X, model, max_iter, monitor):
    """Minimise the objective of a `PartialTask` by L-BFGS; parameters and result are those of `fit_lbfgs`.

    Without kinks, once. Otherwise, this is followed by a sequence of convex upper bounds.
    """
    ended = fit_lbfgs(estimator, task, X, model, max_iter, monitor)
    if LOSSES[estimator.loss].argmax == "gibbs":
        return ended
    for _ in range(_MOST_ROUNDS):
        left = max_iter - len(monitor.losses)
        model, best = monitor.latest(), monitor.losses[-1]
        if left < 1:
            break
        scores = estimator._linear_scores(X, model)
        linear = task.made_linear(scores, model.additional, estimator.n_jobs)
        ended = fit_lbfgs(estimator, linear, X, model, left, monitor)
        if best - monitor.losses[-1] <= estimator.tol * max(1.0, abs(best)):
            break
    return ended
