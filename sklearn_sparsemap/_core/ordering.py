"""An order of the elements of sets that is the same in every process, although hashes of strings differ.

Used by `estimators`, `features` and `indicators.py`.
"""

from collections.abc import Set
from numbers import Real


def sorted_set(values):
    """Return the elements of a set as a sorted list, and other collections as they are.

    Numbers come before strings, and these before tuples and sets of them.
    """
    return sorted(values, key=_rank) if isinstance(values, Set) else values


def _rank(value):
    """Return a key by which values of different kinds can be compared."""
    if isinstance(value, Real):
        return 0, value
    if isinstance(value, str):
        return 1, value
    if isinstance(value, bytes):
        return 2, value
    if isinstance(value, tuple | list):
        return 3, [_rank(each) for each in value]
    if isinstance(value, Set):
        return 4, sorted(_rank(each) for each in value)
    return 5, type(value).__qualname__, repr(value)
