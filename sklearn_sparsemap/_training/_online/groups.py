"""Online learning with shrinkage of groups of features: the optimiser's state between epochs.

Used by `estimators`.
"""

from itertools import groupby
from operator import itemgetter

import numpy as np
from scipy import sparse

from ..._core.jit import readonly
from ...penalties._budget import disjoint_budget_factors, group_budget_factors
from ...penalties._groups import check_groups
from ...penalties._weight_budget import weight_budget_factors
from .._curve import BoundedCurve, highest_of
from .dense import N_RECORDS, N_SHRINKAGES, SINCE, SKIPPED, STEP, STOP
from .optimizer import OnlineOptimizer, mira_rule
from .pairs import ATOM, COUNT, new_pairs
from .recency import FADING
from .rule import DEFAULT_RULE
from .rules import GRADIENT_STEPS
from .shrinkage import discard_atoms, fade_all

_TOL = 1e-8  # duality gap of inference
PAPER_SCHEDULE = 1000  # samples between two shrinkages in Martins et al. 2011
# Number of entries in the groups' lists of atoms for each sample between two deferred shrinkages. Larger values cause
# more shrinkages. A shrinkage takes some nanoseconds for each entry, so about a microsecond for each sample.
_ENTRIES_PER_SAMPLE = 100
# Maximum number of weights, of 20 bytes each, if shrinkages are deferred and less than half of the weights are
# selected. Larger values take more memory, and fewer groups restart from zero. Of 72 chunking templates, 2**19 and
# 2**20 select the same ones, and 2**18 almost the same.
_MAX_WEIGHTS = 2**19
# Factor of all weights after a change in a stream. Smaller values forget more of what was learned before it.
_FADED = 0.25
# Maximum number of times that the number of weights is examined in one call; each takes time linear in the number of
# samples.
_MAX_PARTS = 32


