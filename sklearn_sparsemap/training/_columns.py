"""The columns of large sparse features for online learning: equal ones merged, the frequent ones first.

Words that occur once bring many columns that are equal in all rows: two of three in CoNLL-2000. Their weights have the
same gradient at each step, so all rules update them equally. One column then represents all of them, and its weight is
the sum of theirs. This saves a fifth of the entries and two thirds of the weights, and the weights that are read most
are adjacent.

Columns are identified by a 64-bit hash, the sum of random numbers, one for each entry, together with the number of
entries.
"""

import numpy as np
from numba import types
from scipy import sparse

from .._core.jit import INTS, INTS_2D_OUT, INTS_OUT, PARTS, PARTS_OUT, UINTS, UINTS_OUT, entry, kernel, readonly
from ..numerics.places import places_of
from ._data import LinearModel, Rows, make_rows

# entries; smaller data are learned without merging
_MANY = 2**18
# A score is the sum of this many partial sums, each over a part of the columns. As many threads can compute them.
N_PIECES = 4
# Number of columns that are expanded together.
_AT_ONCE = 2**16


@kernel
def _mix(number):
    """Return a pseudorandom 64-bit hash of a number (splitmix64)."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@entry(types.int64(PARTS, INTS, UINTS, UINTS_OUT, PARTS_OUT, PARTS_OUT, PARTS_OUT))
def _find_equal(indices, indptr, bits, sums, counts, table, kinds):
    """Number the distinct columns in the order of their indices; those without entries get -1.

    Parameters
    ----------
    indices, indptr : int arrays
        CSR rows.
    bits : uint64 array
        Bits of the entries' values; empty if all values are equal.
    sums, counts : arrays of shape (n_columns,)
        Zeros at first; counts[c] is then the number of entries of column c.
    table : int array
        Filled with -1; its size is a power of two, and more than the number of columns.
    kinds : int array of shape (n_columns,)
        Output.

    Returns
    -------
    n : int
        Number of distinct columns.
    """
    for r in range(indptr.shape[0] - 1):
        word = _mix(r)
        for at in range(indptr[r], indptr[r + 1]):
            c = np.uint64(indices[at])
            sums[c] += word * (np.uint64(2) * bits[at] + np.uint64(1)) if bits.shape[0] else word
            counts[c] += 1
    mask, n = np.uint64(table.shape[0] - 1), np.int64(0)
    for c in range(sums.shape[0]):
        if counts[c] == 0:
            kinds[c] = -1
            continue
        slot = _mix(sums[c]) & mask
        while table[slot] >= 0 and (sums[table[slot]] != sums[c] or counts[table[slot]] != counts[c]):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = c
            kinds[c] = n
            n += 1
        else:
            kinds[c] = kinds[table[slot]]
    return n


@entry(types.int64(PARTS, INTS, PARTS, INTS, PARTS_OUT, PARTS_OUT, INTS_2D_OUT, INTS_OUT))
def _merge_rows(indices, indptr, places, cuts, seen, merged, begins, sources):
    """Write the merged columns of each row, once each, in the order of the pieces.

    Parameters
    ----------
    indices, indptr : int arrays
        CSR rows.
    places : int array of shape (n_columns,)
        The merged column of each column; -1 is omitted.
    cuts : int array of shape (n_pieces + 1,)
        The beginnings of the pieces of merged columns.
    seen : int array of shape (cuts[-1],)
        Filled with -1.
    merged : int array
        Output, row by row.
    begins : int array of shape (n_pieces + 1, n_rows)
        Output: the beginning of each row's columns, for each piece, and their end.
    sources : int array
        Output: the original entry of each written column, unless empty.

    Returns
    -------
    n : int
        Number of columns written.
    """
    n, n_pieces = np.int64(0), cuts.shape[0] - 1
    for r in range(indptr.shape[0] - 1):
        for piece in range(n_pieces):
            begins[piece, r] = n
            for at in range(indptr[r], indptr[r + 1]):
                place = places[np.uint64(indices[at])]
                if place >= cuts[piece] and place < cuts[piece + 1] and seen[np.uint64(place)] != r:
                    seen[np.uint64(place)] = r
                    merged[n] = place
                    if sources.shape[0]:
                        sources[n] = at
                    n += 1
        begins[n_pieces, r] = n
    return n


class Columns:
    """Merged columns of features.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)

    Attributes
    ----------
    rows : Rows
        The features in merged columns. The values of entries are unchanged; scores multiply them with sums of equal
        weights.
    places : int array of shape (n_features,)
        The merged column of each column; -1 if it has no entries.
    multiplicity : array of shape (n_columns,)
        Number of columns that each merged column represents.
    cuts : int array of shape (N_PIECES + 1,)
        The beginnings of the pieces of columns. Each piece has its share of the frequent columns.
    begins : int array of shape (N_PIECES + 1, n_rows)
        The beginning of each row's entries, for each piece, and their end.
    """

    def __init__(self, X):
        own = make_rows(X, lean=True)
        n_features, n_entries = X.shape[1], len(own.indices)
        bits = readonly(own.data.astype(np.float64, copy=False).view(np.uint64), np.uint64)
        counts, kinds = np.zeros(n_features, np.int32), np.empty(n_features, np.int32)
        table = np.full(2 ** (2 * n_features).bit_length(), -1, np.int32)
        n = _find_equal(own.indices, own.indptr, bits, np.zeros(n_features, np.uint64), counts, table, kinds)
        del table, bits
        filled = kinds >= 0
        frequencies, self.multiplicity = np.empty(n, np.int32), np.bincount(kinds[filled], minlength=n)
        frequencies[kinds[filled]] = counts[filled]
        # Distribute columns over the pieces by frequency, round-robin.
        by_rank = np.argsort(-frequencies, kind="stable")
        sizes = (n + N_PIECES - 1 - np.arange(N_PIECES)) // N_PIECES
        self.cuts = readonly(np.concatenate([[0], np.cumsum(sizes)]), np.int64)
        numbers = np.empty(n + 1, np.int32)
        ranks = np.arange(n)
        numbers[by_rank] = self.cuts[ranks % N_PIECES] + ranks // N_PIECES
        numbers[-1] = -1
        self.places = numbers[kinds]
        self.multiplicity = self.multiplicity[by_rank][np.argsort(numbers[by_rank])].astype(np.float64)
        begins = np.empty((N_PIECES + 1, len(own.indptr) - 1), np.int64)
        merged = np.empty(n_entries, np.int32)
        sources = np.empty(n_entries if len(own.data) else 0, np.int64)
        left = _merge_rows(
            own.indices, own.indptr, readonly(self.places, np.int32), self.cuts, np.full(n, -1, np.int32), merged,
            begins, sources,
        )  # fmt: skip
        # In place, to avoid a second copy.
        merged.resize(left, refcheck=False)
        data = own.data[sources[:left]] if len(own.data) else own.data
        self.begins, ends = readonly(begins, np.int64), np.append(begins[0], left)
        self.rows = Rows(readonly(data, data.dtype), readonly(merged, np.int32), readonly(ends, np.int64))

    def narrow(self, X):
        """Convert other CSR rows so that their products with the merged weights are the scores."""
        places = self.places[X.indices]
        known = places >= 0
        indptr = np.concatenate([[0], np.cumsum(known)])[X.indptr]
        data = X.data[known] / self.multiplicity[places[known]]
        return sparse.csr_array((data, places[known], indptr), shape=(X.shape[0], len(self.multiplicity)))

    def expand(self, model, *, sparse_coef):
        """Return the model of all columns.

        Parameters
        ----------
        model : LinearModel
        sparse_coef : bool
            Whether the result's `coef` is a CSR matrix.
        """
        coef = model.coef
        if not sparse_coef and not sparse.issparse(coef):
            known, places = self.places >= 0, np.maximum(self.places, 0)
            wide = (coef / self.multiplicity[:, None].astype(coef.dtype))[places]
            wide[~known] = 0.0
            return LinearModel(wide, model.intercept, model.additional)
        coef = sparse.csr_array(coef)
        own_lengths = np.diff(coef.indptr)
        lengths = np.where(self.places >= 0, own_lengths[self.places], 0)
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        data, indices = np.empty(indptr[-1], coef.dtype), np.empty(indptr[-1], coef.indices.dtype)
        for start in range(0, len(self.places), _AT_ONCE):
            # In blocks, because the indices of all entries would take more memory than the weights.
            chosen = slice(start, start + _AT_ONCE)
            places, own = self.places[chosen], lengths[chosen]
            entries = places_of(coef.indptr[places], own)
            target = slice(indptr[start], indptr[start] + len(entries))
            indices[target] = coef.indices[entries]
            data[target] = coef.data[entries] / np.repeat(self.multiplicity[places], own)
        wide = sparse.csr_array((data, indices, indptr), shape=(len(self.places), coef.shape[1]))
        return LinearModel(wide if sparse_coef else wide.toarray(), model.intercept, model.additional)


def columns_of(X, coef):
    """Return `Columns` if the features are large enough, and the weights still zero; else None."""
    if not sparse.issparse(X) or X.nnz < _MANY or (coef.nnz if sparse.issparse(coef) else coef.any()):
        return None
    return Columns(X)
