"""Checks of the features, gold labels and constraints of label sets."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..._core.indicators import column_names
from ..._core.ragged import RaggedArray
from ..._core.validation import check_magnitude, check_matrix, keep_text
from ...inference._labels import LabelGraph, OneLabel
from .._structured.data import check_target, encode_labels, given_classes
from .data import names_in_edges, read_constraints, read_edges, read_indicator, read_names

_SEVERAL_LABELS = (
    "pass an indicator matrix of 0 and 1, as sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y) makes it"
)


class TargetsMixin:
    """Checks training data, and makes the label graph of `MultilabelLPSparseMAP`.

    A subclass has the parameters `label_graph`, `constraints` and `loss`. After the first call it has `classes_` and
    `_single`.
    """

    def _check_data(self, X, y, reset, classes=None, partial=False, has_unknown=False):
        """Check training data. With `has_unknown`, some entries were NaN, so a single column is an indicator matrix.

        Returns
        -------
        X : RaggedArray
        gold : CSR of shape (n_samples, n_labels)
        classes : array of shape (n_labels,)
        single : bool
            Whether y has one label for each sample.
        """
        is_table = column_names(y) is not None
        if isinstance(X, RaggedArray):
            raise ValueError("X is a RaggedArray; multilabel problems have one row of features a sample, a 2-D array")
        check_target(y, _SEVERAL_LABELS)
        checks = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "multi_output": True}
        X, y = validate_data(self, check_matrix(X), keep_text(y), reset=reset, **checks)
        X = RaggedArray._of_checked(X, np.arange(X.shape[0] + 1))
        check_magnitude(X)
        known = None if reset else self.classes_
        is_indicator = (not partial and classes is not None) or self.constraints or is_table
        is_indicator = is_indicator or has_unknown or (known is not None and not self._single)
        if y.ndim == 2 and y.shape[1] == 1 and not sparse.issparse(y) and not is_indicator:
            # scikit-learn reads a single column as labels. Here it is, unless something says that it is an indicator.
            y = column_or_1d(y, warn=True)
        single = y.ndim == 1
        if known is not None and single != self._single:
            was = "1-D" if self._single else "an indicator matrix"
            raise ValueError(f"y was {was} in the first call; got y of shape {y.shape}")
        if not single:
            return X, *self._check_indicator(y, classes, known), single
        check_classification_targets(y)
        if classes is not None and not partial:
            raise ValueError("classes name the columns of an indicator matrix; leave classes at None for a 1-D y")
        given = given_classes(classes, known) if partial else np.unique(y)
        codes = encode_labels(y.tolist(), given, np.arange(len(y) + 1))
        gold = sparse.csr_array((np.ones(len(y)), codes, np.arange(len(y) + 1)), shape=(len(y), len(given)))
        return X, gold, given, single

    def _check_indicator(self, y, classes, known):
        """Return an indicator matrix as CSR, and the names of its columns.

        Parameters
        ----------
        y : array or CSR
        classes : sequence or None
            The argument of `fit` or `partial_fit`, or the names of the columns.
        known : array or None
            Label names of earlier calls.
        """
        gold = read_indicator(y)
        if known is None and classes is None:
            classes = names_in_edges(self.constraints, gold.shape[1])
        if known is not None and gold.shape[1] != len(known):
            raise ValueError(f"y has {gold.shape[1]} labels, but the model was fitted with {len(known)}")
        given = read_names(classes, gold.shape[1]) if known is None or classes is not None else known
        if known is not None and given.tolist() != known.tolist():
            raise ValueError("classes differ from those of the first call; fit a clone")
        return gold, given

    def _check_known(self, known, graph):
        if known is not None and (self.loss == "hinge" or not (graph.is_plain or graph.forest is not None)):
            raise ValueError(
                "y has NaN for labels that are unknown; these need loss='sparsemap' or 'logistic', no edges, and no "
                "constraints except those by which each label implies at most one other label"
            )

    def _make_graph(self, classes, single, gold, weights):
        constraints = read_constraints(self.constraints, classes)
        if single:
            if constraints:
                raise ValueError("constraints are for indicator matrices; a 1-D y has exactly one label a sample")
            return OneLabel(len(classes))
        edges = read_edges(self.label_graph, classes, gold, weights, loops=self.loss != "hinge")
        if self.loss == "logistic":
            edges = edges[:0]
        graph = LabelGraph(len(classes), edges, constraints)
        graph.check_feasible()
        return graph
