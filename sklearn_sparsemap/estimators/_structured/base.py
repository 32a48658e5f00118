"""The base class of linear structured estimators: prediction, inference, learned weights, and checks.

Used by `group_lasso.py`, `perceptron.py` and `stream.py`.
"""

from __future__ import annotations

from copy import copy
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, NDArray, Self
from ..._core.available import available_if
from ..._core.doc_link import DocLinkMixin
from ..._core.errors import SampleError, naming
from ..._core.moments import whole
from ..._core.offsets import size_of, split_flat
from ..._core.pickles import PickleMixin
from ..._core.ragged import RaggedArray
from ..._core.sklearn_bases import BaseEstimator, ClassifierMixin
from ..._core.tables import aligned, by_samples
from ..._core.validation import (
    check_parameters,
    check_positive,
    check_same_length,
    check_sample_weight,
    check_scores,
)
from ..._training._partial_task import PartialTask
from ..._training._structure_task import UNKNOWN, object_array
from ..._training._task import agreement_score
from ...inference._graph.map import MAP_TIME_LIMIT
from ...inference._problems import batch_of
from ...inference._sampling import draw_structures
from ...losses import FenchelYoungLoss
from ...losses._recipes import TRAINED
from ...spans import Span
from .._failures import in_turn, warn_of_gaps, warn_user
from .._state.export import LearnedArraysMixin
from .._state.fitted import FittedState
from .data import (
    check_coef,
    check_weights,
    combine_weights,
    rows_only,
    with_empty,
    without_violations,
)
from .explanation import not_linear
from .face import StructuredFace
from .few import predict_few
from .restrictions import TransitionMask, explain_infeasible
from .spans import predict_spans
from .targets import resolve_structure, targets_of


def _has_proba(estimator):
    if not estimator._is_structured():
        return
    if not resolve_structure(estimator.structure, fitted=vars(estimator).get("_structure")).labelled:
        raise AttributeError("predict_proba is for labels, and these structures have none; use predict_marginals")


def _has_linear_scores(estimator):
    model = vars(estimator)["_learned"].model if "_structure" in vars(estimator) else None
    given = estimator.score_model
    is_linear = isinstance(given, str) and given in ("linear", "auto")
    if not (is_linear if model is None else "explain" in model.supports):
        raise AttributeError(not_linear("sparse coef_"))


def _learned_scores(name):
    """Return the attribute of the learned additional scores with a name."""

    def read(model: Any) -> NDArray[np.float64]:
        return model._additional(name)

    def assign(model: Any, values: ArrayLike) -> None:
        model._set_learned(name, values)

    return property(read, assign)


