"""Pool: a choice among some known solutions.

Used by `estimators`.
"""

import numpy as np

from .._core.jit import as_oracle
from ._base import Structure, as_parts


@as_oracle
def best_of_pool(scores, additional, dims, work, slots, additional_slots):
    """Find the best solution; `dims` holds the number of parts, that of solutions, where each begins, and the parts."""
    n_solutions = dims[1]
    begins, parts = dims[2 : 3 + n_solutions], dims[3 + n_solutions :]
    best = -np.inf
    found = np.int64(-1)
    for k in range(n_solutions):
        total = 0.0
        for p in range(begins[k], begins[k + 1]):
            total += scores[parts[p]]
        if total > best:
            best, found = total, k
    slots[:] = -1
    if found >= 0:
        for p in range(begins[found], begins[found + 1]):
            slots[parts[p]] = parts[p]
    return best


class Pool(Structure):
    """One of the given solutions, bool arrays of shape (n_parts,).

    Parameters
    ----------
    solutions : bool array of shape (n_solutions, n_parts)
    """

    oracle = best_of_pool
    strict_encode = True

    def __init__(self, solutions):
        self.solutions = solutions
        rows, parts = np.nonzero(solutions)
        begins = np.searchsorted(rows, np.arange(len(solutions) + 1))
        self._dims = (solutions.shape[1], len(solutions), *begins.tolist(), *parts.tolist())

    def dims(self, shape, given):
        if shape[0] != self._dims[0]:
            raise ValueError(f"these solutions have {self._dims[0]} parts, but there are {shape[0]} scores")
        return self._dims

    def sizes(self, dims):
        return int(dims[0]), 0, 0

    def encode(self, structure, dims):
        if not (self.solutions == structure).all(axis=1).any():
            raise ValueError(f"this is none of the {len(self.solutions)} solutions: {structure!r}")
        return as_parts(np.where(structure, np.arange(len(structure)), -1)), as_parts([])

    def decode(self, slots, dims):
        return slots >= 0

    def example_shapes(self):
        return ((self._dims[0],),)
