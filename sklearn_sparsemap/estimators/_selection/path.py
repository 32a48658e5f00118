"""Choosing groups: what each budget gives (`group_path`), and what chance has a part in (`stability_selection`)."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state
from sklearn.utils.validation import _num_samples

from ..._validation import check_n_jobs, check_positive
from .._structured.perceptron import GroupLassoPerceptron

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

# Seeds are drawn below this.
_N_SEEDS = 2**31 - 1


@dataclass(frozen=True)
class GroupPath:
    """What `group_path` returns; ``print`` shows it as a table.

    Attributes
    ----------
    budgets : list of int or None
        In the order given.
    scores : ndarray of shape (n_budgets,)
        On the validation data, or the mean over the splits.
    split_scores : ndarray of shape (n_budgets, n_splits)
        One column with validation data.
    n_nonzero_coefs : int ndarray of shape (n_budgets,)
        Of the models fitted to all of `X`, and so are the following.
    selected_groups : list of int ndarray
        Numbers of the groups that each budget has selected.
    names : list
        The name of each group.
    estimators : list or None
        The fitted estimators, if asked for.
    best_index : int
        The place of the highest score; of equal ones that with the fewest weights.
    best_budget : int or None
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
    def best_budget(self) -> int | None:
        return self.budgets[self.best_index]

    def selected_names(self, budget: int | None) -> list[Any]:
        """Return the names of the groups that a budget has selected.

        Parameters
        ----------
        budget : int or None
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

    def __str__(self):
        lines = [f"{'budget':>8}{'groups':>8}{'weights':>12}{'score':>9}"]
        for i, budget in enumerate(self.budgets):
            n_groups, mark = len(self.selected_groups[i]), "  best" if i == self.best_index else ""
            label = "all" if budget is None else budget
            lines.append(f"{label:>8}{n_groups:>8}{self.n_nonzero_coefs[i]:>12,}{self.scores[i]:>9.4f}{mark}")
        return "\n".join(lines)


@dataclass(frozen=True)
class StabilitySelection:
    """What `stability_selection` returns; ``print`` shows the groups, the most frequent first.

    Attributes
    ----------
    frequencies : ndarray of shape (n_groups,)
        The share of resamples in which each group was selected.
    selections : bool ndarray of shape (n_resamples, n_groups)
    names : list
        The name of each group.
    """

    frequencies: np.ndarray
    selections: np.ndarray = field(repr=False)
    names: list = field(repr=False)

    def stable(self, threshold: float = 0.6) -> NDArray[np.int64]:
        """Return the groups that were selected in at least a share of the resamples.

        Parameters
        ----------
        threshold : float, default=0.6
            In (0, 1].

        Returns
        -------
        groups : int ndarray
            Their numbers, ascending.

        Raises
        ------
        ValueError
            If the threshold is no share.
        """
        if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real) or not 0 < threshold <= 1:
            raise ValueError(f"threshold must be a share in (0, 1]; got {threshold!r}")
        # A share such as 0.6 of 50 is no exact number.
        return np.flatnonzero(self.frequencies >= threshold - 1e-12)

    def __str__(self):
        order = np.argsort(-self.frequencies, kind="stable")
        width = max(len("group"), *(len(str(self.names[g])) for g in order))
        rows = [f"{self.names[g]!s:<{width}}{self.frequencies[g]:>11.2f}" for g in order]
        return "\n".join([f"{'group':<{width}}{'frequency':>11}", *rows])


def group_path(
    estimator: Any,
    X: Any,
    y: Any,
    budgets: Iterable[int | None],
    *,
    X_val: Any = None,
    y_val: Any = None,
    cv: Any = None,
    scoring: Any = None,
    names: Sequence[Any] | None = None,
    return_estimators: bool = False,
    n_jobs: int | None = None,
) -> GroupPath:
    """Fit a range of budgets; say for each how good the model is, how large, and which groups it has.

    Scores are those on `X_val` and `y_val`, or else are cross-validated. Weights and groups are those of models fitted
    to all of `X` and `y`.

    Parameters
    ----------
    estimator : GroupLassoPerceptron, or Pipeline that ends with one
        Its `budget` and `alpha` are not used. Steps before the last are fitted once to each training set, not for each
        budget.
    X, y
        As for `fit`.
    budgets : sequence of int or None
        Numbers of groups; None stands for all of them, without a penalty.
    X_val, y_val : default=None
        Data to score on.
    cv : int, splitter or iterable, default=None
        As in scikit-learn: None is 5 folds. Only without `X_val`.
    scoring : str or callable, default=None
        As in scikit-learn; None is the `score` of the estimator. It is given what the last step is given.
    names : sequence, default=None
        Names of the groups. None takes those of the groups or, for templates in a pipeline, of the vectorizer.
    return_estimators : bool, default=False
        Whether to return the models that are fitted to all of `X`.
    n_jobs : int, default=None
        Number of threads, as in joblib. The result does not depend on it: where `random_state` of the estimator is
        None, one seed is drawn for all.

    Returns
    -------
    path : GroupPath
        With `budgets`, `scores`, `n_nonzero_coefs`, `selected_groups`, `names`, `best_budget`.

    Raises
    ------
    ValueError
        If the estimator is of another kind, there are no budgets, one of them is no positive int or more than there
        are groups, or one of `X_val` and `y_val` is missing.

    See Also
    --------
    sklearn_sparsemap.plotting.GroupPathDisplay : Draws it.

    Examples
    --------
    Of four groups of sensors two matter:

    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron, group_path
    >>> X = np.random.default_rng(0).normal(size=(600, 12))
    >>> y = np.where(X[:, :3].sum(axis=1) + 2 * X[:, 9] > 0, "up", "down")
    >>> model = GroupLassoPerceptron(groups=np.repeat(range(4), 3), shrink_every=100, random_state=0)
    >>> path = group_path(model, X[:400], y[:400], [1, 2, 4], X_val=X[400:], y_val=y[400:])
    >>> path.best_budget, [groups.tolist() for groups in path.selected_groups]
    (2, [[3], [0, 3], [0, 1, 2, 3]])
    """
    check_n_jobs(n_jobs)
    model = _last_step(estimator).set_params(alpha=0.0)
    budgets = _check_budgets(budgets)
    if (X_val is None) != (y_val is None):
        raise ValueError("X_val and y_val go together; one of them is missing")
    if X_val is not None and cv is not None:
        raise ValueError("scores are either on X_val or cross-validated; leave cv or X_val at None")
    check_consistent_length(X, y)
    scorer = check_scoring(estimator, scoring)
    if model.random_state is None:
        model.random_state = _draw_seeds(np.random.mtrand._rand, 1)[0]
    if X_val is not None:
        head, (features, features_val) = _transform(estimator, X, y, X_val)
        fitted = _fit_all(model, features, y, budgets, n_jobs)
        split_scores = _score_all(fitted, scorer, features_val, y_val, n_jobs)[:, None]
    else:
        columns = []
        for train, test in check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y):
            y_train, y_test = _safe_indexing(y, train), _safe_indexing(y, test)
            X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
            _, (features, features_val) = _transform(estimator, X_train, y_train, X_test)
            fitted = _fit_all(model, features, y_train, budgets, n_jobs)
            columns.append(_score_all(fitted, scorer, features_val, y_test, n_jobs))
        split_scores = np.stack(columns, axis=1)
        head, (features,) = _transform(estimator, X, y)
        fitted = _fit_all(model, features, y, budgets, n_jobs)
    return GroupPath(
        budgets=budgets,
        scores=split_scores.mean(axis=1),
        split_scores=split_scores,
        n_nonzero_coefs=np.array([each.n_nonzero_coefs_ for each in fitted]),
        selected_groups=[each.selected_groups_ for each in fitted],
        names=names_of_groups(fitted[0], head, names),
        estimators=[_joined(estimator, head, each) for each in fitted] if return_estimators else None,
    )


def stability_selection(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_resamples: int = 50,
    sample_fraction: float = 0.5,
    names: Sequence[Any] | None = None,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> StabilitySelection:
    """Select groups from many random parts of the data; say how often each is selected.

    A group that is selected from most parts is hardly there by chance. (Meinshausen and Bühlmann, *Stability
    Selection*, 2010, with groups.)

    Parameters
    ----------
    estimator : GroupLassoPerceptron, or Pipeline that ends with one
        With `budget` or `alpha`. Steps before the last are fitted once, to all of `X`.
    X, y
        As for `fit`.
    n_resamples : int, default=50
        How many parts are drawn.
    sample_fraction : float, default=0.5
        The size of each, as a share in (0, 1) of the samples, which are drawn without replacement.
    names : sequence, default=None
        As in `group_path`.
    random_state : int, RandomState or None, default=None
        Draws the parts, and a seed for each fit where `random_state` of the estimator is None.
    n_jobs : int, default=None
        Number of threads, as in joblib. The result does not depend on it.

    Returns
    -------
    stability : StabilitySelection
        With `frequencies`, `names`, and ``stable(threshold)``.

    Raises
    ------
    ValueError
        If the estimator is of another kind, has neither `budget` nor `alpha`, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron, stability_selection
    >>> X = np.random.default_rng(0).normal(size=(300, 12))
    >>> y = np.where(X[:, :3].sum(axis=1) > 0, "up", "down")
    >>> model = GroupLassoPerceptron(groups=np.repeat(range(4), 3), budget=2, shrink_every=50)
    >>> stability = stability_selection(model, X, y, n_resamples=20, random_state=0)
    >>> float(stability.frequencies[0]), stability.stable(0.9)
    (1.0, array([0]))
    """
    check_n_jobs(n_jobs)
    model = _last_step(estimator)
    if model.budget is None and not model.alpha:
        raise ValueError("without budget and alpha all groups are selected; set one of them")
    check_positive("n_resamples", n_resamples, integer=True)
    if not isinstance(sample_fraction, numbers.Real) or not 0 < sample_fraction < 1:
        raise ValueError(f"sample_fraction must be a share in (0, 1); got {sample_fraction!r}")
    check_consistent_length(X, y)
    n_samples = _num_samples(X)
    size = int(sample_fraction * n_samples)
    if size < 1:
        raise ValueError(f"sample_fraction={sample_fraction} of {n_samples} samples is less than one; raise it")
    # What is selected is known before debiasing.
    model.debias = None
    rng = check_random_state(random_state)
    parts = [np.sort(rng.permutation(n_samples)[:size]) for _ in range(n_resamples)]
    models = [clone(model) for _ in parts]
    if model.random_state is None:
        for each, seed in zip(models, _draw_seeds(rng, n_resamples)):
            each.random_state = seed
    head, (features,) = _transform(estimator, X, y)
    fitted = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_fit_part)(each, features, y, part) for each, part in zip(models, parts)
    )
    selections = np.zeros((n_resamples, fitted[0].groups_.n_groups), dtype=bool)
    for row, each in zip(selections, fitted):
        row[each.selected_groups_] = True
    return StabilitySelection(selections.mean(axis=0), selections, names_of_groups(fitted[0], head, names))


def names_of_groups(model, head, names=None):
    """Return the names of a fitted model's groups: those given, of the templates in a pipeline, or its own."""
    n_groups = model.groups_.n_groups
    if names is not None:
        if len(names) != n_groups:
            raise ValueError(f"names has {len(names)} entries for {n_groups} groups; give one for each")
        return list(names)
    if isinstance(model.groups, str):
        templates = template_names_of([] if head is None else head.steps)
        if templates is not None:
            return templates[:n_groups]
    return list(model.groups_.names)


