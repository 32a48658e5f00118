"""Checks of the user's input, and its layout for the kernels.

Used by `_layers`, `estimators`, `inference/_graph`, `losses`, `testing`, `_entropy.py`, `_n_best.py` and `_public.py`.
"""

from functools import cached_property
from itertools import chain, pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from .._core.errors import Place, SampleError, error_at
from .._core.jit import readonly
from .._core.offsets import offsets, padded_rows, split_flat
from .._core.tables import aligned, are_default, column_names, refuse_iterator
from .._core.validation import are_scores, bound_masks, check_numbers, check_scores, is_batch
from .._numerics.loops import Problems
from ..structures._base import check_structure
from ._masks import ORDINARY, rescale_masks

# The shape ids, and the offsets in the additional scores, of a batch of one problem.
_FIRST = np.zeros(1, np.int64)
_START = readonly(np.zeros(1), np.int64)
_PIECE = 2**16  # numbers that are joined and checked at a time: half a megabyte, which stays in the processor's cache


class ProblemShape(NamedTuple):
    """The properties of a problem that depend only on its shapes.

    Attributes
    ----------
    shape : tuple of int
        Shape of the scores.
    given : dict of str -> tuple of int
        Shapes of the given additional scores, in the structure's order.
    dims, sizes : tuple of int
        The results of `Structure.layout`.
    """

    shape: tuple
    given: dict
    dims: tuple
    sizes: tuple


def problems_of(problem_shapes, shape_ids, scores, additional, stop):
    """Return `Problems` in the form that kernels take.

    Parameters
    ----------
    problem_shapes : list of ProblemShape
    shape_ids : int array of shape (n_problems,)
        The index of the shape of each problem.
    scores, additional : flat arrays
        The scores of the problems follow one another. The additional scores of problem i end at stop[i].
    stop : int array of shape (n_problems,)
    """
    shapes, given, dims, sizes = zip(*problem_shapes)
    if len(set(map(len, dims))) > 1:
        dims = padded_rows(dims)
    n_additional = np.array([sum(map(prod, own.values())) for own in given])
    return Problems(
        readonly(scores),
        offsets(np.array([prod(shape) for shape in shapes])[shape_ids]),
        readonly(additional),
        readonly(stop - n_additional[shape_ids], np.int64),
        readonly(stop, np.int64),
        readonly(np.array(dims)[shape_ids], np.int64),
        readonly(np.array(sizes)[shape_ids], np.int64),
    )


def problems_of_few(structure, scores, row_ptr, additional):
    """Return the problems of a few samples of a linear model in the form that kernels take, with few calls of NumPy.

    Parameters
    ----------
    structure : Structure
    scores : array of shape (n_rows, n_outputs)
    row_ptr : list of int
        The beginning of each sample, and the end of the last one.
    additional : array
        The additional scores, which all samples share.

    Raises
    ------
    ValueError
        If there are no scores for a sample of some number of rows.
    """
    n_samples = len(row_ptr) - 1
    n_outputs = scores.shape[1]
    n_additional = len(additional)
    given = structure.learned_shapes(n_outputs)
    layouts = []
    for first, last in pairwise(row_ptr):
        shape = structure.scores_shape((last - first,), n_outputs)
        layouts.append(structure.layout(shape, given))
    dims, sizes = zip(*layouts)
    # All integers are made one array, because making one takes longer than filling it.
    ints = readonly(
        np.array([
            *(end * n_outputs for end in row_ptr), *[0] * n_samples, *[n_additional] * n_samples,
            *chain.from_iterable(dims), *chain.from_iterable(sizes),
        ]),
        np.int64,
    )  # fmt: skip
    starts = n_samples + 1
    stops = starts + n_samples
    rest = stops + n_samples
    of_sizes = rest + n_samples * len(dims[0])
    return Problems(
        readonly(scores).ravel(),
        ints[:starts],
        readonly(additional),
        ints[starts:stops],
        ints[stops:rest],
        ints[rest:of_sizes].reshape(n_samples, -1),
        ints[of_sizes:].reshape(n_samples, -1),
    )


