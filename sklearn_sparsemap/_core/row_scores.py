"""Scores of rows by classifiers and regressors of scikit-learn's kind.

A row has some of the labels, or exactly one of them. Gold is an array of shape (n_rows, n_labels) with 1 for the labels
of a row, 0 for the others, and NaN if unknown. Regressors learn other numbers, too.

Used by `estimators` and `features`.
"""

from contextlib import contextmanager

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import has_fit_parameter

from .validation import first_of

# Probabilities are mapped linearly to the range from this to 1 minus this, which keeps their order. Forests predict 0
# and 1, whose log-odds are infinite. On letters, values from 1e-4 to 1e-2 make no difference beyond that of two seeds.
SMALLEST = 1e-3
# Estimators that have the parameter `n_jobs`, but ignore it, with a warning.
_IGNORE_THREADS = (LogisticRegression,)
# Score of a label that is always absent, or always present, in training.
_RARE = np.log(SMALLEST)


class RowScores:
    """Fitted estimators that compute the scores of rows.

    Attributes
    ----------
    members : list of (estimator, int array)
        Fitted estimators with the outputs that each of them scores.
    constants : array of shape (n_outputs,)
        The scores of outputs that no estimator scores.
    single : bool
        Whether each row has exactly one of the labels. Scores are then log-probabilities, else log-odds, of
        probabilities that are bounded by `SMALLEST`. They are the values of `decision_function` if there are no
        probabilities, and the predictions of a regressor.
    """

    def __init__(self, members, constants, single):
        self.members, self.constants, self.single = members, constants, single

    def scores(self, X):
        """Return the scores of rows: array of shape (n_rows, n_outputs)."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        found = np.tile(self.constants, (n_rows, 1))
        if not n_rows:
            return found
        for estimator, outputs in self.members:
            with _failed_on_rows(estimator):
                own = _response(estimator, X, len(outputs), self.single)
            found[:, outputs] = own
            if self.single and len(outputs) < found.shape[1]:
                # A label that was never seen is as unlikely as the least likely one.
                unseen = np.setdiff1d(np.arange(found.shape[1]), outputs)
                found[:, unseen] = np.minimum(found[:, unseen], own.min(axis=1)[:, None])
        return found


def _response(estimator, X, n_outputs, single):
    """Return the scores of some rows for the outputs of one estimator: array of shape (n_rows, n_outputs)."""
    if hasattr(estimator, "predict_proba"):
        found = estimator.predict_proba(X)
        if isinstance(found, list):
            # One array of two columns for each label.
            found = np.column_stack([_positive(own) for own in found])
        elif not single and n_outputs == 1:
            found = _positive(found)[:, None]
        found = SMALLEST + (1.0 - 2.0 * SMALLEST) * np.asarray(found, np.float64)
        scores = np.log(found) if single else np.log(found) - np.log1p(-found)
    else:
        answer = estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict
        scores = np.asarray(answer(X), np.float64)
        if scores.ndim == 1:
            scores = scores[:, None] * ([-0.5, 0.5] if single and n_outputs == 2 else [1.0])
    if scores.ndim != 2 or scores.shape[1] != n_outputs:
        raise ValueError(f"it gives scores of shape {scores.shape} for {n_outputs} labels")
    if not np.isfinite(scores).all():
        raise ValueError("its scores are not all finite")
    return scores


def _answers_for(estimator, X, n_outputs):
    """Tell whether an estimator that was fitted to several labels gives scores of all of them."""
    try:
        _response(estimator, X, n_outputs, False)
    except (TypeError, ValueError):
        return False
    return True


def _positive(probabilities):
    """Return the probability of the class 1, given those of the classes 0 and 1."""
    probabilities = np.asarray(probabilities)
    if probabilities.ndim != 2 or probabilities.shape[1] != 2:
        raise ValueError(f"it gives probabilities of shape {probabilities.shape} for a label that is there or not")
    return probabilities[:, 1]


class RowEstimator:
    """The fits of an estimator to the labels of rows.

    Parameters
    ----------
    estimator : estimator
        A classifier, a regressor, or one that was fitted before, in a `FrozenEstimator`.
    labels : array of shape (n_outputs,)
        Names of the labels, for weights of classes and for the classes of a fitted estimator.
    single : bool
        Whether each row has exactly one of the labels.
    rng : RandomState or None
        Gives a seed to each clone that has the parameter `random_state`, unless it is set. With None, none is set.
    n_jobs : int, default=None
        Value of the parameter `n_jobs` of clones that have it, unless it is set.

    Attributes
    ----------
    is_frozen : bool
        Whether the estimator was fitted before.
    takes_weights : bool
        Whether the estimator can learn from weights of rows.
    """

    def __init__(self, estimator, labels, single, rng, n_jobs=None):
        self.estimator, self.labels, self.single, self.rng, self.n_jobs = estimator, labels, single, rng, n_jobs
        self.is_frozen = isinstance(estimator, FrozenEstimator)
        self._weights = _name_of_weights(estimator)
        self.takes_weights = self._weights is not None
        self._predicts_numbers = is_regressor(estimator)
        if not any(hasattr(estimator, name) for name in ("predict_proba", "decision_function")):
            # A class without these methods that is no classifier may predict numbers.
            self._predicts_numbers = True
            if not hasattr(estimator, "predict") or getattr(estimator, "_estimator_type", None) == "classifier":
                raise ValueError(f"{estimator!r} has neither predict_proba nor decision_function, so it has no scores")
        # A regressor learns the indicators of labels, also if each row has exactly one label.
        self._one_of = single and not self._predicts_numbers

    def fit(self, X, gold, weights):
        """Fit clones to rows; return the `RowScores`.

        Parameters
        ----------
        X : array, CSR, data frame or list of rows
        gold : array of shape (n_rows, n_outputs)
        weights : array of shape (n_rows,)
            Rows of weight zero are left out. Others are weighted if the estimator takes weights.
        """
        if self.is_frozen:
            return self._fitted_before()
        if not self._predicts_numbers and (gold > 1.0).any():
            raise ValueError(
                f"{type(self.estimator).__name__} learns whether a part is in a structure, but these structures have "
                "parts several times, as rankings do; pass a regressor"
            )
        return self._fit_labels(X, gold, weights) if self._one_of else self._fit_indicators(X, gold, weights)

    def _fit_labels(self, X, gold, weights):
        """Fit one clone to the codes of the labels that occur, one for each row."""
        rows = np.flatnonzero((weights > 0.0) & ~np.isnan(gold).any(axis=1))
        codes = gold[rows].argmax(axis=1)
        outputs = np.unique(codes)
        constants = np.full(gold.shape[1], _RARE)
        if len(outputs) < 2:
            constants[outputs] = 0.0
            return RowScores([], constants, True)
        fitted = self._fit_one(X, rows, np.searchsorted(outputs, codes), weights, self.labels[outputs])
        return RowScores([(fitted, outputs)], constants, True)

    def _fit_indicators(self, X, gold, weights):
        """Fit one clone to the indicators of the labels that vary, if it takes several, else one for each."""
        known = ~np.isnan(gold) & (weights > 0.0)[:, None]
        lowest = np.where(known, gold, np.inf).min(axis=0)
        highest = np.where(known, gold, -np.inf).max(axis=0)
        outputs = np.flatnonzero(lowest < highest)
        kind = float if self._predicts_numbers else int
        constants = np.where(known.any(axis=0), highest, 0.0)
        if not self._predicts_numbers:
            constants = np.where(constants > 0.0, -_RARE, _RARE)
        rows = np.flatnonzero(known.any(axis=1))
        if len(outputs) > 1 and known[rows].all() and _takes_several(self.estimator, self._predicts_numbers):
            fitted = self._fit_one(X, rows, gold[np.ix_(rows, outputs)].astype(kind), weights)
            if _answers_for(fitted, _safe_indexing(X, rows[:2]), len(outputs)):
                return RowScores([(fitted, outputs)], constants, False)
        members = []
        for output in outputs.tolist():
            rows = np.flatnonzero(known[:, output])
            members.append((self._fit_one(X, rows, gold[rows, output].astype(kind), weights), np.array([output])))
        return RowScores(members, constants, False)

    def _fit_one(self, X, rows, target, weights, labels=None):
        """Fit a clone to some rows."""
        fitted = self._clone(labels)
        own = weights[rows]
        given = {}
        if self.takes_weights and own.min() < own.max():
            given[self._weights] = own
        if len(rows) < (X.shape[0] if hasattr(X, "shape") else len(X)):
            X = _safe_indexing(X, rows)
        with _failed_on_rows(self.estimator):
            return fitted.fit(X, target, **given)

    def _clone(self, labels):
        """Return a clone with a seed and a number of threads, and weights of classes for the codes of labels."""
        found = clone(self.estimator, safe=False)
        if not hasattr(found, "get_params"):
            return found
        changed = {}
        values = found.get_params()
        for name, value in sorted(values.items()):
            owner, _, parameter = name.rpartition("__")
            if parameter == "random_state" and value is None and self.rng is not None:
                changed[name] = int(self.rng.randint(2**31 - 1))
            elif parameter == "n_jobs" and value is None and self.n_jobs is not None:
                if not isinstance(values.get(owner, found), _IGNORE_THREADS):
                    changed[name] = self.n_jobs
            elif parameter == "class_weight" and isinstance(value, dict) and labels is not None:
                changed[name] = {k: value[label] for k, label in enumerate(labels.tolist()) if label in value}
        return found.set_params(**changed) if changed else found

    def _fitted_before(self):
        """Return the scores of an estimator that was fitted before, whose classes must be the labels."""
        n_outputs = len(self.labels)
        outputs = np.arange(n_outputs)
        classes = getattr(self.estimator, "classes_", None)
        if self._one_of and classes is not None:
            position = {label: i for i, label in enumerate(self.labels.tolist())}
            names = np.asarray(classes).tolist()
            differing = sorted(map(repr, set(names) ^ set(position)))
            if differing:
                raise ValueError(
                    f"the fitted {type(self.estimator.estimator).__name__} must have the labels of y as its classes; "
                    f"only one of the two has {first_of(differing)}; fit it on the same labels"
                )
            outputs = np.array([position[name] for name in names])
        elif n_outputs == 1 and classes is not None and list(classes) not in ([0, 1], [-1, 1]):
            raise ValueError(
                f"the fitted {type(self.estimator.estimator).__name__} must have the classes 0 and 1, for parts "
                f"outside and inside the structure; it has {np.asarray(classes).tolist()}"
            )
        return RowScores([(self.estimator, outputs)], np.zeros(n_outputs), self._one_of)


def out_of_fold_scores(estimator, X, gold, weights, folds, on_fold=None):
    """Return the scores of all rows by fits to the rows of the other folds: array of shape (n_rows, n_outputs).

    Parameters
    ----------
    estimator : RowEstimator
    X, gold, weights
        As in `RowEstimator.fit`.
    folds : list of (train, held)
        Indices of rows.
    on_fold : callable, default=None
        Called with the number of each fold before its fit.
    """
    scores = np.empty(gold.shape)
    for k, (train, held) in enumerate(folds):
        if on_fold is not None:
            on_fold(k + 1)
        fitted = estimator.fit(_safe_indexing(X, train), gold[train], weights[train])
        scores[held] = fitted.scores(_safe_indexing(X, held))
    return scores


def _takes_several(estimator, predicts_numbers):
    """Tell whether an estimator says that it takes an indicator matrix."""
    try:
        tags = get_tags(estimator)
    except (AttributeError, TypeError):
        return False
    if predicts_numbers:
        return bool(tags.target_tags.multi_output)
    return tags.classifier_tags is not None and bool(tags.classifier_tags.multi_label)


def _name_of_weights(estimator):
    """Return the argument of `fit` that takes weights of rows; None if there is none."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    steps = getattr(estimator, "steps", None)
    if steps and has_fit_parameter(steps[-1][1], "sample_weight"):
        return f"{steps[-1][0]}__sample_weight"
    return None


@contextmanager
def _failed_on_rows(estimator):
    """Name the estimator in an error that it raises for rows."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError | Warning):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{type(estimator).__name__} fails on the rows of X: {error}") from error
