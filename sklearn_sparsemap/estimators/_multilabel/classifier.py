"""MultilabelLPSparseMAP: joint prediction of label sets."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from ..._core.annotations import Any, ArrayLike, HasFit, Mapping, NDArray, ScoreModelName, Self, Sequence
from ..._core.available import available_if
from ..._core.indicators import label_sets, names_in, read_known
from ..._core.tables import by_samples
from ..._core.validation import (
    FRACTION,
    LARGEST_SCORE,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_INT,
    Number,
    check_choice,
    check_parameters,
    check_sample_weight,
    keep_text,
)
from ..._training._label_task import LabelTask
from ..._training._minibatch import MinibatchOptimizer
from ...losses._labels import LABEL_LOSSES
from ...score_models import Network, Trees
from .._failures import in_turn, restore_on_error
from .._learners.epochs import partial_fit_minibatch
from .._learners.held_out import check_validation
from .._learners.score_model import check_learns_from_streams, description_of, reason_against_streams
from .._monitor import CallbackSupportMixin, Progress, with_callbacks
from .._state.fitted import FittedState
from .adam import configure, initial_network, max_epochs
from .base import DECISIONS, LabelSetClassifier
from .calibration import Calibration
from .data import (
    add_ancestors,
    begin_names,
    leave_out_violations,
    make_label_graph,
    read_constraints,
    validate_samples,
)
from .descriptions import score_model_of
from .new_labels import add_labels
from .solvers import SOLVERS, choose_solver

if TYPE_CHECKING:
    from ...factors._label_constraints import LabelConstraint


class MultilabelLPSparseMAP(CallbackSupportMixin, LabelSetClassifier):
    """Multilabel classifier that predicts all labels of a sample together, by LP-SparseMAP.

    A linear model, a network, trees or a classifier scores each label. Each edge of the label graph has a learned
    score, which counts if both of its labels are predicted. Prediction is inference in the factor graph of these scores
    and of logical constraints on the labels. The losses are differentiated through this inference, so network and edges
    are learned jointly [1]_.

    Parameters
    ----------
    label_graph : {"full", "tree"}, None, or array-like of shape (n_edges, 2), default=None
        Pairs of labels with a learned score, by names or indices of labels. None means no edges, which is as good or
        better on most data (see the notes). ``"full"`` means all pairs. With more than 200 labels, it means the three
        pairs for each label that have the highest mutual information in the training data (`partial_fit`: in the first
        mini-batch), or for hinge those of the tree. ``"tree"`` is the spanning tree with the highest mutual
        information. Training with ``loss="logistic"``, and classification with one label for each sample, use no edges.
        Names are those in `y`, its columns if it is a DataFrame, or the argument `classes` of `fit`.
    constraints : list of constraints, default=None
        Logical constraints on labels: `AtMost`, `AtLeast`, `Exactly`, `Exclusive`, `Implies`, `Hierarchy` from
        `sklearn_sparsemap.factors`. They hold in training (except with ``loss="logistic"``) and in every prediction.
        The ancestors of true labels in a `Hierarchy` are added. Training samples that violate other constraints are
        left out, with a warning that counts them and names the constraints.
    score_model : {"auto", "linear", "network", "trees"}, Network, Trees or estimator, default="auto"
        The model of the scores of the labels.

        - ``"linear"``: linear in the features.
        - ``"network"``: a network with hidden layers. `Network` from `sklearn_sparsemap.score_models` sets its sizes
          and its training.
        - ``"trees"``: boosted regression trees, which do not depend on the units of features; see `Trees` there. The
          number of rounds is chosen by cross-validation.
        - a classifier or regressor of scikit-learn: its scores by fits to other samples are calibrated. Then a clone is
          fitted to all samples.
        - ``"auto"``: linear scores, or those of trees or of a network, if their log loss on held-out samples is lower
          (see the notes).
    loss : {"sparsemap", "hinge", "logistic"}, default="sparsemap"
        Training loss.

        - ``"sparsemap"``: the Fenchel-Young loss of LP-SparseMAP.
        - ``"hinge"``: the structured hinge of the linear relaxation of MAP; the cost is the number of wrong labels.
        - ``"logistic"``: independent labels, the baseline.
    alpha : float or "auto", default="auto"
        Strength of the penalty ``alpha / 2 * |w|^2`` on the network's weights, without intercepts. Larger values give
        smaller weights. With L-BFGS, ``"auto"`` chooses the strength with the lowest log loss of the calibrated
        probabilities, by cross-validation on five folds for up to 500 samples, and three for many. Strengths are tried
        in descending order until this loss no longer falls, and the minimum is interpolated between them. The folds
        depend on the samples only, not on a seed, nor on the order of the samples. Equal samples are spread over the
        folds, so repeating a sample is not equivalent to a weight. With Adam, ``"auto"`` is 1e-3.
    edge_alpha : float, default=1e-3
        Strength of the penalty on the edge scores.
    eta0 : float, default=None
        Learning rate of Adam for linear scores; a `Network` has its own. Default: between 0.01 if an epoch has one or
        two mini-batches, and 0.003 if it has twenty or more. In `partial_fit` and `ParameterMixing`, which visit
        samples once or a few times, it is 0.015, and that of a `Network` is multiplied by 10.
    edge_eta0 : float, default=None
        Learning rate of Adam for the edge scores. By default, it is that of the weights.
    batch_size : int, default=None
        Number of samples in a mini-batch for linear scores by Adam; a `Network` has its own. Default: 64 (or all, if
        there are fewer). In `partial_fit` and `ParameterMixing` it is 8, and at most 8 for a `Network`.
    max_iter : int, default=None
        Maximum number of epochs of Adam (default: 200), or of iterations of L-BFGS (default: 1000).
    tol : float, default=None
        Tolerance. Adam stops if an epoch lowers the loss by at most `tol` (default: 1e-3) times the mean loss of all
        epochs so far, on average over the last `n_iter_no_change` epochs. With early stopping, it stops if over as many
        epochs neither the validation score has improved, nor the mean loss on held-out samples by this amount. L-BFGS
        stops if no entry of the gradient is larger than `tol` (default: 1e-5).
    n_iter_no_change : int, default=10
        Number of epochs of Adam without improvement after which training stops; see `tol`.
    early_stopping : bool or float, default=False
        Whether to hold out a fraction of the samples, to stop when the score and the loss on them no longer improve,
        and to return the last model with the best score. The score is the example F1 at the best threshold, or that of
        the fixed decision rule. A number is the fraction to hold out.
    validation_fraction : float, default=0.1
        The fraction to hold out with Adam, for ``early_stopping=True`` and for ``threshold="auto"``, unless `fit` gets
        validation samples.
    decision : {"auto", "observed_sets", "expected_f1", "threshold", "map"}, default="auto"
        Rule by which `predict` chooses labels, from the probabilities of `predict_proba`. Predictions of all rules
        satisfy all constraints.

        - ``"observed_sets"``: the label set observed in training (in `fit`) with the highest sum of expected example F1
          and probability that the whole set is correct. The probability of a set grows with the odds of its labels, and
          with the ratio of its frequency to that expected of independent labels. At most 10,000 sets are kept.
        - ``"expected_f1"``: the label set with the highest sum of expected example F1 and probability, among all sets,
          if labels are independent given the features.
        - ``"auto"``: one of ``"observed_sets"``, ``"expected_f1"`` and ``"threshold"``, chosen by F1 on held-out
          samples, at most 1,000 of each fold. F1 is the mean of example F1 and micro F1. Of the rules within a point of
          the highest F1, the one with the highest subset accuracy is taken. A rule whose subset accuracy is more than
          two points below that of the labels above 1/2 is left out, unless its example F1 is higher by more than this
          difference. With a tuned threshold, each rule has its own. After `partial_fit` alone: ``"threshold"``.
        - ``"threshold"``: the labels whose probability exceeds the threshold. If they violate a constraint, the
          feasible set with the highest sum of probability minus threshold over its labels.
        - ``"map"``: the feasible set that maximises the objective of the loss, including edge scores. For the
          SparseMAP loss, 1/2 is subtracted from the score of each label. A linear relaxation is solved and, if its
          solution is fractional, a mixed-integer program.
    threshold : float or "auto", default=0.5
        Probability at which a label is neither favoured nor penalised, in [0, 1). A lower threshold predicts more
        labels, under all rules except "map". ``"auto"`` tunes it for the example F1 of the rule that predicts: with
        L-BFGS by cross-validation on the folds of ``alpha="auto"``; with Adam on held-out samples or, if fewer than 50
        would be held out, on a third of the samples, scored by a second model that learns from the others. For
        ``"observed_sets"``, the threshold with the highest subset accuracy is taken, among those within a point of the
        highest F1. In `partial_fit`, each mini-batch is used for tuning before it is learned from.
    shuffle : bool, default=True
        Whether samples are visited in a new random order in each epoch.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, the dropout, the shuffling and the held-out part.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    verbose : int, default=0
        1 reports each strength and fold of the cross-validation, and the first epochs and every tenth of each phase; 2
        reports all.
    solver : {"auto", "lbfgs", "adam"}, default="auto"
        Optimiser.

        - ``"lbfgs"``: the exact minimum over all samples, without a seed. It needs a smooth loss of linear scores
          without edges: "sparsemap", with or without constraints, or "logistic".
        - ``"adam"``: mini-batches, for all other models and in `partial_fit`.
        - ``"auto"``: L-BFGS if it is possible and there is no early stopping, else Adam.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels' names.
    edges_ : int ndarray of shape (n_edges, 2)
        Indices of the labels of each edge.
    edge_scores_ : ndarray of shape (n_edges,)
        Learned scores: positive if the labels attract each other, negative if they repel each other.
    coefs_, intercepts_ : lists of ndarray
        Weights of the layers of linear scores and networks.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of linear scores; other models have none.
    feature_importances_ : ndarray of shape (n_features,)
        Sum of the absolute weights of each feature over all labels; with hidden layers, of the products of absolute
        weights along all paths from the feature to a label. Comparable if features have the same scale. With `coef_` or
        this attribute, `SelectFromModel` and `RFE` of scikit-learn select features for all labels together. Models of
        trees and classifiers have none; use ``sklearn.inspection.permutation_importance``.
    decision_ : str
        The given rule, or the one that ``decision="auto"`` chose.
    threshold_ : float
        The given threshold, or the tuned one.
    score_model_ : object
        The fitted score model; for an estimator of scikit-learn, the fitted estimator, or a list of one for each label.
    chosen_score_model_ : "linear", Network, Trees or estimator
        What the parameter `score_model` could have been: the given description, or what ``"auto"`` chose.
    alpha_ : float
        Strength of the penalty on the weights, in `fit`. Zero for trees and classifiers.
    n_violations_ : int
        Number of training samples that violated a constraint and were left out.
    n_features_in_, n_iter_ : int
    loss_curve_ : list of float
        Mean loss during each epoch plus the penalty (`partial_fit`: mean loss of each mini-batch; of several
        consecutive ones after 2048 calls).
    validation_scores_ : list of float
        With early stopping: the score after each epoch.

    See Also
    --------
    sklearn_sparsemap.plotting.LabelGraphDisplay : Draws the learned label graph.
    sklearn_sparsemap.metrics.example_f1_score : The score that thresholds are tuned for.

    Notes
    -----
    `y` is an indicator matrix of shape (n_samples, n_labels), dense or sparse; or a sequence with a collection of names
    for each sample: a set, list or tuple, which may be empty. `predict` then returns tuples of names. Numbers can be
    names, too: lists of numbers are read as rows of an indicator matrix if they hold nothing but 0 and 1 or have equal
    lengths, sets are not. A 1-D `y` is a classification problem with one label for each sample: `predict` returns the
    label with the highest score.

    The best prediction depends on the metric:

    ======================================================= =========================================================
    metric                                                  setting
    ======================================================= =========================================================
    example F1 and micro F1, without many whole sets lost   the default
    subset accuracy (`score`)                               ``decision="observed_sets"``
    Hamming loss                                            ``decision="threshold"``
    example F1 alone                                        ``decision="expected_f1"``, ``threshold="auto"``
    macro F1                                                ``decision="threshold"``, ``threshold="auto"``
    another metric                                          ``threshold`` by `GridSearchCV` with its ``scoring``
    rankings, precision at k, log loss, Brier score         `predict_proba`
    ======================================================= =========================================================

    **Score models.** ``score_model="auto"`` compares linear scores, trees and networks by the log loss of held-out
    samples, and takes 10 to 50 times as long as the linear fit (page "Training in detail" of the guide). Features that
    are sparse, or of which fewer than a tenth are not zero, streams, edges, the hinge loss, early stopping and any
    other `solver` than "auto" imply linear scores.

    **Edges.** The regulariser of LP-SparseMAP does not depend on the pairs: without an edge score, two labels occur
    together as often as their marginals allow. An edge only reduces the loss if the training data deviate from that.
    With linear scores, they deviate little. ``decision="observed_sets"`` uses the dependence between labels without
    edges: it gains more, and takes no training. Edges are useful for networks, and show which labels attract or repel
    each other.

    References
    ----------
    .. [1] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import Implies
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> Y = np.stack([X[:, 0] > 0.5, X[:, 0] > 0, X[:, 1] > 0], axis=1).astype(int)
    >>> model = MultilabelLPSparseMAP(
    ...     constraints=[Implies("jazz", "music")], random_state=0
    ... ).fit(X, Y, classes=["jazz", "music", "live"])
    >>> model.predict([[2.0, 1.0, 0.0]])
    array([[1, 1, 1]])
    """

    # `LearnsInRounds` of `estimators/_rounds.py` lists what training in rounds uses. `_partitions.py` calls
    # `_prepare_stream`, `_check_params`, `_labels_in`, `_reset_pass`, `_configure_epoch`, `_iteration_limit`,
    # `_agreement_with` and `_end_partitions`, and `estimators/_state/fitted.py` calls `_make_optimizer`. `base.py`
    # names what `conformal`, `inspection` and `plotting` read.
    _former_pairs: Mapping[str, str] = {"alpha": "edge_alpha", "eta0": "edge_eta0"}
    # "no_validation" marks parameters that are checked elsewhere, with more specific messages.
    _parameter_constraints = {
        "label_graph": "no_validation",
        "constraints": "no_validation",
        "score_model": "no_validation",
        "loss": [StrOptions(set(LABEL_LOSSES))],
        "alpha": [NOT_NEGATIVE, StrOptions({"auto"})],
        "edge_alpha": [NOT_NEGATIVE],
        "eta0": [POSITIVE, None],
        "edge_eta0": [POSITIVE, None],
        "batch_size": [POSITIVE_INT, None],
        "max_iter": [POSITIVE_INT, None],
        "tol": [NOT_NEGATIVE, None],
        "n_iter_no_change": [POSITIVE_INT],
        "early_stopping": ["boolean", FRACTION],
        "validation_fraction": [FRACTION],
        "decision": [StrOptions(set(DECISIONS))],
        "threshold": [StrOptions({"auto"}), Number(Real, 0, 1, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
        "solver": [StrOptions(set(SOLVERS))],
    }

    alpha_: float
    validation_scores_: list[float]

    def __init__(
        self,
        label_graph: Literal["full", "tree"] | ArrayLike | None = None,
        constraints: Sequence[LabelConstraint] | LabelConstraint | None = None,
        score_model: ScoreModelName | Network | Trees | HasFit = "auto",
        loss: Literal["sparsemap", "hinge", "logistic"] = "sparsemap",
        alpha: float | Literal["auto"] = "auto",
        edge_alpha: float = 1e-3,
        eta0: float | None = None,
        edge_eta0: float | None = None,
        batch_size: int | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 10,
        early_stopping: bool | float = False,
        validation_fraction: float = 0.1,
        decision: Literal["auto", "observed_sets", "expected_f1", "threshold", "map"] = "auto",
        threshold: float | Literal["auto"] = 0.5,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
        solver: Literal["auto", "lbfgs", "adam"] = "auto",
    ) -> None:
        self.label_graph = label_graph
        self.constraints = constraints
        self.score_model = score_model
        self.loss = loss
        self.alpha = alpha
        self.edge_alpha = edge_alpha
        self.eta0 = eta0
        self.edge_eta0 = edge_eta0
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.decision = decision
        self.threshold = threshold
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.solver = solver

    @with_callbacks
    @restore_on_error
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Learn from samples with their labels.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like or sparse matrix of shape (n_samples, n_labels), or sequence of length n_samples
            Gold labels: an indicator matrix, a collection of names for each sample, such as a set, or one label for
            each sample. NaN in an indicator matrix is an unknown label. Unknown labels are free, except if a hierarchy
            implies them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. If it and X have an index, it is put in the order of X.
        classes : array-like of shape (n_labels,), default=None
            Names of the columns of an indicator matrix, or all names that can occur in collections. By default, the
            names of the columns of a DataFrame, the sorted names of collections, else those of a `Hierarchy` from
            edges, else indices.
        X_val, y_val : as `X` and `y`, default=None
            Validation samples for early stopping, as with ``early_stopping=True``, but no samples of `X` are held out.
            Probabilities, the threshold and the rule of ``decision="auto"`` are also fitted to them. Training is by
            Adam.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the data are not as described, no label set satisfies the constraints, or
            the gold labels of no sample do. Also if `early_stopping` is the fraction of the samples to hold out, and
            validation samples are given.
        """
        description = self._check_params()
        data = (X, y)
        held_out = None
        X, task = self._validate_fit(X, y, classes, sample_weight, first=True)
        if X_val is not None or y_val is not None:
            check_validation(self, X_val, y_val)
            held_out = self._given_validation(X_val, y_val)
        inference = self._inference
        solver = choose_solver(self, inference, X, task, description, held_out).cross_validate()
        inference.store_label_sets(solver.training_part)
        vars(self).update(inference.fitted, alpha_=solver.alpha, _chosen=solver.chosen)
        monitor = self.monitor_class(self, Progress(self, *data, solver.learner.max_iter), **solver.watch)
        monitor.run(solver.learner)
        monitor.store()
        solver.finish(self._learned.model)
        vars(self).update(inference.fitted)
        monitor.end()
        return self

    @available_if(check_learns_from_streams)
    @in_turn
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        on_new_labels: Literal["raise", "add"] = "raise",
    ) -> Self:
        """Learn from a mini-batch: one pass over its samples, in their order.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_labels,), default=None
            All labels that can occur. Required at the first call, except for an indicator matrix, whose columns they
            name.
        on_new_labels : {"raise", "add"}, default="raise"
            Whether a label of `y` that is not in `classes_` raises an error, or is added, with weights of zero and
            without edges. New labels are names in collections, new columns of a DataFrame, or new values of a 1-D `y`.
            They follow the present ones in `classes_` (for a 1-D `y`, labels remain sorted). With ``"add"``, `classes`
            is not required. Each call with new labels copies all weights.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit` does; also if the labels differ from those of the first call.
        AttributeError
            If the score model needs all samples at once: trees, or an estimator of scikit-learn. The estimator then has
            no `partial_fit`.
        """
        check_choice("on_new_labels", on_new_labels, ("raise", "add"))
        if on_new_labels == "add":
            self._check_params()
            given = add_labels(self, y, classes)
            classes = None if self.__sklearn_is_fitted__() else given
        task, X = self._prepare_stream(X, y, classes, sample_weight)
        if task is None:
            return self
        optimizer = configure(self, self._learned.optimizer, len(X), self._network, stream=True)
        self._learned = FittedState(optimizer=optimizer)
        self._tune_along(task, X)
        self._record_loss(partial_fit_minibatch(self, self._learned.optimizer, task, X))
        return self

    def _prepare_stream(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X.

        The task is None if all sample weights are zero.
        """
        description = self._check_params()
        reason = reason_against_streams(self)
        if reason is not None:
            raise ValueError(reason)
        first = not hasattr(self, "_graph")
        if not first:
            self._check_whole()
            self._check_unchanged(description)
        X, task = self._validate_fit(X, y, classes, sample_weight, first, partial=True)
        if first:
            rng = check_random_state(self.random_state)
            self._learned = FittedState(initial_network(description, X.values.shape[1], task, rng))
            self._chosen = None
            self.n_iter_, self.loss_curve_ = 0, []
        if not task.weights.any():
            return None, X
        if self._learned.optimizer is None:
            self._learned = FittedState(optimizer=self._make_optimizer())
        return task, X

    def _check_unchanged(self, description):
        """Raise ValueError if parameters on which the fitted model depends have changed since the first call."""
        given = [constraint for constraint, _ in read_constraints(self.constraints, self.classes_)]
        if given != [constraint for constraint, _ in self._graph.constraints]:
            raise ValueError("constraints cannot change between calls of partial_fit; fit a clone")
        if self.loss != self._loss and "logistic" in (self.loss, self._loss):
            raise ValueError(f"loss={self.loss!r}, but the model was fitted with {self._loss!r}; fit a clone")
        if self.score_model != "auto" and _sizes_of(description) != _sizes_of(self._network):
            raise ValueError(
                f"score_model={self.score_model!r} differs from the fitted {self.chosen_score_model_!r}; fit a clone"
            )

    def _validate_fit(self, X, y, classes, sample_weight, first, partial=False):
        """Check training samples, and lay them out; at the first call, begin a model with their labels.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `fit`, or with `partial` as in `partial_fit`.
        first : bool
            Whether this is `fit`, or the first call of `partial_fit`.
        partial : bool, default=False

        Returns
        -------
        X : RaggedArray
        task : LabelTask
            Without the samples that violate a constraint.
        """
        sample_weight = None if sample_weight is None else by_samples(sample_weight, X, "sample_weight")
        if first:
            y, classes, named = begin_names(y, classes, self.constraints, partial)
        else:
            y = self._in_order(y)
            named = self._named
        y, known = read_known(y)
        X, gold, classes, single = validate_samples(
            self, X, y, reset=first, classes=classes, partial=partial, has_unknown=known is not None
        )
        weights = check_sample_weight(sample_weight, len(X))
        if weights.max(initial=0.0) > LARGEST_SCORE:
            i = int(weights.argmax())
            raise ValueError(
                f"sample_weight[{i}] is {weights[i]:g}; weights beyond {LARGEST_SCORE:g} overflow in sums: divide all "
                "weights by the largest one"
            )
        if first:
            self._graph = make_label_graph(self, classes, single, gold, weights)
            self.classes_, self._single, self._named = classes, single, named
            self.n_violations_, self._running = 0, None
            self._sets, self._rule = None, "threshold"
            self._calibration = Calibration.unfitted(self.loss, len(classes), single)
            self.threshold_ = 0.5 if self.threshold == "auto" else float(self.threshold)
        graph = self._graph
        if known is not None and (self.loss == "hinge" or not (graph.is_plain or graph.forest is not None)):
            raise ValueError(
                "y has NaN for labels that are unknown; these need loss='sparsemap' or 'logistic', no edges, and no "
                "constraints except those by which each label implies at most one other label"
            )
        if graph.constraints:
            gold, known = add_ancestors(gold, graph.constraints, known)
            X, gold, weights, known, n_violations = leave_out_violations(graph, X, gold, weights, known, partial)
            self.n_violations_ += n_violations
        self._loss = self.loss
        return X, LabelTask(graph, self._loss, gold=gold, weights=weights, known=known)

    def _make_optimizer(self):
        """Return an optimiser that starts from the current model."""
        if "partial_fit" not in self._learned.model.supports:
            raise ValueError(f"the model has scores of {self.chosen_score_model_!r}, whose training cannot continue")
        return MinibatchOptimizer(self._learned.model.copy(), check_random_state(self.random_state))

    def _labels_in(self, y):
        """Return the set of labels that occur; None for an indicator matrix, which has a column for each label."""
        samples = label_sets(y)
        if samples is not None:
            return set(names_in(samples))
        return None if sparse.issparse(y) or np.ndim(y) == 2 else set(np.asarray(keep_text(y)).tolist())

    def _configure_epoch(self, n_samples, number=None):
        # Rounds of `distributed`, which are numbered, are few.
        options = {} if number is None else {"stream": True, "fraction": 1.0 / np.sqrt(number + 1.0)}
        optimizer = configure(self, self._learned.optimizer, n_samples, self._network, **options)
        self._learned = FittedState(optimizer=optimizer)

    def _reset_pass(self):
        self.n_violations_ = 0

    def _iteration_limit(self):
        return max_epochs(self, self._network)

    def _check_params(self):
        """Check the parameters; return the description of the score model, None for linear scores and for "auto"."""
        check_parameters(self)
        return description_of(self.score_model)

    def _tune_along(self, task, X):
        """Tune the threshold on samples of a stream before training on them."""
        inference = self._inference
        if inference.tunes_threshold:
            self._running = inference.tune_along(self._running, self._learned.optimizer.network, X.values, task)
        self.threshold_ = inference.cut

    def _end_partitions(self, held):
        self.threshold_ = 0.5 if self.threshold == "auto" else float(self.threshold)
        task, X = self._held_out(*held.read_first())
        inference = self._inference
        evidence = inference.evidence(self._learned.model, X.values)
        inference.calibrate(evidence, task)
        if inference.tunes_threshold:
            inference.cut, inference.rule, _ = inference.choose_rule([(evidence, task, inference.sets)])
        vars(self).update(inference.fitted)

    def _held_out(self, X, y):
        """Validate held-out samples; return their task, and X."""
        y, known = read_known(self._in_order(y))
        X, gold, _, _ = validate_samples(self, X, y, reset=False, has_unknown=known is not None)
        gold, known = add_ancestors(gold, self._graph.constraints, known)
        return LabelTask(self._graph, self._loss, gold=gold, weights=np.ones(len(X)), known=known), X

    def _given_validation(self, X_val, y_val):
        """Return the user's validation samples in the form of `choose_solver`."""
        try:
            task, X = self._held_out(X_val, y_val)
        except ValueError as error:
            raise ValueError(f"X_val and y_val: {error}") from error
        return X.values, task

    def _agreement_with(self, X, y):
        task, X = self._held_out(X, y)
        return len(X) * self._inference.validate(self._learned.model, X.values, task), len(X)

    @classmethod
    def _from_former(cls, values):
        values = super()._from_former(values)
        sizes = values.pop("hidden_layer_sizes", "auto")
        dropout = values.pop("dropout", None)
        if "score_model" not in values:
            values["score_model"] = score_model_of(sizes, dropout, values.get("eta0"), values.get("batch_size"))
        return values


def _sizes_of(network):
    """Return the sizes of the hidden layers of a `Network`; for linear scores there are none."""
    return () if network is None else tuple(network.hidden_layer_sizes)
