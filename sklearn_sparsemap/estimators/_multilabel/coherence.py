"""Labels that imply others: which ones, and probabilities that agree with it.

Used by `data.py` and `inference.py`.
"""

import numpy as np

from ...factors._label_constraints import implication_of


def implications(constraints):
    """Return the pairs (a, b) of labels for which a constraint says that a implies b: list of (int, int)."""
    pairs = (implication_of(resolved) for _, resolved in constraints)
    return [pair for pair in pairs if pair is not None]


def make_coherent(probabilities, pairs):
    """Return probabilities such that no label is more probable than a label that it implies.

    The result is the mean of two coherent arrays: one raises each label to the labels that imply it, the other lowers
    it to the labels that it implies.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_labels)
    pairs : list of (int, int)
        The first label implies the second.
    """
    if not pairs:
        return probabilities
    upwards = _spread(probabilities, [(parent, child) for child, parent in pairs], np.maximum)
    return 0.5 * (upwards + _spread(probabilities, pairs, np.minimum))


def _spread(values, pairs, bound):
    """Bound the first label of each pair by the second one, until nothing changes."""
    # A copy: the transpose of a single sample is contiguous.
    rows = np.array(values.T, order="C")
    changed = True
    while changed:
        changed = False
        for first, second in pairs:
            bounded = bound(rows[first], rows[second])
            changed = changed or bool((bounded != rows[first]).any())
            rows[first] = bounded
    return rows.T
