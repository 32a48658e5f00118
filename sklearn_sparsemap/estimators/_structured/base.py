"""Base classes of linear structured estimators: checks of data, scores of parts, and prediction."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, NDArray
from ..._core.doc_link import DocLinkMixin
from ..._core.ragged import RaggedArray
from ..._core.validation import (
    PairOf,
    check_parameters,
    check_positive,
    check_same_length,
    check_sample_weight,
    check_scores,
    keep_text,
    pair_of,
)
from ...inference._graph.map import MAP_TIME_LIMIT
from ...losses import LOSSES
from ...structures import DependencyTree, LinearChain, Matching, Simplex, Structure
from ...training._partial_task import PartialTask
from ...training._scores import linear_scores
from ...training._structure_task import UNKNOWN, StructureTask, is_flat, object_array
from .._partitions import PartitionsMixin, flat_labels
from .._state.export import LearnedArraysMixin
from .._state.learned import TrainingStateMixin
from .checks import SEVERAL_LABELS, ChecksMixin
from .empty import rows_only, with_empty, without_empty
from .graphs_of import GraphsOf
from .labels import check_target, codes_of, flatten_labels, given_classes
from .questions import QuestionsMixin, check_converged
from .weights import LearnedWeightsMixin

# Constraint of the parameter `loss`: a name, or a pair of a name and a cost matrix.
LOSS = [StrOptions(set(LOSSES)), PairOf([StrOptions(set(LOSSES))], ["array-like"])]
_STRUCTURES = {"auto": Simplex, "chain": LinearChain, "tree": DependencyTree, "matching": Matching}


def resolve_structure(structure):
    """Return the Structure or `GraphsOf` for the parameter `structure`."""
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


def _has_proba(estimator):
    if estimator._is_structured() and not resolve_structure(estimator.structure).labelled:
        raise AttributeError("predict_proba is for labels, and these structures have none; use predict_marginals")
    return True


class LinearStructuredModel(
    ChecksMixin, LearnedWeightsMixin, LearnedArraysMixin, QuestionsMixin, ClassifierMixin, DocLinkMixin, BaseEstimator
):
    """Base class of estimators whose scores of parts are linear in the features.

    A subclass has the parameters `structure`, `loss`, `temperature`, `class_weight` and `n_jobs`. It sets
    `_structure` (the structure at the time of the fit, because the parameter may change), `classes_` for structures
    made of labels, and `_learned`, whose model is a `LinearModel`.

    Internally, X is always a `RaggedArray`: flat data are structured data with one row for each sample. The model has
    one output for each label, or a single one if structures are not made of labels. `codes` represents y: an int array
    of indices into `classes_` (flat data), a RaggedArray of them (structures made of labels), or an object array of
    structures in the user's form.
    """

    classes_: NDArray[Any]
    n_features_in_: int
    n_iter_: int
    loss_curve_: list[float]

    # Attributes, in addition to the model, that a fit sets before training.
    _set_by_fit = ("classes_", "_structure", "_loss", "n_features_in_", "_mask")

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Compute the scores of the parts, on which `predict` is based.

        For SparseMAP losses, and structures that differ in their number of parts, they are the linear scores minus
        ``temperature / 2``, because the regulariser subtracts this from the score of each part.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes; or 1-D object array
            For structures, one array for each sample in the shape of its scores, such as (n_steps, n_classes) for a
            chain, without the additional scores.
        """
        structure, X = self._check_predict(X)
        scores = self._linear_scores(X, self._current)
        if is_flat(structure):
            return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores
        task = self._task(X)
        none = np.zeros((0, task.n_outputs))
        return object_array(with_empty(X, lambda: task.in_shapes(self._tilted(task, scores, "map")), none))

    def predict(self, X: Any, known: Any = None, *, map_time_limit: float | None = MAP_TIME_LIMIT) -> NDArray[Any]:
        """Predict the labels or structures with the highest score.

        If structures differ in their number of parts, the prediction maximises the score minus the regulariser of the
        loss, which is half the temperature for each part with SparseMAP losses, and zero with other losses.

        Parameters
        ----------
        X : as in `fit`
        known : sequence, default=None
            Partially known structures to complete: the labels of each step, with None for unknown ones; likewise the
            heads of words, the columns of rows, or the variables of a factor graph. None for a sample of which nothing
            is known.
        map_time_limit : float or None, default=10.0
            Factor graphs: maximum number of seconds for the best assignment of a sample. If time runs out, the best one
            found is returned, with a ConvergenceWarning that names the samples. None sets no limit.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels, or a 1-D object array of structures, which are label arrays if they are made of labels. The result
            for a label sequence without steps is empty. For a `LinearProgram`: a bool array of shape (n_samples,
            n_variables).
        """
        structure, X = self._check_predict(X)
        task = self._task(X)
        if map_time_limit is not None:
            check_positive("map_time_limit", map_time_limit)
        task.map_time_limit = map_time_limit
        with self._blamed(known):
            codes = self._predict_codes(task, X, self._current, known)
        if not structure.labelled:
            return codes
        labels = self.classes_[codes]
        return labels if is_flat(structure) else object_array(RaggedArray(labels, X.indptr).tolist())

    def predict_marginals(self, X: Any, known: Any = None) -> NDArray[Any]:
        """Compute the marginal probability of each label or part.

        With SparseMAP losses, perceptron and hinge these are SparseMAP marginals, most of which are zero. With the
        losses crf and margin_crf they are the marginals of the Gibbs distribution. If structures differ in their number
        of parts, the marginals agree with `predict`: an independent part is predicted if its marginal exceeds 1/2.

        Parameters
        ----------
        X : as in `fit`
        known : sequence, default=None
            As in `predict`.

        Returns
        -------
        marginals : ndarray of shape (n_samples, n_classes), or 1-D object array
            For structures, one array for each sample in the shape of its scores.
        """
        structure, X = self._check_predict(X)

        def answer(task, scores, additional):
            marginals, gaps, objectives = task.marginals(scores, additional, self.n_jobs)
            if gaps is not None:
                check_converged(gaps, objectives)
            return marginals

        argmax = "gibbs" if LOSSES[self._loss].argmax == "gibbs" else "sparsemap"
        marginals = self._ask(X, argmax, known, answer, np.zeros((0, len(self._current.intercept))))
        return marginals if is_flat(structure) else object_array(marginals)

    @available_if(_has_proba)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Compute the probabilities of the labels, or of the labels of each step; the same as `predict_marginals`.

        If each sample has one label, they are the sparsemax of the scores, or with crf losses their softmax.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes), or 1-D object array of arrays (n_steps, n_classes)
            Columns are in the order of `classes_`.

        See Also
        --------
        sklearn_sparsemap.estimators.cross_val_marginals : Out-of-fold probabilities.
        """
        return self.predict_marginals(X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of single labels or parts; for trees this is the unlabelled attachment score.

        If structures differ in their number of parts, the score is the F1 of the parts over all samples, as in
        `sklearn_sparsemap.metrics.parts_f1_score`: most parts can be absent, so an empty prediction can have a high
        accuracy.

        Parameters
        ----------
        X, y : as in `fit`
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. The weight of a structured sample applies to each of its labels or parts.

        Returns
        -------
        score : float
            In [0, 1].

        Raises
        ------
        ValueError
            If the data are not as described, or no sample has a step.
        """
        structure, X = self._check_predict(X)
        if is_flat(structure):
            check_target(y, SEVERAL_LABELS)
            y = column_or_1d(keep_text(y))
        check_same_length(X, y)
        weights = check_sample_weight(sample_weight, len(X))
        if structure.labelled:
            # Labels that are not in `classes_` are never predicted.
            labels = y.tolist() if is_flat(structure) else flatten_labels(y, X.lengths)
            y = codes_of(labels, self.classes_, unknown=not is_flat(structure))
        else:
            y = object_array(list(y))
        if not X.indptr[-1]:
            raise ValueError(
                "no sample has a step, so there is nothing to score (all labels of y are None, or there are none); "
                "give a sample with a step"
            )
        task = self._task(X)
        return task.agreement(y, self._predict_codes(task, X, self._current), weights[X.lengths > 0])

    def _check_predict_ready(self):
        check_is_fitted(self)
        check_parameters(self, ["n_jobs"])
        self._check_whole()

    def _check_predict(self, X):
        self._check_predict_ready()
        return self._structure, self._check_X(self._structure, X)

    def _linear_scores(self, X, model):
        return linear_scores(X.values, model, self.n_jobs)

    def _task(self, X):
        """Lay out samples for prediction."""
        structure, n_outputs = self._structure, len(self._current.intercept)
        if isinstance(structure, Structure) and not structure.labelled:
            n_outputs = structure.row_outputs or 1
        task = self._check_task(self._lay_out(structure, rows_only(X), n_outputs))
        task.loss, task.mask = self._loss, self._mask
        return task

    def _lay_out(self, structure, X, n_outputs):
        return structure.lay_out(X) if isinstance(structure, GraphsOf) else StructureTask(structure, X, n_outputs)

    def _training_data(self, structure, X, y, sample_weight=None, *, reset=True, classes=None, unknown=False):
        """Check and lay out training samples.

        Parameters
        ----------
        structure : Structure or GraphsOf
        X, y, sample_weight
            As in `fit`. Samples without steps are left out, with a warning.
        reset, classes, unknown
            As in `_check_data`.

        Returns
        -------
        X : RaggedArray
        codes, classes
            As `_check_data` returns them.
        task : Task
        """
        X, y, sample_weight = without_empty(structure, X, y, sample_weight)
        X, codes, classes = self._check_data(structure, X, y, reset, classes, unknown)
        weights = self._sample_weights(X, codes, classes, sample_weight)
        task = self._lay_out(structure, X, (structure.row_outputs or 1) if classes is None else len(classes))
        if isinstance(codes, RaggedArray) and (codes.values == UNKNOWN).any():
            task = PartialTask(structure, X, len(classes))
        forbidden = self._forbidden(structure, classes)
        if forbidden is not None:
            forbidden.check(codes)
            task.mask = forbidden.mask()
        loss, cost = pair_of(self.loss, None)
        learned = task.learn(codes, weights, loss, self.temperature, cost)
        easier = structure.for_training()
        if easier is not structure:
            # The first task has checked the gold structures.
            learned = self._lay_out(easier, X, task.n_outputs).learn(codes, weights, loss, self.temperature, cost)
        return X, codes, classes, learned

    def _forbidden(self, structure, classes):
        """Return the constraints on label sequences, a `Forbidden`; None if there are none."""
        return None

    def _predict_codes(self, task, X, model, known=None):
        """Return the prediction in the form of `codes`."""
        if task.is_flat:
            scores = self._restricted(task, X, self._linear_scores(X, model), known)
            return task.predict(scores, model.additional, self.n_jobs)
        if not X.indptr[-1]:
            return np.zeros(0, np.int64)
        return task.predict(*self._scores(task, X, model, "map", known), self.n_jobs)

    def _scores(self, task, X, model, argmax, known=None):
        """Return the scores of all rows (see `_tilted`) and the additional scores, checked because users edit models.

        They are divided by the temperature, except for MAP.
        """
        # Inference is in float64 for all types of weights.
        scores, additional = self._linear_scores(X, model), model.additional.astype(np.float64) + task.mask
        if argmax != "map":
            check_positive("temperature", self.temperature)
            scores, additional = scores / self.temperature, additional / self.temperature
        scores = check_scores(scores, 2, "the scores of all rows of X")
        if len(additional):
            check_scores(additional, 1, "the additional scores")
        return self._restricted(task, X, self._tilted(task, scores, argmax), known), additional

    def _tilted(self, task, scores, argmax):
        """Return scores plus a constant, so that any kind of inference agrees with the loss of the model.

        At a structure, SparseMAP's regulariser is half the temperature for each part, and that of the other losses is
        zero. Adding half the temperature to the scores converts one objective into the other. If all structures have
        the same number of parts, a constant has no effect, and is omitted.

        Parameters
        ----------
        task : Task
        scores : array of shape (n_rows, n_outputs)
        argmax : {"map", "sparsemap", "gibbs"}
            The kind of inference, as in `LOSSES`. Except for "map", scores are already divided by the temperature.
        """
        varies = task.varies
        if not np.any(varies):
            return scores
        check_positive("temperature", self.temperature)
        half = 0.5 * (self.temperature if argmax == "map" else 1.0)
        tilt = half * (argmax == "sparsemap") - half * (LOSSES[self._latest_loss].argmax == "sparsemap")
        return scores + tilt * varies

    @property
    def _latest_loss(self):
        """The loss of the last phase of training."""
        return self._loss

    def _begin(self, structure, classes):
        """Set the structure, loss and classes of the model."""
        self._structure, self._loss = structure, pair_of(self.loss, None)[0]
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _check_same_structure(self, structure):
        if structure != self._structure:
            raise ValueError(
                f"structure={self.structure!r} differs from that of the fitted model, {self._structure!r}; fit a clone"
            )

    def _is_structured(self):
        """Tell whether samples are structures; False if the parameter `structure` is invalid."""
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
            # This is not a classifier in scikit-learn's sense: y is not 1-D, and splitters must not stratify by y.
            tags.estimator_type = None
            tags.classifier_tags = None
        return tags


