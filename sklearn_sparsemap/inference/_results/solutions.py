"""Solutions of SparseMAP problems of one structure as arrays: the common part of a result and a batch.

Used by `structure.py` and `structure_batch.py`.
"""

from functools import cached_property
from typing import Any

import numpy as np

from ..._core.annotations import NDArray
from ..._core.jit import readonly
from ..._core.offsets import offsets, ragged_indices
from ..._core.threads import over_ranges
from ..._numerics.backward import Products
from ..._numerics.facet_loops import Facets, facet_products_range
from ..._numerics.loops import N_ADDITIONAL, N_SLOTS, N_WEIGHTS, OBJECTIVE, STATUS, take_problems
from ..._numerics.solver import BY_FACETS
from .products import (
    NEGLIGIBLE,
    make_directions,
    make_supports,
    multiply,
    multiply_on_faces,
    multiply_weights,
)

# Number of structures of a sample above which a closed form of the face is used. Products by structures are as fast up
# to it, and take time in the cube of the number.
_MANY = 64


class SparseMAPSolutions:
    """Solutions of SparseMAP problems as arrays, and products with their Jacobians.

    Subclasses (`structure.py`, `structure_batch.py`) define `_supports`, read the attributes that the constructor sets,
    `_ptr`, `_extra_ptr` and `_by_facets`, and call `_structures_of` and `knows_face`.

    Parameters
    ----------
    batch : StructureBatch
    solution : tuple
        The result of `argmax_problems`.
    tol : float
    n_jobs : int, default=None
        Number of threads for products.
    max_iter : int, default=None
        Maximum number of oracle calls for the structures of a sample that was solved by facets.
    per_sample : set of str, default=()
        Names of additional scores that differ between samples.
    """

    def __init__(self, batch, solution, tol, n_jobs=None, max_iter=None, per_sample=()):
        self._batch, self._tol, self._n_jobs = batch, tol, n_jobs
        self._max_iter, self._per_sample = max_iter, per_sample
        self._flat, self._statistics, (self._slots, self._additional_slots, self._weights) = solution
        if batch.mask_offsets is not None:
            batch.restore(self._statistics[:, OBJECTIVE], self._flat, self.additional_flat)

    def _supports(self, chosen):
        """Return slots, additional slots and weights of the structures of each of the chosen samples."""
        raise NotImplementedError

    @cached_property
    def _ptr(self):
        """The beginnings of the samples' solutions in the pools of weights, slots and additional slots."""
        return [offsets(self._statistics[:, c]) for c in (N_WEIGHTS, N_SLOTS, N_ADDITIONAL)]

    @cached_property
    def _by_facets(self):
        """Which samples were solved by facets."""
        return self._statistics[:, STATUS] == BY_FACETS

    def _structures_of(self, chosen):
        """Return slots, additional slots and weights of the structures of some samples, and the numbers of structures.

        Structures of samples that were solved by facets are computed here.
        """
        if len(chosen) == len(self._statistics) and not self._by_facets.any():
            return self._slots, self._additional_slots, self._weights, np.diff(self._ptr[0])
        supports = self._supports(chosen)
        pools = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*supports))
        return (*pools, np.array([len(weights) for _, _, weights in supports]))

    @cached_property
    def _extra_ptr(self):
        problems = self._batch.problems
        return offsets(problems.additional_stop - problems.additional_start)

    def weight_products(self, flat: Any) -> Any:
        """Do the same as `weights_vjp` for a flat array with an entry for each structure, sample by sample.

        Layers call it, too.
        """
        problems = self._batch.problems
        slots, additional, weights, n_structures = self._structures_of(np.arange(len(self._statistics)))
        selected, counts = most_probable_first(weights, n_structures)
        slots, additional = (
            # The rows of the selected structures in the pool.
            _take_rows(pool, offsets(n_structures * widths), offsets(n_structures), widths, selected)
            for pool, widths in ((slots, problems.sizes[:, 0]), (additional, problems.sizes[:, 1]))
        )
        supports = make_supports(slots, additional, counts, problems.sizes)
        products, dependent = multiply_weights(problems, supports, flat, self._extra_ptr, self._n_jobs)
        if dependent.any():
            which = f"sample {int(np.argmax(dependent))}: " if len(self._statistics) > 1 else ""
            raise ValueError(
                f"{which}the weights have no derivative: the structures of the support are affinely dependent, so "
                "other weights give the same marginals; use solver='active_set'"
            )
        return products

    @cached_property
    def additional_flat(self) -> NDArray[np.float64]:
        """Additional marginals of all samples, flat, one sample after the other."""
        n_extra, slots = self._extra_ptr[-1], self._additional_slots
        if n_extra == 0:
            return np.zeros(0)
        of_sample = np.repeat(np.arange(len(self._statistics)), np.diff(self._ptr[2]))
        # Each facet with additional slots has exactly one.
        n_rows = np.maximum(np.diff(self._ptr[0]), 1)
        widths = np.where(self._by_facets, 1, np.diff(self._ptr[2]) // n_rows)[of_sample]
        rows = (np.arange(len(slots)) - self._ptr[2][of_sample]) // widths
        weights = self._weights[self._ptr[0][of_sample] + rows]
        used = slots >= 0
        counts = np.bincount((self._extra_ptr[of_sample] + slots)[used], weights[used], minlength=n_extra)
        # Without any slots, NumPy returns ints.
        return counts.astype(np.float64, copy=False)

    # Results use the defaults; layers (`_layers/structures.py`) set both options.
    def products(self, unary: Any, extra: Any, *, ties_by_facets: bool = False, complete: bool = True) -> Any:
        """Multiply a direction of all scores with the Jacobians of the marginals and the additional marginals.

        The Jacobian over scores and additional scores is symmetric, so this is both `vjp` and `jvp`.

        Parameters
        ----------
        unary, extra : float64 arrays
            Directions of the scores and of the additional scores, flat, one sample after the other.
        ties_by_facets : bool, default=False
            Whether to use the facets of samples with ties, too, if they were solved by facets. The result is one of the
            one-sided derivatives at the kink. This is faster.
        complete : bool, default=True
            Whether to complete supports so that they span a face. Otherwise, the derivative is that of mixtures of the
            structures in the support.

        Returns
        -------
        unary, extra : arrays
        """
        directions = make_directions(unary, extra, self._extra_ptr)
        marginals = readonly(self._flat)
        out = Products(np.empty(len(unary)), np.empty(len(extra)))
        problems = self._batch.problems
        by_structures = np.ones(len(self._statistics), bool)
        if self._by_facets.any():
            usable = self._by_facets & (ties_by_facets | self._without_ties())
            by_structures = ~usable
            weight_ptr, slot_ptr, additional_ptr = (readonly(ptr, np.int64) for ptr in self._ptr)
            slots = readonly(self._slots, np.int32)
            additional = readonly(self._additional_slots, np.int32)
            weights = readonly(self._weights)
            usable = readonly(usable, np.int64)
            facets = Facets(slots, slot_ptr, additional, additional_ptr, weights, weight_ptr, usable)
            products = self._batch.structure.polytope_solver.products
            over_ranges(
                lambda start, stop: facet_products_range(
                    products, problems, start, stop, facets, marginals, directions, out
                ),
                np.diff(problems.score_ptr),
                self._n_jobs,
            )
        if by_structures.all():
            return self._products_by_structures(
                np.arange(len(self._statistics)), problems, marginals, directions, complete
            )
        if by_structures.any():
            chosen = np.flatnonzero(by_structures)
            ptrs = problems.score_ptr, self._extra_ptr
            places = [ragged_indices(ptr[:-1][chosen], np.diff(ptr)[chosen]) for ptr in ptrs]
            some = make_directions(
                *(values[place] for values, place in zip(directions[:2], places)),
                offsets(np.diff(self._extra_ptr)[chosen]),
            )
            some_problems = take_problems(problems, chosen)
            own = readonly(marginals[places[0]])
            out.unary[places[0]], out.extra[places[1]] = self._products_by_structures(
                chosen, some_problems, own, some, complete
            )
        return out

    def _without_ties(self):
        """Return which of the samples that were solved by facets have no ties: their last weight is zero."""
        return self._weights[self._ptr[0][1:] - 1] == 0.0

    def knows_face(self) -> bool:
        """Return whether the face of solutions of many structures is known in closed form."""
        own = self._batch.structure.polytope_solver
        return own is not None and own.of_many is not None and bool(np.diff(self._ptr[0]).max() > _MANY)

    def _products_by_structures(self, chosen, problems, marginals, directions, complete):
        """Return the products of some samples, computed from structures."""
        if self.knows_face():
            centred = self._batch.structure.polytope_solver.of_many(problems, marginals, directions.unary)
            return Products(centred, np.zeros(len(directions.extra)))
        slots, additional, _, counts = self._structures_of(chosen)
        supports = make_supports(slots, additional, counts, problems.sizes)
        if complete:
            oracle = self._batch.structure.oracle
            return multiply_on_faces(oracle, problems, supports, marginals, directions, self._n_jobs)
        return multiply(problems, supports, directions, self._n_jobs)


def most_probable_first(weights, counts):
    """Return the rows of structures with positive weight, most probable first in each sample, and their numbers."""
    of_sample = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((-weights, of_sample))
    order = order[weights[order] > NEGLIGIBLE]
    return order, np.bincount(of_sample[order], minlength=len(counts))


def _take_rows(pool, ptr, first, widths, rows):
    """Return some rows of a pool. The rows of sample i have ``widths[i]`` entries."""
    of_sample = np.searchsorted(first, rows, side="right") - 1
    width = widths[of_sample]
    return pool[ragged_indices(ptr[of_sample] + (rows - first[of_sample]) * width, width)]
