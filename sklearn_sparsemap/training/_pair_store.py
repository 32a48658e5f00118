"""Weights of pairs (feature, output) that exist only once they are updated, scaled group by group.

A feature's weights are a block of the arena, of a power of two of places: the feature's `counts` are used, and it moves
to a block twice as large when that is full. Blocks that were left are used again. A weight is ``scale[a] * values[p]``
with the scale of its atom a (a set of features that are shrunk together), so that shrinking an atom touches one number;
of each atom the squared norm `rho` is kept, too. An atom that dies gives all its blocks back.

Scales are kept by atom rather than by time stamps on features: all weights of an atom are then right at any moment, a
score costs one more multiplication, and the shrinkage itself needs nothing but `rho`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._jit import FLOATS_OUT, INTS, INTS_OUT, PARTS, PARTS_OUT, kernel

Store = namedtuple(
    "Store",
    [
        "atom_of",  # of each feature
        "heads",  # of each feature: where its block begins in the arena, -1 if it has none
        "counts",
        "next_active",  # of each feature: the next one of its atom that has a block, -1 at the end
        "first_active",  # of each atom
        "labels",  # the arena: outputs
        "values",
        "sums",  # for averaging; empty without it
        "direction",  # for MIRA: zeros between samples; empty without it
        "free",  # by size: the first free block, whose `labels` hold the next one
        "scale",  # of each atom
        "rho",
        "peak",  # largest rho since it was last computed anew
        "cumulative",  # sum of the scale over the steps up to `last_step`
        "last_step",
        "dense",  # intercept and additional scores, which are in no group
        "dense_sums",
        "dense_direction",
    ],
)
STORE = types.NamedTuple(
    [PARTS, PARTS_OUT, PARTS_OUT, PARTS_OUT, PARTS_OUT, PARTS_OUT, FLOATS_OUT, FLOATS_OUT, FLOATS_OUT, INTS_OUT]
    + [FLOATS_OUT] * 4
    + [INTS_OUT]
    + [FLOATS_OUT] * 3,
    Store,
)
ARENA = ("labels", "values", "sums", "direction")

# What a shrinkage needs of the groups; see penalties/_shrink.py.
GroupArrays = namedtuple("GroupArrays", ["weights", "order", "indptr", "atoms"])
GROUP_ARRAYS = types.NamedTuple([FLOATS_OUT, INTS, INTS, INTS], GroupArrays)

# Places of the counters that the kernels share with their caller, who may set STOP from another thread.
STEP, SINCE_SHRINK, STOP, UNCONVERGED, TOP, HELD, N_RECORDS = range(7)
N_COUNTERS = 7

_N_SIZES = 32
# Below this an atom's scale goes into its values, before sums over steps lose digits.
_SMALLEST_SCALE = 1e-2
# Squared norms are computed anew when updates have cancelled all but this part.
_CANCELLED = 1e-6


def new_store(atom_of, n_atoms, n_dense, *, average, mira, capacity):
    """Make a store without weights."""
    n_features = len(atom_of)
    return Store(
        atom_of,
        np.full(n_features, -1, np.int32),
        np.zeros(n_features, np.int32),
        np.empty(n_features, np.int32),
        np.full(n_atoms, -1, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity),
        np.empty(capacity if average else 0),
        np.zeros(capacity if mira else 0),
        np.full(_N_SIZES, -1),
        np.ones(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms, np.int64),
        np.zeros(n_dense),
        np.zeros(n_dense),
        np.zeros(n_dense),
    )


def grow(store, used, wanted):
    """Return the store with an arena of `wanted` places, of which the first `used` are kept."""
    arena = {}
    for name in ARENA:
        old = getattr(store, name)
        if len(old):
            arena[name] = np.zeros(wanted, old.dtype)
            arena[name][:used] = old[:used]
    return store._replace(**arena)


@kernel
def largest_block(n_outputs):
    """Return the size of the block that holds all outputs."""
    size = 1
    while size < n_outputs:
        size *= 2
    return size


@kernel
def _take_block(store, counters, kind):
    start = store.free[kind]
    if start >= 0:
        store.free[kind] = store.labels[start]
        return start
    start = counters[TOP]
    counters[TOP] += 1 << kind
    return start


@kernel
def _give_block(store, start, kind):
    store.labels[start] = store.free[kind]
    store.free[kind] = start


@kernel
def find_pair(store, feature, output):
    """Return the place of a pair's weight, -1 if it has none."""
    start = store.heads[feature]
    for place in range(start, start + store.counts[feature]):
        if store.labels[place] == output:
            return place
    return -1


