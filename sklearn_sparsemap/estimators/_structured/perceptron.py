"""GroupLassoPerceptron: online learning with selection of groups of features (Martins et al. 2011)."""

from __future__ import annotations

import os
from functools import partial
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, Mapping, NDArray, Self, Sequence
from ..._core.ragged import RaggedArray
from ..._core.validation import N_JOBS, NOT_NEGATIVE, POSITIVE, POSITIVE_INT, POSITIVE_OR_INF, check_parameters
from ...losses import LOSSES
from ...losses._fenchel_young import inference_of
from ...penalties import GroupOrder, Groups, as_group_weights, as_groups
from ...structures import Structure
from ...training._curve import Course, mean_of
from ...training._online.groups import GroupOptimizer
from .._fitting import (
    check_finite_loss,
    keep_if,
    learn_batch,
    leaves_whole,
    relative,
    visits,
    warn_of_inference,
    warn_user,
)
from .._progress import CallbackSupportMixin, Progress, with_callbacks
from .base import LinearStructuredClassifier, resolve_structure
from .phases import MIRA, Phase, final_state, kept_columns, wide_model
from .schedule import AUTO, samples_between, schedule_of
from .selection import SelectionMixin, norms_before_shrinking, warn_of_sizes
from .unfit import CHOICES, fit_trees

# Range of step sizes in which squares of weights neither underflow nor overflow.
_SMALLEST_STEP, _LARGEST_STEP = 1e-50, 1e50
# Approximate memory of training for each column, and for each group.
_BYTES_PER_COLUMN, _BYTES_PER_GROUP = 48, 56
# Columns are 32-bit integers.
_MOST_COLUMNS = 2**31 - 1
# More samples than ever occur, so that the step size is constant.
_NO_PERIOD = 2**62


