"""Names of the columns of indicator matrices, and their missing entries."""

import numpy as np
from scipy import sparse

from .validation import check_matrix, is_missing, quoted


def column_names(Y):
    """Return the names of the columns of a table as a list; None for other objects.

    Raises
    ------
    ValueError
        If two columns have the same name.
    """
    # The attribute `columns` of a table of Arrow has the columns themselves.
    names = getattr(Y, "column_names", None)
    names = getattr(Y, "columns", None) if names is None else names
    if names is None or getattr(Y, "ndim", 2) != 2:
        return None
    names, seen = list(names), set()
    for name in names:
        if name in seen:
            raise ValueError(f"y has two columns {quoted(name)}; two labels have the same name, so rename one")
        seen.add(name)
    return names


def in_order(Y, classes, fitted=False):
    """Return an indicator matrix with its columns in the order of some labels.

    Columns without names are taken in their order. These are the columns of arrays, and columns named 0, 1, 2 and so
    on. Labels without names have these names, too.

    Parameters
    ----------
    Y : table or array-like
    classes : sequence or None
        The labels.
    fitted : bool, default=False
        Whether these are the labels of a fitted model, for messages.

    Raises
    ------
    ValueError
        If the names of the columns are not those of the labels.
    """
    names = column_names(Y)
    if names is None or classes is None:
        return Y
    labels = classes.tolist() if hasattr(classes, "tolist") else list(classes)
    if names == labels:
        return Y
    if len(set(labels)) == len(labels) and set(names) == set(labels):
        return Y.select(labels) if hasattr(Y, "column_names") else Y[labels]
    unnamed = list(range(len(names)))
    if names == unnamed or (fitted and labels == list(range(len(labels)))):
        return Y
    whose = "the labels that the model was fitted with" if fitted else "classes"
    unknown, absent = [name for name in names if name not in labels], [name for name in labels if name not in names]
    found = [f"y has the column {quoted(unknown[0])}, which is not among {whose}"] if unknown else []
    found += [f"y has no column {quoted(absent[0])}, which is among {whose}"] if absent else []
    raise ValueError(f"{'; '.join(found)}; name the columns of y as the labels, or pass an array in their order")


def read_known(Y):
    """Return an indicator matrix without missing entries, and a mask of its known labels (None if all are known).

    NaN, None and the missing values of pandas are missing.
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
        missing = np.array([entry is None or is_missing(entry) for entry in entries], bool).reshape(values.shape)
    elif values.dtype.kind == "f":
        entries, missing = [], np.isnan(values)
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
