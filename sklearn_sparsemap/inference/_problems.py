"""Checks of the user's input, and its layout for the kernels."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from .._core.jit import readonly
from .._core.shapes import size_of, split_flat
from .._core.validation import are_scores, bound_masks, check_matrix, check_numbers, check_scores, is_batch
from ..numerics.loops import Problems, take_problems
from ..numerics.places import starts
from ..structures import Structure
from ..structures._base import check_dims
from ._masks import raise_masks


class Plan(NamedTuple):
    """The properties of a problem that depend only on its shapes.

    Attributes
    ----------
    shape : tuple of int
        Shape of the scores.
    given : dict of str -> tuple of int
        Shapes of the given additional scores, in the structure's order.
    dims, sizes : tuple of int
        See structures/_base.py.
    """

    shape: tuple
    given: dict
    dims: tuple
    sizes: tuple


def plan_of(structure, shape, given):
    """Return the `Plan` of problems with these shapes; raise ValueError if they are invalid for the structure."""
    dims = check_dims(structure, structure.dims(shape, given))
    return Plan(shape, given, dims, structure.layout(dims))


def problems_of(plans, kind, scores, additional, stop):
    """Return `Problems` in the form that kernels take.

    Parameters
    ----------
    plans : list of Plan
    kind : int array of shape (n_problems,)
        The plan of each problem.
    scores, additional : flat arrays
        The scores of the problems follow one another. The additional scores of problem i end at stop[i].
    stop : int array of shape (n_problems,)
    """
    n_parts, n_additional = ([prod(plan.shape) for plan in plans], [size_of(plan.given) for plan in plans])
    return Problems(
        readonly(scores),
        readonly(starts(np.array(n_parts)[kind]), np.int64),
        readonly(additional),
        readonly(stop - np.array(n_additional)[kind], np.int64),
        readonly(stop, np.int64),
        readonly(np.array([plan.dims for plan in plans])[kind], np.int64),
        readonly(np.array([plan.sizes for plan in plans])[kind], np.int64),
    )


class Problem(NamedTuple):
    """One sample, checked and laid out for the kernels.

    Attributes
    ----------
    plan : Plan
    scores, additional : read-only float64 arrays
        Flat arrays.
    dims, sizes : read-only int64 arrays
        The same as in the plan.
    """

    plan: Plan
    scores: np.ndarray
    additional: np.ndarray
    dims: np.ndarray
    sizes: np.ndarray

    @property
    def shape(self):
        return self.plan.shape

    @property
    def n_parts(self):
        return len(self.scores)

    def as_scores(self, name, values):
        """Check an array in the shape of the scores; return it flat."""
        values = check_numbers(values, name)
        if values.shape != self.shape:
            raise ValueError(f"{name} has shape {values.shape}, but the scores have {self.shape}")
        return values.ravel()

    def split_additional(self, flat):
        """Split a flat array of the additional scores into a dict of arrays in their shapes."""
        return split_flat(flat, self.plan.given)

    def join_additional(self, given):
        """Join arrays in the shapes of the additional scores to a flat array; missing arrays are zero."""
        unknown = set(given) - set(self.plan.given)
        if unknown:
            raise TypeError(f"no {sorted(unknown)[0]!r} were given in this problem; there are {list(self.plan.given)}")
        joined = []
        for name, shape in self.plan.given.items():
            array = check_numbers(given.get(name, np.zeros(shape)), name)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; in this problem it has {shape}")
            joined.append(array.ravel())
        return np.concatenate(joined) if joined else np.zeros(0)


class Samples(Sequence):
    """The samples of a batch that is laid out for the kernels: a sequence of `Problem`, each made on demand.

    Parameters
    ----------
    structure : Structure
    problems : Problems
    plans : list of Plan
        The distinct plans of the samples.
    kind : int array
        The plan of each sample.

    Attributes
    ----------
    moved : Moved or None
        The changes by `raise_masks`.
    """

    def __init__(self, structure, problems, plans, kind):
        self.structure, self.problems, self.plans, self.kind = structure, problems, plans, kind
        self.moved = None

    def raise_masks(self):
        """Reduce large masks, which changes neither solutions nor derivatives; return the problems."""
        self.problems, self.moved = raise_masks(self.problems)
        return self.problems

    def restore(self, values, marginals, expected):
        """Convert the values of solutions, which `raise_masks` has changed, to those of the original scores."""
        if self.moved is not None:
            values -= self.moved.of(self.problems, marginals, expected)

    def take(self, chosen):
        """Return some of the samples, without the record of changes by `raise_masks`."""
        return Samples(self.structure, take_problems(self.problems, chosen), self.plans, self.kind[chosen])

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        p = self.problems
        scores = p.scores[p.score_ptr[i] : p.score_ptr[i + 1]]
        additional = p.additional[p.additional_start[i] : p.additional_stop[i]]
        return Problem(self.plans[self.kind[i]], scores, additional, p.dims[i], p.sizes[i])

    @property
    def shapes(self):
        """The shapes of the scores of all samples."""
        return [self.plans[k].shape for k in self.kind.tolist()]

    def dims(self):
        """Return the structure's `dims` for the shapes of all samples; see structures/_base.py."""
        return np.array([self.structure.dims(plan.shape, plan.given) for plan in self.plans])[self.kind]


