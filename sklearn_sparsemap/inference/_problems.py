"""What a user asks, checked and laid out for the kernels."""

import numpy as np

from .._jit import readonly
from .._validation import check_numbers, check_scores, is_batch
from ..solvers._polytope.batch import Problems
from ..structures import Structure


class Problem:
    """One sample, checked and laid out for the kernels.

    Parameters
    ----------
    structure : Structure
    scores : float64 array
        Checked.
    given : dict of str -> float64 array
        The additional scores that are given, checked, in the structure's order.
    joined : read-only float64 array
        The same, flattened and joined.

    Attributes
    ----------
    scores, additional : read-only float64 arrays
        Flat.
    shape : tuple of int
        Shape of the scores as the user gave them.
    shapes : dict of str -> tuple of int
        Shapes of the additional scores that are given.
    dims, sizes : read-only int64 arrays
        See structures/_base.py.
    """

    __slots__ = ("additional", "dims", "scores", "shape", "shapes", "sizes")

    def __init__(self, structure, scores, given, joined):
        self.shape = scores.shape
        self.scores = readonly(scores.ravel())
        self.shapes = {name: array.shape for name, array in given.items()}
        self.additional = joined
        dims = structure.dims(self.shape, self.shapes)
        self.dims = readonly(dims, np.int64)
        self.sizes = readonly(structure.layout(dims), np.int64)

    @property
    def n_parts(self):
        return len(self.scores)

    def as_scores(self, name, values):
        """Check an array that goes with the scores; return it flat."""
        values = check_numbers(values, name)
        if values.shape != self.shape:
            raise ValueError(f"{name} has shape {values.shape}, but the scores have {self.shape}")
        return values.ravel()

    def split_additional(self, flat):
        """Cut what goes with the joined additional scores into a dict of arrays, each in its own shape."""
        split, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape))
            split[name] = flat[start:stop].reshape(shape)
            start = stop
        return split

    def join_additional(self, given):
        """Join arrays that go with the additional scores; those not given are zero."""
        unknown = set(given) - set(self.shapes)
        if unknown:
            raise TypeError(f"no {sorted(unknown)[0]!r} were given in this problem; there are {list(self.shapes)}")
        joined = []
        for name, shape in self.shapes.items():
            array = check_numbers(given.get(name, np.zeros(shape)), name)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; in this problem it has {shape}")
            joined.append(array.ravel())
        return np.concatenate(joined) if joined else np.zeros(0)


def join_problems(samples):
    """Join problems into the arrays that kernels loop over; equal additional scores are stored once."""
    additional, start, stop = [], [], []
    seen, n = {}, 0
    for sample in samples:
        key = id(sample.additional)
        if key not in seen:
            seen[key] = n
            additional.append(sample.additional)
            n += len(sample.additional)
        start.append(seen[key])
        stop.append(seen[key] + len(sample.additional))
    return Problems(
        readonly(np.concatenate([s.scores for s in samples])),
        readonly(np.concatenate([[0], np.cumsum([s.n_parts for s in samples])]), np.int64),
        readonly(np.concatenate(additional)),
        readonly(start, np.int64),
        readonly(stop, np.int64),
        readonly([s.dims for s in samples], np.int64),
        readonly([s.sizes for s in samples], np.int64),
    )


def as_samples(structure, scores, additional):
    """Check what the user gave.

    Returns
    -------
    samples : list of Problem
    many : bool
        Whether a list came in.
    own_names : set of str
        Additional scores of which each sample has its own.
    """
    check_structure(structure)
    ndim, names = structure.score_ndim, structure.additional_names
    additional = {name: value for name, value in additional.items() if value is not None}
    unknown = sorted(set(additional) - set(names))
    if unknown:
        takes = ", ".join(names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    many = is_batch(scores, ndim)
    if not many:
        array = check_scores(scores, ndim)
        given = {
            name: check_additional(name, additional[name], structure, array.shape)
            for name in names
            if name in additional
        }
        return [_problem(structure, array, given, _join(given), "scores")], False, set()
    if len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    arrays = [check_scores(s, ndim, f"scores[{i}]") for i, s in enumerate(scores)]
    per_sample = {
        name for name in additional if _is_per_sample(additional[name], structure, arrays, name)
    }
    samples, shared = [], {}
    for i, array in enumerate(arrays):
        given = {}
        for name in names:
            if name in per_sample:
                given[name] = check_additional(f"{name}[{i}]", additional[name][i], structure, array.shape, name)
            elif name in additional:
                if (name, array.shape) not in shared:
                    shared[name, array.shape] = check_additional(name, additional[name], structure, array.shape)
                given[name] = shared[name, array.shape]
        if per_sample:
            joined = _join(given)
        else:
            key = tuple(id(a) for a in given.values())
            if key not in shared:
                shared[key] = _join(given)
            joined = shared[key]
        samples.append(_problem(structure, array, given, joined, f"scores[{i}]"))
    return samples, True, per_sample


def _problem(structure, scores, given, joined, name):
    try:
        return Problem(structure, scores, given, joined)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def check_structure(structure):
    """Raise ValueError unless `structure` is an instance of a structure."""
    if not isinstance(structure, Structure):
        raise ValueError(f"structure must be an instance such as LinearChain(); got {structure!r}")


def check_additional(label, value, structure, shape, name=None):
    """Return additional scores as a float64 array, of a shape that goes with scores of `shape`."""
    accepted = structure.additional_shapes(shape)[name or label]
    found, wanted = _shape(value), " or ".join(map(str, accepted))
    if found not in accepted:
        raise ValueError(f"{label} has shape {found}; with scores of shape {shape} it must have {wanted}")
    return check_scores(value, len(found), label) if np.size(value) else np.zeros(found)


def _shape(value):
    """Return the shape of an array-like, or a word for one that has none."""
    try:
        return np.shape(value)
    except ValueError:
        return "ragged"


def _is_per_sample(value, structure, arrays, name):
    """Tell whether additional scores are one array for all samples, or a sequence with one for each."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim > max(len(s) for s in structure.additional_shapes(arrays[0].shape)[name])
    if not hasattr(value, "__len__") or len(value) == 0:
        return False
    if _shape(value[0]) not in structure.additional_shapes(arrays[0].shape)[name]:
        return False
    if len(value) != len(arrays):
        raise ValueError(f"{name} is a list of {len(value)} arrays for {len(arrays)} samples; pass one for each sample")
    return True


def _join(given):
    return readonly(np.concatenate([a.ravel() for a in given.values()]) if given else np.zeros(0))
