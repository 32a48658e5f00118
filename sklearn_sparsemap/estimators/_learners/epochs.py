"""Epochs of online training, mini-batches of streams, and the optimisers of estimators.

An `estimator` here has the parameters `solver`, `eta0`, `alpha`, `batch_size`, `shuffle`, `average`, `fit_intercept`
and `n_jobs`, and the attributes `_structure` and `_step_size`, the name of its step size in messages. If it has
`alpha_`, this is the strength of the penalty.

Used by `estimators`, `estimators/_multilabel`, `estimators/_structured`, `lbfgs.py` and `network.py`.
"""

import numpy as np
from scipy import sparse

from ..._training._columns import find_duplicates
from ..._training._minibatch import LinearMinibatchOptimizer
from ..._training._online.optimizer import MiraOptimizer, OnlineOptimizer
from ..._training.score_models import LinearModel
from .._failures import check_finite_loss, commit_if, warn_of_inference
from .initial import max_dense
from .learner import Learner

# Smallest duality gap at which inference in online training ends: the largest error of a loss.
ONLINE_TOL = 1e-8
# Duality gap of inference in training, as a fraction of the mean loss of the previous samples. Larger values save time
# for chains with many labels. Up to 0.1, held-out scores for chunks, entities, letters and trees differ by less than
# those of two seeds.
_ROUGH = 0.03
# Ends of the second and third part of the first visit, as fractions of the samples. The first part is one mini-batch
# with exact inference. It is short because exact inference is slow for chains with many labels while scores are small.
_FIRST_PARTS = 0.01, 0.1
# AdaGrad's step size, if the estimator's `solver` does not give one.
_ADAGRAD_STEP = 0.1
# Maximum number of visits of a sample for its weight. With larger weights, steps are longer.
_MAX_VISITS = 1000
# Maximum number of weights of merged columns that an online optimiser stores in a dense array.
_MAX_DENSE = 2**22


class OnlineLearner(Learner):
    """Epochs of an online optimiser.

    Parameters
    ----------
    optimizer : optimizer
    run_epoch : callable
        Visits all samples, and returns their mean loss.
    max_iter : int
    columns : DuplicateColumns, default=None
        The merged columns of the optimiser's weights.
    sparse_coef : bool, default=False
        Whether the user's model has sparse `coef`, if columns are merged.
    is_enough : bool, default=False
        Whether training has converged after `max_iter` epochs, because this number was chosen on held-out samples.
    patience : float, default=1.0
        Number of epochs that count as one for the monitor, because samples are long and therefore few.
    """

    step_name = "epoch"

    def __init__(self, optimizer, run_epoch, max_iter, columns=None, sparse_coef=False, is_enough=False, patience=1.0):
        self.patience = patience
        self.optimizer, self.run_epoch, self.max_iter, self.is_enough = optimizer, run_epoch, max_iter, is_enough
        self.columns, self.sparse_coef, self._final = columns, sparse_coef, None

    @property
    def has_started(self):
        return self.optimizer.n_steps > 0

    @property
    def unconverged(self):
        return self.optimizer.unconverged

    def run(self, on_iteration):
        name, message = self.optimizer.name, ""
        for _ in range(self.max_iter):
            if on_iteration(self.run_epoch() + self.optimizer.penalty()):
                break
        else:
            if not self.is_enough:
                message = f"{name} was still improving after max_iter={self.max_iter} epochs; raise max_iter or tol"
        if self.columns is not None:
            # No training continues in merged columns. The samples and the optimiser's state are freed before the
            # weights of all columns are made.
            self.run_epoch = self.columns.rows = self.columns.begins = None
            self._final = self.optimizer.model()
            self.optimizer.store = None
        return message

    def model(self):
        return self.optimizer.model() if self._final is None else self._final

    def restart(self, alpha):
        self.optimizer.restart(alpha)

    def expand(self, model):
        return model if self.columns is None else self.columns.inverse_transform(model, sparse_coef=self.sparse_coef)


def weigh_by_visits(task):
    """Replace weights of samples by numbers of visits, and weights of a visit that do not exceed 1.

    So a weight of 2 is equivalent to the same sample twice, which a step of twice the length is not.
    """
    # Rounding must not add a visit.
    visits = np.ceil(task.weights - 1e-9)
    task.visits = np.clip(visits, task.weights > 0.0, _MAX_VISITS).astype(np.int64)
    task.weights = task.weights / np.maximum(task.visits, 1)


