"""GroupLassoPerceptron: online learning that chooses groups of features as it goes (Martins et al. 2011)."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..._ragged import RaggedArray
from ..._validation import N_JOBS, NOT_NEGATIVE, POSITIVE, POSITIVE_INT, POSITIVE_OR_INF, check_parameters
from ...losses import LOSSES
from ...losses._fenchel_young import inference_of
from ...penalties import GroupOrder, Groups, as_group_weights, as_groups
from ...structures import Structure
from ...training._curve import Course, mean_of
from ...training._data import LinearModel
from ...training._online.dense import SINCE
from ...training._online.groups import GroupOptimizer
from .._fitting import Monitor, keep_if, learn_batch, leaves_whole, relative, visits, warn_of_inference, warn_user
from .._progress import CallbackSupportMixin, Progress, with_callbacks
from .base import LinearStructuredClassifier, resolve_structure
from .selection import SelectionMixin, norms_before_shrinking, warn_of_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Self


# What `debias` may be besides the names of losses.
_MIRA = "mira"
# Beyond these, squares of weights are not floating-point numbers any more.
_SMALLEST_STEP, _LARGEST_STEP = 1e-50, 1e50
# About what training needs for each column, and for each group: the arrays of the store, and those of the groups.
_BYTES_PER_COLUMN, _BYTES_PER_GROUP = 48, 56
# More samples than there will ever be.
_NO_PERIOD = 2**62
# Columns are counted by 32-bit integers.
_MOST_COLUMNS = 2**31 - 1


class GroupLassoPerceptron(SelectionMixin, CallbackSupportMixin, LinearStructuredClassifier):
    """Linear structured classifier that selects groups of features while it learns: the "sparseptron".

    Learns online, and every so many samples shrinks each group of features as a whole: by the proximal operator of the
    group lasso, with a fixed strength `alpha`, or with the strength that leaves just `budget` groups. Groups that reach
    zero take no memory [1]_. Then the weights of the selected groups are learned anew without a penalty (`debias`).

    Weights exist only for pairs of a feature and a label that were updated, so that millions of features are no
    obstacle.

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
        Most groups to keep. None takes `alpha`.
    alpha : float, default=0.0
        Without a budget, the strength of the penalty: the objective is the mean loss plus ``alpha`` times the sum of
        the groups' norms times their weights.
    shrink_every : int, default=1000
        Samples between two shrinkages. (The last one is after the last epoch.)
    freeze_after : int, default=None
        After so many epochs the strength that the budget has implied is kept. None determines it anew at each
        shrinkage. It then bounds no longer how many groups there are, but for the last shrinkage.
    max_iter : int, default=5
        Epochs of the first phase.
    eta0 : float, default=1.0
        Step size in the first epoch; in epoch t it is ``eta0 / sqrt(t)``.
    debias : {"mira", None} or a loss, default="mira"
        How the weights of the selected groups are learned anew in `fit`: by 1-best MIRA on the hinge loss, or by online
        gradient steps on a loss. None keeps those of the first phase. Without budget and alpha there is nothing to do.
    debias_max_iter : int, default=10
        Epochs of the second phase.
    C : float, default=inf
        MIRA's longest step.
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

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where structures are made of labels.
    coef_ : CSR of shape (n_outputs, n_features)
        Sparse: only nonzero weights are held.
    intercept_ : ndarray of shape (n_outputs,)
    transitions_, start_, end_, additional_scores_
        As in `StructuredSparseMAPClassifier`.
    groups_ : Groups
        The groups; ``groups_.names`` are their names.
    group_weights_ : ndarray of shape (n_groups,)
    selected_groups_ : int ndarray
        Numbers of the groups that survived the last shrinkage. Where none has taken place yet, in a stream or after
        Ctrl-C, a warning says so; they are then all groups that have weights.
    selected_group_names_ : list
        Their names; of templates those of the vectorizer.
    group_norms_ : ndarray of shape (n_groups,)
        Norm of each group's weights at the end of the first phase.
    sigma_ : float
        Strength of the last shrinkage that had something to do, in the unit of `alpha`.
    n_nonzero_coefs_ : int
        Nonzero entries of `coef_`.
    memory_curve_ : int ndarray of shape (n_records,)
        How many weights existed, before and after each shrinkage ([1]_, figure 2). After some 2,000 shrinkages, of
        neighbouring ones that with the most weights, and the last one.
    memory_steps_ : int ndarray of shape (n_records,)
        The number of samples visited until then; debiasing counts on.
    loss_curve_ : list of float
        Mean loss during each epoch, of both phases. (`partial_fit`: of each mini-batch; after some 2,000 the mean
        of neighbouring ones.)
    n_iter_ : int
        Epochs of the first phase (`partial_fit`: mini-batches).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where `X` has names: a DataFrame, or a list of them.

    Notes
    -----
    `fit` takes no sample weights: for an online learner a sample of weight 2 is not the same as two samples, which
    scikit-learn asks of estimators that take them (its own `Perceptron` is exempt from that check by name). Use
    `class_weight`, or repeat samples.

    Ctrl-C keeps the model as it is after the last sample, and raises KeyboardInterrupt; `partial_fit` and `finalize` go
    on from there. Before the first sample, and after an error, the estimator is as it was.

    The number of epochs is fixed, as in the paper, so that none of them ends with a ConvergenceWarning.

    Structures that differ in their number of parts (`Subset`, `CustomStructure`) are predicted by the objective of the
    loss that the weights were learned with last: hinge after debiasing by MIRA.

    See Also
    --------
    StructuredSparseMAPClassifier : All features, with a squared penalty.
    sklearn_sparsemap.estimators.group_path : Fits a range of budgets.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.

    Examples
    --------
    Of three groups of sensors only one says something about the label:

    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 9))
    >>> y = np.where(X[:, 3] + X[:, 4] - X[:, 5] > 0, "up", "down")
    >>> model = GroupLassoPerceptron(groups=[0, 0, 0, 1, 1, 1, 2, 2, 2], budget=1, shrink_every=50, random_state=0)
    >>> model.fit(X, y).selected_groups_
    array([1])
    >>> model.predict([[0, 0, 0, 2.0, 1.0, -1.0, 0, 0, 0]])
    array(['up'], dtype='<U4')
    """

    _set_by_fit = (*LinearStructuredClassifier._set_by_fit, "groups_", "group_weights_")
    _state_kinds = ("groups",)
    # The step size falls from epoch to epoch.
    _counts_samples = True

    # Those that are "no_validation" are checked where they are read, and messages there say more.
    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(LOSSES))],
        "groups": "no_validation",
        "group_weights": "no_validation",
        "budget": [POSITIVE_INT, None],
        "alpha": [NOT_NEGATIVE],
        "shrink_every": [POSITIVE_INT],
        "freeze_after": [POSITIVE_INT, None],
        "max_iter": [POSITIVE_INT],
        "eta0": [POSITIVE],
        "debias": [StrOptions({_MIRA, *LOSSES}), None],
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
    }

    def __init__(
        self,
        structure: str | Structure = "auto",
        loss: Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"] = "perceptron",
        groups: Any = None,
        group_weights: Literal["uniform", "log2", "sqrt"] | ArrayLike = "uniform",
        budget: int | None = None,
        alpha: float = 0.0,
        shrink_every: int = 1000,
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
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.groups = groups
        self.group_weights = group_weights
        self.budget = budget
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
        groups, group_weights = self._make_groups(X)
        task = self._training_task(structure, X, codes, classes, relative(weights))
        rng = check_random_state(self.random_state)
        selects = self.budget is not None or self.alpha > 0.0
        debiases = selects and self.debias is not None
        norms = norms_before_shrinking(self, groups, group_weights, task, X)
        optimizer = self._new_optimizer(groups, group_weights, task.n_outputs, task.n_additional)
        self._configure(optimizer, len(X), None)
        self._begin(structure, classes, groups, group_weights, optimizer)
        monitor = PairMonitor(self, optimizer, Progress(self, *data, self.max_iter + debiases * self.debias_max_iter))
        keep_if(self, lambda: optimizer.n_steps > 0 and not monitor.diverged, lambda: self._take(monitor))
        visit = visits(self, optimizer, task, X, rng, remember=False)
        self._run_epochs(optimizer, visit, task.loss, len(X), self.max_iter, monitor)
        # The last shrinkage keeps to the budget.
        self._configure(optimizer, len(X), None)
        if selects:
            self._select(optimizer)
            warn_of_sizes(self, norms, optimizer.alive_groups())
        if debiases and not monitor.stopped:
            optimizer = self._learn_anew(optimizer, task, X, rng, monitor)
        return self._end_fit(monitor)

    @staticmethod
    def _select(optimizer):
        """Shrink a last time."""
        optimizer.shrink()
        if not optimizer.alive_groups().any():
            warn_user(
                "no group of features has survived: the strength is too high, or (of nested or overlapping groups) "
                "the budget is smaller than what dies together; raise budget or shrink_every, or lower alpha"
            )

    def _run_epochs(self, optimizer, visit, loss, n_samples, n_epochs, monitor):
        """Visit all samples some times, which minimises this loss."""
        monitor.follow(optimizer, loss)
        for number in range(n_epochs):
            mean_loss = visit()
            if number + 1 == self.freeze_after and optimizer is monitor.first:
                self._configure(optimizer, n_samples, float(optimizer.sigma[0]))
            if monitor.iteration(mean_loss):
                break

    def _learn_anew(self, first, task, X, rng, monitor):
        """Learn the weights of the features that an optimiser has left without a penalty."""
        optimizer = self._debiasing_optimizer(first, len(X))
        task, X = self._debiasing_data(optimizer.columns, task, X)
        visit = visits(self, optimizer, task, X, rng, remember=False)
        self._run_epochs(optimizer, visit, task.loss, len(X), self.debias_max_iter, monitor)
        return optimizer

    def _debiasing_optimizer(self, first, n_samples):
        """Return what learns the weights of the features anew that an optimiser has left."""
        kept = np.flatnonzero(first.alive()[first.source.atom_of])
        n_outputs = first.n_outputs
        return self._optimizer_of_columns(kept, n_outputs, first.store.n_dense - n_outputs, n_samples)

    def _optimizer_of_columns(self, columns, n_outputs, n_additional, n_samples):
        optimizer = GroupOptimizer(
            Groups.partition(np.zeros(len(columns), np.int64), names=["selected"]),
            np.zeros(1),
            n_outputs,
            n_additional,
            average=self.average,
            mira=self.debias == _MIRA,
            columns=columns,
        )
        optimizer.configure(
            eta0=self.eta0, period=n_samples, C=_finite(self.C), shrink_every=self.shrink_every, budget=None, alpha=0.0,
            frozen=None, fit_intercept=self.fit_intercept,
        )  # fmt: skip
        return optimizer

    def _debiasing_data(self, columns, task, X):
        """Return samples with these features alone, and their task under the loss of that phase."""
        features = X.values[:, columns]
        if not sparse.issparse(features):
            features = np.ascontiguousarray(features)
        loss = "hinge" if self.debias == _MIRA else self.debias
        return task.under(loss, self.temperature), RaggedArray(features, X.indptr)

    def _end_fit(self, monitor):
        monitor.is_complete = True
        self._take(monitor)
        warn_of_inference(monitor.optimizer.unconverged)
        monitor.progress.end(lambda: monitor.attributes(self._model))
        return self

    def _learn_partitions(self, source, classes, n_samples, held, rng):
        X, y = source.read_first()
        task, X = self._take_in(X, y, classes)
        first, selects = self._optimizer, self.budget is not None or self.alpha > 0.0
        self._configure(first, n_samples, None)
        debiases, loss = selects and self.debias is not None, task.loss
        n_epochs = self.max_iter + debiases * self.debias_max_iter
        monitor = PairMonitor(self, first, Progress(self, source.source, None, n_epochs))
        keep_if(self, lambda: first.n_steps > 0 and not monitor.diverged, lambda: self._take(monitor))
        del X, y, task
        self._run_epochs(first, lambda: source.visit(self, first, rng), loss, n_samples, self.max_iter, monitor)
        self._configure(first, n_samples, None)
        if selects:
            self._select(first)
        if debiases and not monitor.stopped:
            last = self._debiasing_optimizer(first, n_samples)

            def debiasing_data(task, X):
                return self._debiasing_data(last.columns, task, X)

            loss = "hinge" if self.debias == _MIRA else self.debias
            visit = partial(source.visit, self, last, rng, debiasing_data)
            self._run_epochs(last, visit, loss, n_samples, self.debias_max_iter, monitor)
        return self._end_fit(monitor)

    @leaves_whole
    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | NDArray[Any] | None = None) -> Self:
        """Learn online from a mini-batch: one pass over its samples, in their order, with shrinkage but no debiasing.

        The step size falls as ``eta0 / sqrt(t / shrink_every)`` with the number t of samples. The budget holds for the
        weights that are kept after each shrinkage; between two of these other groups may come up, and compete.
        `selected_groups_` are those that the last shrinkage has left. `finalize` ends the stream with a shrinkage and,
        given samples, debiasing. After `fit` or `finalize`, training goes on from their model.

        Parameters
        ----------
        X, y
            As in `fit`.
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
        task, X = self._take_in(X, y, classes)
        self._configure(self._optimizer, self.shrink_every, None)
        n_inexact = self._optimizer.unconverged
        self._losses.note(learn_batch(self, self._optimizer, task, X))
        warn_of_inference(self._optimizer.unconverged - n_inexact)
        return self

    def _take_in(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, for which there is an optimiser then; return their task, and X."""
        first, structure, classes, X, task = self._check_stream(X, y, classes, sample_weight)
        if first:
            groups, group_weights = self._make_groups(X)
            optimizer = self._new_optimizer(groups, group_weights, task.n_outputs, task.n_additional)
            self._begin(structure, classes, groups, group_weights, optimizer)
            self.n_iter_, self._losses = 0, Course(mean_of)
        elif self._optimizer is None:
            self._begin(structure, classes, self.groups_, self.group_weights_, self._new_begin())
        self._check_budget(self.groups_)
        if self._optimizer.average != self.average:
            raise ValueError("average cannot change between calls of partial_fit; fit a clone")
        self._loss = self.loss
        # The optimiser has the weights, also when it is interrupted.
        self._model = None
        return task, X

    @leaves_whole
    def finalize(self, X: Any = None, y: Any = None) -> Self:
        """End a stream of `partial_fit`: shrink for the samples since the last shrinkage, and debias.

        A stream keeps no samples, so that debiasing needs some: the last ones, or any of the same kind. Without them
        the weights stay as the shrinkage leaves them. After `fit` only debiasing has something to do.

        Parameters
        ----------
        X, y
            As in `fit`; None shrinks only.

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
        self._check_budget(self.groups_)
        classes = self.classes_ if structure.labelled else None
        selects = self.budget is not None or self.alpha > 0.0
        if X is not None:
            X, codes, _ = self._check_data(structure, X, y, reset=False, classes=classes)
            weights = self._sample_weights(X, codes, classes, None)
            task = self._training_task(structure, X, codes, classes, relative(weights))
        first = self._optimizer
        if first is None:
            first = self._new_begin()
        # A model that was edited, or is to have fewer groups now, needs a shrinkage without new samples, too.
        exceeds = self.budget is not None and first.alive_groups().sum() > self.budget
        if selects and (self._optimizer is not None or exceeds):
            self._configure(first, self.shrink_every, None)
            if exceeds:
                first.counters[SINCE] = max(1, first.counters[SINCE])
            # A shrinkage stays, whatever comes after it.
            keep_if(self, lambda: True)
            self._model, self._optimizer = None, first
            self._select(first)
        last, loss = first, self._latest_loss
        if X is not None and selects and self.debias is not None:
            monitor = PairMonitor(self, first, None)
            last = self._learn_anew(first, task, X, check_random_state(self.random_state), monitor)
            loss = monitor.loss
            warn_of_inference(last.unconverged)
        final = final_state(first, last, loss)
        if self._final is not None and not exceeds:
            final |= {name: self._final[name] for name in ("norms", "sigma", "curve")}
        self._model, self._final, self._optimizer = wide_model(last, self.n_features_in_), final, None
        return self

    # -- Parts of both ---------------------------------------------------------------------------------------------

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
            # A coarse group holds all finer ones: by their number it would be the first to die, and they with it.
            sizes = np.bincount(groups.atom_of, minlength=groups.n_atoms)
        return groups, as_group_weights(self.group_weights, sizes)

    def _check_budget(self, groups):
        if self.budget is not None and self.budget > groups.n_groups:
            raise ValueError(f"budget={self.budget} is more than the {groups.n_groups} groups; lower it, or use None")

    def _new_optimizer(self, groups, group_weights, n_outputs, n_additional):
        return GroupOptimizer(groups, group_weights, n_outputs, n_additional, average=self.average, mira=False)

    def _groups_optimizer(self, n_outputs, n_additional):
        return self._new_optimizer(self.groups_, self.group_weights_, n_outputs, n_additional)

    def _took_state(self):
        self._final = None

    def _configure_round(self, optimizer, task, n_samples, number):
        """Configure an optimiser for one of the rounds over all samples, in which all steps are of one size."""
        selects = optimizer.columns is None
        is_frozen = selects and self.freeze_after is not None and number >= self.freeze_after
        optimizer.configure(
            eta0=self.eta0 / np.sqrt(number + 1.0), period=_NO_PERIOD, C=_finite(self.C),
            shrink_every=self.shrink_every, budget=self.budget if selects else None,
            alpha=self.alpha if selects else 0.0, frozen=float(optimizer.sigma[0]) if is_frozen else None,
            fit_intercept=self.fit_intercept,
        )  # fmt: skip

    def _end_round(self, n_samples, number):
        """Shrink the mixture of what some shards have learned in a round, so that it keeps to the budget."""
        optimizer = self._optimizer
        self._configure_round(optimizer, None, n_samples, number)
        if self.budget is None and not self.alpha:
            return
        # So that a budget holds, there is something to shrink for.
        optimizer.counters[SINCE] = max(optimizer.counters[SINCE], self.budget is not None)
        optimizer.shrink()

    def _take_rounds(self, optimizers, losses, scores):
        first, last = optimizers[0], optimizers[-1]
        loss = self._loss
        if last is not first:
            loss = "hinge" if self.debias == _MIRA else self.debias
        self._model, self._final, self._optimizer = wide_model(last, self.n_features_in_), None, None
        self._final = final_state(first, last, loss)
        self._losses = Course(mean_of)
        for entry in losses:
            self._losses.note(entry)
        self.validation_scores_, self.n_iter_ = scores, max(1, len(losses))

    def _new_begin(self):
        """Return an optimiser that starts from the present model."""
        n_outputs, n_additional = len(self._model.intercept), len(self._model.additional)
        optimizer = self._new_optimizer(self.groups_, self.group_weights_, n_outputs, n_additional)
        optimizer.load(self._model, self._final["shrunk"])
        return optimizer

    def _configure(self, optimizer, period, frozen):
        optimizer.configure(
            eta0=self.eta0, period=period, C=_finite(self.C), shrink_every=self.shrink_every, budget=self.budget,
            alpha=self.alpha, frozen=frozen, fit_intercept=self.fit_intercept,
        )  # fmt: skip

    def _begin(self, structure, classes, groups, group_weights, optimizer):
        """Note what the model is of."""
        self._structure, self._loss = structure, self.loss
        self._model, self._optimizer = None, optimizer
        self._final = None
        self.groups_, self.group_weights_ = groups, group_weights
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _take(self, monitor):
        """Take over what a fit has learned so far; the optimisers go, unless the first phase was interrupted."""
        self._losses = monitor.course
        self.n_iter_ = max(1, min(len(monitor.losses), self.max_iter))
        first = monitor.first
        # Before its first step, the second phase has a blank model.
        last = monitor.optimizer if monitor.is_complete or monitor.optimizer.n_steps else first
        if last is first and not monitor.is_complete:
            self._model, self._final, self._optimizer = None, None, first
        else:
            self._model, self._final = wide_model(last, self.n_features_in_), final_state(first, last, monitor.loss)
            self._optimizer = None

    def _edit(self, **arrays):
        if self._optimizer is not None:
            self._final = final_state(self._optimizer, self._optimizer, self._loss)
        super()._edit(**arrays)

    @property
    def n_nonzero_coefs_(self) -> int:
        coef = self._current.coef
        return int(coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef))

    @property
    def selected_groups_(self) -> NDArray[np.int64]:
        selected = np.flatnonzero(self._state("selected", GroupOptimizer.selected_groups))
        shrinks = self.budget is not None or self.alpha > 0.0
        if shrinks and not self._state("shrunk", lambda optimizer: optimizer.has_shrunk):
            warn_user(
                "groups have not been shrunk yet, so that selected_groups_ are all that have weights; this is done "
                f"after every shrink_every={self.shrink_every} samples, at the end of fit and by finalize()"
            )
        return selected

    @property
    def loss_curve_(self) -> Any:
        if "_losses" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self._losses.entries

    @property
    def group_norms_(self) -> NDArray[np.float64]:
        return self._state("norms", GroupOptimizer.group_norms)

    @property
    def sigma_(self) -> float:
        return self._state("sigma", lambda optimizer: float(optimizer.sigma[0]))

    @property
    def memory_curve_(self) -> NDArray[np.int64]:
        return self._state("curve", GroupOptimizer.joined_curve)[:, 1]

    @property
    def memory_steps_(self) -> NDArray[np.int64]:
        return self._state("curve", GroupOptimizer.joined_curve)[:, 0]

    def _state(self, name, of_optimizer):
        """Return what the training has left, or what its state is in a stream."""
        if getattr(self, "_structure", None) is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self._final[name] if self._final is not None else of_optimizer(self._optimizer)

    @property
    def _latest_loss(self):
        # Debiasing has a loss of its own.
        return self._loss if self._final is None else self._final["loss"]

    def _check_params(self):
        """Check the parameters; return the structure."""
        check_parameters(self)
        structure = resolve_structure(self.structure)
        if not isinstance(structure, Structure):
            raise ValueError("GroupLassoPerceptron does not learn factor graphs; use StructuredSparseMAPClassifier")
        inference_of(structure, self.loss)
        if self.debias not in (None, _MIRA):
            inference_of(structure, self.debias)
        if not _SMALLEST_STEP <= self.eta0 <= _LARGEST_STEP:
            raise ValueError(
                f"eta0 must lie between {_SMALLEST_STEP:.0e} and {_LARGEST_STEP:.0e}, so that the norms of groups are "
                f"floating-point numbers; got {self.eta0!r}"
            )
        if self.budget is not None and self.alpha:
            raise ValueError("budget and alpha are two ways to set the strength; leave one at its default")
        return structure


