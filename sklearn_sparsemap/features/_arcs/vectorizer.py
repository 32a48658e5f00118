"""ArcVectorizer: sentences of tokens in, a sparse row for each possible dependency out."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..._core.annotations import Any, Callable, DTypeLike, Mapping, Sequence
from ..._core.errors import SampleError
from .._base import BaseTemplateVectorizer
from .columns import ArcPlan, ArcVocabulary, arcs_of, as_columns, fill, learn_arcs
from .templates import ArcTemplate, dependency_templates


class ArcVectorizer(BaseTemplateVectorizer, auto_wrap_output_keys=None):
    """Turn sentences of tokens into sparse indicator features of their possible dependencies by templates.

    A sentence of n words has ``(n + 1) * n`` rows: row ``h * n + m - 1`` is the arc from head h (0 is the root)
    to modifier m, in the order of the scores of `DependencyTree`. At each arc a template has a value (an n-gram,
    such as the words of head and modifier), or several of them if it looks between the two. Each n-gram that
    occurs in training is a column; a row has a one in the columns of its n-grams. The columns of one template
    are adjacent. Rows with h = m are not arcs, and are empty.

    With `n_features` set, n-grams are hashed into a fixed number of columns instead. Then nothing is learned:
    `transform` works without `fit`, on streams of any length.

    Parameters
    ----------
    templates : list of ArcTemplate or str, default=None
        For example ``["head.pos[0]|mod.pos[0]", "head.word[0]|mod.word[0]|direction"]``; see `ArcTemplate`.
        Default: `dependency_templates()`.
    derived_fields : dict, default=None
        Fields computed from others; see `TemplateVectorizer`.
    arcs : {"all", "gold"}, default="all"
        The arcs of the training sentences whose n-grams get columns: all possible arcs, or those of the trees
        given to `fit` as `y`. True arcs are far fewer, and give a small vocabulary and short rows. Only without
        `n_features`.
    min_count : int, default=1
        N-grams that occur at fewer of these arcs are left out; only without `n_features`.
    n_features : int, default=None
        The number of columns of the hashed mode, shared equally among the templates; ``2**22`` is a good start.
        N-grams of one template may share a column, those of different templates never do.
    dtype : dtype, default=numpy.float64
        The type of the values.
    n_jobs : int, default=None
        The number of threads; -1 means all cores.

    Attributes
    ----------
    templates_ : tuple of ArcTemplate
        The templates in use.
    template_names_ : list of str
        Their string forms: the names of the groups.
    groups_ : int32 array with one entry a column
        The template of each column.
    n_features_out_ : int
        Number of columns.

    See Also
    --------
    TemplateVectorizer : Features of tokens; tokens and their fields are explained there.
    sklearn_sparsemap.datasets.load_conllu : Loads sentences and their trees.

    Notes
    -----
    The root is just before the first word, and all of its fields have the value ``<root>``. Places beyond root
    and last word have a separate value for each distance. All values of the rows are ones.

    The number of arcs is quadratic in the length of a sentence, and each has a few dozen n-grams. The rows of
    500 English sentences take some 130 MB, those of a treebank several GB. For a treebank, use the hashed mode and
    batches::

        vectorizer = ArcVectorizer(n_features=2**22)
        for start in range(0, len(sentences), 500):
            rows = vectorizer.transform(sentences[start : start + 500])
            model.partial_fit(rows, heads[start : start + 500])

    Examples
    --------
    >>> from sklearn_sparsemap.features import ArcVectorizer
    >>> sentences = [[{"word": "dogs", "pos": "N"}, {"word": "bark", "pos": "V"}]]
    >>> vectorizer = ArcVectorizer(["head.pos[0]|mod.word[0]", "distance"])
    >>> X = vectorizer.fit_transform(sentences)
    >>> X
    RaggedArray(n_samples=1, n_rows=6, n_features=6, CSR)
    >>> vectorizer.get_feature_names_out().tolist()
    ['head.pos[0]|mod.word[0]=<root>|dogs', 'head.pos[0]|mod.word[0]=<root>|bark',
    'head.pos[0]|mod.word[0]=N|bark', 'head.pos[0]|mod.word[0]=V|dogs', 'distance=1', 'distance=2']
    >>> X[0].toarray().astype(int)
    array([[1, 0, 0, 0, 1, 0],
           [0, 1, 0, 0, 0, 1],
           [0, 0, 0, 0, 0, 0],
           [0, 0, 1, 0, 1, 0],
           [0, 0, 0, 1, 1, 0],
           [0, 0, 0, 0, 0, 0]])
    """

    _template_class = ArcTemplate
    _default_templates = staticmethod(dependency_templates)
    _plan_of = ArcPlan
    _vocabulary_of = ArcVocabulary
    _parameter_constraints = {**BaseTemplateVectorizer._parameter_constraints, "arcs": [StrOptions({"all", "gold"})]}

    def __init__(
        self,
        templates: Sequence[Any] | None = None,
        *,
        derived_fields: Mapping[str, tuple[str, Callable[..., Any]]] | None = None,
        arcs: Literal["all", "gold"] = "all",
        min_count: int = 1,
        n_features: int | None = None,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
    ) -> None:
        common = {"min_count": min_count, "n_features": n_features, "dtype": dtype, "n_jobs": n_jobs}
        super().__init__(templates, derived_fields=derived_fields, **common)
        self.arcs = arcs

    def _check_parameters(self):
        super()._check_parameters()
        if self.n_features is not None and self.arcs == "gold":
            raise ValueError(
                "arcs='gold' restricts the columns that are learned, and the hashed mode learns none; "
                "use arcs='all' or n_features=None"
            )

    def _learn_columns(self, plan, encoded, y, keep_columns):
        gold = _check_heads(y, np.diff(encoded.indptr)) if self.arcs == "gold" else None
        return learn_arcs(plan, encoded, gold, int(self.min_count), self.n_jobs), None

    def _columns_of_rows(self, model, encoded, columns):
        return fill(arcs_of(model.plan, encoded, model.hash_key), as_columns(model), self.n_jobs)


def _check_heads(y, lengths):
    """Return the heads of all words as one array."""
    if y is None:
        raise ValueError("arcs='gold' learns from the arcs of trees, and y is None; call fit(X, heads)")
    if len(y) != len(lengths):
        raise ValueError(f"y has the heads of {len(y)} sentences, but X has {len(lengths)}")
    arrays = []
    for i, (heads, n) in enumerate(zip(y, lengths.tolist())):
        if len(heads) and isinstance(heads[0], tuple | list | np.ndarray):
            # Labelled trees are pairs (head, label).
            heads = [pair[0] for pair in heads]
        heads = np.asarray(heads)
        if heads.shape != (n,) or heads.dtype.kind not in "iu":
            raise SampleError(
                "y",
                i,
                f" must hold one head, an integer, for each of the {n} words of X[{i}]; got shape {heads.shape} of "
                f"{heads.dtype}",
            )
        wrong = np.flatnonzero((heads < 0) | (heads > n) | (heads == np.arange(1, n + 1)))
        if len(wrong):
            raise SampleError(
                "y",
                i,
                f"[{wrong[0]}] is {heads[wrong[0]]}, but X[{i}] has {n} words; a head is the number of another word, "
                "counted from 1, or 0 for the root",
            )
        arrays.append(heads)
    return np.concatenate(arrays)
