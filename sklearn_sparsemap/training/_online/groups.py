"""Online learning with shrinkage of groups of features: the optimiser's state between epochs."""

from itertools import groupby
from operator import itemgetter

import numpy as np
from scipy import sparse

from ..._core.jit import readonly
from .._curve import Course, highest_of
from .dense import N_RECORDS, N_SHRINKAGES, SINCE
from .optimizer import OnlineOptimizer
from .pairs import new_pairs
from .rules import Mira
from .shrinkage import Gradient
from .weight_shrinkage import SHRINKAGES, Counting

_TOL = 1e-8


class GroupOptimizer(OnlineOptimizer):
    """Learns the weights of pairs (feature, output) online, with shrinkage of groups or by MIRA.

    Parameters
    ----------
    groups : Groups
    group_weights : array of shape (n_groups,)
    n_outputs, n_additional : int
    average : bool
        Whether `model` returns the average over all steps. Weights of discarded groups restart at zero.
    mira : bool
        Whether to use steps of MIRA.
    columns : int array of shape (n_features,), default=None
        The features, as columns of a larger problem.
    """

    kind = "groups"
    # Shrinkage of groups replaces the squared penalty.
    alpha = 0.0

    def __init__(self, groups, group_weights, n_outputs, n_additional, *, average, mira, columns=None):
        if np.shape(group_weights) != (groups._check().n_groups,):
            raise ValueError(f"there are {np.size(group_weights)} weights for {groups.n_groups} groups")
        self.mira, self.columns = mira, columns
        self.source, self.group_weights = groups, np.array(group_weights, dtype=np.float64)
        store = new_pairs(
            groups.atom_of, groups.n_atoms, n_outputs, np.zeros(n_outputs + n_additional),
            first_state=0.0 if mira else None, average=average,
        )  # fmt: skip
        self._begin(store, average)
        self.sigma, self.held = np.zeros(1), np.zeros(groups.n_atoms, np.int64)
        self.curve = Course(highest_of)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.source._check(len(self.store.features))
        self.group_weights, self.sigma = np.array(self.group_weights), np.array(self.sigma)
        self.held = np.array(self.held)

    def load(self, model, shrunk):
        """Load the weights of a model with sparse `coef`; `shrunk` tells whether its groups are a selection."""
        self._load(sparse.csr_array(model.coef))
        self.store.values[: self.store.n_dense] = np.concatenate([model.intercept, model.additional])
        if shrunk:
            self.counters[N_SHRINKAGES] = 1
            self.store.kept[:] = self.alive()

    def configure(self, *, eta0, period, C, shrink_every, budget, alpha, frozen, fit_intercept, budget_weights=None):
        """Set options that can change between epochs; None means no budget, or no frozen strength."""
        common = _TOL, bool(fit_intercept), int(shrink_every), np.zeros((0, 2), np.int64)
        if self.mira:
            self.rule = Mira(*common, float(C))
            return
        groups, counts = self.source, budget_weights is not None
        budget = budget_weights if counts else budget
        self.rule = (Counting if counts else Gradient)(
            *common,
            float(eta0),
            float(period),
            -1 if budget is None else int(budget),
            float(alpha),
            -1.0 if frozen is None else float(frozen),
            self.group_weights,
            *(readonly(a, np.int64) for a in (groups.order, groups.group_indptr, groups.group_atoms)),
            self.sigma,
            *([self.held] if counts else []),
        )

    def _visit(self, inference, form, rows, targets, order, memory):
        self._new_curve(len(order))
        total = super()._visit(inference, form, rows, targets, order, memory)
        self._keep_curve()
        return total

    @property
    def exceeds(self):
        """Whether there are more groups, or weights, than the budget allows."""
        n = self.n_held if isinstance(self.rule, Counting) else self.alive_groups().sum()
        return bool(0 <= self.rule.budget < n)

    def shrink_to_budget(self):
        """Shrink for the samples since the last shrinkage and, even if there are none, if the budget is exceeded.

        That can happen after a shrinkage by a frozen strength, in an edited model, or with a smaller budget than
        before.
        """
        self.shrink(at_least=int(self.exceeds))

    def shrink(self, at_least=0):
        """Shrink the groups for the samples since the last shrinkage, if any, or for at least some number of them."""
        self.counters[SINCE] = max(at_least, self.counters[SINCE])
        self._new_curve(0)
        SHRINKAGES[type(self.rule)](self.rule, self.store, self.counters)
        self._keep_curve()

    def _new_curve(self, n_samples):
        self.counters[N_RECORDS] = 0
        self.rule = self.rule._replace(curve=np.zeros((2 * (n_samples // self.rule.every + 2), 2), np.int64))

    def _keep_curve(self):
        steps, counts = self.rule.curve[: self.counters[N_RECORDS]].T.tolist()
        for step, group in groupby(zip(steps, counts), itemgetter(0)):
            self.curve.note((step, tuple(count for _, count in group)))

    def group_norms(self):
        """Return the norm of each group's weights (not averaged)."""
        return np.sqrt(self.source.group_sums(np.maximum(self.store.rho, 0.0)))

    def alive(self):
        """Tell which atoms have weights: bool array of shape (n_atoms,)."""
        return (self.store.first_active >= 0) & (self.store.rho > 0.0)

    def alive_groups(self):
        """Tell which groups have weights: bool array of shape (n_groups,)."""
        return self.source.group_sums(self.alive().astype(np.int64)) > 0

    @property
    def has_shrunk(self):
        """Whether a shrinkage has taken place."""
        return bool(self.counters[N_SHRINKAGES])

    def selected_groups(self):
        """Tell which groups the last shrinkage kept or, without a shrinkage, have weights: bool array."""
        kept = self.store.kept if self.has_shrunk else self.alive()
        return self.source.group_sums(kept.astype(np.int64)) > 0

    def joined_curve(self):
        """Return (samples, number of weights) before and after each shrinkage so far, thinned."""
        entries, last = self.curve.entries, self.curve.last
        if entries and entries[-1] != last:
            # The last entry is the current number.
            entries = [*entries, last]
        return np.array([(step, n) for step, counts in entries for n in counts], np.int64).reshape(-1, 2)
