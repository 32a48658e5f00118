"""The operator of a structure.

Used by `forms.py` and `register.py`.
"""

from functools import cached_property, lru_cache, partial
from math import prod
from typing import NamedTuple

import numpy as np

from .._core.errors import SampleError
from .._numerics.competence import always
from ..inference._batch import argmax_problems, marginal_slopes
from ..inference._problems import ProblemShape, StructureBatch, problems_of
from ..inference._results import SparseMAPBatch
from .independent import IndependentSteps, has_constant_transitions
from .operators import Operator, check_values, warn_if_inexact, without_padding
from .padding import PaddedEntries, block_mask, check_lengths, distinct_rows, shapes_within
from .samples import position

_FEW_PARTS = 30_000


def bounds_of_structure(structure, padded, n_lengths):
    """Return how lengths bound the axes of a sample's scores; see `shapes_within`."""
    if n_lengths and structure.lengths.extra_rows:
        return (0, structure.lengths.extra_rows), (0, 0)
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

    `torch/_native.py` calls `sample_layouts`, and reads `entries` and `extra_entries` of the layouts.
    """

    def __init__(self, structure, extra, options):
        super().__init__(structure, extra, options)
        self.sample_layout = lru_cache(4096)(self._make_sample_layout)
        self._full_layout = lru_cache(16)(self._make_layout)

    def _make_sample_layout(self, padded, shape):
        accepted = self.structure.additional_shapes(shape)
        given = {}
        masks = [np.zeros(0, bool)]
        for name, full in self.extra:
            alike = [own for own in accepted[name] if len(own) == len(full)]
            given[name] = full if full in alike else alike[0]
            masks.append(block_mask(full, given[name]))
        problem_shape = ProblemShape(shape, given, *self.structure.layout(shape, given))
        entries = block_mask(padded, shape)
        extra_entries = np.concatenate(masks)
        return PaddedStructure(entries, extra_entries, problem_shape, self.structure.fixed_size)

    def shapes_of(self, padded, lengths):
        """Return the shape of the scores of each sample: int array of shape (n_samples, score_ndim)."""
        if lengths.shape[1]:
            counted = self.structure.lengths
            check_lengths(lengths, padded[1:] if counted.extra_rows else padded, counted.accepted, counted.what)
        return shapes_within(padded, lengths, bounds_of_structure(self.structure, padded, lengths.shape[1]))

    def pack(self, scores, additional, lengths):
        """Return the batch laid out for the kernels: `PaddedProblems`."""
        n_samples = len(scores)
        padded = scores.shape[1:]
        # Additional scores that all samples share are copied once for each kind of sample.
        is_shared = len(additional) == 1
        if lengths.shape[1]:
            layout = self._make_layout(padded, n_samples, is_shared, lengths)
        else:
            layout = self._full_layout(padded, n_samples, is_shared)
        flat = layout.padded_entries.take(scores.reshape(n_samples, -1))
        flat = check_values(flat, layout.padded_entries.sizes, "scores")
        if is_shared:
            joined = np.concatenate([additional[0][mask] for mask in layout.padded_extra.masks])
        else:
            joined = layout.padded_extra.take(additional)
        joined = check_values(joined, None if is_shared else layout.padded_extra.sizes, "additional")
        return layout.with_scores(flat, joined)

    def sample_layouts(self, padded, lengths):
        """Return the layout for each shape of samples as a list, the number of each sample's shape, and the shapes."""
        shapes, shape_ids = distinct_rows(self.shapes_of(padded, lengths))
        layouts = []
        for k, shape in enumerate(shapes):
            try:
                layouts.append(self.sample_layout(padded, shape))
            except ValueError as error:
                raise SampleError("scores", int(np.argmax(shape_ids == k)), f": {error}") from error
        return layouts, shape_ids, shapes

    def _make_layout(self, padded, n_samples, is_shared, lengths=None):
        """Return `PaddedProblems` without scores."""
        if lengths is None:
            lengths = np.zeros((n_samples, 0), np.int64)
        samples, shape_ids, _ = self.sample_layouts(padded, lengths)
        layout = PaddedProblems(self.structure, samples, shape_ids)
        stop = np.cumsum(layout.padded_extra.sizes)
        if is_shared:
            stop = np.cumsum([mask.sum() for mask in layout.padded_extra.masks])[shape_ids]
        layout.problems = problems_of(layout.problem_shapes, shape_ids, np.zeros(0), np.zeros(0), stop)
        return layout

    @cached_property
    def _uncoupled(self):
        """The operator without the first additional scores."""
        return StructureOperator(self.structure, self.extra[1:], (self.argmax, self.tol, None, self.n_jobs))

    def encode(self, sample, gold, shape, parts, additional):
        gold = without_padding(gold, shape[1:2] if self.structure.lengths.extra_rows else shape[:1])
        encoded = self.structure.encode(gold, np.array(sample.problem_shape.dims, np.int64))
        for counts, entries, slots in zip((parts, additional), (sample.entries, sample.extra_entries), encoded):
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
            raise SampleError("decisions", position(i, lead), f": {self.structure!r} has no structure {parts}")

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
        structure = self.structure
        padded = decisions.shape[1:]
        found = np.zeros(len(rows), bool)
        shapes, kinds = distinct_rows(self.shapes_of(padded, rows[:, 1:]))
        for i, k in enumerate(kinds):
            sample = self.sample_layout(padded, shapes[k])
            own = decisions[i].ravel()[sample.entries].astype(int)
            dims = np.array(sample.problem_shape.dims, np.int64)
            slots = np.repeat(np.arange(len(own)), own)
            found[i] = len(slots) == structure.sizes(dims)[0] and np.array_equal(
                structure.encode(structure.decode(slots, dims), dims)[0], slots
            )
        return found

    def best(self, scores, additional, lengths, cost):
        own = scores if self.structure.fixed_size else scores - cost
        return [result.structures[0] for result in SolvedStructures(self, own, additional, lengths).batch]

    def solve(self, scores, additional, lengths):
        is_sparse = self.argmax == "sparsemap"
        own = self.structure.polytope_solver
        if is_sparse and own is not None and own.coupled_by is not None and has_constant_transitions(self, additional):
            shape = self.extra[0][1]
            solved = self._uncoupled.solve(scores, additional[:, prod(shape) :], lengths)
            again = partial(SolvedStructures, self, scores, additional, lengths)
            return IndependentSteps(solved, shape, additional, again)
        return SolvedStructures(self, scores, additional, lengths)


