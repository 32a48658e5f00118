"""Arrays that follow one another in a flat array: their offsets, and views of them by name.

Most rooms use these functions.
"""

from math import prod

import numpy as np


def offsets(lengths):
    """Return the beginnings of consecutive arrays of these lengths, and the end of the last one; read-only."""
    found = np.zeros(len(lengths) + 1, np.int64)
    np.add.accumulate(lengths, out=found[1:])
    found.flags.writeable = False
    return found


def ragged_indices(begins, lengths):
    """Return the joined indices of the entries of arrays with given beginnings and lengths."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def size_of(shapes):
    """Return the number of entries of arrays of these shapes: name -> shape, or name -> a dict of these."""
    return sum(size_of(shape) if isinstance(shape, dict) else prod(shape) for shape in shapes.values())


def split_flat(flat, shapes):
    """Return views of the joined arrays by name; `shapes` is as in `size_of`."""
    found, start = {}, 0
    for name, shape in shapes.items():
        is_nested = isinstance(shape, dict)
        stop = start + (size_of(shape) if is_nested else prod(shape))
        part = flat[start:stop]
        found[name] = split_flat(part, shape) if is_nested else part.reshape(shape)
        start = stop
    return found


def padded_rows(rows):
    """Return sequences of ints as the rows of an int64 array; shorter ones end with zeros."""
    longest = max(map(len, rows))
    return np.array([(*row, *[0] * (longest - len(row))) for row in rows], np.int64)
