"""ConformalStructures: split conformal prediction of sets of structures.

Used by `plotting`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError, StrOptions

from .._core.annotations import Any, ArrayLike, Callable, NDArray, Self
from .._core.doc_link import DocLinkMixin
from .._core.errors import SampleError
from .._core.export import ArraysMixin
from .._core.moments import in_one_step, whole
from .._core.pickles import PickleMixin
from .._core.sklearn_bases import BaseEstimator
from .._core.tables import by_samples
from .._core.unwrap import transformed, unwrap_whole
from .._core.validation import FRACTION, POSITIVE_INT, check_parameters, first_of, keep_text, quoted
from ..estimators._face import face_of
from ..estimators._failures import warn_user
from ._scores import SCORES, NonconformityWithEmpty

# Length of the first list of structures of a sample, and the factor by which it grows while all of them are in the set.
_FIRST, _GROWTH = 8, 4
# Rounding of sums and of (n + 1) * confidence_level, relative to their size.
_ROUNDING = 1e-9  # plotting/_coverage.py computes the same rank; change both together


class ConformalStructures(ArraysMixin, DocLinkMixin, PickleMixin, BaseEstimator):
    """Sets of structures that contain the true structure with a chosen probability.

    Split conformal prediction [1]_ around a fitted model. Each structure has a nonconformity, which is small if the
    model finds it plausible. `conformalize` computes that of true structures of samples that the model was not trained
    with. The set of a new sample consists of all structures whose nonconformity is at most a quantile of these. If
    calibration samples and new ones are exchangeable, the true structure is in the set with a probability of at least
    `confidence_level`, whatever the model.

    Parameters
    ----------
    fitted_estimator : estimator
        A fitted `StructuredSparseMAPClassifier`, `GroupLassoPerceptron` or `MultilabelLPSparseMAP`; or a pipeline or a
        search around one.
    confidence_level : float or list of float, default=0.9
        Probability that the set contains the true structure, between 0 and 1. Larger values make larger sets. It may be
        changed after calibration. A list, with ``risk="parts"`` only, gives sets for several levels in one call.
    max_size : int, default=1000
        Maximum number of structures that `predict_set` lists for a sample. A larger set is cut, with a warning; the
        level does not hold for cut lists. `covers` is about the uncut sets.
    score : {"reduced_cost", "log_loss"}, default="reduced_cost"
        The nonconformity.

        - ``"reduced_cost"``: the distance of a structure from the best one under the scores minus half of the SparseMAP
          marginals. It is zero for the best structure, so that no set is empty.
        - ``"log_loss"``: minus the logarithm of the probability. For structures, that of the Gibbs distribution of
          models trained with crf or margin_crf. For label sets, the labels are independent, with the log odds of
          `predict_proba`, over the sets that a tree of labels allows. Sets can be empty.
    groups : callable or "class", default=None
        A function from a sample, an element of X, to its group, such as a bin of lengths. A row of a DataFrame is a
        Series by column name, or a dict if the table is of polars. Each group has a threshold of its own, so that the
        level holds within each of them (Mondrian calibration). ``"class"``, for one label a sample: the level holds for
        each class. Groups can also be passed to the methods, as an array.
    risk : {"structure", "parts"}, default="structure"
        The error whose mean is at most ``1 - confidence_level``.

        - ``"structure"``: the true structure is not in the set.
        - ``"parts"``: the fraction of the parts of the true structure, such as tags or the labels of a set, that are
          not in the set [2]_; see `missed`. The set of a sample is a set of parts, such as a few labels for each step.

    Attributes
    ----------
    nonconformity_ : ndarray of shape (n_samples,)
        Nonconformity of the true structures of the calibration samples; infinite for those that the model cannot
        predict.
    groups_ : list of length n_samples
        The group of each calibration sample; None without groups.
    part_nonconformity_ : list of ndarray
        With ``risk="parts"``, the least nonconformity of any structure with each part of the true structure.
    threshold_ : float, or dict of group -> float
        The largest nonconformity in a set. Infinite if the calibration samples are too few. For a list of levels, an
        array with one for each.
    truncated_ : bool ndarray of shape (n_samples,)
        Which lists of the latest `predict_set` were cut at `max_size`, and are only a part of the set.

    See Also
    --------
    sklearn_sparsemap.plotting.ConformalCoverageDisplay : Coverage and sizes by confidence level.
    sklearn_sparsemap.n_best : The best structures, without a level.

    Notes
    -----
    The threshold is the calibration score of rank ``ceil((n + 1) * confidence_level)``. Coverage is then between the
    level and the level plus ``1 / (n + 1)``, unless nonconformities tie. All structures that are best have a reduced
    cost of zero. So if the model predicts a larger fraction of samples correctly than `confidence_level`, most sets
    have one structure, and the coverage is that fraction.

    **Reduced costs.** Let s be the scores over the temperature, and u the SparseMAP marginals. Under the scores s - u
    all structures of the face that u is in are best, whose reduced cost is zero, and they are many in uncertain
    samples. Half of u breaks these ties by the scores themselves. The temperature is that of the estimator, which was
    chosen in training, so all calibration samples are left for the threshold.

    **Hierarchies.** The set of a sample consists of coherent label sets, each of which contains the ancestors of its
    labels. Its members that are subsets of others are the coarse answers.

    **What cannot be predicted.** A label that the model does not know, labels that violate its constraints, assignments
    that violate factors, and trees that its structure does not allow (`DependencyTree.misfits`) are in no set. In
    calibration they count as not covered.

    Lists are those of `n_best`, with a few structures at first, and more until one is outside the set. Label sets with
    edges, or with constraints other than a tree of labels, and factor graphs are searched for one at a time: choose a
    small `max_size`.

    References
    ----------
    .. [1] Vovk, Gammerman and Shafer. Algorithmic Learning in a Random World. Springer, 2005.
    .. [2] Angelopoulos, Bates, Fisch, Lei and Schuster. Conformal Risk Control. ICLR 2024.

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
        "confidence_level": [FRACTION, "array-like"],
        "max_size": [POSITIVE_INT],
        "score": [StrOptions(set(SCORES))],
        "groups": [callable, StrOptions({"class"}), None],
        "risk": [StrOptions({"structure", "parts"})],
    }

    truncated_: NDArray[np.bool_]

    def __init__(
        self,
        fitted_estimator: Any,
        confidence_level: float | ArrayLike = 0.9,
        max_size: int = 1000,
        score: Literal["reduced_cost", "log_loss"] = "reduced_cost",
        groups: Callable[[Any], Any] | Literal["class"] | None = None,
        risk: Literal["structure", "parts"] = "structure",
    ) -> None:
        self.fitted_estimator = fitted_estimator
        self.confidence_level = confidence_level
        self.max_size = max_size
        self.score = score
        self.groups = groups
        self.risk = risk

    @in_one_step
    def conformalize(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Compute the nonconformity of true structures.

        Parameters
        ----------
        X, y : as the estimator's `fit` takes them
            Samples that the estimator was not fitted with.
        groups : array-like of shape (n_samples,), default=None
            The group of each sample, if the parameter `groups` is None. It must then be passed to the other methods,
            too. If it and X have an index, it is put in the order of X.

        Returns
        -------
        self : ConformalStructures

        Raises
        ------
        ValueError
            If the estimator is not fitted or none of this package, a parameter is out of range, or the data are not as
            described.

        Warns
        -----
        UserWarning
            If the samples, or those of a group, are too few for the level, or if too many have structures that the
            model cannot predict. Sets then contain every structure.
        """
        self._check_parameters()
        self._check_given(groups)
        found = self._nonconformity(X)
        nonconformity = found.of_gold(y)
        of_parts = found.of_parts(y) if self.risk == "parts" else None
        of_samples = self._groups_of(found, X, groups, y)
        if isinstance(found, NonconformityWithEmpty):
            kept = np.flatnonzero(~found.batch.is_empty)
            warn_user(f"samples without steps are left out: {len(found) - len(kept)} of {len(found)}")
            nonconformity = nonconformity[kept]
            of_samples = [of_samples[i] for i in kept]
            of_parts = None if of_parts is None else [of_parts[i] for i in kept]
        self.nonconformity_ = nonconformity
        self.groups_ = of_samples
        self._by_array = groups is not None
        self._weights = found.face.learned.sums()
        vars(self).pop("part_nonconformity_", None)
        if of_parts is not None:
            self.part_nonconformity_ = of_parts
        level = np.max(self.confidence_level)
        needed = math.ceil(level / (1.0 - level) - _ROUNDING)
        thresholds = self._thresholds(of_samples)
        for group, n in Counter(of_samples).items():
            of_group = "" if group is None else f" of group {group!r}"
            if n < needed:
                warn_user(
                    f"confidence_level={level} needs at least {needed} calibration samples{of_group}, and there are {n}"
                    ", so that sets contain every structure; add samples, or lower the level"
                )
            elif np.max(thresholds[group]) == np.inf:
                unknown = sum(cost == np.inf and own == group for cost, own in zip(nonconformity, of_samples))
                warn_user(
                    f"the model cannot predict the structures of {unknown} of {n} calibration samples{of_group}, such "
                    f"as labels absent from its training, too many for confidence_level={level}, so that sets contain "
                    "every structure; train with samples of all labels, add samples, or lower the level"
                )
        return self

    @property
    def threshold_(self) -> Any:
        self._check_fitted()
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
        self = whole(self)
        self._check_parameters()
        return self._nonconformity(X).of_gold(y)

    def covers(self, X: Any, y: Any, groups: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Tell whether structures are in the sets of their samples, without listing the sets.

        The sets are the uncut ones, so a structure may be covered and be absent from a list that `predict_set` cuts at
        `max_size`. With ``risk="parts"``, the level is about `missed`. `covers` then tells whether the nonconformity of
        the whole structure is within the threshold, and its mean can be far below the level.

        Parameters
        ----------
        X, y, groups : as in `conformalize`

        Returns
        -------
        covered : bool ndarray of shape (n_samples,), or (n_samples, n_levels) for a list of levels
        """
        self = whole(self)
        found, limits = self._limits(X, y, groups)
        nonconformity = found.of_gold(y)
        covered = (nonconformity <= limits.T) & np.isfinite(nonconformity)
        return covered.T

    def missed(self, X: Any, y: Any, groups: ArrayLike | None = None) -> NDArray[np.float64]:
        """Compute the fraction of the parts of structures that are outside the sets, without listing these.

        Parameters
        ----------
        X, y, groups : as in `conformalize`

        Returns
        -------
        missed : ndarray of shape (n_samples,), or (n_samples, n_levels) for a list of levels
            1 for structures that the model cannot predict.

        Raises
        ------
        ValueError
            For structures that repeat parts.
        """
        self = whole(self)
        found, limits = self._limits(X, y, groups)
        missed = np.zeros(limits.shape)
        for i, (own, limit) in enumerate(zip(found.of_parts(y), limits)):
            if len(own):
                outside = (own > np.expand_dims(limit, -1)) | (own == np.inf)
                missed[i] = outside.mean(axis=-1).reshape(limits.shape[1:])
        return missed

    def _limits(self, X, y, groups):
        """Return the `Nonconformity` of samples, and the threshold of each."""
        self._check_fitted()
        self._check_given(groups, self._by_array)
        found = self._nonconformity(X)
        self._warn_if_refitted(found.face)
        of_samples = self._groups_of(found, X, groups, y)
        thresholds = self._thresholds(of_samples)
        return found, _with_rounding(np.array([thresholds[group] for group in of_samples]))

    def predict_set(self, X: Any, groups: ArrayLike | None = None) -> list[Any]:
        """List the structures, or with ``risk="parts"`` mark the parts, in the set of each sample.

        Parameters
        ----------
        X, groups : as in `conformalize`

        Returns
        -------
        sets : list of lists of (structure, nonconformity), or list of bool ndarray
            For each sample the structure of least nonconformity first, at most `max_size`. A structure is as `predict`
            of the estimator returns it. With ``risk="parts"``, for each sample an array in the shape of its marginals,
            such as (n_steps, n_classes), which is True for the parts in the set; for a list of levels, with one more
            axis for these.

        Warns
        -----
        UserWarning
            If lists are cut at `max_size`. They may contain the true structure less often than the level says;
            `truncated_` tells which lists are cut. Also if no calibration sample is of the group of a sample, or the
            estimator was fitted again after `conformalize`.
        """
        self = whole(self)
        sets = list_sets(self, X, groups)
        if not hasattr(self, "part_nonconformity_") and self.truncated_.any():
            warn_user(
                f"{np.count_nonzero(self.truncated_)} of {len(sets)} lists are cut at max_size={self.max_size} "
                "(truncated_ tells which), so that the lists do not keep the level; choose a larger max_size, a lower "
                "confidence_level, or sets of parts, such as labels, with risk='parts'"
            )
        return sets

    def _parts_within(self, nonconformity, of_samples, thresholds):
        """Return the parts of each sample whose nonconformity is within its threshold; see `predict_set`."""
        several = np.ndim(self.confidence_level) > 0
        sets = []

        def inside(costs):
            costs = costs[..., None] if several else costs
            return (costs <= limits) & (costs < np.inf)

        for costs, group in zip(nonconformity.of_all_parts(), of_samples):
            if self.groups == "class":
                classes = nonconformity.face.classes.tolist()
                none = np.full(np.shape(self.confidence_level), np.inf)
                limits = _with_rounding(np.array([thresholds.get(each, none) for each in classes]))
            else:
                limits = _with_rounding(thresholds[group])
            sets.append({k: inside(v) for k, v in costs.items()} if isinstance(costs, dict) else inside(costs))
        return sets

    def _nonconformity(self, X):
        """Return the `Nonconformity` of samples."""
        steps, model = unwrap_whole(self.fitted_estimator)
        face = face_of(model)
        if face is None:
            raise ValueError(
                "ConformalStructures is for StructuredSparseMAPClassifier, GroupLassoPerceptron and "
                "MultilabelLPSparseMAP, and pipelines and searches that contain them; got "
                f"{type(model).__name__}" + ("; pass its estimator_" if hasattr(model, "estimator_") else "")
            )
        argmax, score = SCORES[self.score]
        batch = face.problems(transformed(steps, X), argmax, "score='log_loss'")
        # Sets are exact, and searched for as long as it takes.
        batch.task.map_time_limit = None
        if not batch.is_empty.any():
            with face.named_errors(batch):
                return score(face, batch)
        if batch.is_empty.all():
            return NonconformityWithEmpty(face, batch, None)
        with face.named_errors(batch):
            return NonconformityWithEmpty(face, batch, score(face, batch))

    def _warn_if_refitted(self, face):
        """Warn if the weights of the model are not those of the calibration; its thresholds then say nothing."""
        found = face.learned.sums()
        known = getattr(self, "_weights", None)
        # Files of earlier versions lack this attribute.
        if known is None or (
            len(found) == len(known) and np.allclose(found, known, _ROUNDING, _ROUNDING * np.max(np.abs(known)))
        ):
            return
        warn_user(
            "the estimator was fitted again after conformalize, so the sets do not keep the level; call conformalize "
            "with samples that it was not fitted with"
        )

    def _check_fitted(self):
        if not hasattr(self, "nonconformity_"):
            raise NotFittedError("this ConformalStructures is not calibrated yet; call conformalize")
        self._check_parameters()

    def _check_parameters(self):
        if hasattr(self.groups, "__len__") and not isinstance(self.groups, str):
            given = np.ravel(np.asarray(self.groups, object)).tolist()
            raise InvalidParameterError(
                "the parameter groups is a function from a sample to its group; pass an array to the methods, as in "
                "conformalize(X, y, groups=...) and predict_set(X, groups=...). Got "
                f"{first_of(list(map(quoted, given)))}"
            )
        check_parameters(self, self._parameter_constraints)
        levels = np.asarray(self.confidence_level)
        if levels.ndim == 0:
            return
        if self.risk != "parts":
            raise ValueError("several levels of confidence are for risk='parts'; pass one level, or set risk='parts'")
        if levels.ndim != 1 or not len(levels) or levels.dtype.kind != "f" or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"confidence_level must be between 0 and 1, or a list of such; got {first_of(levels)}")

    def _check_given(self, groups, by_array=None):
        """Raise ValueError if groups are passed although the parameter names them, or unless `by_array` says so.

        `by_array` tells whether groups were passed to `conformalize`; None in `conformalize` itself.
        """
        if groups is not None and self.groups is not None:
            raise ValueError(
                "groups were passed, but the parameter groups names them already; leave them out here: use only one"
            )
        if by_array is not None and by_array != (groups is not None):
            raise ValueError(
                "groups must be passed, because they were passed to conformalize; one for each sample"
                if by_array
                else "groups were not passed to conformalize, which has to be called with groups, too"
            )

    def _groups_of(self, nonconformity, X, given, y=None):
        """Return the group of each sample: list of hashables."""
        if given is not None:
            given = np.asarray(by_samples(given, X, "groups")).tolist()
            if len(given) != len(nonconformity):
                raise ValueError(f"groups has {len(given)} entries for {len(nonconformity)} samples; pass one for each")
            return _check_hashable(given)
        if self.groups == "class":
            if nonconformity.face.classes is None:
                raise ValueError("groups='class' is for one label a sample; pass a function from a sample to its group")
            return np.asarray(keep_text(y)).ravel().tolist()
        if self.groups is None:
            return [None] * len(nonconformity)
        return _check_hashable([self.groups(sample) for sample in _elements(X, len(nonconformity))])

    def _thresholds(self, groups):
        """Return the threshold of each group; infinite if there are too few calibration samples, or none."""
        found = {}
        # A calibration has parts only if the parameter `risk` had this value.
        rows = getattr(self, "part_nonconformity_", self.nonconformity_[:, None])
        for group in dict.fromkeys(groups):
            own = [rows[i] for i, other in enumerate(self.groups_) if other == group]
            if not own:
                warn_user(
                    f"no calibration sample is of group {quoted(group)}, so that its sets contain every structure"
                )
            # The mean risk of these samples and one more, for which it is 1, may be at most 1 - confidence_level.
            most = (len(own) + 1) * (1.0 - np.asarray(self.confidence_level) + _ROUNDING) - 1.0
            found[group] = _least_thresholds(own, most)
        return found

    def _lists(self, nonconformity, limits, most):
        """Return the best structures of each sample: those within its limit and one more, at most `most`."""
        lists = [None] * len(nonconformity)
        left = list(range(len(nonconformity)))
        size = min(_FIRST, most)
        while left:
            for i, own in zip(left, nonconformity.n_best(left, size)):
                lists[i] = own
            left = [i for i in left if size < most and len(lists[i]) == size and lists[i][-1][1] <= limits[i]]
            size = min(_GROWTH * size, most)
        return lists

    def _restore(self, fitted, learned):
        super()._restore(fitted, learned)
        self._check_fitted()
        rows = [self.nonconformity_, *getattr(self, "part_nonconformity_", [])]
        for row in rows:
            if not isinstance(row, np.ndarray) or row.dtype != np.float64 or row.ndim != 1 or np.isnan(row).any():
                raise ValueError("nonconformities must be arrays of float64 with one axis, without NaN")
        n = len(rows[0])
        if type(self._by_array) is not bool or len(_check_hashable(self.groups_)) != n or len(rows) not in (1, n + 1):
            raise ValueError(f"there must be a group of each of {n} calibration samples, and an array of its parts")

    def __sklearn_clone__(self):
        # The fitted estimator is what is calibrated, so that a clone has the same one, without a calibration.
        return type(self)(**self.get_params(deep=False))


