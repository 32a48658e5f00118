"""StructuredGroupLasso: exact minimisation of a loss plus the norms of groups of weights.

Used by `estimators/_selection`.
"""

from __future__ import annotations

from numbers import Real
from typing import Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, Callable, LossName, Mapping, NDArray, Self, StructureName
from ..._core.moments import whole
from ..._core.ragged import RaggedArray
from ..._core.validation import N_JOBS, NOT_NEGATIVE, POSITIVE, POSITIVE_INT, check_parameters
from ..._training._group_lasso.penalty import GroupPenalty
from ..._training._group_lasso.solver import GroupLassoSolver
from ..._training.score_models import LinearModel
from ...losses import LOSSES
from ...losses._fenchel_young import Inference
from ...structures import Structure
from .._failures import restore_on_error, warn_of_inference, warn_user
from .._learners.initial import weights_of_last_fit
from .._learners.lbfgs import LBFGSLearner
from .._learners.learner import Learner
from .._monitor import CallbackSupportMixin, Monitor, Progress, reporter, with_callbacks
from .._state.fitted import FittedState
from .._strengths import relative
from .base import LinearStructuredModel
from .groups import GroupsMixin, warn_of_scales
from .targets import resolve_structure

# The smooth losses.
_LOSSES = tuple(name for name in LOSSES if LOSSES[name].argmax != "map")
# Strength of the squared penalty of debiasing, and the largest entry of the gradient at the end: the defaults of
# `StructuredSparseMAPClassifier`.
_DEBIAS_ALPHA, _DEBIAS_TOL = 1e-4, 1e-3


class GroupLassoLearner(Learner):
    """Runs a `GroupLassoSolver` until its gap is small enough."""

    def __init__(self, solver, tol, max_iter):
        self.solver, self.tol, self.max_iter = solver, tol, max_iter

    @property
    def has_started(self):
        return self.solver.n_iter > 0

    @property
    def unconverged(self):
        return self.solver.unconverged

    def run(self, on_iteration):
        message = self.solver.run(self.tol, self.max_iter, on_iteration)
        if not message:
            return ""
        return (
            f"the group lasso did not converge ({message}): the duality gap is {self.solver.gap:.1e}, tol is "
            f"{self.tol:.1e}; raise max_iter, raise tol or scale the features"
        )

    def model(self):
        return self.solver.model()