class PaddedProblems(StructureBatch):
    """A padded batch laid out for the kernels, and the positions of its entries in the padded arrays."""

    def __init__(self, structure, samples, shape_ids):
        super().__init__(structure, None, [sample.problem_shape for sample in samples], shape_ids)
        self.padded_entries = PaddedEntries([sample.entries for sample in samples], shape_ids)
        self.padded_extra = PaddedEntries([sample.extra_entries for sample in samples], shape_ids)


class SolvedStructures:
    """Solutions of a padded batch, with the data for their derivatives.

    `Operator.solve` says what layers use of them. Other classes of solutions have the same attributes and methods.

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
        structure = operator.structure
        padded = operator.pack(scores, additional, lengths)
        options = {}
        self._argmax = operator.argmax
        own = structure.polytope_solver
        n_jobs = operator.n_jobs
        is_limited = operator.max_iter is not None
        self._capped = is_limited and (own is None or not own.is_soon_exact(padded.problems))
        self._padded, self._shape = padded, scores.shape
        self._simplex = structure.is_flat
        self._n_jobs = n_jobs
        if self._capped:
            options = {"solver": "active_set", "max_iter": operator.max_iter}
        if own is not None and own.before is always and len(padded.problems.scores) < _FEW_PARTS:
            n_jobs = 1
        solution = argmax_problems(structure, padded.problems, self._argmax, tol=operator.tol, n_jobs=n_jobs, **options)
        self.batch = SparseMAPBatch(padded, solution, operator.tol, n_jobs)
        if operator.max_iter is None:
            warn_if_inexact(self.batch.converged)
        self._flat, self.values = solution[0], self.batch.objective
        self.marginals = padded.padded_entries.put(self._flat).reshape(scores.shape)
        self.additional = padded.padded_extra.put(self.batch.additional_flat)

    def products(self, unary, extra):
        """Multiply padded directions of scores and additional scores with the Jacobian."""
        if self._argmax == "map":
            # It is piecewise constant.
            return np.zeros_like(unary), np.zeros_like(extra)
        entries, extra_entries = self._padded.padded_entries, self._padded.padded_extra
        unary = entries.take(unary.reshape(self._shape[0], -1))
        extra = extra_entries.take(extra)
        if self._argmax == "gibbs":
            problems = self._padded.problems
            unary, extra = marginal_slopes(self._padded.structure, problems, unary, extra, n_jobs=self._n_jobs)
        elif self._simplex:
            unary = _centre(self._flat, self._padded.problems.score_ptr, unary)
        else:
            unary, extra = self.batch.products(unary, extra, ties_by_facets=True, complete=not self._capped)
        return entries.put(unary).reshape(self._shape), extra_entries.put(extra)

    def weight_products(self, flat):
        """Multiply an array over the selected structures with the Jacobians of their weights; padded arrays."""
        unary, extra = self.batch.weight_products(flat)
        return self._padded.padded_entries.put(unary).reshape(self._shape), self._padded.padded_extra.put(extra)


def _centre(u, ptr, direction):
    """Set a direction to zero off the support of each sample, and subtract its mean on the support."""
    here = u > 0.0
    direction = np.where(here, direction, 0.0)
    means = np.add.reduceat(direction, ptr[:-1]) / np.add.reduceat(here, ptr[:-1], dtype=np.float64)
    return np.where(here, direction - np.repeat(means, np.diff(ptr)), 0.0)
