"""Offsets of arrays that follow one another in a flat array."""

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
