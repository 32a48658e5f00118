"""Checks of index arrays. Compiled code, including scipy's, follows indices without bounds checks.

Code that takes a sparse matrix from a user or a file calls `check_sparse` first, because even scipy's conversions,
slices and products read out of bounds if indices are wrong. Kernels accept only matrices that passed.

Used by `_training`, `estimators`, `factors`, `features`, `inference`, `penalties`, `plain.py`, `ragged.py` and
`validation.py`.
"""

import numpy as np

from .errors import Place, error_at

_INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))
# Largest number of columns; kernels hold columns as int32.
_MAX_COLUMNS = np.iinfo(np.int32).max
_REMEDY = "make it again from its rows and columns (check_format(full_check=True) of CSR and CSC finds such faults)"


def check_not_masked(values, name):
    """Raise ValueError for a masked array, whose mask other functions would drop without a word."""
    if isinstance(values, np.ma.MaskedArray):
        raise error_at(
            name,
            "",
            " is a masked array, whose mask would be lost; fill it in by ",
            ".filled(value), or leave masked entries out",
        )


def check_sparse(matrix, name="X", name_row=None):
    """Raise ValueError unless the index arrays of a sparse matrix are valid.

    For CSR (and likewise CSC) that means: `indptr` has n_rows + 1 entries, begins at 0, never decreases, and ends
    within `indices` and `data`. Up to that end, `indices` are columns of the matrix, which has at most 2**31 - 1
    columns.

    Parameters
    ----------
    matrix : sparse matrix or array of any format
    name : str, default="X"
        The name of the matrix in messages; its rows are then samples.
    name_row : callable, default=None
        Function of a row, or of None for the whole matrix, that returns its name in messages, and more words on it.
    """
    found = _FAULTS[matrix.format](matrix)
    if found is None and matrix.shape[-1] > _MAX_COLUMNS:
        raise ValueError(
            f"{name} has {matrix.shape[-1]} columns; at most {_MAX_COLUMNS} are possible; "
            "hash features into fewer columns"
        )
    if found is not None:
        row, fault = found
        place, words = (Place(name, row), "") if name_row is None else name_row(row)
        raise error_at(place, f"{words}: the sparse matrix is malformed, {fault}; {_REMEDY}")


def are_indices(array, n, length=None):
    """Return whether an array is 1-D, of type int32 or int64, with all entries in [0, n), and of the given length."""
    is_plain = not _types(indices=array) and (length is None or len(array) == length)
    return is_plain and _first_outside(array, n) is None


def are_ends(array, n, length):
    """Return whether an array is a valid `indptr`: length + 1 entries that rise from 0 to n."""
    if _types(ends=array) or len(array) != length + 1:
        return False
    return bool(array[0] == 0 and array[-1] == n and (array[1:] >= array[:-1]).all())


def sample_in(name, i):
    """Return the name of a sample of the argument `name`, which is None if users have no name for it."""
    return f"sample {i}" if name is None else Place(name, i)


def check_each(matrices, name):
    """Check each of several sparse matrices, which are the samples of the argument `name` (see `sample_in`)."""
    for i, matrix in enumerate(matrices):
        check_sparse(matrix, name_row=lambda row, i=i: (sample_in(name, i), "" if row is None else f" (row {row})"))


def row_namer(name, indptr):
    """Return a function that names a row of the matrix that stacks the rows of all samples; see `check_sparse`.

    Parameters
    ----------
    name : str or None
        The argument that holds the samples; see `sample_in`.
    indptr : int array of shape (n_samples + 1,)
        The beginning of each sample's rows.
    """

    def name_row(row):
        i = None if row is None or row >= indptr[-1] else int(np.searchsorted(indptr, row, side="right")) - 1
        return (
            (f"rows of {name or 'all samples'}", "")
            if i is None
            else (sample_in(name, i), f" (row {row - int(indptr[i])})")
        )

    return name_row


def ends_fit(matrices):
    """Return whether all matrices are CSR with index arrays of valid types and lengths.

    This is a part of `check_sparse` for many matrices at once. The rest can be checked after stacking them.
    """
    if any(m.format != "csr" or m.ndim != 2 for m in matrices):
        return False
    pointers, indices, data = ([getattr(m, part) for m in matrices] for part in ("indptr", "indices", "data"))
    if not all(isinstance(a, np.ndarray) and a.ndim == 1 for arrays in (pointers, indices, data) for a in arrays):
        return False
    if not {a.dtype for arrays in (pointers, indices) for a in arrays}.issubset(_INDEX_TYPES):
        return False
    if any(len(p) != m.shape[0] + 1 or p[0] for p, m in zip(pointers, matrices)):
        return False
    return all(0 <= p[-1] <= min(len(i), len(d)) for p, i, d in zip(pointers, indices, data))


def can_pick(matrix, rows):
    """Return whether the entries of some rows of a CSR matrix are in bounds, so that these rows can be selected.

    This takes at most as long as the selection, whereas `check_sparse` reads all rows.
    """
    if len(matrix.indptr) != matrix.shape[0] + 1:
        return False
    first, last = matrix.indptr[rows], matrix.indptr[rows + 1]
    n = min(len(matrix.indices), len(matrix.data))
    return bool(((first >= 0) & (first <= last) & (last <= n)).all())


