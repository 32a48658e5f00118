"""Learners, which train a model step by step under a monitor: L-BFGS over all samples, and epochs of online training.

The initial weights, held-out samples and online optimisers of estimators are also here. An `estimator` here has the
parameters `solver`, `alpha`, `batch_size`, `shuffle`, `average`, `fit_intercept` and `n_jobs`, for `hold_out` also
`early_stopping` and `validation_fraction`, and the attributes `_structure` and `_step_size`, the name of its step size
in messages. If it has `alpha_`, this is the strength of the penalty. `weights_of_last_fit` is for
`LinearStructuredModel`.

Used by `distributed`, `estimators/_multilabel` and `estimators/_structured`.
"""

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split

from .._core.ragged import RaggedArray
from .._training._columns import find_duplicates, find_scaled_duplicates
from .._training._minibatch import LinearMinibatchOptimizer
from .._training._objective import BatchObjective
from .._training._online.optimizer import MiraOptimizer, OnlineOptimizer
from .._training._quasi_newton.descent import minimize_lbfgs
from .._training.score_models import LinearModel
from ..losses import LOSSES
from ._failures import check_finite_loss, commit_if, warn_of_inference

# Smallest duality gap at which inference in online training ends: the largest error of a loss.
ONLINE_TOL = 1e-8
# Epochs of AdaGrad before L-BFGS, and their step size.
_WARM_UP_EPOCHS, _WARM_UP_STEP = 3, 0.1
# Duality gap of inference at kinks, as a fraction of the tolerance of L-BFGS.
_ACCURACY = 1e-4
# Maximum number of linearisations of the loss of samples with unknown labels.
_MAX_ROUNDS = 10
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
# Number of rows whose squares are computed at once.
_ROWS = 2**17
# Maximum number of dense weights (512 MiB for each array). Beyond it, only updated weights are stored, if they are few.
# Dense weights are a third faster to update, and several times faster in prediction.
_MAX_DENSE_WEIGHTS = 2**24
# Number of outputs from which on stored pairs are as fast as dense weights, because few outputs of a feature ever get a
# weight (4 % of 145 labels in a tagger of morphology), and the maximum number of dense weights then.
_MANY_OUTPUTS, _MAX_DENSE_OF_MANY = 100, 2**20


class Learner:
    """Training of a model in steps. A subclass has `run`, `model` and `has_started`.

    Attributes
    ----------
    has_started : bool
        Whether there is a model to keep if training ends now.
    unconverged : int
        Number of samples whose inference did not converge.
    columns : DuplicateColumns or None
        The merged columns of its models, if any.
    patience : float
        Number of steps that count as one for the rule by which the monitor stops.
    step_name : str
        Name of a step in progress messages.
    """

    columns, unconverged, patience = None, 0, 1.0
    step_name = "iteration"

    def run(self, on_iteration):
        """Take all steps. After each, call `on_iteration` with the loss, and stop if it returns True.

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

    def narrow(self, X):
        """Return features in the columns of the learner's models."""
        if self.columns is None:
            return X
        return RaggedArray(self.columns.transform(X.values), X.indptr, shapes=X.shapes)

    def restart(self, alpha):
        """Begin again from the current model, with another strength of the penalty."""
        raise NotImplementedError

    def keep(self, monitor):
        """Store the progress in the estimator if training is interrupted."""
        monitor.store()


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
        if task is None:
            task, max_iter = self.task, self.max_iter
            if task.sequential and task.has_kinks and not self._model.additional.any():
                self._warm_up()
        X, merged = self.X.values, None
        # Without a penalty, the weights of equal columns need not be equal.
        if self.alpha > 0.0 and sparse.issparse(X):
            merged = find_scaled_duplicates(X, task.n_outputs)
        if merged is not None:
            X = merged.X
        objective = BatchObjective(
            task, X, self._model, alpha=self.alpha, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs
        )

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
        )
        self._model, self._merged, self.unconverged = model, merged, objective.unconverged
        if not self.losses or not np.isfinite(loss):
            # The start was optimal, or training diverged.
            after_iteration(model, loss)
        if message:
            message = f"L-BFGS did not converge ({message}); raise max_iter, raise alpha or scale the features"
        return message

    def _warm_up(self):
        """Run a few epochs of AdaGrad, with fixed parameters.

        At zero weights all structures tie. There the loss has its sharpest kink, at which the negative gradient need
        not be a descent direction, and solutions near it have the largest supports. A few epochs leave this region at
        little cost.
        """
        optimizer = OnlineOptimizer(self._model, average=True)
        optimizer.configure(alpha=self.alpha, eta0=_WARM_UP_STEP, tol=ONLINE_TOL, fit_intercept=self.fit_intercept)
        epoch = self.task.epochs(optimizer, self.X, remember=False)
        for _ in range(_WARM_UP_EPOCHS):
            epoch(np.arange(len(self.X)))
        self._model = optimizer.model()


class PartialLBFGSLearner(LBFGSLearner):
    """L-BFGS on samples with unknown labels, a `PartialTask`.

    A smooth loss is minimised once. Otherwise, convex upper bounds of the loss are minimised after that, one after the
    other.
    """

    def run(self, on_iteration):
        message = super().run(on_iteration)
        if LOSSES[self.task.loss].argmax == "gibbs":
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