def list_sets(conformal, X, groups):
    """Return the sets of `ConformalStructures.predict_set`, without a warning of cut lists."""
    conformal._check_fitted()
    conformal._check_given(groups, conformal._by_array)
    found = conformal._nonconformity(X)
    conformal._warn_if_refitted(found.face)
    by_class = conformal.groups == "class"
    of_samples = [None] * len(found) if by_class else conformal._groups_of(found, X, groups)
    thresholds = conformal.threshold_ if by_class else conformal._thresholds(of_samples)
    if hasattr(conformal, "part_nonconformity_"):
        return conformal._parts_within(found, of_samples, thresholds)
    if by_class:
        # A class beyond the threshold of its own may come before others that are in the set, so all are listed.
        limit_of = {group: _with_rounding(threshold) for group, threshold in thresholds.items()}
        lists = conformal._lists(found, [np.inf] * len(found), len(found.face.classes))
        sets = [[pair for pair in own if pair[1] <= limit_of.get(pair[0], np.inf)] for own in lists]
    else:
        limits = [_with_rounding(thresholds[group]) for group in of_samples]
        lists = conformal._lists(found, limits, conformal.max_size + 1)
        sets = [[pair for pair in own if pair[1] <= limit] for own, limit in zip(lists, limits)]
    conformal.truncated_ = np.array([len(own) > conformal.max_size for own in sets], bool)
    return [own[: conformal.max_size] for own in sets]


