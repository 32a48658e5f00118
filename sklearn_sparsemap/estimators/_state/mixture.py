"""Averages of training states: parameter mixing.

Used by `estimators`.
"""

from __future__ import annotations

from copy import copy
from functools import reduce

import numpy as np

from ..._core.annotations import ArrayLike, Sequence
from ..._core.validation import quoted
from .optimizers import BLANK
from .state import LENGTH, NEW_RECENCY, UNIT, TrainingState

# Attributes that must be equal in all states that are averaged.
_MUST_AGREE = ("optimizer", "shape", "holds_pairs", "dtype")


def average_states(
    states: Sequence[TrainingState],
    weights: ArrayLike | None = None,
    start: TrainingState | None = None,
    fraction: float | None = None,
) -> TrainingState:
    """Average the states of several workers, each trained on its own data: parameter mixing.

    Weights, squared gradients and moments are averaged; a pair that a state lacks has a weight of zero. Sums and
    counters are added up, so that averaged weights are means over the steps of all workers. The number of steps of Adam
    is the maximum over the workers, because it determines the correction of the moments.

    Parameters
    ----------
    states : sequence of TrainingState
    weights : array-like of shape (n_states,), default=None
        Weights of the states, such as their numbers of samples. By default, equal.
    start : TrainingState, default=None
        The state whose ``start.without_history()`` was the common start of all workers. Its sums, for the remaining
        pairs, and its counters are added; its curves and attributes are kept.
    fraction : float, default=None
        The weight in averaged weights of the steps since `start`, in (0, 1]. By default, their fraction of all steps
        (with ``average="recent"``, of the steps of its window). The first mixtures are far from the optimum, and should
        have little weight: with ``4 / (t + 3)`` at the t-th mixture, the weight of a mixture grows roughly like t^3.

    Returns
    -------
    state : TrainingState

    Raises
    ------
    ValueError
        If there are no states, they belong to different models, or `weights` or `fraction` are invalid.

    Examples
    --------
    Two workers, each with half of the data:

    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.estimators import average_states
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> y = X[:, 0] > 0
    >>> model = StructuredSparseMAPClassifier().partial_fit(X[:10], y[:10], classes=[False, True])
    >>> for _ in range(3):
    ...     start = model.get_training_state()
    ...     common = start.without_history()
    ...     halves = [clone(model).set_training_state(common).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    ...     mixture = average_states([half.get_training_state() for half in halves], start=start)
    ...     model = model.set_training_state(mixture)
    >>> mixture.n_steps, bool(model.score(X, y) > 0.95)
    (310, True)
    """
    states = list(states)
    if not states:
        raise ValueError("there are no states to average")
    for number, state in enumerate(states):
        for name in _MUST_AGREE:
            if getattr(state, name) != getattr(states[0], name):
                raise ValueError(
                    f"states[{number}] has {name} {quoted(getattr(state, name))}, but states[0] has "
                    f"{quoted(getattr(states[0], name))}; average states of one model"
                )
    factors = np.ones(len(states)) if weights is None else np.asarray(weights, np.float64)
    if factors.shape != (len(states),) or not (factors >= 0).all() or not 0 < factors.sum() < np.inf:
        raise ValueError(f"weights must be {len(states)} numbers, not negative and not all zero; got {weights!r}")
    if fraction is not None and not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0, and at most 1; got {fraction!r}")
    return finish_mixture(reduce(add_partial, map(partial_mixture, states, factors.tolist())), start, fraction)


def partial_mixture(state, factor):
    """Return a state multiplied by its weight, `factor`, which the attribute `factor` of the result records.

    `add_partial` adds such states, and sums of them, so many workers can average in a tree. The order affects the
    rounding.
    """
    found = copy(state)
    found.factor = factor
    if "n_since" in state.counters:
        found.counters = state.counters | {"n_since": factor * state.counters["n_since"]}
    factors = {} if state.recency is None else {"sums": state._length[1], "squares": factor / state.recency[UNIT]}
    if state.recency is not None:
        # The states of workers may have different units.
        found.recency = NEW_RECENCY.copy()
        found.recency[[0, LENGTH]] = state.recency[LENGTH]
    for part in ("dense", "pairs"):
        slots = {name: factors.get(name, 1.0 if name == "sums" else factor) for name in getattr(state, part)}
        multiplied = {n: v if slots[n] == 1.0 else slots[n] * v for n, v in getattr(state, part).items()}
        setattr(found, part, multiplied)
    if state.groups is not None:
        found.groups = state.groups | {"norms": None, "sigma": factor * state.groups["sigma"]}
    return found