class GroupLassoPerceptron(SelectionMixin, CallbackSupportMixin, LinearStructuredClassifier):
    """Linear structured classifier that selects groups of features while it learns: the "sparseptron".

    Learns online, and shrinks each group of features as a whole: by the proximal operator of the group lasso, with a
    fixed strength `alpha`, or with the strength that leaves exactly `budget` groups [1]_. Then the weights of the
    selected groups are learned again without a penalty (`debias`).

    With a budget, scores are computed with shrunk weights, while the weights of all groups accumulate gradients
    (regularised dual averaging [2]_, [3]_): no group is lost by an early shrinkage. The groups remain that the averages
    of the shrunk weights select. If memory demands it, or if `shrink_every` is a number, the weights themselves are
    shrunk, and groups that reach zero take no memory.

    Standardise dense features, for example by `sklearn.preprocessing.StandardScaler` in a pipeline: which groups are
    selected depends on the scales of the features. See the notes.

    Weights exist only for pairs of a feature and a label that were updated, so millions of features are possible.

    Parameters
    ----------
    structure : str or Structure, default="auto"
        As in `StructuredSparseMAPClassifier`, without factor graphs.
    loss : {"perceptron", "hinge", "sparsemap", "margin_sparsemap", "crf", "margin_crf"}, default="perceptron"
        The loss of the first phase. With the perceptron and a budget, predictions do not depend on `eta0`.
    groups : None, array-like, dict, list, "templates", GroupTree, GroupOrder or Groups, default=None
        Groups of features: None is one for each feature; an int array of shape (n_features,) holds the group of each;
        a dict from names to columns; a list of lists of columns, which may overlap; ``"templates"`` takes ``X.groups``,
        as `TemplateVectorizer` makes them; a `GroupTree` or `GroupOrder` without columns takes them as its base groups.
        Columns are places, or the names of features (`feature_names_in_`); see also
        `sklearn_sparsemap.penalties.groups_from`.
    group_weights : {"uniform", "log2", "sqrt"} or array-like of shape (n_groups,), default="uniform"
        How strongly each group is penalised, relative to the others: equally, by the logarithm (as in the paper) or by
        the square root of its number of features; in a tree or an order, of those that are not in finer groups, too.
    budget : int, default=None
        Maximum number of groups to keep. By default, `budget_weights` or `alpha` is used.
    budget_weights : int, default=None
        Maximum number of weights to keep, instead of `budget`: `n_nonzero_coefs_` does not exceed it after `fit` or
        `finalize`. See the notes.
    alpha : float, default=0.0
        Without budgets, the strength of the penalty: the objective is the mean loss plus ``alpha`` times the sum of
        the groups' norms times their weights.
    shrink_every : int or "auto", default="auto"
        Number of samples between two shrinkages of the weights. A shrinkage discards groups, which start again from
        zero: with a smaller number less memory is used, and more groups are lost by chance. 1000 is the paper's
        schedule. With ``"auto"`` and a budget, groups are discarded after the last epoch and, the weakest first, if
        there are more than 524,288 weights of which the selected groups have less than half. With `alpha` or
        `freeze_after`, ``"auto"`` is 1000. In all cases, a shrinkage follows the last epoch.
    freeze_after : int, default=None
        Number of epochs after which the strength implied by the budget is frozen. By default, it is determined again at
        each shrinkage. A frozen strength no longer bounds the number of groups, except at the last shrinkage.
    max_iter : int, default=5
        Epochs of the first phase.
    eta0 : float, default=1.0
        Step size in the first epoch; in epoch t it is ``eta0 / sqrt(t)``.
    debias : {"mira", None} or a loss, default="mira"
        How the weights of the selected groups are learned again in `fit`: by 1-best MIRA on the hinge loss, or by
        online gradient steps on a loss. None keeps those of the first phase. Without budget and alpha there is no
        debiasing.
    debias_max_iter : int, default=10
        Epochs of the second phase.
    C : float, default=inf
        Maximum step size of MIRA (its aggressiveness).
    temperature : float, default=1.0
        Scores are divided by it in the losses, and in `predict_marginals`.
    fit_intercept : bool, default=True
        Whether each output has an intercept. It is in no group, like transitions and other additional scores.
    class_weight : dict, "balanced" or None, default=None
        As in `StructuredSparseMAPClassifier`.
    average : bool, default=True
        Whether weights are averaged over all steps of a phase.
    shuffle : bool, default=True
        Whether samples are visited in a new random order in each epoch.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Number of threads for prediction.
    verbose : int, default=0
        1 reports the first epochs and every tenth, 2 reports all.
    unfit : {"raise", "drop", "projectivise"}, default="raise"
        What training does with trees that a `DependencyTree` does not allow: with several roots where it has
        ``single_root=True``, or arcs that cross where it is ``projective=True``. ``"raise"`` is an error; ``"drop"``
        leaves them out (a mini-batch or a partition of nothing else is skipped; `fit` needs one that fits);
        ``"projectivise"`` makes them fit: roots after the first become modifiers of that, and arcs that cross others
        are lifted to the head's head, the shortest first (Nivre and Nilsson, ACL 2005). Both say in a warning how many
        there are.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, if structures are made of labels.
    coef_ : CSR of shape (n_outputs, n_features)
        Sparse: only nonzero weights are stored.
    intercept_ : ndarray of shape (n_outputs,)
    transitions_, start_, end_, additional_scores_
        As in `StructuredSparseMAPClassifier`.
    groups_ : Groups
        The groups; ``groups_.names`` are their names.
    group_weights_ : ndarray of shape (n_groups,)
    selected_groups_ : int ndarray
        Numbers of the selected groups. In a stream, these are the groups that the budget selects now or, if
        `shrink_every` or `alpha` sets the schedule, those that survived the last shrinkage. Before the first shrinkage
        of such a schedule they are all groups that have weights, and a warning says so.
    selected_group_names_ : list
        Their names; of templates those of the vectorizer.
    group_norms_ : ndarray of shape (n_groups,)
        Norm of each group's weights at the end of the first phase; in a stream with ``shrink_every="auto"`` and a
        budget, of their averages.
    sigma_ : float
        Strength of the last nonzero shrinkage, in the unit of `alpha`.
    n_nonzero_coefs_ : int
        Nonzero entries of `coef_`.
    memory_curve_ : int ndarray of shape (n_records,)
        Number of weights before and after each shrinkage of the weights ([1]_, figure 2); with
        ``shrink_every="auto"`` and a budget, also after each 1,000 samples. After some 2,000 records, adjacent ones
        are merged into the one with the most weights; the last record is kept.
    memory_steps_ : int ndarray of shape (n_records,)
        The number of samples visited until then, including those of debiasing.
    loss_curve_ : list of float
        Mean loss during each epoch, of both phases. (`partial_fit`: of each mini-batch; after some 2,000 the mean
        of neighbouring ones.)
    n_iter_ : int
        Epochs of the first phase (`partial_fit`: mini-batches).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If `X` has names: a DataFrame, or a list of them.

    Notes
    -----
    A group is selected by the norm of its weights, in the unit of the features' inverse, and the gradients that move
    them are in the unit of the features. So features with small numbers are rarely selected. If all features are small,
    the intercept, a feature of value 1, explains most of what it can before they do. On three tables of scikit-learn,
    standardised columns times 0.01 cost 8 to 47 points of accuracy. Columns that count or indicate, as those of
    templates, need no scaling.

    With `budget_weights`, a shrinkage considers groups in the order of norm over group weight, and keeps each one whose
    weights still fit: a greedy solution of the knapsack problem. A group counts with the maximum number of weights
    (pairs of a feature and a label) that it has had at a shrinkage so far. The strength is such that the weakest kept
    group just survives; groups that do not fit are discarded, whatever their norm. With ``group_weights="sqrt"`` the
    order is approximately that of squared norm per weight, which prefers many small groups; ``"uniform"`` prefers the
    few largest that fit. Group norms do not measure usefulness. Choose by validation: for templates of tokens, a few
    large groups were best; for templates of arcs many small ones, best with sizes to the power of 0.75 (an array;
    ``"sqrt"`` is next). In trees and orders, in which groups are discarded together, the strength is the smallest at
    which at most `budget_weights` weights survive. Debiasing learns the features with weights, and if the result
    exceeds the budget, its smallest weights are dropped.

    `fit` takes no sample weights: for an online learner a sample of weight 2 is not the same as two samples, which
    scikit-learn asks of estimators that take them (its own `Perceptron` is exempt from that check by name). Use
    `class_weight`, or repeat samples.

    Ctrl-C keeps the model of the last sample, and raises KeyboardInterrupt; `partial_fit` and `finalize` continue from
    there. Before the first sample, and after an error, the estimator is unchanged.

    The number of epochs is fixed, as in the paper, so there is no ConvergenceWarning.

    For structures that differ in their number of parts (`Subset`, `CustomStructure`), the objective of the last loss
    decides the number of parts: hinge after debiasing by MIRA.

    See Also
    --------
    StructuredSparseMAPClassifier : All features, with a squared penalty.
    sklearn_sparsemap.estimators.group_path : Fits a range of budgets.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.
    .. [2] Xiao. Dual Averaging Methods for Regularized Stochastic Learning and Online Optimization. JMLR 11, 2010.
    .. [3] Yang, Xu, King and Lyu. Online Learning for Group Lasso. ICML 2010.

    Examples
    --------
    Of three groups of sensors only one says something about the label:

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

    _set_by_fit = (*LinearStructuredClassifier._set_by_fit, "groups_", "group_weights_")
    _state_kinds = ("groups",)
    # The step size decreases from epoch to epoch.
    _counts_samples = True

    # "no_validation" marks parameters that are checked elsewhere, with more specific messages.
    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(LOSSES))],
        "groups": "no_validation",
        "group_weights": "no_validation",
        "budget": [POSITIVE_INT, None],
        "budget_weights": [POSITIVE_INT, None],
        "alpha": [NOT_NEGATIVE],
        "shrink_every": [POSITIVE_INT, StrOptions({AUTO})],
        "freeze_after": [POSITIVE_INT, None],
        "max_iter": [POSITIVE_INT],
        "eta0": [POSITIVE],
        "debias": [StrOptions({MIRA, *LOSSES}), None],
        "debias_max_iter": [POSITIVE_INT],
        "C": [POSITIVE_OR_INF],
        "temperature": [POSITIVE],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "average": ["boolean"],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
        "unfit": [StrOptions(set(CHOICES))],
    }

    def __init__(
        self,
        structure: str | Structure = "auto",
        loss: Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"] = "perceptron",
        groups: Any = None,
        group_weights: Literal["uniform", "log2", "sqrt"] | ArrayLike = "uniform",
        budget: int | None = None,
        budget_weights: int | None = None,
        alpha: float = 0.0,
        shrink_every: int | Literal["auto"] = "auto",
        freeze_after: int | None = None,
        max_iter: int = 5,
        eta0: float = 1.0,
        debias: str | None = "mira",
        debias_max_iter: int = 10,
        C: float = np.inf,
        temperature: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        average: bool = True,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
        unfit: Literal["raise", "drop", "projectivise"] = "raise",
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.groups = groups
        self.group_weights = group_weights
        self.budget = budget
        self.budget_weights = budget_weights
        self.alpha = alpha
        self.shrink_every = shrink_every
        self.freeze_after = freeze_after
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
        self.unfit = unfit

    @with_callbacks
    @leaves_whole
    def fit(self, X: Any, y: Any) -> Self:
        """Select groups and learn their weights.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features), or a sequence of such of shape (n_steps, n_features)
            The second for structured problems.
        y : array-like of shape (n_samples,), or a sequence of structures

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the groups do not fit the features, or the data are not as described; the
            message names the sample.
        """
        structure = self._check_params()
        data = X, y
        X, codes, classes = self._check_data(structure, X, y, reset=True)
        weights = self._sample_weights(X, codes, classes, None)
        X, codes, weights = fit_trees(self.unfit, structure, X, codes, weights)
        task = self._training_task(structure, X, codes, classes, relative(weights))
        self._begin(structure, classes, *self._make_groups(X))
        self._optimizer = self._new_optimizer(task.n_outputs, task.n_additional)
        norms, rng = norms_before_shrinking(self, task, X), check_random_state(self.random_state)

        def visit_with(optimizer):
            return visits(self, optimizer, *self._data_of(optimizer, task, X), rng, remember=False)

        return self._learn_phases(data, visit_with, len(X), norms)

    def _learn_partitions(self, source, classes, n_samples, held, rng):
        self._take_first(source, classes)
        return self._learn_phases(
            (source.source, None), lambda optimizer: partial(source.visit, self, optimizer, rng), n_samples
        )

    def _learn_phases(self, data, visit_with, n_samples, norms=None):
        """Select groups, then learn the weights of the selected ones again.

        Parameters
        ----------
        data : tuple
            X and y as the user gave them.
        visit_with : callable
            Maps an optimiser to the function that visits all samples, and returns their mean loss.
        n_samples : int
        norms : array, default=None
            See `warn_of_sizes`.
        """
        first, debiases = self._optimizer, self._selects and self.debias is not None
        n_epochs = self.max_iter + debiases * self.debias_max_iter
        monitor = self.monitor_class(self, Progress(self, *data, n_epochs))
        self._configure(first, n_samples)
        monitor.follow(Phase(self, first, first, visit_with(first), self.max_iter, n_samples))
        # The last shrinkage enforces the budget.
        self._configure(first, n_samples)
        if self._selects:
            self._select(first)
            warn_of_sizes(self, norms, first.alive_groups())
        if debiases and not monitor.stopped:
            last = self._debiasing_optimizer(first, n_samples)
            monitor.follow(Phase(self, first, last, visit_with(last), self.debias_max_iter, n_samples))
        monitor.take()
        monitor.end()
        return self

    @leaves_whole
    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | NDArray[Any] | None = None) -> Self:
        """Learn online from a mini-batch: one pass over its samples, in their order, with shrinkage but no debiasing.

        The step size decreases as ``eta0 / sqrt(t / shrink_every)`` with the number t of samples; ``"auto"`` counts as
        1000. With ``"auto"`` and a budget, the model has the weights of the selected groups at any time, and the other
        groups compete. Otherwise the budget holds for the weights after each shrinkage, and between two shrinkages
        other groups may come up. `finalize` ends the stream with a shrinkage and, given samples, debiasing. After `fit`
        or `finalize`, training continues from their model.

        Parameters
        ----------
        X, y
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur; needed at the first call if structures are made of labels.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As in `fit`; also at the first call without `classes`, and for a label that is not among them.
        """
        task, X = self._take_in(X, y, classes)
        if task is None:
            return self
        self._configure(self._optimizer, samples_between(self))
        n_inexact = self._optimizer.unconverged
        self._losses.note(learn_batch(self, self._optimizer, task, X))
        warn_of_inference(self._optimizer.unconverged - n_inexact)
        return self

    @leaves_whole
    def finalize(self, X: Any = None, y: Any = None) -> Self:
        """End a stream of `partial_fit`: shrink for the samples since the last shrinkage, and debias.

        A stream stores no samples, so debiasing needs some: the last ones, or any of the same kind. Without them, the
        weights remain as the shrinkage leaves them. After `fit`, only debiasing has an effect.

        Parameters
        ----------
        X, y
            As in `fit`. By default, only shrink.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not as described; the message names the sample.
        sklearn.exceptions.NotFittedError
            If there is no model yet.

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
        structure = self._check_params()
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("finalize takes both X and y, or none of them")
        self._check_same_structure(structure)
        self._check_whole()
        self._check_budget(self.groups_)
        classes = self.classes_ if structure.labelled else None
        if X is not None:
            X, codes, _ = self._check_data(structure, X, y, reset=False, classes=classes)
            weights = self._sample_weights(X, codes, classes, None)
            X, codes, weights = fit_trees(self.unfit, structure, X, codes, weights)
            task = self._check_task(self._training_task(structure, X, codes, classes, relative(weights)))
        first = self._optimizer
        if first is None:
            first = self._new_begin()
        self._configure(first, samples_between(self))
        exceeds = first.exceeds
        if self._selects and (self._optimizer is not None or exceeds):
            # The shrinkage is kept even if the following steps fail.
            keep_if(self, lambda: True)
            self._model, self._optimizer = None, first
            self._select(first)
        last, loss = first, self._latest_loss
        if X is not None and self._selects and self.debias is not None:
            last = self._debiasing_optimizer(first, len(X))
            loss, rng = self._loss_of(last), check_random_state(self.random_state)
            visit = visits(self, last, *self._data_of(last, task, X), rng, remember=False)
            phase = Phase(self, first, last, visit, self.debias_max_iter, len(X))
            phase.run(partial(check_finite_loss, step_size=self._step_size))
            warn_of_inference(last.unconverged)
        final = final_state(first, last, loss)
        if self._final is not None and not exceeds:
            final |= {name: self._final[name] for name in ("norms", "sigma", "curve")}
        self._model = wide_model(last, self.n_features_in_, self.budget_weights)
        self._final, self._optimizer = final, None
        return self

    def _make_groups(self, X):
        n_features = X.values.shape[1]
        _check_memory(n_features, self.groups is None)
        self._template_names = X.group_names
        feature_groups = X.groups
        if isinstance(self.groups, str) and self.groups == "templates" and feature_groups is None:
            raise ValueError(
                "groups='templates' needs features that know their templates: a RaggedArray with groups, as "
                "TemplateVectorizer makes it"
            )
        if not isinstance(self.groups, str | GroupOrder):
            feature_groups = None
        names = getattr(self, "feature_names_in_", None)
        groups = as_groups(self.groups, n_features, feature_groups=feature_groups, feature_names=names)
        self._check_budget(groups)
        sizes = groups.sizes
        if isinstance(self.groups, GroupOrder):
            # A coarse group contains all finer ones. With all their features as its size it would be the first to be
            # discarded, together with them.
            sizes = np.bincount(groups.atom_of, minlength=groups.n_atoms)
        return groups, as_group_weights(self.group_weights, sizes)

    def _check_budget(self, groups):
        if self.budget is not None and self.budget > groups.n_groups:
            raise ValueError(f"budget={self.budget} is more than the {groups.n_groups} groups; lower it, or use None")

    def _take_in(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X.

        The task is None if no sample is left; then nothing has changed.
        """
        first, structure, classes, X, task = self._check_stream(X, y, classes, sample_weight)
        if task is None:
            return None, X
        if first:
            self._begin(structure, classes, *self._make_groups(X))
            self._optimizer = self._new_optimizer(task.n_outputs, task.n_additional)
            self.n_iter_, self._losses = 0, Course(mean_of)
        elif self._optimizer is None:
            self._optimizer, self._final = self._new_begin(), None
        self._check_budget(self.groups_)
        if self._optimizer.average != self.average:
            raise ValueError("average cannot change between calls of partial_fit; fit a clone")
        self._loss = self.loss
        # From now on the optimiser has the weights, even if training is interrupted.
        self._model = None
        return task, X

    def _new_optimizer(self, n_outputs, n_additional, columns=None):
        """Return an optimiser that selects groups, or one that learns the weights of selected columns again."""
        groups, weights, mira = self.groups_, self.group_weights_, False
        if columns is not None:
            groups = Groups.partition(np.zeros(len(columns), np.int64), names=["selected"])
            weights, mira = np.zeros(1), self.debias == MIRA
        optimizer = GroupOptimizer(
            groups, weights, n_outputs, n_additional, average=self.average, mira=mira, columns=columns
        )
        self._configure(optimizer, samples_between(self))
        return optimizer

    def _new_begin(self):
        """Return an optimiser that starts from the current model."""
        n_features, n_outputs, n_additional = self._model.sizes
        self.groups_._check(n_features)
        optimizer = self._new_optimizer(n_outputs, n_additional)
        optimizer.load(self._model, self._final["shrunk"])
        return optimizer

    def _debiasing_optimizer(self, first, n_samples):
        """Return an optimiser that learns the weights of the columns that another has kept, from zero."""
        optimizer = self._new_optimizer(*first.sizes[1:], kept_columns(first, self.budget_weights is not None))
        self._configure(optimizer, n_samples)
        return optimizer

    def _configure(self, optimizer, period, *, frozen=None, eta0=None):
        """Set the optimiser's parameters."""
        strength = {"budget": self.budget, "budget_weights": self.budget_weights, "alpha": self.alpha}
        if optimizer.columns is not None:
            strength = {"budget": None, "budget_weights": None, "alpha": 0.0}
        optimizer.configure(
            eta0=self.eta0 if eta0 is None else eta0, period=period, C=_finite(self.C), shrink_every=schedule_of(self),
            frozen=frozen, fit_intercept=self.fit_intercept, **strength,
        )  # fmt: skip

    def _data_of(self, optimizer, task, X):
        """Return samples with the loss and the columns of an optimiser's phase."""
        if optimizer.columns is None:
            return task, X
        features = X.values[:, optimizer.columns]
        if not sparse.issparse(features):
            features = np.ascontiguousarray(features)
        return task.under(self._loss_of(optimizer), self.temperature), RaggedArray(features, X.indptr)

    def _loss_of(self, optimizer):
        """Return the loss that an optimiser minimises."""
        if optimizer.columns is None:
            return self.loss
        return "hinge" if self.debias == MIRA else self.debias

    def _select(self, optimizer):
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
                "or (of nested or overlapping groups) than what dies together; raise the budget or shrink_every, or "
                "lower alpha"
            )

    def _configure_epoch(self, n_samples, number=0):
        """Configure the optimiser for a round over all samples, with a constant step size."""
        optimizer = self._optimizer
        is_frozen = optimizer.columns is None and self.freeze_after is not None and number >= self.freeze_after
        frozen, eta0 = float(optimizer.sigma[0]) if is_frozen else None, self.eta0 / np.sqrt(number + 1.0)
        self._configure(optimizer, _NO_PERIOD, frozen=frozen, eta0=eta0)

    def _end_round(self, n_samples, number):
        """Shrink the mixture of several shards after a round, so that the budget holds."""
        optimizer = self._optimizer
        self._configure_epoch(n_samples, number)
        if self._selects:
            optimizer.shrink(at_least=0 if self.alpha else 1)
            if optimizer.exceeds:
                # This happens with a frozen strength.
                self._configure(optimizer, _NO_PERIOD)
                optimizer.shrink_to_budget()

    @property
    def _selects(self):
        """Whether groups are shrunk."""
        return self.budget is not None or self.budget_weights is not None or self.alpha > 0.0

    def _begin(self, structure, classes, groups, group_weights):
        """Set the structure, loss, classes and groups of the model."""
        super()._begin(structure, classes)
        self._model = self._optimizer = self._final = None
        self.groups_, self.group_weights_ = groups, group_weights

    def _outcome(self, monitor, model):
        phase = monitor.learner
        return self._ended_phases(monitor.losses, phase.first, phase.optimizer, model)

    def _ended_phases(self, losses, first, last, model):
        """Return the attributes that a fit sets at its end, given the optimisers of its phases, and its model."""
        final = final_state(first, last, self._loss_of(last))
        return self._progress_of(losses) | {"_model": model, "_optimizer": None, "_final": final}

    def _progress_of(self, losses):
        """Return the attributes that follow from the losses of all epochs."""
        return {"_losses": Course.of(mean_of, losses), "n_iter_": max(1, min(len(losses), self.max_iter))}

    def _take_rounds(self, optimizers, monitor):
        first, last = optimizers[0], optimizers[-1]
        model = wide_model(last, self.n_features_in_, self.budget_weights)
        vars(self).update(self._ended_phases(monitor.losses, first, last, model))
        self.validation_scores_, self.n_iter_ = list(monitor.scores), monitor.n_iter

    def _took_state(self):
        self._final = None

    def _edit(self, **arrays):
        if self._optimizer is not None:
            self._final = final_state(self._optimizer, self._optimizer, self._loss)
        super()._edit(**arrays)

    @property
    def _latest_loss(self):
        # Debiasing can have another loss.
        return self._loss if self._final is None else self._final["loss"]

    def _check_params(self):
        """Check the parameters; return the structure."""
        check_parameters(self)
        structure = resolve_structure(self.structure)
        if not isinstance(structure, Structure):
            raise ValueError("GroupLassoPerceptron does not learn factor graphs; use StructuredSparseMAPClassifier")
        inference_of(structure, self.loss)
        if self.debias not in (None, MIRA):
            inference_of(structure, self.debias)
        if not _SMALLEST_STEP <= self.eta0 <= _LARGEST_STEP:
            raise ValueError(
                f"eta0 must lie between {_SMALLEST_STEP:.0e} and {_LARGEST_STEP:.0e}, so that the norms of groups are "
                f"floating-point numbers; got {self.eta0!r}"
            )
        if (self.budget is not None) + (self.budget_weights is not None) + (self.alpha > 0.0) > 1:
            raise ValueError(
                "budget, budget_weights and alpha are ways to set the same strength; leave all but one at their default"
            )
        return structure


def _check_memory(n_columns, of_each):
    """Raise ValueError if there are more columns than fit into memory, because the system would kill the process."""
    needed = n_columns * (_BYTES_PER_COLUMN + _BYTES_PER_GROUP * of_each)
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # The system does not tell its memory.
        present = np.inf
    if n_columns > _MOST_COLUMNS or needed > present:
        why = f"take about {needed / 2**30:.1f} GiB" if needed > present else f"are more than {_MOST_COLUMNS}"
        remedy = "pass groups of columns, or hash features" if of_each else "hash features"
        each = ", with groups=None a group each," if of_each else ""
        raise ValueError(f"X has {n_columns} columns; these{each} {why}; {remedy} into fewer columns")


def _finite(C):
    """Return MIRA's maximum step size as a finite number, which can be multiplied by a weight of zero."""
    return min(float(C), np.finfo(np.float64).max / 1e10)
