"""TrainingState: the state of a training, as arrays that can be stored, sent, and averaged."""

from __future__ import annotations

from copy import copy, deepcopy
from functools import reduce
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, NDArray, Self, Sequence
from ..._core.indices import are_places
from ..._core.validation import quoted
from .optimizers import BLANK, read_optimizer, write_optimizer

# Kinds whose weights are pairs of a feature and an output.
_OF_PAIRS = ("online", "mira", "minibatch", "groups")
# Attributes that must be equal in all states that are averaged.
_MUST_AGREE = ("kind", "shape", "holds_pairs", "dtype")
# Progress of the training, under the attribute names of the estimators.
_PROGRESS = ("n_iter_", "loss_curve_", "validation_scores_", "_losses")


class TrainingState:
    """State of online training: weights and optimiser accumulators. `get_training_state` returns it.

    The weights are in two parts. *Dense* weights are few: intercepts and additional scores, such as transitions; for a
    network all weights. *Pairs* are the weights of a feature and an output, of
    which only the touched ones are stored. Each weight has a value in each slot; all values have the type of the
    estimator's weights:

    - ``"weights"``: the weight itself, after the last step;
    - ``"sums"``, if weights are averaged: the sum of its values after each of the `n_steps` steps;
    - ``"squares"`` (AdaGrad): the sum of its squared gradients;
    - ``"first"`` and ``"second"`` (Adam): its moments.

    Attributes
    ----------
    kind : {"online", "mira", "groups", "minibatch", "adam"}
        The kind of training: AdaGrad or MIRA sample by sample, `GroupLassoPerceptron`, AdaGrad on factor graphs, Adam.
    shape : tuple (n_features, n_outputs), or list of tuples
        The shape of the matrix of pairs; or the shapes of the arrays that make up the dense weights.
    dense : dict of str -> ndarray of shape (n_dense,)
        By slot: the intercepts, then the additional scores. For networks the weights of all layers, then all
        intercepts, then the additional scores.
    places : int64 ndarray of shape (n_pairs,)
        Ascending: ``feature * n_outputs + output`` of each pair.
    pairs : dict of str -> ndarray of shape (n_pairs,)
        By slot.
    counters : dict of str -> int
        ``n_steps`` (samples; for networks and factor graphs mini-batches), ``n_inexact`` (samples whose inference did
        not converge) and, for linear models, ``n_since`` and ``n_shrinkages``: samples since the last step of the
        penalty or shrinkage, and number of shrinkages.
    groups : dict or None
        For `GroupLassoPerceptron`: ``norms`` of the groups, ``sigma``, the atoms of groups that the last shrinkage
        ``kept``, the ``curve`` of samples and numbers of weights, and the maximum number of weights that atoms have
        ``held``.
    progress : dict
        ``n_iter_`` and ``loss_curve_`` of the estimator.
    attributes : dict
        Other fitted attributes, with which a clone becomes a fitted estimator: classes, structure, groups.
    holds_pairs : bool
        Whether the estimator has a sparse `coef_`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> X, y = np.eye(3), np.array(["a", "b", "a"])
    >>> model = StructuredSparseMAPClassifier().partial_fit(X, y, classes=["a", "b"])
    >>> state = model.get_training_state()
    >>> state.n_steps, sorted(state.pairs), len(state.places)
    (3, ['squares', 'sums', 'weights'], 6)
    >>> other = clone(model).set_training_state(state).partial_fit(X, y)
    >>> np.allclose(other.coef_, model.partial_fit(X, y).coef_)
    True
    """

    def __init__(
        self,
        *,
        kind: str,
        shape: Any,
        holds_pairs: bool,
        dense: dict[str, NDArray[np.floating]],
        places: NDArray[np.int64],
        pairs: dict[str, NDArray[np.floating]],
        counters: dict[str, int],
        groups: dict[str, Any] | None = None,
        progress: dict[str, Any] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.kind, self.shape, self.holds_pairs = kind, shape, holds_pairs
        self.dense, self.places, self.pairs = dense, places, pairs
        self.counters, self.groups = counters, groups
        self.progress, self.attributes = progress or {}, attributes or {}

    def _check(self):
        """Raise ValueError unless the arrays are consistent; they may have been edited, or read from a file.

        Kernels rely on pairs being within `shape`.
        """
        dtype, of_pairs = self.dtype, self.kind in _OF_PAIRS
        shapes = [self.shape] if of_pairs else self.shape
        if not all(isinstance(n, Integral) and n >= 0 for shape in shapes for n in shape):
            raise ValueError(f"shape must hold numbers of features and outputs; got {self.shape!r}")
        n_weights = sum(int(np.prod(shape, dtype=object)) for shape in shapes)
        n_dense, n_places = (self.dense["weights"].size, n_weights) if of_pairs else (n_weights, 0)
        if not are_places(self.places, n_places) or not (self.places[1:] > self.places[:-1]).all():
            raise ValueError(f"places must be int64, ascend, and lie from 0 to {n_places - 1}")
        if of_pairs and n_dense < self.shape[1]:
            raise ValueError(f"there are {n_dense} dense weights for {self.shape[1]} intercepts")
        if of_pairs and self.pairs.keys() != self.dense.keys():
            raise ValueError(f"pairs have the slots {list(self.pairs)}, dense weights {list(self.dense)}")
        for slots, n in ((self.dense, n_dense), (self.pairs, len(self.places))):
            for name, values in slots.items():
                if not isinstance(values, np.ndarray) or values.shape != (n,) or values.dtype != dtype:
                    raise ValueError(f"the slot {name!r} must hold {n} numbers of {dtype}")
        self._check_counters()

    def _check_counters(self):
        for name, number in self.counters.items():
            if not isinstance(number, Integral) or number < 0:
                raise ValueError(f"the counter {name!r} is {number!r}; it must be an int that is not negative")

    @property
    def n_steps(self) -> int:
        """Number of steps in the sums."""
        return self.counters["n_steps"]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the weights."""
        return self.dense["weights"].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = [self.places, *self.dense.values(), *self.pairs.values()]
        return sum(array.nbytes for array in arrays)

    def coef(self, slot: str = "weights") -> Any:
        """Return a slot of the pairs as a CSR array of shape (n_features, n_outputs).

        Parameters
        ----------
        slot : str, default="weights"

        Returns
        -------
        values : sparse.csr_array
            It has an entry for each pair, even if zero.

        Raises
        ------
        ValueError
            If there is no such slot.
        """
        if slot not in self.pairs:
            raise ValueError(f"there is no slot {slot!r}; this state has {', '.join(map(repr, self.pairs)) or 'none'}")
        features, outputs = np.divmod(self.places, self.shape[1])
        indptr = np.concatenate([[0], np.cumsum(np.bincount(features, minlength=self.shape[0]))])
        return sparse.csr_array((self.pairs[slot].copy(), outputs.astype(np.int32), indptr), shape=self.shape)

    def without_history(self) -> TrainingState:
        """Return the state with no steps counted, from which each of several workers should start.

        The results of the workers then have the sums and counts of their own steps only; see `average_states`.

        Returns
        -------
        state : TrainingState
            It shares the other arrays.
        """
        found = copy(self)
        # Keep the samples since the last penalty or shrinkage, which is still due, and Adam's steps, which correct its
        # moments.
        kept = ("n_since", "n_steps") if self.kind == "adam" else ("n_since",)
        found.counters = {name: n * (name in kept) for name, n in self.counters.items()}
        for name in ("dense", "pairs"):
            slots = getattr(self, name)
            setattr(found, name, slots | {"sums": np.zeros_like(slots["sums"])} if "sums" in slots else slots)
        if self.groups is not None:
            found.groups = self.groups | {"curve": np.zeros((0, 2), np.int64)}
        return found

    def __repr__(self):
        return f"TrainingState(kind={self.kind!r}, n_steps={self.n_steps}, n_pairs={len(self.places)})"


class TrainingStateMixin:
    """Reads and writes the training state of an estimator.

    A subclass has `_optimizer`, which is None after the end of training; a method `_new_begin`, which then returns an
    optimiser that continues from `_model`; and `_set_by_fit`.
    """

    # The kinds of training state that the estimator can read.
    _state_kinds: tuple[str, ...] = ()
    # The type of weights in training.
    _dtype = np.dtype(np.float64)

    def get_training_state(self) -> TrainingState:
        """Return the state from which `partial_fit` continues: weights, their sums, optimiser state, counters, curves.

        Returns
        -------
        state : TrainingState
            Its arrays are copies. After `fit`, which keeps only the model, it is the initial state of a stream from
            that model.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If there is no model yet.
        """
        check_is_fitted(self)
        optimizer = self._optimizer if self._optimizer is not None else self._new_begin()
        known = vars(self)
        return TrainingState(
            **read_optimizer(optimizer),
            progress={name: deepcopy(known[name]) for name in _PROGRESS if name in known},
            attributes={name: known[name] for name in self._set_by_fit if name in known},
        )

    def set_training_state(self, state: TrainingState) -> Self:
        """Load a training state, so that `partial_fit` continues from there.

        Parameters
        ----------
        state : TrainingState
            State of an estimator of this kind. Its arrays are copied. If it has no `attributes`, this estimator must
            have seen data before.

        Returns
        -------
        self : object
            The estimator with the model of that state, ready for `predict`.

        Raises
        ------
        ValueError
            If the state is of another kind, or does not fit the estimator.
        """
        if not isinstance(state, TrainingState) or state.kind not in self._state_kinds:
            raise ValueError(f"{state!r} is no training state of a {type(self).__name__}")
        state._check()
        if self._dtype not in (None, state.dtype):
            raise ValueError(f"the state has weights of {state.dtype}, but this estimator has {self._dtype}")
        if not state.attributes and not self.__sklearn_is_fitted__():
            raise ValueError(
                "the state has no attributes, such as classes, and this estimator has seen no data yet; take a state "
                "with attributes, or call partial_fit first"
            )
        for name, value in (state.attributes | state.progress).items():
            setattr(self, name, deepcopy(value) if name in state.progress else value)
        rng = check_random_state(self.random_state)
        optimizer = write_optimizer(state, getattr(self, "_new_optimizer", None), rng)
        self._optimizer, self._model = optimizer, None
        self._took_state()
        return self

    def _took_state(self):
        """Update attributes that depend on the optimiser."""

    def _outcome(self, monitor, model):
        """Return the attributes that a fit sets at its end, with the model that it has learned."""
        return {
            "_model": model,
            "_optimizer": None,
            "n_iter_": monitor.n_iter,
            "loss_curve_": list(monitor.losses),
            "validation_scores_": list(monitor.scores),
        }

    def _take_rounds(self, optimizers, monitor):
        """Load the result of rounds of parameter mixing, in one phase or two; the estimator is then as after `fit`."""
        vars(self).update(self._outcome(monitor, optimizers[-1].model()))


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
        actual fraction of all steps. The first mixtures of a training are poor, and should have little weight in the
        end: with ``4 / (t + 3)`` at the t-th mixture, weights grow roughly like t^3.

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
    """Return a state multiplied by a share, a summand of `add_partial`.

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
    # Workers continued these counters from the start's values.
    kept = ("n_since", "n_steps") if total.kind == "adam" else ("n_since",)
    found.counters = {name: n + start.counters[name] * (name not in kept) for name, n in found.counters.items()}
    found.progress, found.attributes = start.progress, start.attributes
    return found


def _scales_of_sums(n_own, n_before, share):
    """Return the factors of the sums of new and of earlier steps with which the new ones have this share."""
    if share is None or not n_own or not n_before:
        return 1.0, 1.0
    n = n_own + n_before
    return share * n / n_own, (1.0 - share) * n / n_before
