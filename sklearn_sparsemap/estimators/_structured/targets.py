"""The parameter `structure`, and the four forms of targets: one label each, label sequences, structures, assignments.

All forms have the same methods. Inside, labels are codes, and other structures have the user's form; see
`LinearStructuredModel`. `classes` are the labels of an estimator, None if structures are not made of labels.

Used by `base.py`, `classifier.py`, `face.py`, `group_lasso.py`, `perceptron.py` and `stream.py`.
"""

from collections.abc import Iterable, Sized
from functools import singledispatch

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, column_or_1d

from ..._core.errors import SampleError, naming
from ..._core.ragged import RaggedArray, ragged_of_checked
from ..._core.validation import IGNORED, are_empty, check_same_length, keep_text, quoted
from ..._training._structure_task import UNKNOWN, SequenceTask, SingleLabelTask, StructureTask, object_array
from ...factors import FactorGraph
from ...structures import DependencyTree, LinearChain, Matching, Simplex, Structure
from .._failures import warn_user
from .._partitions import flat_labels
from .data import (
    SEVERAL_LABELS,
    are_of_steps,
    check_flat,
    check_padding,
    check_rows,
    check_target,
    codes_of,
    encode_labels,
    flatten_labels,
    given_classes,
    have_rows,
    sorted_labels,
    split_step_weights,
)
from .graph_builder import FixedGraph, GraphBuilder
from .restrictions import check_known_length

_STRUCTURES = {"auto": Simplex, "chain": LinearChain, "tree": DependencyTree, "matching": Matching}


@singledispatch
def resolve_structure(structure, X=None, fitted=None):
    """Return the Structure, `GraphBuilder` or `FixedGraph` for the parameter `structure`.

    It may depend on the samples. Without samples, it is that of the fit, if this has read it from the parameter.
    """
    if isinstance(structure, str) and structure in _STRUCTURES:
        return _STRUCTURES[structure]()
    if callable(structure) and not isinstance(structure, type):
        return GraphBuilder(structure)
    raise ValueError(
        f"structure={structure!r} is not one of {', '.join(map(repr, _STRUCTURES))}, a Structure, such as Matching() "
        "or Simplex(), a FactorGraph, or a function from a sample to one"
    )


@resolve_structure.register
def _(structure: Structure, X=None, fitted=None):
    of_rows = structure.in_estimators.of_rows
    if of_rows is None:
        return structure
    is_of_rows = fitted == of_rows if X is None else have_rows(X)
    return of_rows if is_of_rows else structure


@resolve_structure.register
def _(structure: FactorGraph, X=None, fitted=None):
    return FixedGraph(structure)


