"""GroupLassoPerceptron: online learning with selection of groups of features (Martins et al. 2011).

Used by `estimators/_selection`.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, LossName, Mapping, NDArray, Self, Sequence, StructureName
from ..._core.moments import at_rest
from ..._core.ragged import RaggedArray
from ..._core.validation import (
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_INT,
    POSITIVE_OR_INF,
    check_parameters,
)
from ..._training._curve import BoundedCurve, mean_of
from ..._training._online.groups import PAPER_SCHEDULE, GroupOptimizer
from ..._training.score_models import LinearModel
from ...losses import LOSSES
from ...losses._fenchel_young import Inference
from ...penalties import Groups
from ...penalties._groups import check_groups
from ...structures import Structure
from .._failures import check_finite_loss, commit_if, in_turn, restore_on_error, warn_of_inference, warn_user
from .._learners.epochs import make_epoch, partial_fit_minibatch, weigh_by_visits
from .._monitor import CallbackSupportMixin, Progress, reporter, with_callbacks
from .._state.fitted import FittedState
from .._strengths import relative
from .base import aligned_cost
from .groups import GroupsMixin, warn_of_scales
from .phases import GroupPhase, final_state, kept_columns, wide_model
from .size_warning import norms_before_shrinking, warn_of_sizes
from .stream import LinearStructuredClassifier
from .targets import resolve_structure

# A value of `debias` that is not the name of a loss, and a value of `shrink_every` that is not a number.
MIRA, AUTO = "mira", "auto"
# Period of a constant step size: a number of samples that no training reaches.
_NO_PERIOD = 2**62
# Largest step size of MIRA for C=inf. It is finite, because infinity times a sample weight of zero is NaN.
_LARGEST_C = np.finfo(np.float64).max / 1e10
# Range of step sizes for which squares of weights neither underflow nor overflow.
_SMALLEST_STEP, _LARGEST_STEP = 1e-50, 1e50


class GroupLassoPerceptron(GroupsMixin, CallbackSupportMixin, LinearStructuredClassifier):
    """Linear structured classifier that selects groups of features during online learning: the "sparseptron".

    Training alternates online steps with shrinkage of each group of features as a whole, by the proximal operator of
    the group lasso. Its strength is `alpha`, or such that exactly `budget` groups survive [1]_. Then the weights of the
    selected groups are learned again without a penalty (`debias`).

    With a budget, scores are computed with shrunk weights, while the weights of all groups accumulate gradients
    (regularised dual averaging [2]_, [3]_), so no group is lost by an early shrinkage. At the end, the averages of the
    shrunk weights select the groups. If memory is short, or if `shrink_every` is a number, the weights themselves are
    shrunk, and groups that reach zero take no memory.

    Standardise dense features, for example by `sklearn.preprocessing.StandardScaler` in a pipeline, because the
    selection depends on the scales of the features. The first call of `fit` or `partial_fit` warns if scales differ by
    more than a factor of 20, or if a mean exceeds 7.5 standard deviations. See the notes.

    Only weights that were updated, for pairs of a feature and a label, are stored, so millions of features are
    possible.

    Parameters
    ----------
    structure : str or Structure, default="auto"
        Output structure, as in `StructuredSparseMAPClassifier`, except for factor graphs.
    loss : {"perceptron", "hinge", "sparsemap", "margin_sparsemap", "crf", "margin_crf"}, default="perceptron"
        Loss of the first phase. With the perceptron and a budget, predictions do not depend on `eta0`.
    cost : array-like of shape (n_classes, n_classes), default=None
        Costs of wrong labels, as in `StructuredSparseMAPClassifier`, for both phases if their losses have a margin.
    groups : None, array-like, dict, list, "templates", "columns", callable, GroupTree, GroupOrder or Groups, \
