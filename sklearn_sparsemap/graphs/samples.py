"""Samples of a factor graph and their solutions, as the loops over many of them take them."""

from typing import NamedTuple

import numpy as np
from numba import types

from .._core.jit import FLOATS_2D, FLOATS_2D_OUT, kernel

# Columns of the statistics of a batch.
OBJECTIVE, GAP, RESIDUAL, N_ITER, STATUS = range(5)


class GraphSamples(NamedTuple):
    """Samples of one graph, one row each, read-only."""

    scores: np.ndarray  # with FORBIDDEN in place of -inf
    additional: np.ndarray  # a single row is that of all samples
    warm: np.ndarray  # multipliers or link variables to start from; nothing: from nothing
    scales: np.ndarray  # factors of the additional scores, goals, references; no row: none


class GraphSolutions(NamedTuple):
    """What is found for samples of one graph, one row each.

    Where the graph has nothing but pairs, there need be no columns for joint, multipliers and links: nothing is then
    written that is as long as there are pairs.
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
        """Write the solutions of some samples."""
        for array, new in zip(self, others):
            array[rows] = new


SAMPLES = types.NamedUniTuple(FLOATS_2D, 4, GraphSamples)
SOLUTIONS = types.NamedUniTuple(FLOATS_2D_OUT, 5, GraphSolutions)


@kernel
def row_of(rows, i):
    """Return row `i` of rows of which there may be one for all, or none: then nothing."""
    return rows[min(i, rows.shape[0] - 1)] if rows.shape[0] > 0 else np.empty(0)


@kernel
def scale_of(samples, i):
    """Return the factor of the additional scores of sample `i`."""
    return samples.scales[i, 0] if samples.scales.shape[0] > 0 else 1.0


@kernel
def goal_of(samples, i):
    """Return how exactly the linear relaxation of sample `i` is to be solved (see `next_step`); 0 is not at all."""
    return samples.scales[i, 1] if samples.scales.shape[0] > 0 else 0.0


@kernel
def reference_of(samples, i):
    """Return the value above which the objective of sample `i` is what the gap is relative to."""
    return samples.scales[i, 2] if samples.scales.shape[0] > 0 else 0.0


@kernel
def additional_of(samples, i):
    """Return the additional scores of sample `i`."""
    additional, scale = row_of(samples.additional, i).copy(), scale_of(samples, i)
    if scale != 1.0:
        for k in range(additional.shape[0]):
            additional[k] = scale * additional[k] if additional[k] > -np.inf else -np.inf
    return additional
