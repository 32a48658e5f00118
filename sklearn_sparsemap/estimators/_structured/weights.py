"""The learned weights of linear structured estimators, as attributes that can be assigned."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, ArrayLike, NDArray, Self
from ..._core.shapes import size_of, split_flat
from ..._core.validation import check_matrix, check_numbers
from .._state.learned import Learned


def _learned_scores(name):
    """Return the attribute of the learned additional scores with a name."""

    def read(model: Any) -> NDArray[np.float64]:
        return model._additional(name)

    def assign(model: Any, values: ArrayLike) -> None:
        model._set_learned(name, values)

    return property(read, assign)


class LearnedWeightsMixin:
    """The learned weights as attributes. Training continues from assigned values.

    A subclass has `_structure`.
    """

    _learned = Learned()
    # Indices of the features whose weights a phase of training learns; None means all.
    _learned_columns = None
    # Array that is added to the additional scores: -inf for forbidden ones.
    _mask = 0.0

    @property
    def coef_(self) -> Any:
        coef = self._current.coef.T
        return sparse.csr_array(coef) if sparse.issparse(coef) else coef

    @coef_.setter
    def coef_(self, values: Any) -> None:
        known = self._current.coef
        if not sparse.issparse(known):
            values = _check_weights("coef_", values, known.shape[::-1], finite=True)
            self._edit(coef=np.ascontiguousarray(values.T, known.dtype))
            return
        values = check_matrix(values, "coef_") if sparse.issparse(values) else check_numbers(values, "coef_")
        coef = sparse.csr_array(values, dtype=np.float64)
        if coef.shape != known.shape[::-1]:
            raise ValueError(f"coef_ must have shape {known.shape[::-1]}; got {coef.shape}")
        _check_weights("coef_", coef.data, coef.data.shape, finite=True)
        coef = coef.T.tocsr()
        coef.eliminate_zeros()
        self._edit(coef=coef.astype(known.dtype, copy=False))

    def sparsify(self) -> Self:
        """Convert `coef_` to a CSR array, which takes less memory if most weights are zero.

        Prediction takes longer if more than about half of the weights are nonzero. Training continues from either form.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._convert(True)

    def densify(self) -> Self:
        """Convert `coef_` to an ndarray, the default form except for large models.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._convert(False)

    def _convert(self, sparse_coef):
        check_is_fitted(self)
        coef = self._current.coef
        if sparse.issparse(coef) != sparse_coef:
            # An optimiser that may continue has the same weights in its own form.
            model = copy(self._current)
            model.coef = sparse.csr_array(coef) if sparse_coef else coef.toarray()
            self._learned = Learned(model, self._learned.optimizer, self._learned.final)
        return self

    @property
    def intercept_(self) -> NDArray[np.float64]:
        return self._current.intercept

    @intercept_.setter
    def intercept_(self, values: ArrayLike) -> None:
        known = self._current.intercept
        self._edit(intercept=_check_weights("intercept_", values, known.shape).astype(known.dtype, copy=False))

    transitions_ = _learned_scores("transitions")
    start_ = _learned_scores("start")
    end_ = _learned_scores("end")

    def _set_learned(self, name, values):
        """Assign learned additional scores."""
        values = _check_weights(f"{name}_", values, self._additional(name).shape)
        additional = self._current.additional.copy()
        self._by_name(additional)[name][...] = values
        # The mask forbids these entries. Stored weights must be finite, or training could not continue.
        additional[np.isneginf(self._mask)] = 0.0
        self._edit(additional=additional)

    def _edit(self, **arrays):
        """Replace arrays of the model, and drop the optimiser, which holds the old arrays."""
        model = copy(self._current)
        vars(model).update(arrays)
        self._learned = Learned(model, final=self._learned.final)

    def _check_whole(self):
        """Raise ValueError unless the fitted attributes are consistent.

        Users may assign each of them, and files and training states may be damaged. Kernels rely on one column of
        scores for each output, and on the shapes of additional scores.
        """
        expected = self.n_features_in_ if self._learned_columns is None else len(self._learned_columns)
        for n_features, n_outputs, n_additional in self._learned_sizes():
            if n_features != expected:
                raise ValueError(
                    f"n_features_in_ is {self.n_features_in_!r}, but coef_ has {n_features} columns; fit again"
                )
            if self._structure.labelled and np.shape(self.classes_) != (n_outputs,):
                raise ValueError(
                    f"classes_ has shape {np.shape(self.classes_)}, but coef_ has {n_outputs} rows; assign as many "
                    "labels, or fit again"
                )
            shapes = self._structure.learned_shapes(n_outputs)
            if n_additional != size_of(shapes):
                raise ValueError(f"there are {n_additional} additional scores, but {shapes} are needed; fit again")
            if np.shape(self._mask) not in ((), (n_additional,)):
                raise ValueError(f"the constraints are not on {n_additional} additional scores; fit again")

    def _learned_sizes(self):
        """Return the numbers of features, outputs and additional scores of the optimiser, if any, and of the model."""
        optimizer = self._learned.optimizer
        return [each.sizes for each in (optimizer, self._current) if each is not None]

    def _check_task(self, task):
        """Raise ValueError unless the model has the scores that a task needs; return the task.

        A structure may have been edited, and a function may return different graphs than before.
        """
        for _, *found in self._learned_sizes():
            if found != [task.n_outputs, task.n_additional]:
                raise ValueError(
                    f"the samples need {task.n_outputs} scores for each row and {task.n_additional} additional scores, "
                    f"but the model has {found[0]} and {found[1]}; fit again"
                )
        return task

    @property
    def _current(self):
        """The current model, computed from the online optimiser if there is one."""
        check_is_fitted(self)
        return self._learned.model

    @property
    def additional_scores_(self) -> dict[str, Any]:
        """The learned additional scores by name: dict of str -> ndarray."""
        additional = self._current.additional
        return self._by_name(additional + self._mask if np.ndim(self._mask) else additional)

    def _by_name(self, additional):
        """Return views of flat additional scores."""
        return split_flat(additional, self._structure.learned_shapes(len(self._current.intercept)))

    def _additional(self, name):
        additional = self.additional_scores_
        if name not in additional:
            raise AttributeError(f"{name}_ is not learned with {self._structure!r}")
        return additional[name]


def _check_weights(name, values, shape, finite=False):
    """Return a checked copy of assigned weights. Unless `finite`, -inf is allowed, which forbids a part."""
    array = check_numbers(values, name).copy()
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {array.shape}")
    if np.isnan(array).any() or (array == np.inf).any() or (finite and np.isinf(array).any()):
        wanted = "finite" if finite else "finite, or -inf to forbid a part"
        raise ValueError(f"{name} contains NaN or infinity; weights must be {wanted}")
    return array