class StructureBatch:
    """Problems of one structure, checked and laid out for the kernels. Its items are batches of one problem.

    Parameters
    ----------
    structure : Structure
    problems : Problems
    problem_shapes : list of ProblemShape
        The distinct shapes of the problems.
    shape_ids : int array of shape (n_problems,)
        The index of the shape of each problem.

    Attributes
    ----------
    mask_offsets : MaskOffsets or None
        The changes by `rescale_masks`.

    `_layers/structures.py` has a subclass, sets `problems`, and calls `with_scores`.
    """

    def __init__(self, structure, problems, problem_shapes, shape_ids):
        self.structure, self.problems = structure, problems
        self.problem_shapes, self.shape_ids = problem_shapes, shape_ids
        self.mask_offsets = None

    def rescale_masks(self):
        """Reduce large masks, which changes neither solutions nor derivatives; return the problems."""
        if min(array.min(initial=0.0) for array in (self.problems.scores, self.problems.additional)) < ORDINARY:
            self.problems, self.mask_offsets = rescale_masks(self.problems)
        return self.problems

    def restore(self, values, marginals, expected):
        """Convert the values of solutions, which `rescale_masks` has changed, to those of the original scores."""
        values -= self.mask_offsets.of(self.problems, marginals, expected)

    def with_scores(self, scores, additional):
        """Return problems of the same shapes with other flat scores and additional scores, after `rescale_masks`."""
        # Not by `copy`, which reads the dims of all problems again, as after unpickling.
        batch = object.__new__(type(self))
        batch.__dict__.update(self.__dict__)
        batch.mask_offsets = None
        batch.problems = self.problems._replace(scores=readonly(scores), additional=readonly(additional))
        batch.rescale_masks()
        return batch

    @cached_property
    def _rows(self):
        """For batches of one problem: bounds of the problems as lists, and their pointers as arrays."""
        p = self.problems
        bounds = [array.tolist() for array in (p.score_ptr, p.additional_start, p.additional_stop, self.shape_ids)]
        score_ptrs = np.zeros((len(self), 2), np.int64)
        stops = p.additional_stop - p.additional_start
        score_ptrs[:, 1] = np.diff(p.score_ptr)
        return *bounds, readonly(score_ptrs, np.int64), readonly(stops, np.int64)

    def __len__(self):
        return len(self.shape_ids)

    def __getitem__(self, i):
        p = self.problems
        ends, first, last, shape_ids, score_ptrs, stops = self._rows
        here = slice(i, i + 1)
        scores, additional = p.scores[ends[i] : ends[i + 1]], p.additional[first[i] : last[i]]
        problem = Problems(scores, score_ptrs[i], additional, _START, stops[here], p.dims[here], p.sizes[here])
        return StructureBatch(self.structure, problem, [self.problem_shapes[shape_ids[i]]], _FIRST)

    def __iter__(self):
        return map(self.__getitem__, range(len(self)))

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Unpickled arrays are writable, and kernels know custom structures by other numbers in this process.
        dims = [self.structure.dims(shape.shape, shape.given) for shape in self.problem_shapes]
        arrays = self.problems._replace(dims=padded_rows(dims)[self.shape_ids])
        floats = ("scores", "additional")
        self.problems = Problems(
            *(readonly(array, np.float64 if name in floats else np.int64) for name, array in arrays._asdict().items())
        )

    @property
    def shapes(self):
        """The shapes of the scores of all problems."""
        return [self.problem_shapes[k].shape for k in self.shape_ids.tolist()]

    def split_additional(self, flat, i=0):
        """Split a flat array of the additional scores of problem i into a dict of arrays in their shapes."""
        return split_flat(flat, self.problem_shapes[self.shape_ids[i]].given)

    def join_additional(self, given, i=0):
        """Join arrays in the shapes of the additional scores of problem i to a flat array; missing ones are zero."""
        shapes = self.problem_shapes[self.shape_ids[i]].given
        unknown = set(given) - set(shapes)
        if unknown:
            raise TypeError(f"no {sorted(unknown)[0]!r} were given in this problem; there are {list(shapes)}")
        joined = [np.zeros(0)]
        for name, shape in shapes.items():
            array = check_numbers(given.get(name, np.zeros(shape)), name)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; in this problem it has {shape}")
            joined.append(array.ravel())
        return np.concatenate(joined)

    # The following are for batches of one problem, the form in which methods of structures take it.

    @cached_property
    def shape(self):
        """Shape of the scores."""
        return self.problem_shapes[self.shape_ids[0]].shape

    @property
    def n_parts(self):
        """Number of scores."""
        return len(self.problems.scores)

    @property
    def scores(self):
        """The scores, flat."""
        return self.problems.scores

    @property
    def additional(self):
        """The additional scores, flat."""
        return self.problems.additional[self.problems.additional_start[0] : self.problems.additional_stop[0]]

    @property
    def dims(self):
        """The size of the problem, for the oracle."""
        return self.problems.dims[0]

    @property
    def sizes(self):
        """The numbers of slots and additional slots, and the sizes of the work of the oracles."""
        return self.problems.sizes[0]

    def as_scores(self, name, values):
        """Check an array in the shape of the scores; return it flat."""
        values = check_numbers(values, name)
        if values.shape != self.shape:
            raise ValueError(f"{name} has shape {values.shape}, but the scores have {self.shape}")
        return values.ravel()


