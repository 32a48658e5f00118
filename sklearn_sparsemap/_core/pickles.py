"""Pickles of estimators: they carry the version of the package, and are taken while no thread trains.

Used by `conformal`, `distributed`, `estimators`, `features` and `pipeline`.
"""

import warnings
from collections.abc import Mapping
from copy import deepcopy
from inspect import signature

from sklearn.exceptions import InconsistentVersionWarning

from .._version import __version__
from .moments import at_rest

_VERSION = "_sklearn_sparsemap_version"  # name of the version among the pickled attributes


class _OtherVersionWarning(InconsistentVersionWarning):
    """scikit-learn's warning for pickles of another version, with the name of this package."""

    def __str__(self):
        return (
            f"Trying to unpickle {self.estimator_name} of sklearn_sparsemap {self.original_sklearn_version} with "
            f"version {self.current_sklearn_version}. Results may be wrong, or errors may follow. Files of to_arrays "
            "can be read by later versions"
        )


class PickleMixin:
    """The pickled state of an estimator; also that of `copy.copy`, which therefore shares no optimiser."""

    # Parameters that could be pairs in earlier versions: name of the first value -> name of the second one.
    _former_pairs: Mapping[str, str] = {}

    @classmethod
    def _from_former(cls, values):
        """Return the parameters of an estimator that an earlier version stored, and other values, as they are now.

        A pair is replaced by two parameters. A subclass replaces parameters that no longer exist.
        """
        values = dict(values)
        defaults = signature(cls).parameters
        for first, second in cls._former_pairs.items():
            if second not in values and first in values:
                value = values[first]
                is_pair = isinstance(value, tuple | list)
                values[first] = value[0] if is_pair else value
                values[second] = value[1] if is_pair else defaults[second].default
        return values

    def __getstate__(self):
        with at_rest(self) as view:
            state = dict(super(PickleMixin, view).__getstate__())
            if getattr(state.get("_learned"), "optimizer", None) is not None:
                # The pickle is written later, when another thread may train again.
                state["_learned"] = deepcopy(state["_learned"])
        return state | {_VERSION: __version__}

    def __setstate__(self, state):
        state = self._from_former(state)
        version = state.pop(_VERSION, "without a version")
        if version != __version__:
            warnings.warn(
                _OtherVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=__version__,
                    original_sklearn_version=version,
                ),
                stacklevel=2,
            )
        super().__setstate__(state)
