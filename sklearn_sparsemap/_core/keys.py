"""The parameters of objects as nested tuples, which are compared and hashed by their values."""

from collections.abc import Hashable
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


def as_key(value):
    """Return a value that is equal for equal parameters: arrays by their numbers, and containers by their entries.

    Objects without `content` are taken by themselves, or by their repr if they have no hash.
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
        matrix = value.tocsr()
        return matrix.shape, as_key(matrix.data), as_key(matrix.indices), as_key(matrix.indptr)
    return value if isinstance(value, Hashable) else repr(value)
