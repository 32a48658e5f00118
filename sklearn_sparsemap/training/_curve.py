"""The course of a training in a bounded number of entries."""

MOST_ENTRIES = 2048


class Course:
    """Records of a training; as it gets longer, each entry represents a longer period.

    When there are `most` entries, pairs of entries are merged, and from then on each entry represents twice as many
    records.

    Parameters
    ----------
    merge : callable
        Merges two entries, given the number of records that each represents.
    most : int, default=None
        Maximum number of entries, even. Default: `MOST_ENTRIES`.

    Attributes
    ----------
    entries : list
    last : object
        The latest record, None at first.
    """

    def __init__(self, merge, most=None):
        self.merge, self.most = merge, MOST_ENTRIES if most is None else most
        self.entries, self.last = [], None
        self._per_entry, self._in_last = 1, 1

    @classmethod
    def of(cls, merge, entries):
        """Return the course of some entries."""
        found = cls(merge)
        for entry in entries:
            found.note(entry)
        return found

    def note(self, entry):
        """Append a record."""
        self.last = entry
        if self.entries and self._in_last < self._per_entry:
            self.entries[-1] = self.merge(self.entries[-1], entry, self._in_last, 1)
            self._in_last += 1
            return
        if len(self.entries) == self.most:
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
