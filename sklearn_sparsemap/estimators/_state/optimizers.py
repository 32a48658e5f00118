"""Conversion between optimisers and the arrays of a `TrainingState`.

Used by `estimators`, `estimators/_structured`, `export.py`, `fitted.py` and `mixture.py`.
"""

from typing import NamedTuple

import numpy as np

from ..._core.annotations import NDArray
from ..._core.offsets import ragged_indices
from ..._training._curve import BoundedCurve, highest_of
from ..._training._minibatch import LinearMinibatchOptimizer, MinibatchOptimizer
from ..._training._network import NetworkModel
from ..._training._online.dense import FADED, N_SHRINKAGES, RATE, SINCE, SKIPPED, START, STEP, UNCONVERGED
from ..._training._online.optimizer import RECENT, MiraOptimizer, OnlineOptimizer
from ..._training._online.pairs import ATOM, COUNT, HEAD
from ..._training._online.recency import Recency
from ..._training.score_models import LinearModel
from .state import matrix_of

# Optimisers of linear models by their names, and those of AdaGrad.
_LINEAR = {cls.state_name: cls for cls in (OnlineOptimizer, MiraOptimizer, LinearMinibatchOptimizer)}
_WITH_SQUARES = ("online", "minibatch")
# Values in a slot of weights that no step has changed, if not zero.
BLANK = {"squares": OnlineOptimizer.first_state}


def read_optimizer(optimizer):
    """Return the arguments of a `TrainingState`, as copies of an optimiser's arrays."""
    return (_read_network if optimizer.state_name == "adam" else _read_store)(optimizer)


def optimizer_of(state, make_groups=None, rng=None):
    """Make an optimiser that continues from a state.

    Parameters
    ----------
    state : TrainingState
    make_groups : callable, default=None
        Maps numbers of outputs and of additional scores to a new `GroupOptimizer`.
    rng : RandomState, default=None
        Source of randomness for dropout.
    """
    if state.optimizer == "adam":
        return _network_optimizer_of(state, rng)
    n_outputs, counters = state.shape[1], state.counters
    intercept, additional = np.split(state.dense["weights"], [n_outputs])
    if state.optimizer == "groups":
        optimizer = make_groups(n_outputs, len(additional))
        optimizer.load(LinearModel(state.coef(), intercept, additional), shrunk=False)
        _load_groups(state, optimizer)
    else:
        coef = matrix_of(state) if state.holds_pairs else np.zeros(state.shape, state.dtype)
        average = RECENT if state.recency is not None else "sums" in state.dense
        optimizer = _LINEAR[state.optimizer](LinearModel(coef, intercept, additional), average=average)
    for place, name in _COUNTERS.items():
        optimizer.counters[place] = counters[name]
    store, n = optimizer.store, optimizer.store.n_dense
    if state.recency is not None:
        clock, rate, unit, skipped, *evidence = state.recency.tolist()
        store.pace[:] = clock, rate, counters["n_steps"], unit, skipped
        optimizer.recency = Recency(evidence)
    clock = optimizer.clock
    if state.holds_pairs:
        places = _pairs_of(store, clock, optimizer.seen)
        at = places.at
        so_far = places.so_far
    else:
        at = state.indices + n
        so_far = clock
        store.values[at] = state.pairs["weights"]
    if "sums" in state.dense:
        store.sums[:n] = clock * store.values[:n] - state.dense["sums"]
        store.sums[at] = store.values[at] * so_far - state.pairs["sums"]
    if "squares" in state.dense:
        store.state[:n], store.state[at] = state.dense["squares"], state.pairs["squares"]
    return optimizer


# -- Stores of linear models ------------------------------------------------------------------------------------------

_COUNTERS = {STEP: "n_steps", UNCONVERGED: "n_inexact", SINCE: "n_since", N_SHRINKAGES: "n_shrinkages"}


class _Places(NamedTuple):
    """Weights of a store.

    Attributes
    ----------
    indices : int array, ascending
        ``feature * n_outputs + output`` of each weight.
    at : int array
        Place of each weight in the store.
    scale, so_far : float, or array with a number for each weight
        Factor of each stored value: the current one, and its weighted sum over all steps.
    """

    indices: NDArray
    at: NDArray
    scale: float | NDArray
    so_far: float | NDArray


def _touched_of(store, first_state, clock):
    """Find the weights of a dense store that differ from their initial values."""
    values, sums, state = (array[store.n_dense :] for array in (store.values, store.sums, store.state))
    touched = values != 0.0
    if len(sums):
        touched |= sums != 0.0
    if len(state):
        touched |= state != first_state
    indices = np.flatnonzero(touched)
    return _Places(indices, indices + store.n_dense, 1.0, clock)


