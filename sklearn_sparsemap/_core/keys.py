"""The parameters of objects as nested tuples, which are compared and hashed by their values.

Structures, graphs and factors are equal if their keys are, and layers keep what they have compiled for a key.

Used by `_layers`, `factors` and `structures`.
"""

import pickle
from typing import Any

import numpy as np
from scipy import sparse


class HasContent:
    """Base class of objects that are described by nested tuples."""

    def content(self) -> Any:
        """Return all that results depend on, as nested tuples. Equal objects have equal tuples."""
        raise NotImplementedError

    def version(self) -> Any:
        """Return a value that differs after each change in place."""
        return self.content()


class _Itself:
    """A value that equals nothing but itself. It is kept, so that no other object gets its address."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self):
        return id(self.value)


def as_key(value):
    """Return a value that is equal for equal parameters: arrays by their numbers, and containers by their entries.

    Dicts are compared in their order, because additional scores are joined in it. Other objects without `content` are
    taken by themselves if they have a hash. Those without one, such as data frames, are compared by their pickles, or
    by identity if they have none.
    """
    if isinstance(value, HasContent):
        return type(value), value.content()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return tuple((as_key(name), as_key(own)) for name, own in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(map(as_key, value))
    if isinstance(value, set | frozenset):
        return frozenset(map(as_key, value))
    if sparse.issparse(value):
        matrix = sparse.csr_array(value, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix.shape, as_key(matrix.data), as_key(matrix.indices), as_key(matrix.indptr)
    try:
        hash(value)
    except TypeError:
        return _key_of_unhashable(value)
    return value


def _key_of_unhashable(value):
    try:
        return type(value), pickle.dumps(value)
    except Exception:
        # Objects may raise anything while they are pickled.
        return _Itself(value)
