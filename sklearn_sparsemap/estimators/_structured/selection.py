"""Selected groups by name and as a mask; and a warning if only sizes decided the selection."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, NDArray
from .._fitting import warn_user
from .phases import final_state
from .schedule import samples_between

# Number of groups named in a warning.
_SHOWN = 3


class SelectedGroupsMixin:
    """What follows from `selected_groups_` and `groups_`."""

    @property
    def n_nonzero_coefs_(self) -> int:
        coef = self._current.coef
        return int(coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef))

    @property
    def selected_group_names_(self) -> list[Any]:
        names = _group_names(self)
        return [names[g] for g in self.selected_groups_]

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return the features that remain with the selected groups.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return indices instead of a mask.

        Returns
        -------
        support : bool ndarray of shape (n_features,), or int ndarray
            A feature remains if all groups that contain it are selected.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_sparsemap import GroupLassoPerceptron
        >>> X = np.random.default_rng(0).normal(size=(90, 4))
        >>> model = GroupLassoPerceptron(groups={"a": [0, 2], "b": [1, 3]}, budget=1, shrink_every=30)
        >>> model = model.fit(X, X[:, 1] + X[:, 3] > 0)
        >>> model.get_support().tolist(), model.selected_group_names_
        ([False, True, False, True], ['b'])
        """
        groups = self.groups_
        gone = np.ones(groups.n_groups, bool)
        gone[self.selected_groups_] = False
        group = np.repeat(np.arange(groups.n_groups), np.diff(groups.group_indptr))
        dead = np.zeros(groups.n_atoms, bool)
        dead[groups.group_atoms[gone[group]]] = True
        mask = ~dead[groups.atom_of]
        return np.flatnonzero(mask) if indices else mask


class SelectionMixin(SelectedGroupsMixin):
    """Attributes of `GroupLassoPerceptron` that follow from its groups."""

    @property
    def selected_groups_(self) -> NDArray[np.int64]:
        selected = np.flatnonzero(self._state("selected"))
        if self._selects and not self._state("shrunk"):
            warn_user(
                "groups have not been shrunk yet, so that selected_groups_ are all that have weights; this is done "
                f"after every shrink_every={samples_between(self)} samples, at the end of fit and by finalize()"
            )
        return selected

    @property
    def loss_curve_(self) -> Any:
        check_is_fitted(self)
        return self._losses.entries

    @property
    def group_norms_(self) -> NDArray[np.float64]:
        return self._state("norms")

    @property
    def sigma_(self) -> float:
        return float(self._state("sigma")[0])

    @property
    def implied_alpha_(self) -> float:
        return float(self._state("sigma")[1])

    @property
    def memory_curve_(self) -> NDArray[np.int64]:
        return self._state("curve")[:, 1]

    @property
    def memory_steps_(self) -> NDArray[np.int64]:
        return self._state("curve")[:, 0]

    def _state(self, name):
        """Return an attribute of the finished training or, in a stream, of the optimiser."""
        check_is_fitted(self)
        optimizer = self._learned.optimizer
        return (self._learned.final or final_state(optimizer, optimizer, self._loss))[name]


def norms_before_shrinking(estimator, task, X):
    """Return the norms of groups before the first shrinkage, if the budget depends on group sizes; else None."""
    weights = estimator.group_weights
    if not isinstance(weights, str) or weights == "uniform" or estimator._budget.groups is None:
        return None
    optimizer = estimator._new_optimizer(task.n_outputs, task.n_additional)
    estimator._configure(optimizer, len(X))
    order = np.random.RandomState(0).permutation(len(X))[: samples_between(estimator) - 1]
    if len(order):
        task.epochs(optimizer, X, remember=False)(order)
    return optimizer.group_norms()


def warn_of_sizes(estimator, norms, alive):
    """Warn of groups that the budget discards because of their weight, which grows with their size, not their norm.

    Parameters
    ----------
    estimator : GroupLassoPerceptron
    norms : array of shape (n_groups,), or None
        Before the first shrinkage.
    alive : bool array of shape (n_groups,)
        After the last one.
    """
    groups, weights = estimator.groups_, estimator.group_weights
    if norms is None or not groups.is_partition or not alive.any():
        return
    # Groups that equal weights would have kept, and these weights discarded.
    sizes = estimator.group_weights_
    ratios = np.divide(norms, sizes, out=np.where(norms > 0.0, np.inf, 0.0), where=sizes > 0.0)
    by_norm, by_ratio = (np.argsort(-values, kind="stable")[: estimator.budget] for values in (norms, ratios))
    lost = [g for g in by_norm.tolist() if norms[g] > 0.0 and not alive[g] and g not in by_ratio]
    if not lost:
        return
    names = _group_names(estimator)
    shown = ", ".join(f"{names[g]!r} ({groups.sizes[g]} features)" for g in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    kept = np.flatnonzero(alive)
    least = int(kept[norms[kept].argmin()])
    warn_user(
        f"group_weights={weights!r} discards {shown}{more} for its size only: by its norm, {norms[lost[0]]:.3g}, it is "
        f"among the {estimator.budget} strongest groups, and {names[least]!r} ({groups.sizes[least]} features), of "
        f"norm {norms[least]:.3g}, is kept; use group_weights='uniform' if that is not meant"
    )


def _group_names(estimator):
    """Return the names of the groups; those of templates come with the features."""
    names = getattr(estimator, "_template_names", None)
    if isinstance(estimator.groups, str) and names is not None:
        return list(names)
    return list(estimator.groups_.names)
