"""Paths of StructuredGroupLasso over strengths of the penalty, and the choice of a strength by cross-validation."""

from __future__ import annotations

import numbers
from copy import copy
from functools import reduce
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import StrOptions

from ..._core.annotations import Any, ArrayLike, Callable, LossName, Mapping, NDArray, Self, StructureName
from ..._core.tables import by_samples
from ..._core.validation import FRACTION, POSITIVE_INT, check_numbers, check_positive
from ...structures import Structure
from .._failures import restore_on_error
from .._monitor import report, with_callbacks
from .._structured.group_lasso import StructuredGroupLasso
from .path import GroupPath
from .pipeline import splits_of

# Factor of the largest strength of a path. It ensures that all weights are zero there in spite of rounding.
_ABOVE = 1.0 + 1e-6
# A strength at which all penalised weights are zero.
_HUGE = 1e12
# Relative difference of mean scores that is rounding: the same scores of splits in another order.
_TIE = 1e-12


def structured_group_lasso_path(
    X: Any,
    y: Any,
    *,
    n_alphas: int = 50,
    eps: float = 1e-2,
    alphas: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **parameters: Any,
) -> tuple[NDArray[np.float64], list[Any], NDArray[np.float64]]:
    """Fit `StructuredGroupLasso` for a range of strengths, each from the weights of the previous strength.

    Parameters
    ----------
    X, y
        As in `StructuredGroupLasso.fit`.
    n_alphas : int, default=50
        Number of strengths, evenly spaced on a logarithmic scale.
    eps : float, default=1e-2
        The smallest strength, as a fraction of the largest one, at which all weights of features are zero.
    alphas : array-like of shape (n_alphas,), default=None
        The strengths themselves; `n_alphas` and `eps` are then not used.
    sample_weight : array-like of shape (n_samples,), default=None
    **parameters
        The parameters of `StructuredGroupLasso`, except `alpha` and `warm_start`.

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
        Descending.
    coefs : list of ndarray or CSR of shape (n_outputs, n_features)
        The weights at each strength; CSR if `X` is sparse.
    gaps : ndarray of shape (n_alphas,)
        The duality gap at each strength.

    Raises
    ------
    ValueError
        As in `StructuredGroupLasso.fit`; also if there are no strengths, or one of them is not positive.

    See Also
    --------
    StructuredGroupLassoCV : Chooses the strength by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import structured_group_lasso_path
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> y = X[:, 2] + X[:, 3] > 0
    >>> alphas, coefs, gaps = structured_group_lasso_path(X, y, n_alphas=4, eps=0.1, groups=[0, 0, 1, 1, 2, 2])
    >>> [np.flatnonzero(coef.any(axis=0)).tolist() for coef in coefs]
    [[], [2, 3], [2, 3], [2, 3]]
    """
    excluded = [name for name in ("alpha", "warm_start") if name in parameters]
    if excluded:
        raise TypeError(f"structured_group_lasso_path has no parameter {excluded[0]!r}; a path has its own strengths")
    path = StrengthPath(StructuredGroupLasso(**parameters), X, y, sample_weight)
    alphas = path.strengths(alphas, n_alphas, eps)
    fitted = path.fit_all(alphas)
    coefs = [sparse.csr_array(each.coef_) if _is_sparse(X) else each.coef_ for each in fitted]
    return alphas, coefs, np.array([each.dual_gap_ for each in fitted])


def _is_sparse(X):
    return sparse.issparse(X) or sparse.issparse(getattr(X, "values", None))


