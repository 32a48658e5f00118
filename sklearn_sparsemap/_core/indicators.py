"""Label sets: indicator matrices, the names of their columns, their missing entries, and collections of names.

Used by `estimators`, `factors`, `features`, `metrics` and `plotting`.
"""

import numbers
from collections.abc import Set, Sized
from itertools import chain

import numpy as np
from scipy import sparse

from .errors import SampleError
from .ordering import sorted_set
from .ragged import RaggedArray
from .tables import are_default, column_names, order_by
from .validation import check_matrix, check_no_missing, is_missing, quoted


def in_order(Y, classes, fitted=False, name="y", whose=None):
    """Return an indicator matrix with its columns in the order of some labels.

    Columns without names are taken in their order. These are the columns of arrays, and columns named 0, 1, 2 and so
    on. Labels without names have these names, too.

    Parameters
    ----------
    Y : table or array-like
    classes : sequence or None
        The labels.
    fitted : bool, default=False
        Whether these are the labels of a fitted model. If they have no names, any columns are taken in their order.
    name, whose : str
        The argument, and the origin of the labels, for messages.

    Raises
    ------
    ValueError
        If the names of the columns are not those of the labels.
    """
    names = column_names(Y, name)
    if names is None or classes is None:
        return Y
    labels = classes.tolist() if hasattr(classes, "tolist") else list(classes)
    if fitted and are_default(labels) and set(names) != set(labels):
        # The model was fitted with an array, so its labels have no names.
        return Y
    if whose is None:
        whose = "the labels that the model was fitted with" if fitted else "classes"
    remedy = f"name the columns of {name} as the labels, or pass an array in their order"
    order = order_by(names, labels, name, "column", whose, remedy=remedy)
    if order is None:
        return Y
    return Y.select(labels) if hasattr(Y, "column_names") else Y[labels]


def same_order(y_true, y_pred, classes=None, names=("y_true", "y_pred")):
    """Return two indicator matrices, or matrices of scores, with named columns in the same order.

    Parameters
    ----------
    y_true, y_pred : table or array-like
        Arrays, which have no names, are taken in their order.
    classes : sequence, default=None
        The order of the labels. By default, that of the first table.
    names : pair of str
        The arguments, for messages.

    Returns
    -------
    y_true, y_pred
    labels : list or None
        The names of the columns, if they have any.

    Raises
    ------
    ValueError
        If the names of the columns differ, or are not those of the labels.
    """
    given, whose = classes, "the labels"
    if given is None or are_default(list(given)):
        of_tables = [own and not are_default(own) and own for own in map(column_names, (y_true, y_pred), names)]
        given = of_tables[0] or of_tables[1] or None
        whose = f"the columns of {names[0] if of_tables[0] else names[1]}"
    y_true, y_pred = (in_order(y, given, name=name, whose=whose) for y, name in zip((y_true, y_pred), names))
    return y_true, y_pred, given


def read_known(Y):
    """Return an indicator matrix without missing entries, and a mask of its known labels (None if all are known).

    NaN, None and the missing values of pandas are missing. Numbers that an array or table holds as objects, such as
    columns of pandas' nullable types, become floats.
    """
    if sparse.issparse(Y):
        return check_matrix(Y, "y"), None
    try:
        values = np.asarray(Y)
    except ValueError:
        # Lists of different lengths; a later check of the data reports them.
        return Y, None
    if values.ndim != 2:
        return Y, None
    if values.dtype == object:
        entries = values.ravel().tolist()
        Y = values = as_numbers(values)
        missing = np.array([entry is None or is_missing(entry) for entry in entries], bool).reshape(values.shape)
    elif values.dtype.kind == "f":
        entries = []
        missing = np.isnan(values)
    else:
        return Y, None
    if not missing.any():
        return Y, None
    text = next((entry for entry in entries if isinstance(entry, str | bytes)), None)
    if text is not None:
        raise ValueError(
            f"y holds text, such as {quoted(text)}; it must be an indicator matrix of 0 and 1, as "
            "sklearn.preprocessing.MultiLabelBinarizer makes it"
        )
    return np.where(missing, 0, values).astype(np.float64), ~missing