def template_names_of(steps):
    """Return the names of the templates that one of the steps of a pipeline has made; None if there is none."""
    for _, step in reversed(steps):
        if hasattr(step, "template_names_"):
            return list(step.template_names_)
    return None


def _last_step(estimator):
    """Return a clone of the estimator that selects."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(last, GroupLassoPerceptron):
        raise ValueError(
            "estimator must be a GroupLassoPerceptron, or a Pipeline whose last step is one; "
            f"got {type(last).__name__}{' as the last step' if last is not estimator else ''}"
        )
    return clone(last)


def _check_budgets(budgets):
    if isinstance(budgets, str | dict) or not hasattr(budgets, "__iter__"):
        raise ValueError(f"budgets must be a sequence of ints; got {budgets!r}")
    budgets = [int(b) if isinstance(b, numbers.Integral) and not isinstance(b, bool) else b for b in budgets]
    if not budgets:
        raise ValueError("budgets is empty; give at least one")
    for i, budget in enumerate(budgets):
        if budget is not None:
            check_positive(f"budgets[{i}]", budget, integer=True)
    return budgets


def _transform(estimator, X, y, *others):
    """Fit a clone of the steps before the last; return it (or None) and what becomes of X and the others."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return None, (X, *others)
    head = clone(estimator[:-1])
    features = head.fit_transform(X, y)
    return head, (features, *(head.transform(other) for other in others))


def _fit_all(model, X, y, budgets, n_jobs):
    # Threads: the kernels hold no lock, and the data are shared.
    return Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(clone(model).set_params(budget=budget).fit)(X, y) for budget in budgets
    )


def _score_all(fitted, scorer, X, y, n_jobs):
    return np.array(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(scorer)(each, X, y) for each in fitted))


def _fit_part(model, X, y, part):
    return model.fit(_safe_indexing(X, part), _safe_indexing(y, part))


def _joined(estimator, head, model):
    """Return a fitted model as the kind of estimator that was given."""
    if not isinstance(estimator, Pipeline):
        return model
    return Pipeline([*(head.steps if head is not None else []), (estimator.steps[-1][0], model)])


def _draw_seeds(rng, n):
    return [int(seed) for seed in rng.randint(_N_SEEDS, size=n)]
