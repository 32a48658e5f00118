"""Products of directions with the Jacobians of many solutions, by structures that span the faces of the solutions.

Used by `solutions.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import readonly
from ..._core.offsets import offsets
from ..._core.threads import over_ranges
from ..._numerics.backward import (
    Directions,
    Products,
    Supports,
    marginal_products_range,
    support_products_range,
    weight_products_range,
)

NEGLIGIBLE = 1e-12  # structures with smaller weights are rounding errors, and are left out


def make_supports(slots, additional_slots, counts, sizes):
    """Return structures in the form that kernels take; ``counts[i]`` is the number of structures of problem i."""
    ptr = [offsets(counts * n) for n in (sizes[:, 0], sizes[:, 1], 1)]
    slot_ptr, additional_ptr, first = (readonly(p, np.int64) for p in ptr)
    return Supports(
        readonly(slots.ravel(), np.int32), slot_ptr, readonly(additional_slots.ravel(), np.int32), additional_ptr, first
    )


def make_directions(unary, extra, extra_ptr):
    """Return directions of the scores and of the additional scores in the form that kernels take."""
    return Directions(readonly(unary), readonly(extra), readonly(extra_ptr, np.int64))


def multiply(problems, supports, directions, n_jobs=None):
    """Multiply directions with the Jacobians of mixtures of given structures; return `Products`."""
    out = Products(np.empty(len(directions.unary)), np.empty(len(directions.extra)))
    over_ranges(
        lambda start, stop: support_products_range(problems, start, stop, supports, directions, out),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    return out


def multiply_on_faces(oracle, problems, supports, marginals, directions, n_jobs=None):
    """Multiply directions with the Jacobians of solutions, after completing the structures so that they span the faces.

    Parameters
    ----------
    oracle : compiled function
    problems : Problems
    supports : Supports
        Structures of the solutions.
    marginals : array
        Marginals of the solutions, flat.
    directions : Directions
    n_jobs : int, default=None

    Returns
    -------
    products : Products
    """
    out = Products(np.empty(len(directions.unary)), np.empty(len(directions.extra)))
    over_ranges(
        lambda start, stop: marginal_products_range(
            oracle, problems, start, stop, supports, marginals, directions, out
        ),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    return out


def multiply_weights(problems, supports, upstream, extra_ptr, n_jobs=None):
    """Multiply arrays over the given structures with the Jacobians of their weights.

    Returns
    -------
    products : Products
    dependent : int array of shape (n_problems,)
        1 if the structures are affinely dependent, so that there is no Jacobian, else 0.
    """
    n = len(problems.sizes)
    out = Products(np.empty(len(problems.scores)), np.empty(extra_ptr[-1]))
    dependent = np.zeros(n, np.int64)
    upstream = readonly(upstream)
    extra_ptr = readonly(extra_ptr, np.int64)
    over_ranges(
        lambda start, stop: weight_products_range(
            problems, start, stop, supports, upstream, extra_ptr, *out, dependent
        ),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    return out, dependent
