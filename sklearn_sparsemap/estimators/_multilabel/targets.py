"""The two forms of targets of label sets: one label for each sample, or a set of labels.

Both have the same methods. Inside, targets are indicators: arrays of shape (n_samples, n_labels).

Used by `base.py`.
"""

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d

from ..._core.errors import SampleError
from ..._core.indicators import as_indicator, in_order, label_sets, names_in, read_known
from ..._core.validation import check_same_length, keep_text
from .._structured.data import codes_of
from .data import add_ancestors, read_indicator
from .known import read_known_labels


class OneLabelEach:
    """Targets with one label for each sample.

    Parameters
    ----------
    classes : array of shape (n_labels,)
    """

    def __init__(self, classes):
        self.classes = classes

    def in_order(self, y):
        """Return `y` with its columns, if it has any, in the order of the labels."""
        return y

    def gold(self, y, graph, n_samples):
        """Return the indicators of gold, without a label if the model does not know it: bool array."""
        codes = codes_of(column_or_1d(keep_text(y)).tolist(), self.classes)
        check_same_length(range(n_samples), codes)
        return codes[:, None] == np.arange(len(self.classes))

    def read_known(self, known, n_samples):
        """Return the argument `known` of `predict` as `read_known_labels` does."""
        raise ValueError("known is for label sets, and y had one label for each sample; leave it at None")

    def decode(self, chosen, names=None):
        """Return chosen labels, a bool array, as `predict` does; `names` is its argument."""
        return self.classes[chosen.argmax(axis=1)]

    def shown(self, labels):
        """Return the labels of one sample by their names."""
        return self.classes.tolist()[labels.argmax()]

    def encode(self, against, graph):
        """Return the labels of one sample, as `fit` takes them, as a bool array; messages name `against`."""
        chosen = self.classes == against
        if np.shape(chosen) != self.classes.shape or not chosen.any():
            raise ValueError(f"against is {against!r}; it must be labels in classes_, in the form that fit takes")
        return chosen

    def scores(self, scores):
        """Return the scores of labels as `decision_function` does."""
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores


class SetOfLabelsEach:
    """Targets with a set of labels for each sample; the methods are those of `OneLabelEach`.

    Parameters
    ----------
    classes : array of shape (n_labels,)
    named : bool
        Whether sets are collections of names, by default.
    """

    def __init__(self, classes, named):
        self.classes = classes
        self.named = named

    def in_order(self, y):
        samples = label_sets(y)
        if samples is None and self.named:
            # Lists of numbers hold names if the model knows these.
            samples = label_sets(y, named=True)
            samples = None if samples is None or names_in(samples).keys() - {*self.classes.tolist()} else samples
        if samples is not None:
            return as_indicator(samples, self.classes, "the labels that the model was fitted with")
        return in_order(y, self.classes, fitted=True)

    def gold(self, y, graph, n_samples):
        y, known = read_known(self.in_order(y))
        if known is not None:
            i = int(np.argmin(known.all(axis=1)))
            raise SampleError("y", i, " has unknown labels (NaN), and sets hold whole label sets; leave the sample out")
        y = y if sparse.issparse(y) else np.asarray(y)
        shape = n_samples, len(self.classes)
        if y.shape != shape:
            raise ValueError(f"y has shape {y.shape}; it must be an indicator matrix of shape {shape}")
        return add_ancestors(read_indicator(y), graph.constraints)[0].toarray() > 0.0

    def read_known(self, known, n_samples):
        return read_known_labels(known, self.classes, n_samples, self.in_order)

    def decode(self, chosen, names=None):
        if not (self.named if names is None else names):
            return chosen.astype(np.int64)
        named = np.empty(len(chosen), object)
        for i, row in enumerate(chosen):
            named[i] = self.shown(row)
        return named

    def shown(self, labels):
        return tuple(self.classes[labels].tolist())

    def encode(self, against, graph):
        rows = self.in_order([against])
        rows = read_indicator(rows if sparse.issparse(rows) else np.asarray(rows)).toarray()
        if rows.shape != (1, len(self.classes)):
            raise ValueError(f"against is {against!r}; it must be labels in classes_, in the form that fit takes")
        if graph.violated(rows)[0]:
            raise ValueError(f"against violates the constraints {[c for c, _ in graph.constraints]}")
        return rows[0] > 0.0

    def scores(self, scores):
        return scores