class LinearStructuredClassifier(TrainingStateMixin, PartitionsMixin, LinearStructuredModel):
    """Base class of linear structured estimators that also learn online, from a stream or partitions."""

    # Name of the parameter for the step size.
    _step_size = "eta0"
    # Weights have the type of X in the first call.
    _dtype = None

    def _check_stream(self, X, y, classes, sample_weight):
        """Check the parameters and a mini-batch, also for consistency with earlier calls of `partial_fit`.

        Returns
        -------
        first : bool
            Whether this is the first call.
        structure : Structure or GraphsOf
            The structure of the first call.
        classes : array or None
            All labels; None if structures are not made of labels.
        X : RaggedArray
        task : Task
        """
        structure, first = self._check_params(), not hasattr(self, "_structure")
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all of y at once; pass a dict of weights to partial_fit")
        if not first:
            self._check_same_structure(structure)
            self._check_whole()
            structure = self._structure
        if structure.labelled:
            classes = given_classes(classes, None if first else self.classes_)
        elif classes is not None:
            raise ValueError(f"{structure!r} is not made of labels; leave classes at None")
        X, _, _, task = self._training_data(structure, X, y, sample_weight, reset=first, classes=classes)
        return first, structure, classes, X, task if first else self._check_task(task)

    def _labels_in(self, y):
        """Return the labels that occur; None if structures are not made of labels."""
        return set(flat_labels(y)) if resolve_structure(self.structure).labelled else None