class StrengthPath:
    """Fits of one model to the same samples with several strengths, each from the weights of the previous one.

    Parameters
    ----------
    model : StructuredGroupLasso
        Its parameters.
    X, y, sample_weight
        As for `StructuredGroupLasso.fit`.
    """

    def __init__(self, model, X, y, sample_weight):
        # With this strength, only intercepts and additional scores are learned. The path starts from them.
        self._original, self._data = model, (X, y)
        # The strengths are reported; with verbose=2 also the iterations of each.
        self._model = clone(model).set_params(alpha=_HUGE, verbose=max(0, model.verbose - 1))
        self._X, task, start = self._model._prepare_fit(X, y, sample_weight)
        self._solver = self._model._new_solver(task, self._X, start)
        self.fit(_HUGE)

    def strengths(self, alphas, n_alphas, eps):
        """Return the strengths of the path, the largest first; call it before the first fit."""
        if alphas is not None:
            alphas = np.sort(check_numbers(alphas, "alphas"))[::-1]
            if alphas.ndim != 1 or not len(alphas) or not (np.isfinite(alphas) & (alphas > 0.0)).all():
                raise ValueError("alphas must be one or more positive numbers")
            return alphas
        check_positive("n_alphas", n_alphas, integer=True)
        if not isinstance(eps, numbers.Real) or not 0 < eps < 1:
            raise ValueError(f"eps must be a fraction in (0, 1); got {eps!r}")
        smallest = self._solver.penalty.smallest_alpha(self._solver.slopes())
        largest = _ABOVE * max(smallest, np.finfo(float).tiny / eps)
        return np.geomspace(largest, eps * largest, n_alphas)

    def fit_all(self, alphas):
        """Return the models fitted with several strengths, in this order."""
        fitted = []
        for k, alpha in enumerate(alphas):
            fitted.append(self.fit(alpha))
            note = f", alpha {alpha:.3g}: {len(fitted[-1].selected_groups_)} groups"
            report(self._original, "strength", k + 1, len(alphas), note)
        return fitted

    def fit(self, alpha):
        """Return the model fitted with a strength."""
        return copy(self._model.set_params(alpha=float(alpha))._refit(self._data, self._X, self._solver))


