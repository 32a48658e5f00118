"""Weights of pairs (feature, output) that exist only once they are updated, scaled group by group.

A feature's weights are a block of the arena. A small block holds outputs and their weights in any order; it has a power
of two of places, and moves to one twice as large when it is full. Where a third of the outputs would have a place, it
becomes a dense block with one for each output in order, which is read several at a time. Blocks that were left are used
again.

A weight is ``scale[a]`` times the value in its place, with the scale of its atom a (a set of features that are shrunk
together), so that shrinking an atom touches one number; of each atom the squared norm `rho` is kept, too. An atom that
dies gives all its blocks back.

Scales are kept by atom rather than by time stamps on features: all weights of an atom are then right at any moment, a
score costs one more multiplication, and the shrinkage itself needs nothing but `rho`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS_32_OUT, FLOATS_OUT, INTS_OUT, PARTS_2D_OUT, PARTS_OUT, kernel
from .dense import FREE, HELD, N_KINDS, STEP, TOP, add_at

# Columns of `features`: where the block begins in the arena (-1 without one); how many weights it holds, negative for a
# dense block; the next feature of the same atom that has a block (-1 at the end); the atom.
HEAD, COUNT, NEXT, ATOM = range(4)

Pairs = namedtuple(
    "Pairs",
    [
        "n_outputs",
        "n_dense",
        "first_state",
        # The arena; see `Dense` for these three. Its first places are the intercept and the additional scores, which
        # are in no block and no atom.
        "values",
        "sums",
        "state",
        # Outputs of small blocks; in dense ones, 1 where a weight was made. A free block holds where the next one of
        # its size begins.
        "outputs",
        "features",
        "first_active",  # of each atom: a feature that has a block, -1 if none has; empty where nothing asks for it
        "kept",  # of each atom: whether the last shrinkage left it weights
        "scale",  # of each atom
        "rho",
        "peak",  # largest rho since it was last computed anew
        "cumulative",  # sum of the scale over the steps up to `last_step`
        "last_step",
    ],
)
# By the type of the weights.
PAIRS = {
    dtype: types.NamedTuple(
        [types.int64] * 2
        + [types.float64]
        + [floats] * 3
        + [PARTS_OUT, PARTS_2D_OUT, PARTS_OUT, types.boolean[::1]]
        + [FLOATS_OUT] * 4
        + [INTS_OUT],
        Pairs,
    )
    for dtype, floats in (("float64", FLOATS_OUT), ("float32", FLOATS_32_OUT))
}
_ARENA = ("values", "sums", "state", "outputs")

# Kinds of blocks: by the logarithm of their size, and dense ones last.
_DENSE = N_KINDS - 1
# Below this an atom's scale goes into its values, before sums over steps lose digits.
_SMALLEST_SCALE = 1e-2
# Squared norms are computed anew when updates have cancelled all but this part.
_CANCELLED = 1e-6
_FIRST_CAPACITY = 4096


def new_pairs(atom_of, n_atoms, n_outputs, dense, *, first_state, average, shrinks=True):
    """Make a store without weights but these of the intercept and the additional scores.

    Parameters
    ----------
    atom_of : int array of shape (n_features,)
    n_atoms, n_outputs : int
    dense : array
        Its type is that of the arena's weights.
    first_state : float or None
        See `new_dense`.
    average : bool
    shrinks : bool, default=True
        Whether atoms are shrunk, for which it must be known what they hold.
    """
    features = np.zeros((len(atom_of), 4), np.int32)
    features[:, HEAD] = -1
    features[:, ATOM] = atom_of
    n = len(dense)
    capacity = n + _FIRST_CAPACITY
    values = np.zeros(capacity, dense.dtype)
    values[:n] = dense
    return Pairs(
        n_outputs,
        n,
        first_state or 0.0,
        values,
        np.zeros(capacity if average else 0, dense.dtype),
        np.full(0 if first_state is None else capacity, first_state or 0.0, dense.dtype),
        np.zeros(capacity, np.int32),
        features,
        np.full(n_atoms if shrinks else 0, -1, np.int32),
        np.zeros(n_atoms, bool),
        np.ones(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms, np.int64),
    )


def grow(store, wanted):
    """Give the arena `wanted` places; in place, so that no array exists twice."""
    for name in _ARENA:
        array = getattr(store, name)
        if len(array):
            array.resize(wanted, refcheck=False)


@kernel
def most_space(store):
    """Return how many places of the arena a feature can take at most while it gets weights."""
    return 2 * store.n_outputs + 2


@kernel
def _kind_of(count):
    """Return the kind of the block of so many weights."""
    if count < 0:
        return _DENSE
    kind = 0
    while (1 << kind) < count:
        kind += 1
    return kind


@kernel
def _take_block(store, counters, kind):
    start = counters[FREE + kind]
    if start >= 0:
        counters[FREE + kind] = store.outputs[start]
        return start
    start = counters[TOP]
    counters[TOP] += store.n_outputs if kind == _DENSE else 1 << kind
    return start


@kernel
def _give_block(store, counters, start, kind):
    store.outputs[start] = counters[FREE + kind]
    counters[FREE + kind] = start


@kernel
def _clear_place(store, place):
    store.values[place] = 0.0
    if store.sums.shape[0]:
        store.sums[place] = 0.0
    if store.state.shape[0]:
        store.state[place] = store.first_state


@kernel
def _move_place(store, old, new):
    store.values[new] = store.values[old]
    # Loops over all values must find zeros in unused places.
    store.values[old] = 0.0
    if store.sums.shape[0]:
        store.sums[new] = store.sums[old]
    if store.state.shape[0]:
        store.state[new] = store.state[old]


@kernel
def block_of(store, feature):
    """Return where a feature's block begins and ends."""
    start, count = np.int64(store.features[feature, HEAD]), np.int64(store.features[feature, COUNT])
    return start, start + (store.n_outputs if count < 0 else count)


