"""Online optimisers over a linear model, with their store of weights: AdaGrad and MIRA.

Used by `_training`, `estimators` and `groups.py`.
"""

from functools import partial

import numpy as np
from scipy import sparse

from ..._core.indices import are_indices
from ..._core.jit import in_python, readonly
from ..._core.offsets import ragged_indices
from ..._core.team import LARGEST_TEAM, LINE
from ..._core.threads import count_threads, interruptible, together
from .._columns import N_PIECES, find_sorted
from .._data import LOSSES_OF_TARGETS, begins_of_pieces, make_rows
from ..score_models import MANY_FEATURES, LinearModel, sparse_weights, squared_norm
from .dense import (
    CLOCK,
    END,
    FADED,
    FRONT,
    HELD,
    NEW_COUNTERS,
    NEW_PACE,
    PLACE,
    RATE,
    START,
    STEP,
    STOP,
    TOP,
    UNCONVERGED,
    Dense,
    Share,
    clock_after,
)
from .epoch import EPOCHS, FAILED
from .pairs import ARENA, SPARE, Pairs, grow, new_pairs, pairs_have_space
from .recency import FADING, MAX_COMPARED, WINDOW, Recency
from .rule import DEFAULT_RULE, Moves, Part, Team
from .rules import STEPS
from .scores import COMPARED_SCORES, LOAD_PAIRS, READ_PAIRS, SUMS_OF_SQUARES

# Number of updates between two proximal steps over all weights, relative to the number of weights. Larger values save
# time, and penalise less often.
_SAMPLES_PER_PENALTY = 4
# Initial sum of squared gradients of AdaGrad. It keeps the first steps of a weight finite; steps for gradients below
# its square root are well below eta0.
_FIRST_SQUARE = 1e-6
RECENT = "recent"  # the value of `average` for averages over the last part of a stream
# Number of steps as which AdaGrad's sums of squared gradients count after a change. Smaller values learn a change
# faster, by longer steps.
_REMEMBERED = 32.0
# Largest clock, before all sums are divided by it. Sums in single precision must not overflow.
_LARGEST_CLOCK = 1e24
# Largest unit of AdaGrad's sums, before all sums are divided by it; likewise.
_LARGEST_UNIT = 2.0**60
_NEVER = 2**62  # number of samples between two penalties if there is none
# Minimum number of multiplications of a block of samples for several threads. With fewer, they would mostly wait for
# each other. SparseMAP losses need several times as many, because inference takes most of their time, and it is divided
# only among the samples of a block.
_WORTH_THREADS, _TIMES_OF_SPARSEMAP = 2**12, 4
# Maximum number of feature entries for which columns are not cut into pieces, and number of entries by whose columns
# they are cut.
_MANY, _SEEN = 2**18, 2**16
_pairs_have_space = in_python(pairs_have_space)
_clock_after = in_python(clock_after)


def mira_rule(tol, fit_intercept, every, C):
    """Return the rule of MIRA with a maximum step size."""
    return DEFAULT_RULE._replace(tol=tol, fit_intercept=bool(fit_intercept), every=every, is_mira=True, C=float(C))


