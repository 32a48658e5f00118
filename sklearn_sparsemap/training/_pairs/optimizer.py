"""Learning the weights of pairs (feature, output): what holds a store from epoch to epoch."""

from itertools import groupby
from operator import itemgetter

import numpy as np
from scipy import sparse

from ..._jit import readonly
from ..._threads import interruptible
from .._curve import Course, highest_of
from .._online import stop_epoch
from .epoch import Settings, load_pairs, pair_epoch, read_pairs, shrink_now
from .store import (
    HELD,
    N_COUNTERS,
    N_RECORDS,
    N_SHRINKAGES,
    STEP,
    STOP,
    TOP,
    GroupArrays,
    Store,
    grow,
    most_space_of,
    new_store,
)

_FIRST_CAPACITY = 4096


class SparseLinearModel:
    """The weights of a linear model of scores, as a `LinearModel`, but with sparse `coef`.

    Attributes
    ----------
    coef : CSR of shape (n_features, n_outputs)
    intercept : array of shape (n_outputs,)
    additional : array of shape (n_additional,)
    """

    def __init__(self, coef, intercept, additional):
        self.coef, self.intercept, self.additional = coef, intercept, additional

    def copy(self):
        return SparseLinearModel(self.coef.copy(), self.intercept.copy(), self.additional.copy())