@kernel
def _find_pair(outputs, start, count, output):
    """Return the place of an output's weight in a block of `count` weights, negative if it is dense; -1 without one."""
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
    n, old = np.int64(store.features[feature, COUNT]), np.int64(store.features[feature, HEAD])
    old_kind = _kind_of(n)
    kind = _DENSE if 3 * n >= store.n_outputs else old_kind + 1
    start = _take_block(store, counters, kind)
    if kind == _DENSE:
        for place in range(start, start + store.n_outputs):
            store.outputs[place] = 0
            _clear_place(store, place)
        for k in range(n):
            place = start + store.outputs[old + k]
            store.outputs[place] = 1
            _move_place(store, old + k, place)
        store.features[feature, COUNT] = -n
    else:
        for k in range(n):
            store.outputs[start + k] = store.outputs[old + k]
            _move_place(store, old + k, start + k)
    _give_block(store, counters, old, old_kind)
    store.features[feature, HEAD] = start


@kernel
def make_pair(store, counters, feature, output):
    """Return the place of a pair's weight, which is made if there is none. The arena must have space."""
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
    _clear_place(store, place)
    return place


@kernel
def locate_pairs(store, counters, features, outputs, stride, places):
    """Write the places of the weights of all pairs of these features and outputs; make those that do not exist.

    That of output p and feature k goes to ``places[p * stride + k]``. The arena must have space. A call with the whole
    store takes longer than to find a pair that exists, and is left to those that do not.
    """
    n_outputs = outputs.shape[0]
    for k in range(features.shape[0]):
        feature, is_complete = features[k], False
        while not is_complete:
            start, count = np.int64(store.features[feature, HEAD]), np.int64(store.features[feature, COUNT])
            is_complete = True
            for p in range(n_outputs):
                place = _find_pair(store.outputs, start, count, outputs[p])
                if place < 0:
                    for q in range(p, n_outputs):
                        make_pair(store, counters, feature, outputs[q])
                    # The block may have moved.
                    is_complete = False
                    break
                places[p * stride + k] = place