class StructuredGroupLassoCV(StructuredGroupLasso):
    """`StructuredGroupLasso` with the strength of the penalty chosen by cross-validation.

    A path over the same strengths is fitted to the training part of each split. The final model is fitted to all
    samples, with the chosen strength.

    Parameters
    ----------
    structure, loss, cost, groups, l1_ratio, group_weights, temperature, tol, max_iter, fit_intercept, class_weight, \
debias, n_jobs
        As in `StructuredGroupLasso`.
    verbose : int, default=0
        1 reports each fold and strength, and the final fit; 2 also all iterations.
    n_alphas : int, default=30
        Number of strengths, evenly spaced on a logarithmic scale.
    eps : float, default=1e-2
        The smallest strength, as a fraction of the largest one.
    alphas : array-like, default=None
        The strengths themselves; `n_alphas` and `eps` are then not used.
    cv : int, splitter or iterable, default=None
        As in scikit-learn. Default: 5 folds.
    rule : {"best", "one_se"}, default="best"
        ``"best"`` chooses the strength with the highest mean score. ``"one_se"`` chooses the largest strength whose
        mean score is at most one standard error lower, which selects fewer groups.
    scoring : str or callable, default=None
        As in scikit-learn. Default: the method `score`.

    Attributes
    ----------
    alpha_ : float
        The chosen strength.
    alphas_ : ndarray of shape (n_alphas,)
        All strengths, descending.
    split_scores_ : ndarray of shape (n_alphas, n_splits)
        Scores on the held-out parts.
    mean_scores_ : ndarray of shape (n_alphas,)
        Means over the splits.
    path_ : GroupPath
        The scores with the numbers of weights, for `plotting.GroupPathDisplay`.

    Notes
    -----
    The other attributes are those of `StructuredGroupLasso`, fitted with `alpha_`.

    See Also
    --------
    structured_group_lasso_path : The path alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredGroupLassoCV
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> y = X[:, 2] + X[:, 3] > 0
    >>> model = StructuredGroupLassoCV(groups=[0, 0, 1, 1, 2, 2], n_alphas=5, rule="one_se", cv=3).fit(X, y)
    >>> model.selected_groups_, model.mean_scores_.shape
    (array([1]), (5,))
    """

    _set_by_fit = (*StructuredGroupLasso._set_by_fit, "alpha_", "alphas_", "split_scores_", "mean_scores_", "path_")
    _parameter_constraints = {
        **{name: what for name, what in StructuredGroupLasso._parameter_constraints.items()
           if name not in ("alpha", "warm_start")},
        "n_alphas": [POSITIVE_INT],
        "eps": [FRACTION],
        "alphas": ["array-like", None],
        "cv": ["cv_object"],
        "rule": [StrOptions({"best", "one_se"})],
        "scoring": [str, callable, None],
    }  # fmt: skip

    alpha_: float
    alphas_: NDArray[np.float64]
    split_scores_: NDArray[np.float64]
    mean_scores_: NDArray[np.float64]
    path_: GroupPath
    warm_start = False

    def __init__(
        self,
        structure: StructureName | Structure | Callable[[Any], Any] = "auto",
        loss: LossName = "sparsemap",
        cost: ArrayLike | None = None,
        groups: Any = None,
        n_alphas: int = 30,
        eps: float = 1e-2,
        alphas: ArrayLike | None = None,
        cv: Any = None,
        rule: Literal["best", "one_se"] = "best",
        scoring: Any = None,
        l1_ratio: float = 0.0,
        group_weights: Literal["uniform", "log2", "sqrt"] | Mapping[Any, float] | ArrayLike | None = None,
        temperature: float = 1.0,
        tol: float = 1e-6,
        max_iter: int = 5000,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        debias: bool | float = False,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.cost = cost
        self.groups = groups
        self.n_alphas = n_alphas
        self.eps = eps
        self.alphas = alphas
        self.cv = cv
        self.rule = rule
        self.scoring = scoring
        self.l1_ratio = l1_ratio
        self.group_weights = group_weights
        self.temperature = temperature
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.debias = debias
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def alpha(self) -> float:
        """Strength of the penalty: the chosen one, or 1 before `fit`."""
        return getattr(self, "alpha_", 1.0)

    @with_callbacks
    @restore_on_error
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the strength by cross-validation, then fit all samples.

        Parameters
        ----------
        X, y, sample_weight
            As in `StructuredGroupLasso.fit`. Scores on held-out parts are not weighted.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As in `StructuredGroupLasso.fit`; also if no split is possible.
        """
        sample_weight = by_samples(sample_weight, X, "sample_weight")
        X_all, task, start = self._prepare_fit(X, y, sample_weight)
        names = set(StructuredGroupLasso().get_params()) - {"alpha", "warm_start"}
        model = StructuredGroupLasso(**{name: getattr(self, name) for name in names})
        self.alphas_ = StrengthPath(model, X, y, sample_weight).strengths(self.alphas, self.n_alphas, self.eps)
        scorer = check_scoring(model, self.scoring)
        columns = []
        sizes = []
        selected = []
        for train, X_train, y_train, X_test, y_test in splits_of(self, X, y, self.cv, self):
            weights = None if sample_weight is None else _safe_indexing(np.asarray(sample_weight), train)
            path = StrengthPath(model, X_train, y_train, weights)
            fitted = path.fit_all(self.alphas_)
            columns.append([scorer(each, X_test, y_test) for each in fitted])
            sizes.append([each.n_nonzero_coefs_ for each in fitted])
            selected.append([each.selected_groups_ for each in fitted])
        if not columns:
            raise ValueError(f"cv={self.cv!r} yields no splits; pass a number of folds, or a splitter")
        self.split_scores_ = np.array(columns).T
        self.mean_scores_ = self.split_scores_.mean(axis=1)
        self.path_ = GroupPath(
            budgets=self.alphas_.tolist(),
            scores=self.mean_scores_,
            split_scores=self.split_scores_,
            n_nonzero_coefs=np.rint(np.mean(sizes, axis=0)).astype(int),
            selected_groups=[reduce(np.intersect1d, of_splits) for of_splits in zip(*selected)],
            names=list(self.groups_.names),
        )
        self.alpha_ = float(self.alphas_[self._choose()])
        return self._minimise((X, y), X_all, self._new_solver(task, X_all, start))

    def _choose(self):
        """Return the index of the chosen strength; of strengths whose scores tie up to rounding, the largest one."""
        scores = self.mean_scores_
        best = int(np.argmax(scores >= scores.max() - _TIE * np.abs(scores.max())))
        if self.rule == "best":
            return best
        n_splits = self.split_scores_.shape[1]
        error = self.split_scores_[best].std(ddof=1) / np.sqrt(n_splits) if n_splits > 1 else 0.0
        return int(np.argmax(scores >= scores[best] - max(error, _TIE * np.abs(scores[best]))))
