"""What the linear structured estimators share: checking data, scoring parts, and predicting."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._jit import readonly
from ..._ragged import RaggedArray
from ..._validation import (
    check_magnitude,
    check_numbers,
    check_parameters,
    check_positive,
    check_same_length,
    check_sample_weight,
    check_samples,
    check_scores,
)
from ...inference import sparsemap
from ...inference._batch import decode_problems, map_problems, marginal_problems, sparsemap_problems
from ...losses import LOSSES
from ...solvers._polytope.batch import GAP, OBJECTIVE, Problems
from ...structures import DependencyTree, LinearChain, Matching, Simplex, Structure
from ...training._data import linear_problems, make_rows
from ...training._online.scores import sparse_scores
from .._fitting import warn_of_convergence
from .graphs_of import GraphsOf
from .labels import check_target, encode_labels, flatten_labels, sorted_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# What to do about several labels a sample.
_SEVERAL_LABELS = (
    "for sets of labels use MultilabelLPSparseMAP with an indicator matrix, as "
    "sklearn.preprocessing.MultiLabelBinarizer makes it; for sequences name a structure, such as 'chain'"
)
# A larger duality gap than this, relative to 1 + the objective, is reported at prediction.
_INEXACT = 1e-8
_STRUCTURES = {"auto": Simplex, "chain": LinearChain, "tree": DependencyTree, "matching": Matching}


def resolve_structure(structure):
    """Return the Structure, or `GraphsOf`, that the parameter `structure` means."""
    if isinstance(structure, Structure):
        return structure
    if isinstance(structure, str) and structure in _STRUCTURES:
        return _STRUCTURES[structure]()
    if callable(structure) and not isinstance(structure, type):
        return GraphsOf(structure)
    raise ValueError(
        f"structure={structure!r} is not one of {', '.join(map(repr, _STRUCTURES))}, a Structure, such as Matching(), "
        "or a function from a sample to a FactorGraph"
    )


def is_flat(structure):
    """Tell whether a sample is a single row with a single label."""
    return structure.labelled and structure.score_ndim == 1


def _has_proba(estimator):
    if estimator._is_structured():
        raise AttributeError("predict_proba is for multiclass problems; use predict_marginals for structures")
    return True


class LinearStructuredClassifier(ClassifierMixin, BaseEstimator):
    """Base of the estimators whose part scores are linear in the features.

    A subclass has the parameters `structure`, `loss`, `temperature`, `class_weight` and `n_jobs`. It sets `_structure`
    (what it was fitted with; the parameter may change later), `classes_` for structures made of labels, and `_model` (a
    `LinearModel`), or `_optimizer` with a method ``model()`` from which `_model` is made when it is needed.

    Inside, X is always a `RaggedArray`: flat data are structured data with one row a sample. The model has one output
    for each label, or a single one where structures are not made of labels. `codes` stands for y: an int array of
    places in `classes_` (flat data), a RaggedArray of them (structures made of labels), or an object array of
    structures as the user gave them.
    """

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Compute the scores of the parts, by which `predict` decides.

        For losses with SparseMAP's regulariser, and structures that differ in their number of parts, these are less by
        ``temperature / 2`` than what is linear in the features: what the loss takes off each part.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes; or 1-D object array
            For structures: for each sample an array in the shape of its scores, such as (n_steps, n_classes) for a
            chain, without the additional scores.
        """
        structure, X = self._check_predict(X)
        scores = self._linear_scores(X, self._current)
        if is_flat(structure):
            return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores
        tilt = self._tilt(structure, "map", self.temperature)
        if isinstance(structure, GraphsOf):
            return structure.decision(X, self._graph_shapes, scores[:, 0], tilt)
        _, _, shapes = linear_problems(structure, X, scores.shape[1])
        if tilt:
            scores += tilt
        return object_array(_in_shapes(scores.ravel(), shapes))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the labels, or structures, of highest score.

        Where structures differ in their number of parts, it is the best one under the objective of the loss: the
        regulariser of SparseMAP takes half the temperature off the score of each part, that of other losses nothing.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels; for structures a 1-D object array of them, label arrays where they are made of labels.
        """
        structure, X = self._check_predict(X)
        codes = self._predict_codes(structure, X, self._current)
        if is_flat(structure):
            return self.classes_[codes]
        if structure.labelled:
            return object_array(split_rows(self.classes_[codes], X.indptr))
        return codes

    def predict_marginals(self, X: Any) -> NDArray[Any]:
        """Compute the probability of each label, or part.

        These are SparseMAP marginals, zero for most parts; for the losses crf and margin_crf, they are the marginals of
        the Gibbs distribution. Where structures differ in their number of parts, the marginals go with what `predict`
        decides: those of an item that depends on no others are above one half if it is predicted.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        marginals : ndarray of shape (n_samples, n_classes), or 1-D object array of arrays in the shape of the scores
        """
        structure, X = self._check_predict(X)
        if isinstance(structure, GraphsOf):
            tilt = self._tilt(structure, "sparsemap")
            marginals, gaps, objectives = structure.marginals(
                X, self._current, self._graph_shapes, self.temperature, tilt, self.n_jobs
            )
            _check_converged(gaps, objectives)
            return marginals
        is_gibbs = LOSSES[self._loss].argmax == "gibbs"
        tilt = self._tilt(structure, "gibbs" if is_gibbs else "sparsemap")
        problems, shapes = self._problems(structure, X, self._current, self.temperature, tilt)
        if is_gibbs:
            marginals, _, _ = marginal_problems(structure.marginal_oracle, problems, n_jobs=self.n_jobs)
        else:
            marginals, statistics, _ = sparsemap_problems(structure, problems, n_jobs=self.n_jobs)
            _check_converged(statistics[:, GAP], statistics[:, OBJECTIVE])
        if is_flat(structure):
            return marginals.reshape(-1, len(self.classes_))
        return object_array(_in_shapes(marginals, shapes))

    def predict_structures(self, X: Any) -> list[list[tuple[Any, float]]]:
        """Find the few structures that SparseMAP selects for each sample, with their probabilities.

        That is so whatever the loss: after training with crf, `predict_marginals` speaks of another distribution.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        structures : list of lists of (structure, probability)
            Most probable first. A structure is as in `predict`.
        """
        structure, X = self._check_predict(X)
        if isinstance(structure, GraphsOf):
            raise ValueError(
                "predict_structures is for structures: LP-SparseMAP in a factor graph has marginals, but no "
                "distribution; use predict_marginals"
            )
        check_positive("temperature", self.temperature)
        scores = self._linear_scores(X, self._current).ravel() / self.temperature
        if tilt := self._tilt(structure, "sparsemap"):
            scores += tilt
        _, _, shapes = linear_problems(structure, X, len(self._current.intercept))
        additional = {name: s / self.temperature for name, s in self._additional(self._current).items()}
        results = sparsemap(structure, _in_shapes(scores, shapes), n_jobs=self.n_jobs, **additional)
        _check_converged(np.array([r.gap for r in results]), np.array([r.objective for r in results]))
        found = []
        for result in results:
            structures = [self.classes_[s] for s in result.structures] if structure.labelled else result.structures
            found.append(list(zip(structures, result.weights.tolist())))
        return found

    @available_if(_has_proba)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute the probabilities of the labels (multiclass): the sparsemax of the scores, or for crf their softmax.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self.predict_marginals(X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of single labels, or parts; for trees that is the unlabelled attachment score.

        Where structures differ in their number of parts, it is the F1 of the parts over all samples, as
        `sklearn_sparsemap.metrics.parts_f1_score` has it: who predicts nothing may be right about most parts.

        Parameters
        ----------
        X, y : as in `fit`
        sample_weight : array-like of shape (n_samples,), default=None
            A structured sample's weight counts for each of its labels or parts.

        Returns
        -------
        score : float
            In [0, 1].
        """
        structure, X = self._check_predict(X)
        if is_flat(structure):
            check_target(y, _SEVERAL_LABELS)
            y = column_or_1d(y)
        check_same_length(X, y)
        weights = check_sample_weight(sample_weight, len(X))
        if structure.labelled:
            labels = y.tolist() if is_flat(structure) else flatten_labels(y, X.lengths)
            predicted = self.classes_[self._predict_codes(structure, X, self._current)].tolist()
            right = np.fromiter((a == b for a, b in zip(labels, predicted)), np.float64, len(labels))
            return float(np.average(right, weights=np.repeat(weights, X.lengths)))
        return self._accuracy(structure, X, object_array(list(y)), self._current, weights)

    def _accuracy(self, structure, X, codes, model, weights):
        """Return the score: the share of labels or parts that are right, or their F1; samples have weights."""
        predicted = self._predict_codes(structure, X, model)
        if isinstance(structure, GraphsOf):
            pairs, fixed_size = structure.encode(X, self._graph_shapes, codes, predicted)
            right = [gold == found for gold, found in pairs]
            return _accuracy_of(right, weights) if fixed_size else _f1_of(pairs, weights)
        if structure.labelled:
            gold = codes if is_flat(structure) else codes.values
            return float(np.average(predicted == gold, weights=np.repeat(weights, X.lengths)))
        dims, _, _ = linear_problems(structure, X, len(model.intercept))
        compared = []
        for i, (gold, found) in enumerate(zip(codes, predicted)):
            try:
                if structure.fixed_size:
                    compared.append(structure.agreement(gold, found, dims[i]))
                else:
                    compared.append(tuple(structure.encode(s, dims[i])[0] for s in (gold, found)))
            except ValueError as error:
                raise ValueError(f"y[{i}]: {error}") from error
        if structure.fixed_size:
            return _accuracy_of(compared, weights)
        return _f1_of(compared, weights)

    # What is learned can be assigned, too. It is what training goes on from.

    @property
    def coef_(self) -> Any:
        coef = self._current.coef.T
        return sparse.csr_array(coef) if sparse.issparse(coef) else coef

    @coef_.setter
    def coef_(self, values: Any) -> None:
        known = self._current.coef
        if not sparse.issparse(known):
            self._edit(coef=np.ascontiguousarray(_check_weights("coef_", values, known.shape[::-1], finite=True).T))
            return
        coef = sparse.csr_array(values if sparse.issparse(values) else check_numbers(values, "coef_"), dtype=np.float64)
        if coef.shape != known.shape[::-1]:
            raise ValueError(f"coef_ must have shape {known.shape[::-1]}; got {coef.shape}")
        _check_weights("coef_", coef.data, coef.data.shape, finite=True)
        coef = coef.T.tocsr()
        coef.eliminate_zeros()
        self._edit(coef=coef)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        return self._current.intercept

    @intercept_.setter
    def intercept_(self, values: ArrayLike) -> None:
        self._edit(intercept=_check_weights("intercept_", values, self._current.intercept.shape))

    @property
    def transitions_(self) -> NDArray[np.float64]:
        return self._learned("transitions")

    @transitions_.setter
    def transitions_(self, values: ArrayLike) -> None:
        self._set_learned("transitions", values)

    @property
    def start_(self) -> NDArray[np.float64]:
        return self._learned("start")

    @start_.setter
    def start_(self, values: ArrayLike) -> None:
        self._set_learned("start", values)

    @property
    def end_(self) -> NDArray[np.float64]:
        return self._learned("end")

    @end_.setter
    def end_(self, values: ArrayLike) -> None:
        self._set_learned("end", values)

    def _set_learned(self, name, values):
        """Assign learned additional scores."""
        values = _check_weights(f"{name}_", values, self._learned(name).shape)
        self._edit(additional=self._current.additional.copy())
        self._learned(name)[...] = values

    def _edit(self, **arrays):
        """Replace arrays of the model; the optimiser, which does not know of that, goes."""
        model = copy(self._current)
        vars(model).update(arrays)
        self._model, self._optimizer = model, None

    @property
    def _current(self):
        """The model, brought up to date with the online optimiser."""
        if getattr(self, "_model", None) is None:
            if getattr(self, "_optimizer", None) is None:
                raise AttributeError(f"this {type(self).__name__} is not fitted yet")
            self._model = self._optimizer.model()
        return self._model

    @property
    def additional_scores_(self) -> dict[str, Any]:
        """The learned additional scores by name: dict of str -> ndarray."""
        return self._additional(self._current)

    def _learned(self, name):
        additional = self._additional(self._current)
        if name not in additional:
            raise AttributeError(f"{name}_ is not learned with {self._structure!r}")
        return additional[name]

    def _additional(self, model):
        """Return a model's additional scores by name, as views."""
        if isinstance(self._structure, GraphsOf):
            return self._structure.split_additional(model.additional, self._graph_shapes)
        split, start = {}, 0
        for name, shape in self._structure.learned_shapes(len(model.intercept)).items():
            stop = start + int(np.prod(shape))
            split[name] = model.additional[start:stop].reshape(shape)
            start = stop
        return split

    @staticmethod
    def _n_additional(structure, n_outputs):
        return sum(int(np.prod(shape)) for shape in structure.learned_shapes(n_outputs).values())

    def _check_X(self, structure, X):
        """Return the features of samples to predict as a RaggedArray of float64."""
        if is_flat(structure):
            X = _flat_rows(X)
            values = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
            X = RaggedArray(values, np.arange(values.shape[0] + 1))
        else:
            X = check_samples(X, self.n_features_in_, _n_axes(structure))
        check_magnitude(X)
        return X

    def _check_data(self, structure, X, y, reset, classes=None):
        """Check training data.

        Returns
        -------
        X : RaggedArray
        codes : int array, RaggedArray or object array
            See the class.
        classes : ndarray or None
            As given, or all labels in y; None where structures are not made of labels.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if is_flat(structure):
            X = _flat_rows(X)
            check_target(y, _SEVERAL_LABELS)
            values, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=reset, multi_output=False
            )
            check_classification_targets(y)
            X = RaggedArray(values, np.arange(values.shape[0] + 1))
            labels = y.tolist()
        else:
            if isinstance(X, np.ndarray) and X.dtype != object and X.ndim == 2:
                raise ValueError(
                    "X is one 2-D array, but this structure takes a list of them; for a single sample pass [X] and [y]"
                )
            if hasattr(X, "__len__") and hasattr(y, "__len__"):
                check_same_length(X, y)
            X = check_samples(X, None if reset else self.n_features_in_, _n_axes(structure))
            check_same_length(X, y)
            labels = flatten_labels(y, X.lengths) if structure.labelled else None
        check_magnitude(X)
        if not structure.labelled:
            codes = object_array(list(y))
        else:
            if classes is None:
                # np.unique keeps the type of an array of labels, which lists of Python objects would lose.
                classes = np.unique(y) if is_flat(structure) else sorted_labels(labels)
            codes = encode_labels(labels, classes, X.indptr)
            codes = codes if is_flat(structure) else RaggedArray(codes, X.indptr)
        self.n_features_in_ = X.values.shape[1]
        return X, codes, classes

    def _sample_weights(self, X, codes, classes, sample_weight):
        """Combine sample weights and class weights into one weight a sample."""
        weights = check_sample_weight(sample_weight, len(X))
        if self.class_weight is None:
            return weights
        if classes is None:
            raise ValueError("class_weight is for structures made of labels; leave it at None")
        flat = codes.values if isinstance(codes, RaggedArray) else codes
        if isinstance(self.class_weight, str):
            of_class = compute_class_weight("balanced", classes=np.arange(len(classes)), y=flat)
        else:
            labels = set(classes.tolist())
            unknown = [label for label in self.class_weight if label not in labels]
            # As in scikit-learn: a label that is absent from this y is fine, unless it looks like a slip.
            if unknown and not labels <= set(self.class_weight):
                raise ValueError(f"class_weight names the label {unknown[0]!r}, which is not in y")
            of_class = np.array([self.class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
            if not ((of_class >= 0) & (of_class < np.inf)).all():
                raise ValueError("class_weight must be finite and not negative")
        weights = weights * np.add.reduceat(of_class[flat], X.indptr[:-1]) / X.lengths
        if not weights.any():
            raise ValueError("class_weight and sample_weight leave no sample with a positive weight")
        return weights

    def _check_predict(self, X):
        check_is_fitted(self)
        check_parameters(self, ["n_jobs"])
        return self._structure, self._check_X(self._structure, X)

    def _linear_scores(self, X, model):
        if sparse.issparse(model.coef):
            return sparse_scores(make_rows(X.values), make_rows(model.coef), model.intercept, self.n_jobs)
        # Overflow, after someone edited the model, is for those to report who use the scores.
        with np.errstate(over="ignore", invalid="ignore"):
            scores = X.values @ model.coef
            scores += model.intercept
        return scores

    def _predict_codes(self, structure, X, model):
        """Return the prediction as `codes`."""
        if is_flat(structure):
            return self._linear_scores(X, model).argmax(axis=1)
        tilt = self._tilt(structure, "map", self.temperature)
        if isinstance(structure, GraphsOf):
            return structure.predict(X, model, self._graph_shapes, tilt, self.n_jobs)
        problems, _ = self._problems(structure, X, model, tilt=tilt)
        slots, slot_ptr, _ = map_problems(structure, problems, n_jobs=self.n_jobs)
        found = decode_problems(structure, problems, slots, slot_ptr)
        return np.concatenate(found) if structure.labelled else object_array(found)

    def _tilt(self, structure, argmax, temperature=1.0):
        """Return what to add to all scores, so that inference of any kind decides as the loss of the model does.

        SparseMAP's regulariser takes half the temperature off the score of each part of a structure; that of the other
        losses takes nothing off a structure, and is this one where half the temperature is added before. Where
        structures have the same number of parts all this changes nothing, and is left out.

        Parameters
        ----------
        structure : Structure or GraphsOf
        argmax : {"map", "sparsemap", "gibbs"}
            The kind of inference, as in `LOSSES`.
        temperature : float, default=1.0
            1.0 if scores are divided by the temperature already.
        """
        if structure.fixed_size:
            return 0.0
        check_positive("temperature", self.temperature)
        of_loss = LOSSES[self._latest_loss].argmax
        return temperature * (0.5 * (argmax == "sparsemap") - 0.5 * (of_loss == "sparsemap"))

    @property
    def _latest_loss(self):
        """The loss that the model has minimised last."""
        return self._loss

    def _problems(self, structure, X, model, temperature=1.0, tilt=0.0):
        """Lay out the inference problems of all samples, see `_tilt`; also return the shapes of their scores."""
        n_outputs, n_additional = len(model.intercept), len(model.additional)
        dims, sizes, shapes = linear_problems(structure, X, n_outputs)
        check_positive("temperature", temperature)
        # The model may have been edited.
        scores = check_scores(self._linear_scores(X, model) / temperature, 2, "the scores of all rows of X")
        if tilt:
            scores = scores + tilt
        if n_additional:
            check_scores(model.additional / temperature, 1, "the additional scores")
        problems = Problems(
            readonly(scores.ravel()),
            readonly(X.indptr * n_outputs, np.int64),
            readonly(model.additional / temperature),
            readonly(np.zeros(len(X)), np.int64),
            readonly(np.full(len(X), n_additional), np.int64),
            dims,
            sizes,
        )
        return problems, shapes

    def _is_structured(self):
        """Tell whether samples are structures; False if the parameter `structure` means nothing."""
        try:
            return not is_flat(resolve_structure(self.structure))
        except ValueError:
            return False

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_structure")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if self._is_structured():
            # Not a classifier in scikit-learn's sense, whose y is 1-D: splitters must not stratify by y.
            tags.estimator_type = None
            tags.classifier_tags = None
        return tags


def _check_converged(gaps, objectives):
    """Warn of samples whose probabilities are inexact."""
    inexact = gaps > _INEXACT * (1.0 + np.abs(objectives))
    if inexact.any():
        warn_of_convergence(
            f"SparseMAP did not converge for {inexact.sum()} samples (largest duality gap {gaps.max():.1e}), so their "
            "probabilities are inexact; this happens where all scores all but tie"
        )


def _check_weights(name, values, shape, finite=False):
    """Return weights that a user assigns as a new array; -inf, which forbids a part, may be among them."""
    array = check_numbers(values, name).copy()
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {array.shape}")
    if np.isnan(array).any() or (array == np.inf).any() or (finite and np.isinf(array).any()):
        wanted = "finite" if finite else "finite, or -inf to forbid a part"
        raise ValueError(f"{name} contains NaN or infinity; weights must be {wanted}")
    return array


def _accuracy_of(right, weights):
    """Return the share of what is right, from one bool array and one weight a sample."""
    return float(np.average(np.concatenate(right), weights=np.repeat(weights, [len(r) for r in right])))


def _f1_of(pairs, weights):
    """Return the F1 of parts, from the slots of the right and the predicted structure and one weight of each sample."""
    counts = [(((gold == found) & (gold >= 0)).sum(), (gold >= 0).sum() + (found >= 0).sum()) for gold, found in pairs]
    n_right, n = weights @ np.array(counts, np.float64)
    # Without any parts, all agree.
    return float(2.0 * n_right / n) if n else 1.0


def _flat_rows(X):
    """Return X for data with one label a sample, which a RaggedArray is not."""
    if isinstance(X, RaggedArray):
        raise ValueError("X is a RaggedArray, but structure='auto' takes one row a sample; name a structure")
    return X


def _n_axes(structure):
    """Return how many axes of rows a sample may have: those of the scores, unless the labels are one of them."""
    return structure.score_ndim - int(structure.labelled)


def _in_shapes(flat, shapes):
    """Cut what goes with the scores of all samples into a list of arrays in the shapes of the scores."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [flat[stop - int(np.prod(shape)) : stop].reshape(shape) for stop, shape in zip(ends.tolist(), shapes)]


def split_rows(values, indptr):
    """Cut the rows of all samples into a list with one array a sample."""
    return [values[start:stop] for start, stop in pairwise(indptr.tolist())]


def object_array(samples):
    """Return samples as a 1-D object array, also when all have the same shape."""
    array = np.empty(len(samples), dtype=object)
    for i, sample in enumerate(samples):
        array[i] = sample
    return array