def batch_of(structure, scores, additional):
    """Check the user's input, and lay it out for the kernels.

    Returns
    -------
    batch : StructureBatch
    many : bool
        Whether a list was given.
    per_sample : set of str
        Names of additional scores that differ between samples.
    """
    check_structure(structure)
    ndim, names = structure.score_ndim, structure.additional_names
    additional = {name: value for name, value in additional.items() if value is not None}
    unknown = sorted(set(additional) - set(names))
    if unknown:
        takes = ", ".join(names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    many = is_batch(scores, ndim)
    if many and len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    if hasattr(scores[0] if many else scores, "to_numpy"):
        additional = _in_order_of_scores(additional, scores if many else [scores])
    flat, shapes = _join_scores(scores, ndim) if many else _join_scores([scores], ndim, "scores")
    per_sample = {name for name in additional if many and _is_per_sample(additional[name], structure, shapes, name)}
    problem_shapes, shape_ids, joined, stop = _join_additional(structure, shapes, additional, per_sample, many)
    problems = problems_of(problem_shapes, shape_ids, flat, joined, stop)
    return StructureBatch(structure, problems, problem_shapes, shape_ids), many, per_sample


def _in_order_of_scores(additional, scores):
    """Return additional scores with named axes in the order of the columns of the scores, if these have names."""
    names = column_names(scores[0], "scores")
    if names is None or are_default(names):
        return additional
    for i, own in enumerate(scores):
        if column_names(own, f"scores[{i}]") != names:
            raise SampleError("scores", i, " has other columns than scores[0]; give all samples the same, in one order")

    def ordered(value, name):
        axes = [names] * len(getattr(value, "shape", ()))
        return aligned(value, *axes, name=name, whose="the columns of the scores")

    return {
        name: [ordered(own, name) for own in value] if isinstance(value, list | tuple) else ordered(value, name)
        for name, value in additional.items()
    }


def _join_additional(structure, shapes, additional, per_sample, many):
    """Check the additional scores and the shapes of all samples.

    Parameters
    ----------
    structure : Structure
    shapes : list of tuple of int
        The shape of the scores of each sample.
    additional : dict
        Additional scores in the user's form, without those that are None.
    per_sample : set of str
        Names of additional scores that differ between samples.
    many : bool
        Whether messages have the index of the sample.

    Returns
    -------
    problem_shapes : list of ProblemShape
    shape_ids : int array of shape (n_samples,)
        The index of the shape of each sample.
    joined : array
        All additional scores, flat.
    stop : int array of shape (n_samples,)
        The end of the additional scores of each sample.
    """
    # Samples of equal shapes share additional scores, unless these differ between samples.
    numbers = {}
    problem_shapes = []
    shape_ids = np.empty(len(shapes), np.int64)
    shared = {}
    ends = []
    pieces = [np.zeros(0)]
    stop = np.empty(len(shapes), np.int64)
    n_joined = 0
    for i, shape in enumerate(shapes):
        if not per_sample and shape in numbers:
            shape_ids[i] = numbers[shape]
            stop[i] = ends[numbers[shape]]
            continue
        arrays = {}
        for name in structure.additional_names:
            if name in per_sample:
                arrays[name] = check_additional(Place(name, i), additional[name][i], structure, shape, name)
            elif name in additional:
                if (name, shape) not in shared:
                    shared[name, shape] = check_additional(name, additional[name], structure, shape)
                arrays[name] = shared[name, shape]
        pieces += [array.ravel() for array in arrays.values()]
        n_joined += sum(array.size for array in arrays.values())
        stop[i] = n_joined
        given = {name: array.shape for name, array in arrays.items()}
        key = (shape, *given.items()) if per_sample else shape
        if key not in numbers:
            numbers[key] = len(problem_shapes)
            try:
                problem_shapes.append(ProblemShape(shape, given, *structure.layout(shape, given)))
            except ValueError as error:
                raise SampleError("scores", i if many else None, f": {error}") from error
            ends.append(n_joined)
        shape_ids[i] = numbers[key]
    return problem_shapes, shape_ids, np.concatenate(pieces), stop


def _join_scores(scores, ndim, name=None):
    """Check the scores of samples; return a flat, concatenated copy, and their shapes."""
    if type(scores) is np.ndarray and scores.dtype.kind in "fiub" and scores.size:
        flat = np.array(scores, np.float64).ravel()
        shapes = [scores.shape[1:]] * len(scores)
    elif all(type(s) is np.ndarray and s.dtype == np.float64 and s.ndim == ndim and s.size for s in scores):
        shapes = [s.shape for s in scores]
        sizes = [s.size for s in scores]
        if sum(sizes) > _PIECE:
            flat, is_checked = _join_pieces(scores, sizes)
            if is_checked:
                return flat, shapes
        else:
            flat = np.concatenate(scores, axis=None)
    else:
        arrays = [check_scores(s, ndim, name or Place("scores", i)) for i, s in enumerate(scores)]
        return np.concatenate(arrays, axis=None), [array.shape for array in arrays]
    if not are_scores(flat) and not are_scores(flat := bound_masks(flat)):
        for i, sample in enumerate(scores):
            check_scores(sample, ndim, name or Place("scores", i))
    return flat, shapes


def _join_pieces(scores, sizes):
    """Return float64 arrays of these sizes as a flat copy, and whether all its entries are scores.

    Each piece is checked while it is in the processor's cache.
    """
    n_scores = sum(sizes)
    # malloc returns memory at the end of the heap to the system if it is more than twice the largest block. Tables of
    # the caller that are freed together with this copy would pass that, so that each call would get new pages.
    flat = np.empty(n_scores + n_scores // 4)[:n_scores]
    n_together = max(_PIECE * len(scores) // n_scores, 1)
    is_checked, start = True, 0
    for first in range(0, len(scores), n_together):
        stop = start + sum(sizes[first : first + n_together])
        piece = np.concatenate(scores[first : first + n_together], axis=None, out=flat[start:stop])
        is_checked = is_checked and are_scores(piece, n_scores)
        start = stop
    return flat, is_checked


def check_additional(label, value, structure, shape, name=None):
    """Check additional scores for scores of `shape`; return them as a float64 array."""
    accepted = structure.additional_shapes(shape)[name or label]
    try:
        found = np.shape(value)
    except ValueError:
        found = "ragged"
    if found not in accepted:
        refuse_iterator(value, label)
        wanted = " or ".join(map(str, accepted))
        raise error_at(label, f" has shape {found}; with scores of shape {shape} it must have {wanted}")
    array = check_numbers(value, label)
    return array if are_scores(array) else check_scores(array, array.ndim, label)


def _is_per_sample(value, structure, shapes, name):
    """Tell whether additional scores are a sequence with one array for each sample, instead of one array for all.

    Raises
    ------
    ValueError
        If their number of axes allows both readings, or their number is not that of the samples.
    """
    is_array = isinstance(value, np.ndarray) and value.dtype != object
    if (is_array and value.ndim == 0) or not hasattr(value, "__len__") or len(value) == 0:
        return False
    accepted = structure.additional_shapes(shapes[0])[name]
    try:
        first = np.shape(value[0])
    except ValueError:
        # A ragged list, which is refused later.
        return False
    axes = {len(shape) for shape in accepted}
    n = len(first)
    # Arrays in a list are those of the samples. Numbers in nested lists are one array.
    is_one = is_array or not any(isinstance(own, np.ndarray) for own in value)
    if is_one and n in axes and n + 1 in axes:
        short, whole = (next(shape for shape in accepted if len(shape) == k) for k in (n, n + 1))
        raise ValueError(
            f"{name} has {n + 1} axes, which can be read in two ways. For scores of shape {whole} that all samples "
            f"share, pass [{name}] * {len(shapes)}. For scores of shape {short} of each sample, pass a list of arrays"
        )
    if (n not in axes) if is_array else (first not in accepted):
        return False
    if len(value) != len(shapes):
        raise ValueError(f"{name} is a list of {len(value)} arrays for {len(shapes)} samples; pass one for each sample")
    return True
