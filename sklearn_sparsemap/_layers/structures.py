"""The operator of a structure."""

from functools import cached_property, lru_cache, partial
from math import prod
from typing import NamedTuple

import numpy as np

from ..inference._batch import argmax_problems
from ..inference._problems import ProblemShape, StructureBatch, problems_of
from ..inference._results import SparseMAPBatch
from ..numerics.polytope_solver import always
from .independent import IndependentSteps, has_constant_transitions
from .operators import Operator, check_values, products_of_map_or_gibbs, warn_if_inexact, without_padding
from .padding import Places, block_mask, check_lengths, kinds_of, shapes_within
from .samples import place_of

_FEW_PARTS = 30_000


def bounds_of_structure(structure, padded, n_lengths):
    """Return how lengths bound the axes of a sample's scores; see `shapes_within`."""
    if n_lengths and structure.extra_rows:
        return (0, structure.extra_rows), (0, 0)
    return tuple((column, 0) for column in range(min(n_lengths, len(padded))))


class PaddedStructure(NamedTuple):
    """Samples with equal shapes in padded arrays of one shape: masks of their entries."""

    entries: np.ndarray
    extra_entries: np.ndarray
    problem_shape: ProblemShape
    fixed_size: bool


class StructureOperator(Operator):
    """SparseMAP over a structure, or another regularised argmax.

    Parameters
    ----------
    structure : Structure
    extra : tuple of (name, shape)
        Padded additional scores, in the structure's order.
    options : (argmax, tol, max_iter, n_jobs)
        `argmax` is as in `argmax_problems`. A `max_iter` of None is exact. Otherwise it is the maximum number of oracle
        calls; the derivative is then that of mixtures of the structures found so far.
    """

    def __init__(self, structure, extra, options):
        super().__init__(structure, extra, options)
        self.kind_of, self._full_layout = lru_cache(4096)(self._make_kind), lru_cache(16)(self._make_layout)

    def _make_kind(self, padded, shape):
        accepted = self.structure.additional_shapes(shape)
        given, masks = {}, [np.zeros(0, bool)]
        for name, full in self.extra:
            alike = [own for own in accepted[name] if len(own) == len(full)]
            given[name] = full if full in alike else alike[0]
            masks.append(block_mask(full, given[name]))
        problem_shape = ProblemShape(shape, given, *self.structure.layout(shape, given))
        entries, extra_entries = block_mask(padded, shape), np.concatenate(masks)
        return PaddedStructure(entries, extra_entries, problem_shape, self.structure.fixed_size)

    def shapes_of(self, padded, lengths):
        """Return the shape of the scores of each sample: int array of shape (n_samples, score_ndim)."""
        if lengths.shape[1]:
            what, accepted = self.structure.counted_lengths()
            check_lengths(lengths, padded[1:] if self.structure.extra_rows else padded, accepted, what)
        return shapes_within(padded, lengths, bounds_of_structure(self.structure, padded, lengths.shape[1]))

    def pack(self, scores, additional, lengths):
        """Return the batch laid out for the kernels: `PaddedProblems`."""
        n_samples, padded = len(scores), scores.shape[1:]
        # Additional scores that all samples share are copied once for each kind of sample.
        is_shared = len(additional) == 1
        if lengths.shape[1]:
            layout = self._make_layout(padded, n_samples, is_shared, lengths)
        else:
            layout = self._full_layout(padded, n_samples, is_shared)
        flat = layout.places.take(scores.reshape(n_samples, -1))
        flat = check_values(flat, layout.places.sizes, "scores")
        if is_shared:
            joined = np.concatenate([additional[0][mask] for mask in layout.extra_places.masks])
        else:
            joined = layout.extra_places.take(additional)
        joined = check_values(joined, None if is_shared else layout.extra_places.sizes, "additional")
        return layout.with_scores(flat, joined)

    def kinds_within(self, padded, lengths):
        """Return the kinds of samples as a list, the kind of each sample, and the shape of each kind."""
        shapes, kind = kinds_of(self.shapes_of(padded, lengths))
        kinds = []
        for k, shape in enumerate(shapes):
            try:
                kinds.append(self.kind_of(padded, shape))
            except ValueError as error:
                raise ValueError(f"scores[{int(np.argmax(kind == k))}]: {error}") from error
        return kinds, kind, shapes

    def _make_layout(self, padded, n_samples, is_shared, lengths=None):
        """Return `PaddedProblems` without scores."""
        if lengths is None:
            lengths = np.zeros((n_samples, 0), np.int64)
        kinds, kind, _ = self.kinds_within(padded, lengths)
        layout = PaddedProblems(self.structure, kinds, kind)
        stop = np.cumsum(layout.extra_places.sizes)
        if is_shared:
            stop = np.cumsum([mask.sum() for mask in layout.extra_places.masks])[kind]
        layout.problems = problems_of(layout.problem_shapes, kind, np.zeros(0), np.zeros(0), stop)
        return layout

    @cached_property
    def _uncoupled(self):
        """The operator without the first additional scores."""
        return StructureOperator(self.structure, self.extra[1:], (self.argmax, self.tol, None, self.n_jobs))

    def encode(self, kind, gold, shape, parts, additional):
        gold = without_padding(gold, shape[1:2] if self.structure.extra_rows else shape[:1])
        encoded = self.structure.encode(gold, np.array(kind.problem_shape.dims, np.int64))
        for counts, entries, slots in zip((parts, additional), (kind.entries, kind.extra_entries), encoded):
            np.add.at(counts, np.flatnonzero(entries)[slots[slots >= 0]], 1.0)

    def check_decisions(self, flat, samples, padded, rows, lead):
        # Decisions of a `CustomStructure` are not compared with its oracle.
        if not len(samples) or not self.structure.strict_encode:
            return
        is_structure = self._check_counts if self.structure.repeats else self._check_sets
        found = is_structure(flat.reshape(-1, *padded)[samples], rows[samples])
        if not found.all():
            i = samples[np.argmin(found)]
            parts = np.repeat(np.arange(flat.shape[1]), flat[i].astype(int)).tolist()
            raise ValueError(f"decisions{place_of(i, lead)}: {self.structure!r} has no structure {parts}")

    @cached_property
    def _map(self):
        """The operator of MAP inference without additional scores."""
        return StructureOperator(self.structure, (), ("map", self.tol, None, self.n_jobs))

    def _check_sets(self, decisions, rows):
        """Tell which decisions are structures: those that are optimal if the score is 1 for their parts, else -1."""
        found = self._map.solve(2.0 * decisions - 1.0, np.zeros((1, 0)), rows[:, 1:])
        return found.values > decisions.reshape(len(rows), -1).sum(axis=1) - 0.5

    def _check_counts(self, decisions, rows):
        """Tell which decisions are structures, if parts repeat."""
        structure, padded, found = self.structure, decisions.shape[1:], np.zeros(len(rows), bool)
        shapes, kinds = kinds_of(self.shapes_of(padded, rows[:, 1:]))
        for i, k in enumerate(kinds):
            kind = self.kind_of(padded, shapes[k])
            own, dims = decisions[i].ravel()[kind.entries].astype(int), np.array(kind.problem_shape.dims, np.int64)
            slots = np.repeat(np.arange(len(own)), own)
            found[i] = len(slots) == structure.sizes(dims)[0] and np.array_equal(
                structure.encode(structure.decode(slots, dims), dims)[0], slots
            )
        return found

    def solve(self, scores, additional, lengths):
        is_sparse, coupled_by = self.argmax == "sparsemap", self.structure.coupled_by
        if is_sparse and coupled_by is not None and has_constant_transitions(self, additional):
            shape = self.extra[0][1]
            solved = self._uncoupled.solve(scores, additional[:, prod(shape) :], lengths)
            again = partial(SolvedStructures, self, scores, additional, lengths)
            return IndependentSteps(solved, shape, additional, again)
        return SolvedStructures(self, scores, additional, lengths)


