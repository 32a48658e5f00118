"""Weights of pairs (feature, output), which are stored once they are updated, with a scale for each atom.

The weights of a feature are a block of an arena. A small block holds outputs and their weights in any order. Its
capacity is a power of two. If it is full, its weights move to a block of twice the size. If a third of the outputs have
a weight, it becomes a dense block with one place for each output in order, which is read with vector instructions.
Freed blocks are used again.

A weight is ``scale[a]`` times the value in its place. An atom a is a set of features that are shrunk together, so
shrinking it changes a single number. The squared norm `rho` of each atom is stored, too. A discarded atom frees all its
blocks. Scores and averages have separate scales, which differ if shrinkages are deferred (shrinkage.py).

With scales for atoms, instead of time stamps for features, all weights of an atom are valid at any time, a score needs
one more multiplication, and a shrinkage needs only `rho`.

`estimators/_state/optimizers.py` and `estimators/_structured/phases.py` read the columns of `features` and the scales.
The conventions of `dense` hold, too. In `move_pairs`, `values` belong to the features, `residuals` to the outputs, and
`factor` is minus the step size.

Used by `estimators`, `epoch.py`, `groups.py`, `optimizer.py`, `rules.py`, `scores.py` and `shrinkage.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS_32_OUT, FLOATS_OUT, PARTS_2D_OUT, PARTS_OUT, by_address, kernel
from .dense import END, FREE, FRONT, HELD, N_KINDS, NEW_PACE, STEP, TOP, add_at, clock_after

# Columns of `features`: the beginning of the block in the arena, if there is one; the number of its weights (0 if there
# is none), negative for a dense block; the next feature of the same atom with a block (-1 at the end); the atom.
HEAD, COUNT, NEXT, ATOM = range(4)

Pairs = namedtuple(
    "Pairs",
    [
        "n_outputs",
        "n_dense",
        "first_state",
        # The arena; see `Dense` for these three arrays. Its first places are the intercept and the additional scores,
        # which are in no block and no atom.
        "values",
        "sums",
        "state",
        # Outputs of small blocks. In dense blocks, 1 if the weight exists. In a free block, the beginning of the next
        # free block of its size.
        "outputs",
        "features",
        "first_active",  # for each atom, a feature that has a block, or -1; empty if not needed
        "kept",  # for each atom, whether the last shrinkage kept it
        "scale",  # for each atom, the factor of its values
        "score_scale",  # the factor in scores and averages; less than `scale` if a shrinkage is deferred
        "rho",  # squared norm of the weights of each atom
        "peak",  # largest rho since its last exact computation
        "cumulative",  # sum over all steps up to the clock `last_clock` of the score scale, times the step's weight
        "last_clock",
        "pace",
    ],
)
# Numba types by the type of the weights.
PAIRS = {
    dtype: by_address(
        [types.int64] * 2
        + [types.float64]
        + [floats] * 3
        + [PARTS_OUT, PARTS_2D_OUT, PARTS_OUT, types.boolean[::1]]
        + [FLOATS_OUT] * 7,
        Pairs,
    )
    for dtype, floats in (("float64", FLOATS_OUT), ("float32", FLOATS_32_OUT))
}
# The arrays of the arena.
ARENA = ("values", "sums", "state", "outputs")

# The size class of a block is the logarithm of its size; dense blocks have the last class.
_DENSE = N_KINDS - 1
# Smallest scale of an atom. Smaller ones are multiplied into the values, before sums over steps lose digits.
_SMALLEST_SCALE = 1e-2
# A squared norm is recomputed if updates have cancelled all except this fraction of it.
_CANCELLED = 1e-6
# New weights for n entries of features take at most (n + SPARE) * n_outputs places: a dense block for each entry, and
# the smaller blocks of one feature, less than 4/3 n_outputs places, which are then free for the next one. If features
# grow in two rows, the smaller blocks between take less than the second dense block of each.
SPARE = 2
# Number of blocks for which a thread gets places in the arena at a time. Fewer divide its blocks into more parts.
_BLOCKS_AHEAD = 8
# Least and largest number of places of a new arena. The largest is more than most models ever need. The operating
# system provides the memory of such large arrays page by page when it is written, so only used places take memory.
# Growth would copy arrays and leave holes, which took as much memory as the weights of a tagger with 400 labels.
_MIN_PLACES, _MAX_PLACES = 2**12, 2**23


def new_pairs(atom_of, n_atoms, n_outputs, dense, *, first_state, average, shrinks=True, n_features=None):
    """Make a store with the intercept and the additional scores only.

    Parameters
    ----------
    atom_of : int array of shape (n_features,)
        The atom of each feature.
    n_atoms, n_outputs : int
    dense : array
        Intercept and additional scores. The weights of the arena have their type.
    first_state : float or None
        Initial state of the step rule for each weight; None if the rule has no state.
    average : bool
        Whether to store the sums for averaging.
    shrinks : bool, default=True
        Whether atoms are shrunk, which requires lists of their features.
    n_features : int, default=None
        Number of features that the store may get. Default: those of `atom_of`.
    """
    n_features = len(atom_of) if n_features is None else n_features
    features = np.zeros((len(atom_of), 4), np.int32)
    if n_atoms > 1:
        # Entries that are never written take no memory.
        features[:, ATOM] = atom_of
    n = len(dense)
    # A feature takes less than three times n_outputs places, with the smaller blocks that it leaves.
    capacity = n + min(max(_MIN_PLACES, 3 * n_features * n_outputs), _MAX_PLACES)
    values = np.zeros(capacity, dense.dtype)
    state = np.zeros(0 if first_state is None else capacity, dense.dtype)
    values[:n], state[:n] = dense, first_state or 0.0
    return Pairs(
        n_outputs,
        n,
        first_state or 0.0,
        values,
        np.zeros(capacity if average else 0, dense.dtype),
        state,
        np.zeros(capacity, np.int32),
        features,
        np.full(n_atoms if shrinks else 0, -1, np.int32),
        np.zeros(n_atoms, bool),
        np.ones(n_atoms),
        np.ones(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        NEW_PACE.copy(),
    )


def grow(store, wanted):
    """Grow the arena to `wanted` places or more, in place, to avoid copies."""
    n = len(store.values)
    if wanted <= n:
        return
    for name in ARENA:
        array = getattr(store, name)
        if len(array):
            array.resize(max(wanted, n + n // 2), refcheck=False)


@kernel
def pairs_have_space(store, rows, targets, order, start, stop, counters, n_threads):
    """Assign places of the arena to each thread for a block of samples; return whether there are enough.

    Python calls this, too, so it calls no other kernel.

    Parameters
    ----------
    store : Pairs
    rows, targets, order, start, stop
        See `epoch`.
    counters : int64 array of shape (n_threads or more, N_COUNTERS)
    n_threads : int
    """
    wanted = np.int64(SPARE)
    for number in range(start, min(stop, order.shape[0])):
        i = order[number]
        wanted += rows.indptr[targets.row_ptr[i + 1]] - rows.indptr[targets.row_ptr[i]]
    wanted *= store.n_outputs
    shared = counters[0]
    for t in range(n_threads):
        own = counters[t]
        if own[END] - own[TOP] >= wanted:
            continue
        if own[END] == shared[FRONT]:
            end = own[TOP] + wanted
        else:
            end = shared[FRONT] + _BLOCKS_AHEAD * wanted
        if end > store.values.shape[0]:
            return False
        if own[END] != shared[FRONT]:
            own[TOP] = shared[FRONT]
        own[END] = shared[FRONT] = end
    return True


@kernel
def _size_class_of(count):
    """Return the size class of a block with this number of weights."""
    if count < 0:
        return _DENSE
    kind = 0
    while (1 << kind) < count:
        kind += 1
    return kind


@kernel
def _take_block(store, counters, size_class):
    """Return the beginning of an unused block: a free one of this class, or the next places of this thread."""
    start = counters[FREE + size_class]
    if start >= 0:
        counters[FREE + size_class] = store.outputs[start]
        return start
    start = counters[TOP]
    counters[TOP] += store.n_outputs if size_class == _DENSE else 1 << size_class
    return start


@kernel
def _give_block(store, counters, start, size_class):
    """Add a block to the free blocks of its class."""
    store.outputs[start] = counters[FREE + size_class]
    counters[FREE + size_class] = start


@kernel
def _clear_weight(store, index):
    """Set a weight and its state to their initial values."""
    store.values[index] = 0.0
    if store.sums.shape[0]:
        store.sums[index] = 0.0
    if store.state.shape[0]:
        store.state[index] = store.first_state


@kernel
def _move_weight(store, old, new):
    """Move a weight and its state to another place."""
    store.values[new] = store.values[old]
    # Unused places must hold zeros, because some loops run over all values.
    store.values[old] = 0.0
    if store.sums.shape[0]:
        store.sums[new] = store.sums[old]
    if store.state.shape[0]:
        store.state[new] = store.state[old]


@kernel
def block_of(store, feature):
    """Return the beginning and the end of a feature's block."""
    start = np.int64(store.features[feature, HEAD])
    count = np.int64(store.features[feature, COUNT])
    return start, start + (store.n_outputs if count < 0 else count)


