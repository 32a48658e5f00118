"""Online training of an estimator: its optimiser, and passes over all samples or over a mini-batch."""

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split

from .._core.validation import pair_of
from ..training._columns import columns_of
from ..training._data import LinearModel
from ..training._minibatch import LinearMinibatchOptimizer
from ..training._online.optimizer import MiraOptimizer, OnlineOptimizer
from ._failures import check_finite_loss, keep_if, warn_of_inference
from ._learners import ONLINE_TOL, Epochs

# Duality gap of inference in training, as a fraction of the mean loss of the previous samples. Larger values save time
# for chains with many labels. Up to 0.1, held-out scores for chunks, entities, letters and trees differ by less than
# those of two seeds.
_ROUGH = 0.03
# Ends of the second and third part of the first visit, as fractions of the samples. The first part is one mini-batch
# with exact inference. It is short because exact inference is slow for chains with many labels while scores are small.
_FIRST_PARTS = 0.01, 0.1
# AdaGrad's step size, if the estimator's `solver` does not give one.
_ADAGRAD_STEP = 0.1
# Maximum number of weights of merged columns that an online optimiser stores in a dense array.
_MOST_DENSE = 2**22


def held_out_fraction(estimator):
    """Return the fraction of the samples that early stopping holds out; 0.0 without early stopping."""
    stops = estimator.early_stopping
    return estimator.validation_fraction * stops if isinstance(stops, bool | np.bool_) else float(stops)


def hold_out(estimator, n_samples, rng, stratify=None):
    """Return the indices of the samples to learn from, and of those that early stopping holds out."""
    return train_test_split(
        np.arange(n_samples),
        test_size=held_out_fraction(estimator),
        random_state=rng.randint(2**31 - 1),
        stratify=stratify,
    )


def relative(weights):
    """Return sample weights scaled to mean 1, because the objective is a mean over the samples."""
    weights = weights / weights.max()
    return weights / weights.mean()


def learn_online(estimator, task, X, model, max_iter, rng):
    """Return the learner of AdaGrad or MIRA over all samples, starting from `model`."""
    columns, is_sparse = columns_of(X.values, model.coef) if task.sequential else None, sparse.issparse(model.coef)
    if columns is not None:
        shape = len(columns.multiplicity), task.n_outputs
        large = is_sparse and np.prod(shape) > _MOST_DENSE
        narrow = LinearModel.zeros(*shape, 0, sparse_coef=large, dtype=model.dtype)
        model = LinearModel(narrow.coef, model.intercept, model.additional)
    optimizer = new_optimizer(estimator, model, columns, task.sequential)
    return Epochs(optimizer, visits(estimator, optimizer, task, X, rng), max_iter, columns, is_sparse)


def visits(estimator, optimizer, task, X, rng, remember=True):
    """Return a function that visits all samples once, and returns their mean loss.

    Inference ends at a duality gap relative to the mean loss of the previous visit or, in the first visit, of the
    previous part.
    """
    epoch, order, total_weight = task.epochs(optimizer, X, remember), np.arange(len(X)), task.weights.sum()
    is_rough = task.sequential and task.form.quadratic
    cuts = _first_cuts(len(X), optimizer) if is_rough else []

    def visit():
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

    return visit


def _first_cuts(n_samples, optimizer):
    """Return the ends of the parts of the first visit, which are multiples of the size of a mini-batch."""
    size = optimizer.batch_size
    return sorted({size, *(size * round(fraction * n_samples / size) for fraction in _FIRST_PARTS)})


def learn_batch(estimator, optimizer, task, X, keep=False):
    """Visit the samples of a mini-batch once, in their order; return their mean loss.

    If training is interrupted, completed steps are kept. With `keep`, the estimator's current state is kept even before
    the first step. A warning counts the samples whose inference did not converge.
    """
    before, n_inexact = optimizer.n_steps, optimizer.unconverged
    keep_if(estimator, lambda: keep or optimizer.n_steps > before)
    loss = task.epochs(optimizer, X, remember=False)(np.arange(len(X)))
    check_finite_loss(loss, estimator._step_size)
    estimator.n_iter_ += 1
    warn_of_inference(optimizer.unconverged - n_inexact)
    return float(loss / max(task.weights.sum(), np.finfo(float).tiny))


def new_optimizer(estimator, model, columns=None, sequential=True):
    """Make the online optimiser for an estimator's parameters; `sequential` tasks are learned sample by sample."""
    kind = _kind(estimator, sequential)
    return _configured(estimator, kind(model, average=estimator.average, columns=columns))


def _kind(estimator, sequential=True):
    if not sequential or estimator._structure.uses_graphs:
        if estimator._solver == "mira":
            raise ValueError("solver='mira' is not for factor graphs; use 'adagrad'")
        return LinearMinibatchOptimizer
    return MiraOptimizer if estimator._solver == "mira" else OnlineOptimizer


def adjust_optimizer(estimator, optimizer):
    """Apply an estimator's parameters, which may have changed, to an existing optimiser; return it."""
    if optimizer.average != estimator.average:
        raise ValueError("average cannot change between calls of partial_fit; fit a clone")
    if type(optimizer) is not _kind(estimator):
        raise ValueError("solver cannot change to or from 'mira' between calls of partial_fit; fit a clone")
    return _configured(estimator, optimizer)


def _configured(estimator, optimizer):
    if isinstance(optimizer, MiraOptimizer):
        _, largest = pair_of(estimator.solver, np.inf)
        optimizer.configure(C=largest, fit_intercept=estimator.fit_intercept)
    else:
        _, step = pair_of(estimator.solver, _ADAGRAD_STEP)
        optimizer.configure(
            alpha=estimator.alpha, eta0=step, tol=ONLINE_TOL, fit_intercept=estimator.fit_intercept,
            batch_size=estimator.batch_size, n_jobs=estimator.n_jobs,
        )  # fmt: skip
    return optimizer