@kernel
def scale_until(store, atom, step):
    """Return the sum of an atom's scale over all steps up to this one."""
    return store.cumulative[atom] + store.scale[atom] * (step - store.last_step[atom])


@kernel
def move_pairs(store, features, values, residuals, places, factor, step):
    """Add ``factor * residuals[p] * values[k]`` to the weights of these places, from this step on.

    Places are as in `locate_pairs`. Feature -1 is none: its weights are in no atom.
    """
    n = features.shape[0]
    for p in range(residuals.shape[0]):
        for k in range(n):
            delta, place = factor * residuals[p] * values[k], places[p * n + k]
            if features[k] < 0:
                add_at(store.values, store.sums, place, delta, step)
                continue
            atom = store.features[features[k], ATOM]
            scale = store.scale[atom]
            weight = scale * store.values[place]
            change = delta / scale
            store.values[place] += change
            if store.sums.shape[0]:
                before = step - 1 - store.last_step[atom]
                store.sums[place] += change * (store.cumulative[atom] + scale * before)
            rho = store.rho[atom] + delta * (2.0 * weight + delta)
            store.rho[atom] = rho
            if rho > store.peak[atom]:
                store.peak[atom] = rho


@kernel
def _free_atom(store, counters, atom):
    """Let all weights of an atom go."""
    feature = store.first_active[atom]
    while feature >= 0:
        of_feature = store.features[feature]
        _give_block(store, counters, of_feature[HEAD], _kind_of(of_feature[COUNT]))
        counters[HELD] -= abs(of_feature[COUNT])
        of_feature[HEAD] = -1
        of_feature[COUNT] = 0
        feature = of_feature[NEXT]
    store.first_active[atom] = -1


@kernel
def _measure_atom(store, atom):
    """Compute the squared norm of an atom from its weights."""
    total = 0.0
    feature = store.first_active[atom]
    while feature >= 0:
        start, stop = block_of(store, feature)
        for place in range(start, stop):
            total += store.values[place] ** 2
        feature = store.features[feature, NEXT]
    return total * store.scale[atom] ** 2


@kernel
def count_held(store, most):
    """Note how many weights each atom has, where these are more than ever before."""
    for atom in range(most.shape[0]):
        n, feature = np.int64(0), store.first_active[atom]
        while feature >= 0:
            n += abs(store.features[feature, COUNT])
            feature = store.features[feature, NEXT]
        most[atom] = max(most[atom], n)


@kernel
def measure_cancelled(store):
    """Compute those squared norms anew that have lost digits."""
    for atom in range(store.rho.shape[0]):
        if store.rho[atom] < _CANCELLED * store.peak[atom]:
            store.rho[atom] = _measure_atom(store, atom)
            store.peak[atom] = store.rho[atom]


@kernel
def scale_atoms(store, counters, factors):
    """Multiply the weights of all atoms by their factors, from this step on; those of factor 0 die.

    `rho` is not touched: the shrinkage has done that.
    """
    before = counters[STEP] - 1
    for atom in range(factors.shape[0]):
        factor = factors[atom]
        if factor == 1.0:
            continue
        if factor == 0.0 or store.rho[atom] <= 0.0:
            _free_atom(store, counters, atom)
            store.scale[atom] = 1.0
            store.rho[atom] = 0.0
            store.peak[atom] = 0.0
            store.cumulative[atom] = 0.0
            store.last_step[atom] = before
            continue
        store.cumulative[atom] = scale_until(store, atom, before)
        store.last_step[atom] = before
        store.scale[atom] *= factor
        store.peak[atom] *= factor * factor
        if store.scale[atom] < _SMALLEST_SCALE:
            _absorb_scale(store, atom)


@kernel
def _absorb_scale(store, atom):
    """Put the scale of an atom into its values; what they have added up to goes into the sums."""
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
    store.cumulative[atom] = 0.0