@kernel
def _find_pair(outputs, start, count, output):
    """Return the place of an output's weight in a block (dense if `count` is negative), or -1."""
    if count < 0:
        place = start + output
        return place if outputs[np.uint64(place)] != 0 else -1
    for place in range(start, start + count):
        if outputs[np.uint64(place)] == output:
            return place
    return -1


@kernel
def _move_block(store, counters, feature):
    """Move a feature's weights to a larger block."""
    n = np.int64(store.features[feature, COUNT])
    old = np.int64(store.features[feature, HEAD])
    old_class = _size_class_of(n)
    kind = _DENSE if 3 * n >= store.n_outputs else old_class + 1
    start = _take_block(store, counters, kind)
    if kind == _DENSE:
        for place in range(start, start + store.n_outputs):
            store.outputs[place] = 0
            _clear_weight(store, place)
        for k in range(n):
            place = start + store.outputs[old + k]
            store.outputs[place] = 1
            _move_weight(store, old + k, place)
        store.features[feature, COUNT] = -n
    else:
        for k in range(n):
            store.outputs[start + k] = store.outputs[old + k]
            _move_weight(store, old + k, start + k)
    _give_block(store, counters, old, old_class)
    store.features[feature, HEAD] = start


@kernel
def make_pair(store, counters, feature, output):
    """Return the place of a pair's weight. If it does not exist, it is created; the arena must have space."""
    of_feature = store.features[feature]
    if of_feature[COUNT] == 0:
        start = _take_block(store, counters, 0)
        atom = of_feature[ATOM]
        of_feature[HEAD] = start
        if store.first_active.shape[0]:
            of_feature[NEXT] = store.first_active[atom]
            store.first_active[atom] = feature
    else:
        place = _find_pair(store.outputs, np.int64(of_feature[HEAD]), np.int64(of_feature[COUNT]), output)
        if place >= 0:
            return place
        if of_feature[COUNT] > 0 and of_feature[COUNT] & (of_feature[COUNT] - 1) == 0:
            _move_block(store, counters, feature)
    counters[HELD] += 1
    if of_feature[COUNT] < 0:
        place = np.int64(of_feature[HEAD]) + output
        store.outputs[place] = 1
        of_feature[COUNT] -= 1
        return place
    place = np.int64(of_feature[HEAD]) + of_feature[COUNT]
    of_feature[COUNT] += 1
    store.outputs[place] = output
    _clear_weight(store, place)
    return place