def add_partial(first, second):
    """Add two partial mixtures."""
    found = copy(first)
    found.factor = first.factor + second.factor
    found.dense = {name: values + second.dense[name] for name, values in first.dense.items()}
    found.indices, found.pairs = _union(first, second)
    found.counters = {name: n + second.counters[name] for name, n in first.counters.items()}
    if first.optimizer == "adam":
        found.counters["n_steps"] = max(first.n_steps, second.n_steps)
    if first.recency is not None:
        found.recency = NEW_RECENCY.copy()
        found.recency[[0, LENGTH]] = first.recency[LENGTH] + second.recency[LENGTH]
    if first.groups is not None:
        one, other = first.groups, second.groups
        held = np.maximum(one["held"], other["held"])
        found.groups = one | {
            "kept": one["kept"] | other["kept"], "sigma": one["sigma"] + other["sigma"], "held": held
        }  # fmt: skip
    return found


def _union(first, second):
    """Return the union of the pairs of two partial mixtures, and the sums of their slots."""
    if np.array_equal(first.indices, second.indices):
        return first.indices, {name: values + second.pairs[name] for name, values in first.pairs.items()}
    indices = np.union1d(first.indices, second.indices)
    found = {}
    at = [np.searchsorted(indices, state.indices) for state in (first, second)]
    for name in first.pairs:
        blank = BLANK.get(name, 0.0)
        total = np.full(len(indices), blank * (first.factor + second.factor), first.pairs[name].dtype)
        for state, where in zip((first, second), at):
            total[where] += state.pairs[name] - blank * state.factor
        found[name] = total
    return indices, found


def finish_mixture(total, start=None, fraction=None):
    """Divide a sum of partial mixtures by the sum of their weights; see `average_states`."""
    found = copy(total)
    for name in ("dense", "pairs"):
        slots = getattr(total, name)
        setattr(found, name, {slot: v if slot == "sums" else v / total.factor for slot, v in slots.items()})
    if total.groups is not None:
        found.groups = total.groups | {"sigma": total.groups["sigma"] / total.factor}
    if "n_since" in total.counters:
        # The counters were added up with the weights of the states, so this is their mean.
        found.counters = total.counters | {"n_since": round(total.counters["n_since"] / total.factor)}
    if start is None:
        return found
    if "sums" in start.dense:
        n_new, (n_before, unit) = total._length[0], start._length
        own, before = _scales_of_sums(n_new, n_before, fraction)
        before *= unit
        if start.recency is not None:
            found.recency = start.recency.copy()
            found.recency[[0, 1, UNIT, LENGTH]] = n_new + n_before, 1.0, 1.0, n_new + n_before
        found.dense["sums"] = own * found.dense["sums"] + before * start.dense["sums"]
        if start.pairs:
            at = np.searchsorted(found.indices, start.indices)
            here = at < len(found.indices)
            here[here] = found.indices[at[here]] == start.indices[here]
            sums = own * found.pairs["sums"]
            sums[at[here]] += before * start.pairs["sums"][here]
            found.pairs["sums"] = sums
    counters = found.counters.items()
    found.counters = {name: n + start.counters[name] * (name not in total._continued) for name, n in counters}
    found.progress, found.attributes = start.progress, start.attributes
    return found


def _scales_of_sums(n_new, n_before, fraction):
    """Return the factors of new and of earlier sums that give the new steps this fraction of the total weight."""
    if fraction is None or not n_new or not n_before:
        return 1.0, 1.0
    n = n_new + n_before
    return fraction * n / n_new, (1.0 - fraction) * n / n_before
