"""Operators: SparseMAP of padded batches as functions of arrays, and their register.

An operator takes arrays only, so that a traced program can refer to it by a number. All its arrays have an axis of
samples first: scores (n_samples, *shape); additional scores (n_samples, n_additional), joined in the order of
`Operator.extra`, or (1, n_additional) if all samples share them; lengths (n_samples, n_lengths), where n_lengths is 0
for batches without padding. The Jacobian over scores and additional scores together is symmetric.
"""

import threading
import warnings
from collections import OrderedDict
from itertools import count
from weakref import WeakValueDictionary

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.shapes import size_of
from .._core.validation import LARGEST_SCORE, bound_masks

# Number of operators that are kept, the most recently used. Code that needs one for longer keeps a reference, as
# modules do.
_MOST = 1024


class Operator:
    """SparseMAP, or another regularised argmax, of padded batches of one kind of problem.

    Parameters
    ----------
    extra : tuple of (name, shape)
        The padded additional scores of a sample, in the order in which they are joined; a name may be a tuple.
    options : (argmax, tol, max_iter, n_jobs)

    Attributes
    ----------
    handle : int
        The number with which `operator` looks it up.
    n_additional : int
    """

    def __init__(self, extra, options):
        self.extra = extra
        self.argmax, self.tol, self.max_iter, self.n_jobs = options
        self.n_additional = size_of(dict(extra))
        self.handle = -1

    def solve(self, scores, additional, lengths):
        """Solve a batch of at least one sample.

        Returns
        -------
        solved : object
            Has `marginals`, `additional`, `values` (n_samples,) and ``products(unary, extra)``.

        Raises
        ------
        ValueError
            If scores are NaN or infinite, lengths out of range, or a sample is infeasible.
        """
        raise NotImplementedError


_lock, _numbers = threading.Lock(), count()
_by_handle, _recent = WeakValueDictionary(), OrderedDict()


def register(key, make):
    """Return the operator with this key; make it if necessary."""
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
            f"the SparseMAP operator {handle} of a compiled or exported program does not exist in this process; "
            "compile it again, or hold the module in which it was made"
        ) from None


def products_of_other(argmax, unary, extra):
    """Multiply directions with the Jacobian of the regularised argmax ``"map"`` or ``"gibbs"``."""
    if argmax == "gibbs":
        raise NotImplementedError("crf losses have a gradient here, but no second derivative and no forward mode")
    # MAP is piecewise constant.
    return np.zeros_like(unary), np.zeros_like(extra)


def warn_if_inexact(converged):
    """Issue a ConvergenceWarning unless all samples of a batch converged."""
    if not converged.all():
        warnings.warn(
            f"SparseMAP did not converge for {np.count_nonzero(~converged)} of {len(converged)} samples; their "
            "marginals and gradients are approximate. Divide the scores by a number, or raise tol",
            ConvergenceWarning,
            stacklevel=2,
        )


def check_values(values, sizes, what):
    """Return scores with bounded masks; raise ValueError for NaN and +inf.

    `values` are flat, with `sizes[i]` entries of sample i, or of all samples together for None.
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
