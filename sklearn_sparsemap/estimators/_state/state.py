"""TrainingState: the state of a training, as arrays that can be stored, sent, and averaged.

Used by `estimators`, `export.py`, `fitted.py`, `mixture.py`, `optimizers.py` and `plain.py`.
"""

from __future__ import annotations

from copy import copy
from numbers import Integral

import numpy as np
from scipy import sparse

from ..._core.annotations import Any, NDArray
from ..._core.indices import are_indices
from ..._training._online.recency import N_STATE, WINDOW, Recency
from ..._training.score_models import sparse_weights

# Entries of `recency`: the clock, its rate, the unit of squared gradients and the number of skipped steps (see
# `_training/_online/dense.py`), then those of a `Recency`.
_N_OF_PACE = 4
UNIT, LENGTH, N_RECENCY = 2, _N_OF_PACE + WINDOW, _N_OF_PACE + N_STATE
NEW_RECENCY = np.concatenate([[0.0, 1.0, 1.0, 0.0], Recency().state])
# Optimisers with weights for pairs of a feature and an output.
_OF_PAIRS = ("online", "mira", "minibatch", "groups")


class TrainingState:
    """State of online training: weights and optimiser accumulators. `get_training_state` returns it.

    The weights are in two parts. *Dense* weights are few: intercepts and additional scores, such as transitions; for a
    network all weights. *Pairs* are the weights for a feature and an output. Only pairs that training has changed are
    stored. Each weight has a value in each slot; all values have the type of the estimator's weights:

    - ``"weights"``: the weight itself, after the last step;
    - ``"sums"``, if weights are averaged: the sum of its values after each of the `n_steps` steps, with
      ``average="recent"`` times the weights of the steps;
    - ``"squares"`` (AdaGrad): the sum of its squared gradients;
    - ``"first"`` and ``"second"`` (Adam): the moments of its gradient.

    Attributes
    ----------
    optimizer : {"online", "mira", "groups", "minibatch", "adam"}
        The optimiser: AdaGrad or MIRA sample by sample, `GroupLassoPerceptron`, AdaGrad on factor graphs, Adam.
    shape : tuple (n_features, n_outputs), or list of tuples
        The shape of the matrix of pairs; for networks the shapes of the arrays that are joined in the dense weights.
    dense : dict of str -> ndarray of shape (n_dense,)
        Dense weights by slot: the intercepts, then the additional scores. For networks the weights of all layers, then
        all intercepts, then the additional scores.
    indices : int64 ndarray of shape (n_pairs,)
        ``feature * n_outputs + output`` of each pair, ascending.
    pairs : dict of str -> ndarray of shape (n_pairs,)
        Values of the pairs by slot.
    counters : dict of str -> int
        ``n_steps`` (number of samples; for networks and factor graphs, of mini-batches), ``n_inexact`` (number of
        samples whose inference did not converge) and, for linear models, ``n_since`` and ``n_shrinkages``: number of
        samples since the last step of the penalty or shrinkage, and number of shrinkages.
    groups : dict or None
        For `GroupLassoPerceptron`: ``norms`` of the groups; ``sigma``, the last nonzero strength of a shrinkage and the
        mean over all shrinkages; ``kept``, the atoms that survived the last shrinkage; ``curve``, the number of weights
        by the number of samples; and ``held``, the maximum number of weights of each atom so far.
    recency : ndarray or None
        With ``average="recent"``: the sum of the weights of all steps, by how much the latest step raised it, the unit
        of ``"squares"``, the number of steps that do not shorten later ones, that of the average, and evidence of a
        change. Slots are in these units.
    progress : dict
        ``n_iter_`` and ``loss_curve_`` of the estimator.
    attributes : dict
        Other fitted attributes, which make a clone a fitted estimator: classes, structure, groups.
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
    >>> state.n_steps, sorted(state.pairs), len(state.indices)
    (3, ['squares', 'sums', 'weights'], 6)
    >>> other = clone(model).set_training_state(state).partial_fit(X, y)
    >>> np.allclose(other.coef_, model.partial_fit(X, y).coef_)
    True
    """

    # `mixture.py`, which also adds `factor`, and `estimators/_structured/new_labels.py` make copies with other arrays.
    # `optimizers.py` makes the slots, counters and entries of `groups` by these names, which files hold, too.
    def __init__(
        self,
        *,
        optimizer: str,
        shape: Any,
        holds_pairs: bool,
        dense: dict[str, NDArray[np.floating]],
        indices: NDArray[np.int64],
        pairs: dict[str, NDArray[np.floating]],
        counters: dict[str, int],
        groups: dict[str, Any] | None = None,
        recency: NDArray[np.float64] | None = None,
        progress: dict[str, Any] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.optimizer, self.shape, self.holds_pairs = optimizer, shape, holds_pairs
        self.dense, self.indices, self.pairs = dense, indices, pairs
        self.counters, self.groups, self.recency = counters, groups, recency
        self.progress, self.attributes = progress or {}, attributes or {}

    def _check(self):
        """Raise ValueError unless the arrays are consistent; they may have been edited, or read from a file.

        Kernels rely on all indices being within `shape`.
        """
        dtype = self.dtype
        of_pairs = self.optimizer in _OF_PAIRS
        shapes = [self.shape] if of_pairs else self.shape
        if not all(isinstance(n, Integral) and n >= 0 for shape in shapes for n in shape):
            raise ValueError(f"shape must hold numbers of features and outputs; got {self.shape!r}")
        n_weights = sum(int(np.prod(shape, dtype=object)) for shape in shapes)
        n_dense, n_indices = (self.dense["weights"].size, n_weights) if of_pairs else (n_weights, 0)
        if not are_indices(self.indices, n_indices) or not (self.indices[1:] > self.indices[:-1]).all():
            raise ValueError(f"indices must be int64, ascend, and lie from 0 to {n_indices - 1}")
        if of_pairs and n_dense < self.shape[1]:
            raise ValueError(f"there are {n_dense} dense weights for {self.shape[1]} intercepts")
        if of_pairs and self.pairs.keys() != self.dense.keys():
            raise ValueError(f"pairs have the slots {list(self.pairs)}, dense weights {list(self.dense)}")
        for slots, n in ((self.dense, n_dense), (self.pairs, len(self.indices))):
            for name, values in slots.items():
                if not isinstance(values, np.ndarray) or values.shape != (n,) or values.dtype != dtype:
                    raise ValueError(f"the slot {name!r} must hold {n} numbers of {dtype}")
        self._check_counters()
        recency = self.recency
        if recency is not None and (
            not isinstance(recency, np.ndarray)
            or recency.dtype != np.float64
            or recency.shape != (N_RECENCY,)
            or not (np.isfinite(recency).all() and (recency >= 0.0).all() and recency[UNIT] >= 1.0)
        ):
            raise ValueError(f"recency must be {N_RECENCY} finite numbers that are not negative; got {recency!r}")

    def _check_counters(self):
        for name, number in self.counters.items():
            if not isinstance(number, Integral) or number < 0:
                raise ValueError(f"the counter {name!r} is {number!r}; it must be an int that is not negative")

    @property
    def n_steps(self) -> int:
        """Number of steps in the sums."""
        return self.counters["n_steps"]

    @property
    def _length(self):
        """Number of steps as which the sums count, and the factor of the sums: weights of steps add up to it."""
        if self.recency is None:
            return float(self.n_steps), 1.0
        clock, window = self.recency[0], self.recency[LENGTH]
        return window, window / clock if clock > 0.0 else 1.0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the weights."""
        return self.dense["weights"].dtype

    @property
    def _continued(self):
        """Names of the counters that workers continue from the common start, instead of counting from 0.

        These are the number of samples since the last penalty or shrinkage, because the next one is due after a fixed
        number, and Adam's number of steps, which determines the correction of the moments.
        """
        return ("n_since", "n_steps") if self.optimizer == "adam" else ("n_since",)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = [self.indices, *self.dense.values(), *self.pairs.values()]
        return sum(array.nbytes for array in arrays)

    def coef(self, slot: str = "weights") -> Any:
        """Return a slot of the pairs as a CSR array of shape (n_features, n_outputs).

        Parameters
        ----------
        slot : str, default="weights"
            A key of `pairs`.

        Returns
        -------
        values : sparse.csr_array
            Pairs whose value is zero are stored, too.

        Raises
        ------
        ValueError
            If there is no such slot.
        """
        if slot not in self.pairs:
            raise ValueError(f"there is no slot {slot!r}; this state has {', '.join(map(repr, self.pairs)) or 'none'}")
        return sparse.csr_array(matrix_of(self, slot))

    def without_history(self) -> TrainingState:
        """Return the state with sums and counters of zero, from which each of several workers should start.

        The states of the workers then contain the sums and counts of their own steps only; see `average_states`.

        Returns
        -------
        state : TrainingState
            It has no copies of the other arrays.
        """
        found = copy(self)
        found.counters = {name: n * (name in self._continued) for name, n in self.counters.items()}
        for name in ("dense", "pairs"):
            slots = getattr(self, name)
            setattr(found, name, slots | {"sums": np.zeros_like(slots["sums"])} if "sums" in slots else slots)
        if self.recency is not None:
            found.recency = NEW_RECENCY.copy()
            found.recency[UNIT] = self.recency[UNIT]
        if self.groups is not None:
            found.groups = self.groups | {"curve": np.zeros((0, 2), np.int64)}
        return found

    def __repr__(self):
        return f"TrainingState(optimizer={self.optimizer!r}, n_steps={self.n_steps}, n_pairs={len(self.indices)})"


def matrix_of(state, slot="weights"):
    """Return a slot of the pairs of a `TrainingState` as `sparse_weights` does."""
    features, outputs = np.divmod(state.indices, state.shape[1])
    parts = features.astype(np.int32), outputs.astype(np.int32), state.pairs[slot].copy()
    return sparse_weights(*parts, state.shape)