class GroupOptimizer(OnlineOptimizer):
    """Learns the weights of pairs (feature, output) online, with shrinkage of groups or by MIRA.

    If shrinkages are deferred (shrinkage.py), all groups keep their weights. The budget then selects groups by the
    averages of the shrunk weights, because the current weights of an online learner are noisy.

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
        The columns of the estimator's features that are learned. None means all.

    `GroupLassoPerceptron`, its `phases.py` and its `size_warning.py` call the public methods and read the public
    attributes; `estimators/_state/optimizers.py` also sets `curve`, `sigma`, `held` and the fields of `store`.
    """

    state_name = "groups"
    _steps_by_columns = False
    # Shrinkage of groups replaces the squared penalty.
    alpha = 0.0
    # Number of steps of an earlier training.
    n_before = 0
    # Whether shrinkages are deferred: all groups keep their weights, and only scores use shrunk weights.
    defers = False

    def __init__(self, groups, group_weights, n_outputs, n_additional, *, average, mira, columns=None):
        if np.shape(group_weights) != (check_groups(groups).n_groups,):
            raise ValueError(f"there are {np.size(group_weights)} weights for {groups.n_groups} groups")
        self.mira, self.columns, self._options, self._deferred, self._limit = mira, columns, None, None, _MAX_WEIGHTS
        self.source = groups
        self.group_weights = np.array(group_weights, dtype=np.float64)
        store = new_pairs(
            groups.atom_of, groups.n_atoms, n_outputs, np.zeros(n_outputs + n_additional),
            first_state=0.0 if mira else None, average=average,
        )  # fmt: skip
        self._begin(store, average)
        self.sigma = np.zeros(2)
        self.held = np.zeros(groups.n_atoms, np.int64)
        self.curve = BoundedCurve(highest_of)

    def __setstate__(self, state):
        super().__setstate__(state)
        check_groups(self.source, len(self.store.features))
        self.group_weights = np.array(self.group_weights)
        self.sigma = np.array(self.sigma)
        self.held = np.array(self.held)
        if self._options is not None:
            self.configure(**self._options)

    def load(self, model, shrunk):
        """Load the weights of a model; `shrunk` tells whether the groups with weights are a selection."""
        self._load(sparse.csr_array(model.coef))
        self.store.values[: self.store.n_dense] = np.concatenate([model.intercept, model.additional])
        if shrunk:
            self.counters[N_SHRINKAGES] = 1
            self.store.kept[:] = self.alive()

    def resume(self, model, n_steps):
        """Start from the model of an earlier training, which counts in averages and step sizes as `n_steps` steps."""
        self.load(model, True)
        self.counters[STEP] = self.n_before = n_steps

    def configure(self, *, eta0, period, C, shrink_every, budget, alpha, fit_intercept, budget_weights=None):
        """Set options that can change between epochs.

        Parameters
        ----------
        eta0 : float
            Initial step size. It is divided by the square root of the number of periods.
        period : int
            Number of samples in a period.
        C : float
            Maximum step size of MIRA.
        shrink_every : int or None
            Number of samples between two shrinkages. With None and a budget, shrinkages are deferred: only scores are
            computed with shrunk weights. With None and a fixed strength, it is the paper's schedule.
        budget, budget_weights : int or None
            Maximum number of groups, or of weights.
        alpha : float
            Strength of the penalty without a budget.
        fit_intercept : bool
        """
        self._options = {
            "eta0": eta0, "period": period, "C": C, "shrink_every": shrink_every, "budget": budget, "alpha": alpha,
            "fit_intercept": fit_intercept, "budget_weights": budget_weights,
        }  # fmt: skip
        groups = self.source
        counts = budget_weights is not None
        budget = budget_weights if counts else budget
        self.defers = shrink_every is None and budget is not None and not self.mira
        every = PAPER_SCHEDULE if shrink_every is None else int(shrink_every)
        if self.mira:
            self.rule = mira_rule(_TOL, fit_intercept, every, C)
            return
        if self.defers:
            n_entries = len(groups.group_atoms) + counts * len(self.store.features)
            every = 1 + n_entries // _ENTRIES_PER_SAMPLE
        if counts:
            budget_factors = weight_budget_factors
        else:
            is_disjoint = len(groups.group_atoms) == groups.n_atoms
            budget_factors = disjoint_budget_factors if is_disjoint else group_budget_factors
        self.rule = DEFAULT_RULE._replace(
            budget_factors=budget_factors,
            tol=_TOL,
            fit_intercept=bool(fit_intercept),
            every=every,
            eta0=float(eta0),
            period=float(period),
            budget=-1 if budget is None else int(budget),
            alpha=float(alpha),
            defers=self.defers,
            weights=self.group_weights,
            order=readonly(groups.order, np.int64),
            indptr=readonly(groups.group_indptr, np.int64),
            atoms=readonly(groups.group_atoms, np.int64),
            sigma=self.sigma,
            held=self.held if counts else self.held[:0],
        )

    @property
    def _steps(self):
        return super()._steps if self.mira else GRADIENT_STEPS[self.rule.defers]

    def _run_epoch(self, inference, form, rows, targets, order, memory):
        if not self.defers:
            self._new_curve(len(order))
            total = super()._run_epoch(inference, form, rows, targets, order, memory)
            self._keep_curve()
            return total
        self._shrink_scores()
        # Memory is examined at fixed numbers of samples in total, which do not depend on the sizes of calls.
        every = max(PAPER_SCHEDULE, len(order) // _MAX_PARTS)
        first, total = every - self.n_steps % every, 0.0
        for part in np.split(order, range(first, len(order), every)):
            total += super()._run_epoch(inference, form, rows, targets, part, memory)
            if self.counters[STOP]:
                break
            if self.n_held > self._limit:
                self._shrink_if_large()
            self._record_size()
        return total

    def _shrink_scores(self):
        """Shrink the scores if the budget has changed, or weights were loaded, since the last deferred shrinkage."""
        budget = len(self.rule.held), self.rule.budget
        if self._deferred != budget:
            self._steps.end(self.rule, self.store, self.counters, -1, -1)
            self._deferred = budget

    def follow(self, task, X):
        if self.defers:
            self._shrink_scores()
        super().follow(task, X)

    def _fade(self, n_steps):
        """Let the step size begin again as after `n_steps` steps, and shrink all weights.

        Later steps then change more: the weights of a perceptron grow with the number of its mistakes.
        """
        if self.recency.state[FADING] > n_steps and not self.mira:
            self.recency.state[FADING] = n_steps
            self.store.pace[SKIPPED] = self.counters[STEP] - n_steps
            fade_all(self.store, self.counters, _FADED)

    def _survivors(self, rho, most=None):
        """Tell which atoms the budget selects: bool array.

        Parameters
        ----------
        rho : array of shape (n_atoms,)
            Squared norms of the atoms.
        most : int, default=None
            Maximum number of weights, instead of the budget.
        """
        rule = self.rule
        left = rho.copy()
        factors = np.empty(len(rho))
        budget_factors, budget, held = rule.budget_factors, rule.budget, rule.held
        if most is not None:
            budget_factors = weight_budget_factors
            budget = most
            held = np.zeros_like(self.held)
        if len(held):
            counts = np.bincount(self.store.features[:, ATOM], np.abs(self.store.features[:, COUNT]), len(held))
            np.maximum(held, counts.astype(np.int64), out=held)
        budget_factors(rule.weights, rule.order, rule.indptr, rule.atoms, held, budget, left, factors)
        return (rho > 0.0) & (factors > 0.0)

    def _norms_of(self, model):
        """Return the squared norms of the atoms of a model."""
        groups = self.source
        feature = np.repeat(np.arange(len(groups.atom_of)), np.diff(model.coef.indptr))
        squares = np.bincount(groups.atom_of[feature], model.coef.data**2, minlength=groups.n_atoms)
        # The result of bincount for empty input is of integers.
        return squares.astype(np.float64, copy=False)

    def _selected(self):
        """Tell which atoms the budget selects by the averages of the shrunk weights."""
        return self._survivors(self._norms_of(super().model()))

    def _shrink_if_large(self):
        """If most weights belong to unselected groups, discard such groups until about half of the weights remain."""
        selected = self._selected()
        features = self.store.features
        counts = np.abs(features[selected[features[:, ATOM]], COUNT], dtype=np.int64)
        # While there are fewer weights than this, the selected weights need not be counted again.
        self._limit = max(_MAX_WEIGHTS, 2 * int(counts.sum()))
        if self.n_held > self._limit:
            self._discard(selected | self._survivors(self.store.rho, self._limit // 2))

    def _discard(self, kept):
        """Discard all atoms except those that are kept."""
        self._record_size()
        discard_atoms(self.store, self.counters, kept)
        self._record_size()

    def _record_size(self):
        self.curve.append((self.n_steps, (self.n_held,)))

    def model(self):
        """Return the weights, averaged over all steps if `average`; if it `defers`, only those of selected groups."""
        if not self.defers:
            return super().model()
        model = super().model()
        kept = self._survivors(self._norms_of(model))[self.source.atom_of]
        model.coef.data *= np.repeat(kept, np.diff(model.coef.indptr))
        model.coef.eliminate_zeros()
        return model

    @property
    def exceeds(self):
        """Whether there are more groups, or weights, than the budget allows."""
        n = self.n_held if len(self.rule.held) else self.alive_groups().sum()
        return bool(0 <= self.rule.budget < n)

    def shrink_to_budget(self):
        """Shrink for the samples since the last shrinkage; if the budget is exceeded, even without such samples.

        The budget can be exceeded after shrinkages by a fixed strength, in an edited model, or because it is smaller
        than before.
        """
        self.shrink(at_least=int(self.exceeds))

    def shrink(self, at_least=0):
        """Shrink the groups for the samples since the last shrinkage, or for `at_least` samples if there are fewer."""
        if self.defers:
            self._discard(self._selected())
            return
        self.counters[SINCE] = max(at_least, self.counters[SINCE])
        # Shrink for the samples since the last shrinkage, if any.
        self._new_curve(0)
        self._steps.end(self.rule, self.store, self.counters, -1, -1)
        self._keep_curve()

    def _new_curve(self, n_samples):
        self.counters[N_RECORDS] = 0
        self.rule = self.rule._replace(curve=np.zeros((2 * (n_samples // self.rule.every + 2), 2), np.int64))

    def _keep_curve(self):
        steps, counts = self.rule.curve[: self.counters[N_RECORDS]].T.tolist()
        for step, group in groupby(zip(steps, counts), itemgetter(0)):
            self.curve.append((step, tuple(count for _, count in group)))

    def group_norms(self):
        """Return the norm of each group's weights; if it `defers`, of their averages, which determine the selection."""
        rho = self._norms_of(super().model()) if self.defers else self.store.rho
        return np.sqrt(self.source.group_sums(np.maximum(rho, 0.0)))

    def alive(self):
        """Tell which atoms have weights: bool array of shape (n_atoms,)."""
        # If shrinkages are deferred, current weights may be zero although their average is not.
        return (self.store.first_active >= 0) & ((self.store.rho > 0.0) | self.defers)

    def alive_groups(self):
        """Tell which groups have weights: bool array of shape (n_groups,)."""
        return self.source.group_sums(self.alive().astype(np.int64)) > 0

    @property
    def has_shrunk(self):
        """Whether there is a selection: a shrinkage has taken place, or shrinkages are deferred."""
        return self.defers or bool(self.counters[N_SHRINKAGES])

    def selected_groups(self):
        """Tell which groups are selected or, before a selection, have weights: bool array."""
        if self.defers:
            kept = self._selected()
        else:
            kept = self.store.kept if self.has_shrunk else self.alive()
        return self.source.group_sums(kept.astype(np.int64)) > 0

    def joined_curve(self):
        """Return pairs (number of samples, number of weights) before and after each shrinkage, thinned."""
        entries, last = self.curve.entries, self.curve.last
        if entries and entries[-1] != last:
            # Thinning may have merged the last record, which is the current number.
            entries = [*entries, last]
        return np.array([(step, n) for step, counts in entries for n in counts], np.int64).reshape(-1, 2)