class PaddedProblems(StructureBatch):
    """A padded batch laid out for the kernels, and the positions of its entries in the padded arrays."""

    def __init__(self, structure, kinds, kind):
        super().__init__(structure, None, [k.problem_shape for k in kinds], kind)
        self.places = Places([k.entries for k in kinds], kind)
        self.extra_places = Places([k.extra_entries for k in kinds], kind)


class SolvedStructures:
    """Solutions of a padded batch, with the data for their derivatives.

    Parameters
    ----------
    operator : StructureOperator
        Its `max_iter`, if given, is the maximum number of oracle calls.
    scores, additional, lengths : arrays
        As in `Operator.solve`.

    Attributes
    ----------
    marginals : array, like the padded scores
    additional : array of shape (n_samples, n_additional)
        Additional marginals.
    values : array of shape (n_samples,)
        The objective.
    """

    def __init__(self, operator, scores, additional, lengths):
        structure, padded, options = operator.structure, operator.pack(scores, additional, lengths), {}
        self._argmax = operator.argmax
        self._capped = operator.max_iter is not None and not structure.is_soon_exact(padded.problems)
        self._padded, self._shape = padded, scores.shape
        self._simplex = structure.codes_are_slots
        if self._capped:
            options = {"solver": "active_set", "max_iter": operator.max_iter}
        own, n_jobs = structure.polytope_solver, operator.n_jobs
        if own is not None and own.prefers is always and len(padded.problems.scores) < _FEW_PARTS:
            n_jobs = 1
        solution = argmax_problems(structure, padded.problems, self._argmax, tol=operator.tol, n_jobs=n_jobs, **options)
        self.batch = SparseMAPBatch(padded, solution, operator.tol, n_jobs)
        if operator.max_iter is None:
            warn_if_inexact(self.batch.converged)
        self._flat, self.values = solution[0], self.batch.objective
        self.marginals = padded.places.put(self._flat).reshape(scores.shape)
        self.additional = padded.extra_places.put(self.batch.additional_flat)

    def products(self, unary, extra):
        """Multiply padded directions of scores and additional scores with the Jacobian."""
        if self._argmax != "sparsemap":
            return products_of_map_or_gibbs(self._argmax, unary, extra)
        places, extra_places = self._padded.places, self._padded.extra_places
        unary, extra = places.take(unary.reshape(self._shape[0], -1)), extra_places.take(extra)
        if self._simplex:
            unary = _centre(self._flat, self._padded.problems.score_ptr, unary)
        else:
            unary, extra = self.batch.products(unary, extra, ties_by_facets=True, complete=not self._capped)
        return places.put(unary).reshape(self._shape), extra_places.put(extra)

    def weight_products(self, flat):
        """Multiply an array over the selected structures with the Jacobians of their weights; padded arrays."""
        unary, extra = self.batch.weight_products(flat)
        return self._padded.places.put(unary).reshape(self._shape), self._padded.extra_places.put(extra)


def _centre(u, ptr, direction):
    """Set a direction to zero off the support of each sample, and subtract its mean on the support."""
    here = u > 0.0
    direction = np.where(here, direction, 0.0)
    means = np.add.reduceat(direction, ptr[:-1]) / np.add.reduceat(here, ptr[:-1], dtype=np.float64)
    return np.where(here, direction - np.repeat(means, np.diff(ptr)), 0.0)
