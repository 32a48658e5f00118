"""The output of transformers of samples: a RaggedArray, or a data frame for each sample.

Used by `features`, `features/_vectors`, `on_rows.py`, `out_of_fold_scores.py` and `row_union.py`.
"""

from __future__ import annotations

from scipy import sparse
from sklearn import get_config

from ..._core.annotations import Self
from ..._core.doc_link import DocLinkMixin
from ..._core.pickles import PickleMixin
from ..._core.sklearn_bases import BaseEstimator, TransformerMixin
from ..._core.validation import check_choice


class RaggedTransformer(TransformerMixin, DocLinkMixin, PickleMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Base of the transformers whose output has rows for each sample."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the output type of `transform` and `fit_transform`.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            ``"default"`` is a `RaggedArray`; the others are a list with one data frame for each sample, whose columns
            have the names of `get_feature_names_out` (polars: of dense rows only). None changes nothing. Without this
            call, ``sklearn.set_config(transform_output=...)`` decides for dense rows; sparse rows, which may have
            millions of columns, are then a `RaggedArray`.

        Returns
        -------
        self : object
        """
        if transform is not None:
            check_choice("transform", transform, ("default", "pandas", "polars"))
            # scikit-learn's `clone` copies the attribute of this name, and `_core/export.py` leaves it out.
            self._sklearn_output_config = {"transform": transform}
        return self

    def _give(self, rows):
        """Return rows, a `RaggedArray`, in the form that the user has chosen."""
        by_default = "default" if sparse.issparse(rows.values) else get_config()["transform_output"]
        library = getattr(self, "_sklearn_output_config", {}).get("transform", by_default)
        if library == "default":
            return rows
        values = rows.values
        names = [str(name) for name in self.get_feature_names_out()]
        if library == "pandas":
            import pandas as pd

            is_sparse = sparse.issparse(values)
            table = (pd.DataFrame.sparse.from_spmatrix if is_sparse else pd.DataFrame)(values, columns=names)
            return [table.iloc[i:j].reset_index(drop=True) for i, j in zip(rows.indptr, rows.indptr[1:])]
        import polars as pl

        if sparse.issparse(values):
            raise ValueError("polars has no sparse columns; use set_output(transform='pandas')")
        table = pl.DataFrame(values, schema=names)
        return [table[int(i) : int(j)] for i, j in zip(rows.indptr, rows.indptr[1:])]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class MetaRaggedTransformer(RaggedTransformer, auto_wrap_output_keys=None):
    """Base of transformers that apply other transformers, and need a fit only if these do.

    Subclasses set `_left_by_fit`, the name of the attribute that a fit sets, and define `_requires_fit()`.
    """

    _left_by_fit = None

    def __sklearn_is_fitted__(self):
        return hasattr(self, self._left_by_fit) or not self._requires_fit()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = self._requires_fit()
        tags.input_tags.sparse = True
        return tags