def _elements(X, n_samples):
    """Return the samples of X one by one: a row of a table keeps the names of its columns."""
    if hasattr(X, "iloc"):
        return [X.iloc[i] for i in range(n_samples)]
    if hasattr(X, "iter_rows"):
        # A table of polars, whose rows are no Series.
        return X.iter_rows(named=True)
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    return [X[[i]] if sparse.issparse(X) else X[i] for i in range(n_samples)]


def _with_rounding(threshold):
    """Return a threshold, raised by rounding errors.

    The nonconformity of a sample that equals a calibration sample differs in the last digits if it is computed in
    another batch.
    """
    return threshold + _ROUNDING * (1.0 + abs(threshold))


def _least_thresholds(samples, most):
    """Return the least values at which the total risk is at most `most`: a float, or an array like `most`.

    The risk of a sample is the fraction of its values above the threshold.
    """
    values = np.concatenate([*samples, np.zeros(0)])
    lengths = np.fromiter(map(len, samples), np.int64, len(samples))
    weights = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
    order = np.argsort(values, kind="stable")
    above = weights.sum() - np.cumsum(weights[order])
    # The total falls with the threshold.
    least = np.append(values[order], np.inf)[np.searchsorted(-above, -most)]
    return float(least) if np.ndim(most) == 0 else least


def _check_hashable(groups):
    """Return the groups of samples; a ValueError names the first that cannot be one."""
    for i, group in enumerate(groups):
        if not isinstance(group, Hashable):
            raise SampleError(
                "X", i, "the group of ", f" is {quoted(group)}; a group is a number, a str or a tuple of these"
            )
        if group != group:
            raise SampleError(
                "X", i, "the group of ", f" is {quoted(group)}, a missing value; give this sample a group"
            )
    return groups