class LinearStructuredModel(LearnedArraysMixin, ClassifierMixin, DocLinkMixin, PickleMixin, BaseEstimator):
    """Base class of estimators whose scores of parts are linear in the features.

    A subclass has the parameters `structure`, `loss`, `temperature`, `class_weight` and `n_jobs`. It sets
    `_structure` (the structure at the time of the fit, because the parameter may change), `classes_` for structures
    made of labels, and `_learned`, whose model is a `ScoreModel`.

    Internally, X is always a `RaggedArray`: flat data are structured data with one row for each sample. The model has
    one output for each label, or a single one if structures are not made of labels. Gold structures, and predicted
    ones, are an int array of indices into `classes_` (flat data), a RaggedArray of them (structures made of labels),
    or an object array of structures in the user's form.

    In this folder, `perceptron.py` overrides `_edit` and `_latest_loss`, and `groups.py` `_check_predict`. The fits
    call `_training_data`, `_begin`, `_samples_to_score` and `_agreement`. `new_labels.py` calls `_check_whole` and
    `_transition_mask`, `penalty.py` calls `_agreement`, and `data.py` reads `_learned` and `_dtype`.

    Other rooms see a fitted model by its face (`face.py`), which calls `_check_predict`, `_check_gibbs`, `_task`,
    `_scores`, `_read_gold` and reads `_structure` and `_learned`.
    `estimators/_learners/initial.py` calls `_check_whole`, `_check_task` and `_check_same_structure`,
    `estimators/_state/export.py` calls `_check_whole`, and `estimators/_rounds.py` sets `_learned_columns`.
    """

    classes_: NDArray[Any]
    n_features_in_: int
    n_iter_: int
    loss_curve_: list[float]

    # Attributes, in addition to the model, that a fit sets before training. Callbacks get them from `Monitor`, and
    # `TrainingState` stores them.
    _set_by_fit = ("classes_", "_structure", "_loss", "n_features_in_", "_mask", "_y_ndim")
    # The weights, from which training continues.
    _learned = FittedState()
    # Indices of the features whose weights a phase of training learns; None means all.
    _learned_columns = None
    # Array that is added to the additional scores: -inf for forbidden ones.
    _mask = 0.0
    # Whether training supports a weight for each step of a sample.
    _weighs_steps = False
    # The number of axes of y in the last training, if it was one array, else 0.
    _y_ndim = 0
    # The type of the weights. None means the type of X in the first call.
    _dtype = None
    # Forbidden transitions and score models, which only `StructuredSparseMAPClassifier` has.
    constraints: Any = None
    score_model: Any = "linear"

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
        self = whole(self)
        structure, X = self._check_predict(X)
        scores = self._learned.model.scores(X.values, self.n_jobs)
        if structure.is_flat:
            return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores
        task = self._task(X)
        shaped = task.in_shapes(self._shift_by_regularizer(task, scores, "map")) if X.indptr[-1] else []
        return object_array(with_empty(X, shaped, np.zeros((0, task.n_outputs))))

    def predict(self, X: Any, known: Any = None, *, map_time_limit: float | None = MAP_TIME_LIMIT) -> NDArray[Any]:
        """Predict the labels or structures with the highest score.

        If structures differ in their number of parts, the prediction maximises the score minus the regulariser of the
        loss, which is half the temperature for each part with SparseMAP losses, and zero with other losses.

        Parameters
        ----------
        X : as in `fit`
        known : sequence, default=None
            Partially known structures to complete: the labels of each step, with None for unknown ones, and a set of
            labels for a step that has one of them, as a dictionary of tags knows it; likewise the
            heads of words, the columns of rows, whether each hyperarc is used, or the variables of a factor graph. None
            for a sample of which nothing is known.
        map_time_limit : float or None, default=10.0
            Factor graphs: maximum number of seconds for the best assignment of a sample. If time runs out, the best one
            found is returned, with a ConvergenceWarning that names the samples. None sets no limit.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels, or a 1-D object array of structures, which are label arrays if they are made of labels. The result
            for a label sequence without steps is empty. If `y` of the fit was one array with more axes, such as
            (n_samples, n_steps), and all predicted structures have the same shape, they are one array, too. For
            `Simplex` and samples with several rows: an int array with the index of a row for each sample. For a
            `LinearProgram`: a bool array of shape (n_samples, n_variables).
        """
        self = whole(self)
        codes = predict_few(self, X, map_time_limit) if known is None else None
        if codes is None:
            known = None if known is None else by_samples(known, X, "known")
            structure, X = self._check_predict(X)
            task = self._task(X)
            if map_time_limit is not None:
                check_positive("map_time_limit", map_time_limit)
            task.map_time_limit = map_time_limit
            codes = self._predict_codes(task, X, self._learned.model, known)
            if structure.is_flat:
                return self.classes_[codes]
            if structure.labelled:
                codes = object_array([codes[first:last] for first, last in pairwise(X.indptr.tolist())])
        structure = self._structure
        bound_message = structure.in_estimators.bound_message
        message = None if bound_message is None else bound_message(structure, codes)
        if message is not None:
            warn_user(message)
        found = object_array([self.classes_[own] for own in codes]) if structure.labelled else codes
        return _in_one_array(found, self._y_ndim) if self._y_ndim else found

    def predict_marginals(self, X: Any, known: Any = None) -> NDArray[Any]:
        """Compute the marginal probability of each label or part.

        With SparseMAP losses, perceptron and hinge these are SparseMAP marginals, most of which are zero. With the
        losses crf, margin_crf and expected_cost they are the marginals of the Gibbs distribution. If structures differ
        in their number of parts, the marginals agree with `predict`: an independent part is predicted if its marginal
        exceeds 1/2.

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
        self = whole(self)
        known = None if known is None else by_samples(known, X, "known")
        structure, X = self._check_predict(X)

        def run(task, scores, additional):
            marginals, gaps, objectives = task.marginals(scores, additional, self.n_jobs)
            if gaps is not None:
                warn_of_gaps(gaps, objectives)
            return task.in_shapes(marginals)

        argmax = "gibbs" if TRAINED[self._loss].argmax == "gibbs" else "sparsemap"
        no_rows = np.zeros((0, self._learned.model.sizes[1]))
        marginals = self._infer(X, argmax, known, run, no_rows)
        return marginals if structure.is_flat else object_array(marginals)

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

    def predict_structures(self, X: Any, known: Any = None) -> list[list[tuple[Any, float]]]:
        """Return the support of SparseMAP for each sample: structures with their probabilities.

        The distribution is that of SparseMAP for every loss. After training with crf, `predict_marginals` returns
        marginals of the Gibbs distribution.

        Parameters
        ----------
        X : as in `fit`
        known : sequence, default=None
            As in `predict`.

        Returns
        -------
        structures : list of lists of (structure, probability)
            The most probable structure first. Structures are as in `predict`.

        Raises
        ------
        ValueError
            For factor graphs, except those that are a single `StructureFactor` over all variables: LP-SparseMAP has
            marginals, but no distribution. Also if the data are not as described.
        """
        self = whole(self)
        known = None if known is None else by_samples(known, X, "known")
        _, X = self._check_predict(X)

        def run(task, scores, additional):
            distributions, gaps, objectives = task.distributions(scores, additional, self.n_jobs)
            warn_of_gaps(gaps, objectives)
            return [[(self._as_labels(s), weight) for s, weight in own] for own in distributions]

        return self._infer(X, "sparsemap", known, run, [(self._no_labels(), 1.0)])

    def predict_n_best(self, X: Any, k: int, known: Any = None) -> list[list[tuple[Any, float]]]:
        """Find the `k` structures with the highest scores for each sample.

        Parameters
        ----------
        X : as in `fit`
        k : int
            Number of structures.
        known : sequence, default=None
            As in `predict`.

        Returns
        -------
        best : list of lists of (structure, score)
            The best structure first. Structures are as in `predict`; for flat data they are labels. A list has fewer
            than `k` entries if fewer structures exist.

        Raises
        ------
        ValueError
            If the data are not as described.
        """
        self = whole(self)
        check_positive("k", k, integer=True)
        known = None if known is None else by_samples(known, X, "known")
        _, X = self._check_predict(X)

        def run(task, scores, additional):
            results = task.n_best(scores, additional, int(k), self.n_jobs)
            return [[(self._as_labels(s), value) for s, value in best] for best in results]

        return self._infer(X, "map", known, run, [(self._no_labels(), 0.0)])

    def predict_spans(self, X: Any, *, min_probability: float = 0.0, tokens: Any = None) -> list[list[Span]]:
        """Find the labelled spans of each sample, with their marginal probabilities.

        The probability of a span is that of all structures in which it occurs. With the losses of a Gibbs distribution
        it is that of this distribution, by forward-backward. With other losses it is the sum of the weights of the
        structures of SparseMAP; see `predict_structures`.

        Parameters
        ----------
        X : as in `fit`
        min_probability : float, default=0.0
            Smallest probability of a span. Larger values take less time. With 0.0, the result has all predicted spans,
            and all others of positive probability. For crf, under which each span has some, these are limited to those
            of at least 1e-3, or of 1e-6 in sequences with at most 200 possible spans; positive values have no such
            limit.
        tokens : sequence, default=None
            The tokens of each sample: words, or tokens with offsets, as `sklearn_sparsemap.spans.tokenize` or spaCy
            makes them. The spans then have a text and, if tokens have offsets, ``start_char`` and ``stop_char``.

        Returns
        -------
        spans : list of lists of Span
            One list for each sample, with the spans in the order of their first steps. ``predicted`` tells which are in
            the result of `predict`; these have ``alternatives``. ``start`` and ``stop`` are positions of steps. A
            sample without steps has no spans.

        Raises
        ------
        ValueError
            If the labels are no spans, the structure is neither a chain nor a `Segmentation`, or the data are not as
            described. Also for `SequenceBudget` with losses of a Gibbs distribution.

        See Also
        --------
        sklearn_sparsemap.plotting.SpansDisplay : Draws them.

        Notes
        -----
        Labels are read in the scheme that `constraints` name. Otherwise they are read as
        `sklearn_sparsemap.metrics.span_f1_score` does by default, or as BILOU if some begin with L or U. The spans of a
        `Segmentation` are its segments, except those of the label ``"O"``. If its parts are spans, types are ints.

        Under SparseMAP, different mixtures of structures can have the same marginals. The probability of a span of
        several steps is then that of the mixture that was found.
        """
        return predict_spans(whole(self), X, min_probability, tokens)

    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Compute the log-probability of structures under the model's Gibbs distribution.

        Parameters
        ----------
        X, y : as in `fit`
            A label of None is unknown. The result is then the log-probability of all completions together.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            The crf loss is minus this, times the temperature.

        Raises
        ------
        ValueError
            If the model was not trained with crf or margin_crf, or the data are not as described.
        """
        self = whole(self)
        self._check_gibbs("log_likelihood")
        structure, X = self._check_predict(X)
        check_same_length(X, y)

        def of_structures(task, scores, additional):
            scores, additional = _by_sample(task, scores, additional)
            pairs = FenchelYoungLoss(structure, "crf").loss_gradient(scores, list(y), n_jobs=self.n_jobs, **additional)
            return [-loss for loss, _ in pairs]

        def log_partitions(task, scores, additional):
            return task.log_partitions(scores, additional, self.n_jobs)

        # Known entries, and gold structures of the loss, are those of y.
        with naming(known="y", gold="y"):
            if not structure.labelled:
                return np.array(self._infer(X, "gibbs", None, of_structures))
            completions = self._infer(X, "gibbs", y, log_partitions, 0.0)
        total = self._infer(X, "gibbs", None, log_partitions, 0.0)
        return np.minimum(np.subtract(completions, total), 0.0)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None, known: Any = None) -> list[list[Any]]:
        """Draw structures from the model's Gibbs distribution.

        Parameters
        ----------
        X : as in `fit`
        n_samples : int, default=1
            Number of structures for each sample.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        known : sequence, default=None
            As in `predict`. Samples are then drawn from the completions.

        Returns
        -------
        structures : list of lists of structures
            As `predict` returns them.

        Raises
        ------
        ValueError
            If the model was not trained with crf or margin_crf, or the data are not as described.
        """
        self = whole(self)
        self._check_gibbs("sample")
        check_positive("n_samples", n_samples, integer=True)
        known = None if known is None else by_samples(known, X, "known")
        (structure, X) = self._check_predict(X)
        rng = check_random_state(random_state)

        def run(task, scores, additional):
            # The draws themselves do not notice that all structures of a sample are forbidden.
            task.predict(scores, additional, self.n_jobs)
            problems = batch_of(structure, *_by_sample(task, scores, additional))[0]
            drawn = [draw_structures(structure, problem, int(n_samples), rng) for problem in problems]
            return [[self._as_labels(s) for s in structures] for structures in drawn]

        return self._infer(X, "gibbs", known, run, [self._no_labels()] * int(n_samples))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the F1 of the parts over all samples, such as labels, heads, pairs or chosen variables.

        It is twice the number of parts that gold and prediction have in common, divided by the number of parts of both.
        It is 1.0 if neither has any. Parts that are not chosen do not count, as in
        `sklearn_sparsemap.metrics.parts_f1_score`. If gold and prediction have as many parts, it is the fraction of
        correct parts: the accuracy of labels, the unlabelled attachment score of trees. For rankings it is the fraction
        of pairs of items in the correct order. See :ref:`the guide <score-of-structures>`.

        Parameters
        ----------
        X, y : as in `fit`
        sample_weight : array-like of shape (n_samples,), or sequence of arrays, default=None
            Weights of the samples. The weight of a structured sample applies to each of its labels or parts. For label
            sequences, an array may hold a weight for each step.

        Returns
        -------
        score : float
            In [0, 1].

        Raises
        ------
        ValueError
            If the data are not as described, or no sample has a step.
        """
        return agreement_score(*self._agreement_with(X, y, sample_weight))

    def _agreement_with(self, X, y, sample_weight=None):
        """Return the agreement of predictions with samples in the user's form; see `Task.agreement`."""
        self = whole(self)
        sample_weight = None if sample_weight is None else by_samples(sample_weight, X, "sample_weight")
        structure, X = self._check_predict(X)
        return self._agreement(*self._samples_to_score(structure, X, y, sample_weight), self._learned.model)

    def _samples_to_score(self, structure, X, y, sample_weight=None):
        """Lay out samples for `score`.

        Parameters
        ----------
        structure : Structure or GraphBuilder
        X : RaggedArray
            Checked features.
        y, sample_weight
            As in `score`.

        Returns
        -------
        task : Task
        X : RaggedArray
        gold : array or RaggedArray
            Codes of labels, -1 for those that are not in `classes_`, or structures.
        weights : array of shape (n_samples,)
            Of the samples with rows.
        """
        gold = self._read_gold(y, X.lengths)
        step_weights = None
        if sample_weight is not None:
            sample_weight, step_weights = targets_of(structure).split_weights(sample_weight, X.lengths)
        weights = check_sample_weight(sample_weight, len(X))
        if not X.indptr[-1]:
            raise ValueError(
                "no sample has a step, so there is nothing to score (all labels of y are None, or there are none); "
                "give a sample with a step"
            )
        task = self._task(X)
        if step_weights is not None:
            task.step_weights = step_weights
        return task, X, gold, weights[X.lengths > 0]

    def _read_gold(self, y, lengths):
        """Return gold structures in the internal form; the codes of labels that are not in `classes_` are -1."""
        return targets_of(self._structure).read(y, lengths, vars(self).get("classes_"))

    def _agreement(self, task, X, gold, weights, model):
        """Return the agreement of a model's predictions with samples in the form that `_samples_to_score` returns."""
        return task.agreement(gold, self._predict_codes(task, X, model), weights)

    def _linear(self, name):
        """Return the current model if it is linear, else raise AttributeError for an attribute with this name."""
        model = self._current
        if "explain" not in model.supports:
            raise AttributeError(not_linear(name))
        return model

    @property
    def coef_(self) -> Any:
        self = whole(self)
        coef = self._linear("coef_").coef.T
        return sparse.csr_array(coef) if sparse.issparse(coef) else coef

    @coef_.setter
    @in_turn
    def coef_(self, values: Any) -> None:
        known = self._linear("coef_").coef
        if not sparse.issparse(values):
            # The list of names would take more memory than many sparse weights.
            values = self._by_labels("coef_", values, list(self._feature_names()))
        self._edit(coef=check_coef(values, known))

    @available_if(_has_linear_scores)
    @in_turn
    def sparsify(self) -> Self:
        """Convert `coef_` to a CSR array, which takes less memory if most weights are zero.

        Prediction takes longer if more than about half of the weights are nonzero. Training continues from either form.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._convert(True)

    @available_if(_has_linear_scores)
    @in_turn
    def densify(self) -> Self:
        """Convert `coef_` to an ndarray, the default form except for large models.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._convert(False)

    def _convert(self, sparse_coef):
        check_is_fitted(self)
        coef = self._linear("sparsify").coef
        if sparse.issparse(coef) != sparse_coef:
            # An optimiser that may continue has the same weights in its own form.
            model = copy(self._current)
            model.coef = sparse.csr_array(coef) if sparse_coef else coef.toarray()
            self._learned = FittedState(model, self._learned.optimizer, self._learned.final)
        return self

    @property
    def intercept_(self) -> NDArray[np.float64]:
        self = whole(self)
        return self._linear("intercept_").intercept

    @intercept_.setter
    @in_turn
    def intercept_(self, values: ArrayLike) -> None:
        known = self._linear("intercept_").intercept
        values = self._by_labels("intercept_", values)
        self._edit(intercept=check_weights("intercept_", values, known.shape).astype(known.dtype, copy=False))

    transitions_ = _learned_scores("transitions")
    start_ = _learned_scores("start")
    end_ = _learned_scores("end")
    durations_ = _learned_scores("durations")

    @in_turn
    def _set_learned(self, name, values):
        """Assign learned additional scores."""
        shape = self._additional(name).shape
        # The second axis, if there is one, has labels, too.
        own = self._names_of_outputs()
        values = self._by_labels(f"{name}_", values, *[own] * (len(shape) - 1))
        values = check_weights(f"{name}_", values, shape)
        additional = self._current.additional.copy()
        self._by_name(additional)[name][...] = values
        # The mask forbids these entries. Stored weights must be finite, or training could not continue.
        additional[np.isneginf(self._mask)] = 0.0
        self._edit(additional=additional)

    def _names_of_outputs(self):
        """Return the labels as a list, or the numbers of the rows of `coef_` if they are no labels."""
        labels = targets_of(self._structure).labels(vars(self).get("classes_"))
        return list(range(self._current.sizes[1])) if labels is None else labels

    def _feature_names(self):
        return getattr(self, "feature_names_in_", range(self.n_features_in_))

    def _by_labels(self, name, values, *axes):
        """Return assigned weights in the order of names: the first axis in that of the labels."""
        whose = "the labels and the names of the features"
        return aligned(values, self._names_of_outputs(), *axes, name=name, whose=whose)

    def _edit(self, **arrays):
        """Replace arrays of the model, and drop the optimiser, which holds the old arrays."""
        model = copy(self._current)
        vars(model).update(arrays)
        self._learned = FittedState(model, final=self._learned.final)

    def _check_whole(self):
        """Raise ValueError unless the fitted attributes are consistent.

        Users may assign each of them, and files and training states may be damaged. Kernels rely on one column of
        scores for each output, and on the shapes of additional scores.
        """
        expected = self.n_features_in_ if self._learned_columns is None else len(self._learned_columns)
        for weights in (self._learned.optimizer, self._learned.model):
            if weights is None:
                continue
            n_features, n_outputs, n_additional = weights.sizes
            if n_features != expected:
                raise ValueError(
                    f"n_features_in_ is {self.n_features_in_!r}, but the model has {n_features} features; fit again"
                )
            if self._structure.labelled and np.shape(self.classes_) != (n_outputs,):
                raise ValueError(
                    f"classes_ has shape {np.shape(self.classes_)}, but the model has {n_outputs} outputs; assign as "
                    "many labels, or fit again"
                )
            shapes = self._structure.learned_shapes(n_outputs)
            if n_additional != size_of(shapes):
                raise ValueError(f"there are {n_additional} additional scores, but {shapes} are needed; fit again")
            if np.shape(self._mask) not in ((), (n_additional,)):
                raise ValueError(f"the constraints are not on {n_additional} additional scores; fit again")

    @property
    def _current(self):
        """The current model, computed from the online optimiser if there is one."""
        if not hasattr(self, "_structure"):
            check_is_fitted(self)
        return self._learned.model

    @property
    def additional_scores_(self) -> dict[str, Any]:
        """The learned additional scores by name: dict of str -> ndarray."""
        self = whole(self)
        additional = self._current.additional
        return self._by_name(additional + self._mask if np.ndim(self._mask) else additional)

    def _by_name(self, additional):
        """Return views of flat additional scores."""
        return split_flat(additional, self._structure.learned_shapes(self._current.sizes[1]))

    def _additional(self, name):
        additional = self.additional_scores_
        if name not in additional:
            raise AttributeError(f"{name}_ is not learned with {self._structure!r}")
        return additional[name]

    def _check_predict(self, X):
        """Check the model and samples to predict; return the structure of the fit, and the features."""
        if not hasattr(self, "_structure"):
            check_is_fitted(self)
        check_parameters(self, ["n_jobs"])
        self._check_whole()
        structure = self._structure
        return structure, targets_of(structure).features(self, structure, X)

    def _check_gibbs(self, method):
        """Raise ValueError unless the model was trained with a loss of a Gibbs distribution."""
        check_is_fitted(self)
        if TRAINED[self._latest_loss].argmax != "gibbs":
            raise ValueError(
                f"{method} is for models of a Gibbs distribution; train with loss='crf' (this model has "
                f"loss={self._latest_loss!r})"
            )

    def _face(self) -> StructuredFace:
        return StructuredFace(self)

    def _task(self, X):
        """Return the task of the samples to predict that have rows."""
        structure = self._structure
        X = X if X.lengths.all() else rows_only(X)
        task = targets_of(structure).new_task(structure, X, self._learned.model.sizes[1])
        task.loss, task.mask = self._loss, self._mask
        return self._check_task(task)

    def _infer(self, X, argmax, known, run, of_empty=None):
        """Return the result of inference for each sample.

        Parameters
        ----------
        X : RaggedArray
        argmax, known
            As in `_scores`.
        run : callable
            Maps the task of the samples that have rows, their scores and the additional scores to their results.
        of_empty : object, default=None
            The result of a sample without rows.
        """
        task = self._task(X)
        results = []
        if X.indptr[-1]:
            scores, additional = self._scores(task, X, self._learned.model, argmax, known)
            with explain_infeasible(np.flatnonzero(X.lengths), known, self.constraints):
                results = run(task, scores, additional)
        return with_empty(X, results, of_empty)

    def _as_labels(self, structure):
        """Return a structure of codes in the form of `predict`."""
        return targets_of(self._structure).named(structure, vars(self).get("classes_"))

    def _no_labels(self):
        """Return the label sequence of a sample without steps. Other structures are never empty."""
        return self._as_labels(np.zeros(0, np.int64))

    def _predict_codes(self, task, X, model, known=None):
        """Return the predicted structures in the internal form."""
        if task.is_flat:
            scores = model.scores(X.values, self.n_jobs)
            scores = scores if known is None else self._restrict(task, X, scores, known)
            return task.predict(scores, model.additional, self.n_jobs)
        if not X.indptr[-1]:
            return np.zeros(0, np.int64)
        scores, additional = self._scores(task, X, model, "map", known)
        with explain_infeasible(np.flatnonzero(X.lengths), known, self.constraints):
            return task.predict(scores, additional, self.n_jobs)

    def _scores(self, task, X, model, argmax, known=None):
        """Return the scores of all rows (see `_shift_by_regularizer`) and the additional scores.

        They are divided by the temperature, except for MAP, and checked, because users edit models.
        """
        # Inference is in float64 for all types of weights.
        scores = model.scores(X.values, self.n_jobs)
        additional = model.additional.astype(np.float64) + task.mask
        if argmax != "map":
            check_positive("temperature", self.temperature)
            scores, additional = scores / self.temperature, additional / self.temperature
        scores = check_scores(scores, 2, "the scores of all rows of X")
        if len(additional):
            check_scores(additional, 1, "the additional scores")
        if np.any(task.varies):
            scores = self._shift_by_regularizer(task, scores, argmax)
        return (scores if known is None else self._restrict(task, X, scores, known)), additional

    def _restrict(self, task, X, scores, known):
        """Return scores with -inf for parts that contradict `known`; see `OtherStructures.restrict` on the task."""
        return targets_of(self._structure).restrict(task, X, vars(self).get("classes_"), known, scores)

    def _shift_by_regularizer(self, task, scores, argmax):
        """Return scores plus a constant, so that any kind of inference agrees with the loss of the model.

        At a structure, SparseMAP's regulariser is half the temperature for each part, and that of the other losses is
        zero. Adding half the temperature to the scores converts one objective into the other. If all structures have
        the same number of parts, a constant has no effect, and is omitted.

        Parameters
        ----------
        task : Task
        scores : array of shape (n_rows, n_outputs)
        argmax : {"map", "sparsemap", "gibbs"}
            The kind of inference, as in `TRAINED`. Except for "map", scores are already divided by the temperature.
        """
        varies = task.varies
        if not np.any(varies):
            return scores
        check_positive("temperature", self.temperature)
        half = 0.5 * (self.temperature if argmax == "map" else 1.0)
        shift = half * (argmax == "sparsemap") - half * (TRAINED[self._latest_loss].argmax == "sparsemap")
        return scores + shift * varies

    @property
    def _latest_loss(self):
        """The loss of the last phase of training."""
        return self._loss

    def _training_data(self, structure, X, y, sample_weight=None, *, stream=False, **options):
        """Check and lay out training samples.

        Parameters
        ----------
        structure : Structure or GraphBuilder
        X, y, sample_weight
            As in `fit`. Samples without steps are left out, with a warning.
        stream : bool, default=False
            Whether no sample may be left, if assignments of factor graphs violate rules.
        options
            Of `OtherStructures.training_data`.

        Returns
        -------
        X : RaggedArray
        gold, classes
            As `OtherStructures.training_data` returns them.
        task : Task
        """
        sample_weight = None if sample_weight is None else by_samples(sample_weight, X, "sample_weight")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if options.get("reset", True):
            is_array = hasattr(y, "ndim") and hasattr(y, "dtype")
            self._y_ndim = y.ndim if is_array and (y.ndim > 1 or y.dtype != object) else 0
        targets = targets_of(structure)
        X, y, sample_weight, kept = targets.without_empty(X, y, sample_weight)
        try:
            X, gold, classes = targets.training_data(self, structure, X, y, **options)
            step_weights = None
            if sample_weight is not None:
                sample_weight, step_weights = targets.split_weights(sample_weight, X.lengths, self._weighs_steps)
            weights = combine_weights(X, gold, classes, sample_weight, self.class_weight)
            if isinstance(gold, RaggedArray) and (gold.values == UNKNOWN).any():
                if step_weights is not None:
                    raise ValueError(
                        "y has labels of None, and sample_weight has weights of steps; samples with unknown labels "
                        "take one weight for each sample"
                    )
                task = PartialTask(structure, X, len(classes))
            else:
                task = targets.new_task(structure, X, None if classes is None else len(classes))
            self._mask = 0.0
            if self.constraints is not None:
                transitions = self._transition_mask(structure, classes)
                transitions.check(gold)
                self._mask = transitions.mask()
            task.mask = self._mask
            cost = None if self.cost is None else aligned_cost(self.cost, classes)
            trained = task.learn(gold, weights, self.loss, self.temperature, cost)
            if any(trained.violated):
                X, gold, trained = without_violations(X, gold, trained, stream)
            easier = structure.in_estimators.for_training(structure)
            if easier is not structure:
                # The first task has checked the gold structures.
                trained = targets.new_task(easier, X, task.n_outputs)
                trained.learn(gold, weights, self.loss, self.temperature, cost)
                trained.whole = task
            if step_weights is not None:
                trained.step_weights = step_weights
        except SampleError as error:
            error.renamed(kept)
            raise
        return X, gold, classes, trained

    def _transition_mask(self, structure, classes):
        """Return the constraints on label sequences."""
        if not (structure.labelled and [*structure.learned_shapes(1)] == ["transitions", "start", "end"]):
            raise ValueError(f"constraints are for structure='chain'; got structure={self.structure!r}")
        return TransitionMask(self.constraints, classes)

    def _begin(self, structure, classes):
        """Set the structure, loss and classes of the model."""
        self._structure = structure
        self._loss = self.loss
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _check_task(self, task):
        """Raise ValueError unless the model has the scores that a task needs; return the task.

        A structure may have been edited, and a function may return different graphs than before.
        """
        for weights in (self._learned.optimizer, self._learned.model):
            if weights is not None and weights.sizes[1:] != (task.n_outputs, task.n_additional):
                raise ValueError(
                    f"the samples need {task.n_outputs} scores for each row and {task.n_additional} additional scores, "
                    f"but the model has {weights.sizes[1]} and {weights.sizes[2]}; fit again"
                )
        return task

    def _check_same_structure(self, structure):
        if structure != self._structure:
            raise ValueError(
                f"structure={self.structure!r} differs from that of the fitted model, {self._structure!r}; fit a clone"
            )

    def _is_structured(self):
        """Tell whether samples are structures; False if the parameter `structure` is invalid."""
        try:
            return not resolve_structure(self.structure, fitted=vars(self).get("_structure")).is_flat
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


def _in_one_array(structures, ndim):
    """Return structures of one shape as one array if that has a number of axes; else as they are."""
    if not all(isinstance(own, int | np.ndarray) for own in structures):
        return structures
    shapes = {np.shape(own) for own in structures}
    is_one = len(shapes) == 1 and all(len(shape) + 1 == ndim for shape in shapes)
    return np.array(list(structures)) if is_one else structures


def aligned_cost(cost, classes):
    """Return the costs of a loss in the order of the labels; `classes` are None for structures without labels."""
    if classes is None:
        return cost
    labels = classes.tolist()
    # A fold may lack a label that the cost has.
    return aligned(cost, labels, labels, name="cost", whose="the labels", more=True)


def _by_sample(task, scores, additional):
    """Return the scores as a list of arrays, one for each sample, and the additional scores by name."""
    return list(task.in_shapes(scores)), split_flat(additional, task.additional_shapes)