class PairMonitor(Monitor):
    """Watches the epochs of both phases."""

    def __init__(self, estimator, first, progress):
        super().__init__(estimator, None, None, progress, watch_loss=False)
        self.first, self.optimizer, self.loss = first, first, None
        self.stopped = self.is_complete = False
        self.course = Course(mean_of)

    def follow(self, optimizer, loss):
        """Watch another optimiser, which minimises this loss."""
        self.optimizer, self.loss = optimizer, loss
        self.latest = lambda: wide_model(optimizer, self.estimator.n_features_in_)

    def iteration(self, loss):
        self.course.note(float(loss))
        self.stopped = bool(super().iteration(loss))
        return self.stopped

    def attributes(self, model):
        return super().attributes(model) | {"_final": final_state(self.first, self.optimizer, self.loss)}


def final_state(first, last, loss):
    """Return what is left of the optimiser that selected, and of the one that learned last, with its loss."""
    curve = first.joined_curve()
    if last is not first:
        curve = np.concatenate([curve, last.joined_curve() + [first.n_steps, 0]])
    return {
        "selected": first.selected_groups(),
        "shrunk": first.has_shrunk,
        "norms": first.group_norms(),
        "sigma": float(first.sigma[0]),
        "curve": curve,
        "loss": loss,
    }