class OtherStructures:
    """Structures that are not made of labels, such as trees."""

    def new_task(self, structure, X, n_labels):
        """Return the task of samples of a structure; the number of labels is for structures that are made of labels."""
        return StructureTask(structure, X, structure.in_estimators.row_outputs or 1)

    def features(self, estimator, structure, X):
        """Return the features of samples to predict as a RaggedArray; a fitted estimator checks them."""
        return check_rows(estimator, _ndim_of_rows(structure), X, reset=False)

    def without_empty(self, X, y, sample_weight=None):
        """Leave out training samples that have no steps, with a warning that counts them.

        Parameters
        ----------
        X, y : sequences of samples
            In the user's form. If they are not sequences of the same length, a later check raises an error.
        sample_weight : array-like of shape (n_samples,), or sequence of arrays, default=None

        Returns
        -------
        X, y, sample_weight
        kept : int array or None
            The positions of the samples that are left; None for all.
        """
        return X, y, sample_weight, None

    def training_data(self, estimator, structure, X, y, *, reset=True, classes=None, unknown=False):
        """Check training data; return the features, the gold structures and the labels in their internal form.

        Parameters
        ----------
        estimator : LinearStructuredModel
            With `reset`, it gets `n_features_in_` and, if the features have names, `feature_names_in_`.
        structure : Structure or GraphBuilder
        X, y : object
            In the user's form.
        reset : bool, default=True
            Whether the features may differ from those of earlier calls.
        classes : ndarray, default=None
            All labels. By default, those of `y`.
        unknown : bool, default=False
            Whether labels of steps may be None.

        Returns
        -------
        X : RaggedArray
        gold : int array, RaggedArray or object array
            See `LinearStructuredModel`.
        classes : ndarray or None
        """
        X = check_rows(estimator, _ndim_of_rows(structure), X, y, reset=reset)
        return X, object_array(list(y)), None

    def split_weights(self, sample_weight, lengths, is_allowed=True):
        """Split weights of steps into those of samples, and those of steps; see `split_step_weights`.

        Weights of samples are returned with None. A ValueError says so if weights of steps are not allowed, because
        of the structure, or because the estimator does not learn from them.
        """
        if are_of_steps(sample_weight):
            raise ValueError(
                "sample_weight has several weights for a sample; only StructuredSparseMAPClassifier learns from "
                "weights of steps, for structures made of labels, such as 'chain'; pass one weight for each sample"
            )
        return sample_weight, None

    def given_classes(self, structure, classes, known):
        """Return the labels of a stream, given the argument of `partial_fit` and the labels of the first call."""
        if classes is not None:
            raise ValueError(f"{structure!r} is not made of labels; leave classes at None")

    def read(self, y, lengths, classes):
        """Return structures of samples of some lengths in the internal form.

        The codes of labels that are not in `classes` are -1.
        """
        check_same_length(lengths, y)
        return object_array(list(y))

    def restrict(self, task, X, classes, known, scores):
        """Return a copy of the scores, with -inf for parts that contradict the known entries.

        Parameters
        ----------
        task : Task
            The task of these samples. That of graphs is changed: variables known to be on get factors.
        X : RaggedArray
        classes : array or None
        known : sequence
            For each sample, a structure with None for unknown entries, or None if nothing is known.
        scores : array of shape (n_rows, n_outputs)

        Returns
        -------
        scores : array of shape (n_rows, n_outputs)

        Raises
        ------
        ValueError
            If `known` does not match the samples.
        """
        check_known_length(known, len(X))
        structure = task.structure
        scores = scores.copy()
        for i, entries in enumerate(known):
            if entries is None:
                continue
            shape = structure.scores_shape(tuple(X.grids[i].tolist()), 1)
            first, last = X.indptr[i], X.indptr[i + 1]
            try:
                entries = list(entries) if isinstance(entries, Iterable) else [entries]
                forbidden = structure.forbidden_by(entries, shape)
            except ValueError as error:
                raise SampleError("known", i, f": {error}") from None
            if forbidden is None:
                raise ValueError(
                    "known is for structures made of labels, choices, trees without labels, matchings and "
                    f"hyperpaths; got {structure!r}"
                )
            scores[first:last][forbidden.reshape(-1)] = -np.inf
        return scores

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


class GraphAssignments(OtherStructures):
    """Assignments of factor graphs, which a `GraphBuilder` makes of samples."""

    def new_task(self, structure, X, n_labels):
        return structure.new_task(X)

    def features(self, estimator, structure, X):
        X, extras = structure.split(X)
        return _with_extras(super().features(estimator, structure, X), extras)

    def training_data(self, estimator, structure, X, y, **options):
        X, extras = structure.split(X)
        X, gold, classes = super().training_data(estimator, structure, X, y, **options)
        return _with_extras(X, extras), gold, classes

    def restrict(self, task, X, classes, known, scores):
        check_known_length(known, len(X))
        return task.restrict(scores, known)