def lay_out(structure, scores, additional):
    """Check the user's input, and lay it out for the kernels.

    Returns
    -------
    samples : Samples
    many : bool
        Whether a list was given.
    own_names : set of str
        Names of additional scores that differ between samples.
    """
    check_structure(structure)
    ndim, names = structure.score_ndim, structure.additional_names
    additional = {name: value for name, value in additional.items() if value is not None}
    unknown = sorted(set(additional) - set(names))
    if unknown:
        takes = ", ".join(names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    many = is_batch(check_matrix(scores, "scores"), ndim)
    if many and len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    flat, shapes = _check_all(scores, ndim) if many else _check_all([scores], ndim, "scores")
    own_names = {name for name in additional if many and _is_per_sample(additional[name], structure, shapes, name)}
    plans, kind, joined, stop = _plan_all(structure, shapes, additional, own_names, "scores[{}]" if many else "scores")
    problems = problems_of(plans, kind, flat, joined, stop)
    return Samples(structure, problems, plans, kind), many, own_names


def _plan_all(structure, shapes, additional, own_names, label):
    """Check the additional scores of all samples, and lay them out.

    Parameters
    ----------
    structure : Structure
    shapes : list of tuple of int
        The shape of the scores of each sample.
    additional : dict
        Additional scores in the user's form, without those that are None.
    own_names : set of str
        Names of additional scores that differ between samples.
    label : str
        The name of the scores of a sample in messages, with ``{}`` in place of its index.

    Returns
    -------
    plans : list of Plan
    kind : int array of shape (n_samples,)
        The plan of each sample.
    joined : array
        All additional scores, flat.
    stop : int array of shape (n_samples,)
        The end of the additional scores of each sample.
    """
    # Samples of one kind have equal shapes and, unless these differ between samples, the same additional scores.
    kinds, plans, kind, shared, ends = {}, [], np.empty(len(shapes), np.int64), {}, []
    pieces, stop, n_joined = [np.zeros(0)], np.empty(len(shapes), np.int64), 0
    for i, shape in enumerate(shapes):
        if not own_names and shape in kinds:
            kind[i] = kinds[shape]
            stop[i] = ends[kind[i]]
            continue
        given = {}
        for name in structure.additional_names:
            if name in own_names:
                given[name] = check_additional(f"{name}[{i}]", additional[name][i], structure, shape, name)
            elif name in additional:
                if (name, shape) not in shared:
                    shared[name, shape] = check_additional(name, additional[name], structure, shape)
                given[name] = shared[name, shape]
        pieces += [array.ravel() for array in given.values()]
        n_joined += sum(array.size for array in given.values())
        stop[i] = n_joined
        given_shapes = {name: array.shape for name, array in given.items()}
        key = (shape, *given_shapes.items()) if own_names else shape
        if key not in kinds:
            kinds[key] = len(plans)
            try:
                plans.append(plan_of(structure, shape, given_shapes))
            except ValueError as error:
                raise ValueError(f"{label.format(i)}: {error}") from error
            ends.append(n_joined)
        kind[i] = kinds[key]
    return plans, kind, np.concatenate(pieces), stop


def _check_all(scores, ndim, name=None):
    """Check the scores of samples; return a flat, concatenated copy, and their shapes."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "fiub" and scores.size:
        flat, shapes = np.array(scores, np.float64).ravel(), [scores.shape[1:]] * len(scores)
    elif all(type(s) is np.ndarray and s.dtype == np.float64 and s.ndim == ndim and s.size for s in scores):
        flat, shapes = np.concatenate(scores, axis=None), [s.shape for s in scores]
    else:
        arrays = [check_scores(s, ndim, name or f"scores[{i}]") for i, s in enumerate(scores)]
        return np.concatenate(arrays, axis=None), [array.shape for array in arrays]
    if not are_scores(flat) and not are_scores(flat := bound_masks(flat)):
        for i, sample in enumerate(scores):
            check_scores(sample, ndim, name or f"scores[{i}]")
    return flat, shapes


def check_structure(structure):
    """Raise ValueError unless `structure` is an instance of a structure."""
    if not isinstance(structure, Structure):
        raise ValueError(f"structure must be an instance such as LinearChain(); got {structure!r}")


def check_additional(label, value, structure, shape, name=None):
    """Check additional scores for scores of `shape`; return them as a float64 array."""
    accepted = structure.additional_shapes(shape)[name or label]
    found, wanted = _shape(value), " or ".join(map(str, accepted))
    if found not in accepted:
        raise ValueError(f"{label} has shape {found}; with scores of shape {shape} it must have {wanted}")
    return check_scores(value, len(found), label) if np.size(value) else np.zeros(found)


def _shape(value):
    """Return the shape of an array-like; "ragged" if it has none."""
    try:
        return np.shape(value)
    except ValueError:
        return "ragged"


def _is_per_sample(value, structure, shapes, name):
    """Tell whether additional scores are a sequence with one array for each sample, instead of one array for all."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim > max(len(s) for s in structure.additional_shapes(shapes[0])[name])
    if not hasattr(value, "__len__") or len(value) == 0:
        return False
    if _shape(value[0]) not in structure.additional_shapes(shapes[0])[name]:
        return False
    if len(value) != len(shapes):
        raise ValueError(f"{name} is a list of {len(value)} arrays for {len(shapes)} samples; pass one for each sample")
    return True