class StructuredGroupLasso(GroupsMixin, CallbackSupportMixin, LinearStructuredModel):
    """Linear structured classifier that selects groups of features by the group lasso, exactly and with a certificate.

    Training minimises ``mean loss + alpha * sum_g w_g |W_g|`` over all samples; W_g are the weights of a group of
    features for all outputs [1]_. Groups are selected as a whole. Intercepts, and additional scores such as
    transitions, have only a tiny ridge; see the notes. `dual_gap_` bounds the distance of the objective from its
    minimum.

    Use it for data that fit into memory. For streams, and for budgets of groups or weights, use `GroupLassoPerceptron`.
    Standardise dense features, because the selection depends on the scales of the features. `fit` warns if scales
    differ by more than a factor of 20, or if a mean exceeds 7.5 standard deviations.

    Parameters
    ----------
    structure : {"auto", "chain", "tree", "matching"}, Structure or callable, default="auto"
        As in `StructuredSparseMAPClassifier`.
    loss : {"sparsemap", "margin_sparsemap", "crf", "margin_crf"}, default="sparsemap"
        Training loss. The losses perceptron and hinge are not available, because they are not smooth in the weights.
    cost : array-like of shape (n_classes, n_classes), default=None
        Costs of wrong labels, as in `StructuredSparseMAPClassifier`.
    groups : None, array-like, dict, list, "templates", "columns", callable, GroupTree, GroupOrder or Groups, \
default=None
        Groups of features, as in `GroupLassoPerceptron`. They must be disjoint or nested, because other groups have no
        proximal operator in closed form. None means one group for each feature.
    alpha : float, default=0.01
        Strength of the penalty. Larger values select fewer groups.
    l1_ratio : float, default=0.0
        Weight of the sum of absolute values in the penalty, from 0 to 1. Values above 0 give the sparse group lasso
        [2]_, ``alpha * ((1 - l1_ratio) * sum_g w_g |W_g| + l1_ratio * |W|_1)``, which also sets single weights in
        selected groups to zero. 1 gives the lasso; CRFsuite calls its strength c1.
    group_weights : {"uniform", "log2", "sqrt"}, dict or array-like of shape (n_groups,), default=None
        The weights w_g, as in `GroupLassoPerceptron`. Default: ``"sqrt"``, the square root of the number of features,
        also for groups that a dict does not name. Groups of weight 0 have no penalty, except ``1e-8 / 2 |W_g|^2``, so
        that the minimum has a bound. With `l1_ratio` they have the l1 penalty.
    temperature : float, default=1.0
        Divisor of the scores in the losses, and in `predict_marginals`.
    tol : float, default=1e-6
        Largest `dual_gap_` at the end of training, in units of the mean loss of a sample.
    max_iter : int, default=5000
        Maximum number of iterations, each with one or two evaluations of the loss of all samples.
    fit_intercept : bool, default=True
        Whether to learn an intercept for each output.
    class_weight : dict, "balanced" or None, default=None
        As in `StructuredSparseMAPClassifier`.
    debias : bool or float, default=False
        Whether to learn the weights of the selected features again without the group penalty, because it shrinks them.
        A number is the strength of the squared penalty that replaces it, ``debias/2 |W|^2``; True is 1e-4. `dual_gap_`
        and `objective_` remain those of the group lasso.
    warm_start : bool, default=False
        Whether `fit` starts from the current model. The minimum does not depend on it.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    verbose : int, default=0
        1 reports the first ten iterations and every tenth, also those of debiasing, 2 reports all.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, if structures are made of labels.
    coef_ : ndarray of shape (n_outputs, n_features)
    intercept_ : ndarray of shape (n_outputs,)
    transitions_, start_, end_, durations_, additional_scores_
        As in `StructuredSparseMAPClassifier`.
    groups_ : Groups
        The groups; ``groups_.names`` are their names.
    group_weights_ : ndarray of shape (n_groups,)
        The weights w_g.
    group_norms_ : ndarray of shape (n_groups,)
        Norm of each group's weights.
    selected_groups_ : int ndarray
        Indices of the groups with nonzero weights.
    selected_group_names_ : list
        Names of the selected groups; those of templates come from the vectorizer.
    excluded_groups_ : int ndarray
        Indices of the groups that are proven to be zero at every minimum [4]_. Groups that are neither selected nor
        excluded might be selected by a model with a smaller `dual_gap_`. Empty for factor graphs.
    n_nonzero_coefs_ : int
        Number of nonzero entries of `coef_`.
    objective_ : float
        The mean loss plus the penalty and the ridge, at the end of training.
    dual_gap_ : float
        Upper bound of the distance of `objective_` from the minimum; see the notes.
    loss_curve_ : list of float
        The objective after each iteration.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If `X` has names: a DataFrame, or a list of them.

    Notes
    -----
    No norm penalises intercepts and additional scores, but a small ridge does: ``r/2`` times their squared norm, where
    r is 1e-8 for intercepts and 1e-4 for additional scores. Without the ridge there may be no minimum: with crf losses,
    the score of a transition that never occurs tends to minus infinity. With it, `dual_gap_` is a bound over all
    models.

    SparseMAP losses are not smooth in the additional scores. At such kinks, averages of gradients give the bound. This
    takes longer, and may end with a warning at gaps of about 1e-6; set a larger `tol`, or use a crf loss. If
    inference of training samples did not converge, which a warning says, `objective_` may be too low by the gaps of
    that inference.

    The bound follows from Fenchel duality. The gradient of a Fenchel-Young loss, scaled into the dual ball of the
    penalty, is a feasible point of the dual problem, because the true structure plus a fraction of the residual remains
    in the polytope. Any convex combination of such gradients is feasible, too.

    Only the weights of a working set of groups are learned at a time [3]_. The working set grows by the groups whose
    gradient is largest, until the gap over all groups is small. On a working set, proximal gradient steps find which
    weights are zero, and L-BFGS learns the others.

    References
    ----------
    .. [1] Yuan and Lin. Model selection and estimation in regression with grouped variables. JRSS B 68, 2006.
    .. [2] Simon, Friedman, Hastie and Tibshirani. A sparse-group lasso. JCGS 22, 2013.
    .. [3] Massias, Gramfort and Salmon. Celer: a fast solver for the lasso with dual extrapolation. ICML 2018.
    .. [4] Ndiaye, Fercoq, Gramfort and Salmon. Gap safe screening rules for sparsity enforcing penalties. JMLR 18,
       2017.

    See Also
    --------
    GroupLassoPerceptron : Selects groups online, by a budget.
    StructuredSparseMAPClassifier : All features, with a squared penalty.

    Examples
    --------
    Only one of three groups of sensors is informative:

    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredGroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 9))
    >>> y = np.where(X[:, 3] + X[:, 4] - X[:, 5] > 0, "up", "down")
    >>> model = StructuredGroupLasso(groups=[0, 0, 0, 1, 1, 1, 2, 2, 2], alpha=0.02).fit(X, y)
    >>> model.selected_groups_, model.excluded_groups_, model.dual_gap_ <= 1e-6
    (array([1]), array([0, 2]), True)
    """

    # `estimators/_selection/strengths.py` calls `_prepare_fit`, `_new_solver` and `_refit`.
    _set_by_fit = (*LinearStructuredModel._set_by_fit, "groups_", "group_weights_")
    # Part of the message about a loss that is not finite; only a warm start can cause that.
    _step_size = "the weights of the warm start"
    _former_pairs: Mapping[str, str] = {"loss": "cost"}
    _dtype = np.dtype(np.float64)
    # The class of the monitor that watches training, `Monitor` or a subclass.
    monitor_class: type[Monitor] = Monitor

    # "no_validation" marks parameters that are checked elsewhere, with more specific messages.
    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(_LOSSES))],
        "cost": ["array-like", None],
        "groups": "no_validation",
        "alpha": [POSITIVE],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "group_weights": "no_validation",
        "temperature": [POSITIVE],
        "tol": [NOT_NEGATIVE],
        "max_iter": [POSITIVE_INT],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "debias": ["boolean", POSITIVE],
        "warm_start": ["boolean"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
    }

    group_weights_: NDArray[np.float64]
    objective_: float
    dual_gap_: float
    excluded_groups_: NDArray[np.int64]

    def __init__(
        self,
        structure: StructureName | Structure | Callable[[Any], Any] = "auto",
        loss: LossName = "sparsemap",
        cost: ArrayLike | None = None,
        groups: Any = None,
        alpha: float = 0.01,
        l1_ratio: float = 0.0,
        group_weights: Literal["uniform", "log2", "sqrt"] | Mapping[Any, float] | ArrayLike | None = None,
        temperature: float = 1.0,
        tol: float = 1e-6,
        max_iter: int = 5000,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        debias: bool | float = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.cost = cost
        self.groups = groups
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.group_weights = group_weights
        self.temperature = temperature
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.debias = debias
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @restore_on_error
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Select groups, and learn their weights.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features), or a sequence of such of shape (n_steps, n_features)
            Features; a sequence for structured problems. Label sequences without steps are left out, with a warning.
        y : array-like of shape (n_samples,), or a sequence of structures
            Gold labels or structures.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. If it and X have an index, it is put in the order of X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the groups do not fit the features or overlap without being nested, or the
            data are not as described; the message names the sample.
        """
        features, task, model = self._prepare_fit(X, y, sample_weight)
        return self._minimise((X, y), features, self._new_solver(task, features, model))

    @with_callbacks
    @restore_on_error
    def _refit(self, data, X, solver):
        """Learn with another strength; see `_minimise`."""
        solver.restart(solver.penalty.with_alpha(self.alpha))
        return self._minimise(data, X, solver)

    def _minimise(self, data, X, solver):
        """Learn from laid-out samples; `data` are X and y in the user's form."""
        monitor = self.monitor_class(self, Progress(self, *data, self.max_iter))
        monitor.run(GroupLassoLearner(solver, self.tol, self.max_iter))
        monitor.store()
        monitor.end()
        if self.debias and not monitor.stopped:
            self._learned = FittedState(self._debiased(solver.task, X))
        return self

    def _prepare_fit(self, X, y, sample_weight):
        """Lay out training samples, and set the attributes of a new model; return features, task, and start."""
        structure = self._check_params(X)
        X, _, classes, task = self._training_data(structure, X, y, sample_weight)
        task.weights = relative(task.weights)
        warn_of_scales(X.values)
        if self.warm_start and hasattr(self, "_structure"):
            model = weights_of_last_fit(self, structure, task, X.values, classes)
        else:
            model = LinearModel.zeros(X.values.shape[1], task.n_outputs, task.n_additional)
        groups, group_weights = self._make_groups(X)
        self._check_groups(groups)
        self._begin(structure, classes)
        self.groups_, self.group_weights_ = groups, group_weights
        return X, task, model

    def _new_solver(self, task, X, model):
        penalty = GroupPenalty(self.groups_, self.group_weights_, self.alpha, self.l1_ratio)
        return GroupLassoSolver(
            task, X.values, penalty, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs, model=model
        )

    def _debiased(self, task, X):
        """Return the model with the weights of the selected features learned again."""
        model = self._current
        columns = np.flatnonzero(model.coef.any(axis=1))
        narrow = LinearModel(model.coef[columns], model.intercept, model.additional)
        features = RaggedArray(X.values[:, columns], X.indptr, shapes=X.shapes)
        strength = _DEBIAS_ALPHA if self.debias is True else float(self.debias)
        learner = LBFGSLearner(
            task, features, narrow, alpha=strength, tol=_DEBIAS_TOL, max_iter=self.max_iter,
            n_jobs=self.n_jobs, fit_intercept=self.fit_intercept,
        )  # fmt: skip
        message = learner.run(reporter(self, "debiasing, iteration", f"at most {self.max_iter}"))
        if message:
            warn_user(f"debiasing: {message}", ConvergenceWarning)
        warn_of_inference(learner.unconverged)
        debiased = learner.model()
        coef = np.zeros_like(model.coef)
        coef[columns] = debiased.coef
        return LinearModel(coef, debiased.intercept, debiased.additional)

    def _check_params(self, X=None):
        """Check the parameters; return the structure."""
        check_parameters(self)
        structure = resolve_structure(self.structure, X)
        if not structure.uses_graphs:
            # It refuses losses that the structure does not have.
            Inference(structure, self.loss)
        return structure

    def _check_groups(self, groups):
        """Raise ValueError if groups overlap without being nested."""
        if not groups.is_nested:
            raise ValueError(
                "groups overlap without being nested, so the penalty has no proximal operator in closed form; make "
                "them disjoint or nested, or use GroupLassoPerceptron"
            )

    def _outcome(self, monitor, model):
        """Return the attributes that a fit sets at its end, for its final model."""
        solver = monitor.learner.solver
        return {
            "_learned": FittedState(model),
            "n_iter_": monitor.n_iter,
            "loss_curve_": list(monitor.losses),
            "objective_": solver.objective,
            "dual_gap_": solver.gap,
            "excluded_groups_": np.flatnonzero(solver.excluded()),
        }

    @property
    def group_norms_(self) -> NDArray[np.float64]:
        self = whole(self)
        check_is_fitted(self)
        return self.groups_.norms(self._current.coef)

    @property
    def selected_groups_(self) -> NDArray[np.int64]:
        self = whole(self)
        return np.flatnonzero(self.group_norms_)
