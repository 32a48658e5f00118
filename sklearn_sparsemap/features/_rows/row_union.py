"""RowUnion: the concatenated columns of several vectorizers."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, NDArray, Self, Sequence
from ..._core.export import ArraysMixin
from ..._core.ragged import RaggedArray
from ..._core.sklearn_bases import MYPY
from ..._core.validation import check_matrix, check_names_of_features, check_samples
from .output import MetaRaggedTransformer

if MYPY:
    from ..._core.sklearn_bases import _BaseComposition
else:
    from sklearn.utils.metaestimators import _BaseComposition

_WORDS = "drop", "passthrough"


class RowUnion(ArraysMixin, MetaRaggedTransformer, _BaseComposition, auto_wrap_output_keys=None):
    """Concatenate the columns of several vectorizers for the same samples.

    Parameters
    ----------
    transformers : list of (name, transformer)
        Each makes rows of samples: `TemplateVectorizer`, `TokenDictVectorizer`, `OnRows` and so on; or ``"drop"``, or
        ``"passthrough"`` for samples that are arrays already.

    Attributes
    ----------
    groups_ : int32 array with one entry a column
        The group of each column. Parts with groups (templates, attributes) keep them; every other part is one group.
    template_names_ : list of str
        Names of the groups, such as ``"templates__word[0]"`` or ``"vectors"``. ``groups="templates"`` of
        `GroupLassoPerceptron` selects among them.
    named_transformers_ : Bunch
        The fitted transformers by name.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns of samples that are data frames, if a part is ``"passthrough"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from sklearn_sparsemap.features import OnRows, RowUnion, TemplateVectorizer
    >>> def lengths(words):
    ...     return np.array([[len(word)] for word in words])
    >>> union = RowUnion([
    ...     ("words", TemplateVectorizer(["word[0]"])), ("length", OnRows(FunctionTransformer(lengths)))
    ... ])
    >>> union.fit_transform([["the", "dog", "barks"]])[0].toarray()
    array([[1., 0., 0., 3.],
           [0., 1., 0., 3.],
           [0., 0., 1., 5.]])
    >>> union.get_feature_names_out()[2:].tolist(), union.template_names_
    (['words__word[0]=barks', 'length__x0'], ['words__word[0]', 'length'])
    """

    _left_by_fit = "_fitted"

    def __init__(self, transformers: Sequence[tuple[str, Any]]) -> None:
        self.transformers = transformers

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, including those of the parts as ``name__parameter``: dict."""
        return self._get_params("transformers", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of the parts as ``name__parameter``, and parts by their name."""
        self._set_params("transformers", **params)
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit all parts.

        Parameters
        ----------
        X : sequence of samples
            Samples that are valid input of each part.
        y : sequence of structures, default=None

        Returns
        -------
        self : RowUnion
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit all parts, and return their concatenated rows.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_samples,)
        """
        self._check(self.transformers)
        fitted = [(name, part if isinstance(part, str) else clone(part)) for name, part in self.transformers]
        rows = self._join(fitted, "fit_transform", X, y)
        self._fitted = fitted
        return self._give(rows)

    def transform(self, X: Any) -> Any:
        """Return the concatenated rows of all parts.

        Parameters
        ----------
        X : sequence of samples
            As in `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_samples,)
            With `groups`, unless a part is in the hashed mode. With `set_output` a list of data frames.

        Raises
        ------
        ValueError
            If the parts make different numbers of rows of a sample.
        """
        check_is_fitted(self)
        return self._give(self._join(self._parts, "transform", X))

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the samples, if the parts take numbers."""
        check_is_fitted(self)
        parts = [part for _, part in self._parts if not isinstance(part, str)]
        if parts:
            return parts[0].n_features_in_
        widths = [*vars(self).get("_widths", {}).values()]
        if not widths:
            raise AttributeError("n_features_in_ is known after the first fit or transform")
        return widths[0]

    @property
    def named_transformers_(self) -> Bunch:
        check_is_fitted(self)
        return Bunch(**dict(self._parts))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : sequence of str, default=None
            For parts that take arrays.

        Returns
        -------
        names : object array with one entry a column
            ``part__name``.
        """
        check_is_fitted(self)
        names = []
        for name, transformer in self._parts:
            if transformer == "drop":
                own = []
            elif transformer == "passthrough":
                own = self._names_of_samples(name) if input_features is None else input_features
            else:
                own = transformer.get_feature_names_out(input_features)
            names += [f"{name}__{column}" for column in own]
        return np.array(names, dtype=object)

    def _names_of_samples(self, name):
        """Return the names of the columns of a part that passes the samples on."""
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        if name not in vars(self).get("_widths", {}):
            raise ValueError(
                f"the part {name!r} has the columns of the samples, and there were none yet; call fit or transform, or "
                "pass input_features"
            )
        return [f"x{i}" for i in range(self._widths[name])]

    @property
    def _parts(self):
        # Without a fit, the parts need none.
        return getattr(self, "_fitted", self.transformers)

    def _restore(self, fitted, learned):
        super()._restore(fitted, learned)
        self._check(self._parts)

    def _check(self, transformers):
        names = [name for name, _ in transformers]
        if not names:
            raise ValueError("transformers is empty; give at least one (name, transformer)")
        self._validate_names(names)
        for name, transformer in transformers:
            if isinstance(transformer, str) and transformer in _WORDS:
                continue
            if not (hasattr(transformer, "transform") and hasattr(transformer, "fit")):
                wanted = "must be a transformer, 'drop' or 'passthrough'"
                raise ValueError(f"the part {name!r} {wanted}; got {transformer!r}")

    def _join(self, parts, method, X, *y):
        """Join the rows that a method of all parts makes; store their groups."""
        parts = [(name, part) for name, part in parts if not (isinstance(part, str) and part == "drop")]
        if not parts:
            raise ValueError("all transformers are 'drop'; keep at least one")
        passes = any(isinstance(part, str) for _, part in parts)
        is_first = method == "fit_transform" or not hasattr(self, "_fitted")
        check_names_of_features(self, X if passes else (), reset=is_first)
        values, groups, names, widths, first = [], [], [], {}, None
        for name, transformer in parts:
            made = X if isinstance(transformer, str) else _rows_of(transformer, method, X, *y)
            rows = check_matrix(made) if isinstance(made, RaggedArray) else check_samples(made, allow_empty=True)
            first = rows if first is None else first
            if not np.array_equal(rows.indptr, first.indptr):
                if len(rows) == len(first):
                    i = int(np.argmax(rows.lengths != first.lengths))
                    found = f"{rows.lengths[i]} rows of X[{i}], {parts[0][0]!r} {first.lengths[i]}"
                else:
                    found = f"{len(rows)} samples, {parts[0][0]!r} {len(first)}"
                raise ValueError(f"the part {name!r} makes {found}; all parts must make the same rows")
            values.append(rows.values)
            widths[name] = rows.values.shape[1]
            own = None
            if rows.groups is not None:
                own = getattr(transformer, "template_names_", rows.group_names)
                own = range(int(rows.groups.max(initial=-1)) + 1) if own is None else own
            groups.append(len(names) + (np.zeros(widths[name], np.int32) if own is None else rows.groups))
            names += [name] if own is None else [f"{name}__{group}" for group in own]
        self.groups_ = np.concatenate(groups).astype(np.int32)
        self.template_names_, self._widths = names, widths
        if any(map(sparse.issparse, values)):
            joined = sparse.csr_array(sparse.hstack(values, format="csr"))
        else:
            joined = np.hstack(values)
        return RaggedArray(joined, first.indptr, self.groups_, first.shapes, names)

    def _requires_fit(self):
        try:
            parts = [part for _, part in self.transformers if not isinstance(part, str)]
            return any(part.__sklearn_tags__().requires_fit for part in parts)
        except (AttributeError, TypeError, ValueError):
            return True


def _rows_of(transformer, method, X, *y):
    """Return the result of a method of a transformer; frozen ones have no `fit_transform`."""
    if hasattr(transformer, method):
        return getattr(transformer, method)(X, *y)
    return transformer.fit(X, *y).transform(X)
