"""Operators: SparseMAP of padded batches, as functions of arrays that know all else; and their register.

An operator takes arrays only, so that a traced programme can hold it by a number. All its arrays have an axis of
samples first: scores (n_samples, *shape), additional scores (n_samples, n_additional), joined in the order of
`Operator.extra`, or (1, n_additional) where all samples share them; lengths (n_samples, n_lengths), where n_lengths is
0 for batches without padding. The Jacobian over scores and additional scores together is symmetric.
"""

import threading
import warnings
from collections import OrderedDict
from itertools import count
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.validation import LARGEST_SCORE, bound_masks
from .padding import flat_size

# So many operators are held, the last that were used. Who needs one for longer holds it, as modules do.
_MOST = 1024


class Operator:
    """SparseMAP of padded batches of one kind of problem.

    Parameters
    ----------
    extra : tuple of (name, shape)
        The padded additional scores of a sample, in the order in which they are joined; a name may be a tuple.

    Attributes
    ----------
    handle : int
        By which `operator` finds it.
    n_additional : int
    """

    def __init__(self, extra):
        self.extra = extra
        self.n_additional = flat_size(shape for _, shape in extra)
        self.handle = -1

    def solve(self, scores, additional, lengths):
        """Solve a batch: an object with `marginals`, `additional`, `values` (n_samples,), ``products(unary, extra)``.

        Raises
        ------
        ValueError
            If scores are NaN or infinite, lengths out of range, or a sample is infeasible.
        """
        if not len(scores):
            return _NoSamples(scores, np.zeros((0, self.n_additional)), np.zeros(0))
        return self._solve(scores, additional, lengths)

    def _solve(self, scores, additional, lengths):
        """Solve a batch of at least one sample; see `solve`."""
        raise NotImplementedError


class _NoSamples(NamedTuple):
    """The solution of an empty batch; see `SolvedStructures`."""

    marginals: np.ndarray
    additional: np.ndarray
    values: np.ndarray
    batch: tuple = ()

    def products(self, unary, extra):
        return unary, extra

    def weight_products(self, flat):
        return self.marginals, self.additional


_lock, _numbers = threading.Lock(), count()
_by_handle, _recent = WeakValueDictionary(), OrderedDict()


def register(key, make):
    """Return the operator with this key; made, if there is none."""
    with _lock:
        if key in _recent:
            _recent.move_to_end(key)
            return _recent[key]
        operator = make()
        operator.handle = next(_numbers)
        _by_handle[operator.handle] = _recent[key] = operator
        while len(_recent) > _MOST:
            _recent.popitem(last=False)
        return operator


def operator(handle):
    """Return the operator with this number."""
    try:
        return _by_handle[handle]
    except KeyError:
        raise RuntimeError(
            f"the SparseMAP operator {handle} of a compiled or exported programme does not exist in this process; "
            "compile it again, or hold the module in which it was made"
        ) from None


def warn_if_inexact(converged):
    """Issue a ConvergenceWarning unless all samples of a batch converged."""
    if not converged.all():
        warnings.warn(
            f"SparseMAP did not converge for {np.count_nonzero(~converged)} of {len(converged)} samples; their marginals "
            "and gradients are approximate. Divide the scores by a number, or raise tol",
            ConvergenceWarning,
            stacklevel=2,
        )


def check_values(values, sizes, what):
    """Return scores with bounded masks; raise ValueError for NaN and +inf.

    `values` are flat, with `sizes[i]` of sample i, or of all samples for None.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.abs(values).sum() < LARGEST_SCORE:
            return values
    bad = ~(values < LARGEST_SCORE)
    if bad.any():
        place = int(np.argmax(bad))
        which = "" if sizes is None else f"[{int(np.searchsorted(np.cumsum(sizes), place, side='right'))}]"
        raise ValueError(
            f"{what}{which} contains {values[place]}; scores must be finite and below {LARGEST_SCORE:g}, or -inf to "
            "forbid a part"
        )
    return bound_masks(values)
