"""Samples of one factor graph and their solutions, as the arguments of the loops over samples.

Used by `_graphs/tables`, `inference`, `losses`, `batch.py`, `faces.py`, `projection.py` and `small.py`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from .._core.jit import FLOATS_2D, FLOATS_2D_OUT, kernel, readonly

# Columns of the statistics of a batch. Results (`inference/_results`) and `jacobian.py` unpack them in this order.
OBJECTIVE, GAP, RESIDUAL, N_ITER, STATUS = range(5)


class SampleArrays(NamedTuple):
    """Samples of one graph, one row each, read-only."""

    scores: np.ndarray  # FORBIDDEN in place of -inf
    additional: np.ndarray  # a single row is for all samples
    warm: np.ndarray  # multipliers, or dual variables of the links, to start from; may have no rows
    scales: np.ndarray  # see `scales_of`; may have no rows

    def take(self, rows):
        """Return some of the samples."""
        return SampleArrays(readonly(self.scores[rows]), *(readonly(a[rows]) if len(a) > 1 else a for a in self[1:]))


class GraphSolutions(NamedTuple):
    """Solutions of samples of one graph, one row each.

    If the graph has pairs only, joint, multipliers and links may have no columns; then they are not written. The result
    of a sample (`inference/_results/graph.py`) unpacks the fields in this order.
    """

    marginals: np.ndarray  # of the variables
    joint: np.ndarray  # marginals of the additional scores
    multipliers: np.ndarray  # of rows and pairs
    links: np.ndarray  # dual variables of the links
    statistics: np.ndarray  # see the columns above

    @property
    def objective(self):
        return self.statistics[:, OBJECTIVE]

    @property
    def gap(self):
        return self.statistics[:, GAP]

    def take(self, rows):
        """Return the solutions of some samples."""
        return GraphSolutions(*(array[rows] for array in self))

    def put(self, rows, others):
        """Write the solutions of some samples; arrays without columns are not kept."""
        for array, new in zip(self, others):
            array[rows] = new[:, : array.shape[1]]


SAMPLES = types.NamedUniTuple(FLOATS_2D, 4, SampleArrays)
SOLUTIONS = types.NamedUniTuple(FLOATS_2D_OUT, 5, GraphSolutions)


@kernel
def row_of(rows, i):
    """Return row `i` of `rows`, its only row if it has one for all samples, or an empty array if it has none."""
    return rows[min(i, rows.shape[0] - 1)] if rows.shape[0] > 0 else np.empty(0)


@kernel
def scales_of(samples, i):
    """Return three numbers of sample `i`.

    Returns
    -------
    scale : float
        Factor of the additional scores.
    goal : float
        The `goal` of `next_step` for the linear relaxation; 0 for LP-SparseMAP.
    reference : float
        It is subtracted from the objective before the gap is divided by it.
    """
    if samples.scales.shape[0] == 0:
        return 1.0, 0.0, 0.0
    return samples.scales[i, 0], samples.scales[i, 1], samples.scales[i, 2]


@kernel
def additional_of(samples, i):
    """Return the additional scores of sample `i`, scaled: a copy."""
    additional = row_of(samples.additional, i).copy()
    (scale, _, _) = scales_of(samples, i)
    if scale != 1.0:
        for k in range(additional.shape[0]):
            additional[k] = scale * additional[k] if additional[k] > -np.inf else -np.inf
    return additional
