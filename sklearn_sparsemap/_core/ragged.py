"""RaggedArray: per-sample arrays of different lengths, stored as one array.

Used by `_training`, `distributed`, `estimators`, `features`, `inference`, `metrics`, `indicators.py`,
`partition_files.py` and `validation.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from .annotations import Any, ArrayLike, DTypeLike, Iterable, Iterator, NDArray, Sequence
from .errors import error_at
from .html import N_ROWS, as_html, table
from .indices import can_pick, check_each, check_not_masked, check_sparse, ends_fit, row_namer, sample_in
from .tables import check_equal_columns


class RaggedArray:
    """A sequence of per-sample arrays with different numbers of rows, stored as one flat array.

    Sample ``i`` is ``values[indptr[i]:indptr[i + 1]]``. scikit-learn's splitters, `train_test_split` and
    `GridSearchCV` index it like any array of samples; nothing is copied per sample.

    Parameters
    ----------
    values : ndarray of shape (n_rows, ...) or CSR of shape (n_rows, n_features)
        The concatenated rows of all samples.
    indptr : array-like of shape (n_samples + 1,)
        The beginnings of the samples, and the end of the last one: non-decreasing from 0 to n_rows.
    groups : array-like of shape (n_features,), default=None
        The group of each column, such as its template, if the values are features.
    shapes : array-like of shape (n_samples, n_axes), default=None
        The shape of each sample, if its rows are the cells of a grid in C order. (A 2 x 3 matching has 6 rows.)
    group_names : sequence of str, default=None
        Names of the groups, by their numbers.

    Attributes
    ----------
    values, indptr, groups, shapes, group_names
        As above; `indptr` and `shapes` are int64.

    Raises
    ------
    ValueError
        If `indptr` does not divide the rows of `values`, `groups` does not have one entry for each column, `shapes` do
        not match the numbers of rows, or `values` is a malformed sparse matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import RaggedArray
    >>> X = RaggedArray.from_list([np.zeros((2, 3)), np.ones((1, 3))])
    >>> len(X), X[1].shape, X[[1, 0]].lengths.tolist()
    (2, (1, 3), [1, 2])
    """

    def __init__(
        self,
        values: Any,
        indptr: ArrayLike,
        groups: ArrayLike | None = None,
        shapes: ArrayLike | None = None,
        group_names: Sequence[str] | None = None,
    ) -> None:
        if sparse.issparse(values) and values.format != "csr":
            check_sparse(values, "values")
            values = values.tocsr()
        if isinstance(values, np.ma.MaskedArray):
            check_not_masked(values, "values")
        self.values = values if sparse.issparse(values) else np.asarray(values)
        indptr = np.asarray(indptr)
        # Floats are kept as they are and refused by `_check`, because a conversion would round them.
        self.indptr = indptr.astype(np.int64) if indptr.dtype.kind in "iu" else indptr
        self.groups = None if groups is None else np.asarray(groups)
        self.shapes = None if shapes is None else np.asarray(shapes)
        self.group_names = group_names
        # Extra arguments of each sample for a user's function that makes its structure: list of tuples, or None.
        # `estimators/_structured` sets and reads them.
        self.extras = None
        self._check()
        if self.shapes is not None:
            self.shapes = self.shapes.astype(np.int64)

    def _check(self, name=None):
        """Raise ValueError unless the attributes are consistent; users may have edited them.

        Kernels rely on this: `indptr` rises from 0 to the number of rows, and `values` passes `check_sparse`.

        Parameters
        ----------
        name : str, default=None
            The argument that holds the samples, for messages.
        """
        values, indptr = self.values, self.indptr
        is_sparse = sparse.issparse(values)
        is_array = values.format == "csr" if is_sparse else isinstance(values, np.ndarray)
        if not is_array or values.ndim == 0 or not isinstance(indptr, np.ndarray) or indptr.dtype.kind not in "iu":
            raise ValueError("values must have rows, and indptr must be integers")
        n_rows = values.shape[0]
        if indptr.ndim != 1 or len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != n_rows:
            raise ValueError(f"indptr must run from 0 to the number of rows, {n_rows}; got {indptr!r}")
        if np.any(indptr[1:] < indptr[:-1]):
            raise ValueError("indptr must not decrease")
        if self.groups is not None and (values.ndim != 2 or np.shape(self.groups) != (values.shape[1],)):
            raise ValueError(
                f"groups must name the group of each column of values (shape {values.shape}); "
                f"got shape {np.shape(self.groups)}"
            )
        if self.shapes is not None:
            self._check_shapes()
        if is_sparse:
            check_sparse(values, name_row=row_namer(name, indptr))

    def _check_shapes(self):
        shapes = np.asarray(self.shapes)
        lengths = np.diff(self.indptr)
        if shapes.ndim != 2 or len(shapes) != len(lengths) or shapes.dtype.kind not in "iu":
            raise ValueError(f"shapes must hold one row of integers for each of {len(lengths)} samples")
        # In floating point, so that the product cannot overflow.
        fits = (shapes >= 0).all(axis=1) & (shapes.prod(axis=1, dtype=np.float64) == lengths)
        wrong = np.flatnonzero(~fits)
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(f"sample {i} has {lengths[i]} rows, but shapes[{i}] is {shapes[i].tolist()}")

    @classmethod
    def from_list(cls, arrays: Iterable[Any], dtype: DTypeLike | None = None) -> RaggedArray:
        """Join per-sample arrays (all dense or all sparse, same number of columns).

        Parameters
        ----------
        arrays : sequence of array-like
            One array or sparse matrix per sample.
        dtype : dtype, default=None
            The type of the values. By default, the common type of the arrays.

        Returns
        -------
        ragged : RaggedArray
        """
        return cls._join(list(arrays), dtype)

    @classmethod
    def _join(cls, arrays, dtype, name=None):
        """Implement `from_list`; `name` is the argument that holds the arrays, for messages."""
        is_sparse = [sparse.issparse(a) for a in arrays]
        if not arrays:
            return cls(np.empty(0, dtype=dtype or np.float64), [0])
        if any(is_sparse) and not all(is_sparse):
            odd = is_sparse.index(not is_sparse[0])
            kind = "sparse" if is_sparse[odd] else "dense"
            raise error_at(sample_in(name, odd), f" is {kind}, but {sample_in(name, 0)} is not; make all samples alike")
        if not is_sparse[0]:
            if hasattr(arrays[0], "columns"):
                check_equal_columns(arrays, partial(sample_in, name))
            for i, a in enumerate(arrays):
                if isinstance(a, np.ma.MaskedArray):
                    check_not_masked(a, sample_in(name, i))
            arrays = [np.asarray(a) for a in arrays]
        for i, a in enumerate(arrays):
            if a.ndim == 0 or a.shape[1:] != arrays[0].shape[1:]:
                raise ValueError(
                    f"sample {i} has shape {a.shape}, which does not match sample 0 of shape {arrays[0].shape}; "
                    "samples may differ in their number of rows only"
                )
        indptr = np.concatenate([[0], np.cumsum([a.shape[0] for a in arrays])])
        if not is_sparse[0]:
            # Join and convert in one pass.
            return ragged_of_checked(np.concatenate(arrays, dtype=dtype, casting="unsafe"), indptr)
        if not ends_fit(arrays):
            check_each(arrays, name)
            arrays = [a.tocsr() for a in arrays]
        values = _stack_csr(arrays, dtype)
        check_sparse(values, name_row=row_namer(name, indptr))
        return ragged_of_checked(values, indptr)

    def tolist(self) -> list[Any]:
        """Return the samples as a list of arrays (views if the values are dense)."""
        return [self[i] for i in range(len(self))]

    @property
    def shape(self) -> tuple[int]:
        """``(n_samples,)``: a ragged array is a one-dimensional array of samples."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """Always 1."""
        return 1

    @property
    def grids(self) -> NDArray[np.int64]:
        """Shape of each sample's rows, int array of shape (n_samples, n_axes): `shapes`, or the numbers of rows."""
        return self.lengths[:, None] if self.shapes is None else self.shapes

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of rows of each sample, int array of shape (n_samples,)."""
        return np.diff(self.indptr)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        # NumPy checks the key, except for an empty mask. scikit-learn's key is (indices, ...).
        if isinstance(key, np.ndarray) and key.dtype.kind == "b" and key.size == 0 < len(self):
            raise IndexError(f"the mask has no entries for {len(self)} samples")
        first, last = self.indptr[:-1][key], self.indptr[1:][key]
        if first.ndim == 0:
            return self._rows(first, last)
        if first.ndim != 1:
            raise IndexError("a RaggedArray has one axis: index it by sample")
        # Check only the selected samples, so that the time does not depend on the number of all samples.
        if not ((first >= 0) & (first <= last) & (last <= self.values.shape[0])).all():
            self._check()
        lengths = last - first
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # A row of the result is the first row of its sample plus its place within the sample.
        rows = np.repeat(first - indptr[:-1], lengths) + np.arange(indptr[-1])
        if sparse.issparse(self.values) and not can_pick(self.values, rows):
            self._check()
        taken = ragged_of_checked(self.values[rows], indptr)
        taken.groups, taken.group_names = self.groups, self.group_names
        taken.shapes = None if self.shapes is None else self.shapes[key]
        if self.extras is not None:
            taken.extras = [self.extras[i] for i in np.arange(len(self))[key].tolist()]
        return taken

    def _rows(self, start, stop):
        if not sparse.issparse(self.values):
            return self.values[start:stop]
        v = self.values
        first, last = v.indptr[start], v.indptr[stop]
        parts = (v.data[first:last], v.indices[first:last], v.indptr[start : stop + 1] - first)
        return type(v)(parts, shape=(stop - start, v.shape[1]))

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != object:
            raise ValueError("a RaggedArray converts to a 1-D object array of samples only")
        samples = np.empty(len(self), dtype=object)
        for i in range(len(self)):
            samples[i] = self[i]
        return samples

    def __repr__(self):
        kind = "CSR" if sparse.issparse(self.values) else "dense"
        columns = "" if self.values.ndim == 1 else f", n_features={self.values.shape[1]}"
        return f"RaggedArray(n_samples={len(self)}, n_rows={self.values.shape[0]}{columns}, {kind})"

    def _repr_html_(self):
        first = range(min(len(self), N_ROWS))
        shapes = [self[i].shape for i in first] if self.shapes is None else [tuple(row) for row in self.shapes.tolist()]
        return as_html(repr(self), table(("sample", "shape"), list(zip(first, shapes)), len(self)))


def _stack_csr(matrices, dtype):
    """Stack many small CSR matrices; scipy's vstack is slow for thousands of them."""
    starts = np.concatenate([[0], np.cumsum([m.indptr[-1] for m in matrices])])
    indptr = np.concatenate([[0]] + [m.indptr[1:].astype(np.int64) + s for m, s in zip(matrices, starts)])
    data = np.concatenate([m.data[: m.indptr[-1]] for m in matrices], dtype=dtype, casting="unsafe")
    indices = np.concatenate([m.indices[: m.indptr[-1]] for m in matrices])
    return sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, matrices[0].shape[1]))


def ragged_of_checked(values, indptr):
    """Return a `RaggedArray` of values and `indptr` that were checked before."""
    found = RaggedArray.__new__(RaggedArray)
    found.values, found.indptr = values, indptr
    found.groups = found.shapes = found.group_names = found.extras = None
    return found
