"""The phases of `GroupLassoPerceptron`: selecting groups, and learning the weights of the selected groups again."""

from __future__ import annotations

from collections import namedtuple
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, NDArray
from ..._core.ragged import RaggedArray
from ..._core.validation import pair_of
from ...penalties import Groups
from ...training._curve import Course, mean_of
from ...training._data import LinearModel
from ...training._online.groups import PAPER_SCHEDULE, GroupOptimizer
from ...training._online.pairs import COUNT
from .._failures import warn_user
from .._learners import Epochs
from .._monitor import Progress
from .._state.learned import Learned
from .size_warning import warn_of_sizes

# A value of `debias` that is not the name of a loss, and a value of `shrink_every` that is not a number.
MIRA, AUTO = "mira", "auto"
# Maximum numbers of groups and of weights; at most one of them is not None.
Budget = namedtuple("Budget", ["groups", "weights"], defaults=(None, None))
# Period of a constant step size: a number of samples that no training reaches.
_NO_PERIOD = 2**62


class Phase(Epochs):
    """A fixed number of epochs of a phase.

    Parameters
    ----------
    estimator : GroupLassoPerceptron
    first : GroupOptimizer
        The optimiser of the first phase.
    optimizer : GroupOptimizer
        The optimiser of this phase.
    visit : callable
        Visits all samples, and returns their mean loss.
    max_iter : int
    """

    def __init__(self, estimator, first, optimizer, visit, max_iter):
        super().__init__(optimizer, visit, max_iter)
        self.estimator, self.first = estimator, first
        self.step_name = "training, epoch" if optimizer is first else "debiasing, epoch"

    @property
    def begun(self):
        return self.first.n_steps > 0

    def run(self, watch):
        for _ in range(self.max_iter):
            if watch(self.visit()):
                break
        return ""

    def model(self):
        return wide_model(self.optimizer, self.estimator.n_features_in_, self.estimator._budget.weights)

    def keep(self, monitor):
        """Store the model of the second phase after its first step; before that, the optimiser of the first phase."""
        if self.optimizer is not self.first and self.optimizer.n_steps:
            monitor.take()
        else:
            progress = self.estimator._progress_of(monitor.losses)
            vars(self.estimator).update(progress, _learned=Learned(optimizer=self.first))