class Labels(OtherStructures):
    """Base class of targets that are made of labels."""

    def given_classes(self, structure, classes, known):
        return given_classes(classes, known)

    def restrict(self, task, X, classes, known, scores):
        check_known_length(known, len(X))
        lengths = X.lengths.tolist()
        sets, known = _split_sets(known, lengths)
        with naming(y="known"):
            labels = flatten_labels(self._labels_of_rows(known, lengths), X.lengths)
        codes = codes_of(labels, classes, unknown=True)
        if (codes == -1).any():
            row = int(np.argmax(codes == -1))
            i = int(np.searchsorted(X.indptr, row, side="right") - 1)
            raise SampleError("known", i, f" has the label {quoted(labels[row])}, which is not in classes_; use None")
        scores = scores.copy()
        rows = np.flatnonzero(codes != UNKNOWN)
        kept = scores[rows, codes[rows]]
        scores[rows] = -np.inf
        scores[rows, codes[rows]] = kept
        numbers = {label: k for k, label in enumerate(classes.tolist())}
        for i, step, allowed in sets:
            found = [numbers[label] for label in allowed if label in numbers]
            if not found:
                labels = sorted(map(quoted, allowed))
                fault = (
                    f" allows {', '.join(labels) or 'no label'} in step {step}, none of which is in classes_; use None"
                )
                raise SampleError("known", i, fault)
            scores[X.indptr[i] + step, np.setdiff1d(np.arange(len(numbers)), found)] = -np.inf
        return scores

    def named(self, codes, classes):
        return classes[np.asarray(codes)]

    def _codes(self, labels, classes):
        code = {label: i for i, label in enumerate(classes.tolist())}
        unknown = [label for label in labels if label not in code]
        if unknown:
            raise ValueError(f"against has the label {unknown[0]!r}, which is not in classes_")
        return np.array([code[label] for label in labels])

    def labels(self, classes):
        return classes.tolist()

    def labels_in(self, y):
        return dict.fromkeys(label for label in flat_labels(y) if label is not None)


class LabelSequences(Labels):
    """Sequences of labels, one for each row of a sample; None is an unknown label."""

    new_task = SequenceTask

    def features(self, estimator, structure, X):
        # Only label sequences may have no rows.
        return check_rows(estimator, structure.score_ndim - 1, X, reset=False, allow_empty=True)

    def without_empty(self, X, y, sample_weight=None):
        for samples in (X, y):
            is_table = hasattr(samples, "columns") or sparse.issparse(samples)
            if is_table or not isinstance(samples, Sized) or isinstance(samples, str | bytes | dict):
                return X, y, sample_weight, None
        if len(X) != len(y):
            return X, y, sample_weight, None
        empty = are_empty(X) & are_empty(y)
        if not empty.any() or empty.all():
            return X, y, sample_weight, None
        n_empty = empty.sum()
        warn_user(f"samples without steps are left out: {n_empty} of {len(X)}, the first of them X[{empty.argmax()}]")
        kept = np.flatnonzero(~empty)
        X = _taken(X, kept)
        y = _taken(y, kept)
        if sample_weight is not None and len(sample_weight) == len(empty):
            sample_weight = _safe_indexing(sample_weight, kept)
        return X, y, sample_weight, kept

    def training_data(self, estimator, structure, X, y, *, reset=True, classes=None, unknown=False):
        X = check_rows(estimator, structure.score_ndim - 1, X, y, reset=reset)
        labels = flatten_labels(y, X.lengths)
        known = [label for label in labels if label is not None]
        if len(known) < len(labels) and not unknown:
            raise ValueError(
                "y has labels of None, which are unknown; only fit of StructuredSparseMAPClassifier learns from "
                "samples with unknown labels"
            )
        if classes is None and not known:
            raise ValueError("all labels of y are None; at least one must be known")
        check_padding(labels, X.lengths)
        if classes is None:
            classes = sorted_labels(known)
            codes = codes_of(labels, classes, unknown)
        else:
            codes = encode_labels(labels, classes, X.indptr, unknown)
        return X, ragged_of_checked(codes, X.indptr), classes

    def split_weights(self, sample_weight, lengths, is_allowed=True):
        if is_allowed and are_of_steps(sample_weight):
            return split_step_weights(sample_weight, lengths)
        return super().split_weights(sample_weight, lengths)

    def given_classes(self, structure, classes, known):
        classes = given_classes(classes, known)
        if IGNORED in classes.tolist():
            raise ValueError(
                f"classes has the label {IGNORED}, with which PyTorch marks steps to ignore; leave it out, and "
                "write None in y"
            )
        return classes

    def read(self, y, lengths, classes):
        check_same_length(lengths, y)
        return codes_of(flatten_labels(y, lengths), classes, unknown=True)

    def _labels_of_rows(self, known, lengths):
        """Return a label, or None, for each row of each sample, given known entries or None for each sample."""
        return [[None] * n if entries is None else entries for entries, n in zip(known, lengths)]

    def encode(self, structure, classes):
        return self._codes(structure.tolist() if hasattr(structure, "tolist") else list(structure), classes)