def _pairs_of(store, clock, seen):
    """Find the weights in a store of pairs."""
    features = np.flatnonzero(store.features[:, COUNT])
    starts, counts = (store.features[features, column].astype(np.int64) for column in (HEAD, COUNT))
    # A negative count marks a block with a place for each output.
    widths = np.where(counts < 0, store.n_outputs, counts)
    at = ragged_indices(starts, widths)
    is_wide = np.repeat(counts < 0, widths)
    outputs = store.outputs[at].astype(np.int64)
    exists = ~is_wide | (outputs != 0)
    outputs = np.where(is_wide, at - np.repeat(starts, widths), outputs)
    row = np.repeat(features, widths)[exists]
    feature = row if seen is None else seen[row].astype(np.int64)
    indices, at = feature * store.n_outputs + outputs[exists], at[exists]
    order = np.argsort(indices, kind="stable")
    atoms = store.features[row[order], ATOM]
    so_far = store.cumulative + store.score_scale * (clock - store.last_clock)
    return _Places(indices[order], at[order], store.scale[atoms], so_far[atoms])


def _read_store(optimizer):
    store, n = optimizer.store, optimizer.store.n_dense
    counters = {name: int(optimizer.counters[place]) for place, name in _COUNTERS.items()}
    clock = optimizer.clock
    if optimizer.holds_pairs:
        indices, at, scale, so_far = _pairs_of(store, clock, optimizer.seen)
    else:
        indices, at, scale, so_far = _touched_of(store, optimizer.first_state, clock)
    dtype = store.values.dtype
    dense = {"weights": store.values[:n].copy()}
    pairs = {"weights": (store.values[at] * scale).astype(dtype, copy=False)}
    if optimizer.average:
        # The store holds each change times the clock before it.
        dense["sums"] = clock * store.values[:n] - store.sums[:n]
        pairs["sums"] = (store.values[at] * so_far - store.sums[at]).astype(dtype, copy=False)
    if optimizer.state_name in _WITH_SQUARES:
        dense["squares"] = store.state[:n].copy()
        pairs["squares"] = store.state[at]
    return {
        "optimizer": optimizer.state_name,
        "shape": optimizer.sizes[:2],
        "holds_pairs": optimizer.holds_pairs,
        "dense": dense,
        "indices": indices,
        "pairs": pairs,
        "counters": counters,
        "groups": _read_groups(optimizer) if optimizer.state_name == "groups" else None,
        "recency": _read_recency(optimizer) if optimizer.average else None,
    }


def _read_recency(optimizer):
    """Return the recency of a state; None if all steps have the same weight."""
    pace = optimizer.store.pace
    if optimizer.average != RECENT and pace[START] == 0.0:
        return None
    return np.concatenate([[optimizer.clock, pace[RATE], pace[FADED], pace[SKIPPED]], optimizer.recency_now().state])


def _read_groups(optimizer):
    return {
        "norms": optimizer.group_norms(),
        "kept": optimizer.store.kept.copy(),
        "sigma": optimizer.sigma.copy(),
        "curve": optimizer.joined_curve(),
        "held": optimizer.held.copy(),
    }


def _load_groups(state, optimizer):
    groups = state.groups
    optimizer.store.kept[:] = groups["kept"]
    optimizer.sigma[:] = groups["sigma"]
    optimizer.held[:] = groups["held"]
    optimizer.curve = BoundedCurve(highest_of)
    for step, count in groups["curve"].tolist():
        optimizer.curve.append((step, (count,)))


# -- Networks ---------------------------------------------------------------------------------------------------------


def _read_network(optimizer):
    rule, arrays = optimizer.rule, optimizer.network.arrays
    slots = {"weights": arrays, "first": rule.first, "second": rule.second}
    return {
        "optimizer": optimizer.state_name,
        "shape": [array.shape for array in arrays],
        "holds_pairs": False,
        "dense": {name: np.concatenate([a.ravel() for a in values]) for name, values in slots.items()},
        "indices": np.zeros(0, np.int64),
        "pairs": {},
        "counters": {"n_steps": rule.n_steps, "n_inexact": int(optimizer.unconverged)},
        "groups": None,
    }


def _network_optimizer_of(state, rng):
    def arrays(name):
        ends = np.cumsum([int(np.prod(shape)) for shape in state.shape])
        return [part.reshape(shape).copy() for part, shape in zip(np.split(state.dense[name], ends), state.shape)]

    *layers, additional = arrays("weights")
    n_layers = len(layers) // 2
    optimizer = MinibatchOptimizer(NetworkModel(layers[:n_layers], layers[n_layers:], additional), rng)
    rule, counters = optimizer.rule, state.counters
    rule.first = arrays("first")
    rule.second = arrays("second")
    rule.n_steps, optimizer.unconverged = counters["n_steps"], counters["n_inexact"]
    return optimizer