def _compressed(matrix):
    """Return None for a valid CSR, CSC or BSR matrix, else the faulty row (None if unknown) and a text."""
    by_column = matrix.format == "csc"
    is_blocks = matrix.format == "bsr"
    shape = (1, *matrix.shape)[-2:]
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    fault = _types(indptr=indptr, indices=indices) or _axes(data, 3 if is_blocks else 1)
    if fault:
        return None, fault
    if is_blocks:
        if 0 in data.shape[1:] or any(n % m for n, m in zip(shape, data.shape[1:])):
            return None, f"its blocks have shape {data.shape[1:]}, its own is {shape}"
        shape = tuple(n // m for n, m in zip(shape, data.shape[1:]))
    n_lines, n_places = shape[::-1] if by_column else shape
    line, place = ("column", "row") if by_column else ("row", "column")
    found = _fault_of_ends(indptr, n_lines, min(len(indices), len(data)), line)
    if found is None:
        indices = indices[: indptr[-1]]
        at = _first_outside(indices, n_places)
        if at is None:
            return None
        on = int(np.searchsorted(indptr, at, side="right")) - 1
        found = on, f"it has an entry in {place} {indices[at]}, but there are {n_places} {place}s"
    return None if by_column or is_blocks else found[0], found[1]


def _fault_of_ends(indptr, n_lines, n, line):
    """Return None if lines (rows or columns) of n entries can begin and end at `indptr`, else as `_compressed`."""
    if len(indptr) != n_lines + 1:
        return None, f"`indptr` has {len(indptr)} entries for {n_lines} {line}s"
    if indptr[0] != 0:
        return None, f"`indptr` begins at {indptr[0]}, not at 0"
    falls = indptr[1:] < indptr[:-1]
    if indptr[-1] <= n and not falls.any():
        return None
    wrong = np.flatnonzero((indptr < 0) | (indptr > n))
    at = int(wrong[0]) - 1 if len(wrong) else int(np.argmax(falls))
    return at, f"by `indptr` a {line} runs from {indptr[at]} to {indptr[at + 1]} of {n} entries"


def _coordinates(matrix):
    """Like `_compressed`, for COO."""
    coords = getattr(matrix, "coords", None) or (matrix.row, matrix.col)
    names = ("row", "column") if len(coords) == 2 else [f"axis {k}" for k in range(len(coords))]
    fault = _types(**{f"coords[{k}]": values for k, values in enumerate(coords)}) or _axes(matrix.data, 1)
    if fault or len(coords) != len(matrix.shape):
        return None, fault or f"there are coordinates of {len(coords)} axes, but its shape is {matrix.shape}"
    if {len(values) for values in coords} != {len(matrix.data)}:
        return None, f"there are {[len(v) for v in coords]} coordinates for {len(matrix.data)} entries"
    for name, values, n in zip(names, coords, matrix.shape):
        at = _first_outside(values, n)
        if at is not None:
            row = int(coords[0][at]) if name == "column" else None
            return row, f"it has an entry in {name} {values[at]}, but there are {n} {name}s"
    return None


def _diagonals(matrix):
    """Like `_compressed`, for DIA."""
    fault = _types(offsets=matrix.offsets) or _axes(matrix.data, 2)
    if fault:
        return None, fault
    if len(matrix.offsets) != len(matrix.data):
        return None, f"there are {len(matrix.offsets)} offsets for {len(matrix.data)} diagonals"
    if (np.abs(matrix.offsets) > max(matrix.shape)).any():
        return None, f"offsets are beyond its shape {matrix.shape}"
    return None


def _lists(matrix):
    """Like `_compressed`, for LIL."""
    n_rows, n_columns = matrix.shape
    if not (np.shape(matrix.rows) == np.shape(matrix.data) == (n_rows,)):
        return None, f"there are lists of {np.shape(matrix.rows)} and {np.shape(matrix.data)} for {n_rows} rows"
    for row, (columns, values) in enumerate(zip(matrix.rows, matrix.data)):
        if len(columns) != len(values):
            return row, f"there are {len(columns)} columns for {len(values)} values"
        wrong = [column for column in columns if not 0 <= column < n_columns]
        if wrong:
            return row, f"it has an entry in column {wrong[0]}, but there are {n_columns} columns"
    return None


def _keys(matrix):
    """Like `_compressed`, for DOK."""
    for key in matrix.keys():  # noqa: SIM118, a DOK matrix is iterated by rows
        places = key if isinstance(key, tuple) else (key,)
        if len(places) != len(matrix.shape) or not all(0 <= k < n for k, n in zip(places, matrix.shape)):
            return None, f"it has an entry at {key}, but its shape is {matrix.shape}"
    return None


_FAULTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), _compressed),
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": _keys,
}


def _types(**arrays):
    """Return the fault in the type or number of axes of index arrays, or an empty text."""
    for name, array in arrays.items():
        fault = _axes(array, 1, name)
        if fault or array.dtype not in _INDEX_TYPES:
            return fault or f"`{name}` is of {array.dtype}, not of int32 or int64"
    return ""


def _axes(array, n_axes, name="data"):
    if not isinstance(array, np.ndarray) or array.ndim != n_axes:
        found = f"{array.ndim}-D" if isinstance(array, np.ndarray) else type(array).__name__
        return f"`{name}` must be a {n_axes}-D array, but is {found}"
    return ""


def _first_outside(indices, n):
    """Return the position of the first entry that is not in [0, n), or None."""
    # Negative entries are large as unsigned numbers, so one pass finds both kinds.
    if not len(indices) or indices.view(f"u{indices.itemsize}").max() < n:
        return None
    return int(np.argmax((indices < 0) | (indices >= n)))