def wide_model(optimizer, n_features):
    """Return an optimiser's model over all features, also if it learns only some of them."""
    model = optimizer.model()
    columns = optimizer.columns
    if columns is None:
        return model
    lengths = np.zeros(n_features, np.int64)
    lengths[columns] = np.diff(model.coef.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    coef = sparse.csr_array(
        (model.coef.data, model.coef.indices, indptr), shape=(n_features, model.coef.shape[1])
    )
    return LinearModel(coef, model.intercept, model.additional)


def _check_memory(n_columns, of_each):
    """Raise ValueError if there are more columns than training can hold; the system would kill the process."""
    needed = n_columns * (_BYTES_PER_COLUMN + _BYTES_PER_GROUP * of_each)
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # Where the system does not say.
        present = np.inf
    if n_columns > _MOST_COLUMNS or needed > present:
        why = f"take about {needed / 2**30:.1f} GiB" if needed > present else f"are more than {_MOST_COLUMNS}"
        remedy = "pass groups of columns, or hash features" if of_each else "hash features"
        each = ", with groups=None a group each," if of_each else ""
        raise ValueError(f"X has {n_columns} columns; these{each} {why}; {remedy} into fewer columns")


def _finite(C):
    """Return MIRA's longest step as a number that may be multiplied by a weight of zero."""
    return min(float(C), np.finfo(np.float64).max / 1e10)

