"""Files for a partition of the data, X and y, which are restored exactly.

Used by `estimators`.
"""

from __future__ import annotations

import errno
from itertools import chain
from os import fstat
from zipfile import ZIP_STORED

import numpy as np
from scipy import sparse

from .annotations import Any, PathLike
from .files import replacing
from .ragged import RaggedArray
from .tables import are_default, column_names
from .validation import check_matrix, name_array

_FORMAT = "sklearn_sparsemap partition 1"
_MAX_LABEL_BYTES = 256  # size of a label beyond which equal labels share one object, as memory is otherwise unbounded


def save_partition(path: str | PathLike[str], X: Any, y: Any) -> None:
    """Write samples to a file, for `fit_partitions` and `ParameterMixing`.

    The file is one of NumPy's (``.npz``, not compressed), without pickled objects.

    Parameters
    ----------
    path : str or path-like
        The file. An existing file is replaced once the new one is complete.
    X : RaggedArray, list of 2-D arrays or CSR matrices, 2-D array or CSR matrix
        Features.
    y : sequence
        Labels, label sequences, sequences of ints (such as heads of words), or an indicator matrix. Labels are str, or
        numbers.

    Raises
    ------
    ValueError
        If y has other values, or X and y differ in their number of samples.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn_sparsemap.datasets import load_partition, save_partition
    >>> path = Path(tempfile.mkdtemp(), "0.npz")
    >>> save_partition(path, [np.eye(2), np.ones((1, 2))], [["a", "b"], ["a"]])
    >>> X, y = load_partition(path)
    >>> X
    RaggedArray(n_samples=2, n_rows=3, n_features=2, dense)
    >>> y[0]
    array(['a', 'b'], dtype='<U1')
    """
    check_matrix(X)
    check_matrix(y, "y")
    names = column_names(y)
    if names is not None and not are_default(names):
        raise ValueError(
            "y is a table, and files hold no names of its columns; pass y.to_numpy(), and the names as the argument "
            "classes of fit_partitions"
        )
    X = np.asarray(X) if hasattr(X, "to_numpy") else X
    y = np.asarray(y) if hasattr(y, "to_numpy") else y
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype.hasobject and X.ndim == 1):
        X = RaggedArray.from_list(X)
    n_samples = X.shape[0]
    n_targets = y.shape[0] if hasattr(y, "shape") else len(y)
    if n_targets != n_samples:
        raise ValueError(f"X has {n_samples} samples, but y has {n_targets}; each sample needs one")
    arrays = {"format": np.array(_FORMAT), **_packed_samples(X), **_packed_targets(y)}
    with replacing(path) as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def _packed_samples(X):
    """Return the arrays of features, by name; absent ones are None."""
    if not isinstance(X, RaggedArray):
        return _packed("X", X)
    return {"X.samples": X.indptr, "X.groups": X.groups, "X.shapes": X.shapes, **_packed("X", X.values)}


def _packed_targets(y):
    """Return the arrays of targets, by name; absent ones are None."""
    flat, ends, names = y, None, None
    if isinstance(y, RaggedArray):
        flat, ends = y.values, y.indptr
    elif not hasattr(y, "ndim") or y.dtype.hasobject:
        flat = y = [each.tolist() if hasattr(each, "tolist") else each for each in y]
        if y and isinstance(y[0], list | tuple):
            flat = list(chain.from_iterable(y))
            ends = np.cumsum([0, *map(len, y)])
    if not sparse.issparse(flat):
        kinds = {type(label) for label in flat} if isinstance(flat, list) else set()
        flat = name_array(flat)
        if flat.dtype.kind not in "biufU" or len(kinds) > 1:
            raise ValueError(
                "labels in a file must be str or numbers, all of one kind, and str must not end with NUL; encode others"
            )
        if flat.dtype.kind == "U":
            names, flat = np.unique(flat, return_inverse=True)
            flat = flat.astype(np.int32)
    return {"y.labels": names, **_packed("y", flat), "y.samples": ends}


def load_partition(path: str | PathLike[str]) -> tuple[Any, Any]:
    """Read a file that `save_partition` has written.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    X : RaggedArray, ndarray or CSR array
    y : ndarray, CSR array, or list of ndarray

    Raises
    ------
    ValueError
        If the file was not written by `save_partition`, or is damaged.
    OSError
        If it cannot be read.
    """
    try:
        # NumPy does not close a damaged file that it opened itself.
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            _check_sizes(file.zip.infolist(), fstat(opened.fileno()).st_size)
            if str(file["format"]) != _FORMAT:
                raise KeyError("format")
            arrays = {name: file[name] for name in file.files}
        return _read(arrays)
    except MemoryError:
        raise
    except Exception as error:
        # With a damaged table of contents, zipfile seeks to a negative place, which also raises an OSError.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ValueError(f"{path} is not a complete file of save_partition ({error})") from error


def _check_sizes(members, n_bytes):
    """Raise ValueError if the arrays of a file could be larger than the file."""
    compressed = next((member.filename for member in members if member.compress_type != ZIP_STORED), None)
    if compressed is not None:
        raise ValueError(f"its array {compressed} is compressed, as save_partition never does; write it again")
    total = sum(member.file_size for member in members)
    if total > n_bytes:
        raise ValueError(f"its arrays have {total} bytes, but the file has {n_bytes}")


def _read(arrays):
    """Make X and y from the arrays of a file. Any exception means that the file is damaged."""
    X = _unpacked("X", arrays)
    y = _unpacked("y", arrays)
    if "X.samples" in arrays:
        X = RaggedArray(X, arrays["X.samples"], arrays.get("X.groups"), arrays.get("X.shapes"))
    if "y.labels" in arrays:
        labels = arrays["y.labels"]
        if labels.ndim != 1 or y.ndim != 1 or y.dtype.kind not in "iu" or not ((y >= 0) & (y < len(labels))).all():
            raise ValueError(f"y must be numbers of its {labels.size} labels")
        y = (labels.astype(object) if labels.itemsize > _MAX_LABEL_BYTES else labels)[y]
    if "y.samples" in arrays:
        y = RaggedArray(y, arrays["y.samples"])
    if X.shape[0] != y.shape[0]:
        raise ValueError(f"X has {X.shape[0]} samples, but y has {y.shape[0]}")
    return X, y.tolist() if isinstance(y, RaggedArray) else y


def _packed(name, values):
    """Return the arrays of an array or a matrix, by name."""
    if not sparse.issparse(values):
        values = np.asarray(values)
        if values.dtype.hasobject:
            raise ValueError(f"{name} holds objects, and files hold numbers only; turn them into numbers first")
        return {name: values}
    values = values.tocsr()
    parts = {"data": values.data, "indices": values.indices, "indptr": values.indptr, "shape": values.shape}
    return {f"{name}.{part}": np.asarray(array) for part, array in parts.items()}


def _unpacked(name, arrays):
    if name in arrays:
        return arrays[name]
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    # scipy would round indices that are floats.
    if not (indices.dtype.kind == indptr.dtype.kind == "i" and data.dtype.kind in "biuf"):
        types = ", ".join(str(array.dtype) for array in (data, indices, indptr))
        raise ValueError(f"{name} must hold numbers, and its indices integers; got {types}")
    shape = tuple(arrays[f"{name}.shape"].tolist())
    return check_matrix(sparse.csr_array((data, indices, indptr), shape=shape), name)