class PhasesMixin:
    """The phases of `GroupLassoPerceptron`, and the attributes that they leave."""

    def _learn_partitions(self, source, classes, n_samples, held, rng):
        self._take_first(source, classes)
        return self._learn_phases(
            (source.source, None), lambda optimizer: partial(source.visit, self, optimizer, rng), n_samples
        )

    def _learn_phases(self, data, visit_with, n_samples, norms=None):
        """Select groups, then learn the weights of the selected groups again.

        Parameters
        ----------
        data : tuple
            X and y in the user's form.
        visit_with : callable
            Maps an optimiser to the function that visits all samples, and returns their mean loss.
        n_samples : int
        norms : array, default=None
            See `warn_of_sizes`.
        """
        first, debiases = self._learned.optimizer, self._selects and self.debias is not None
        n_epochs = self.max_iter + debiases * self.debias_max_iter
        monitor = self.monitor_class(self, Progress(self, *data, n_epochs))
        self._configure(first, n_samples)
        monitor.follow(Phase(self, first, first, visit_with(first), self.max_iter))
        # The last shrinkage enforces the budget.
        self._configure(first, n_samples)
        if self._selects:
            self._select(first)
            warn_of_sizes(self, norms, first.alive_groups())
        if debiases and not monitor.stopped:
            last = self._debiasing_optimizer(first, n_samples)
            monitor.follow(Phase(self, first, last, visit_with(last), self.debias_max_iter))
        monitor.take()
        monitor.end()
        return self

    def _new_begin(self):
        """Return an optimiser that starts from the current model."""
        model = self._learned.model
        n_features, n_outputs, n_additional = model.sizes
        self.groups_._check(n_features)
        optimizer = self._new_optimizer(n_outputs, n_additional)
        optimizer.load(model, self._learned.final["shrunk"])
        return optimizer

    def _new_optimizer(self, n_outputs, n_additional, columns=None, average=None):
        """Return an optimiser that selects groups or, given selected columns, one that learns their weights again."""
        groups, weights, mira = self.groups_, self.group_weights_, False
        if columns is not None:
            groups = Groups.partition(np.zeros(len(columns), np.int64), names=["selected"])
            weights, mira = np.zeros(1), self.debias == MIRA
        optimizer = GroupOptimizer(
            groups, weights, n_outputs, n_additional, average=self.average if average is None else average, mira=mira,
            columns=columns,
        )  # fmt: skip
        self._configure(optimizer, self._period)
        return optimizer

    def _configure(self, optimizer, period, *, eta0=None):
        """Set the optimiser's parameters."""
        n_groups = self.groups_.n_groups
        if self._budget.groups is not None and self._budget.groups > n_groups:
            raise ValueError(f"budget={self.budget} is more than the {n_groups} groups; lower it, or use None")
        strength = {"budget": self._budget.groups, "budget_weights": self._budget.weights, "alpha": self.alpha}
        if optimizer.columns is not None:
            strength = {"budget": None, "budget_weights": None, "alpha": 0.0}
        optimizer.configure(
            eta0=self.eta0 if eta0 is None else eta0, period=period, C=_finite(self.C),
            shrink_every=None if self.shrink_every == AUTO else self.shrink_every, fit_intercept=self.fit_intercept,
            **strength,
        )  # fmt: skip

    def _debiasing_optimizer(self, first, n_samples, average=None):
        """Return an optimiser that learns the weights of the selected columns from zero."""
        columns = kept_columns(first, self._budget.weights is not None)
        optimizer = self._new_optimizer(*first.sizes[1:], columns, average)
        self._configure(optimizer, n_samples)
        return optimizer

    def _resuming_optimizer(self, first, final, n_samples):
        """Return an optimiser that goes on from the model of a stream, with the selected columns.

        It averages in any case, because steps on a few samples are noisy.

        Parameters
        ----------
        first : GroupOptimizer
            That of the stream, or a new one that has loaded its model.
        final : dict or None
            Attributes of a training that was finished earlier.
        n_samples : int
        """
        last, model = self._debiasing_optimizer(first, n_samples, average=True), first.model()
        n_steps = first.n_steps
        if not n_steps and final is not None and len(final["curve"]):
            n_steps = int(final["curve"][-1, 0])
        last.resume(LinearModel(model.coef[last.columns], model.intercept, model.additional), n_steps)
        return last

    def _data_of(self, optimizer, task, X):
        """Return task and features with the loss and the columns of an optimiser's phase."""
        if optimizer.columns is None:
            return task, X
        features = X.values[:, optimizer.columns]
        if not sparse.issparse(features):
            features = np.ascontiguousarray(features)
        return task.under(self._loss_of(optimizer), self.temperature), RaggedArray(features, X.indptr)

    def _loss_of(self, optimizer):
        """Return the loss that an optimiser minimises."""
        if optimizer.columns is None:
            return self._loss
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
        if self._selects:
            optimizer.shrink(at_least=0 if self.alpha else 1)

    @property
    def _budget(self):
        number, unit = pair_of(self.budget, "groups")
        return Budget(**{unit: number})

    @property
    def _period(self):
        """Number of samples between two shrinkages that are not deferred; also the period of the step size."""
        return PAPER_SCHEDULE if self.shrink_every == AUTO else self.shrink_every

    @property
    def _selects(self):
        """Whether groups are shrunk."""
        return self.budget is not None or self.alpha > 0.0

    def _outcome(self, monitor, model):
        phase = monitor.learner
        return self._ended_phases(monitor.losses, phase.first, phase.optimizer, model)

    def _ended_phases(self, losses, first, last, model):
        """Return the attributes that a fit sets at its end, given the optimisers of its phases, and its final model."""
        final = final_state(first, last, self._loss_of(last))
        return self._progress_of(losses) | {"_learned": Learned(model, final=final)}

    def _progress_of(self, losses):
        """Return the attributes that are derived from the losses of all epochs."""
        return {"_losses": Course.of(mean_of, losses), "n_iter_": max(1, min(len(losses), self.max_iter))}

    def _take_rounds(self, optimizers, monitor):
        first, last = optimizers[0], optimizers[-1]
        model = wide_model(last, self.n_features_in_, self._budget.weights)
        vars(self).update(self._ended_phases(monitor.losses, first, last, model))
        self.validation_scores_, self.n_iter_ = list(monitor.scores), monitor.n_iter

    @property
    def selected_groups_(self) -> NDArray[np.int64]:
        selected = np.flatnonzero(self._state("selected"))
        if self._selects and not self._state("shrunk"):
            warn_user(
                "groups have not been shrunk yet, so selected_groups_ are all groups that have weights; shrinkage is "
                f"after every shrink_every={self._period} samples, at the end of fit and by finalize()"
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
        optimizer = self._learned.optimizer
        return (self._learned.final or final_state(optimizer, optimizer, self._loss))[name]

    @property
    def _latest_loss(self):
        # Debiasing can have another loss.
        final = self._learned.final
        return self._loss if final is None else final["loss"]


def kept_columns(optimizer, counts):
    """Return the columns of the groups that an optimiser has kept; with `counts`, only columns that have weights."""
    kept = optimizer.alive()[optimizer.source.atom_of]
    if counts:
        kept &= optimizer.store.features[:, COUNT] != 0
    return np.flatnonzero(kept)


def final_state(first, last, loss):
    """Return the attributes of a finished training, given the optimisers of the first and the last phase."""
    curve = first.joined_curve()
    if last is not first:
        curve = np.concatenate([curve, last.joined_curve() + [first.n_steps - last.n_before, 0]])
    return {
        "selected": first.selected_groups(),
        "shrunk": first.has_shrunk,
        "norms": first.group_norms(),
        "sigma": first.sigma.copy(),
        "curve": curve,
        "loss": loss,
    }


def wide_model(optimizer, n_features, most=None):
    """Return an optimiser's model over all features, even if it learns only some of them.

    Parameters
    ----------
    optimizer : GroupOptimizer
    n_features : int
    most : int, default=None
        Maximum number of weights of the features. If an optimiser of some features has more, the smallest are dropped.
    """
    model = optimizer.model()
    columns = optimizer.columns
    if columns is None:
        return model
    if most is not None and model.coef.nnz > most:
        model.coef.data[np.argsort(-np.abs(model.coef.data), kind="stable")[most:]] = 0.0
        model.coef.eliminate_zeros()
    lengths = np.zeros(n_features, np.int64)
    lengths[columns] = np.diff(model.coef.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    coef = sparse.csr_array((model.coef.data, model.coef.indices, indptr), shape=(n_features, model.coef.shape[1]))
    return LinearModel(coef, model.intercept, model.additional)


def _finite(C):
    """Return MIRA's maximum step size as a finite number, because infinity times a sample weight of zero is NaN."""
    return min(float(C), np.finfo(np.float64).max / 1e10)