def as_numbers(values):
    """Return an array of objects as floats if all of them are numbers or bools; other arrays as they are.

    Columns of pandas' nullable types, and columns of objects, become arrays of objects.
    """
    if values.dtype == object and all(isinstance(entry, numbers.Real | np.bool_) for entry in values.ravel().tolist()):
        return values.astype(np.float64)
    return values


def label_sets(y, named=False, what="y"):
    """Return samples that are collections of label names as a list of these; None if `y` has another form.

    Sets hold names. Lists and tuples of numbers are rows of an indicator matrix if they hold nothing but 0, 1 and
    missing entries, or have equal lengths.

    Parameters
    ----------
    y : object
        In the user's form.
    named : bool, default=False
        Whether lists and tuples always hold names, as in later calls of a model that was fitted with names.
    what : str, default="y"
        The name of `y` in messages.

    Raises
    ------
    ValueError
        If only some of the samples are collections.
    """
    if isinstance(y, str | bytes | dict | RaggedArray) or getattr(y, "ndim", 1) != 1 or not isinstance(y, Sized):
        return None
    if isinstance(y, np.ndarray) and y.dtype != object:
        return None
    samples = y.tolist() if hasattr(y, "tolist") else y.to_list() if hasattr(y, "to_list") else list(y)
    are_sequences = [isinstance(own, list | tuple | np.ndarray) and getattr(own, "ndim", 1) == 1 for own in samples]
    are_sets = [isinstance(own, Set) for own in samples]
    if not any(are_sequences) and not any(are_sets):
        return None
    for i, own in enumerate(samples):
        if not are_sequences[i] and not are_sets[i]:
            raise SampleError(
                what,
                i,
                f" is {quoted(own)}, while other samples are collections of labels; give each sample one, such as a "
                "set of names",
            )
    return samples if named or any(are_sets) or _hold_names(samples) else None


def _hold_names(samples):
    """Return whether sequences hold names of labels; see `label_sets`."""
    try:
        entries = set().union(*samples)
    except TypeError:
        # Entries that are lists are no names; a later check of the data reports the number of axes.
        return False
    if not entries:
        return True
    entries = [entry for entry in entries if entry is not None and not is_missing(entry)]
    is_table = len({len(own) for own in samples}) == 1
    if all(isinstance(entry, numbers.Number | np.bool_) for entry in entries):
        return not is_table and any(entry not in (0, 1) for entry in entries)
    # A table of two words, such as "0" and "1", is an indicator matrix read as text, which a later check refuses.
    return not (is_table and len(entries) <= 2 and any(len(set(own)) < len(own) for own in samples))


def names_in(samples):
    """Return the distinct names in collections, in the order in which they appear: dict of name -> None.

    Raises
    ------
    ValueError
        If a name is missing or not hashable.
    """
    names = {}
    for i, own in enumerate(samples):
        try:
            names.update(dict.fromkeys(sorted_set(own)))
        except TypeError as error:
            raise SampleError("y", i, f" is {quoted(own)}; names of labels must be hashable: {error}") from error
    if None in names:
        raise ValueError("y has the label None; leave it out, or give it a name")
    check_no_missing(names)
    return names


def as_indicator(samples, classes, whose="classes"):
    """Return collections of names as an indicator matrix: CSR of shape (n_samples, n_labels).

    Parameters
    ----------
    samples : list of collections of hashable
    classes : sequence
        The names of the columns.
    whose : str, default="classes"
        The origin of `classes`, for messages.

    Raises
    ------
    ValueError
        If a name is not among `classes`; the message names the sample.
    """
    labels = classes.tolist() if hasattr(classes, "tolist") else list(classes)
    column_of = {name: column for column, name in enumerate(labels)}
    for name in names_in(samples):
        if name not in column_of:
            i = next(i for i, own in enumerate(samples) if name in list(own))
            raise SampleError(
                "y",
                i,
                f" has the label {quoted(name)}, which is not among {whose}; pass all labels that can occur as the "
                "argument classes of fit or of the first partial_fit",
            )
    columns = [sorted({column_of[name] for name in own}) for own in samples]
    ends = np.cumsum([0, *map(len, columns)])
    indices = np.fromiter(chain.from_iterable(columns), np.int64, ends[-1])
    return sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(len(samples), len(labels)))
