"""The phases of `GroupLassoPerceptron`: selecting groups, and learning the weights of the selected groups again.

Used by `perceptron.py`.
"""

import numpy as np
from scipy import sparse

from ..._training._online.pairs import COUNT
from ..._training.score_models import LinearModel
from .._learners.epochs import OnlineLearner
from .._state.fitted import FittedState


class GroupPhase(OnlineLearner):
    """A fixed number of epochs of a phase.

    Parameters
    ----------
    estimator : GroupLassoPerceptron
    first : GroupOptimizer
        The optimiser of the first phase.
    optimizer : GroupOptimizer
        The optimiser of this phase.
    run_epoch : callable
        Visits all samples, and returns their mean loss.
    max_iter : int
    """

    def __init__(self, estimator, first, optimizer, run_epoch, max_iter):
        super().__init__(optimizer, run_epoch, max_iter)
        self.estimator, self.first = estimator, first
        self.step_name = "training, epoch" if optimizer is first else "debiasing, epoch"

    @property
    def has_started(self):
        return self.first.n_steps > 0

    def run(self, on_iteration):
        for _ in range(self.max_iter):
            if on_iteration(self.run_epoch()):
                break
        return ""

    def model(self):
        return wide_model(self.optimizer, self.estimator.n_features_in_, self.estimator._weight_budget)

    def keep(self, monitor):
        """Store the model of the second phase after its first step; before that, the optimiser of the first phase."""
        if self.optimizer is not self.first and self.optimizer.n_steps:
            monitor.store()
        else:
            progress = self.estimator._progress_of(monitor.losses)
            vars(self.estimator).update(progress, _learned=FittedState(optimizer=self.first))


def kept_columns(optimizer, counts):
    """Return the columns of the groups that an optimiser has kept; with `counts`, only columns that have weights."""
    kept = optimizer.alive()[optimizer.source.atom_of]
    if counts:
        kept &= optimizer.store.features[:, COUNT] != 0
    return np.flatnonzero(kept)


def final_state(first, last, loss, earlier=None):
    """Return the attributes of a finished training, given the optimisers of the first and the last phase.

    `GroupLassoPerceptron` reads them by these names, and files hold them, as `final` of a `FittedState`.
    Norms, strengths and the memory curve are those of an `earlier` training, if it selected the groups.
    """
    curve = first.joined_curve()
    if last is not first:
        curve = np.concatenate([curve, last.joined_curve() + [first.n_steps - last.n_before, 0]])
    final = {
        "selected": first.selected_groups(),
        "shrunk": first.has_shrunk,
        "norms": first.group_norms(),
        "sigma": first.sigma.copy(),
        "curve": curve,
        "loss": loss,
    }
    if earlier is not None:
        final |= {name: earlier[name] for name in ("norms", "sigma", "curve")}
    return final


def wide_model(optimizer, n_features, most=None):
    """Return an optimiser's model over all features, even if it learns only some of them.

    Parameters
    ----------
    optimizer : GroupOptimizer
    n_features : int
    most : int, default=None
        Maximum number of weights of the features. If an optimiser of some features has more, the smallest are dropped.
    """
    model = optimizer.model()
    columns = optimizer.columns
    if columns is None:
        return model
    if most is not None and model.coef.nnz > most:
        model.coef.data[np.argsort(-np.abs(model.coef.data), kind="stable")[most:]] = 0.0
        model.coef.eliminate_zeros()
    lengths = np.zeros(n_features, np.int64)
    lengths[columns] = np.diff(model.coef.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    coef = sparse.csr_array((model.coef.data, model.coef.indices, indptr), shape=(n_features, model.coef.shape[1]))
    return LinearModel(coef, model.intercept, model.additional)
