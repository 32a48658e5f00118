"""Prediction of label sets, and inspection of the fitted model.

Used by `classifier.py`.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._core.annotations import Any, ArrayLike, NDArray, Sequence
from ..._core.doc_link import DocLinkMixin
from ..._core.indicators import read_known
from ..._core.moments import whole
from ..._core.pickles import PickleMixin
from ..._core.ragged import RaggedArray, ragged_of_checked
from ..._core.sklearn_bases import BaseEstimator, ClassifierMixin
from ..._core.tables import by_samples
from ..._core.validation import (
    check_choice,
    check_magnitude,
    check_matrix,
    check_parameters,
    check_positive,
    check_sample_weight,
    keep_text,
)
from ..._training._network import NetworkModel
from ...inference._labels import LabelGraph
from ...score_models import Network
from .._learners.score_model import description_of
from .._partitions import PartitionsMixin
from .._state.export import LearnedArraysMixin
from .._state.fitted import TrainingStateMixin
from .data import add_ancestors
from .decisions import OLD_RULES
from .descriptions import fitted_description
from .face import LabelSetFace
from .inference import MAP_TIME_LIMIT, LabelInference
from .targets import OneLabelEach, SetOfLabelsEach

DECISIONS = ("auto", "observed_sets", "expected_f1", "threshold", "map")


class LabelSetClassifier(
    TrainingStateMixin, LearnedArraysMixin, PartitionsMixin, ClassifierMixin, DocLinkMixin, PickleMixin, BaseEstimator
):
    """Prediction by `MultilabelLPSparseMAP`.

    A subclass has the parameters `decision`, `threshold` and `n_jobs`. It sets `_graph` (a `LabelGraph` or `OneLabel`),
    `_learned`, whose model is a `NetworkModel`, `_single` (whether y had one label for each sample), `_named` (whether
    y held collections of names), `_loss`, `_sets` (`ObservedLabelSets` or None), `_rule` (the rule chosen by
    ``decision="auto"``), `_calibration`, `classes_` and `threshold_`.

    In this folder, `data.py` and `new_labels.py` read `_single`, and `face.py` calls `_check_predict`, `_check_one`,
    `_in_order` and `_amounts`, and reads `_inference`, `_targets`, `_graph` and `_learned`. Other rooms see a fitted
    model by that face. `estimators/_state/export.py` calls `_check_whole`.
    """

    _fitted_mark = "_graph"
    _readable_states = ("adam",)
    # Default of `tol` for epochs of Adam.
    _epoch_tol = 1e-3
    # The learning rate depends on the number of samples.
    _counts_samples = True

    # Files of earlier versions lack these attributes.
    _named = False
    _chosen = None
    # Name of the parameter for the step size, and the attributes, besides the model, that a fit sets before training:
    # callbacks get them from `Monitor`, and `TrainingState` stores them.
    _step_size = "eta0"
    _set_by_fit = (
        "classes_", "_graph", "_single", "_named", "_loss", "_running", "_sets", "_rule", "_calibration", "threshold_",
        "alpha_", "n_violations_", "n_features_in_", "_chosen",
    )  # fmt: skip

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Compute the scores of the labels, without the scores of edges.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_labels)
            For a 1-D y of two classes, of shape (n_samples,): the score of the second class minus that of the first.
        """
        self = whole(self)
        X = self._check_predict(X)
        scores = self._learned.model.scores(X)
        return self._targets.scores(scores)

    def predict_marginals(self, X: Any) -> NDArray[Any]:
        """Compute the marginal of each label.

        These are the marginals of LP-SparseMAP, most of which are exactly zero. With ``loss="logistic"`` they are those
        of the logistic model without constraints.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        marginals : ndarray of shape (n_samples, n_labels)
        """
        self = whole(self)
        X = self._check_predict(X)
        return self._inference.marginals(self._learned.model, X, warn=True)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute the calibrated probability of each label.

        The log odds are linear in the score of the label. Slope and offset are fitted on held-out samples. So
        probabilities increase strictly with `decision_function`, unlike marginals, most of which are exactly zero. A
        label is never more probable than a label that it implies by a constraint. Other constraints hold in `predict`
        only. The score of a label includes the scores of its edges times the marginals of the labels at their other
        ends. Under a hierarchy, the scores of related labels are pooled first, so the probability of a label depends on
        their scores, too, and pooled labels can tie.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_labels)
            Strictly between 0 and 1. For a 1-D y they sum to 1.

        See Also
        --------
        predict_marginals : The marginals of SparseMAP, with exact zeros.

        Notes
        -----
        `fit` with L-BFGS fits the curves by cross-validation on three to five folds. With Adam they are fitted on the
        held-out samples. If there are none, they are fitted on a third of the samples, scored by a second model that
        learns from the other samples. After `partial_fit` alone, and with fewer than six samples, fixed curves
        are used, which depend on the loss.
        """
        self = whole(self)
        X = self._check_predict(X)
        inference = self._inference
        return inference.probabilities(inference.evidence(self._learned.model, X, warn=True))

    def predict_structures(self, X: Any, n_sets: int = 10) -> list[list[tuple[Any, float]]]:
        """Find the most probable label sets of each sample among those seen in training.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        n_sets : int, default=10
            Maximum number of sets of a sample.

        Returns
        -------
        structures : list of lists of (ndarray of shape (n_labels,), float)
            For each sample label sets with their probabilities, the most probable first. The probabilities of all sets
            seen in training add up to 1. Sets are tuples of names if the model was fitted with names.

        Raises
        ------
        ValueError
            If the model keeps no label sets: after `partial_fit` alone, and for a 1-D `y`.
        """
        self = whole(self)
        X = self._check_predict(X)
        check_positive("n_sets", n_sets, integer=True)
        check_parameters(self, ["threshold"])
        inference = self._inference
        probabilities = inference.probabilities(inference.evidence(self._learned.model, X, warn=True))
        lists = inference.observed_sets().likeliest(probabilities, inference.cut, n_sets)
        if not self._named:
            return lists
        shown = self._targets.shown
        return [[(shown(labels > 0), p) for labels, p in likeliest] for likeliest in lists]

    def predict(
        self,
        X: Any,
        known: Any = None,
        *,
        map_time_limit: float | None = MAP_TIME_LIMIT,
        names: bool | None = None,
    ) -> NDArray[Any]:
        """Predict the labels of each sample, by the rule `decision`. All constraints hold.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        known : sequence of length n_samples, or array-like of shape (n_samples, n_labels), default=None
            Labels that are known to be on or off: for each sample a dict such as ``{"jazz": True, "live": False}``, or
            None; or an indicator matrix with NaN for unknown labels. If the prediction contradicts them, the best set
            that agrees with them is predicted instead, by probabilities minus the threshold of the rule, or for "map"
            by its objective.
        map_time_limit : float or None, default=1.0
            Maximum number of seconds for the best set of a sample, relaxation and mixed-integer program together. If
            time runs out, the best set found is returned, which satisfies all constraints, with a ConvergenceWarning
            that names the samples and the largest possible loss. None sets no limit. A sample of 40 labels with random
            edge scores takes about 10 s.
        names : bool, default=None
            Whether to return the names of the labels instead of an indicator matrix. By default, names if the model was
            fitted with names.

        Returns
        -------
        y : int ndarray of shape (n_samples, n_labels), or ndarray of shape (n_samples,)
            Indicator matrix; with `names` an object array of tuples; or the labels, if `y` was 1-D.

        Raises
        ------
        ValueError
            If `known` is not as described, or no set that satisfies the constraints agrees with it.
        """
        self = whole(self)
        known = None if known is None else by_samples(known, X, "known")
        X = self._check_predict(X)
        check_parameters(self, ["decision", "threshold"])
        if map_time_limit is not None:
            check_positive("map_time_limit", map_time_limit)
        known = None if known is None else self._targets.read_known(known, X.shape[0])
        chosen = self._inference.choose(self._learned.model, X, map_time_limit, warn=True, known=known)
        return self._targets.decode(chosen, names)

    @property
    def _targets(self):
        """The form of the targets."""
        return OneLabelEach(self.classes_) if self._single else SetOfLabelsEach(self.classes_, self._named)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the subset accuracy: the fraction of samples whose labels are all correct.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like or sparse matrix of shape (n_samples, n_labels), or sequence of length n_samples
            Gold labels, as in `fit`. In an indicator matrix, NaN marks labels that are not compared, and the ancestors
            of labels in a hierarchy are added. The columns of a DataFrame are matched with `classes_` by their names.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        self = whole(self)
        check_is_fitted(self)
        sample_weight = None if sample_weight is None else by_samples(sample_weight, X, "sample_weight")
        filled, known = read_known(self._in_order(y))
        if np.ndim(filled) == 2:
            filled = filled if sparse.issparse(filled) else np.asarray(filled)
            filled, known = add_ancestors(filled, self._fitted("_graph").constraints, known)
        predicted = self.predict(X, names=False)
        weights = check_sample_weight(sample_weight, len(predicted))
        if known is None:
            return accuracy_score(keep_text(filled), predicted, sample_weight=weights)
        if predicted.shape != known.shape:
            raise ValueError(f"y has shape {known.shape}, but {predicted.shape} labels are predicted")
        right = ((predicted == np.asarray(filled)) | ~known).all(axis=1)
        return float(np.average(right, weights=weights))

    @property
    def _inference(self):
        """Inference with the fitted graph, rule and probabilities."""
        cut = self.threshold_ if self.threshold == "auto" else float(self.threshold)
        return LabelInference(
            self._graph, self._loss, self.classes_, self.decision, self.threshold, self.n_jobs,
            self._calibration, cut, self._rule, self._sets,
        )  # fmt: skip

    def _face(self) -> LabelSetFace:
        return LabelSetFace(self)

    @property
    def decision_(self) -> str:
        self = whole(self)
        return self._rule if self.decision == "auto" else self.decision

    def strongest_edges(
        self, n_edges: int = 10, sign: Literal["attraction", "repulsion"] | None = None
    ) -> list[tuple[Any, Any, float]]:
        """List the edges with the strongest scores, by the labels' names.

        Parameters
        ----------
        n_edges : int, default=10
            Maximum number of edges.
        sign : {"attraction", "repulsion"}, default=None
            List only positive scores (attraction) or only negative ones (repulsion). By default, both.

        Returns
        -------
        edges : list of (label, label, float)
            Strongest first.
        """
        self = whole(self)
        check_is_fitted(self)
        check_positive("n_edges", n_edges, integer=True)
        check_choice("sign", sign, (None, "attraction", "repulsion"))
        strength = self.edge_scores_ * {"attraction": 1.0, "repulsion": -1.0}.get(sign, 1.0)
        strength = np.abs(strength) if sign is None else strength
        order = np.argsort(-strength, kind="stable")
        order = order[strength[order] > 0.0][:n_edges]
        names = self.classes_.tolist()
        return [(names[i], names[j], float(self.edge_scores_[e])) for e, (i, j) in zip(order, self.edges_[order])]

    def label_table(
        self, x: Any, n_features: int = 3, feature_names: Sequence[str] | None = None
    ) -> list[tuple[Any, str, str, float]]:
        """List the contributions of features, other labels and constraints to the labels of a sample.

        Parameters
        ----------
        x : array-like or CSR of shape (1, n_features)
            One sample.
        n_features : int, default=3
            Number of features that are listed for each label: those with the largest contributions. The others are
            summed up.
        feature_names : sequence of str, default=None
            Names of the features. Default: those of `fit` or, if `X` had no names, "x0", "x1" and so on.

        Returns
        -------
        table : list of (label, source, name, amount)
            The source is "feature" (for networks "score", as a whole), "intercept", "label" (an edge's score times the
            marginal of the label at its other end), or "rules": the amount that constraints add to the label's
            marginal. The amounts of features and intercept add up to `decision_function`.

        See Also
        --------
        sklearn_sparsemap.inspection.label_table : This table for a model in a pipeline or a search.
        """
        self = whole(self)
        X = self._check_one(x)
        check_positive("n_features", n_features, integer=True)
        if feature_names is None:
            feature_names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])
        inference = self._inference
        (marginals,) = inference.marginals(self._learned.model, X)
        free = marginals
        if self._graph.constraints:
            inference.graph = LabelGraph(len(marginals), self._graph.edges)
            (free,) = inference.marginals(self._learned.model, X)
        table = []
        row = sparse.csr_array(X)
        for j, label in enumerate(self.classes_.tolist()):
            amounts = self._amounts(row, j, marginals)
            features = [(i, amount) for source, i, amount in amounts if source == "feature"]
            features = sorted(features, key=lambda pair: -abs(pair[1]))
            table += [
                (label, "feature", str(feature_names[i]), amount) for i, amount in features[:n_features] if amount
            ]
            if "explain" in self._learned.model.supports:
                table.append((label, "feature", "others", sum((amount for _, amount in features[n_features:]), 0.0)))
            for source, name, amount in amounts:
                if source == "label":
                    table += [(label, source, str(self.classes_[name]), amount)] if amount else []
                elif source != "feature":
                    table.append((label, source, name, amount))
            if self._graph.constraints:
                table.append((label, "rules", "", float(marginals[j] - free[j])))
        return table

    def _amounts(self, X, j, marginals):
        """Return the terms of the score of label j of one sample, a CSR matrix: list of (source, name, amount).

        The name of a feature is its index, and that of another label the index of that label.
        """
        network = self._learned.model
        if "explain" not in network.supports:
            terms = [("score", "network", float(network.scores(X)[0, j]))]
        else:
            values = X.data * network.coefs[0][X.indices, j]
            terms = [("feature", i, amount) for i, amount in zip(X.indices.tolist(), values.tolist())]
            terms.append(("intercept", "", float(network.intercepts[0][j])))
        for e in np.flatnonzero((self.edges_ == j).any(axis=1)):
            other = int(self.edges_[e].sum() - j)
            terms.append(("label", other, float(self.edge_scores_[e] * marginals[other])))
        return terms

    def _check_one(self, x):
        """Return a single sample, checked as those of `predict`."""
        X = self._check_predict(x)
        if X.shape[0] != 1:
            raise ValueError(f"x must be one sample, of shape (1, {X.shape[1]}); got {X.shape[0]}")
        return X

    @property
    def edges_(self) -> NDArray[np.int64]:
        self = whole(self)
        return self._fitted("_graph").edges

    @property
    def edge_scores_(self) -> NDArray[np.float64]:
        self = whole(self)
        return self._fitted("_learned").model.additional

    @property
    def coefs_(self) -> list[NDArray[np.float64]]:
        self = whole(self)
        return self._layers("coefs_").coefs

    @property
    def intercepts_(self) -> list[NDArray[np.float64]]:
        self = whole(self)
        return self._layers("intercepts_").intercepts

    @property
    def coef_(self) -> NDArray[np.float64]:
        self = whole(self)
        if "explain" not in self._fitted("_learned").model.supports:
            raise AttributeError(_not_in("coef_ is for linear scores", self.chosen_score_model_))
        return self.coefs_[0].T

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        self = whole(self)
        coefs = self._layers("feature_importances_").coefs
        return reduce(np.matmul, map(np.abs, coefs)).sum(axis=1)

    def _layers(self, name):
        """Return the fitted network, of which linear scores have no hidden layer; raise AttributeError without one."""
        model = self._fitted("_learned").model
        if not isinstance(model, NetworkModel):
            raise AttributeError(_not_in(f"{name} is for linear scores and networks", self.chosen_score_model_))
        return model

    @property
    def score_model_(self) -> Any:
        self = whole(self)
        return self._fitted("_learned").model.public

    @property
    def chosen_score_model_(self) -> Any:
        self = whole(self)
        model = self._fitted("_learned").model
        return fitted_description(description_of(self.score_model), self._chosen, model)

    @property
    def _network(self):
        """The description of the fitted network; None for linear scores."""
        found = self.chosen_score_model_
        return found if isinstance(found, Network) else None

    def _in_order(self, y):
        """Return label sets as an indicator matrix, with named columns in the order of `classes_`."""
        return self._targets.in_order(y)

    def _fitted(self, name):
        check_is_fitted(self)
        return self.__dict__[name]

    def _check_predict(self, X):
        check_is_fitted(self)
        if isinstance(X, RaggedArray):
            raise ValueError("X is a RaggedArray; multilabel problems have one row of features a sample, a 2-D array")
        check_parameters(self, ["n_jobs"])
        self._check_whole()
        X = validate_data(self, check_matrix(X), accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        check_magnitude(ragged_of_checked(X, np.arange(X.shape[0] + 1)))
        return X

    def _check_whole(self):
        """Raise ValueError unless the fitted attributes, which users may assign, are consistent."""
        n_labels = self._graph.n_labels
        if np.shape(self.classes_) != (n_labels,):
            raise ValueError(
                f"classes_ has shape {np.shape(self.classes_)}, but the model has {n_labels} outputs; assign one label "
                "for each, or fit again"
            )
        model = self._learned.model
        sizes = self.n_features_in_, n_labels, len(self._graph.edges)
        if isinstance(model, NetworkModel):
            model.check(*sizes)
        elif model.sizes != sizes:
            raise ValueError(
                f"the model has {model.sizes} features, labels and edges, but the estimator {sizes}; fit again"
            )

    @classmethod
    def _from_plain(cls, parameters, fitted, learned):
        for values, name in (parameters, "decision"), (fitted, "_rule"):
            if name in values:
                values[name] = OLD_RULES.get(values[name], values[name])
        return super()._from_plain(parameters, fitted, learned)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_graph")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _not_in(text, score_model):
    """Return the message of an error for an attribute that a score model does not have."""
    return (
        f"{text}, and this model has scores of {score_model!r}; sklearn.inspection.permutation_importance measures "
        "the importance of features for any model"
    )