def learn_online(estimator, task, X, model, max_iter, rng):
    """Return the learner of AdaGrad or MIRA over all samples, starting from `model`."""
    columns = find_duplicates(X.values, model.coef) if task.sequential else None
    is_sparse = sparse.issparse(model.coef)
    if columns is not None:
        shape = len(columns.multiplicity), task.n_outputs
        large = is_sparse and np.prod(shape) > max_dense(task.n_outputs, _MAX_DENSE)
        narrow = LinearModel.zeros(*shape, 0, sparse_coef=large, dtype=model.dtype)
        model = LinearModel(narrow.coef, model.intercept, model.additional)
    optimizer = new_optimizer(estimator, model, columns, task.sequential)
    epoch = make_epoch(estimator, optimizer, task, X, rng)
    return OnlineLearner(optimizer, epoch, max_iter, columns, is_sparse, patience=task.length_factor)


def make_epoch(estimator, optimizer, task, X, rng, remember=True):
    """Return a function that visits all samples once, and returns their mean loss.

    Inference ends at a duality gap relative to the mean loss of the previous visit or, in the first visit, of the
    previous part.
    """
    epoch = task.epochs(optimizer, X, remember)
    visits = 1 if task.visits is None else task.visits
    order = np.repeat(np.arange(len(X)), visits)
    total_weight = task.weights[order].sum()
    is_rough = task.sequential and task.form.quadratic
    cuts = _first_cuts(len(order), optimizer) if is_rough else []

    def run_epoch():
        if estimator.shuffle:
            rng.shuffle(order)
        total = 0.0
        for part in np.split(order, cuts):
            loss = epoch(part)
            total += loss
            if is_rough and (weight := task.weights[part].sum()) > 0.0:
                optimizer.accept_gap(max(_ROUGH * loss / weight / task.form.temperature, ONLINE_TOL))
        cuts.clear()
        return total / total_weight

    return run_epoch


def _first_cuts(n_samples, optimizer):
    """Return the ends of the parts of the first visit, which are multiples of the size of a mini-batch."""
    size = optimizer.batch_size
    return sorted({size, *(size * round(fraction * n_samples / size) for fraction in _FIRST_PARTS)})


def partial_fit_minibatch(estimator, optimizer, task, X, keep=False):
    """Visit the samples of a mini-batch once, in their order; return their mean loss.

    If training is interrupted, completed steps are kept. With `keep`, the estimator's current state is kept even before
    the first step. A warning counts the samples whose inference did not converge.
    """
    before, n_inexact = optimizer.n_steps, optimizer.unconverged
    commit_if(estimator, lambda: keep or optimizer.n_steps > before)
    order = np.repeat(np.arange(len(X)), 1 if task.visits is None else task.visits)
    try:
        optimizer.follow(task, X)
        loss = task.epochs(optimizer, X, remember=False)(order)
    finally:
        estimator._learned = estimator._learned.after_training()
    check_finite_loss(loss, estimator._step_size)
    estimator.n_iter_ += 1
    warn_of_inference(optimizer.unconverged - n_inexact)
    return float(loss / max(task.weights[order].sum(), np.finfo(float).tiny))


def new_optimizer(estimator, model, columns=None, sequential=True):
    """Make the online optimiser for an estimator's parameters; `sequential` tasks are learned sample by sample."""
    optimizer_class = _optimizer_class(estimator, sequential)
    return _configured(estimator, optimizer_class(model, average=estimator.average, columns=columns))


def _optimizer_class(estimator, sequential=True):
    if not sequential or estimator._structure.uses_graphs:
        if estimator.solver == "mira":
            raise ValueError("solver='mira' is not for factor graphs; use 'adagrad'")
        return LinearMinibatchOptimizer
    return MiraOptimizer if estimator.solver == "mira" else OnlineOptimizer


def adjust_optimizer(estimator, optimizer):
    """Apply an estimator's parameters, which may have changed, to an existing optimiser; return it."""
    optimizer.set_average(estimator.average)
    if type(optimizer) is not _optimizer_class(estimator):
        raise ValueError("solver cannot change to or from 'mira' between calls of partial_fit; fit a clone")
    return _configured(estimator, optimizer)


def _configured(estimator, optimizer):
    if isinstance(optimizer, MiraOptimizer):
        optimizer.configure(
            C=np.inf if estimator.eta0 is None else estimator.eta0, fit_intercept=estimator.fit_intercept
        )
    else:
        eta0 = _ADAGRAD_STEP if estimator.eta0 is None else estimator.eta0
        optimizer.configure(
            alpha=getattr(estimator, "alpha_", estimator.alpha), eta0=eta0, tol=ONLINE_TOL,
            fit_intercept=estimator.fit_intercept, batch_size=estimator.batch_size, n_jobs=estimator.n_jobs,
        )  # fmt: skip
    return optimizer
