"""Sentences of tokens in, a sparse row for each score of siblings or of grandparents out."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..._core.annotations import Any, Callable, DTypeLike, Mapping, Sequence
from ..._core.jit import readonly
from ..._core.threads import over_ranges
from .._arcs.columns import relation_totals
from .._arcs.kernels import DIRECTIONS
from .._base import BaseTemplateVectorizer
from .._encoding import Plan, hash_codes
from . import kernels
from .templates import GrandparentTemplate, SiblingTemplate, grandparent_templates, sibling_templates

# Orders of a grandparent, a head and a modifier: the side of the modifier, and where the grandparent is.
_ORDERS = [f"{side} {place}" for side in DIRECTIONS for place in ("behind", "between", "beyond")]


class _TripleVectorizer(BaseTemplateVectorizer, auto_wrap_output_keys=None):
    """A vectorizer of a head, a modifier and a third word.

    A subclass names its templates, the third word (`_third`) and the values of an atom ``direction`` (`_directions`),
    and has `_count_rows(n)`, which returns the number of rows of a sentence of n words, and of those that are not
    empty.
    """

    _third: ClassVar[str]
    _directions: ClassVar[Sequence[str]]
    _plan_of = Plan
    _parameter_constraints = {
        name: check for name, check in BaseTemplateVectorizer._parameter_constraints.items() if name != "min_count"
    }
    min_count = 1

    def __init__(
        self,
        templates: Sequence[Any] | None = None,
        *,
        derived_fields: Mapping[str, tuple[str, Callable[..., Any]]] | None = None,
        n_features: int = 2**18,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
    ) -> None:
        self.templates = templates
        self.derived_fields = derived_fields
        self.n_features = n_features
        self.dtype = dtype
        self.n_jobs = n_jobs

    def _columns_of_rows(self, model, encoded, columns):
        lengths = np.diff(encoded.indptr)
        triples = self._triples(model, encoded, lengths)
        n_templates = len(model.plan.templates)
        n_rows, n_filled = zip(*(self._count_rows(n) for n in lengths.tolist()))
        indptr = np.concatenate([[0], np.cumsum(n_rows)])
        ends = n_templates * np.concatenate([[0], np.cumsum(n_filled)])
        is_of_grandparents = self._third == "grand"
        indices = np.empty(ends[-1], np.int32)
        row_ptr = np.zeros(indptr[-1] + 1, np.int64)

        def fill_range(start, stop):
            rows = readonly(indptr, np.int64)
            first = int(ends[start])
            kernels.fill_triples(triples, rows, start, stop, is_of_grandparents, indices, first, row_ptr[1:])

        over_ranges(fill_range, np.diff(ends), self.n_jobs)
        row_ptr = row_ptr if ends[-1] >= 2**31 else row_ptr.astype(np.int32)
        return indices, row_ptr, indptr

    def _triples(self, model, encoded, lengths):
        """Lay out sentences for the kernels."""
        plan = model.plan
        return kernels.Triples(
            readonly(hash_codes(plan, encoded.codes, encoded.values), np.uint64),
            readonly(encoded.token_indices[encoded.indptr[:-1]] - 1, np.int64),
            readonly(lengths, np.int64),
            *(array for side in ("head", self._third, "mod") for array in plan.side(side, encoded.n_positions)),
            readonly(relation_totals(plan, self._directions), np.uint64),
            readonly(model.column_ptr, np.int64),
            readonly(np.diff(model.column_ptr), np.uint64),
        )


class SiblingVectorizer(_TripleVectorizer, auto_wrap_output_keys=None):
    """Turn sentences of tokens into sparse features of the consecutive modifiers of their words, by templates.

    The rows of a sentence are the scores `siblings` of a `HeadAutomaton` for each head and side, in the order of
    `sklearn_sparsemap.factors.second_order_tree`: head by head from the root on, the left side before the right one,
    without sides that have no words. A side of n words has ``(n + 1) ** 2`` rows, of which those with j < i are empty.

    N-grams are hashed into a fixed number of columns. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    templates : list of SiblingTemplate or str, default=None
        For example ``["head.pos[0]|sib.pos[0]|mod.pos[0]|direction"]``; see `SiblingTemplate`. By default,
        `sibling_templates()`.
    derived_fields : dict, default=None
        Fields computed from others; see `TemplateVectorizer`.
    n_features : int, default=2**18
        Number of columns, shared equally among the templates. N-grams of one template may share a column.
    dtype : dtype, default=numpy.float64
        The type of the values.
    n_jobs : int, default=None
        The number of threads; -1 means all cores.

    Attributes
    ----------
    templates_ : tuple of SiblingTemplate
        The templates in use.
    template_names_ : list of str
        Their string forms: the names of the groups.
    groups_ : int32 array with one entry a column
        The template of each column.
    n_features_out_ : int
        Number of columns.

    See Also
    --------
    ArcVectorizer : Features of single arcs.
    GrandparentVectorizer : Features of the head of a head.
    sklearn_sparsemap.factors.second_order_tree : The factor graph that takes all.

    Notes
    -----
    A sentence of n words has about ``2 / 3 * n ** 3`` rows, half of them empty: a treebank should be transformed in
    batches, as in the notes of `ArcVectorizer`.

    Examples
    --------
    >>> from sklearn_sparsemap.features import SiblingVectorizer
    >>> sentences = [[{"word": "dogs", "pos": "N"}, {"word": "bark", "pos": "V"}]]
    >>> SiblingVectorizer(["sib.pos[0]|mod.pos[0]"], n_features=10).transform(sentences)
    RaggedArray(n_samples=1, n_rows=17, n_features=10, CSR)
    """

    _template_class = SiblingTemplate
    _default_templates = staticmethod(sibling_templates)
    _third, _directions = "sib", DIRECTIONS

    @staticmethod
    def _count_rows(n):
        sides = np.concatenate([np.arange(1, n), np.arange(1, n + 1)])
        return int(((sides + 1) ** 2).sum()), int(((sides + 1) * (sides + 2) // 2).sum())


class GrandparentVectorizer(_TripleVectorizer, auto_wrap_output_keys=None):
    """Turn sentences of tokens into sparse features of the modifiers of their words with the head of the head.

    The rows of a sentence are the scores `grandparents` of a `HeadAutomaton` for each head and side, in the order of
    `sklearn_sparsemap.factors.second_order_tree`: head by head from the first word on, the left side before the right
    one, without sides that have no words. A head of a side of m words has ``n * m`` rows in a sentence of n words: for
    each other head, ascending, and each modifier, nearest first. Rows of a word that is head and modifier of one head
    are empty.

    N-grams are hashed into a fixed number of columns. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    templates : list of GrandparentTemplate or str, default=None
        For example ``["grand.pos[0]|head.pos[0]|mod.pos[0]|direction"]``; see `GrandparentTemplate`. By default,
        `grandparent_templates()`.
    derived_fields, n_features, dtype, n_jobs
        As of `SiblingVectorizer`.

    Attributes
    ----------
    templates_ : tuple of GrandparentTemplate
        The templates in use.
    template_names_, groups_, n_features_out_
        As of `SiblingVectorizer`.

    See Also
    --------
    SiblingVectorizer : Features of consecutive modifiers.
    sklearn_sparsemap.factors.second_order_tree : The factor graph that takes both.

    Notes
    -----
    A sentence of n words has ``n * n * (n - 1)`` rows: a treebank should be transformed in batches, as in the notes of
    `ArcVectorizer`.

    Examples
    --------
    >>> from sklearn_sparsemap.features import GrandparentVectorizer
    >>> sentences = [[{"word": "dogs", "pos": "N"}, {"word": "bark", "pos": "V"}]]
    >>> GrandparentVectorizer(["grand.pos[0]|mod.pos[0]"], n_features=10).transform(sentences)
    RaggedArray(n_samples=1, n_rows=4, n_features=10, CSR)
    """

    _template_class = GrandparentTemplate
    _default_templates = staticmethod(grandparent_templates)
    _third, _directions = "grand", _ORDERS

    @staticmethod
    def _count_rows(n):
        # A row of each head, side and candidate is empty: that of the modifier itself.
        return n * n * (n - 1), n * (n - 1) * (n - 1)