class PairOptimizer:
    """Learns the weights of pairs (feature, output) online, shrinking groups; or by MIRA.

    Parameters
    ----------
    groups : Groups
    group_weights : array of shape (n_groups,)
    n_outputs, n_additional : int
    average : bool
        Whether `model` returns the average over all steps. Weights of groups that died start anew.
    mira : bool
        Whether steps are those of MIRA.
    columns : int array of shape (n_features,), default=None
        Which features of a larger problem these are.
    """

    def __init__(self, groups, group_weights, n_outputs, n_additional, *, average, mira, columns=None):
        self.n_outputs, self.average, self.mira, self.columns = n_outputs, average, mira, columns
        self.source = groups
        self.store = new_store(
            groups.atom_of, groups.n_atoms, n_outputs, n_outputs + n_additional, mira=mira,
            capacity=_FIRST_CAPACITY,
        )
        self.groups = GroupArrays(
            np.array(group_weights, dtype=np.float64),
            *(readonly(a, np.int64) for a in (groups.order, groups.group_indptr, groups.group_atoms)),
        )
        self.counters = np.zeros(N_COUNTERS, np.int64)
        self.sigma = np.zeros(1)
        self.curve = Course(highest_of)

    def __getstate__(self):
        return {**self.__dict__, "store": tuple(self.store), "groups": tuple(self.groups)}

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Unpickled arrays are writable, memory-mapped ones are not; kernels take one kind of each.
        n_outputs, *arrays = state["store"]
        self.store = Store(n_outputs, *(a if a.flags.writeable else a.copy() for a in arrays))
        weights, *rest = state["groups"]
        self.groups = GroupArrays(np.array(weights), *(readonly(a, np.int64) for a in rest))
        self.counters, self.sigma = np.array(self.counters), np.array(self.sigma)

    def load(self, model, shrunk):
        """Start from the weights of a `SparseLinearModel`; `shrunk` tells whether its groups are a selection."""
        space = int((np.diff(model.coef.indptr) > 0).sum()) * most_space_of(self.n_outputs)
        self.store = grow(self.store, 0, max(_FIRST_CAPACITY, space))
        load_pairs(
            self.store,
            self.counters,
            readonly(model.coef.indptr, np.int64),
            readonly(model.coef.indices, np.int64),
            readonly(model.coef.data),
        )
        self.store.dense[:] = np.concatenate([model.intercept, model.additional])
        if shrunk:
            self.counters[N_SHRINKAGES] = 1
            self.store.kept[:] = self.alive()

    def configure(self, *, eta0, period, C, shrink_every, budget, alpha, frozen, fit_intercept):
        """Set what may change between epochs; None is no budget, and no frozen strength."""
        self.settings = Settings(
            float(eta0),
            float(period),
            float(C) if self.mira else -1.0,
            int(shrink_every),
            -1 if budget is None else int(budget),
            float(alpha),
            -1.0 if frozen is None else float(frozen),
            bool(fit_intercept),
            self.n_outputs,
        )

    def epoch(self, inference, form, rows, targets, order, memory):
        """Visit the samples in this order; return the sum of their weighted losses.

        Ctrl-C takes effect at once; the present sample is then left out.
        """
        self.counters[STOP] = 0
        return interruptible(
            lambda: self._visit(inference, form, rows, targets, readonly(order, np.int64), memory),
            lambda: stop_epoch(self.counters, STOP, memory),
        )

    def _visit(self, inference, form, rows, targets, order, memory):
        total, place = np.zeros(1), 0
        curve = self._new_curve(len(order))
        while place < len(order):
            place = pair_epoch(
                *inference, form, rows, targets, order, place, self.store, self.groups, memory, self.counters, curve,
                self.settings, self.sigma, total,
            )  # fmt: skip
            if place < len(order):
                i = order[place]
                own = rows.indptr[targets.row_ptr[i + 1]] - rows.indptr[targets.row_ptr[i]]
                needed = self.counters[TOP] + 2 * most_space_of(self.n_outputs) * own
                wanted = int(max(needed, 1.5 * len(self.store.values)))
                self.store = grow(self.store, int(self.counters[TOP]), wanted)
        self._keep_curve(curve)
        return float(total[0])

    def shrink(self):
        """Shrink the groups for the samples since this was last done, if there are any."""
        curve = self._new_curve(0)
        shrink_now(self.store, self.groups, self.counters, curve, self.settings, self.sigma)
        self._keep_curve(curve)

    def _new_curve(self, n_samples):
        self.counters[N_RECORDS] = 0
        return np.zeros((2 * (n_samples // self.settings.shrink_every + 2), 2), np.int64)

    def _keep_curve(self, curve):
        steps, counts = curve[: self.counters[N_RECORDS]].T.tolist()
        for step, group in groupby(zip(steps, counts), itemgetter(0)):
            self.curve.note((step, tuple(count for _, count in group)))

    @property
    def n_held(self):
        """How many weights exist."""
        return int(self.counters[HELD])

    @property
    def n_steps(self):
        """How many samples were visited."""
        return int(self.counters[STEP])

    def group_norms(self):
        """Return the norm of each group's weights (the last ones)."""
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
        """Tell which groups the last shrinkage has left, without one which have weights: bool array."""
        kept = self.store.kept if self.has_shrunk else self.alive()
        return self.source.group_sums(kept.astype(np.int64)) > 0

    def joined_curve(self):
        """Return (samples, weights held) before and after each shrinkage so far, thinned."""
        entries, last = self.curve.entries, self.curve.last
        if entries and entries[-1] != last:
            # The last one is what is held now.
            entries = [*entries, last]
        return np.array([(step, n) for step, counts in entries for n in counts], np.int64).reshape(-1, 2)

    def model(self):
        """Return the weights learned so far: averaged over all steps if asked for, else the last ones."""
        n_features, step = len(self.store.features), max(1, int(self.counters[STEP]))
        indptr = np.zeros(n_features + 1, np.int64)
        outputs, weights = np.empty(self.n_held, np.int64), np.empty(self.n_held)
        read_pairs(self.store, self.counters, self.average, indptr, outputs, weights)
        n = indptr[-1]
        coef = sparse.csr_array((weights[:n].copy(), outputs[:n].copy(), indptr), shape=(n_features, self.n_outputs))
        coef.sort_indices()
        dense = self.store.dense.copy()
        if self.average:
            dense -= self.store.dense_sums / step
        return SparseLinearModel(coef, dense[: self.n_outputs], dense[self.n_outputs :])
