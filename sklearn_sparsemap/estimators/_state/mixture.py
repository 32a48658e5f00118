"""Averages of training states: parameter mixing."""

from __future__ import annotations

from copy import copy
from functools import reduce

import numpy as np

from ..._core.annotations import ArrayLike, Sequence
from ..._core.validation import quoted
from .optimizers import BLANK
from .state import TrainingState

# Attributes that must be equal in all states that are averaged.
_MUST_AGREE = ("kind", "shape", "holds_pairs", "dtype")


def average_states(
    states: Sequence[TrainingState],
    weights: ArrayLike | None = None,
    start: TrainingState | None = None,
    share: float | None = None,
) -> TrainingState:
    """Average the states of several workers, each trained on its own data: parameter mixing.

    Weights, squared gradients and moments are averaged; a pair that a state lacks counts with a weight of zero. Sums
    and counters are added up, so that averaged weights are those over the steps of all workers. (The steps of Adam are
    the maximum over the workers, because its moments are corrected by them.)

    Parameters
    ----------
    states : sequence of TrainingState
    weights : array-like of shape (n_states,), default=None
        Weights of the states, such as their numbers of samples. By default, equal.
    start : TrainingState, default=None
        The common start of all workers, if that was ``start.without_history()``: its sums, for the remaining pairs, and
        its counters are added, and its curves and attributes are kept.
    share : float, default=None
        The fraction of the steps since `start` in averaged weights, to which their sums are scaled. By default, their
        actual fraction of all steps. The first mixtures are far from the optimum, and should have little weight: with
        ``4 / (t + 3)`` at the t-th mixture, weights grow roughly like t^3.

    Returns
    -------
    state : TrainingState

    Raises
    ------
    ValueError
        If there are no states, they are of different models, or the weights or the share are invalid.

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
    shares = np.ones(len(states)) if weights is None else np.asarray(weights, np.float64)
    if shares.shape != (len(states),) or not (shares >= 0).all() or not 0 < shares.sum() < np.inf:
        raise ValueError(f"weights must be {len(states)} numbers, not negative and not all zero; got {weights!r}")
    if share is not None and not 0 < share <= 1:
        raise ValueError(f"share must be above 0, and at most 1; got {share!r}")
    return finish_mixture(reduce(add_partial, map(partial_mixture, states, shares.tolist())), start, share)


def partial_mixture(state, share):
    """Return a state multiplied by its weight, a summand of `add_partial`.

    Adding these, and then their sums, lets many workers average in a tree. The order affects the rounding.
    """
    found = copy(state)
    found.share = share
    if "n_since" in state.counters:
        found.counters = state.counters | {"n_since": share * state.counters["n_since"]}
    found.dense = {name: values if name == "sums" else share * values for name, values in state.dense.items()}
    found.pairs = {name: values if name == "sums" else share * values for name, values in state.pairs.items()}
    if state.groups is not None:
        found.groups = state.groups | {"norms": None, "sigma": share * state.groups["sigma"]}
    return found


def add_partial(first, second):
    """Add two partial mixtures."""
    found = copy(first)
    found.share = first.share + second.share
    found.dense = {name: values + second.dense[name] for name, values in first.dense.items()}
    found.places, found.pairs = _union(first, second)
    found.counters = {name: n + second.counters[name] for name, n in first.counters.items()}
    if first.kind == "adam":
        found.counters["n_steps"] = max(first.n_steps, second.n_steps)
    if first.groups is not None:
        one, other = first.groups, second.groups
        held = np.maximum(one["held"], other["held"])
        found.groups = one | {
            "kept": one["kept"] | other["kept"], "sigma": one["sigma"] + other["sigma"], "held": held
        }  # fmt: skip
    return found


def _union(first, second):
    """Return the union of the places of two partial mixtures, and the sums of their slots there."""
    if np.array_equal(first.places, second.places):
        return first.places, {name: values + second.pairs[name] for name, values in first.pairs.items()}
    places, found = np.union1d(first.places, second.places), {}
    at = [np.searchsorted(places, state.places) for state in (first, second)]
    for name in first.pairs:
        blank = BLANK.get(name, 0.0)
        total = np.full(len(places), blank * (first.share + second.share), first.pairs[name].dtype)
        for state, where in zip((first, second), at):
            total[where] += state.pairs[name] - blank * state.share
        found[name] = total
    return places, found


def finish_mixture(total, start=None, share=None):
    """Divide a sum of partial mixtures by the sum of their shares; see `average_states`."""
    found = copy(total)
    for name in ("dense", "pairs"):
        slots = getattr(total, name)
        setattr(found, name, {slot: v if slot == "sums" else v / total.share for slot, v in slots.items()})
    if total.groups is not None:
        found.groups = total.groups | {"sigma": total.groups["sigma"] / total.share}
    if "n_since" in total.counters:
        # The counters were summed with the states' shares as weights, so this is their mean.
        found.counters = total.counters | {"n_since": round(total.counters["n_since"] / total.share)}
    if start is None:
        return found
    if "sums" in start.dense:
        own, before = _scales_of_sums(total.n_steps, start.n_steps, share)
        found.dense["sums"] = own * found.dense["sums"] + before * start.dense["sums"]
        if start.pairs:
            at = np.searchsorted(found.places, start.places)
            here = at < len(found.places)
            here[here] = found.places[at[here]] == start.places[here]
            sums = own * found.pairs["sums"]
            sums[at[here]] += before * start.pairs["sums"][here]
            found.pairs["sums"] = sums
    counters = found.counters.items()
    found.counters = {name: n + start.counters[name] * (name not in total._continued) for name, n in counters}
    found.progress, found.attributes = start.progress, start.attributes
    return found


def _scales_of_sums(n_own, n_before, share):
    """Return the factors of the sums of new and of earlier steps with which the new ones have this share."""
    if share is None or not n_own or not n_before:
        return 1.0, 1.0
    n = n_own + n_before
    return share * n / n_own, (1.0 - share) * n / n_before
