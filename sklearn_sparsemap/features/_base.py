"""What the vectorizers share: parameters, names of columns, and the two modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError

from .._core.threads import over_ranges
from .._core.validation import N_JOBS, POSITIVE_INT, check_parameters
from ._hashed import HashedColumns
from ._rows.output import RaggedTransformer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray


class BaseVectorizer(RaggedTransformer, auto_wrap_output_keys=None):
    """A vectorizer with a vocabulary, or with hashed columns if `n_features` is set.

    A subclass gives `_make_plan`, and sets `_vocabulary` in `fit`.
    """

    _hashed_columns = HashedColumns
    # Those that are "no_validation" are checked where they are read, and messages there say more.
    _parameter_constraints = {
        "templates": "no_validation",
        "derived_fields": "no_validation",
        "min_count": [POSITIVE_INT],
        "n_features": "no_validation",
        "dtype": "no_validation",
        "n_jobs": [*N_JOBS],
    }

    def __init__(
        self,
        templates: Sequence[Any] | None = None,
        *,
        derived_fields: Mapping[str, tuple[str, Callable[..., Any]]] | None = None,
        min_count: int = 1,
        n_features: int | None = None,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
    ) -> None:
        self.templates = templates
        self.derived_fields = derived_fields
        self.min_count = min_count
        self.n_features = n_features
        self.dtype = dtype
        self.n_jobs = n_jobs

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        names : object array with one entry a column
            ``template=values``, such as ``word[-1]|word[0]=the|dog``, where ``<begin-1>`` and ``<end+1>``
            stand for places outside the sentence and ``<root>`` for the root of a tree; ``template#slot`` in the
            hashed mode. Names differ: within a conjunction, ``|`` and backslashes of a value follow a backslash, and so
            does a string that looks like one of those places, or like an integer that its field has, too.

        Raises
        ------
        NotFittedError
            Without `n_features`, if `fit` was not called before.
        """
        return self._model().names()

    @property
    def templates_(self) -> tuple[Any, ...]:
        """The templates in use."""
        return self._model().plan.templates

    @property
    def template_names_(self) -> list[str]:
        """The string forms of the templates."""
        return [str(template) for template in self.templates_]

    @property
    def groups_(self) -> NDArray[np.int32]:
        """The template of each column."""
        return self._model().groups

    @property
    def n_features_out_(self) -> int:
        """The number of columns."""
        return int(self._model().column_ptr[-1])

    def _model(self):
        """What gives n-grams their columns: in the hashed mode the parameters, else what `fit` has seen."""
        if self.n_features is not None:
            return self._hashed_columns(self._make_plan(), self.n_features)
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet: call fit or fit_transform on training "
                "sentences, or set n_features for the hashed mode, which transforms without fitting."
            )
        return self._vocabulary

    def _check_parameters(self):
        check_parameters(self)
        check_dtype(self.dtype)
        if self.n_features is not None and self.min_count > 1:
            raise ValueError(
                f"min_count={self.min_count} needs counts, and the hashed mode keeps none; use min_count=1 "
                "or n_features=None"
            )

    def _make_plan(self):
        """Check the parameters and lay out the templates."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self):
        return self.n_features is not None or getattr(self, "_vocabulary", None) is not None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.dict = True
        tags.requires_fit = self.n_features is None
        return tags


def check_dtype(dtype):
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype must be a floating-point or integer type; got {dtype!r}") from None
    # Half precision is beyond scipy.sparse.
    if dtype.kind not in "fiu" or dtype == np.float16:
        raise ValueError(f"dtype must be a floating-point (not float16) or integer type; got {dtype}")


def ones(n, dtype, n_jobs):
    """Make an array of ones in threads: to touch so much memory first takes as long as to compute the columns."""
    values = np.empty(n, dtype=dtype)
    chunk = 2**20

    def fill_range(start, stop):
        values[start * chunk : stop * chunk].fill(1)

    over_ranges(fill_range, np.full(-(-n // chunk), chunk), n_jobs)
    return values
