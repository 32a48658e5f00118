"""What holds a store of weights from epoch to epoch: AdaGrad and MIRA over a linear model."""

import numpy as np
from scipy import sparse

from ..._jit import readonly
from ..._threads import interruptible
from .._data import LinearModel
from .dense import HELD, N_COUNTERS, PLACE, STEP, STOP, TOP, UNCONVERGED, Dense, new_dense
from .epoch import EPOCHS, Progress
from .pairs import grow, most_space, new_pairs
from .rules import AdaGrad, Mira
from .scores import load_pairs, read_pairs

# A proximal step over all weights is taken when the samples since the last one had this many times as many weights.
_SAMPLES_PER_PENALTY = 4
# Keeps the first steps of a weight finite, and well below eta0 for gradients smaller than this one's square root.
_FIRST_SQUARE = 1e-6
_NEVER = 2**62
_space = most_space.py_func


class OnlineOptimizer:
    """AdaGrad over a linear model; holds what it needs to go on with the next epoch or mini-batch.

    Parameters
    ----------
    model : LinearModel
        Where to start. If its `coef` is sparse, only those weights exist that were updated.
    average : bool
        Whether `model` returns the average of the weights after each step.
    """

    _first_state = _FIRST_SQUARE

    def __init__(self, model, *, average):
        dense = np.concatenate([model.intercept, model.additional]).astype(np.float64)
        options = {"first_state": self._first_state, "average": average}
        if not sparse.issparse(model.coef):
            self._begin(new_dense(model.coef, dense, **options), average)
            self.counters[TOP] = len(self.store.values)
            return
        n_features, n_outputs = model.coef.shape
        self._begin(new_pairs(np.zeros(n_features, np.int32), 1, n_outputs, dense, **options), average)
        self._load(model.coef)

    def _begin(self, store, average):
        self.store, self.average = store, average
        self.counters = np.zeros(N_COUNTERS, np.int64)
        self.counters[TOP] = store.n_dense

    def _load(self, coef):
        """Put the weights of a CSR matrix into a store that has none yet."""
        space = int((np.diff(coef.indptr) > 0).sum()) * _space(self.store)
        grow(self.store, len(self.store.values) + space)
        parts = (readonly(a, np.int64) for a in (coef.indptr, coef.indices))
        load_pairs(self.store, self.counters, *parts, readonly(coef.data))

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "rule"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Memory-mapped arrays are not writable, which kernels need, and who does not own its memory cannot grow.
        arrays = (a if np.ndim(a) == 0 or (a.flags.writeable and a.flags.owndata) else a.copy() for a in self.store)
        self.store, self.counters = type(self.store)(*arrays), np.array(self.counters)

    def configure(self, *, alpha, eta0, tol, fit_intercept):
        """Set what may change between epochs."""
        self.alpha = alpha
        self.rule = AdaGrad(float(tol), bool(fit_intercept), _NEVER, float(eta0), float(alpha))

    def epoch(self, inference, form, rows, targets, order, memory):
        """Visit the samples in this order; return the sum of their weighted losses.

        Ctrl-C takes effect at once; the present sample is then left out.
        """
        self.counters[STOP] = 0

        def stop():
            # First what is done with a solution, then the inference.
            self.counters[STOP] = 1
            memory.limit[:] = 0

        order = readonly(order, np.int64)
        return interruptible(lambda: self._visit(inference, form, rows, targets, order, memory), stop)

    def _visit(self, inference, form, rows, targets, order, memory):
        progress, self.counters[PLACE] = Progress(self.counters, np.zeros(1)), 0
        rule = self._rule_for(rows, targets)
        run = EPOCHS[type(self.store), type(rule)]
        while True:
            run(*inference, form, rows, targets, order, self.store, rule, memory, progress)
            place = int(self.counters[PLACE])
            if place == len(order):
                return float(progress.total[0])
            first, stop = rows.indptr[targets.row_ptr[order[place] : order[place] + 2]]
            needed = self.counters[TOP] + 2 * _space(self.store) * (stop - first)
            grow(self.store, int(max(needed, 1.5 * len(self.store.values))))

    def _rule_for(self, rows, targets):
        """Return the rule, whose proximal steps together cost a fraction of what these samples cost."""
        if not self.alpha:
            return self.rule
        per_sample = max(1, len(rows.data) // max(1, len(targets.weights)))
        return self.rule._replace(every=max(1, _SAMPLES_PER_PENALTY * self._n_features // per_sample))

    @property
    def n_outputs(self):
        return self.store.n_outputs

    @property
    def n_steps(self):
        """How many samples were visited."""
        return int(self.counters[STEP])

    @property
    def unconverged(self):
        """For how many of them inference did not converge."""
        return int(self.counters[UNCONVERGED])

    @property
    def n_held(self):
        """How many weights exist in a store of pairs."""
        return int(self.counters[HELD])

    @property
    def _n_features(self):
        s = self.store
        return (len(s.values) - s.n_dense) // s.n_outputs if isinstance(s, Dense) else len(s.features)

    def penalty(self):
        """Return ``alpha/2 |w|^2`` at the last weights."""
        values, s = self.store.values, self.store
        return LinearModel(values[s.n_dense : self.counters[TOP]], None, values[s.n_outputs : s.n_dense]).penalty(
            self.alpha
        )

    def model(self):
        """Return the weights learned so far: averaged over all steps if asked for, else the last ones.

        Each sum holds (t - 1) times the change made at step t, so the average of the weights after each of T steps
        is the last weights less sum / T.
        """
        s, n = self.store, self.store.n_outputs
        dense = s.values[: s.n_dense].copy()
        if self.average:
            dense -= s.sums[: s.n_dense] / max(1, self.n_steps)
        return LinearModel(self._coef(), dense[:n], dense[n:])

    def _coef(self):
        s = self.store
        if isinstance(s, Dense):
            w = s.values[s.n_dense :].reshape(-1, s.n_outputs)
            if not self.average:
                return w.copy()
            coef = s.sums[s.n_dense :].reshape(w.shape) / -max(1, self.n_steps)
            coef += w
            return coef
        indptr = np.zeros(len(s.features) + 1, np.int64)
        outputs, weights = np.empty(self.n_held, np.int32), np.empty(self.n_held)
        read_pairs(s, self.counters, self.average, indptr, outputs, weights)
        n = indptr[-1]
        if n < self.n_held:
            # Some are zero. Where all of the weights are wanted, they are not held twice.
            outputs, weights = outputs[:n].copy(), weights[:n].copy()
        coef = sparse.csr_array((weights, outputs, indptr), shape=(len(s.features), s.n_outputs))
        coef.sort_indices()
        return coef


class MiraOptimizer(OnlineOptimizer):
    """1-best MIRA over a linear model, for the structured hinge loss; used like `OnlineOptimizer`."""

    _first_state = 0.0

    def configure(self, *, C, fit_intercept):
        """Set what may change between epochs."""
        self.alpha = 0.0
        self.rule = Mira(0.0, bool(fit_intercept), _NEVER, np.zeros((0, 2), np.int64), float(C))