def zero_weights(task, X, solver):
    """Return a zero model, with sparse `coef` if there are many weights and most of them will stay zero.

    Most stay zero if a step changes only the weights of the features of its sample, for few outputs.
    """
    n_features, n_outputs = X.shape[1], task.n_outputs
    is_large = n_features * n_outputs > _max_dense(n_outputs, _MAX_DENSE_WEIGHTS)
    few_move = sparse.issparse(X) and LOSSES[task.loss].argmax != "gibbs"
    sparse_coef = is_large and few_move and task.sequential and solver != "lbfgs"
    return LinearModel.zeros(n_features, n_outputs, task.n_additional, sparse_coef=sparse_coef, dtype=X.dtype)


def _max_dense(n_outputs, usual):
    """Return the maximum number of weights in a dense array, given the maximum for few outputs."""
    return min(usual, _MAX_DENSE_OF_MANY) if n_outputs >= _MANY_OUTPUTS else usual


def weights_of_last_fit(estimator, structure, task, X, classes):
    """Return a copy of the model of the last fit, for `warm_start`.

    Parameters
    ----------
    estimator : LinearStructuredModel
        A fitted estimator.
    structure : Structure or GraphBuilder
    task : Task
    X : array or CSR of shape (n_rows, n_features)
        Features. Weights have the same type.
    classes : array or None

    Raises
    ------
    ValueError
        If the model has different features, labels or factors, or weights that are not finite.
    """
    estimator._check_same_structure(structure)
    model = check_finite_weights(estimator._current).astype(X.dtype).copy()
    now = X.shape[1], None if classes is None else classes.tolist(), task.additional_shapes
    known = estimator.classes_.tolist() if structure.labelled else None
    if now != (model.coef.shape[0], known, estimator._structure.learned_shapes(task.n_outputs)):
        raise ValueError(
            f"warm_start=True needs the features and labels of the last fit, and graphs its factors: it had "
            f"{model.coef.shape[0]} features and labels {known}; now there are {now[0]} and {now[1]}"
        )
    estimator._check_whole()
    estimator._check_task(task)
    return model


def check_finite_weights(model):
    """Return a model from which training can continue; raise ValueError if its weights are not finite."""
    if np.isfinite(model.additional).all() and np.isfinite(model.intercept).all():
        return model
    raise ValueError(
        "the model's weights are not all finite, for example because transitions_ was edited to -inf; make them finite "
        "before training continues"
    )


def held_out_fraction(estimator):
    """Return the fraction of the samples that early stopping holds out; 0.0 without early stopping."""
    stops = estimator.early_stopping
    return estimator.validation_fraction * stops if isinstance(stops, bool | np.bool_) else float(stops)


def check_validation(estimator, X_val, y_val):
    """Raise ValueError if only one of the arguments X_val and y_val of `fit` is given, or samples are held out, too."""
    for given, name, other in ((X_val, "X_val", "y_val"), (y_val, "y_val", "X_val")):
        if given is None:
            raise ValueError(f"{other} is given, but {name} is not; pass both, or neither")
    stops = estimator.early_stopping
    if not isinstance(stops, bool | np.bool_):
        raise ValueError(
            f"early_stopping={stops!r} holds out a fraction of the samples, but X_val and y_val are given; set "
            "early_stopping=True, or leave X_val and y_val out"
        )


def hold_out(estimator, n_samples, rng, stratify=None):
    """Return the indices of the samples to learn from, and of those that early stopping holds out."""
    return train_test_split(
        np.arange(n_samples),
        test_size=held_out_fraction(estimator),
        random_state=rng.randint(2**31 - 1),
        stratify=stratify,
    )


def total_variance(X, weights):
    """Return the sum of the variances of the columns of a dense or CSR matrix; 1 if it is zero or there are no rows.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    weights : array of shape (n_rows,)
        Equivalent to repetitions of rows.
    """
    n_rows = X.shape[0]
    total = weights.sum()
    squares = 0.0
    is_sparse = sparse.issparse(X)
    if is_sparse and not X.has_canonical_format:
        # It may be the user's matrix.
        X = X.copy()
        X.sum_duplicates()
    if is_sparse and X.shape[1] > _MAX_DENSE_WEIGHTS:
        # Most columns have no entry. The mean of each column would take more memory than the samples.
        used, indices = np.unique(X.indices, return_inverse=True)
        X = sparse.csr_array((X.data, indices, X.indptr), shape=(n_rows, len(used)))
    for start in range(0, n_rows, _ROWS):
        stop = min(start + _ROWS, n_rows)
        own = weights[start:stop]
        if is_sparse:
            ends = X.indptr[start : stop + 1]
            squares += np.repeat(own, np.diff(ends)) @ np.square(X.data[ends[0] : ends[-1]])
        else:
            squares += np.sum(own @ np.square(X[start:stop]))
    if not total:
        return 1.0
    mean = weights @ X / total
    variance = float(squares / total - mean @ mean)
    return variance if variance > 0.0 else 1.0


def rows_per_column(X, weights):
    """Return the number of rows of a dense or CSR matrix for each column that is not zero.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    weights : array of shape (n_rows,)
        Equivalent to repetitions of rows.
    """
    counts = weights > 0.0
    if sparse.issparse(X):
        is_used = np.zeros(X.shape[1], dtype=bool)
        is_used[X.indices[np.repeat(counts, np.diff(X.indptr)) & (X.data != 0.0)]] = True
    else:
        is_used = np.any(X, axis=0, where=counts[:, None])
    return float(weights.sum() / max(is_used.sum(), 1))


def relative(weights):
    """Return sample weights scaled to mean 1, because the objective is a mean over the samples."""
    weights = weights / weights.max()
    return weights / weights.mean()


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
        large = is_sparse and np.prod(shape) > _max_dense(task.n_outputs, _MAX_DENSE)
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
