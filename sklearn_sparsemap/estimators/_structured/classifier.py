"""StructuredSparseMAPClassifier: a linear model of part scores under a structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from ..._validation import FRACTION, N_JOBS, NOT_NEGATIVE, POSITIVE, POSITIVE_INT, POSITIVE_OR_INF, check_parameters
from ...losses._fenchel_young import LOSSES, inference_of, loss_form
from ...losses._kernel import new_memory
from ...training._data import LinearModel, make_rows, make_targets
from .._fitting import (
    Monitor,
    adjust_optimizer,
    check_finite_loss,
    fit_lbfgs,
    fit_online,
    keep_if,
    leaves_whole,
    new_optimizer,
    warn_of_convergence,
    warn_of_inference,
)
from .._progress import CallbackSupportMixin, Progress, with_callbacks
from .base import LinearStructuredClassifier, is_flat, resolve_structure
from .graphs_of import GraphsOf, configure_graph_optimizer, fit_graphs, new_graph_optimizer
from .labels import check_classes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Self

    from ...factors import FactorGraph
    from ...structures import Structure

_SOLVERS = ("auto", "lbfgs", "adagrad", "mira")
_MAX_ITER = {"lbfgs": 1000, "adagrad": 100, "mira": 100}
# Up to this many weights, L-BFGS is the better choice: exact, and nothing to tune.
_MOST_BATCH_WEIGHTS = 50_000
# Beyond this many weights, only those exist that are updated, if they are few.
_MOST_DENSE_WEIGHTS = 2**22


class StructuredSparseMAPClassifier(CallbackSupportMixin, LinearStructuredClassifier):
    """Linear structured classifier, trained with a SparseMAP loss or one of its relatives.

    Scores of parts are linear in the features; a structure's score is the sum of its parts' and of learned
    additional scores (a chain's transitions, start and end). Training minimises the mean Fenchel-Young loss plus
    ``alpha/2 |w|^2`` (S 4). With 1-D `y` this is multiclass classification with the sparsemax loss.

    Parameters
    ----------
    structure : {"auto", "chain", "tree", "matching"}, Structure or callable, default="auto"
        What a sample's target is. ``"auto"``: one label (1-D `y`, 2-D `X`). ``"chain"``: one label for each step.
        ``"tree"``: the head of each word. ``"matching"``: the column of each row. A callable makes of each sample its
        `FactorGraph`; see the notes.
    loss : {"sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"}, default="sparsemap"
        The training loss, see `sklearn_sparsemap.losses.FenchelYoungLoss`. Those named ``margin_``, and hinge, ask the
        right structure to be ahead of each other one by the number of its wrong parts, or by their `cost`. (Where
        structures differ in their number of parts, missing parts count, too.)
    temperature : float, default=1.0
        Scale of the loss: small values approach a structured perceptron, large ones ask for a wider margin.
        Probabilities are those of the scores divided by it. The perceptron loss does not depend on it. Where structures
        differ in their number of parts, the losses sparsemap and margin_sparsemap predict a part that depends on no
        others if its score is above half of it.
    alpha : float, default=1e-4
        Strength of the squared penalty on all weights but the intercept.
    solver : {"auto", "lbfgs", "adagrad", "mira"}, default="auto"
        ``"lbfgs"``: exact batch optimisation by scipy, for models of moderate size; not for perceptron and hinge, which
        are not smooth. ``"adagrad"``: online, with sparse updates and averaged weights, for large models and streams.
        ``"mira"``: online, for hinge only; each step is as long as it takes to mend the sample's mistake, so that
        there is nothing to tune, and `alpha` and `eta0` are not used; weights of samples scale `C`, so that without
        a finite `C` it only matters whether they are zero. ``"auto"`` takes L-BFGS for smooth losses and up
        to 50,000 weights, else AdaGrad. `partial_fit` is always online.
    max_iter : int, default=None
        Most iterations (L-BFGS) or epochs (AdaGrad, MIRA). None is 1000 and 100.
    tol : float, default=1e-4
        L-BFGS stops when no entry of the gradient is larger; where the loss has a kink, and a bundle method goes on, no
        entry of a mean of gradients nearby. AdaGrad and MIRA stop when the mean loss (with early
        stopping: the validation score) has not improved by `tol` for `n_iter_no_change` epochs.
    eta0 : float, default=0.1
        AdaGrad's step size.
    C : float, default=inf
        MIRA's longest step.
    cost : array-like of shape (n_classes, n_classes), default=None
        For losses with a margin, and structures made of labels: the cost of predicting the label of the column where
        that of the row is right, in the order of `classes_`. None counts wrong labels, heads or pairs.
    fit_intercept : bool, default=True
        Whether each output has an intercept, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. A structured sample weighs the mean over its steps' labels.
    average : bool, default=True
        Whether AdaGrad and MIRA return the average of the weights over all steps.
    early_stopping : bool, default=False
        Whether to hold out a part of the samples, to stop when the score on them no longer improves, and to return
        the best model.
    validation_fraction : float, default=0.1
        The part to hold out.
    n_iter_no_change : int, default=5
        Epochs without improvement before training stops.
    shuffle : bool, default=True
        Whether AdaGrad and MIRA visit the samples in a new random order in each epoch.
    warm_start : bool, default=False
        Whether `fit` starts from the weights of the last call.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling and of the validation split.
    n_jobs : int, default=None
        Number of threads for L-BFGS and for prediction. Results do not depend on it. L-BFGS keeps BLAS on one thread.
    verbose : int, default=0
        1 reports the first iterations and every tenth, 2 reports all.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where structures are made of labels.
    coef_ : ndarray or CSR of shape (n_outputs, n_features)
        One output for each label; a single one for trees, matchings and others that are not made of labels. A CSR array
        where the model is large and few of its weights exist: learned online from sparse features, with more than four
        million weights, at least three outputs, and a loss other than crf and margin_crf. It may be assigned in either
        form, and keeps its own.
    intercept_ : ndarray of shape (n_outputs,)
    transitions_ : ndarray of shape (n_classes, n_classes)
        Chains: score of going from one label (row) to the next (column). Like `coef_`, `intercept_`, `start_` and
        `end_` it may be assigned, for example to forbid a transition with -inf; training then goes on from there. What
        is edited in place holds for prediction until the model is trained further.
    start_, end_ : ndarray of shape (n_classes,)
        Chains: scores of the first and of the last label.
    additional_scores_ : dict of str -> ndarray
        All learned additional scores by name, also those of a `CustomStructure`.
    n_features_in_ : int
    n_iter_ : int
        Iterations or epochs run.
    loss_curve_ : list of float
        The objective after each iteration (L-BFGS), or the mean loss during each epoch plus the penalty (AdaGrad),
        or that loss alone (MIRA).
    validation_scores_ : list of float
        With early stopping: the score after each iteration.

    Notes
    -----
    Structured data are sequences of per-sample arrays: `X` is a list, 1-D object array, Series or `RaggedArray` of 2-D
    arrays or CSR matrices of shape (n_steps, n_features), or one 3-D array; `y` is a sequence of label sequences.
    Labels may be any hashable.

    Structures that are not made of labels have one row of features for each part. For a tree over n words these are
    (n + 1) * n rows, head by head (0 is the root), or an array of shape (n + 1, n, n_features); for a matching an array
    of shape (n_rows, n_cols, n_features), or its n * n rows if it is square. A `RaggedArray` may carry such `shapes`.
    `y` holds structures as their class documents them.

    With factor graphs a sample has one row of features for each variable, in the order in which the graph made them;
    the callable gets these rows. `y` holds an array of bool (or 0 and 1) in the shape of the variables, or a dict of
    them by name. Additional scores are learned by the names of the factors, which all graphs share: one for each pair
    of a `Pair`, or one for all if it is ``tied``; a structure's learned scores for a named `StructureFactor`.
    Return the same graph object for samples of the same form where that is possible: they are then solved together.
    `predict` returns the best assignments (see `map_inference`), and the losses crf and margin_crf are not available.

    Structures that differ in their number of parts (`Subset`, `CustomStructure`, factor graphs) are predicted by the
    objective of the loss, which decides how many parts there are; see `predict` and `score`.

    Interrupting `fit` (Ctrl-C) keeps the model as it is after the last complete step, and raises KeyboardInterrupt.
    Before the first one, and after an error, the estimator is as it was.

    References
    ----------
    Niculae, Martins, Blondel, Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> X = [np.array([[1.0], [0.0], [0.9]]), np.array([[0.1], [1.1]])]
    >>> y = [["b", "a", "b"], ["a", "b"]]
    >>> model = StructuredSparseMAPClassifier(structure="chain").fit(X, y)
    >>> model.predict([np.array([[0.0], [1.0]])])[0].tolist()
    ['a', 'b']
    """

    # Those that are "no_validation" are checked where they are read, and messages there say more.
    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(LOSSES))],
        "temperature": [POSITIVE],
        "alpha": [NOT_NEGATIVE],
        "solver": [StrOptions(set(_SOLVERS))],
        "max_iter": [POSITIVE_INT, None],
        "tol": [NOT_NEGATIVE],
        "eta0": [POSITIVE],
        "C": [POSITIVE_OR_INF],
        "cost": ["array-like", None],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "average": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [FRACTION],
        "n_iter_no_change": [POSITIVE_INT],
        "shuffle": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        structure: str | Structure | Callable[[Any], FactorGraph] = "auto",
        loss: Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"] = "sparsemap",
        temperature: float = 1.0,
        alpha: float = 1e-4,
        solver: Literal["auto", "lbfgs", "adagrad", "mira"] = "auto",
        max_iter: int | None = None,
        tol: float = 1e-4,
        eta0: float = 0.1,
        C: float = np.inf,
        cost: ArrayLike | None = None,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        average: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        shuffle: bool = True,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.temperature = temperature
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.eta0 = eta0
        self.C = C
        self.cost = cost
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @leaves_whole
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from labelled samples.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features), or a sequence of such of shape (n_steps, n_features)
            The second for structured problems.
        y : array-like of shape (n_samples,), or a sequence of label sequences
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not as described; the message names the sample.
        """
        structure = self._check_params()
        data = X, y
        X, codes, classes = self._check_data(structure, X, y, reset=True)
        weights = self._sample_weights(X, codes, classes, sample_weight)
        if isinstance(structure, GraphsOf):
            return self._fit_graphs(structure, data, X, codes, weights)
        n_features, n_outputs = X.values.shape[1], 1 if classes is None else len(classes)
        form = loss_form(structure, self.loss, self.temperature, self.cost, n_outputs)
        model = self._initial_model(structure, X.values, classes)
        validate = None
        if self.early_stopping:
            # Also what is held out must be right; and what is said of y[i] is of the i-th of all samples.
            make_targets(structure, X, n_outputs, codes, weights)
            X, codes, weights, validate = self._hold_out(structure, X, codes, weights)
        # The objective is a mean: weights count relative to each other.
        weights = weights / weights.max()
        targets = make_targets(structure, X, n_outputs, codes, weights / weights.mean())
        self._begin(structure, classes)
        self._model, self._optimizer = model, None
        solver = self.solver
        if solver == "auto":
            is_small = n_features * n_outputs <= _MOST_BATCH_WEIGHTS
            solver = "lbfgs" if is_small and LOSSES[self.loss].argmax != "map" else "adagrad"
        max_iter = _MAX_ITER[solver] if self.max_iter is None else self.max_iter
        progress = Progress(self, *data, max_iter)
        monitor = Monitor(self, model, validate, progress, watch_loss=solver != "lbfgs")
        keep_if(self, lambda: monitor.begun() and not monitor.diverged, lambda: self._take(monitor))
        run = fit_lbfgs if solver == "lbfgs" else fit_online
        run(self, structure, form, X.values, targets, model, max_iter, monitor)
        self._take(monitor)
        progress.end(lambda: monitor.attributes(self._model))
        return self

    def _fit_graphs(self, structure, data, X, codes, weights):
        """Do what `fit` does for factor graphs."""
        _, _, shapes = structure.graphs(X)
        model = structure.new_model(X.values.shape[1], shapes)
        if self.warm_start and hasattr(self, "_structure"):
            self._check_same_structure(structure)
            if self._graph_shapes != shapes or self._current.coef.shape != model.coef.shape:
                raise ValueError("warm_start=True needs the features and factors of the last fit; fit a clone")
            model = self._check_finite(self._current).copy()
        validate = None
        self._graph_shapes = shapes
        if self.early_stopping:
            structure.task(X, codes, weights, shapes)
            X, codes, weights, validate = self._hold_out(structure, X, codes, weights)
        weights = weights / weights.max()
        task, _ = structure.task(X, codes, weights / weights.mean(), shapes)
        self._begin(structure, None)
        self._model, self._optimizer = model, None
        solver = self.solver
        if solver == "auto":
            is_small = len(model.coef) <= _MOST_BATCH_WEIGHTS
            solver = "lbfgs" if is_small and LOSSES[self.loss].argmax != "map" else "adagrad"
        max_iter = _MAX_ITER[solver] if self.max_iter is None else self.max_iter
        progress = Progress(self, *data, max_iter)
        monitor = Monitor(self, model, validate, progress, watch_loss=solver != "lbfgs")
        keep_if(self, lambda: monitor.begun() and not monitor.diverged, lambda: self._take(monitor))
        unconverged, message = fit_graphs(self, task, model, solver, max_iter, monitor)
        self._take(monitor)
        if message:
            warn_of_convergence(f"{message}; raise max_iter, raise alpha or scale the features")
        warn_of_inference(unconverged)
        progress.end(lambda: monitor.attributes(self._model))
        return self

    @leaves_whole
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn online from a mini-batch: one pass of AdaGrad (or MIRA) over its samples, in their order.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. Weights are absolute here: a sample of weight 2 counts as two.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur; needed at the first call, where structures are made of labels.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit` does; also at the first call without `classes`, and for a label that is not among them.
        """
        structure = self._check_params()
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all of y at once; pass a dict of weights to partial_fit")
        first = not hasattr(self, "_structure")
        if not first:
            self._check_same_structure(structure)
        if not structure.labelled:
            if classes is not None:
                raise ValueError(f"{structure!r} is not made of labels; leave classes at None")
            given = None
        elif first and classes is None:
            raise ValueError("classes must be given at the first call of partial_fit: all labels that will occur")
        elif classes is not None:
            given = check_classes(classes)
            if not first and given.tolist() != self.classes_.tolist():
                known = self.classes_.tolist()
                raise ValueError(f"classes={given.tolist()} differ from those of the first call, {known}")
        else:
            given = self.classes_
        X, codes, _ = self._check_data(structure, X, y, reset=first, classes=given)
        weights = self._sample_weights(X, codes, given, sample_weight)
        if isinstance(structure, GraphsOf):
            return self._partial_fit_graphs(structure, X, codes, weights, first)
        n_outputs = 1 if given is None else len(given)
        form = loss_form(structure, self.loss, self.temperature, self.cost, n_outputs)
        targets = make_targets(structure, X, n_outputs, codes, weights)
        if first:
            self._model = self._new_model(structure, X.values, n_outputs)
            self._optimizer = None
            self.n_iter_ = 0
            self.loss_curve_ = []
        self._begin(structure, given)
        had_optimizer = self._optimizer is not None
        if not had_optimizer:
            self._optimizer = new_optimizer(self, self._check_finite(self._model))
        else:
            adjust_optimizer(self, self._optimizer)
        # The optimiser has the weights now, also when it is interrupted.
        self._model, before = None, self._optimizer.n_steps
        keep_if(self, lambda: had_optimizer or self._optimizer.n_steps > before)
        loss = self._optimizer.epoch(
            inference_of(structure, self.loss),
            form,
            make_rows(X.values),
            targets,
            np.arange(len(X)),
            new_memory(targets.sizes, 0),
        )
        check_finite_loss(loss)
        self.n_iter_ += 1
        self.loss_curve_.append(float(loss / max(weights.sum(), np.finfo(float).tiny)))
        return self

    def _partial_fit_graphs(self, structure, X, codes, weights, first):
        """Do what `partial_fit` does for factor graphs."""
        task, shapes = structure.task(X, codes, weights, None if first else self._graph_shapes)
        if first:
            self._model = structure.new_model(X.values.shape[1], shapes)
            self._graph_shapes, self._optimizer = shapes, None
            self.n_iter_, self.loss_curve_ = 0, []
        self._begin(structure, None)
        had_optimizer = self._optimizer is not None
        if not had_optimizer:
            self._optimizer = new_graph_optimizer(self, self._check_finite(self._model))
        else:
            configure_graph_optimizer(self, self._optimizer)
        self._model, before = None, self._optimizer.n_steps
        keep_if(self, lambda: had_optimizer or self._optimizer.n_steps > before)
        loss = self._optimizer.epoch(task, self.loss, self.temperature, np.arange(len(X)), self.n_jobs)
        check_finite_loss(loss)
        self.n_iter_ += 1
        self.loss_curve_.append(float(loss / max(weights.sum(), np.finfo(float).tiny)))
        return self

    def _take(self, monitor):
        """Take over what a fit has learned so far."""
        self._model, self._optimizer = monitor.model(), None
        self.loss_curve_, self.validation_scores_ = monitor.losses, monitor.scores
        self.n_iter_ = max(1, len(monitor.losses))

    def _begin(self, structure, classes):
        """Note what the model is of."""
        self._structure, self._loss = structure, self.loss
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _check_params(self):
        """Check the parameters; return the structure."""
        check_parameters(self)
        structure = resolve_structure(self.structure)
        if isinstance(structure, GraphsOf):
            structure.check_loss(self.loss)
            if self.solver == "mira":
                raise ValueError("solver='mira' is not for factor graphs; use 'adagrad'")
            if self.cost is not None:
                raise ValueError("cost is for structures made of labels; leave it at None")
        else:
            inference_of(structure, self.loss)
        if self.solver == "lbfgs" and LOSSES[self.loss].argmax == "map":
            raise ValueError(f"loss={self.loss!r} is not smooth, which solver='lbfgs' needs; use 'adagrad'")
        if self.solver == "mira" and self.loss != "hinge":
            raise ValueError(f"solver='mira' is for loss='hinge'; got loss={self.loss!r}")
        return structure

    def _new_model(self, structure, X, n_outputs):
        """Return a model of zeros, with sparse `coef` where dense weights would be many and most of them stay zero.

        A sample then moves only the weights of its own features and of few outputs.
        """
        n_features = X.shape[1]
        is_large = n_outputs > 2 and n_features * n_outputs > _MOST_DENSE_WEIGHTS
        few_move = sparse.issparse(X) and LOSSES[self.loss].argmax != "gibbs" and self.solver != "lbfgs"
        n_additional = self._n_additional(structure, n_outputs)
        return LinearModel.zeros(n_features, n_outputs, n_additional, sparse_coef=is_large and few_move)

    def _initial_model(self, structure, X, classes):
        """Return a model of zeros, or with `warm_start` the present one if it still fits."""
        n_features = X.shape[1]
        labels = None if classes is None else classes.tolist()
        if self.warm_start and hasattr(self, "_structure"):
            self._check_same_structure(structure)
            model = self._check_finite(self._current).copy()
            if self.solver == "lbfgs":
                model = model.dense()
            known = self.classes_.tolist() if structure.labelled else None
            if model.coef.shape[0] == n_features and known == labels:
                return model
            raise ValueError(
                "warm_start=True needs the features and labels of the last fit: it had "
                f"{model.coef.shape[0]} features and labels {known}; now there are {n_features} and {labels}"
            )
        return self._new_model(structure, X, 1 if classes is None else len(classes))

    def _check_same_structure(self, structure):
        if structure != self._structure:
            raise ValueError(
                f"structure={self.structure!r} differs from that of the fitted model, {self._structure!r}; fit a clone"
            )

    @staticmethod
    def _check_finite(model):
        """Return a model from which training can go on."""
        if not (np.isfinite(model.additional).all() and np.isfinite(model.intercept).all()):
            raise ValueError(
                "the model's weights are not all finite, for example because transitions_ was edited to -inf; make "
                "them finite before training goes on"
            )
        return model

    def _hold_out(self, structure, X, codes, weights):
        """Split off the validation part; return the rest, and a function from a model to its score."""
        rng = check_random_state(self.random_state)
        train, held = train_test_split(
            np.arange(len(X)),
            test_size=self.validation_fraction,
            random_state=rng.randint(2**31 - 1),
            stratify=codes if is_flat(structure) else None,
        )
        X_held, gold, held_weights = X[held], codes[held], weights[held]
        if not held_weights.any():
            held_weights = np.ones(len(held))

        if not weights[train].any():
            raise ValueError("all samples with a positive weight were held out; lower validation_fraction")

        def validate(model):
            return self._accuracy(structure, X_held, gold, model, held_weights)

        return X[train], codes[train], weights[train], validate