default=None
        Groups of features. None means one group for each feature. An array of shape (n_features,) holds the number
        or the name of the group of each feature, a Series with an index by the names of features; a dict maps names to
        columns; a list of lists of columns may have overlapping groups.
        ``"templates"`` takes ``X.groups``, as `TemplateVectorizer` makes them; a `GroupTree` or `GroupOrder` without
        columns takes them as its base groups. Columns are indices, or names of features (`feature_names_in_`); see also
        `sklearn_sparsemap.penalties.groups_from`. A callable maps these names to groups in each `fit`, so that groups
        follow a `ColumnTransformer` in a pipeline; ``"columns"`` means one group for each transformer, see
        `sklearn_sparsemap.penalties.groups_by_name`.
    group_weights : {"uniform", "log2", "sqrt"}, dict or array-like of shape (n_groups,), default="uniform"
        Relative strength of the penalty of each group: equal, the base-2 logarithm of its number of features (as in the
        paper), or the square root of this number. In a tree or an order, features of finer groups do not count. A dict
        or a Series with an index has the weights of some groups by name; all others have the weight 1. A group of
        weight 0 is not penalised, but a budget of weights discards it if it does not fit and no groups overlap.
    budget : int, default=None
        Maximum number of groups to keep, or of weights; see `budget_unit`. By default, `alpha` is used.
    budget_unit : {"groups", "weights"}, default="groups"
        Whether `budget` counts groups or weights. With ``"weights"``, `n_nonzero_coefs_` does not exceed the budget
        after `fit` or `finalize`. See the notes.
    alpha : float, default=0.0
        Without a budget, the strength of the penalty: the objective is the mean loss plus ``alpha`` times the sum of
        the groups' norms times their weights. Larger values select fewer groups.
    shrink_every : int or "auto", default="auto"
        Number of samples between two shrinkages of the weights. A shrinkage discards groups, which start again from
        zero. Smaller numbers save memory, but lose more groups by chance. 1000 is the paper's schedule. With ``"auto"``
        and a budget, groups are discarded after the last epoch and, the weakest first, if there are more than 524,288
        weights of which the selected groups have less than half. With `alpha`, ``"auto"`` is 1000. In all cases, a
        shrinkage follows the last epoch.
    max_iter : int, default=5
        Number of epochs of the first phase.
    eta0 : float, default=1.0
        Step size in the first epoch; in epoch t it is ``eta0 / sqrt(t)``.
    debias : {"mira", None} or a loss, default="mira"
        Second phase of `fit`, in which the weights of the selected groups are learned again: by 1-best MIRA on the
        hinge loss, or by online gradient steps on a loss. MIRA, hinge, margin_sparsemap and margin_crf use `cost`;
        other losses have none. None keeps the weights of the first phase. Without budget and alpha there is no
        debiasing.
    debias_max_iter : int, default=10
        Number of epochs of the second phase.
    C : float, default=inf
        Maximum step size of MIRA (its aggressiveness).
    temperature : float, default=1.0
        Divisor of the scores in the losses, and in `predict_marginals`.
    fit_intercept : bool, default=True
        Whether to learn an intercept for each output. Like transitions and other additional scores it is in no group.
    class_weight : dict, "balanced" or None, default=None
        As in `StructuredSparseMAPClassifier`.
    average : bool or "recent", default="recent"
        Whether weights are averaged over all steps of a phase or, with ``"recent"``, over the last part of a stream, as
        in `StructuredSparseMAPClassifier`. The debiasing of `finalize` averages in any case.
    shuffle : bool, default=True
        Whether samples are visited in a new random order in each epoch.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.
    n_jobs : int, default=None
        Number of threads for prediction.
    verbose : int, default=0
        1 reports the first epochs of each phase, training and debiasing, and every tenth, 2 reports all.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, if structures are made of labels.
    coef_ : CSR of shape (n_outputs, n_features)
        Sparse: only nonzero weights are stored.
    intercept_ : ndarray of shape (n_outputs,)
    transitions_, start_, end_, durations_, additional_scores_
        As in `StructuredSparseMAPClassifier`.
    groups_ : Groups
        The groups; ``groups_.names`` are their names.
    group_weights_ : ndarray of shape (n_groups,)
        Relative strength of the penalty of each group.
    selected_groups_ : int ndarray
        Indices of the selected groups. In a stream, these are the groups that the budget selects now or, if
        `shrink_every` or `alpha` sets the schedule, those that survived the last shrinkage. Before the first shrinkage
        of such a schedule they are all groups that have weights, and a warning says so.
    selected_group_names_ : list
        Names of the selected groups; those of templates come from the vectorizer.
    group_norms_ : ndarray of shape (n_groups,)
        Norm of each group's weights at the end of the first phase; in a stream with ``shrink_every="auto"`` and a
        budget, of their averages.
    sigma_ : float
        Strength of the last nonzero shrinkage, in units of `alpha`.
    implied_alpha_ : float
        Mean strength of all shrinkages: the value of `alpha` that corresponds to the budget ([1]_, footnote 6). With
        ``shrink_every="auto"`` and a budget, shrinkages are deferred, and one strength applies to all steps.
    n_nonzero_coefs_ : int
        Number of nonzero entries of `coef_`.
    memory_curve_ : int ndarray of shape (n_records,)
        Number of weights before and after each shrinkage of the weights ([1]_, figure 2); with
        ``shrink_every="auto"`` and a budget, also after each 1,000 samples. After some 2,000 records, adjacent ones
        are merged into the one with the most weights; the last record is kept.
    memory_steps_ : int ndarray of shape (n_records,)
        Number of samples visited up to each record, including those of debiasing.
    loss_curve_ : list of float
        Mean loss during each epoch of both phases. (`partial_fit`: of each mini-batch; after some 2,000 mini-batches,
        means of adjacent ones.)
    n_iter_ : int
        Number of epochs of the first phase (`partial_fit`: of mini-batches).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If `X` has names: a DataFrame, or a list of them.

    Notes
    -----
    Groups are selected by the norm of their weights, and steps are proportional to the features. So features with small
    values are rarely selected. If all features are small, the intercept, a feature of value 1, is learned first. On
    three data sets of scikit-learn, multiplying standardised columns by 0.01 lowered the accuracy by 10 to 47 points.
    Counts and indicators, such as those of templates, need no scaling.

    With a budget of weights, a shrinkage considers groups in descending order of norm divided by group weight, and
    keeps each group whose weights still fit: a greedy solution of the knapsack problem. The size of a group is the
    maximum number of weights (pairs of a feature and a label) that it has had at a shrinkage so far. The strength is
    such that the weakest kept group just survives; groups that do not fit are discarded, whatever their norm. With
    ``group_weights="sqrt"`` the order is approximately that of squared norm per weight, which prefers many small
    groups; ``"uniform"`` prefers the few largest groups that fit. Group norms do not measure usefulness. Choose by
    validation: for templates of tokens, a few large groups were best; for templates of arcs, many small ones, with
    group weights equal to the sizes to the power of 0.75 (an array; ``"sqrt"`` was second). In trees and orders, in
    which groups are discarded together, the strength is the smallest at which at most that many weights survive.
    Debiasing learns the features with weights. If the result exceeds the budget, its smallest weights are dropped.

    The strength is determined again at each shrinkage. To fix it in a stream with ``shrink_every=1000``, continue
    `partial_fit` after ``model.set_params(budget=None, alpha=model.sigma_)``, and set the budget again before
    `finalize`.

    A sample of weight 2 is visited twice in each epoch, and one of weight 2.5 three times, with steps of 5/6 of the
    length. So weights that are integers are equivalent to repeated samples, in the same order. In `fit` and `finalize`
    weights are first divided by their mean. A weight of 0 leaves a sample out.

    Ctrl-C keeps the model of the last sample, and raises KeyboardInterrupt; `partial_fit` and `finalize` continue from
    there. Before the first sample, and after an error, the estimator is unchanged.

    The number of epochs is fixed, as in the paper, so there is no ConvergenceWarning.

    For structures that differ in their number of parts (`Subset`, `CustomStructure`), the objective of the last loss
    determines the number of parts. After debiasing by MIRA, this is the hinge loss.

    See Also
    --------
    StructuredSparseMAPClassifier : All features, with a squared penalty.
    sklearn_sparsemap.estimators.perceptron_path : Fits a range of budgets.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.
    .. [2] Xiao. Dual Averaging Methods for Regularized Stochastic Learning and Online Optimization. JMLR 11, 2010.
    .. [3] Yang, Xu, King and Lyu. Online Learning for Group Lasso. ICML 2010.

    Examples
    --------
    Only one of three groups of sensors is informative:

    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 9))
    >>> y = np.where(X[:, 3] + X[:, 4] - X[:, 5] > 0, "up", "down")
    >>> model = GroupLassoPerceptron(groups=[0, 0, 0, 1, 1, 1, 2, 2, 2], budget=1, random_state=0)
    >>> model.fit(X, y).selected_groups_
    array([1])
    >>> model.predict([[0, 0, 0, 2.0, 1.0, -1.0, 0, 0, 0]])
    array(['up'], dtype='<U4')
    """

    # `LearnsInRounds` of `estimators/_rounds.py` lists what training in rounds uses.
    # `estimators/_selection/stability.py` reads `_has_penalty`, too. `_partitions.py` calls `_prepare_stream`,
    # `_check_params`, `_data_of`, `_configure_epoch` and `_learn_partitions`, `estimators/_state` calls
    # `_make_optimizer` and, by its name, `_new_optimizer`. `phases.py` and `size_warning.py` call `_progress_of`,
    # `_new_optimizer` and `_configure`, and read `_weight_budget` and `_shrink_period`.
    _set_by_fit = (*LinearStructuredClassifier._set_by_fit, "groups_", "group_weights_")
    _weights_of_others = "uniform"
    _readable_states = ("groups",)
    # Shrinkage is implemented for float64 only.
    _dtype = np.dtype(np.float64)
    _former_pairs: Mapping[str, str] = {"loss": "cost", "budget": "budget_unit"}
    # The step size decreases from epoch to epoch.
    _counts_samples = True

    # "no_validation" marks parameters that are checked elsewhere, with more specific messages.
    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(LOSSES))],
        "cost": ["array-like", None],
        "groups": "no_validation",
        "group_weights": "no_validation",
        "budget": [POSITIVE_INT, None],
        "budget_unit": [StrOptions({"groups", "weights"})],
        "alpha": [NOT_NEGATIVE],
        "shrink_every": [POSITIVE_INT, StrOptions({AUTO})],
        "max_iter": [POSITIVE_INT],
        "eta0": [POSITIVE],
        "debias": [StrOptions({MIRA, *LOSSES}), None],
        "debias_max_iter": [POSITIVE_INT],
        "C": [POSITIVE_OR_INF],
        "temperature": [POSITIVE],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "average": ["boolean", StrOptions({"recent"})],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
    }

    group_weights_: NDArray[np.float64]
    sigma_: float
    implied_alpha_: float

    def __init__(
        self,
        structure: StructureName | Structure = "auto",
        loss: LossName = "perceptron",
        cost: ArrayLike | None = None,
        groups: Any = None,
        group_weights: Literal["uniform", "log2", "sqrt"] | Mapping[Any, float] | ArrayLike = "uniform",
        budget: int | None = None,
        budget_unit: Literal["groups", "weights"] = "groups",
        alpha: float = 0.0,
        shrink_every: int | Literal["auto"] = "auto",
        max_iter: int = 5,
        eta0: float = 1.0,
        debias: str | None = "mira",
        debias_max_iter: int = 10,
        C: float = np.inf,
        temperature: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        average: bool | Literal["recent"] = "recent",
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.cost = cost
        self.groups = groups
        self.group_weights = group_weights
        self.budget = budget
        self.budget_unit = budget_unit
        self.alpha = alpha
        self.shrink_every = shrink_every
        self.max_iter = max_iter
        self.eta0 = eta0
        self.debias = debias
        self.debias_max_iter = debias_max_iter
        self.C = C
        self.temperature = temperature
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.average = average
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @restore_on_error
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Select groups and learn their weights.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features), or a sequence of such of shape (n_steps, n_features)
            Features; a sequence for structured problems. Label sequences without steps are left out, with a warning.
        y : array-like of shape (n_samples,), or a sequence of structures
            Gold labels or structures.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, relative to their mean; see the notes. If it and X have an index, it is put in the
            order of X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the groups do not fit the features, or the data are not as described; the
            message names the sample.
        """
        structure = self._check_params(X)
        data = X, y
        X, _, classes, task = self._training_data(structure, X, y, sample_weight)
        task.weights = relative(task.weights)
        if sample_weight is not None:
            weigh_by_visits(task)
        self._init_state(structure, classes, X)
        self._learned = FittedState(optimizer=self._new_optimizer(task.n_outputs, task.n_additional))
        norms = norms_before_shrinking(self, task, X)
        rng = check_random_state(self.random_state)

        def epoch_of(optimizer):
            return make_epoch(self, optimizer, *self._data_of(optimizer, task, X), rng, remember=False)

        return self._learn_phases(data, epoch_of, _n_visits(task, X), norms)

    @in_turn
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn online from a mini-batch: one pass over its samples, in their order, with shrinkage but no debiasing.

        The step size decreases as ``eta0 / sqrt(t / shrink_every)`` with the number t of samples, where ``"auto"``
        means 1000. With ``"auto"`` and a budget, the model contains only the weights of the groups that are selected at
        the time, while all groups are learned. Otherwise the budget holds after each shrinkage, and between two
        shrinkages further groups may get weights. `finalize` ends the stream with a shrinkage and, given samples,
        debiasing. After `fit` or `finalize`, training continues from their model.

        Parameters
        ----------
        X, y
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur. Required at the first call if structures are made of labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. They are absolute here: a sample of weight 2 is equivalent to the same sample twice.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As in `fit`; also at the first call without `classes`, and for a label that is not among them.
        """
        task, X = self._prepare_stream(X, y, classes, sample_weight)
        if sample_weight is not None:
            weigh_by_visits(task)
        optimizer = self._learned.optimizer
        self._configure(optimizer)
        self._losses.append(partial_fit_minibatch(self, optimizer, task, X))
        return self

    @restore_on_error
    def finalize(self, X: Any = None, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """End a stream of `partial_fit`: shrink for the samples since the last shrinkage, and debias.

        Debiasing needs samples, because a stream stores none: the last ones, or any from the same distribution. It
        starts from the weights of the stream, which count in the average as many steps as the stream had samples. So a
        few samples change them little; more samples remove more of the bias of the shrinkage. Without samples, only the
        shrinkage is applied. After `fit`, only debiasing has an effect.

        Parameters
        ----------
        X, y
            Samples for debiasing, as in `fit`. By default, there is no debiasing.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of these samples, as in `fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not as described; the message names the sample.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_sparsemap import GroupLassoPerceptron
        >>> X = np.random.default_rng(0).normal(size=(90, 6))
        >>> y = X[:, 2] + X[:, 3] > 0
        >>> model = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], budget=1)
        >>> for start in range(0, 90, 30):
        ...     model = model.partial_fit(X[start : start + 30], y[start : start + 30], classes=[False, True])
        >>> model.finalize(X, y).selected_groups_
        array([1])
        """
        task, X = self._validate_finalize(X, y, sample_weight)
        # Other threads may read the stream's model meanwhile.
        self._learned = self._learned.apart()
        is_stream = self._learned.optimizer is not None
        earlier = self._learned.final
        first = self._learned.optimizer if is_stream else self._make_optimizer()
        self._configure(first)
        exceeds = first.exceeds
        if self._has_penalty and (is_stream or exceeds):
            # Keep the shrinkage even if the following steps fail.
            commit_if(self, lambda: True)
            self._learned = FittedState(optimizer=first, final=earlier)
            self._enforce_budget(first)
        last, loss = first, self._latest_loss
        if task is not None and self._has_penalty and self.debias is not None:
            last = self._debias_stream(first, task, X)
            loss = self._loss_of(last)
        final = final_state(first, last, loss, None if exceeds else earlier)
        self._learned = FittedState(wide_model(last, self.n_features_in_, self._weight_budget), final=final)
        return self

    def _validate_finalize(self, X, y, sample_weight):
        """Check the parameters and, if there are samples, lay them out; return their task or None, and X."""
        structure = self._check_params(X)
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("finalize takes both X and y, or neither; pass the missing one")
        self._check_same_structure(structure)
        self._check_whole()
        if X is None:
            return None, None
        classes = vars(self).get("classes_")
        X, _, _, task = self._training_data(structure, X, y, sample_weight, reset=False, classes=classes)
        self._check_task(task).weights = relative(task.weights)
        if sample_weight is not None:
            weigh_by_visits(task)
        return task, X

    def _debias_stream(self, first, task, X):
        """Go on from the model of a stream with the selected groups; return the optimiser of this phase.

        It averages in any case, because steps on a few samples are noisy.

        Parameters
        ----------
        first : GroupOptimizer
            That of the stream, or a new one that has loaded its model.
        task, X
            The samples.
        """
        last = self._debiasing_optimizer(first, _n_visits(task, X), average=True)
        model = first.model()
        n_steps, earlier = first.n_steps, self._learned.final
        if not n_steps and earlier is not None and len(earlier["curve"]):
            n_steps = int(earlier["curve"][-1, 0])
        last.resume(LinearModel(model.coef[last.columns], model.intercept, model.additional), n_steps)
        rng = check_random_state(self.random_state)
        run_epoch = make_epoch(self, last, *self._data_of(last, task, X), rng, remember=False)
        phase = GroupPhase(self, first, last, run_epoch, self.debias_max_iter)
        tell = reporter(self, "debiasing, epoch", self.debias_max_iter)

        def on_iteration(loss):
            check_finite_loss(loss, self._step_size)
            return tell(loss)

        phase.run(on_iteration)
        warn_of_inference(last.unconverged)
        return last

    def _prepare_stream(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X."""
        first, structure, classes, X, task = self._check_stream(X, y, classes, sample_weight)
        if first:
            self._init_state(structure, classes, X)
            optimizer = self._new_optimizer(task.n_outputs, task.n_additional)
            self.n_iter_ = 0
            self._losses = BoundedCurve(mean_of)
        else:
            optimizer = self._make_optimizer() if self._learned.optimizer is None else self._learned.optimizer
        optimizer.set_average(self.average)
        self._loss = self.loss
        # From now on the optimiser has the weights, even if training is interrupted.
        self._learned = FittedState(optimizer=optimizer)
        return task, X

    def _init_state(self, structure, classes, X):
        """Set the structure, loss, classes and groups of a new model."""
        warn_of_scales(X.values)
        groups, group_weights = self._make_groups(X)
        self._begin(structure, classes)
        self.groups_, self.group_weights_ = groups, group_weights

    def _edit(self, **arrays):
        optimizer = self._learned.optimizer
        if optimizer is not None:
            self._learned = FittedState(self._current, final=final_state(optimizer, optimizer, self._loss))
        super()._edit(**arrays)

    def _check_params(self, X=None):
        """Check the parameters; return the structure."""
        check_parameters(self)
        structure = resolve_structure(self.structure, X, vars(self).get("_structure"))
        if structure.uses_graphs:
            raise ValueError("GroupLassoPerceptron does not learn factor graphs; use StructuredSparseMAPClassifier")
        Inference(structure, self.loss)
        if self.debias not in (None, MIRA):
            Inference(structure, self.debias)
        if not _SMALLEST_STEP <= self.eta0 <= _LARGEST_STEP:
            raise ValueError(
                f"eta0 must lie between {_SMALLEST_STEP:.0e} and {_LARGEST_STEP:.0e}, so that the norms of groups are "
                f"floating-point numbers; got {self.eta0!r}"
            )
        if self.budget is not None and self.alpha > 0.0:
            raise ValueError("budget and alpha both set the strength of the penalty; leave one of them at its default")
        return structure

    def _learn_partitions(self, source, classes, n_samples, held, rng):
        self._take_first(source, classes)
        return self._learn_phases(
            (source.source, None), lambda optimizer: partial(source.run_epoch, self, optimizer, rng), n_samples
        )

    def _learn_phases(self, data, epoch_of, n_samples, norms=None):
        """Select groups, then learn the weights of the selected groups again.

        Parameters
        ----------
        data : tuple
            X and y in the user's form.
        epoch_of : callable
            Maps an optimiser to the function that visits all samples, and returns their mean loss.
        n_samples : int
        norms : array, default=None
            See `warn_of_sizes`.
        """
        first = self._learned.optimizer
        debiases = self._has_penalty and self.debias is not None
        n_epochs = self.max_iter + debiases * self.debias_max_iter
        monitor = self.monitor_class(self, Progress(self, *data, n_epochs))
        self._configure(first, n_samples)
        monitor.run(GroupPhase(self, first, first, epoch_of(first), self.max_iter))
        # The last shrinkage enforces the budget.
        self._configure(first, n_samples)
        if self._has_penalty:
            self._enforce_budget(first)
            warn_of_sizes(self, norms, first.alive_groups())
        if debiases and not monitor.stopped:
            last = self._debiasing_optimizer(first, n_samples)
            monitor.run(GroupPhase(self, first, last, epoch_of(last), self.debias_max_iter))
        monitor.store()
        monitor.end()
        return self

    def _make_optimizer(self):
        """Return an optimiser that starts from the current model."""
        model = self._learned.model
        n_features, n_outputs, n_additional = model.sizes
        check_groups(self.groups_, n_features)
        optimizer = self._new_optimizer(n_outputs, n_additional)
        optimizer.load(model, self._learned.final["shrunk"])
        return optimizer

    def _new_optimizer(self, n_outputs, n_additional, columns=None, average=None):
        """Return an optimiser that selects groups or, given selected columns, one that learns their weights again."""
        groups, weights, mira = self.groups_, self.group_weights_, False
        if columns is not None:
            groups = Groups.partition(np.zeros(len(columns), np.int64), names=["selected"])
            weights = np.zeros(1)
            mira = self.debias == MIRA
        optimizer = GroupOptimizer(
            groups, weights, n_outputs, n_additional, average=self.average if average is None else average, mira=mira,
            columns=columns,
        )  # fmt: skip
        self._configure(optimizer)
        return optimizer

    def _configure(self, optimizer, period=None, *, eta0=None):
        """Set the optimiser's parameters.

        Parameters
        ----------
        optimizer : GroupOptimizer
        period : int, default=None
            Number of samples with the same step size. By default, it is that between two shrinkages of a stream.
        eta0 : float, default=None
            Initial step size. By default, the parameter.
        """
        n_groups = self.groups_.n_groups
        if self.budget is not None and self._weight_budget is None and self.budget > n_groups:
            raise ValueError(f"budget={self.budget} is more than the {n_groups} groups; lower it, or use None")
        strength = {"budget": None, "budget_weights": None, "alpha": 0.0}
        if optimizer.columns is None:
            limit = "budget" if self.budget_unit == "groups" else "budget_weights"
            strength |= {"alpha": self.alpha, limit: self.budget}
        optimizer.configure(
            eta0=self.eta0 if eta0 is None else eta0, period=self._shrink_period if period is None else period,
            C=min(float(self.C), _LARGEST_C), shrink_every=None if self.shrink_every == AUTO else self.shrink_every,
            fit_intercept=self.fit_intercept, **strength,
        )  # fmt: skip

    def _debiasing_optimizer(self, first, n_samples, average=None):
        """Return an optimiser that learns the weights of the selected columns from zero."""
        columns = kept_columns(first, self._weight_budget is not None)
        optimizer = self._new_optimizer(*first.sizes[1:], columns, average)
        self._configure(optimizer, n_samples)
        return optimizer

    def _data_of(self, optimizer, task, X):
        """Return task and features with the loss and the columns of an optimiser's phase."""
        if optimizer.columns is None:
            return task, X
        features = X.values[:, optimizer.columns]
        if not sparse.issparse(features):
            features = np.ascontiguousarray(features)
        loss = self._loss_of(optimizer)
        cost = self.cost if LOSSES[loss].margin else None
        if cost is not None:
            cost = aligned_cost(cost, getattr(self, "classes_", None))
        return task.under(loss, self.temperature, cost), RaggedArray(features, X.indptr)

    def _loss_of(self, optimizer):
        """Return the loss that an optimiser minimises."""
        if optimizer.columns is None:
            return self._loss
        return "hinge" if self.debias == MIRA else self.debias

    def _enforce_budget(self, optimizer):
        """Shrink one last time, so that the budget holds."""
        optimizer.shrink_to_budget()
        if optimizer.exceeds:
            warn_user(
                "the budget is exceeded: groups of weight 0 are never discarded, such as those of a single feature "
                "with group_weights='log2'; use 'sqrt' or 'uniform'"
            )
        if not optimizer.alive_groups().any():
            warn_user(
                "no group of features has survived: the strength is too high, or the budget is smaller than each group "
                "or than each set of nested or overlapping groups that vanish together; raise the budget or "
                "shrink_every, or lower alpha"
            )

    def _configure_epoch(self, n_samples, number=0):
        """Configure the optimiser for a round over all samples, with a constant step size."""
        self._configure(self._learned.optimizer, _NO_PERIOD, eta0=self.eta0 / np.sqrt(number + 1.0))

    def _end_round(self, n_samples, number):
        """Shrink the mixture of several shards after a round, so that the budget holds."""
        optimizer = self._learned.optimizer
        self._configure_epoch(n_samples, number)
        if self._has_penalty:
            optimizer.shrink(at_least=0 if self.alpha else 1)

    @property
    def _weight_budget(self):
        """Maximum number of weights, or None."""
        return self.budget if self.budget_unit == "weights" else None

    @property
    def _shrink_period(self):
        """Number of samples between two shrinkages that are not deferred; also the period of the step size."""
        return PAPER_SCHEDULE if self.shrink_every == AUTO else self.shrink_every

    @property
    def _has_penalty(self):
        """Whether groups are shrunk, by a budget or a strength."""
        return self.budget is not None or self.alpha > 0.0

    def _outcome(self, monitor, model):
        phase = monitor.learner
        return self._ended_phases(monitor.losses, phase.first, phase.optimizer, model)

    def _ended_phases(self, losses, first, last, model):
        """Return the attributes that a fit sets at its end, given the optimisers of its phases, and its final model."""
        final = final_state(first, last, self._loss_of(last))
        return self._progress_of(losses) | {"_learned": FittedState(model, final=final)}

    def _progress_of(self, losses):
        """Return the attributes that are derived from the losses of all epochs."""
        return {"_losses": BoundedCurve.of(mean_of, losses), "n_iter_": max(1, min(len(losses), self.max_iter))}

    def _take_rounds(self, optimizers, monitor):
        first, last = optimizers[0], optimizers[-1]
        model = wide_model(last, self.n_features_in_, self._weight_budget)
        vars(self).update(self._ended_phases(monitor.losses, first, last, model))
        self.validation_scores_ = list(monitor.scores)
        self.n_iter_ = monitor.n_iter

    @property
    def selected_groups_(self) -> NDArray[np.int64]:
        selected = np.flatnonzero(self._state("selected"))
        if self._has_penalty and not self._state("shrunk"):
            warn_user(
                "groups have not been shrunk yet, so selected_groups_ are all groups that have weights; shrinkage is "
                f"after every shrink_every={self._shrink_period} samples, at the end of fit and by finalize()"
            )
        return selected

    @property
    def loss_curve_(self) -> Any:
        check_is_fitted(self)
        return self._losses.entries

    @property
    def group_norms_(self) -> NDArray[np.float64]:
        return self._state("norms")

    @property
    def sigma_(self) -> float:
        return float(self._state("sigma")[0])

    @property
    def implied_alpha_(self) -> float:
        return float(self._state("sigma")[1])

    @property
    def memory_curve_(self) -> NDArray[np.int64]:
        return self._state("curve")[:, 1]

    @property
    def memory_steps_(self) -> NDArray[np.int64]:
        return self._state("curve")[:, 0]

    def _state(self, name):
        """Return an attribute of the finished training or, in a stream, of the optimiser."""
        check_is_fitted(self)
        with at_rest(self) as view:
            learned = view._learned
            return (learned.final or final_state(learned.optimizer, learned.optimizer, view._loss))[name]

    @property
    def _latest_loss(self):
        # Debiasing can have another loss.
        final = self._learned.final
        return self._loss if final is None else final["loss"]


def _n_visits(task, X):
    """Return the number of visits of samples in an epoch."""
    return len(X) if task.visits is None else int(task.visits.sum())
