"""The three forms of targets of structured estimators: one label each, label sequences, and other structures.

All have the same methods. Inside, labels are codes, and other structures have the user's form; see
`LinearStructuredModel`. `classes` are the labels of an estimator, None if structures are not made of labels.
"""

import numpy as np
from sklearn.utils import column_or_1d

from ..._core.validation import check_same_length, keep_text
from ..._training._structure_task import object_array
from .._partitions import flat_labels
from .data import SEVERAL_LABELS, check_target, codes_of, flatten_labels


class OtherStructures:
    """Structures that are not made of labels, such as trees, and assignments of factor graphs."""

    def read(self, y, lengths, classes):
        """Return structures of samples of some lengths in the internal form.

        The codes of labels that are not in `classes` are -1.
        """
        check_same_length(lengths, y)
        return object_array(list(y))

    def named(self, codes, classes):
        """Return a structure, or several of one shape, in the user's form."""
        return codes

    def encode(self, structure, classes):
        """Return the internal form of one structure; a message names the argument `against`."""
        return structure

    def labels(self, classes):
        """Return the labels as a list, or None."""

    def labels_in(self, y):
        """Return the labels that occur as the keys of a dict, or None."""

    def strata(self, gold):
        """Return the strata of samples, for splits, or None."""


class LabelSequences(OtherStructures):
    """Sequences of labels, one for each row of a sample; None is an unknown label."""

    def read(self, y, lengths, classes):
        check_same_length(lengths, y)
        return codes_of(flatten_labels(y, lengths), classes, unknown=True)

    def named(self, codes, classes):
        return classes[np.asarray(codes)]

    def encode(self, structure, classes):
        return self._codes(structure.tolist() if hasattr(structure, "tolist") else list(structure), classes)

    def _codes(self, labels, classes):
        code = {label: i for i, label in enumerate(classes.tolist())}
        unknown = [label for label in labels if label not in code]
        if unknown:
            raise ValueError(f"against has the label {unknown[0]!r}, which is not in classes_")
        return np.array([code[label] for label in labels])

    def labels(self, classes):
        return classes.tolist()

    def labels_in(self, y):
        return dict.fromkeys(flat_labels(y))


class SingleLabels(LabelSequences):
    """One label for each sample."""

    def read(self, y, lengths, classes):
        check_target(y, SEVERAL_LABELS)
        y = column_or_1d(keep_text(y))
        check_same_length(lengths, y)
        return codes_of(y.tolist(), classes)

    def encode(self, structure, classes):
        return self._codes([structure], classes)[0]

    def strata(self, gold):
        return gold


def targets_of(structure):
    """Return the form of the targets of a Structure or GraphBuilder."""
    if structure.is_flat:
        return SingleLabels()
    return LabelSequences() if structure.labelled else OtherStructures()