@kernel
def locate_pairs(store, counters, features, outputs, stride, indices):
    """Write the places of the weights of all pairs of these features and outputs; create missing ones.

    The place for output p and feature k is written to ``indices[p * stride + k]``. The arena must have space. Only
    missing pairs call a function that takes the whole store, because such a call takes longer than finding an existing
    pair.

    Parameters
    ----------
    store : Pairs
    counters, features, outputs, indices
        See `dense`.
    stride : int
        Distance between the places of consecutive outputs.
    """
    n_outputs = outputs.shape[0]
    for k in range(features.shape[0]):
        feature, is_complete = features[k], False
        while not is_complete:
            start = np.int64(store.features[feature, HEAD])
            count = np.int64(store.features[feature, COUNT])
            is_complete = True
            for p in range(n_outputs):
                place = _find_pair(store.outputs, start, count, outputs[p])
                if place < 0:
                    for q in range(p, n_outputs):
                        make_pair(store, counters, feature, outputs[q])
                    # The block may have moved, so all places are sought again.
                    is_complete = False
                    break
                indices[p * stride + k] = place


@kernel
def scale_until(store, atom, clock):
    """Return the sum of an atom's score scale over all steps up to this clock, each times the step's weight."""
    return store.cumulative[atom] + store.score_scale[atom] * (clock - store.last_clock[atom])


@kernel
def move_pairs(store, features, values, residuals, indices, factor, clock):
    """Add ``factor * residuals[p] * values[k]`` to the weights at these places.

    Places are as in `locate_pairs`. Feature -1 is the intercept or an additional score, which are in no atom.

    Parameters
    ----------
    store : Pairs
    features, values : arrays of shape (n_features,)
        Features of a row, and their values.
    residuals : array of shape (n_outputs,)
        Gradients with respect to the scores of the outputs.
    indices : int64 array
    factor : float
        Minus the step size.
    clock : float
        The clock before the step.
    """
    n = features.shape[0]
    for p in range(residuals.shape[0]):
        for k in range(n):
            delta, place = factor * residuals[p] * values[k], indices[p * n + k]
            if features[k] < 0:
                add_at(store.values, store.sums, place, delta, clock)
                continue
            atom = store.features[features[k], ATOM]
            scale = store.scale[atom]
            weight = scale * store.values[place]
            change = delta / scale
            store.values[place] += change
            if store.sums.shape[0]:
                store.sums[place] += change * scale_until(store, atom, clock)
            rho = store.rho[atom] + delta * (2.0 * weight + delta)
            store.rho[atom] = rho
            if rho > store.peak[atom]:
                store.peak[atom] = rho


