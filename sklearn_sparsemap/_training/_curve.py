"""Records of a training in bounded memory.

Used by `_training/_online` and `estimators`.
"""

# Maximum number of entries of a curve, even. Files hold curves of this length, so it never falls.
MAX_ENTRIES = 2048


class BoundedCurve:
    """A curve along training, in a bounded number of entries.

    If there are `MAX_ENTRIES`, pairs of entries are merged, and each entry then represents twice as many records.

    Parameters
    ----------
    merge : callable
        Merges two entries, given the number of records that each represents.

    Attributes
    ----------
    entries : list
    last : object
        The latest record; None if there is none.

    Files hold these, `_per_entry` and `_in_last` by their names; see `estimators/_state/plain.py`.
    """

    def __init__(self, merge):
        self.merge, self.entries, self.last = merge, [], None
        self._per_entry, self._in_last = 1, 1

    @classmethod
    def of(cls, merge, entries):
        """Return the curve of a sequence of records."""
        curve = cls(merge)
        for entry in entries:
            curve.append(entry)
        return curve

    def append(self, entry):
        """Append a record."""
        self.last = entry
        if self.entries and self._in_last < self._per_entry:
            self.entries[-1] = self.merge(self.entries[-1], entry, self._in_last, 1)
            self._in_last += 1
            return
        if len(self.entries) == MAX_ENTRIES:
            n = self._per_entry
            self.entries[:] = [self.merge(a, b, n, n) for a, b in zip(self.entries[::2], self.entries[1::2])]
            self._per_entry = 2 * n
        self.entries.append(entry)
        self._in_last = 1


def mean_of(a, b, n_a, n_b):
    """Merge numbers into their mean."""
    return (a * n_a + b * n_b) / (n_a + n_b)


def highest_of(a, b, n_a, n_b):
    """Merge records ``(step, counts)`` into the one with the highest count."""
    return a if max(a[1]) > max(b[1]) else b
