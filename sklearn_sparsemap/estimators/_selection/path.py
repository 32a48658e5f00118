"""perceptron_path: scores, weights and groups for a range of budgets.

Used by `strengths.py`.
"""

from __future__ import annotations

import numbers
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state
from sklearn.utils.validation import _num_samples

from ..._core.annotations import Any, Iterable, Sequence
from ..._core.html import as_html, table
from ..._core.validation import check_choice, check_matrix, check_n_jobs, check_positive
from .._monitor import report
from .pipeline import draw_seeds, last_step, names_of_groups, splits_of, transform_with

_UNITS = ("groups", "weights")


@dataclass(frozen=True)
class GroupPath:
    """Models of several sizes, by `perceptron_path` or `StructuredGroupLassoCV`; ``print`` shows them as a table.

    Attributes
    ----------
    budgets : list of int or None, or list of float
        In the order given; floats are strengths of `StructuredGroupLassoCV`.
    scores : ndarray of shape (n_budgets,)
        Scores on the validation data, or means over the splits.
    split_scores : ndarray of shape (n_budgets, n_splits)
        With validation data, there is one column.
    n_nonzero_coefs : int ndarray of shape (n_budgets,)
        Numbers of nonzero weights. This and the following attributes belong to the models fitted to all of `X`; for
        strengths, they are means over the splits, and groups that are selected in all splits.
    selected_groups : list of int ndarray
        Indices of the groups that each budget selects.
    names : list
        The name of each group.
    estimators : list or None
        The fitted estimators, if requested.
    best_index : int
        Index of the highest score; ties go to the model with the fewest weights.
    best_budget : int, None or float
    unit : str
        ``"alpha"`` for strengths, else ``"budget"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron, perceptron_path
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> y = X[:, :2].sum(axis=1) > 0
    >>> model = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], shrink_every=50, random_state=0)
    >>> path = perceptron_path(model, X[:100], y[:100], [1, 2], X_val=X[100:], y_val=y[100:])
    >>> path.budgets, path.selected_names(1), path.scores.shape
    ([1, 2], [0], (2,))
    """

    budgets: list
    scores: np.ndarray
    split_scores: np.ndarray
    n_nonzero_coefs: np.ndarray
    selected_groups: list
    names: list = field(repr=False)
    estimators: list = field(default=None, repr=False)

    @property
    def best_index(self) -> int:
        return int(np.lexsort((self.n_nonzero_coefs, -self.scores))[0])

    @property
    def unit(self) -> str:
        return "alpha" if isinstance(self.budgets[0], float) else "budget"

    @property
    def labels(self) -> list[str]:
        """Short texts of the budgets."""
        if self.unit == "alpha":
            return [f"{alpha:.3g}" for alpha in self.budgets]
        return ["all" if budget is None else str(budget) for budget in self.budgets]

    @property
    def best_budget(self) -> int | float | None:
        return self.budgets[self.best_index]

    def selected_names(self, budget: int | float | None) -> list[Any]:
        """Return the names of the groups that a budget selects.

        Parameters
        ----------
        budget : int, None or float
            One of `budgets`.

        Returns
        -------
        names : list

        Raises
        ------
        ValueError
            If the path does not have this budget.
        """
        if budget not in self.budgets:
            raise ValueError(f"the path has no budget of {budget!r}; it has {', '.join(map(str, self.budgets))}")
        return [self.names[g] for g in self.selected_groups[self.budgets.index(budget)]]

    def _rows(self):
        for i, label in enumerate(self.labels):
            mark = "best" if i == self.best_index else ""
            yield label, len(self.selected_groups[i]), self.n_nonzero_coefs[i], self.scores[i], mark

    def __str__(self):
        lines = [f"{self.unit:>8}{'groups':>8}{'weights':>12}{'score':>9}"]
        for label, n_groups, n_weights, score, mark in self._rows():
            lines.append(f"{label:>8}{n_groups:>8}{n_weights:>12,}{score:>9.4f}  {mark}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self):
        return as_html("GroupPath", table((self.unit, "groups", "weights", "score", ""), list(self._rows())))


def perceptron_path(
    estimator: Any,
    X: Any,
    y: Any,
    budgets: Iterable[int | None],
    *,
    X_val: Any = None,
    y_val: Any = None,
    cv: Any = None,
    unit: Literal["groups", "weights"] = "groups",
    scoring: Any = None,
    names: Sequence[Any] | None = None,
    return_estimators: bool = False,
    n_jobs: int | None = None,
    warm_start: bool = False,
) -> GroupPath:
    """Fit a range of budgets; report the score, the size and the selected groups of each model.

    Scores are computed on `X_val` and `y_val` if given, else by cross-validation. Weights and groups are those of
    models fitted to all of `X` and `y`.

    Parameters
    ----------
    estimator : GroupLassoPerceptron, or Pipeline that ends with one
        Its `budget` and `alpha` are ignored. ``verbose=1`` reports each fold and budget. Earlier steps of a pipeline
        are fitted once to each training set, not for each budget.
    X, y
        As for `fit`.
    budgets : sequence of int or None
        Maximum numbers of groups, or of weights. None means no limit, and no penalty.
    X_val, y_val : default=None
        Validation data.
    cv : int, splitter or iterable, default=None
        Splits for cross-validation, as in scikit-learn. Default: 5 folds. Only without `X_val`.
    unit : {"groups", "weights"}, default="groups"
        The unit of `budgets`; see the parameter `budget_unit` of the estimator.
    scoring : str or callable, default=None
        As in scikit-learn. Default: the `score` of the estimator. A scorer gets the input of the last step.
    names : sequence, default=None
        Names of the groups. By default, those of the parameter `groups` or, for templates in a pipeline, those of the
        vectorizer.
    return_estimators : bool, default=False
        Whether to return the models fitted to all of `X`.
    n_jobs : int, default=None
        Number of threads, as in joblib. The result does not depend on it: if `random_state` of the estimator is None,
        one seed is drawn for all.
    warm_start : bool, default=False
        Whether each budget continues from the model of the next larger budget, for one epoch, instead of starting from
        zero for `max_iter` epochs. This is faster if there are more than a few budgets, and was no worse in benchmarks.
        The largest budget begins with ``max_iter - 1`` epochs without a budget. Samples are then visited in the same
        random order in each epoch, with the steps of `partial_fit`. Debiasing is not affected.

    Returns
    -------
    path : GroupPath
        The path. It has the attributes `budgets`, `scores`, `n_nonzero_coefs`, `selected_groups`, `names` and
        `best_budget`.

    Raises
    ------
    ValueError
        If the estimator is of another kind, there are no budgets, one of them is not a positive int or more than the
        number of groups, or one of `X_val` and `y_val` is missing.

    See Also
    --------
    sklearn_sparsemap.plotting.GroupPathDisplay : Draws a path.

    Examples
    --------
    Of four groups of sensors two matter:

    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron, perceptron_path
    >>> X = np.random.default_rng(0).normal(size=(600, 12))
    >>> y = np.where(X[:, :3].sum(axis=1) + 2 * X[:, 9] > 0, "up", "down")
    >>> model = GroupLassoPerceptron(groups=np.repeat(range(4), 3), shrink_every=100, random_state=0)
    >>> path = perceptron_path(model, X[:400], y[:400], [1, 2, 4], X_val=X[400:], y_val=y[400:])
    >>> path.best_budget, [groups.tolist() for groups in path.selected_groups]
    (2, [[3], [0, 3], [0, 1, 2, 3]])
    """
    check_n_jobs(n_jobs)
    check_choice("unit", unit, _UNITS)
    fit_all = _fit_along if warm_start else _fit_all
    model = last_step(estimator).set_params(alpha=0.0, budget=None, budget_unit=unit)
    budgets = _check_budgets(budgets)
    if (X_val is None) != (y_val is None):
        raise ValueError("X_val and y_val go together; one of them is missing")
    if X_val is not None and cv is not None:
        raise ValueError("scores are either on X_val or by cross-validation; leave cv or X_val at None")
    check_consistent_length(check_matrix(X), y)
    scorer = check_scoring(estimator, scoring)
    if model.random_state is None:
        model.random_state = draw_seeds(np.random.mtrand._rand, 1)[0]
    columns = []
    splits = splits_of(estimator, X, y, cv, model) if X_val is None else [(None, X, y, X_val, y_val)]
    for _, *train, X_test, y_test in splits:
        head, (features, features_test) = transform_with(estimator, *train, X_test)
        fitted = fit_all(model, features, train[1], budgets, n_jobs)
        columns.append(_score_all(fitted, scorer, features_test, y_test, n_jobs))
    split_scores = np.stack(columns, axis=1)
    if X_val is None:
        head, (features,) = transform_with(estimator, X, y)
        fitted = fit_all(model, features, y, budgets, n_jobs)
    return GroupPath(
        budgets=budgets,
        scores=split_scores.mean(axis=1),
        split_scores=split_scores,
        n_nonzero_coefs=np.array([each.n_nonzero_coefs_ for each in fitted]),
        selected_groups=[each.selected_groups_ for each in fitted],
        names=names_of_groups(fitted[0], head, names),
        estimators=[_joined(estimator, head, each) for each in fitted] if return_estimators else None,
    )


def _check_budgets(budgets):
    if isinstance(budgets, str | dict) or not isinstance(budgets, Iterable):
        raise ValueError(f"budgets must be a sequence of ints; got {budgets!r}")
    budgets = [int(b) if isinstance(b, numbers.Integral) and not isinstance(b, bool) else b for b in budgets]
    if not budgets:
        raise ValueError("budgets is empty; give at least one")
    for i, budget in enumerate(budgets):
        if budget is not None:
            check_positive(f"budgets[{i}]", budget, integer=True)
    return budgets


def _fit_all(model, X, y, budgets, n_jobs):
    # Threads, because kernels release the GIL, and the data are shared.
    return Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_reported)(clone(model).set_params(budget=budget), "fit", X, y, k, budgets)
        for k, budget in enumerate(budgets)
    )