@kernel
def discard_atom(store, counters, atom):
    """Discard all weights of an atom, effective from this step on, and free its blocks."""
    feature = store.first_active[atom]
    while feature >= 0:
        of_feature = store.features[feature]
        _give_block(store, counters, of_feature[HEAD], _size_class_of(of_feature[COUNT]))
        counters[HELD] -= abs(of_feature[COUNT])
        of_feature[HEAD] = -1
        of_feature[COUNT] = 0
        feature = of_feature[NEXT]
    store.first_active[atom] = -1
    store.scale[atom] = store.score_scale[atom] = 1.0
    store.rho[atom] = 0.0
    store.peak[atom] = 0.0
    store.cumulative[atom] = 0.0
    store.last_clock[atom] = clock_after(store.pace, counters[STEP] - 1)


@kernel
def _measure_atom(store, atom):
    """Recompute the squared norm of an atom from its weights."""
    total = 0.0
    feature = store.first_active[atom]
    while feature >= 0:
        start, stop = block_of(store, feature)
        for place in range(start, stop):
            total += store.values[place] * store.values[place]
        feature = store.features[feature, NEXT]
    return total * (store.scale[atom] * store.scale[atom])


@kernel
def count_held(store, most):
    """Update `most`, the maximum number of weights that each atom has had."""
    for atom in range(most.shape[0]):
        n = np.int64(0)
        feature = store.first_active[atom]
        while feature >= 0:
            n += abs(store.features[feature, COUNT])
            feature = store.features[feature, NEXT]
        most[atom] = max(most[atom], n)


@kernel
def measure_cancelled(store):
    """Recompute the squared norms that have lost digits by cancellation."""
    for atom in range(store.rho.shape[0]):
        if store.rho[atom] < _CANCELLED * store.peak[atom]:
            store.rho[atom] = _measure_atom(store, atom)
            store.peak[atom] = store.rho[atom]


@kernel
def scale_scores(store, atom, scale, clock):
    """Set the scale of an atom in scores and averages, effective after this clock."""
    if store.score_scale[atom] != scale:
        store.cumulative[atom] = scale_until(store, atom, clock)
        store.last_clock[atom] = clock
        store.score_scale[atom] = scale


@kernel
def scale_atoms(store, counters, factors):
    """Multiply the weights of all atoms by their factors, effective from this step on. Factor 0 discards an atom.

    `rho` is not changed, because the shrinkage has already updated it.
    """
    clock = clock_after(store.pace, counters[STEP] - 1)
    for atom in range(factors.shape[0]):
        factor = factors[atom]
        if factor == 1.0:
            continue
        if factor == 0.0 or store.rho[atom] <= 0.0:
            discard_atom(store, counters, atom)
            continue
        scale_scores(store, atom, store.score_scale[atom] * factor, clock)
        store.scale[atom] *= factor
        store.peak[atom] *= factor * factor
        if store.scale[atom] < _SMALLEST_SCALE:
            _absorb_scale(store, atom)


@kernel
def _absorb_scale(store, atom):
    """Multiply the scale of an atom into its values, and its cumulative contribution into the sums."""
    scale, cumulative = store.scale[atom], store.cumulative[atom]
    feature = store.first_active[atom]
    while feature >= 0:
        start, stop = block_of(store, feature)
        for place in range(start, stop):
            if store.sums.shape[0]:
                store.sums[place] -= store.values[place] * cumulative
            store.values[place] *= scale
        feature = store.features[feature, NEXT]
    store.scale[atom] = 1.0
    store.score_scale[atom] /= scale
    store.cumulative[atom] = 0.0


@kernel
def fade_weights(store, counters, factor):
    """Multiply all weights by a positive factor, effective after the current step."""
    clock = clock_after(store.pace, counters[STEP])
    for place in range(store.n_dense):
        change = (factor - 1.0) * store.values[place]
        add_at(store.values, store.sums, place, change, clock)
    for atom in range(store.rho.shape[0]):
        scale_scores(store, atom, store.score_scale[atom] * factor, clock)
        store.scale[atom] *= factor
        store.rho[atom] *= factor * factor
        store.peak[atom] *= factor * factor
        if store.scale[atom] < _SMALLEST_SCALE:
            _absorb_scale(store, atom)