class SingleLabels(Labels):
    """One label for each sample."""

    new_task = SingleLabelTask

    def features(self, estimator, structure, X):
        return check_flat(estimator, X, reset=False)[0]

    def training_data(self, estimator, structure, X, y, *, reset=True, classes=None, unknown=False):
        X, y = check_flat(estimator, X, y, reset=reset)
        if classes is None:
            # np.unique keeps the type of a label array, which lists of Python objects would lose.
            classes = np.unique(y)
        return X, encode_labels(y.tolist(), classes, X.indptr), classes

    def split_weights(self, sample_weight, lengths, is_allowed=True):
        # A later check reads the weights as an array.
        return sample_weight, None

    def read(self, y, lengths, classes):
        check_target(y, SEVERAL_LABELS)
        y = column_or_1d(keep_text(y))
        check_same_length(lengths, y)
        return codes_of(y.tolist(), classes)

    def _labels_of_rows(self, known, lengths):
        return [[label] for label in known]

    def encode(self, structure, classes):
        return self._codes([structure], classes)[0]

    def strata(self, gold):
        return gold


def targets_of(structure):
    """Return the form of the targets of a Structure or GraphBuilder."""
    if structure.is_flat:
        return SingleLabels()
    if structure.labelled:
        return LabelSequences()
    return GraphAssignments() if structure.uses_graphs else OtherStructures()


def _ndim_of_rows(structure):
    """Return the number of axes of scores without the axis of outputs, or None if it differs between samples."""
    if structure.score_ndim is None:
        return None
    return structure.score_ndim - (structure.in_estimators.row_outputs is not None)


def _with_extras(X, extras):
    """Return the features of samples with the extra arguments of the user's function, if there are any."""
    if extras is not None:
        X.extras = extras
    return X


def _split_sets(known, lengths):
    """Split sets of allowed labels from known labels.

    Parameters
    ----------
    known : sequence
        For each sample, its label, its labels by steps, or None; a set in place of a label has the allowed ones.
    lengths : list of int
        Numbers of steps.

    Returns
    -------
    sets : list of tuples (sample, step, set)
    known : list
        With None in place of sets.
    """
    sets = []
    others = list(known)
    for i, entries in enumerate(others):
        if isinstance(entries, set | frozenset):
            sets.append((i, 0, entries))
            others[i] = None
        elif isinstance(entries, list | tuple | np.ndarray) and len(entries) == lengths[i]:
            own = [(i, step, entry) for step, entry in enumerate(entries) if isinstance(entry, set | frozenset)]
            if own:
                sets += own
                others[i] = [None if isinstance(entry, set | frozenset) else entry for entry in entries]
    return sets, others


def _taken(samples, kept):
    """Return a selection of samples in the user's form."""
    if isinstance(samples, RaggedArray):
        return samples[kept]
    samples = list(samples)
    return [samples[i] for i in kept.tolist()]