def _reported(each, method, X, y, k, budgets):
    """Fit the model of a budget, and report it; its epochs are reported with verbose=2."""
    verbose = each.verbose
    each.verbose = max(0, each.verbose - 1)
    getattr(each, method)(X, y)
    each.verbose = verbose
    report(each, "budget", k + 1, len(budgets), f", {each.n_nonzero_coefs_} weights")
    return each


def _fit_along(model, X, y, budgets, n_jobs):
    order = sorted(range(len(budgets)), key=lambda i: -np.inf if budgets[i] is None else -budgets[i])
    ordered = [budgets[i] for i in order]
    fitted = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_reported)(stream, "finalize", X, y, k, budgets)
        for k, stream in enumerate(_streams(clone(model), X, y, ordered))
    )
    return [fitted[order.index(i)] for i in range(len(budgets))]


def _streams(stream, X, y, budgets):
    """Yield a copy of an estimator after each budget; one epoch of `partial_fit` leads from one to the next."""
    labels = stream._labels_in(y)
    if labels is not None:
        is_array = isinstance(y, np.ndarray) and y.dtype != object
        labels = np.unique(y) if is_array else list(labels)
    if stream.shuffle:
        visits = check_random_state(stream.random_state).permutation(_num_samples(X))
        X = _safe_indexing(X, visits)
        y = _safe_indexing(y, visits)
    for _ in range(stream.max_iter - 1):
        stream.partial_fit(X, y, labels)
    for budget in budgets:
        yield deepcopy(stream.set_params(budget=budget).partial_fit(X, y, labels))


def _score_all(fitted, scorer, X, y, n_jobs):
    return np.array(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(scorer)(each, X, y) for each in fitted))


def _joined(estimator, head, model):
    """Return a fitted model, in a pipeline if the estimator was one."""
    if not isinstance(estimator, Pipeline):
        return model
    return type(estimator)([*(head.steps if head is not None else []), (estimator.steps[-1][0], model)])
