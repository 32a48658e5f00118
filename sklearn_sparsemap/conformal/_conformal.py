"""ConformalStructures: split conformal prediction of sets of structures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import StrOptions

from .._core.annotations import Any, ArrayLike, Callable, NDArray, Self
from .._core.doc_link import DocLinkMixin
from .._core.unwrap import transformed, unwrap
from .._core.validation import FRACTION, POSITIVE_INT, check_parameters, quoted
from ..estimators._failures import warn_user
from ._samples import samples_of
from ._scores import SCORES

# Length of the first n-best list of a sample, and factor by which it grows while all of its structures are in the set.
_FIRST, _GROWTH = 8, 4
# Rounding errors of sums and of (n + 1) * confidence_level, relative to their size.
_ROUNDING = 1e-9


class ConformalStructures(DocLinkMixin, BaseEstimator):
    """Sets of structures that contain the gold structure with a chosen probability.

    This is split conformal prediction [1]_ for a fitted model. Each structure has a nonconformity, which is small if
    the structure is plausible under the model. `conformalize` computes it for the gold structures of calibration
    samples, which the model was not trained with. The set of a new sample consists of all structures whose
    nonconformity is at most a quantile of these values. If calibration samples and new samples are exchangeable, the
    set contains the gold structure with a probability of at least `confidence_level`, whatever the model.

    Parameters
    ----------
    fitted_estimator : estimator
        A fitted `StructuredSparseMAPClassifier`, `GroupLassoPerceptron` or `MultilabelLPSparseMAP`, or a pipeline or a
        search that contains one.
    confidence_level : float, default=0.9
        Probability that the set contains the gold structure, between 0 and 1. Larger values give larger sets. It may be
        changed after calibration.
    max_size : int, default=1000
        Maximum number of structures that `predict_set` lists for a sample. It does not affect `covers`.
    score : {"reduced_cost", "log_loss"}, default="reduced_cost"
        The nonconformity.

        - ``"reduced_cost"``: the maximum score minus the score of the structure, where half of the SparseMAP marginals
          are subtracted from the scores of parts. It is zero for the best structure, so no set is empty.
        - ``"log_loss"``: minus the log-probability. For structures, the distribution is the Gibbs distribution of
          models trained with crf or margin_crf. For label sets, labels are independent, with the log odds of
          `predict_proba`, over the sets that a tree of labels allows. Sets can be empty.
    groups : callable or "class", default=None
        A function from a sample, an element of X, to its group, such as a bin of lengths. Each group has a separate
        threshold, so the level holds within each group (Mondrian calibration). With ``"class"``, for one label for each
        sample, the level holds for each class. Groups can also be passed to the methods, as an array.

    Attributes
    ----------
    nonconformity_ : ndarray of shape (n_samples,)
        Nonconformity of the gold structures of the calibration samples. Infinite for structures that the model cannot
        predict.
    groups_ : list of length n_samples
        The group of each calibration sample; None without groups.
    threshold_ : float, or dict of group -> float
        The largest nonconformity in a set. Infinite if there are too few calibration samples.
    truncated_ : bool ndarray of shape (n_samples,)
        Whether the lists of the last call of `predict_set` were cut at `max_size`.

    See Also
    --------
    sklearn_sparsemap.plotting.ConformalCoverageDisplay : Coverage and sizes by confidence level.
    sklearn_sparsemap.n_best : The best structures, without a level.

    Notes
    -----
    The threshold is the calibration score of rank ``ceil((n + 1) * confidence_level)``. Coverage is then between the
    level and the level plus ``1 / (n + 1)``, unless nonconformities tie. The reduced cost of a best structure is zero.
    So if the accuracy of the model exceeds `confidence_level`, most sets have one structure, and the coverage is the
    accuracy.

    **Reduced costs.** Let s be the scores divided by the temperature, and u the SparseMAP marginals. Under the scores
    ``s - u``, all structures of the face that contains u are optimal: their reduced cost is zero, and there are many of
    them for uncertain samples. ``s - u / 2`` breaks these ties by the scores. The temperature is that of the estimator,
    which was chosen in training, so all calibration samples can be used for the threshold.

    **Hierarchies.** The set of a sample consists of coherent label sets, each of which contains the ancestors of its
    labels. Members that are subsets of other members are the coarse predictions.

    **Impossible structures.** Labels that do not occur in training, labels that violate constraints, and trees that the
    structure does not allow (`Structure.misfits`) are in no set. In calibration they are not covered.

    Lists are computed by `n_best`, with increasing length until a structure is outside the set. Label sets with edges,
    or with constraints other than a tree of labels, and assignments of factor graphs need a search for each member, so
    choose a small `max_size`.

    References
    ----------
    .. [1] Vovk, Gammerman and Shafer. Algorithmic Learning in a Random World. Springer, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.conformal import ConformalStructures
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(4, 2)) for _ in range(300)]
    >>> y = [np.where(x[:, 0] + rng.normal(scale=0.5, size=4) > 0, "up", "down") for x in X]
    >>> model = StructuredSparseMAPClassifier("chain").fit(X[:100], y[:100])
    >>> conformal = ConformalStructures(model, confidence_level=0.8).conformalize(X[100:200], y[100:200])
    >>> float(conformal.covers(X[200:], y[200:]).mean())
    0.83
    >>> sets = conformal.predict_set(X[200:])
    >>> [(path.tolist(), round(nonconformity, 2)) for path, nonconformity in sets[1]]
    [(['up', 'up', 'up', 'down'], 0.0), (['down', 'up', 'up', 'down'], 0.14)]
    """

    _parameter_constraints = {
        "fitted_estimator": "no_validation",
        "confidence_level": [FRACTION],
        "max_size": [POSITIVE_INT],
        "score": [StrOptions(set(SCORES))],
        "groups": [callable, StrOptions({"class"}), None],
    }

    def __init__(
        self,
        fitted_estimator: Any,
        confidence_level: float = 0.9,
        max_size: int = 1000,
        score: Literal["reduced_cost", "log_loss"] = "reduced_cost",
        groups: Callable[[Any], Any] | Literal["class"] | None = None,
    ) -> None:
        self.fitted_estimator = fitted_estimator
        self.confidence_level = confidence_level
        self.max_size = max_size
        self.score = score
        self.groups = groups

    def conformalize(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Compute the nonconformity of gold structures.

        Parameters
        ----------
        X, y : as the estimator's `fit` takes them
            Calibration samples, which the estimator was not fitted with.
        groups : array-like of shape (n_samples,), default=None
            The group of each sample, if the parameter `groups` is None. It must then be passed to the other methods,
            too.

        Returns
        -------
        self : ConformalStructures

        Raises
        ------
        ValueError
            If the estimator is not fitted or not from this package, a parameter is out of range, or the data are not as
            described.

        Warns
        -----
        UserWarning
            If there are too few samples, or samples of a group, for the level. Sets then contain every structure.
        """
        check_parameters(self)
        found = self._nonconformity(X)
        nonconformity = found.of_gold(y)
        of_samples = self._groups_of(found, X, groups, y)
        self.nonconformity_, self.groups_, self._by_array = nonconformity, of_samples, groups is not None
        needed = math.ceil(self.confidence_level / (1.0 - self.confidence_level) - _ROUNDING)
        for group, n in Counter(of_samples).items():
            if n < needed:
                warn_user(
                    f"confidence_level={self.confidence_level} needs at least {needed} calibration samples"
                    f"{'' if group is None else f' of group {group!r}'}, but there are {n}, so sets contain every "
                    "structure; add samples, or lower the level"
                )
        return self

    @property
    def threshold_(self) -> Any:
        self._check_calibrated()
        thresholds = self._thresholds(self.groups_)
        return thresholds if self.groups is not None or self._by_array else thresholds[None]

    def nonconformity(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Compute the nonconformity of structures.

        Parameters
        ----------
        X, y : as in `conformalize`
            One structure for each sample.

        Returns
        -------
        nonconformity : ndarray of shape (n_samples,)
            Infinite for structures that the model cannot predict.
        """
        check_parameters(self)
        return self._nonconformity(X).of_gold(y)

    def covers(self, X: Any, y: Any, groups: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Tell whether structures are in the sets of their samples, without listing the sets.

        Parameters
        ----------
        X, y, groups : as in `conformalize`

        Returns
        -------
        covered : bool ndarray of shape (n_samples,)
        """
        self._check_calibrated()
        self._check_given(groups)
        found = self._nonconformity(X)
        nonconformity = found.of_gold(y)
        of_samples = self._groups_of(found, X, groups, y)
        thresholds = self._thresholds(of_samples)
        limits = [thresholds[group] for group in of_samples]
        return (nonconformity <= limits) & np.isfinite(nonconformity)

    def predict_set(self, X: Any, groups: ArrayLike | None = None) -> list[list[tuple[Any, float]]]:
        """List the structures in the set of each sample.

        Parameters
        ----------
        X, groups : as in `conformalize`

        Returns
        -------
        sets : list of lists of (structure, nonconformity)
            At most `max_size` structures of each sample, in ascending order of nonconformity. Structures are as in
            `predict` of the estimator. `truncated_` tells which lists are incomplete.
        """
        self._check_calibrated()
        self._check_given(groups)
        found = self._nonconformity(X)
        by_class = self.groups == "class"
        of_samples = [None] * len(found) if by_class else self._groups_of(found, X, groups)
        thresholds = self.threshold_ if by_class else self._thresholds(of_samples)
        sets, truncated = [], np.zeros(len(found), bool)
        for i, group in enumerate(of_samples):
            own, truncated[i] = self._list(found, i, np.inf if by_class else thresholds[group])
            if by_class:
                own = [(label, value) for label, value in own if value <= thresholds.get(label, np.inf)]
            sets.append(own)
        self.truncated_ = truncated
        return sets

    def _nonconformity(self, X):
        """Return the `Nonconformity` of samples."""
        steps, model = unwrap(self.fitted_estimator)
        argmax, score = SCORES[self.score]
        return score(samples_of(model, transformed(steps, X), argmax))

    def _check_calibrated(self):
        if not hasattr(self, "nonconformity_"):
            raise NotFittedError("this ConformalStructures is not calibrated yet; call conformalize")
        check_parameters(self)

    def _check_given(self, groups):
        """Raise ValueError unless groups are passed if and only if they were passed to `conformalize`."""
        if self._by_array != (groups is not None):
            raise ValueError(
                "groups must be passed, because they were passed to conformalize; one for each sample"
                if self._by_array
                else "groups were not passed to conformalize; call it with groups, too"
            )

    def _groups_of(self, found, X, given, y=None):
        """Return the group of each sample: list of hashables."""
        if given is not None and self.groups is not None:
            raise ValueError(f"groups were passed, but the parameter groups={self.groups!r} names them; use only one")
        if given is not None:
            given = np.asarray(given).tolist()
            if len(given) != len(found):
                raise ValueError(f"groups has {len(given)} entries for {len(found)} samples; pass one for each")
            return _check_hashable(given)
        if self.groups == "class":
            if not found.samples.has_classes:
                raise ValueError(
                    "groups='class' is for one label for each sample; pass a function from a sample to its group"
                )
            return np.asarray(y).ravel().tolist()
        if self.groups is None:
            return [None] * len(found)
        X = X.to_numpy() if hasattr(X, "to_numpy") else X
        return _check_hashable([self.groups(X[[i]] if sparse.issparse(X) else X[i]) for i in range(len(found))])

    def _thresholds(self, groups):
        """Return the threshold of each group; infinite if there are too few calibration samples, or none."""
        found = {}
        for group in dict.fromkeys(groups):
            own = np.sort(self.nonconformity_[[other == group for other in self.groups_]])
            if not len(own):
                warn_user(f"no calibration sample is of group {quoted(group)}, so its sets contain every structure")
            rank = math.ceil((len(own) + 1) * self.confidence_level - _ROUNDING)
            found[group] = float(own[rank - 1]) if rank <= len(own) else np.inf
        return found

    def _list(self, found, i, limit):
        """Return the structures of a sample whose nonconformity is within a limit, and whether there are too many."""
        most = self.max_size + 1
        size = min(_FIRST, most)
        while True:
            best = found.n_best(i, size)
            if len(best) < size or size == most or best[-1][1] > limit + _ROUNDING * (1.0 + limit):
                break
            size = min(_GROWTH * size, most)
        inside = [pair for pair in best if pair[1] <= limit]
        return inside[: self.max_size], len(inside) > self.max_size

    def __sklearn_clone__(self):
        # A clone has the same fitted estimator, without the calibration.
        return type(self)(**self.get_params(deep=False))


def _check_hashable(groups):
    """Return the groups of samples; a ValueError names the first invalid one."""
    for i, group in enumerate(groups):
        if not isinstance(group, Hashable):
            raise ValueError(f"the group of X[{i}] is {quoted(group)}; a group is a number, a str or a tuple of these")
        if group != group:
            raise ValueError(f"the group of X[{i}] is {quoted(group)}, a missing value; give this sample a group")
    return groups