@kernel
def add_pair(store, counters, feature, output):
    """Make a weight of zero for a pair that has none; return its place. The arena must have space."""
    n = store.counts[feature]
    start = np.int64(store.heads[feature])
    if n == 0:
        start = _take_block(store, counters, 0)
        atom = store.atom_of[feature]
        store.next_active[feature] = store.first_active[atom]
        store.first_active[atom] = feature
        store.heads[feature] = start
    elif n & (n - 1) == 0:
        kind = 0
        while (1 << kind) < n:
            kind += 1
        old, start = start, _take_block(store, counters, kind + 1)
        for k in range(n):
            store.labels[start + k] = store.labels[old + k]
            store.values[start + k] = store.values[old + k]
            if store.sums.shape[0]:
                store.sums[start + k] = store.sums[old + k]
            if store.direction.shape[0]:
                store.direction[start + k] = store.direction[old + k]
                store.direction[old + k] = 0.0
        _give_block(store, old, kind)
        store.heads[feature] = start
    place = start + n
    store.counts[feature] = n + 1
    store.labels[place] = output
    store.values[place] = 0.0
    if store.sums.shape[0]:
        store.sums[place] = 0.0
    if store.direction.shape[0]:
        store.direction[place] = 0.0
    counters[HELD] += 1
    return place


@kernel
def scale_until(store, atom, step):
    """Return the sum of an atom's scale over all steps up to this one."""
    return store.cumulative[atom] + store.scale[atom] * (step - store.last_step[atom])


@kernel
def move_pair(store, place, atom, delta, step):
    """Add `delta` to a weight, from this step on."""
    scale = store.scale[atom]
    weight = scale * store.values[place]
    change = delta / scale
    store.values[place] += change
    if store.sums.shape[0]:
        store.sums[place] += change * scale_until(store, atom, step - 1)
    rho = store.rho[atom] + delta * (2.0 * weight + delta)
    store.rho[atom] = rho
    if rho > store.peak[atom]:
        store.peak[atom] = rho


@kernel
def _free_atom(store, counters, atom):
    """Let all weights of an atom go."""
    feature = store.first_active[atom]
    while feature >= 0:
        n, kind = store.counts[feature], 0
        while (1 << kind) < n:
            kind += 1
        _give_block(store, store.heads[feature], kind)
        counters[HELD] -= n
        store.heads[feature] = -1
        store.counts[feature] = 0
        feature = store.next_active[feature]
    store.first_active[atom] = -1


@kernel
def _measure_atom(store, atom):
    """Compute the squared norm of an atom from its weights."""
    total = 0.0
    feature = store.first_active[atom]
    while feature >= 0:
        start = store.heads[feature]
        for place in range(start, start + store.counts[feature]):
            total += store.values[place] ** 2
        feature = store.next_active[feature]
    return total * store.scale[atom] ** 2


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
        start = store.heads[feature]
        for place in range(start, start + store.counts[feature]):
            if store.sums.shape[0]:
                store.sums[place] -= store.values[place] * cumulative
            store.values[place] *= scale
        feature = store.next_active[feature]
    store.scale[atom] = 1.0
    store.cumulative[atom] = 0.0
