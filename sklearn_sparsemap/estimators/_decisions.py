"""DecisionFocusedRegressor: a linear model of values, learned from the decisions that they lead to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.annotations import Any, ArrayLike, Mapping, NDArray
from .._core.doc_link import DocLinkMixin
from .._core.errors import naming
from .._core.indicators import in_order
from .._core.moments import whole
from .._core.pickles import PickleMixin
from .._core.ragged import RaggedArray
from .._core.sklearn_bases import BaseEstimator, RegressorMixin
from .._core.tables import by_samples, column_names
from .._core.validation import (
    FRACTION,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_INT,
    check_parameters,
    check_same_length,
    check_sample_weight,
)
from .._training._decision_task import DecisionTask
from .._training.score_models import LinearModel
from ..factors import FactorGraph
from ..inference._decisions import check_values, decisions_of
from ..losses._decisions import perturbed, spo_plus
from ..metrics import normalized_regret
from ..structures import Structure
from ..structures._pool import Pool
from ._failures import restore_on_error
from ._learners.epochs import learn_online
from ._learners.held_out import check_validation, hold_out
from ._learners.lbfgs import LBFGSLearner
from ._monitor import Monitor, Progress, report
from ._state.export import LearnedArraysMixin
from ._strengths import relative
from ._values import check_training, decide, mean_size, ridge, rows_of, structures_for

if TYPE_CHECKING:
    from typing import Self

    from .._core.annotations import Callable

LOSSES = ("spo_plus", "sparsemap", "perturbed")
_MAX_ITER = {"lbfgs": 1000, "adagrad": 100}
# Default of `tol` for L-BFGS: largest entry of the gradient, in units of `scale_`.
_LBFGS_TOL = 1e-4
# Maximum number of times that the pool grows by the solutions for the current model. Regrets were alike with 0 to 3.
_MAX_ROUNDS = 1


class DecisionFocusedRegressor(LearnedArraysMixin, RegressorMixin, DocLinkMixin, PickleMixin, BaseEstimator):
    """Linear regression of the values of parts, trained for good decisions: predict, then optimise.

    A decision is a choice of parts, for example the items of a knapsack or the edges of a path. It maximises the
    predicted values, and is judged by the true values, which are known in training. Linear regression minimises the
    error of all values equally. Here the loss is the regret of the decisions, so the model is most accurate for the
    values that change decisions.

    Parameters
    ----------
    structure : Structure, FactorGraph or callable
        The set of possible decisions. If constraints differ between samples: a function from the features of a sample,
        ``X[i]``, to its structure or graph. Values of -inf in `fit`, and `mask` in `predict`, forbid single parts.
    loss : {"sparsemap", "spo_plus", "perturbed"}, default="sparsemap"
        Training loss. ``"spo_plus"`` is a convex upper bound of the regret [1]_, and ``"sparsemap"`` its smooth
        version; see `losses.SPOPlusLoss`. ``"perturbed"`` is the perturbed Fenchel-Young loss [2]_, which uses the true
        values only to compute the optimal decisions; see `losses.PerturbedFenchelYoungLoss`. For graphs, losses are
        those of the linear relaxation.
    temperature : float, default=0.3
        Smoothness of ``"sparsemap"``, in units of the mean absolute value. Small values approach ``"spo_plus"``.
    sigma : float, default=0.3
        Standard deviation of the noise of ``"perturbed"``, in units of the mean absolute value.
    n_samples : int, default=10
        Number of draws of the noise of ``"perturbed"`` for each sample and epoch.
    alpha : float, default=0.3
        Strength of the penalty ``alpha / 2 * |W - W_0|^2``, in which W_0 is a ridge regression of the same strength.
        Training starts at W_0. Larger values keep the weights closer to it.
    fit_intercept : bool, default=True
        Whether to learn an intercept: one for each part, or one for all parts if they share weights.
    solver : {"auto", "lbfgs", "adagrad"}, default="auto"
        Optimiser. ``"lbfgs"`` is the default for the loss ``"sparsemap"``; it needs a smooth loss, which the others are
        not. ``"adagrad"`` learns from mini-batches.
    eta0 : float, default=None
        Step size of AdaGrad, in units of the mean absolute value. Default: 0.1. L-BFGS has no step size.
    max_iter : int, default=None
        Maximum number of iterations. Default: 1000 for L-BFGS, 100 epochs for AdaGrad.
    tol : float, default=None
        Tolerance. L-BFGS stops if no entry of the gradient exceeds it (default: 1e-4). AdaGrad stops if an epoch lowers
        the loss by at most this fraction of the mean loss so far, on average over `n_iter_no_change` epochs (default:
        1e-3).
    batch_size : int, default=32
        Number of samples in a step of AdaGrad.
    early_stopping : bool or float, default=False
        Whether to hold out samples, and to return the model with the lowest regret on them. A number is the fraction to
        hold out.
    validation_fraction : float, default=0.1
        Fraction of the samples that ``early_stopping=True`` holds out, unless `fit` gets validation samples.
    n_iter_no_change : int, default=5
        Number of iterations or epochs without improvement after which training stops.
    random_state : int, RandomState or None, default=None
        Seed of the held-out samples, the order of samples, and the noise.
    n_jobs : int, default=None
        Number of threads over the samples. Results do not depend on it.
    verbose : bool or int, default=False
        1 reports the first ten iterations and every tenth, and parts of the optimal decisions if computing them takes
        long; 2 reports all.

    Attributes
    ----------
    coef_ : ndarray of shape (n_parts, n_features), or (n_features,) if parts share weights
        Weights, in units of the values.
    intercept_ : ndarray of shape (n_parts,), or float if parts share weights
    scale_ : float
        Mean absolute true value, the unit of `temperature` and `sigma`.
    n_features_in_ : int
    n_iter_ : int
        Number of iterations or epochs.
    loss_curve_ : list of float
        The objective after each of them, in units of `scale_`.
    validation_scores_ : list of float
        With `early_stopping`, the score on the held-out samples after each of them.

    See Also
    --------
    StructuredSparseMAPClassifier : Learns from optimal decisions alone.
    metrics.normalized_regret : The regret of decisions.

    Notes
    -----
    If the oracle of a structure is a Python function, such as that of `LinearProgram`, the loss is over a pool of
    solutions [3]_: first the optimal decisions of all samples, then also those for the current model. So the solver is
    called at most twice for each sample. The loss is a lower bound of the loss over all solutions.

    References
    ----------
    .. [1] Elmachtoub and Grigas. Smart "Predict, then Optimize". Management Science, 2022.
    .. [2] Berthet, Blondel, Teboul, Cuturi, Vert and Bach. Learning with Differentiable Perturbed Optimizers. NeurIPS
       2020.
    .. [3] Mulamba, Mandi, Diligenti, Lombardi, Bucarey and Guns. Contrastive Losses and Solution Caching for
       Predict-and-Optimize. IJCAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import DecisionFocusedRegressor
    >>> from sklearn_sparsemap.structures import LinearProgram
    >>> sizes = np.array([3.0, 2.0, 2.0, 1.0])
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4, 2))
    >>> V = np.exp(X @ [1.0, -0.5])
    >>> model = DecisionFocusedRegressor(LinearProgram([sizes], [4.0])).fit(X[:40], V[:40])
    >>> decisions = model.predict(X[40:])
    >>> decisions[0].tolist(), bool((decisions @ sizes <= 4.0).all()), bool(model.score(X[40:], V[40:]) > -0.03)
    ([0, 0, 1, 1], True, True)
    """

    monitor_class = Monitor
    _set_by_fit = ("n_features_in_", "feature_names_in_", "scale_", "_structure", "_shape", "_part_names")
    # Names of the columns of y. Files of earlier versions lack this attribute.
    _part_names = None
    # `_learners` and `Monitor` read these, `_set_by_fit` and `_structure`, which may be a function of the sample, and
    # call `_outcome`, which makes the weights, `coef_` and `intercept_`.
    _step_size = "eta0"
    _epoch_tol = 1e-3
    _former_pairs: Mapping[str, str] = {"solver": "eta0"}
    # Parameters of the other online estimators, which are fixed here.
    average, shuffle = True, True

    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(LOSSES))],
        "temperature": [POSITIVE],
        "sigma": [POSITIVE],
        "n_samples": [POSITIVE_INT],
        "alpha": [NOT_NEGATIVE],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"auto", *_MAX_ITER})],
        "eta0": [POSITIVE, None],
        "max_iter": [POSITIVE_INT, None],
        "tol": [NOT_NEGATIVE, None],
        "batch_size": [POSITIVE_INT],
        "early_stopping": ["boolean", FRACTION],
        "validation_fraction": [FRACTION],
        "n_iter_no_change": [POSITIVE_INT],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
    }

    coef_: NDArray[Any]
    intercept_: Any
    scale_: float
    n_features_in_: int
    n_iter_: int
    loss_curve_: list[float]
    validation_scores_: list[float]

    def __init__(
        self,
        structure: Structure | FactorGraph | Callable[[NDArray[Any]], Any],
        loss: str = "sparsemap",
        *,
        temperature: float = 0.3,
        sigma: float = 0.3,
        n_samples: int = 10,
        alpha: float = 0.3,
        fit_intercept: bool = True,
        solver: Literal["auto", "lbfgs", "adagrad"] = "auto",
        eta0: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        batch_size: int = 32,
        early_stopping: bool | float = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.temperature = temperature
        self.sigma = sigma
        self.n_samples = n_samples
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.eta0 = eta0
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @restore_on_error
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Learn from samples with features and true values.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features), or array-like of shape (n_samples, n_parts, n_features)
            Features of a sample, or of each of its parts. Parts share weights in the second form. If the scores of the
            structure have several axes, these replace the axis of parts, also in `y`.
        y : array-like of shape (n_samples, n_parts)
            True values V, which are maximised: costs are negative values. -inf forbids a part. If the columns have
            names, later calls match them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the mean loss. If it and X have an index, it is put in the order of X.
        X_val, y_val : as `X` and `y`, default=None
            Validation samples for early stopping, as with ``early_stopping=True``, but no samples of `X` are held out.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not as described; the message names the sample. Also if
            `early_stopping` is the fraction of the samples to hold out, and validation samples are given.
        """
        check_parameters(self)
        sample_weight = by_samples(sample_weight, X, "sample_weight")
        self._part_names = column_names(y)
        solver = self._resolve_solver()
        X = self._check_X(X, reset=True)
        structures, values = check_training(self.structure, X, y)
        weights = check_sample_weight(sample_weight, len(values))
        rng = check_random_state(self.random_state)
        self._structure = self.structure
        self._shape = values.shape[1:]
        is_shared = X.ndim > 2
        self.scale_ = mean_size(values, None if sample_weight is None else weights)
        flat = values.reshape(len(values), -1) / self.scale_
        problems = decisions_of(structures, self._shape)
        with naming(scores="y"):
            gold = self._best(problems, flat)
        rows = np.flatnonzero(weights)
        validate = None
        if X_val is not None or y_val is not None:
            check_validation(self, X_val, y_val)
            validate = partial(self._validate, *self._given_validation(X_val, y_val, is_shared))
        elif self.early_stopping:
            rows, held = (rows[part] for part in hold_out(self, len(rows), rng))
            own = [structures[i] for i in held] if isinstance(structures, list) else structures
            validate = partial(self._validate, X[held], values[held], own, weights[held])
        features = rows_of(X[rows])
        weights = relative(weights[rows])
        of_samples = None if sample_weight is None else weights
        self._start = start = ridge(features, flat[rows], self.alpha, self.fit_intercept, of_samples)
        base = (features @ start.coef + start.intercept).reshape(len(rows), -1)
        task = DecisionTask(problems.take(rows), self._loss(rng), base, flat[rows], gold[rows], weights, is_shared)
        progress = Progress(self, X, y, self._iteration_limit(solver))
        monitor = self.monitor_class(self, progress, validate, watch_loss=solver != "lbfgs")
        self._learn(solver, task, RaggedArray(features, task.row_ptr), monitor, rng)
        monitor.store()
        monitor.end()
        del self._start
        return self

    def _learn(self, solver, task, X, monitor, rng):
        """Train over all solutions or, if the oracle is slow, over a pool of solutions that grows in rounds."""
        zeros = LinearModel.zeros(X.values.shape[1], task.n_outputs, 0)
        if not task.problems.trains_on_pool:
            monitor.run(self._learner(solver, task, X, zeros, rng))
            return
        model = zeros
        pool = np.unique(task.gold > 0.0, axis=0)
        for left in range(_MAX_ROUNDS, -1, -1):
            own = task.over(decisions_of(Pool(pool), self._shape))
            monitor.run(self._learner(solver, own, X, model, rng))
            if left == 0 or monitor.stopped:
                return
            if self.verbose:
                report(
                    self, "pool of solutions, round", _MAX_ROUNDS - left + 1, _MAX_ROUNDS, f", {len(pool)} solutions"
                )
            model = monitor.model()
            predicted = task.predicted(X.values @ model.coef + model.intercept)
            # The loss over all solutions is attained at the best decisions for these scores, so these join the pool.
            scores = predicted if self.loss == "perturbed" else 2.0 * predicted - task.values
            scores = np.where(task.values > -np.inf, scores, -np.inf)
            found = np.unique(np.vstack([pool, self._best(task.problems, scores) > 0.0]), axis=0)
            if len(found) == len(pool):
                return
            pool = found

    def _best(self, problems, values):
        """Return optimal decisions. If that takes long and the estimator is verbose, ten parts of them are reported."""
        if not (self.verbose and problems.trains_on_pool):
            return problems.best(values, self.n_jobs)
        parts = np.array_split(np.arange(len(values)), min(10, len(values)))
        found = []
        for k, rows in enumerate(parts):
            report(self, "optimal decisions, part", k + 1, len(parts), f", {len(values)} samples")
            with naming(rows):
                found.append(problems.take(rows).best(values[rows], self.n_jobs))
        return np.concatenate(found)

    def _learner(self, solver, task, X, model, rng):
        if solver == "adagrad":
            return learn_online(self, task, X, model, self._iteration_limit(solver), rng)
        tol = _LBFGS_TOL if self.tol is None else self.tol
        return LBFGSLearner(
            task, X, model, alpha=self.alpha, tol=tol, max_iter=self._iteration_limit(solver),
            n_jobs=self.n_jobs, fit_intercept=self.fit_intercept,
        )  # fmt: skip

    def _resolve_solver(self):
        smooth = self.loss == "sparsemap"
        if self.solver == "lbfgs" and not smooth:
            raise ValueError(f"loss={self.loss!r} is not smooth, which solver='lbfgs' needs; use 'adagrad'")
        if self.solver == "auto":
            return "lbfgs" if smooth else "adagrad"
        return self.solver

    def _iteration_limit(self, solver):
        return _MAX_ITER[solver] if self.max_iter is None else self.max_iter

    def _loss(self, rng):
        """Return the loss in the form of `DecisionTask`."""
        if self.loss == "perturbed":
            return lambda problems, predicted, values, gold, n_jobs: perturbed(
                problems, np.where(values > -np.inf, predicted, -np.inf), gold, self.sigma, self.n_samples, rng, n_jobs
            )
        temperature = self.temperature if self.loss == "sparsemap" else 0.0
        return lambda problems, predicted, values, gold, n_jobs: spo_plus(
            problems, predicted, values, gold, temperature, n_jobs
        )

    def _weights(self, model):
        """Return weights and intercepts in units of the values; a model is the difference from the start."""
        coef = self.scale_ * (self._start.coef + model.coef)
        intercept = self.scale_ * (self._start.intercept + model.intercept)
        return coef, intercept

    def _given_validation(self, X_val, y_val, is_shared):
        """Return arguments of `_validate` for the user's validation samples."""
        try:
            X = self._check_X(X_val, reset=False)
            structures, values = check_training(self.structure, X, self._in_order(y_val))
            if values.shape[1:] != self._shape or (X.ndim > 2) != is_shared:
                raise ValueError(f"the shapes are {X.shape} and {values.shape}; only the number of samples may differ")
        except ValueError as error:
            raise ValueError(f"X_val and y_val: {error}") from error
        return X, values, structures, None

    def _validate(self, X, values, structures, weights, model):
        coef, intercept = self._weights(model)
        predicted = (rows_of(X) @ coef + intercept).reshape(values.shape)
        with naming(scores="y_val"):
            decisions = decide(structures, predicted, values > -np.inf, self.n_jobs)
        return -normalized_regret(values, decisions, structures, sample_weight=weights)

    def _outcome(self, monitor, model):
        """Return the fitted attributes for a model."""
        coef, intercept = self._weights(model)
        found = {"coef_": np.ascontiguousarray(coef.T), "intercept_": intercept, "n_iter_": monitor.n_iter}
        if coef.shape[1] == 1 and self._shape != (1,):
            found.update(coef_=coef[:, 0], intercept_=float(intercept[0]))
        found["loss_curve_"] = list(monitor.losses)
        if monitor.validate is not None:
            found["validation_scores_"] = list(monitor.scores)
        return found

    def predict_values(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the values of the parts.

        Decisions are made by them. They need not be close to the true values, as those of a regression are.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        values : ndarray of shape (n_samples, n_parts)
        """
        self = whole(self)
        check_is_fitted(self)
        return self._predict_values(self._check_X(X, reset=False))

    def _predict_values(self, X):
        is_shared = np.ndim(self.coef_) == 1
        wanted = (*self._shape, self.n_features_in_) if is_shared else (self.n_features_in_,)
        if X.shape[1:] != wanted:
            raise ValueError(f"X has shape {X.shape}, but the model was fitted with {('n_samples', *wanted)}")
        return (X @ self.coef_.T + self.intercept_).reshape(X.shape[0], *self._shape)

    def predict(self, X: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the optimal decisions for the predicted values.

        Parameters
        ----------
        X : as in `fit`
        mask : array-like of bool of shape (n_samples, n_parts), default=None
            True for allowed parts. By default, all parts are allowed.

        Returns
        -------
        decisions : int ndarray of shape (n_samples, n_parts)
            0 and 1; for structures that `repeats`, numbers of occurrences.

        Raises
        ------
        ValueError
            If X or the mask has another shape than in `fit`, or all decisions of a sample are forbidden.
        """
        self = whole(self)
        check_is_fitted(self)
        return self._decide(self._check_X(X, reset=False), mask)

    def _in_order(self, y, name="y"):
        """Return values of parts with named columns in the order of those of the fit, if these had names."""
        return in_order(y, self._part_names, name=name, whose="the columns of the fit")

    def _decide(self, X, mask):
        values = self._predict_values(X)
        allowed = np.ones(values.shape, bool) if mask is None else np.asarray(self._in_order(mask, "mask"))
        if allowed.dtype != bool or allowed.shape != values.shape:
            raise ValueError(f"mask must be bool of shape {values.shape}; got {allowed.dtype} of {allowed.shape}")
        with naming(scores="X" if mask is None else "mask"):
            return decide(structures_for(self._structure, X), values, allowed, self.n_jobs)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the normalised regret of the predicted decisions; 0 is best.

        Parameters
        ----------
        X, y : as in `fit`
            Parts with values of -inf are forbidden.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        self = whole(self)
        check_is_fitted(self)
        sample_weight = by_samples(sample_weight, X, "sample_weight")
        X = self._check_X(X, reset=False)
        structures = structures_for(self._structure, X)
        values = check_values(structures, self._in_order(y), "y")
        check_same_length(range(X.shape[0]), values)
        with naming(mask="y"):
            decisions = self._decide(X, values > -np.inf)
        return -normalized_regret(values, decisions, structures, sample_weight=sample_weight)

    def _check_X(self, X, reset):
        """Return the features as a float64 array with two or more axes, or as CSR."""
        n_axes = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
        if n_axes <= 2:
            return validate_data(self, X, dtype=np.float64, order="C", accept_sparse="csr", reset=reset)
        X = check_array(X, dtype=np.float64, order="C", allow_nd=True)
        if reset:
            self.n_features_in_ = X.shape[-1]
        elif X.shape[-1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[-1]} features, but the model was fitted with {self.n_features_in_}")
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        return tags