class OnlineOptimizer:
    """AdaGrad over a linear model, with its state between epochs or mini-batches.

    Parameters
    ----------
    model : LinearModel
        The initial model, whose type weights and state have. If its `coef` is sparse, only updated weights are stored.
    average : bool or "recent"
        Whether `model` returns the average of the weights after each step. With "recent", `follow` weighs the steps.
    columns : DuplicateColumns, default=None
        The merged columns of `model`.

    Attributes
    ----------
    seen : int array, ascending, or None
        The feature of each row of ``store.features``, in stores of pairs with many possible features. Otherwise there
        is a row for each possible feature, and `seen` is None.
    holds_pairs : bool
        Whether the store holds only the weights that were updated, as `Pairs`. Otherwise it is `Dense`.

    `estimators/_state/optimizers.py` reads and sets `store`, `counters` and `recency`, and reads `first_state`,
    `average`, `seen`, `clock`, `holds_pairs` and `state_name`. `GroupOptimizer` and `LinearMinibatchOptimizer` are
    subclasses in other files. The former replaces `_steps` and `_run_epoch`, and calls `_begin` and `_load`.
    """

    # The name of the optimiser in training states, and for users.
    state_name, name = "online", "AdaGrad"
    first_state = _FIRST_SQUARE
    # Whether an epoch makes mini-batches of a task; see `GradientSteps`.
    by_batches = False
    # Whether several threads may take the steps for a sample together, each for some of the columns.
    _steps_by_columns = True
    # Number of samples whose scores are computed with the same weights.
    batch_size = _default_batch_size = 1
    n_jobs, _columns, _n_threads = 1, None, 1
    seen = _n_possible = None

    def __init__(self, model, *, average, columns=None):
        self._columns = columns
        dense = np.concatenate([model.intercept, model.additional], dtype=model.coef.dtype)
        n_features, n_outputs = model.coef.shape
        if sparse.issparse(model.coef):
            coef = model.coef
            if n_features > MANY_FEATURES:
                self.seen = np.unique(coef.tocoo().row.astype(np.int32))
                self._n_possible = n_features
                coef = model.of_features(self.seen)
            store = new_pairs(
                np.zeros(coef.shape[0], np.int32), 1, n_outputs, dense, first_state=self.first_state,
                average=bool(average), shrinks=False, n_features=n_features,
            )  # fmt: skip
            self._begin(store, average)
            self._load(coef)
            return
        values = np.empty(len(dense) + model.coef.size, dense.dtype)
        values[: len(dense)], values[len(dense) :].reshape(model.coef.shape)[:] = dense, model.coef
        sums = np.zeros(len(values) if average else 0, values.dtype)
        state = np.full_like(values, self.first_state)
        self._begin(Dense(n_outputs, len(dense), values, sums, state, NEW_PACE.copy()), average)
        self.counters[FRONT] = len(values)

    def _begin(self, store, average):
        self.recency = Recency()
        self.store = store
        self.holds_pairs = isinstance(store, Pairs)
        self.average = average
        self.n_outputs = store.n_outputs
        self.dtype = str(store.values.dtype)
        self._all_counters = NEW_COUNTERS.copy()
        # The counters of the first thread.
        self.counters = self._all_counters[0]
        self.counters[[TOP, END, FRONT]] = store.n_dense

    def _load(self, coef):
        """Load the weights of a CSR matrix into an empty store."""
        stop = self.store.n_dense + (int((np.diff(coef.indptr) > 0).sum()) + SPARE) * self.n_outputs
        grow(self.store, stop)
        self.counters[[END, FRONT]] = stop
        parts = (readonly(a, np.int64) for a in (coef.indptr, coef.indices))
        LOAD_PAIRS[self.dtype](self.store, self.counters, *parts, readonly(coef.data))

    def __getstate__(self):
        # `configure` makes the rule again before the next epoch.
        state = {name: value for name, value in self.__dict__.items() if name not in ("rule", "counters")}
        if self.holds_pairs:
            # Unused places take no memory, but would be stored.
            used = {name: getattr(self.store, name)[: self.counters[FRONT]] for name in ARENA}
            state["store"] = self.store._replace(**used)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Kernels need writable arrays, unlike memory-mapped ones, and only arrays that own their memory can be resized.
        arrays = (a if np.ndim(a) == 0 or (a.flags.writeable and a.flags.owndata) else a.copy() for a in self.store)
        self.store = type(self.store)(*arrays)
        self.holds_pairs = isinstance(self.store, Pairs)
        self._all_counters = np.array(self._all_counters)
        self.counters = self._all_counters[0]
        self.n_outputs = self.store.n_outputs
        self.dtype = str(self.store.values.dtype)
        is_numbered = self.seen is None or (
            are_indices(self.seen, self._n_possible)
            and bool((np.diff(self.seen) > 0).all())
            and len(self.seen) == len(self.store.features)
        )
        if not is_numbered or not _is_whole(self.store, self.counters):
            raise ValueError("the arrays of the optimiser are inconsistent: the file is damaged, or was edited")

    def configure(self, *, alpha, eta0, tol, fit_intercept, batch_size=None, n_jobs=None):
        """Set options that can change between epochs.

        Parameters
        ----------
        alpha : float
            Strength of the squared penalty.
        eta0 : float
            Step size.
        tol : float
            Duality gap of inference.
        fit_intercept : bool
        batch_size : int, default=None
            Number of samples whose scores are computed with the same weights. Default: 1.
        n_jobs : int, default=None
        """
        self.alpha, self.n_jobs = alpha, n_jobs
        self.batch_size = self._default_batch_size if batch_size is None else int(batch_size)
        self.rule = DEFAULT_RULE._replace(
            tol=float(tol), fit_intercept=bool(fit_intercept), every=_NEVER, eta0=float(eta0), alpha=float(alpha)
        )

    def restart(self, alpha):
        """Begin again from the current model, with another strength of the squared penalty."""
        model = self.model()
        self.store = None
        self.__init__(model, average=self.average, columns=self._columns)
        self.alpha = alpha
        self.rule = self.rule._replace(alpha=float(alpha))

    def set_average(self, average):
        """Set whether steps are weighed, which can change between mini-batches, unlike whether there is an average."""
        if bool(self.average) != bool(average):
            raise ValueError("average cannot change between calls of partial_fit; fit a clone")
        self.average = average

    def follow(self, task, X):
        """Prepare for a mini-batch of a stream: compare average and current weights on it, and weigh its steps.

        Parameters
        ----------
        task : Task
        X : RaggedArray
        """
        if self.average != RECENT:
            return
        self.recency = recency = self.recency_now()
        pace, clock, step = self.store.pace, self.clock, self.counters[STEP]
        pace[[CLOCK, START]] = clock, step
        if clock > 0.0:
            of_average, of_current = self._compare(task, X)
            if recency.is_surprised(of_current):
                self._fade(_REMEMBERED)
            if recency.is_outdated(of_average, of_current):
                recency.restart()
                self._fade(_REMEMBERED)
            n_new = self._count_steps(task)
            if clock * recency.factor(n_new) > _LARGEST_CLOCK:
                self._reset_clock(clock)
                pace[CLOCK] = clock = 1.0
            pace[RATE] = recency.rate(clock, n_new)

    def recency_now(self):
        """Return the `Recency` with the steps since the beginning of the last mini-batch."""
        found = Recency(self.recency.state)
        found.state[[WINDOW, FADING]] += self.counters[STEP] - self.store.pace[START]
        return found

    def _fade(self, n_steps):
        """Let AdaGrad's sums of squared gradients count as at most `n_steps` steps, so that later steps are longer."""
        evidence, pace, sums = self.recency.state, self.store.pace, self.store.state
        if evidence[FADING] <= n_steps or not self.first_state:
            return
        pace[FADED] *= 2.0 ** np.floor(np.log2(evidence[FADING] / n_steps))
        evidence[FADING] = n_steps
        if pace[FADED] > _LARGEST_UNIT:
            # Weights that were never learned keep their first state.
            used = sums[: self.counters[FRONT]]
            np.maximum(used / pace[FADED], self.first_state, out=used)
            pace[FADED] = 1.0

    def _count_steps(self, task):
        """Return the number of steps for samples of a stream."""
        return max(1, len(task.weights) if task.visits is None else int(task.visits.sum()))

    def _compare(self, task, X):
        """Return the numbers of wrong parts of some samples, with the averaged and with the current weights."""
        if len(X) > MAX_COMPARED:
            chosen = np.linspace(0, len(X) - 1, MAX_COMPARED).astype(np.int64)
            task = task.take(chosen)
            X = X[chosen]
        rows = self.rows_of(X.values)
        store = self.store
        averaged, current = np.empty((2, (len(rows.indptr) - 1) * self.n_outputs))
        COMPARED_SCORES[type(store), self.dtype](store, self.counters, rows, averaged, current)
        additional, sums = (a[self.n_outputs : store.n_dense].astype(np.float64) for a in (store.values, store.sums))
        pairs = (averaged, additional - sums / self.clock), (current, additional)
        return task.n_wrong([(scores.reshape(-1, self.n_outputs), own) for scores, own in pairs], self.n_jobs)

    def _reset_clock(self, clock):
        """Divide the weights of all steps so far, so that they add up to 1."""
        store = self.store
        store.sums[: self.counters[FRONT]] /= clock
        if self.holds_pairs:
            store.cumulative[:] /= clock
            store.last_clock[:] /= clock

    def accept_gap(self, tol):
        """Set the duality gap of inference in the next epochs; the scores are divided by the temperature."""
        self.rule = self.rule._replace(tol=float(tol))

    def epoch(self, inference, form, rows, targets, order, memory):
        """Visit the samples in this order; return the weighted sum of their losses.

        An exception of a signal handler, such as KeyboardInterrupt, takes effect immediately; the current sample is
        then omitted.
        """
        # `stop` writes to the counters, so they must exist before it can be called. Threads are counted here, because
        # another thread does not have the caller's `joblib.parallel_config`.
        self._n_threads = self._max_threads
        n_new = max(0, self._n_threads - len(self._all_counters))
        self._all_counters = np.concatenate([self._all_counters, *[NEW_COUNTERS] * n_new])
        self.counters = self._all_counters[0]
        self.counters[STOP] = 0

        def stop():
            # The flag is set before inference is stopped, so that the unfinished solution is not used.
            self.counters[STOP] = 1
            memory.limit[:] = 0

        order = readonly(order, np.int64)
        return interruptible(partial(self._run_epoch, inference, form, rows, targets, order, memory), stop)

    def _run_epoch(self, inference, form, rows, targets, order, memory):
        rule, store = self.rule, self.store
        n_entries = len(rows.indices) / max(1, len(targets.weights))  # of a sample
        if self.alpha:
            # The number of samples between two proximal steps; see `_SAMPLES_PER_PENALTY`.
            rule = rule._replace(every=max(1, _SAMPLES_PER_PENALTY * self.sizes[0] // max(1, int(n_entries))))
        begins = self._begins(rows)
        n_pieces = len(begins) - 1
        minimum = _WORTH_THREADS * (_TIMES_OF_SPARSEMAP if form.quadratic else 1)
        is_worth_it = self.batch_size * n_entries * store.n_outputs >= minimum
        n_threads = min(self._n_threads, n_pieces) if is_worth_it else 1
        self.counters[PLACE] = 0
        team, moves, stride = self._new_team(rows, targets, n_threads, n_pieces)
        ends = np.linspace(0, n_pieces, n_threads + 1).astype(int).tolist()
        run = EPOCHS[type(store), self.dtype]
        steps = self._steps
        loss = LOSSES_OF_TARGETS[inference.is_expectation]

        def work(me):
            part = Part(me, n_threads, self.batch_size, Share(begins, ends[me], ends[me + 1], stride))
            data = rows, targets, order
            run(loss, *inference.arguments, form, *data, store, rule, steps, memory, moves[me], team, part)

        while True:
            if self.holds_pairs:
                block = int(self.counters[PLACE]), int(self.counters[PLACE]) + self.batch_size
                # Assigns places for the next block to each thread, if there are enough.
                if not _pairs_have_space(store, rows, targets, order, *block, self._all_counters, n_threads):
                    grow(store, len(store.values) + 1)
                    continue
            together(work, n_threads, lambda: team.signals.__setitem__(n_threads * LINE + FAILED, 1))
            if self.counters[PLACE] == len(order) or self.counters[STOP]:
                return float(team.total[0])
            team.signals[:] = 0
            if memory.later[1]:
                inference.prepare(memory)

    @property
    def _steps(self):
        """The compiled functions of the rule."""
        return STEPS["mira" if self.rule.is_mira else "adagrad", type(self.store), self.dtype]

    def rows_of(self, X):
        """Return features as rows of the type of the weights, in merged columns if there are any."""
        if self._columns is not None:
            rows = self._columns.rows
            return rows._replace(data=readonly(rows.data, self.dtype))
        rows = make_rows(X, self.dtype, lean=True)
        return rows if self.seen is None else self._number(rows)

    def _number(self, rows):
        """Return rows with the numbers of their features in `seen`, to which new ones are added."""
        features, which = np.unique(rows.indices, return_inverse=True)
        at, is_known = find_sorted(self.seen, features)
        if not is_known.all():
            place = at[~is_known]
            grown = np.insert(self.store.features, place, 0, axis=0)
            seen = np.insert(self.seen, place, features[~is_known])
            # No handler of a signal runs within this call.
            vars(self).update(store=self.store._replace(features=grown), seen=seen)
            at = np.searchsorted(seen, features)
        return rows._replace(indices=readonly(at[which], np.int32))

    def _begins(self, rows):
        """Return the beginnings of each row's entries, for pieces of columns with about equal numbers of entries."""
        if self._columns is not None:
            return self._columns.begins
        cuts = []
        if self._steps_by_columns and len(rows.indices) > _MANY:
            # The first rows serve as a sample of all rows.
            some = np.sort(rows.indices[:_SEEN])
            cuts = np.unique(some[len(some) * np.arange(1, N_PIECES) // N_PIECES])
        return begins_of_pieces(rows, cuts)

    @property
    def _max_threads(self):
        """Maximum number of threads in an epoch. With more threads than cores they would wait for each other."""
        if not self._steps_by_columns:
            return 1
        return min(count_threads(self.n_jobs), N_PIECES, count_threads(-1), LARGEST_TEAM)

    def _new_team(self, rows, targets, n_threads, n_pieces):
        """Allocate the `Team`, and the `Moves` of each of its threads, which are large enough for each of these rows.

        The third result is the distance between scores of consecutive pieces.
        """
        n_outputs, batch_size = self.n_outputs, self.batch_size
        n_additional = self.store.n_dense - n_outputs
        longest = int(np.diff(rows.indptr).max(initial=0)) + 1
        widest = max(n_outputs, n_additional)
        most_places = max(longest * n_outputs, n_additional)
        ints = np.int64
        floats = np.float64
        sizes = longest, longest, longest, widest, widest, most_places, n_additional
        dtypes = ints, floats, floats, ints, floats, ints, floats
        moves = [Moves(*map(np.empty, sizes, dtypes)) for _ in range(n_threads)]
        most = n_outputs * batch_size * int(np.diff(targets.row_ptr).max(initial=0))
        arrays = (np.empty(n) for n in (n_pieces * most, most, batch_size * n_additional, 2 * batch_size))
        times = np.empty(0) if self._columns is None else self._columns.multiplicity
        signals = np.zeros((n_threads + 1) * LINE, np.int64)
        return Team(self._all_counters, signals, *arrays, np.zeros(1), readonly(times)), moves, most

    @property
    def sizes(self):
        """Numbers of features, of outputs and of additional scores."""
        s, n_outputs = self.store, self.n_outputs
        n_features = len(s.features) if self.holds_pairs else (len(s.values) - s.n_dense) // n_outputs
        n_features = n_features if self.seen is None else self._n_possible
        return n_features, n_outputs, s.n_dense - n_outputs

    @property
    def n_steps(self):
        """Number of samples visited."""
        return int(self.counters[STEP])

    @property
    def clock(self):
        """Sum of the weights of all steps in averages; without `Recency`, the number of steps."""
        return float(_clock_after(self.store.pace, self.counters[STEP]))

    @property
    def unconverged(self):
        """Number of samples whose inference did not converge."""
        return int(self.counters[UNCONVERGED])

    @property
    def n_held(self):
        """Number of weights that exist in a store of pairs."""
        return int(self._all_counters[:, HELD].sum())

    def penalty(self):
        """Return ``alpha/2 |w|^2`` at the current weights."""
        s = self.store
        additional = s.values[s.n_outputs : s.n_dense]
        merged = self._columns is not None and self.alpha
        if merged and not self.holds_pairs:
            weights = s.values[s.n_dense :].reshape(-1, s.n_outputs)
            squares = float(np.einsum("ij,ij,i->", weights, weights, 1.0 / self._columns.multiplicity))
        elif not self.holds_pairs:
            squares = squared_norm(s.values[s.n_dense :])
        else:
            # The places of weights depend on the number of threads, so the sum is in the order of the features.
            times = self._columns.multiplicity if merged else np.ones(len(s.features))
            squares = SUMS_OF_SQUARES[self.dtype](s, readonly(times))
        return 0.5 * self.alpha * (squares + squared_norm(additional))

    def model(self):
        """Return the current weights, averaged over all steps if `average`.

        Each sum holds the change made at step t times the clock before it, so the average of the weights after all
        steps is the current weights minus the sum divided by the clock.
        """
        s = self.store
        places = slice(s.n_dense if self.holds_pairs else None)
        if self.average:
            values = s.sums[places] / -(self.clock or 1.0)
            values += s.values[places]
        else:
            values = s.values[places].copy()
        intercept, additional, coef = np.split(values, [s.n_outputs, s.n_dense])
        coef = self._sparse_coef() if self.holds_pairs else coef.reshape(-1, s.n_outputs)
        return LinearModel(coef, intercept, additional)

    def _sparse_coef(self):
        """Return the weights in a store of pairs, averaged likewise; see `sparse_weights`."""
        s = self.store
        indptr = np.zeros(len(s.features) + 1, np.int64)
        outputs = np.empty(self.n_held, np.int32)
        weights = np.empty(self.n_held, self.dtype)
        READ_PAIRS[self.dtype](s, self.counters, bool(self.average), indptr, outputs, weights)
        n = indptr[-1]
        if n < self.n_held:
            # Some weights are zero. Only in this case, the arrays are copied.
            outputs = outputs[:n].copy()
            weights = weights[:n].copy()
        coef = sparse.csr_array((weights, outputs, indptr), shape=(len(s.features), s.n_outputs))
        coef.sort_indices()
        if self.seen is None:
            return coef
        features = np.repeat(self.seen, np.diff(coef.indptr))
        return sparse_weights(features, coef.indices, coef.data, self.sizes[:2])


def _is_whole(store, counters):
    """Tell whether the arrays of a loaded store have valid lengths and indices, on which kernels rely."""
    n = len(store.values)
    n_dense = store.n_dense
    n_outputs = store.n_outputs
    fits = 0 < n_outputs <= n_dense <= n and {len(store.sums), len(store.state)} <= {0, n}
    if not fits or not are_indices(counters[[TOP, END, FRONT]], n + 1):
        return False
    if isinstance(store, Dense):
        return (n - n_dense) % n_outputs == 0
    n_atoms = len(store.kept)
    n_features = len(store.features)
    of_atoms = (store.scale, store.score_scale, store.rho, store.peak, store.cumulative, store.last_clock)
    heads, counts, following, atoms = store.features.astype(np.int64).T
    held = np.flatnonzero(counts)
    few = np.flatnonzero(counts > 0)
    stops = heads + np.where(counts < 0, n_outputs, counts)
    return (
        len(store.outputs) == n
        and {len(array) for array in of_atoms} == {n_atoms}
        and len(store.first_active) in (0, n_atoms)
        and are_indices(atoms, n_atoms)
        and are_indices(following + 1, n_features + 1)
        and are_indices(store.first_active + 1, n_features + 1)
        and bool((heads[held] >= n_dense).all() and (stops[held] <= n).all())
        and are_indices(store.outputs[ragged_indices(heads[few], counts[few])], n_outputs)
    )


class MiraOptimizer(OnlineOptimizer):
    """1-best MIRA over a linear model, for the structured hinge loss; its methods are those of `OnlineOptimizer`."""

    state_name, name = "mira", "MIRA"
    first_state = 0.0
    _steps_by_columns = False

    def configure(self, *, C, fit_intercept):
        """Set options that can change between epochs."""
        self.alpha = 0.0
        self.rule = mira_rule(0.0, fit_intercept, _NEVER, C)
