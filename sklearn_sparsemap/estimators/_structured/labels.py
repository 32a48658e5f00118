"""Conversion of labels, which are hashable objects, to integer codes."""

from contextlib import suppress
from itertools import chain

import numpy as np

from ..._core.ragged import RaggedArray
from ..._core.validation import check_no_missing, name_array, quoted
from ...training._structure_task import UNKNOWN

# Types with a length that are not sequences of labels.
_NO_SEQUENCES = (str, bytes, dict, set, frozenset)


def label_array(labels):
    """Return labels as a 1-D array of their common type, or of objects if there is none."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for kind, dtype in ((str, None), (bool, bool), (int, np.int64), (float, np.float64)):
        if all(type(label) is kind for label in labels):
            with suppress(OverflowError):
                return name_array(labels) if kind is str else np.array(labels, dtype=dtype)
    array = np.empty(len(labels), dtype=object)
    for i, label in enumerate(labels):
        array[i] = label
    return array


def sorted_labels(labels):
    """Return the distinct labels, sorted if they can be compared, else in order of appearance."""
    different = list(dict.fromkeys(labels))
    with suppress(TypeError):
        different = sorted(different)
    return label_array(different)


def _check_classes(classes):
    """Return the parameter `classes` of `partial_fit` as an array of labels."""
    if isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.dtype != object:
        found = np.unique(classes)
        check_no_missing(found[-1:].tolist(), "classes")
        return found
    if isinstance(classes, str | bytes | dict) or not hasattr(classes, "__iter__"):
        raise ValueError(f"classes must be a sequence of labels; got {classes!r}")
    classes = list(classes)
    try:
        check_no_missing(classes, "classes")
        return sorted_labels(classes)
    except TypeError as error:
        raise ValueError(f"classes must be a 1-D sequence of hashable labels: {error}") from error


def flatten_labels(y, lengths):
    """Join label sequences, one label for each step of a sample.

    Parameters
    ----------
    y : sequence of sequences of hashable
    lengths : array of shape (n_samples,)
        Number of steps of each sample.

    Returns
    -------
    labels : list
        Python objects, so that equal labels of different array types are equal.

    Raises
    ------
    ValueError
        If a sample is not a sequence, or has the wrong length; the message names the sample.
    """
    if isinstance(y, RaggedArray) and y.values.ndim == 1:
        samples, found = None, y.lengths
    else:
        samples = []
        for i, sequence in enumerate(y):
            if isinstance(sequence, _NO_SEQUENCES) or not hasattr(sequence, "__len__"):
                raise ValueError(
                    f"y[{i}] is {quoted(sequence)}; it must be a sequence, one label for each step of X[{i}]"
                )
            if isinstance(sequence, np.ndarray) and sequence.ndim != 1:
                raise ValueError(f"y[{i}] has shape {sequence.shape}; it must be 1-D, one label for each step")
            samples.append(sequence.tolist() if hasattr(sequence, "tolist") else sequence)
        found = np.array([len(s) for s in samples])
    wrong = np.flatnonzero(found != lengths)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"X[{i}] has {lengths[i]} steps, but y[{i}] has {found[i]} labels; give one for each step")
    labels = y.values.tolist() if samples is None else list(chain.from_iterable(samples))
    try:
        check_no_missing(labels)
    except TypeError as error:
        raise ValueError(f"labels must be hashable: {error}") from error
    return labels


def check_padding(labels, lengths):
    """Raise ValueError if sequences of one length end with -1 or -100, which is the padding of batches.

    Parameters
    ----------
    labels : list
        Labels of all steps. Without a label 0, -1 and -100 are not padding.
    lengths : array of shape (n_samples,)
    """
    different = set(labels)
    found = [code for code in (-1, -100) if code in different]
    if not found or 0 not in different or len(lengths) < 2 or len(set(lengths.tolist())) > 1:
        return
    is_padded = np.array([label == found[0] for label in labels]).reshape(len(lengths), -1)
    if (is_padded[:, :-1] > is_padded[:, 1:]).any():
        return
    i = int(np.argmax(is_padded[:, -1]))
    n = int((~is_padded[i]).sum())
    raise ValueError(
        f"y[{i}] ends with {len(is_padded[i]) - n} labels of {found[0]}, which look like padding; pass sequences of "
        f"their own lengths, here X[{i}][:{n}] and y[{i}][:{n}], or rename this label"
    )


def check_target(y, remedy):
    """Raise ValueError for labels of flat samples that NumPy or scikit-learn would silently convert.

    Parameters
    ----------
    y : object
        In the user's form. Only containers that can hold objects are checked.
    remedy : str
        Advice for samples with several labels, which ends the message.

    Raises
    ------
    ValueError
        If a label is missing (NumPy writes NaN among str as "nan"), or is a set or a sequence of labels.
    """
    if (hasattr(y, "ndim") and y.ndim != 1) or isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        return
    if isinstance(y, np.ndarray) and y.dtype != object:
        return
    labels = y.tolist() if hasattr(y, "tolist") else list(y)
    several = [i for i, label in enumerate(labels) if isinstance(label, set | frozenset)]
    if not several and not _is_rectangular(labels):
        several = [i for i, label in enumerate(labels) if isinstance(label, list | tuple | np.ndarray)]
    if several:
        i = several[0]
        raise ValueError(f"y[{i}] is {quoted(labels[i])}, a legacy multi-label representation; {remedy}")
    with suppress(TypeError):
        check_no_missing(labels)


def _is_rectangular(labels):
    """Tell whether labels form an array with one or two axes."""
    lengths = {len(label) if isinstance(label, list | tuple | np.ndarray) else None for label in labels}
    return len(lengths) == 1


def given_classes(classes, known):
    """Return the labels of a stream.

    Parameters
    ----------
    classes : array-like or None
        The argument of `partial_fit`.
    known : array or None
        The labels of the first call; None in the first call.
    """
    if classes is None:
        if known is None:
            raise ValueError("classes must be given at the first call of partial_fit: all labels that will occur")
        return known
    given = _check_classes(classes)
    if known is not None and given.tolist() != known.tolist():
        raise ValueError(f"classes={given.tolist()} differ from those of the first call, {known.tolist()}; fit a clone")
    return given


def codes_of(labels, classes, unknown=False):
    """Return the codes of labels: -1 for labels that are not in `classes`; with `unknown`, `UNKNOWN` for None."""
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    if unknown:
        code_of[None] = UNKNOWN
    return np.fromiter((code_of.get(label, -1) for label in labels), np.int64, len(labels))


def where_known(labels):
    """Return the labels without None, which means unknown."""
    known = [label for label in labels if label is not None]
    if not known:
        raise ValueError("all labels of y are None; at least one must be known")
    return known


def encode_labels(labels, classes, indptr, unknown=False):
    """Return the codes of labels, as `codes_of`; a ValueError names the first label that is not in `classes`."""
    codes = codes_of(labels, classes, unknown)
    unseen = np.flatnonzero(codes == -1)
    if len(unseen):
        i = int(np.searchsorted(indptr, unseen[0], side="right") - 1)
        raise ValueError(
            f"y[{i}] has the label {quoted(labels[unseen[0]])}, which is not in classes; name every label in "
            "partial_fit(..., classes=...) at the first call, or pass on_new_labels='add' to a "
            "StructuredSparseMAPClassifier"
        )
    return codes
