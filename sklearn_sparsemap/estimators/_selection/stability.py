"""stability_selection: the frequency with which groups are selected from random parts of the data."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state
from sklearn.utils.validation import _num_samples

from ..._core.annotations import Any, NDArray, Sequence
from ..._core.html import N_ROWS, as_html, table
from ..._core.validation import check_matrix, check_n_jobs, check_positive
from .._monitor import report
from .pipeline import draw_seeds, last_step, names_of_groups, transform_with


@dataclass(frozen=True)
class StabilitySelection:
    """The result of `stability_selection`; ``print`` shows the groups, the most frequent first.

    Attributes
    ----------
    frequencies : ndarray of shape (n_groups,)
        The fraction of resamples in which each group was selected.
    selections : bool ndarray of shape (n_resamples, n_groups)
        Whether a group was selected in a resample.
    names : list
        The name of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron, stability_selection
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> y = X[:, :2].sum(axis=1) > 0
    >>> model = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], budget=1, shrink_every=50)
    >>> found = stability_selection(model, X, y, n_resamples=5, random_state=0)
    >>> found.stable(0.9).tolist(), found.selections.shape
    ([0], (5, 3))
    """

    frequencies: np.ndarray
    selections: np.ndarray = field(repr=False)
    names: list = field(repr=False)

    def stable(self, threshold: float = 0.6) -> NDArray[np.int64]:
        """Return the groups that were selected in at least a fraction of the resamples.

        Parameters
        ----------
        threshold : float, default=0.6
            The fraction, in (0, 1]. A larger one returns fewer groups.

        Returns
        -------
        groups : int ndarray
            Indices, ascending.

        Raises
        ------
        ValueError
            If the threshold is not in (0, 1].
        """
        if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real) or not 0 < threshold <= 1:
            raise ValueError(f"threshold must be a fraction in (0, 1]; got {threshold!r}")
        # A frequency such as 30 / 50 may be below 0.6 by rounding.
        return np.flatnonzero(self.frequencies >= threshold - 1e-12)

    def __str__(self):
        order = np.argsort(-self.frequencies, kind="stable")
        width = max(len("group"), *(len(str(self.names[g])) for g in order))
        rows = [f"{self.names[g]!s:<{width}}{self.frequencies[g]:>11.2f}" for g in order]
        return "\n".join([f"{'group':<{width}}{'frequency':>11}", *rows])

    def _repr_html_(self):
        order = np.argsort(-self.frequencies, kind="stable")
        rows = [(self.names[g], self.frequencies[g]) for g in order[:N_ROWS]]
        return as_html("StabilitySelection", table(("group", "frequency"), rows, len(order)))


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
    """Select groups from many random parts of the data; report how frequently each group is selected.

    This is stability selection [1]_ of groups. A group that is selected from most parts is unlikely to be selected by
    chance.

    Parameters
    ----------
    estimator : GroupLassoPerceptron, or Pipeline that ends with one
        It needs a `budget` or an `alpha`. ``verbose=1`` reports each part. Earlier steps of a pipeline are fitted once,
        to all of `X`.
    X, y
        As for `fit`.
    n_resamples : int, default=50
        Number of random parts.
    sample_fraction : float, default=0.5
        The size of each part, as a fraction in (0, 1) of the samples, which are drawn without replacement.
    names : sequence, default=None
        As in `perceptron_path`.
    random_state : int, RandomState or None, default=None
        Seed of the parts and, if `random_state` of the estimator is None, of the fits.
    n_jobs : int, default=None
        Number of threads, as in joblib. The result does not depend on it.

    Returns
    -------
    stability : StabilitySelection
        The result. It has the attributes `frequencies` and `names`, and the method ``stable(threshold)``.

    Raises
    ------
    ValueError
        If the estimator is of another kind, has neither `budget` nor `alpha`, or a number is out of range.

    References
    ----------
    .. [1] Meinshausen and Bühlmann. Stability Selection. Journal of the Royal Statistical Society B 72, 2010.

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
    model = last_step(estimator)
    if not model._has_penalty:
        raise ValueError("without budget and alpha all groups are selected; set one of them")
    check_positive("n_resamples", n_resamples, integer=True)
    if not isinstance(sample_fraction, numbers.Real) or not 0 < sample_fraction < 1:
        raise ValueError(f"sample_fraction must be a fraction in (0, 1); got {sample_fraction!r}")
    check_consistent_length(check_matrix(X), y)
    n_samples = _num_samples(X)
    size = int(sample_fraction * n_samples)
    if size < 1:
        raise ValueError(f"sample_fraction={sample_fraction} of {n_samples} samples is less than one; raise it")
    # Debiasing does not change the selection.
    model.debias = None
    rng = check_random_state(random_state)
    parts = [np.sort(rng.permutation(n_samples)[:size]) for _ in range(n_resamples)]
    models = [clone(model) for _ in parts]
    if model.random_state is None:
        for each, seed in zip(models, draw_seeds(rng, n_resamples)):
            each.random_state = seed
    head, (features,) = transform_with(estimator, X, y)
    fitted = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_fit_part)(each, features, y, part, k, n_resamples) for k, (each, part) in enumerate(zip(models, parts))
    )
    selections = np.zeros((n_resamples, fitted[0].groups_.n_groups), dtype=bool)
    for row, each in zip(selections, fitted):
        row[each.selected_groups_] = True
    return StabilitySelection(selections.mean(axis=0), selections, names_of_groups(fitted[0], head, names))


def _fit_part(each, X, y, part, k, n_parts):
    """Fit a model to a part, and report it; its epochs are reported with verbose=2."""
    verbose = each.verbose
    each.verbose = max(0, each.verbose - 1)
    each.fit(_safe_indexing(X, part), _safe_indexing(y, part))
    each.verbose = verbose
    report(each, "part", k + 1, n_parts)
    return each
