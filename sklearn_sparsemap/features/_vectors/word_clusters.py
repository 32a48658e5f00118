"""WordClusters: clusters of word vectors as sparse rows, and as fields of templates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.utils import check_random_state

from ..._core.annotations import Any, Callable, DTypeLike, Sequence
from ..._core.indices import are_indices
from ..._core.plain import add_form
from .._base import check_dtype, ones
from .._template import is_int
from .._tokens.columns import padding_name
from .base import BaseWordTransformer
from .table import unit_rows

UNKNOWN = "<unknown>"  # cluster of words without a vector
_N_EXACT = 256  # vectors up to which each iteration uses all of them
_BATCH_SIZE = 4096  # vectors of a mini-batch; smaller ones leave more clusters with a single word
_MAX_ITER = 100


class WordClusters(BaseWordTransformer, auto_wrap_output_keys=None):
    """Turn tokens into the clusters of their words, and of the words around them.

    Similar words share a cluster of their vectors, so a model can learn from a word how to label others that do not
    occur in training. Large clusters join words of similar grammar, small ones words of similar meaning, and a model
    can use both.

    Parameters
    ----------
    vectors : dict, tuple, object or path
        The vectors of words, in one of the forms that `WordVectors` takes. Copies of the transformer share them.
    n_clusters : int or sequence of int, default=(200, 1000)
        Numbers of clusters. Each is at most the number of vectors.
    window : int, default=2
        The words at distances up to this on both sides are added to each row.
    lower : bool, default=True
        Whether to look for the lower-case form of a word that is unknown as it is.
    random_state : int, RandomState or None, default=None
        Seed of the clusters.
    field : str, default="word"
        The field of tokens that are dicts.
    dtype : dtype, default=numpy.float64
        The type of the values.

    Attributes
    ----------
    derived_fields_ : dict
        The cluster of a word as fields for the templates of `TemplateVectorizer` and `ArcVectorizer`: ``"cluster200"``
        and so on. See the examples.
    n_features_out_ : int
        Number of columns.
    template_names_ : list of str
        The fields and places of the window, such as ``"cluster200[-1]"``: the names of the groups.
    groups_ : int32 array with one entry a column
        The field and place that each column is about.

    Notes
    -----
    The vectors, divided by their lengths, are clustered by `sklearn.cluster.MiniBatchKMeans` (up to 256 vectors by
    `sklearn.cluster.KMeans`). Words without a vector share the cluster ``<unknown>``. Places outside of the sentence
    have columns of their own, one for each distance from it, as in `TemplateVectorizer`.

    See Also
    --------
    WordVectors : The vectors themselves.
    sklearn_sparsemap.datasets.load_word_vectors : Reads a file once for several transformers.

    References
    ----------
    Turian, Ratinov and Bengio, Word representations: a simple and general method for semi-supervised learning, ACL
    2010. Guo, Che, Wang and Liu, Revisiting embedding features for simple semi-supervised learning, EMNLP 2014.

    Examples
    --------
    >>> from sklearn_sparsemap.features import DERIVED_FIELDS, TemplateVectorizer, WordClusters
    >>> vectors = {"dog": [1.0, 0.1], "cat": [1.0, 0.2], "barks": [0.0, 1.0], "sleeps": [0.1, 1.0]}
    >>> clusters = WordClusters(vectors, n_clusters=2, window=1, random_state=0).fit()
    >>> rows = clusters.transform([["cat", "sleeps"], ["dog", "barks"]])
    >>> rows
    RaggedArray(n_samples=2, n_rows=4, n_features=11, CSR)
    >>> bool((rows[0] != rows[1]).nnz)
    False
    >>> clusters.get_feature_names_out()[:4].tolist()
    ['cluster2[-1]=0', 'cluster2[-1]=1', 'cluster2[-1]=<unknown>', 'cluster2[-1]=<begin-1>']

    In templates:

    >>> templates = ["word[0]", "cluster2[0]", "cluster2[-1]|cluster2[0]"]
    >>> vectorizer = TemplateVectorizer(templates, derived_fields={**DERIVED_FIELDS, **clusters.derived_fields_})
    >>> vectorizer.fit_transform([["cat", "sleeps"], ["dog", "barks"]])
    RaggedArray(n_samples=2, n_rows=4, n_features=8, CSR)
    """

    _parameter_constraints = {
        **BaseWordTransformer._parameter_constraints,
        "n_clusters": "no_validation",
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        vectors: Any,
        n_clusters: int | Sequence[int] = (200, 1000),
        window: int = 2,
        *,
        lower: bool = True,
        random_state: int | np.random.RandomState | None = None,
        field: str = "word",
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.vectors = vectors
        self.n_clusters = n_clusters
        self.window = window
        self.lower = lower
        self.random_state = random_state
        self.field = field
        self.dtype = dtype

    @property
    def derived_fields_(self) -> dict[str, tuple[str, Callable[..., Any]]]:
        self._check_fitted()
        return {
            f"cluster{n}": (self.field, ClusterOf(self._table, labels, self.lower))
            for n, labels in zip(self._sizes(), self._labels)
        }

    def _sizes(self):
        """Return the numbers of clusters as a list."""
        sizes = self.n_clusters
        sizes = list(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, str) else [sizes]
        if not sizes or not all(is_int(n) and n >= 1 for n in sizes) or len(set(sizes)) < len(sizes):
            raise ValueError(
                f"n_clusters must be a positive integer, or a sequence of different ones; got {self.n_clusters!r}"
            )
        return list(map(int, sizes))

    def _learn(self):
        check_dtype(self.dtype)
        sizes = self._sizes()
        used = np.unique(self._table.rows)
        if max(sizes) > len(used):
            raise ValueError(f"n_clusters={max(sizes)} exceeds the number of vectors, {len(used)}; lower it")
        vectors = unit_rows(self._table.matrix[used])
        # One seed, so that clusters of one size do not depend on the other sizes.
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        self._labels = []
        for n in sizes:
            labels = np.zeros(len(self._table.matrix), np.int32)
            labels[used] = _clusters_of(vectors, n, seed)
            self._labels.append(labels)

    def _check(self):
        check_dtype(self.dtype)
        sizes = self._sizes()
        if len(self._labels) != len(sizes):
            raise ValueError(f"there must be clusters of the sizes {sizes}")
        for n, labels in zip(sizes, self._labels):
            check_clusters(self._table, labels, n)

    def _widths(self):
        return {f"cluster{n}[{d}]": n + 1 + abs(d) for n in self._sizes() for d in self._offsets}

    def _values_of(self, n, offset):
        values = [*range(n), UNKNOWN]
        side, sign = ("begin", -1) if offset < 0 else ("end", 1)
        return values + [padding_name((side, sign * distance)) for distance in range(1, abs(offset) + 1)]

    def _names(self):
        blocks = ((n, offset) for n in self._sizes() for offset in self._offsets)
        return [f"cluster{n}[{d}]={value}" for n, d in blocks for value in self._values_of(n, d)]

    def _values(self, rows, windows):
        widths = self._widths()
        columns = np.empty((len(rows), len(widths)), np.int32)
        block, first = 0, 0
        for n, labels in zip(self._sizes(), self._labels):
            # Unknown words have the row -1.
            clusters = np.append(labels, np.int32(n))[rows]
            for offset in self._offsets:
                tokens, distances = windows.at(offset)
                columns[:, block] = first + np.where(distances > 0, n + distances, clusters[tokens])
                block += 1
                first += n + 1 + abs(offset)
        row_ptr = np.arange(0, columns.size + 1, len(widths))
        row_ptr = row_ptr.astype(np.int32) if columns.size < 2**31 else row_ptr
        values = ones(columns.size, self.dtype, None)
        found = sparse.csr_array((values, columns.ravel(), row_ptr), shape=(len(rows), first))
        found.has_canonical_format = True
        return found


class ClusterOf:
    """The function of a derived field: the cluster of a word. It never changes, so copies of vectorizers share it.

    Parameters
    ----------
    table : WordTable
    labels : int32 array of shape (n_rows,)
        The cluster of each row of the table.
    lower : bool
        Whether to look for the lower-case form of a word that is unknown as it is.
    """

    def __init__(self, table, labels, lower):
        self.table, self.labels, self.lower = table, labels, lower
        check_clusters(table, labels, np.iinfo(np.int32).max)

    def __call__(self, word):
        (row,) = self.table.find([word], self.lower)
        return UNKNOWN if row < 0 else int(self.labels[row])

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"ClusterOf({self.table!r}, {int(self.labels.max()) + 1} clusters)"


add_form("features.ClusterOf", ClusterOf)


def check_clusters(table, labels, n):
    """Raise ValueError unless there is one of n clusters for each row of a table."""
    if labels.dtype != np.int32 or not are_indices(labels, n, len(table.matrix)):
        raise ValueError(f"each of {len(table.matrix)} vectors must have a cluster from 0 to {n - 1}")


def _clusters_of(vectors, n, seed):
    """Return the cluster of each vector: int32 array."""
    if len(vectors) <= _N_EXACT:
        # More of them are summed in an order that depends on threads.
        return KMeans(n, n_init=1, random_state=seed).fit(vectors).labels_
    batches = {"batch_size": _BATCH_SIZE, "max_iter": _MAX_ITER}
    return MiniBatchKMeans(n, n_init=1, random_state=seed, **batches).fit(vectors).labels_
