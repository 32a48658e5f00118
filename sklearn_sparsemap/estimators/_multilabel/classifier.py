"""MultilabelLPSparseMAP: joint prediction of label sets."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..._core.annotations import Any, ArrayLike, NDArray, Self, Sequence
from ..._core.ragged import RaggedArray
from ..._core.validation import (
    FRACTION,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_INT,
    Number,
    check_magnitude,
    check_matrix,
    check_parameters,
    check_positive,
    check_sample_weight,
)
from ...inference._labels import LabelGraph, OneLabel
from ...losses._labels import LABEL_LOSSES
from ...training._data import LinearModel
from ...training._label_task import dense
from ...training._minibatch import MinibatchOptimizer
from ...training._network import Network
from .._fitting import Batch, Epochs, learn_batch, leaves_whole, relative, visits, warn_of_inference
from .._progress import CallbackSupportMixin, Progress, with_callbacks
from .._structured.labels import check_target, encode_labels, given_classes
from .base import DECISIONS, LabelSetClassifier, blocks
from .data import (
    automatic_alpha,
    folds_by_content,
    leave_out_violations,
    read_constraints,
    read_edges,
    read_indicator,
    read_known,
    read_names,
)
from .sets import SeenSets
from .threshold import RunningThreshold, Tuning

if TYPE_CHECKING:
    from ...factors._label_constraints import LabelConstraint

_SOLVERS = ("auto", "lbfgs", "adam")
# Maximum number of iterations of L-BFGS or epochs of Adam, and tolerance of the gradient of L-BFGS.
_MOST_ITER, _LBFGS_TOL = {"lbfgs": 1000, "adam": 200}, 1e-5
_BATCH_SIZE = 64
# L2 penalty of Adam if alpha="auto".
_ADAM_ALPHA = 1e-4
_NETWORK_RATE = 0.001
# Without hidden layers, weights start at zero and have farther to go. If an epoch has few steps, these must be long; if
# it has many, long steps make the final weights noisy.
_LINEAR_RATES, _FEW_STEPS = (0.003, 0.01), 2
_SEVERAL_LABELS = (
    "pass an indicator matrix of 0 and 1, as sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y) makes it"
)
# Indicator matrices with at most this many cells are stored as dense arrays in training, which is faster.
_DENSE_CELLS = 2**23
# With fewer held-out samples than this, a threshold is tuned on the training samples.
_FEWEST_HELD_OUT = 50


class MultilabelLPSparseMAP(CallbackSupportMixin, LabelSetClassifier):
    """Multilabel classifier that predicts all labels of a sample together, by LP-SparseMAP.

    A linear model or a network scores each label, and each edge of the label graph has a learned score for its two
    labels being on together. Prediction is inference in the factor graph of these scores, with constraints on which
    labels go together. The losses are differentiated through this inference, so network and edges learn together [1]_.

    Parameters
    ----------
    label_graph : {"full", "tree"}, None, or array-like of shape (n_edges, 2), default=None
        Pairs of labels that get a score, by names or indices of labels. None means no edges, which is as good or better
        on most data (see the notes). ``"full"`` means all pairs; with more than 200 labels, the three pairs for each
        label that have the most mutual information in the training data (`partial_fit`: in the first mini-batch), or
        for hinge those of the tree. ``"tree"`` is the spanning tree with the most mutual information. Training with
        loss="logistic", and classification with one label for each sample, use no edges.
    constraints : list of constraints, default=None
        `AtMost`, `AtLeast`, `Exactly`, `Exclusive`, `Implies`, `Hierarchy` from `sklearn_sparsemap.factors`. They hold
        in training (except for loss="logistic") and in every prediction. Training samples that violate them are left
        out, with a warning that counts them.
    hidden_layer_sizes : tuple of int, default=()
        Sizes of the hidden layers (ReLU). By default, scores are linear in the features.
    loss : {"sparsemap", "hinge", "logistic"}, default="sparsemap"
        - ``"sparsemap"``: the Fenchel-Young loss of LP-SparseMAP.
        - ``"hinge"``: the structured hinge of the linear relaxation of MAP; the cost is the number of wrong labels.
        - ``"logistic"``: independent labels, the baseline.
    temperature : float, default=1.0
        Scores are divided by it in the loss and in `predict_proba`: the higher, the more labels have a probability.
    alpha : float or "auto", default="auto"
        Strength of the penalty ``alpha / 2 * |w|^2`` on the network's weights, without intercepts. ``"auto"`` is, with
        L-BFGS, 0.02 times the summed variance of the features over the root of the number of samples, so that it suits
        features at any scale; with Adam 1e-4.
    edge_alpha : float, default=1e-3
        Strength of the penalty on the edge scores.
    learning_rate_init : float, default=None
        Learning rate of Adam. Default: 0.001 for networks. For linear scores, between 0.01 if an epoch has one or two
        mini-batches, and 0.003 if it has twenty or more; 0.01 in streams.
    edge_learning_rate_init : float, default=None
        Learning rate of Adam for the edge scores. Default: that of the network.
    dropout : float, default=0.0
        Fraction of the hidden units that are dropped at each step of training.
    batch_size : int, default=None
        Samples in a mini-batch. Default: 64 (or all, if there are fewer).
    max_iter : int, default=None
        Maximum number of epochs of Adam (default: 200), or of iterations of L-BFGS (default: 1000).
    tol : float, default=None
        Adam stops if an epoch lowers the loss by at most `tol` (default: 1e-3) times the mean loss of all epochs so
        far, on average over the last `n_iter_no_change` epochs; with early stopping, if for so many epochs the
        validation score has not improved, nor the mean loss on held-out samples by this amount. L-BFGS stops if no
        entry of the gradient is larger than `tol` (default: 1e-5).
    n_iter_no_change : int, default=10
    early_stopping : bool, default=False
        Whether to hold out a part of the samples, to stop when the score and the loss on them no longer improve, and to
        return the last model with the best score. The score is the example F1 at the best threshold, or that of the
        fixed decision rule.
    validation_fraction : float, default=0.1
        The part to hold out, for early stopping and for ``threshold="auto"``, of Adam.
    decision : {"auto", "seen", "threshold", "map"}, default="auto"
        How `predict` chooses labels. All satisfy all constraints.

        - ``"seen"``: of the label sets of the training data (in `fit`) the one from which most is to be expected,
          example F1 and being right as a whole together. The probability of a set grows with its sum of marginals less
          threshold, and with how much more often it was seen than if labels had nothing to do with each other. Where
          each set's sum lacks more than 2 to the best of all sets, as ``"threshold"``.
        - ``"auto"``: ``"seen"``, but ``"threshold"`` where less than a tenth of the training samples share their set
          with another one, where the threshold is tuned and this is better on held-out samples, and after `partial_fit`
          alone.
        - ``"threshold"``: those whose marginal is above the threshold; where that violates a constraint, the feasible
          set of the highest sum of marginals less threshold.
        - ``"map"``: the feasible set that is best under the objective of the loss, edges included: for the SparseMAP
          loss, half the temperature is taken off the score of each label. By the linear relaxation, and where it is
          fractional a mixed-integer programme.
    threshold : float or "auto", default=0.5
        From 0 to below 1. ``"auto"`` tunes it for example F1: with L-BFGS by cross-validation, whose three folds depend
        on the samples only, not on a seed; with Adam on held-out samples, or on the training samples if fewer than 50
        would be held out. Where seen sets may be chosen, of all that are within a point of the highest F1 the one with
        the most whole sets is taken. In `partial_fit`, each mini-batch is held out until it has been predicted.
        See the notes for which one serves which metric.
    label_names : array-like of shape (n_labels,), default=None
        Names for `constraints`, `label_graph` and `classes_`. None takes the columns of a DataFrame, else indices.
    shuffle : bool, default=True
        Whether samples are visited in a new random order in each epoch.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, the dropout, the shuffling and the held-out part.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    verbose : int, default=0
        1 reports the first epochs and every tenth, 2 reports all.
    map_time_limit : float or None, default=1.0
        Maximum number of seconds for the best set of a sample, relaxation and mixed-integer programme together. If time
        runs out, the best set found is returned, which satisfies all constraints, with a ConvergenceWarning that names
        the samples and the largest possible loss. None sets no limit: some 10 s for a sample of 40 labels that attract
        and repel each other at random.
    solver : {"auto", "lbfgs", "adam"}, default="auto"
        - ``"lbfgs"``: the minimum over all samples, from no seed, in no epochs. For linear scores without edges, where
          the loss is smooth: "sparsemap", with or without constraints, or "logistic".
        - ``"adam"``: mini-batches; for all else, and in `partial_fit`.
        - ``"auto"``: lbfgs if it is possible and there is no early stopping.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels' names.
    edges_ : int ndarray of shape (n_edges, 2)
        Indices of the labels of each edge.
    edge_scores_ : ndarray of shape (n_edges,)
        Learned scores: positive where labels attract each other, negative where they repel.
    coefs_, intercepts_ : lists of ndarray
        Weights of the layers.
    threshold_ : float
    n_violations_ : int
        Training samples that violated a constraint and were left out.
    n_features_in_, n_iter_ : int
    loss_curve_ : list of float
        Mean loss during each epoch plus the penalty (`partial_fit`: mean loss of each mini-batch).
    validation_scores_ : list of float
        With early stopping: the score after each epoch.

    See Also
    --------
    sklearn_sparsemap.plotting.LabelGraphDisplay : Draws the learned label graph.
    sklearn_sparsemap.metrics.example_f1_score : The score that thresholds are tuned for.

    Notes
    -----
    `y` is an indicator matrix of shape (n_samples, n_labels), dense or sparse. A 1-D `y` is a classification problem
    with one label a sample: exactly one label is on, and `predict` returns the one of the highest score.

    Metrics want different labels to be predicted. What serves which:

    ======================================================= =========================================================
    metric                                                  setting
    ======================================================= =========================================================
    subset accuracy, which is `score`                       ``threshold=0.5``
    Hamming loss                                            ``threshold=0.5``, ``decision="threshold"``
    example F1; as a rule also micro and macro F1           ``threshold="auto"``
    example F1 and nothing else                             ``threshold="auto"``, ``decision="threshold"``
    another metric                                          ``threshold`` by `GridSearchCV` with its ``scoring``
    rankings, such as average precision                     no threshold: `predict_marginals`, or `decision_function`
    ======================================================= =========================================================

    Where labels are rare, the threshold of the highest F1 is far below 0.5 where labels are decided one by one: more
    are found, and fewer sets are right as a whole.

    **Edges.** The regulariser of LP-SparseMAP does not see the pairs: two labels may be on together as often as their
    marginals allow, and only where the training data have more or less than that does the loss want an edge. Linear
    scores leave little of that. What labels have to do with each other is in the sets that were seen:
    ``decision="seen"`` gains more, and costs no training. Edges serve networks, and show what attracts and repels.

    Inference first settles labels by bounds on what their edges can do, which leaves a few open labels in each sample,
    and keeps nothing in memory between epochs.

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
    ...     constraints=[Implies("jazz", "music")], label_names=["jazz", "music", "live"], random_state=0
    ... ).fit(X, Y)
    >>> model.predict([[2.0, 1.0, 0.0]])
    array([[1, 1, 1]])
    """

    # Those that are "no_validation" are checked where they are read, and messages there say more.
    _parameter_constraints = {
        "label_graph": "no_validation",
        "constraints": "no_validation",
        "hidden_layer_sizes": "no_validation",
        "loss": [StrOptions(set(LABEL_LOSSES))],
        "temperature": [POSITIVE],
        "alpha": [NOT_NEGATIVE, StrOptions({"auto"})],
        "edge_alpha": [NOT_NEGATIVE],
        "learning_rate_init": [POSITIVE, None],
        "edge_learning_rate_init": [POSITIVE, None],
        "dropout": [Number(Real, 0, 1, closed="left")],
        "batch_size": [POSITIVE_INT, None],
        "max_iter": [POSITIVE_INT, None],
        "tol": [NOT_NEGATIVE, None],
        "n_iter_no_change": [POSITIVE_INT],
        "early_stopping": ["boolean"],
        "validation_fraction": [FRACTION],
        "decision": [StrOptions(set(DECISIONS))],
        "map_time_limit": [POSITIVE, None],
        "threshold": [StrOptions({"auto"}), Number(Real, 0, 1, closed="left")],
        "label_names": "no_validation",
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
        "solver": [StrOptions(set(_SOLVERS))],
    }

    def __init__(
        self,
        label_graph: Literal["full", "tree"] | ArrayLike | None = None,
        constraints: Sequence[LabelConstraint] | LabelConstraint | None = None,
        hidden_layer_sizes: Sequence[int] = (),
        loss: Literal["sparsemap", "hinge", "logistic"] = "sparsemap",
        temperature: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        edge_alpha: float = 1e-3,
        learning_rate_init: float | None = None,
        edge_learning_rate_init: float | None = None,
        dropout: float = 0.0,
        batch_size: int | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        decision: Literal["auto", "seen", "threshold", "map"] = "auto",
        threshold: float | Literal["auto"] = 0.5,
        label_names: Sequence[Any] | None = None,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
        map_time_limit: float | None = 1.0,
        solver: Literal["auto", "lbfgs", "adam"] = "auto",
    ) -> None:
        self.label_graph = label_graph
        self.constraints = constraints
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.temperature = temperature
        self.alpha = alpha
        self.edge_alpha = edge_alpha
        self.learning_rate_init = learning_rate_init
        self.edge_learning_rate_init = edge_learning_rate_init
        self.dropout = dropout
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.decision = decision
        self.threshold = threshold
        self.label_names = label_names
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.map_time_limit = map_time_limit
        self.solver = solver

    @with_callbacks
    @leaves_whole
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from samples with their labels.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            Indicator matrix; or one label a sample. NaN in an indicator matrix is a label that is unknown: it is free,
            but for what the others imply by a hierarchy.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the data are not as described, no set of labels satisfies the constraints,
            or no sample does.
        """
        hidden = self._check_params()
        data = X, y
        y, known = read_known(y)
        X, gold, classes, single = self._check_data(X, y, reset=True, has_unknown=known is not None)
        weights = check_sample_weight(sample_weight, len(X))
        graph = self._make_graph(classes, single, gold, weights)
        self._check_known(known, graph)
        X, gold, weights, known, n_violations = leave_out_violations(graph, X, gold, weights, known)
        self._begin(graph, classes, single, n_violations)
        if self._resolve_solver(hidden, graph) == "lbfgs":
            return self._fit_lbfgs(data, X, gold, weights, known)
        return self._fit_adam(data, X, gold, weights, known, hidden)

    def _fit_lbfgs(self, data, X, gold, weights, known):
        """Minimise over all samples; a threshold is tuned by cross-validation."""
        kept = np.flatnonzero(weights)
        if len(kept) < len(X):
            X, gold, weights, known = X[kept], gold[kept], weights[kept], None if known is None else known[kept]
        task = self._task(gold=dense(gold), weights=weights, known=known)
        self._running = None
        self._watch_sets(task)
        learner = self._batch(task, X)
        monitor = self.monitor_class(self, Progress(self, *data, learner.max_iter))
        monitor.follow(learner)
        monitor.take()
        if self._tunes_threshold(self._single):
            tuning, model, sets = self._new_tuning(), self._model, None
            folds = folds_by_content(X.values, gold)
            for train, held in folds or [(np.arange(len(weights)),) * 2]:
                if folds:
                    part = self._batch(task.take(train), X[train])
                    part.run(lambda loss: False)
                    model = part.expand(part.model())
                    sets = SeenSets(gold[train], weights[train]) if known is None else None
                self._tune(tuning, model, X.values[held], task.take(held), sets)
            self.threshold_, self._draws = tuning.best()
        monitor.end()
        return self

    def _batch(self, task, X):
        """Return the learner of linear scores by L-BFGS."""
        start = LinearModel.zeros(X.values.shape[1], task.n_outputs, 0)
        alpha = automatic_alpha(X.values, task.weights) if self.alpha == "auto" else self.alpha
        tol, max_iter = _LBFGS_TOL if self.tol is None else self.tol, self._most_iter("lbfgs")
        return Batch(task, X, start, _as_network, alpha=alpha, tol=tol, max_iter=max_iter, n_jobs=self.n_jobs)

    def _fit_adam(self, data, X, gold, weights, known, hidden):
        """Learn from mini-batches; a threshold is tuned, and training stopped, on held-out samples."""
        rng = check_random_state(self.random_state)
        max_iter, tunes = self._most_iter("adam"), self._tunes_threshold(self._single)
        task, held_out = self._task(gold=gold, weights=weights, known=known), None
        n_held = int(np.ceil(self.validation_fraction * len(X))) if self.early_stopping or tunes else 0
        if n_held and (self.early_stopping or n_held >= _FEWEST_HELD_OUT):
            train, held = self._split(gold, self._single, rng)
            if weights[train].any():
                held_out = X.values[held], task.take(held)
                X, task = X[train], task.take(train)
                if not held_out[1].weights.any():
                    held_out[1].weights = np.ones(len(held))
        self._watch_sets(task)
        task.weights = relative(task.weights)
        if np.prod(task.gold.shape) <= _DENSE_CELLS:
            task.gold = dense(task.gold)
        model, self._running = self._initial(X.values, hidden, rng), None
        watch = {"watch_loss": True}
        if self.early_stopping and held_out:
            watch["validate"] = lambda model: self._validate(model, *held_out)
            watch["held_out_loss"] = lambda model: self._held_out_loss(model, *held_out)
        monitor = self.monitor_class(self, Progress(self, *data, max_iter), **watch)
        optimizer = self._configure(MinibatchOptimizer(model, rng), len(X))
        monitor.follow(Epochs(optimizer, visits(self, optimizer, task, X, rng), max_iter))
        monitor.take()
        if tunes:
            tuning = self._new_tuning()
            self._tune(tuning, self._model, *(held_out or (X.values, task)), self._sets if held_out else None)
            self.threshold_, self._draws = tuning.best()
        self._watch_sets(self._task(gold=gold, weights=weights, known=known), self._draws if tunes else None)
        monitor.end()
        return self

    @leaves_whole
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from a mini-batch: one pass over its samples, in their order.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_labels,), default=None
            All labels that can occur; for a 1-D `y` needed at the first call. For an indicator matrix they are
            optional, and name its columns.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit` does; also if the labels differ from those of the first call.
        """
        task, X = self._take_in(X, y, classes, sample_weight)
        if task is None:
            return self
        self._model = self._configure(self._optimizer, len(X), stream=True).model()
        self._tune_along(task, X)
        n_inexact = self._optimizer.unconverged
        self.loss_curve_.append(learn_batch(self, self._optimizer, task, X))
        warn_of_inference(self._optimizer.unconverged - n_inexact)
        return self

    def _take_in(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X.

        The task is None if no sample has a weight.
        """
        hidden = self._check_params()
        y, known = read_known(y)
        first = not hasattr(self, "_graph")
        if not first:
            self._check_whole()
        X, gold, classes, single = self._check_data(
            X, y, reset=first, classes=classes, partial=True, has_unknown=known is not None
        )
        weights = check_sample_weight(sample_weight, len(X))
        if first:
            graph = self._make_graph(classes, single, gold, weights)
        else:
            graph = self._graph
            given = [constraint for constraint, _ in read_constraints(self.constraints, classes)]
            if given != [constraint for constraint, _ in graph.constraints]:
                raise ValueError("constraints cannot change between calls of partial_fit; fit a clone")
        self._check_known(known, graph)
        X, gold, weights, known, n_violations = leave_out_violations(graph, X, gold, weights, known, partial=True)
        if first:
            rng = check_random_state(self.random_state)
            self._begin(graph, classes, single, 0)
            self._model = self._initial(X.values, hidden, rng)
            self._optimizer = self._running = self._sets = None
            self._draws = False
            self.n_iter_, self.loss_curve_ = 0, []
        elif self.loss != self._loss and "logistic" in (self.loss, self._loss):
            raise ValueError(f"loss={self.loss!r}, but the model was fitted with {self._loss!r}; fit a clone")
        elif (fitted := [c.shape[1] for c in self._model.coefs[:-1]]) != hidden:
            raise ValueError(f"hidden_layer_sizes differ from the fitted model's, {tuple(fitted)}; fit a clone")
        self._loss = self.loss
        self.n_violations_ += n_violations
        if not weights.any():
            return None, X
        if self._optimizer is None:
            self._optimizer = self._new_begin()
        return self._task(gold=gold, weights=weights, known=known), X

    def _new_begin(self):
        """Return an optimiser that starts from the current model."""
        return MinibatchOptimizer(self._model.copy(), check_random_state(self.random_state))

    def _took_state(self):
        self._model = self._optimizer.model()

    def _labels_in(self, y):
        """Return the labels that occur; None for an indicator matrix, which has a column for each label."""
        return None if sparse.issparse(y) or np.ndim(y) == 2 else set(np.asarray(y).tolist())

    def _configure_epoch(self, n_samples, number=0):
        self._model = self._configure(self._optimizer, n_samples).model()

    def _begin_pass(self):
        self.n_violations_ = 0

    def _validation_score(self, X, y):
        task, X = self._held_out(X, y)
        return self._validate(self._model, X.values, task)

    def _held_out(self, X, y):
        y, known = read_known(y)
        X, gold, _, _ = self._check_data(X, y, reset=False, has_unknown=known is not None)
        return self._task(gold=gold, weights=np.ones(len(X)), known=known), X

    def _end_partitions(self, held):
        self.threshold_ = 0.5 if self.threshold == "auto" else float(self.threshold)
        if self._tunes_threshold(self._single):
            task, X = self._held_out(*held.read_first())
            tuning = self._new_tuning()
            self._tune(tuning, self._model, X.values, task, self._sets)
            self.threshold_, self._draws = tuning.best()

    def _tune_along(self, task, X):
        """Tune the threshold on samples of a stream before they are learned from."""
        if self.threshold != "auto":
            self.threshold_ = float(self.threshold)
        elif self._tunes_threshold(self._single):
            if self._running is None:
                self._running = RunningThreshold()
            for held in self._known_marginals(self._model, X.values, task):
                self._running.update(*held)
            self.threshold_ = self._running.threshold

    def _configure(self, optimizer, n_samples, stream=False):
        """Let an optimiser take over the parameters, which may have changed since it was made; return it."""
        batch_size = min(n_samples, _BATCH_SIZE if self.batch_size is None else self.batch_size)
        rate = self.learning_rate_init
        if rate is None and len(self.hidden_layer_sizes):
            rate = _NETWORK_RATE
        elif rate is None:
            n_steps = 1.0 if stream else n_samples / batch_size
            rate = float(np.clip(_LINEAR_RATES[1] * np.sqrt(_FEW_STEPS / n_steps), *_LINEAR_RATES))
        optimizer.configure(
            rates=(rate, rate if self.edge_learning_rate_init is None else self.edge_learning_rate_init),
            alphas=(_ADAM_ALPHA if self.alpha == "auto" else self.alpha, self.edge_alpha),
            batch_size=batch_size,
            n_jobs=self.n_jobs,
            dropout=self.dropout,
        )
        return optimizer

    def _begin(self, graph, classes, single, n_violations):
        """Note what the model is of."""
        self._graph, self.classes_, self._single, self._loss = graph, classes, single, self.loss
        self.n_violations_ = n_violations
        self.threshold_ = 0.5 if self.threshold == "auto" else float(self.threshold)

    def _initial(self, X, hidden, rng):
        return Network.initial([X.shape[1], *hidden, len(self.classes_)], len(self._graph.edges), rng)

    def _watch_sets(self, task, draws=None):
        """Note the label sets of training samples, of those that are known in full."""
        gold, weights = sparse.csr_array(task.gold), task.weights
        if task.known is not None:
            whole = np.flatnonzero(task.known.all(axis=1))
            gold, weights = gold[whole], weights[whole]
        self._sets = None if self._single or not weights.any() else SeenSets(gold, weights)
        # With unknown labels, the fully known samples are few and not representative, so seen sets are not used.
        recur = self._sets is not None and self._sets.recur and task.known is None
        self._draws = recur if draws is None else draws

    def _resolve_solver(self, hidden, graph):
        """Return the solver: "lbfgs" or "adam"."""
        obstacles = {
            "hidden_layer_sizes": bool(hidden),
            "label_graph": len(graph.edges) > 0,
            "loss='hinge'": self.loss == "hinge",
            "early_stopping": self.early_stopping,
        }
        named = [name for name, is_there in obstacles.items() if is_there]
        if self.solver == "lbfgs" and named:
            raise ValueError(
                f"solver='lbfgs' is for linear scores, smooth losses and no edges, up to the end; it cannot be with "
                f"{' and '.join(named)}; use solver='auto'"
            )
        return "adam" if named or self.solver == "adam" else "lbfgs"

    def _most_iter(self, solver="adam"):
        return _MOST_ITER[solver] if self.max_iter is None else self.max_iter

    def _make_graph(self, classes, single, gold, weights):
        constraints = read_constraints(self.constraints, classes)
        if single:
            if constraints:
                raise ValueError("constraints are for indicator matrices; a 1-D y has exactly one label a sample")
            return OneLabel(len(classes))
        edges = read_edges(self.label_graph, classes, gold, weights, loops=self.loss != "hinge")
        if self.loss == "logistic":
            edges = edges[:0]
        graph = LabelGraph(len(classes), edges, constraints)
        graph.check_feasible()
        return graph

    def _split(self, gold, single, rng):
        """Split samples into those to train on and those to hold out."""
        n = gold.shape[0]
        n_held = int(np.ceil(self.validation_fraction * n))
        if n_held >= n:
            raise ValueError(
                f"early_stopping with validation_fraction={self.validation_fraction!r} would hold out all of the {n} "
                "samples; lower it, or take more samples"
            )
        counts = np.bincount(gold.indices, minlength=gold.shape[1]) if single else np.zeros(1)
        can_stratify = single and counts[counts > 0].min() > 1 and (counts > 0).sum() <= min(n_held, n - n_held)
        return train_test_split(
            np.arange(n),
            test_size=self.validation_fraction,
            random_state=rng.randint(2**31 - 1),
            stratify=gold.indices if can_stratify else None,
        )

    def _check_known(self, known, graph):
        if known is not None and (self.loss == "hinge" or not (graph.is_plain or graph.forest is not None)):
            raise ValueError(
                "y has NaN for labels that are unknown; these need loss='sparsemap' or 'logistic', no edges, and no "
                "constraints but such that each label implies one other at most"
            )

    def _tunes_threshold(self, single):
        return self.threshold == "auto" and self.decision != "map" and not single

    def _new_tuning(self):
        return Tuning(plain=self.decision != "seen", seen=self.decision != "threshold")

    def _tune(self, tuning, model, X, task, sets):
        """Let thresholds be compared on samples; `sets` are those that are taken as seen."""
        for marginals, gold, weights in self._known_marginals(model, X, task):
            tuning.add(marginals, gold, weights, sets)

    def _known_marginals(self, model, X, task):
        """Yield marginals, gold labels and weights of samples; what is unknown counts as neither right nor wrong."""
        for rows in blocks(X.shape[0], task.n_outputs):
            marginals = self._marginals(model, X[rows])
            marginals = marginals if task.known is None else np.where(task.known[rows], marginals, 0.0)
            yield marginals, dense(task.gold[rows]), task.weights[rows]

    def _validate(self, model, X, task):
        """Score a model on held-out samples."""
        if self._tunes_threshold(self._single):
            tuning = self._new_tuning()
            self._tune(tuning, model, X, task, self._sets)
            return tuning.f1()
        chosen = self._choose(model, X)
        chosen = chosen if task.known is None else chosen & task.known
        return task.agreement(dense(task.gold) > 0.5, chosen, task.weights)

    def _held_out_loss(self, model, X, task):
        """Return the mean loss on held-out samples."""
        blocked = blocks(X.shape[0], task.n_outputs)
        parts = [task.take(np.arange(rows.start, rows.stop)) for rows in blocked]
        total = sum(
            part.loss_gradient(model.scores(X[rows]), model.additional, self.n_jobs)[0]
            for part, rows in zip(parts, blocked, strict=True)
        )
        return total / task.weights.sum()

    def _check_params(self):
        """Check the parameters; return the sizes of the hidden layers."""
        check_parameters(self)
        if isinstance(self.hidden_layer_sizes, str) or not hasattr(self.hidden_layer_sizes, "__len__"):
            raise ValueError(f"hidden_layer_sizes must be a tuple such as (100,); got {self.hidden_layer_sizes!r}")
        for size in self.hidden_layer_sizes:
            check_positive("each of hidden_layer_sizes", size, integer=True)
        return [int(size) for size in self.hidden_layer_sizes]

    def _check_data(self, X, y, reset, classes=None, partial=False, has_unknown=False):
        """Check training data; with `has_unknown` a single column is an indicator, some entries of which were NaN.

        Returns
        -------
        X : RaggedArray
        gold : CSR of shape (n_samples, n_labels)
        classes : array of shape (n_labels,)
        single : bool
            Whether y has one label a sample.
        """
        names = y
        if isinstance(X, RaggedArray):
            raise ValueError("X is a RaggedArray; multilabel problems have one row of features a sample, a 2-D array")
        check_target(y, _SEVERAL_LABELS)
        X, y = validate_data(
            self, check_matrix(X), y, accept_sparse="csr", dtype=np.float64, order="C", reset=reset, multi_output=True
        )
        X = RaggedArray._of_checked(X, np.arange(X.shape[0] + 1))
        check_magnitude(X)
        known = None if reset else self.classes_
        is_indicator = self.label_names is not None or self.constraints or hasattr(names, "columns")
        is_indicator = is_indicator or has_unknown or (known is not None and not self._single)
        if y.ndim == 2 and y.shape[1] == 1 and not sparse.issparse(y) and not is_indicator:
            # As scikit-learn reads a single column, unless something says that it is an indicator.
            y = column_or_1d(y, warn=True)
        single = y.ndim == 1
        if known is not None and single != self._single:
            was = "1-D" if self._single else "an indicator matrix"
            raise ValueError(f"y was {was} in the first call; got y of shape {y.shape}")
        if not single:
            return X, *self._check_indicator(y, names, classes, known), single
        check_classification_targets(y)
        given = given_classes(classes, known) if partial else np.unique(y)
        codes = encode_labels(y.tolist(), given, np.arange(len(y) + 1))
        gold = sparse.csr_array((np.ones(len(y)), codes, np.arange(len(y) + 1)), shape=(len(y), len(given)))
        return X, gold, given, single

    def _check_indicator(self, y, names, classes, known):
        """Return an indicator matrix as CSR, and the names of its columns.

        Parameters
        ----------
        y : array or CSR
        names : object
            `y` in the user's form, whose columns may have names.
        classes : sequence or None
            The parameter of `partial_fit`.
        known : array or None
            The names in earlier calls.
        """
        gold = read_indicator(y)
        if known is not None and gold.shape[1] != len(known):
            raise ValueError(f"y has {gold.shape[1]} labels, but the model was fitted with {len(known)}")
        if classes is not None and self.label_names is not None and list(classes) != list(self.label_names):
            raise ValueError("classes differ from label_names; give one of them")
        given = self.label_names if classes is None else classes
        given = read_names(given, names, gold.shape[1]) if known is None or classes is not None else known
        if known is not None and given.tolist() != known.tolist():
            raise ValueError("classes differ from those of the first call; fit a clone")
        return gold, given


def _as_network(model):
    """Return a linear model as a network without hidden layers."""
    return Network([model.coef.copy()], [model.intercept.copy()], np.zeros(0))
